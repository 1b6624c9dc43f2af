"""Any operations on any store have the results that they have on the plainest one, `InMemoryStore`."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.errors import JunctureError
from juncture.store import (
    FileStore,
    GetOp,
    InMemoryStore,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    SqliteStore,
    Store,
)
from juncture.store.postgres import PostgresStore
from juncture.store.redis import RedisStore
from juncture.testing.store_conformance import embed
from tests.properties.strategies import examples

STORES: dict[str, Callable[..., Store]] = {
    "sqlite": lambda folder, **options: SqliteStore(folder / "memory.db", synchronous="NORMAL", **options),
    "file": lambda folder, **options: FileStore(folder, fsync=False, **options),
}
ON_SERVERS = {"postgres": ("postgres_url", PostgresStore), "redis": ("redis_url", RedisStore)}
OPTIONS: dict[str, Any] = {
    "index": {"dims": 4, "embed": embed, "fields": ["text"]},
    "ttl": {"sweep_interval_minutes": None},
}
LABELS = st.sampled_from(("a", "a", "ab", "a\x01", "\x01", "%", "B", "b", "é"))
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(("k", "k%", "K", "\x01", "🦉"))
SCALARS = st.sampled_from((None, True, 1, 1.5, 2**70, "a", "b a", (1, "a")))
VALUES = st.dictionaries(
    st.sampled_from(("n", "text", "o")), SCALARS | st.dictionaries(st.just("n"), SCALARS)
)
FILTERS = st.none() | st.dictionaries(
    st.sampled_from(("n", "o")),
    SCALARS
    | st.dictionaries(st.sampled_from(("$eq", "$ne", "$gt", "$lte", "n")), SCALARS, min_size=1, max_size=2),
    max_size=2,
)
LIMITS, OFFSETS = st.integers(1, 5), st.integers(0, 4)
OPS = st.one_of(
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, ttl=st.sampled_from((None, None, 1, 3))),
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, ttl=st.sampled_from((None, 1))),
    st.builds(PutOp, NAMESPACES, KEYS, st.none()),
    st.builds(GetOp, NAMESPACES, KEYS, st.booleans()),
    st.builds(
        SearchOp,
        PREFIXES,
        FILTERS,
        LIMITS,
        OFFSETS,
        st.sampled_from((None, None, "a", "bb")),
        st.booleans(),
        st.sampled_from((None, "-key", "value.n", ["-value.o", "namespace"])),
    ),
    st.builds(
        ListNamespacesOp,
        st.lists(
            st.builds(
                MatchCondition,
                st.sampled_from(("prefix", "suffix")),
                st.lists(LABELS | st.just("*"), max_size=2).map(tuple),
            ),
            max_size=2,
        ),
        st.none() | st.integers(1, 2),
        LIMITS,
        OFFSETS,
    ),
)
STEPS = st.lists(
    st.lists(OPS, min_size=1, max_size=4) | st.sampled_from((60.0, 120.0)) | st.just("sweep"), max_size=20
)


def told(result: Any) -> Any:
    """A result without what may differ in the last digit."""
    if isinstance(result, list):
        return [told(one) for one in result], getattr(result, "total", None)
    if hasattr(result, "score") and result.score is not None:
        return result.namespace, result.key, result.value, round(result.score, 6)
    return result


def run(plain: Store, other: Store, clock: list[float], steps: list[Any]) -> None:
    for step in steps:
        if isinstance(step, float):
            clock[0] += step
            continue
        answers = []
        for store in (plain, other):
            try:
                answers.append(told(store.batch(step)) if step != "sweep" else store.count())
                if step == "sweep":
                    store.sweep_ttl()
            except JunctureError as error:
                answers.append((type(error), str(error)))
        assert answers[0] == answers[1], step


@pytest.mark.parametrize("kind", STORES)
@examples(40)
@given(steps=STEPS)
def test_a_store_answers_as_the_plainest_does(kind, steps):
    clock = [1_700_000_000.0]
    with (
        tempfile.TemporaryDirectory() as folder,
        InMemoryStore(clock=lambda: clock[0], **OPTIONS) as plain,
        STORES[kind](Path(folder), clock=lambda: clock[0], **OPTIONS) as other,
    ):
        run(plain, other, clock, steps)


@pytest.mark.parametrize("kind", ON_SERVERS)
def test_a_store_on_a_server_answers_as_the_plainest_does(kind, request):
    fixture, make_store = ON_SERVERS[kind]
    clock = [1_700_000_000.0]
    with make_store(request.getfixturevalue(fixture), clock=lambda: clock[0], **OPTIONS) as other:

        @examples(25)
        @given(steps=STEPS)
        def answers_alike(steps):
            clock[0] += 3600.0  # what an earlier example left has run out, or is removed
            other.sweep_ttl()
            other.clear()
            with InMemoryStore(clock=lambda: clock[0], **OPTIONS) as plain:
                run(plain, other, clock, steps)

        answers_alike()
