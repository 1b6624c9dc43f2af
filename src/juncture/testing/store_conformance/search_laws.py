"""Laws about searches: prefixes, filters, order, pages, queries, and lists of namespaces."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from juncture.errors import ConfigError
from juncture.testing.store_conformance.face import DIMS, Face, Law, collected, embed, refuses

LAWS: list[Law] = []
law = collected(LAWS)
index_law = collected(LAWS, "index")

N = ("docs",)
INDEX: dict[str, Any] = {"dims": DIMS, "embed": embed, "fields": ["text"]}


def _fill(store: Face, values: dict[str, dict[str, Any]], namespace: tuple[str, ...] = N) -> None:
    for key, value in values.items():
        store.put(namespace, key, value)


@law
def _a_prefix_is_of_whole_labels(store: Face) -> None:
    for namespace in [
        ("acme",),
        ("acme", "x"),
        ("acme-corp",),
        ("acm",),
        ("acme%",),
        ("ACME",),
        ("x", "acme"),
    ]:
        store.put(namespace, "k", {})
    assert [item.namespace for item in store.search(("acme",))] == [("acme",), ("acme", "x")]
    assert store.search(("acm",)).total == 1
    assert store.search(("nobody",)) == []
    assert store.search(()).total == 7


@law
def _it_goes_by_namespace_and_key(store: Face) -> None:
    for namespace in [("b",), ("a", "z"), ("a",)]:
        _fill(store, {"2": {}, "10": {}, "é": {}}, namespace)
    found = [(item.namespace, item.key) for item in store.search(())]
    assert found == sorted(found)
    assert found[:3] == [(("a",), "10"), (("a",), "2"), (("a",), "é")]


@law
def _pages(store: Face) -> None:
    _fill(store, {f"{n:02}": {"n": n, "even": n % 2 == 0} for n in range(13)})
    assert len(store.search(N)) == 10, "ten to a page, unless it is said otherwise"
    page = store.search(N, limit=5, offset=10)
    assert [item.key for item in page] == ["10", "11", "12"]
    assert (page.total, page.offset, page.limit, page.has_more) == (13, 10, 5, False)
    page = store.search(N, filter={"even": True}, limit=3, offset=3)
    assert [item.value["n"] for item in page] == [6, 8, 10]
    assert (page.total, page.has_more) == (7, True)
    assert store.search(N, offset=99) == []
    for options in ({"limit": 0}, {"limit": -1}, {"offset": -1}, {"limit": True}, {"limit": "1"}):
        refuses(ConfigError, lambda options=options: store.search(N, **options), f"{options}")


@law
def _filters(store: Face) -> None:
    _fill(
        store,
        {
            "a": {"n": 1, "s": "x", "d": {"p": {"q": 1}, "r": 2}, "l": [1, {"m": 2, "o": 3}], "t": True},
            "b": {"n": 2.5, "s": "y", "when": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2)},
            "c": {"n": "3", "s": None, "a.b": 1, "t": 1},
        },
    )
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "abc"),
        ({"n": 1}, "a"),
        ({"n": 1.0}, "a"),
        ({"t": True}, "a"),
        ({"t": 1}, "c"),
        ({"s": None}, "c"),
        ({"gone": None}, "abc"),
        ({"n": {"$ne": 1}}, "bc"),
        ({"gone": {"$ne": 1}}, "abc"),
        ({"n": {"$gt": 1}}, "b"),
        ({"n": {"$gte": 1, "$lt": 2.5}}, "a"),
        ({"n": {"$lte": 2.5}}, "ab"),
        ({"n": {"$gt": "2"}}, "c"),
        ({"when": {"$gt": datetime(2026, 1, 1, tzinfo=UTC)}}, "b"),
        ({"when": {"$gt": datetime(2026, 1, 1)}}, ""),  # noqa: DTZ001 - a time without a zone is the point
        ({"day": {"$lte": date(2026, 1, 2)}}, "b"),
        ({"d": {"p": {"q": 1}}}, "a"),
        ({"d": {"p": {"q": {"$gt": 0}}, "r": 2}}, "a"),
        ({"d": {"$eq": {"p": {"q": 1}}}}, ""),
        ({"d": {"$eq": {"r": 2, "p": {"q": 1}}}}, "a"),
        ({"l": [1, {"m": 2}]}, "a"),
        ({"l": [1]}, ""),
        ({"a.b": 1}, "c"),
        ({"n": 1, "s": "y"}, ""),
        ({"' OR 1=1 --": 1}, ""),
    ]
    for given, keys in cases:
        assert store.keys(N, filter=given) == list(keys), f"{given}"


@law
def _filters_that_cannot_be_meant_are_refused(store: Face) -> None:
    _fill(store, {"a": {"n": 1}})
    wrong: tuple[Any, ...] = (
        {"n": {"$like": "a"}},
        {"n": {"$gt": 1, "m": 2}},
        {"n": {"$gt": None}},
        {"n": {"$gt": [1]}},
        {"n": {"$gt": True}},
        {"$gt": 1},
        {1: 2},
        "n = 1",
        {"d": {"e": {"$or": []}}},
    )
    for given in wrong:
        refuses(ConfigError, lambda given=given: store.search(N, filter=given), f"{given}")


@law
def _sorting(store: Face) -> None:
    _fill(
        store,
        {
            "a": {"n": 2, "d": {"x": 1}},
            "b": {"n": 1.5},
            "c": {},
            "d": {"n": "text"},
            "e": {"n": True, "d": {"x": 0}},
            "f": {"n": None},
        },
    )
    assert store.keys(N, sort="value.n") == ["c", "f", "e", "b", "a", "d"]
    assert store.keys(N, sort="-value.n") == ["d", "a", "b", "e", "c", "f"], "ties keep their order"
    assert store.keys(N, sort=["-value.d.x", "-key"]) == ["a", "e", "f", "d", "c", "b"]
    assert store.keys(N, sort="-key", limit=2, offset=1) == ["e", "d"]
    assert store.keys(N, sort=["created_at", "updated_at", "namespace"]) == sorted(store.keys(N))
    for sort in ("n", "value.", "", "-", "value", 1, ["key", "; DROP"]):
        refuses(
            ConfigError, lambda sort=sort: store.search(N, sort=[sort] if sort == 1 else sort), f"{sort!r}"
        )


@law
def _a_query_without_an_index_looks_for_the_text(store: Face) -> None:
    _fill(
        store,
        {
            "a": {"role": "Administrator"},
            "b": {"deep": [{"x": "an ADMINISTRATOR"}]},
            "administrator": {},
            "c": {"n": 1},
        },
    )
    assert store.keys(N, query="administrator") == ["a", "administrator", "b"]
    assert store.keys(N, query="administrator", filter={"role": "Administrator"}) == ["a"]
    assert store.keys(N, query="%") == []
    assert all(item.score is None for item in store.search(N, query="administrator"))


@index_law
def _a_query_with_an_index_ranks(store: Face) -> None:
    store.open(index=INDEX)
    _fill(
        store,
        {
            "as": {"text": "aaaa", "kind": 1},
            "bs": {"text": "bbbb", "kind": 1},
            "mixed": {"text": "aab", "kind": 2},
            "none": {"other": "aaaa", "kind": 1},
        },
    )
    found = store.search(N, query="aa")
    assert [item.key for item in found] == ["as", "mixed", "bs", "none"]
    scores = [item.score for item in found]
    assert scores[0] > scores[1] > scores[2] > -1
    assert scores[0] <= 1
    assert scores[3] is None
    assert found.total == 4
    assert store.keys(N, query="bb", filter={"kind": 1}, limit=2) == ["bs", "as"]
    assert store.keys(N, query="aa", limit=2, offset=1) == ["mixed", "bs"]
    assert store.keys(N, query="aa", sort="-key") == ["none", "mixed", "bs", "as"]
    store.put(N, "bs", {"text": "aaaaaaa"})
    store.delete(N, "as")
    assert store.keys(N, query="aa", limit=1) == ["bs"], "a put indexes anew"
    store.put(N, "bs", {"text": "aaaaaaa"}, index=False)
    assert store.keys(N, query="aa") == ["mixed", "bs", "none"]


@index_law
def _puts_choose_what_is_indexed(store: Face) -> None:
    store.open(index=INDEX)
    store.put(N, "tags", {"text": "b", "tags": [{"l": "c"}, {"l": "a"}]}, index=["tags[*].l"])
    store.put(N, "last", {"text": "a", "tags": ["a", "c"]}, index=["tags[-1]"])
    store.put(N, "same", {"one": "b", "two": "b", "n": 3}, index=["{one,two}", "n", "gone", "gone[0].x"])
    assert store.keys(N, query="a", limit=1) == ["tags"], "an item is as near as the nearest of its texts"
    assert store.keys(N, query="c") == ["last", "tags", "same"]
    assert store.keys(N, query="b", limit=1) == ["same"]
    for path in ("", "a..b", "a[", "a[x]", ".a", "a.", "$.a", "a b]"):
        refuses(ConfigError, lambda path=path: store.put(N, "k", {}, index=[path]), f"the path {path!r}")
    refuses(ConfigError, lambda: store.put(N, "k", {}, index="text"), "a path instead of a list")


# ---- namespaces


@law
def _namespaces_are_listed(store: Face) -> None:
    for namespace in [("a", "x", "1"), ("a", "y"), ("b", "x"), ("a", "x", "2"), ("ab",), ("*",)]:
        store.put(namespace, "k1", {})
        store.put(namespace, "k2", {})
    everything = [("*",), ("a", "x", "1"), ("a", "x", "2"), ("a", "y"), ("ab",), ("b", "x")]
    for options, expected in [
        ({}, everything),
        ({"prefix": ("a",)}, everything[1:4]),
        ({"prefix": ("*", "x")}, [("a", "x", "1"), ("a", "x", "2"), ("b", "x")]),
        ({"suffix": ("x",)}, [("b", "x")]),
        ({"suffix": ("x", "*")}, everything[1:3]),
        ({"prefix": ("a",), "suffix": ("2",)}, [("a", "x", "2")]),
        ({"max_depth": 1}, [("*",), ("a",), ("ab",), ("b",)]),
        ({"prefix": ("a",), "max_depth": 2}, [("a", "x"), ("a", "y")]),
        ({"limit": 2, "offset": 1}, everything[1:3]),
        ({"prefix": ("a", "x", "1", "more")}, []),
    ]:
        assert store.list_namespaces(**options) == expected, f"{options}"
    assert store.clear(("a",)) == 6
    assert store.list_namespaces() == [("*",), ("ab",), ("b", "x")], "those without items aren't listed"
    for options in ({"max_depth": 0}, {"limit": 0}, {"offset": -1}):
        refuses(ConfigError, lambda options=options: store.list_namespaces(**options), f"{options}")
