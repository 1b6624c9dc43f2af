"""What to type next: commands in the words of this one, for the lines that say how to go on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command was told, as far as the next one has to be told it too."""

    spec: str
    """``FILE:graph``."""
    checkpointer: str | None = None
    """The URL of a saver."""
    thread_id: str | None = None

    def command(self, verb: str, *more: str) -> str:
        """Another command on the same graph and thread; ``--thread`` is left out where no thread is named."""
        words = ["juncture", verb, self.spec]
        if self.thread_id is not None:
            words += ["--thread", self.thread_id]
        if self.checkpointer is not None:  # a server's may hold a password
            on_disk = self.checkpointer.startswith(("sqlite:", "file:"))
            words += ["--checkpointer", self.checkpointer if on_disk else "URL"]
        return shlex.join([*words, *more])

    def of_all(self) -> Typed:
        """The same without a thread."""
        return Typed(self.spec, self.checkpointer)

    def of(self, thread_id: str) -> Typed:
        """The same for another thread."""
        return Typed(self.spec, self.checkpointer, thread_id)
