"""Functions as tasks, whose calls are recorded, and functions as whole graphs."""

from juncture.functional.entrypoint import Entrypoint, entrypoint
from juncture.functional.gather import Gathered, gather
from juncture.functional.task import task

__all__ = ["Entrypoint", "Gathered", "entrypoint", "gather", "task"]
