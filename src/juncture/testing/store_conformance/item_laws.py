"""Laws about items: names, values, batches, running out, and the end."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from juncture.errors import ConfigError, InvalidNamespaceError, SerializationError, StoreError
from juncture.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from juncture.testing.store_conformance.face import STRANGE, Face, Law, collected, refuses

LAWS: list[Law] = []
law = collected(LAWS)
ttl_law = collected(LAWS, "ttl")

N = ("users", "ada")


@law
def _put_get_delete(store: Face) -> None:
    assert store.get(N, "k") is None
    assert store.put(N, "k", {"a": 1}) is None
    item = store.get(N, "k")
    assert (item.namespace, item.key, item.value) == (N, "k", {"a": 1})
    store.put(N, "k", {"b": 2})
    assert store.get(N, "k").value == {"b": 2}, "a put replaces the whole value"
    assert store.count() == 1
    assert store.delete(N, "k") is True
    assert store.delete(N, "k") is False
    assert store.get(N, "k") is None


@ttl_law
def _a_put_keeps_when_the_item_was_made(store: Face) -> None:
    store.running_out()
    store.put(N, "k", {})
    first = store.get(N, "k")
    store.pass_minutes(1)
    store.put(N, "k", {})
    second = store.get(N, "k")
    assert first.created_at == first.updated_at == second.created_at
    assert second.updated_at - first.updated_at == timedelta(minutes=1)
    assert second.created_at.tzinfo is UTC


@law
def _values_are_exact(store: Face) -> None:
    value: dict[str, Any] = {
        "none": None,
        "numbers": [True, 1, 1.5, 2**70, float("inf"), Decimal("1.10")],
        "text": "nul\x00 'quoted' 🦉",
        "bytes": b"\x00\xff",
        "pair": (1, [2, {"deep": {3, 4}}]),
        "times": [datetime(2026, 12, 1, 3, 4, 5, 6, UTC), date(2026, 12, 1), timedelta(days=1)],
        "id": UUID(int=7),
        "$odd.name": {},
    }
    store.put(N, "k", value)
    read = store.get(N, "k").value
    assert read == value
    assert type(read["pair"]) is tuple
    assert type(read["numbers"][0]) is bool


@law
def _values_are_the_readers_own(store: Face) -> None:
    value: dict[str, Any] = {"list": [1]}
    store.put(N, "k", value)
    value["list"].append(2)
    read = store.get(N, "k")
    assert read.value == {"list": [1]}
    read.value["list"].append(3)
    assert store.get(N, "k").value == {"list": [1]}


@law
def _what_cannot_be_kept_is_refused(store: Face) -> None:
    refuses(SerializationError, lambda: store.put(N, "k", {"lock": threading.Lock()}), "a lock")
    for value in (None, [1], "text", {1: 2}):
        refuses(ConfigError, lambda value=value: store.put(N, "k", value), f"the value {value!r}")
    assert store.count() == 0


@law
def _strange_names_are_kept_apart(store: Face) -> None:
    for name in STRANGE:
        store.put((name, "x"), "k", {"at": name})
        store.put(("keys",), name, {"key": name})
    for name in STRANGE:
        assert store.get((name, "x"), "k").value == {"at": name}
        assert store.get(("keys",), name).value == {"key": name}
        assert [item.value for item in store.search((name,))] == [{"at": name}], f"below {name!r}"
    assert store.count(("keys",)) == len(STRANGE)
    for name in STRANGE[::2]:
        assert store.clear((name,)) == 1
        assert store.delete(("keys",), name)
    left = {namespace[0] for namespace in store.list_namespaces(suffix=("x",))}
    assert left == set(STRANGE[1::2])
    assert set(store.keys(("keys",), limit=100)) == set(STRANGE[1::2])


@law
def _labels_are_not_joined(store: Face) -> None:
    for namespace in [("a", "b", "c"), ("a", "bc"), ("ab", "c"), ("abc",), ("a.b", "c"), ("a/b", "c")]:
        store.put(namespace, "k", {"at": list(namespace)})
        assert store.get(namespace, "k").value == {"at": list(namespace)}
    assert store.count() == 6
    assert store.count(("a",)) == 2


@law
def _names_that_cannot_be_are_refused(store: Face) -> None:
    for namespace in ((), ("",), ("a", ""), (1,), (None,), "users", None, ("nul\x00",), ("\ud800",)):
        refuses(InvalidNamespaceError, lambda n=namespace: store.put(n, "k", {}), f"{namespace!r}")
        refuses(InvalidNamespaceError, lambda n=namespace: store.get(n, "k"), f"{namespace!r}")
        refuses(InvalidNamespaceError, lambda n=namespace: store.delete(n, "k"), f"{namespace!r}")
    for key in ("", None, 5, "nul\x00", "\ud800", "x" * 3000):
        refuses(ConfigError, lambda k=key: store.put(N, k, {}), f"the key {key!r:.20}")
    assert store.count() == 0


@law
def _long_names_are_kept(store: Face) -> None:
    namespace, key = tuple("label" for _ in range(150)), "k" * 900
    store.put(namespace, key, {"a": 1})
    assert store.get(namespace, key).value == {"a": 1}
    assert store.list_namespaces() == [namespace]


# ---- batches


@law
def _a_batch_reads_before_it_writes(store: Face) -> None:
    store.put(N, "k", {"a": 1})
    results = store.batch(
        [
            PutOp(N, "k", {"a": 2}),
            GetOp(N, "k"),
            SearchOp(N),
            PutOp(N, "k", {"a": 3}),
            PutOp(N, "new", {"b": 1}),
            ListNamespacesOp(),
            PutOp(N, "gone", None),
        ]
    )
    assert results[0] is None
    assert results[1].value == {"a": 1}
    assert [item.value for item in results[2]] == [{"a": 1}]
    assert results[3:] == [None, None, [N], False]
    assert store.get(N, "k").value == {"a": 3}, "of several puts the last counts"
    assert store.batch([PutOp(N, "k", {"a": 4}), PutOp(N, "k", None), PutOp(N, "new", None)])[1:] == [
        True,
        True,
    ]
    assert store.count() == 0
    assert store.batch([]) == []


@law
def _a_batch_is_stored_as_a_whole_or_not_at_all(store: Face) -> None:
    ops = [PutOp(N, "k", {"a": 1}), PutOp(N, "bad", {"lock": threading.Lock()})]
    refuses(SerializationError, lambda: store.batch(ops), "a batch with a lock")
    refuses(InvalidNamespaceError, lambda: store.batch([ops[0], PutOp((), "k", {})]), "a batch with ()")
    refuses(ConfigError, lambda: store.batch([ops[0], "get"]), "a batch with a text")
    assert store.count() == 0


@law
def _workers_at_once_lose_nothing(store: Face) -> None:
    from juncture.testing.saver_conformance.face import race

    store.put(N, "k", {"n": 0})
    race(6, lambda n: store.batch([PutOp((str(n),), str(m), {"n": n}) for m in range(5)]), None)
    assert store.count() == 31
    for n in range(6):
        assert [item.value for item in store.search((str(n),))] == [{"n": n}] * 5


# ---- running out


@ttl_law
def _items_run_out(store: Face) -> None:
    store.running_out(default_ttl=10, refresh_on_read=False, sweep_interval_minutes=None)
    store.put(N, "default", {})
    store.put(N, "short", {}, ttl=1)
    store.put(("other",), "short", {}, ttl=1)
    store.put(N, "stays", {}, ttl=None)
    assert store.count() == 4
    store.pass_minutes(2)
    assert store.get(N, "short") is None
    assert store.keys(N) == ["default", "stays"]
    assert store.count() == 2
    assert store.list_namespaces() == [N]
    assert store.delete(N, "short") is False, "what has run out isn't there"
    store.pass_minutes(20)
    assert store.keys(()) == ["stays"]
    assert store.sweep_ttl() <= 3
    assert store.sweep_ttl() == 0
    assert store.keys(()) == ["stays"]


@ttl_law
def _reading_lets_the_time_begin_anew(store: Face) -> None:
    store.running_out(default_ttl=10, sweep_interval_minutes=None)
    for key in ("got", "found", "left", "quiet"):
        store.put(N, key, {"key": key})
    store.pass_minutes(6)
    store.get(N, "got")
    store.search(N, filter={"key": "found"})
    store.get(N, "quiet", refresh_ttl=False)
    store.search(N, refresh_ttl=False)
    store.pass_minutes(6)
    assert store.keys(N, refresh_ttl=True) == ["found", "got"]
    store.pass_minutes(6)
    assert store.keys(N) == ["found", "got"]


@ttl_law
def _a_put_decides_anew_how_long_an_item_lives(store: Face) -> None:
    store.running_out(sweep_interval_minutes=None)
    store.put(N, "k", {}, ttl=1)
    store.put(N, "k", {})
    store.pass_minutes(2)
    assert store.get(N, "k") is not None, "without ttl it has the default, which is to stay"
    store.put(N, "k", {}, ttl=1)
    store.pass_minutes(2)
    store.put(N, "k", {"new": True})
    item = store.get(N, "k")
    assert item.created_at == item.updated_at, "what had run out was gone: this is another item"
    for ttl in (0, -1, "1", True, float("nan"), float("inf")):
        refuses(ConfigError, lambda ttl=ttl: store.put(N, "k", {}, ttl=ttl), f"ttl={ttl!r}")


@ttl_law
def _writes_sweep(store: Face) -> None:
    store.running_out(sweep_interval_minutes=0)
    store.put(N, "old", {}, ttl=1)
    store.pass_minutes(2)
    store.put(N, "new", {})
    assert store.sweep_ttl() == 0, "the put swept what had run out"
    assert store.keys(N) == ["new"]


# ---- the end


@law
def _a_closed_store_refuses_calls(store: Face) -> None:
    store.put(N, "k", {})
    store.close()
    refuses(StoreError, lambda: store.get(N, "k"), "a get after close")
    refuses(StoreError, lambda: store.put(N, "k", {}), "a put after close")
    store.close()
