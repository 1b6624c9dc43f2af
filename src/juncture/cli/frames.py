"""Where in a user's code something happened, in one line instead of a traceback."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from traceback import FrameSummary
from types import TracebackType
from typing import Final

import juncture

_OURS: Final = str(Path(juncture.__file__).parent)


def shown_path(path: str | Path) -> str:
    """A path as a person would type it here: relative to the working directory, if it lies beneath it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)


def user_frame(trace: TracebackType | None) -> FrameSummary | None:
    """The innermost frame in a user's code: not in this package, nor in installed ones, nor in Python's own."""
    paths = sysconfig.get_paths()
    foreign = (_OURS, "<frozen ", *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
    own = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(foreign)]
    return own[-1] if own else None


def place_of(error: BaseException) -> str:
    """``file:line, in function`` of the innermost frame in a user's code; empty if there is none."""
    frame = user_frame(error.__traceback__)
    if frame is None:
        return ""
    within = "" if frame.name == "<module>" else f", in {frame.name}"
    return f"{shown_path(frame.filename)}:{frame.lineno}{within}"
