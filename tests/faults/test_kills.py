"""A process killed with ``kill -9`` at any moment loses nothing that was saved, and another goes on where it was.

Each thread is run by a process that is killed at a random moment, then by another, which is killed as well, and so on,
until one comes to the end. After each kill the test looks at what is saved, and in the end it looks at everything that
was ever done. Where a kill strikes is drawn with fixed seeds: after so many effects, and so many microseconds. What
the process is doing just then is up to the machine; what has to hold doesn't depend on it.

About a hundred kills; a thousand where `JUNCTURE_DEEP` is set.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from juncture import InMemorySaver
from juncture.savers import open_saver
from tests.faults.children import Job, child, effects_of
from tests.faults.graph import BEFORE, INPUT, bring_to_end, build, saved_effects

DEEP = bool(os.environ.get("JUNCTURE_DEEP"))
pytestmark = pytest.mark.timeout(3600 if DEEP else 240)
KILLS = {"sqlite": 40, "postgres": 40, "file": 20}
LANES = 4
"""Threads (of the saver) that are run and killed at once; more processes than the machine has cores."""
LONGEST = 0.004
"""Seconds between the last effect that is waited for and the kill: about what a step takes."""
MOST_EFFECTS = {"sync": 24, "async": 24, "exit": 100}
"""How many effects are waited for at most. A run has about 110, 60 before the first pause, where `exit` saves."""


@cache
def undisturbed() -> dict[str, Any]:
    """The final state of a run that nobody kills."""
    graph = build(checkpointer=InMemorySaver())
    return bring_to_end(graph, "t", graph.invoke)


@dataclass
class Killed:
    """What was known right after a kill."""

    ran: int
    """How many lines the log of effects had."""
    saved: set[str] = field(default_factory=set)


class Lane:
    """Threads of one saver, run and killed one after the other."""

    def __init__(self, kind: str, url: str, folder: Path, number: int) -> None:
        self.kind, self.url, self.folder, self.number = kind, url, folder, number
        self.saver = open_saver(url)
        self.graph = build(checkpointer=self.saver)
        self.kills = 0

    def go(self, kills: int) -> int:
        """Kills until it was so often; how often a process was killed."""
        round_ = 0
        try:
            while self.kills < kills:
                self.thread(f"{self.kind}-{self.number}-{round_}", kills)
                round_ += 1
        finally:
            self.saver.close()
        return self.kills

    def thread(self, thread: str, kills: int) -> None:
        """One thread, to its end."""
        dice = random.Random(thread)
        log = self.folder / thread
        durability = dice.choices(("sync", "async", "exit"), (6, 3, 1))[0]
        killed: list[Killed] = []
        while True:
            job = Job(
                self.url,
                thread,
                dice.choice(("run", "recover")),
                str(log),
                dice.choice(("sync", "async")),
                durability,
            )
            with child(job) as running:
                if self.kills >= kills or not strikes(running, dice, MOST_EFFECTS[durability]):
                    assert running.result() == undisturbed()
                    break
            self.kills += 1
            killed.append(Killed(len(effects_of(log)), saved_effects(self.graph, thread)))
        self.check(thread, log, killed, durability)

    def check(self, thread: str, log: Path, killed: list[Killed], durability: str) -> None:
        effects = effects_of(log)
        again = {
            (place, key)
            for place, one in enumerate(killed)
            for _, _, key in effects[one.ran :]
            if key in one.saved
        }
        assert again == set(), f"{thread}: saved when it was killed, and done again"
        if durability == "sync":
            begun = 0
            for place, one in enumerate(killed):
                for _, _, key in effects[begun : one.ran]:
                    missing = BEFORE[key] - one.saved
                    assert not missing, f"{thread}: {key} began, and {missing} wasn't saved at kill {place}"
                begun = one.ran
        done = Counter(key for _, what, key in effects if what == "end")
        assert done.keys() == BEFORE.keys()
        snapshot = self.graph.get_state(thread)
        assert dict(snapshot.values) == undisturbed()
        assert (snapshot.next, snapshot.interrupts) == ((), ())
        history = list(self.graph.get_state_history(thread))
        steps = [one.metadata["step"] for one in history]
        assert steps == sorted(set(steps), reverse=True)
        for newer, older in pairwise(history):
            assert newer.parent_config == older.config
            assert newer.values["log"][: len(older.values["log"])] == older.values["log"]
        self.graph.recover([thread])  # one that was killed after its last save didn't give the thread back
        assert thread not in {lease.thread_id for lease in self.saver.leases()}


def strikes(running: Any, dice: random.Random, most_effects: int) -> bool:
    """Kills a process some time after some effect; False if it came to its end before."""
    for _ in range(dice.randrange(most_effects)):
        event = running.told()
        if event is None or event[0] in {"over", "failed"}:
            assert event is not None
            assert event[0] == "over", "\n".join(event[1:])
            assert event[1] == undisturbed()
            break
    time.sleep(dice.random() * LONGEST)  # the moment is random, not waited for
    return running.kill()


@pytest.mark.parametrize("kind", list(KILLS))
def test_whenever_a_process_is_killed_nothing_saved_is_lost_or_done_twice(kind, tmp_path, request):
    place = str(request.getfixturevalue("postgres_url")) if kind == "postgres" else None
    each = KILLS[kind] * (10 if DEEP else 1) // LANES
    lanes = []
    for number in range(LANES):
        folder = tmp_path / str(number)
        folder.mkdir()
        url = (
            place or f"{kind}:{folder / 'saved'}"
        )  # a file for each, so that the killed was the only one to write
        lanes.append(Lane(kind, url, folder, number))
    with ThreadPoolExecutor(LANES) as pool:
        kills = list(pool.map(lambda lane: lane.go(each), lanes))
    assert kills == [each] * LANES
    assert undisturbed()["round"] > INPUT["round"]
