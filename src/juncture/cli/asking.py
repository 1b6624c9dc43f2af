"""Asking whoever sits at the terminal.

Ctrl-C is heard whenever it comes. A plain `input` misses one that comes right before it reads, and waits on.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import ExitStack
from typing import TextIO


def ask(prompt: str, on: TextIO) -> str | None:
    """Prints a prompt, and waits for a line; without the space around it. None at the end of input.

    Raises:
        KeyboardInterrupt: Ctrl-C, where its handler raises it.
    """
    with ExitStack() as ends:
        heard, hear = os.pipe()
        ends.callback(os.close, heard)
        ends.callback(os.close, hear)
        os.set_blocking(hear, False)
        before = signal.set_wakeup_fd(hear, warn_on_full_buffer=False)
        ends.callback(signal.set_wakeup_fd, before)
        print(prompt, end="", file=on, flush=True)
        while sys.stdin not in select.select([sys.stdin, heard], [], [])[0]:
            os.read(heard, 4096)  # a signal that didn't end it
        line = sys.stdin.readline()
    return line.strip() if line else None
