"""Functions as tasks: calls inside a node whose results are recorded."""

from juncture.functional.task import task

__all__ = ["task"]
