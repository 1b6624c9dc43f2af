"""What a child does (see `tests.faults.children`): runs the graph of `tests.faults.graph` and tells of it."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from juncture.savers import FileSaver, PostgresSaver, RedisSaver, SqliteSaver, open_saver
from tests.faults.children import Job
from tests.faults.graph import INPUT, bring_to_end, build

IMPORTED = (FileSaver, PostgresSaver, RedisSaver, SqliteSaver)
"""So that forked children have them."""


class Tells:
    """Tells the parent of effects, once they are in the log."""

    def __init__(self, job: Job, pipe: Connection) -> None:
        self._job, self._pipe = job, pipe
        self._lock = threading.Lock()
        self._log = os.open(job.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if job.effects else None

    @contextmanager
    def probe(self, key: str) -> Iterator[None]:
        self._tell("begin", key)
        yield
        if key == self._job.gate:
            self.send("at", key)
            self.wait()
        self._tell("end", key)

    def _tell(self, what: str, key: str) -> None:
        if self._log is not None:  # one write, whole or not there; what a killed process wrote stays
            os.write(self._log, f"{os.getpid()} {what} {key}\n".encode())
        self.send(what, key)

    def send(self, *event: Any) -> None:
        with self._lock:
            self._pipe.send(event)

    def wait(self) -> None:
        assert self._pipe.recv() == "go"


def work(job: Job, pipe: Connection) -> None:
    """Does a job, and tells how it ended."""
    tells = Tells(job, pipe)
    try:
        saver = open_saver(job.url)
        saver.lease_ttl = job.lease_ttl
        graph = build(tells.probe, checkpointer=saver)
        if job.wait:
            tells.send("ready")
            tells.wait()
        if job.room:
            without_room(job, graph, tells)
        result = do(job, graph)
        saver.close()
    except Exception as error:
        tells.send("failed", *described(error))
    else:
        tells.send("over", result)


def without_room(job: Job, graph: Any, tells: Tells) -> None:
    """Does the job while there is only so much room, tells how that failed, and waits until there is more."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (job.room, usual[1]))
    try:
        do(job, graph)
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        tells.send("no room", *described(error))
        tells.wait()


def described(error: Exception) -> tuple[str, str]:
    """The kind of an exception, and its text with its notes."""
    return type(error).__name__, "\n".join([str(error), *getattr(error, "__notes__", ())])


def do(job: Job, graph: Any) -> Any:
    invoke, recover = methods(job, graph)
    options = {"durability": job.durability}
    if job.room:
        options["on_busy"] = "wait"  # for its own lease, which it had no room to give back
    match job.how:
        case "once":
            return dict(invoke(INPUT, thread_id=job.thread, **options))
        case "sweep":
            return [
                (found.thread_id, found.result is not None, found.error and repr(found.error))
                for found in recover(**options)
            ]
        case "recover":
            for found in recover([job.thread], **options):
                if found.error is not None:
                    raise found.error
        case _:
            pass
    return bring_to_end(graph, job.thread, invoke, **options)


def methods(job: Job, graph: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`invoke` and `recover` of the driver that is wanted."""
    if job.driver == "sync":
        return graph.invoke, graph.recover
    return (
        lambda *args, **options: asyncio.run(graph.ainvoke(*args, **options)),
        lambda *args, **options: asyncio.run(graph.arecover(*args, **options)),
    )
