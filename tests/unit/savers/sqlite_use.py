"""What the tests of SQLite do with a saver, in this process and in others."""

import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

from juncture.savers import StoredRecord
from juncture.testing.saver_conformance import checkpoint

RECORD = StoredRecord("a", "done", "", b"content")


def put(saver, seq, thread_id="t", *, payload=b"payload", **options):
    follows = checkpoint(seq - 1, thread_id=thread_id).checkpoint_id if seq > 1 else None
    saver.put(checkpoint(seq, thread_id=thread_id), payload, follows=follows, **options)


def seqs(saver, thread_id="t"):
    return [found.checkpoint.seq for found in saver.history(thread_id)]


def connection_of(saver, synchronous="NORMAL"):
    """The saver's own connection, to limit it, to watch it, or to see how it is set."""
    saver.load("anything")
    return saver._database._open[synchronous, True]


def query(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


class Script:
    """A process that runs these lines, with the saver's classes and the helpers of this file at hand."""

    HEAD = """
        import os, sys, threading
        from juncture.errors import *
        from juncture.savers import Lease, StoredRecord
        from juncture.savers.sqlite import SqliteSaver
        from juncture.testing.saver_conformance import checkpoint

        def put(saver, seq, thread_id="t", payload=b"payload"):
            follows = checkpoint(seq - 1, thread_id=thread_id).checkpoint_id if seq > 1 else None
            saver.put(checkpoint(seq, thread_id=thread_id), payload, follows=follows)

        path = sys.argv[1]
        print("ready", flush=True)
        sys.stdin.readline()
    """

    def __init__(self, path, body):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                "-c",
                textwrap.dedent(self.HEAD) + textwrap.dedent(body),
                str(path),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def ended(self):
        """What it printed."""
        out = self.process.stdout.read()
        _, err = self.process.communicate(timeout=50)
        assert self.process.returncode == 0, err
        return out.split()
