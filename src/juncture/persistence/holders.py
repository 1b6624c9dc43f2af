"""Who holds a lease: this process, told so that another process can find out whether it still lives.

A holder is a text: ``process 4711 on host web-1 (started 88214, system 6f0a…)``. Where the other process runs on the
same system (the same boot of the same kernel, and the same namespace of process ids), it can look: if there is no
process of that number, or one that was started at another time, the holder is dead, and its lease can be had at once
instead of when it runs out. Where that can't be known, nobody is thought dead.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_HOLDER = re.compile(r"process (\d+) on host .* \(started (\d+), system (\S+)\)(?:, which .*)?", re.DOTALL)


def this_holder(doing: str = "runs it") -> str:
    """This process, as a holder of leases, and what it does with the thread."""
    return f"{_holder(os.getpid())}, which {doing}"


@lru_cache(maxsize=1)
def _holder(pid: int) -> str:
    import socket  # here: it is slow to import

    return f"process {pid} on host {socket.gethostname()} (started {_started(pid) or 0}, system {_system()})"


def is_dead(holder: str) -> bool:
    """Whether the process that a holder names is known to have ended."""
    told = _HOLDER.fullmatch(holder)
    if told is None:
        return False
    pid, started, system = int(told[1]), int(told[2]), told[3]
    if system != _system() or system == "unknown":
        return False
    try:
        os.kill(pid, 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except OSError:
        pass  # there is one, of another user
    now = _started(pid)
    return now is not None and now != started


@lru_cache(maxsize=1)
def _system() -> str:
    """What tells one running kernel and namespace of process ids from every other; ``unknown`` where it can't be had."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return "unknown"
    return f"{boot}/{space}"


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; 0 if it ended and only waits to be read, None if it can't be told."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = line.rpartition(")")[2].split()
    return 0 if state in "ZX" else int(fields[18])
