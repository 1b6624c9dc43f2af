"""What a node returned: the quick reading agrees with the careful one, which names what it refuses."""

from __future__ import annotations

import copy
import enum
import operator
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import RemainingSteps, StateGraph
from juncture.channels import Topic, add_messages
from juncture.engine.returns import Reader, Returned, followed_by, is_last, quick
from juncture.engine.routing import Routes
from juncture.engine.values import copied
from juncture.errors import InvalidUpdateError, RoutingError
from juncture.types import MARK_FOR_REMOVAL, ROOT, START, Command, Overwrite, Send


class Keys(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list, operator.add]
    topic: Annotated[list, Topic(str)]
    left: RemainingSteps


def graph(schema=Keys, edges=(), **options):
    builder = StateGraph(schema, silence=["unreachable-node", "stuck-join"], **options)
    for name in ("n", "m"):
        builder.add_node(name, lambda state: None)
    builder.add_edge(START, "n")
    for edge in edges:
        builder.add_edge(*edge)
    return builder.compile().tables


TABLES, LENIENT = graph(), graph(strict=False)
OPEN = graph(None)
ROOTED = graph(Annotated[dict, operator.or_])
LISTED = graph(Annotated[list, operator.add])


def reader(tables=TABLES, handed=None, committed=None, node="n", **more):
    committed = committed if committed is not None else {}
    return Reader(tables, tables.nodes.get(node, tables.entry), handed, committed, **more)


def read(result, tables=TABLES, **more):
    return reader(tables, **more).read(result)


def writes(result, tables=TABLES, **more):
    return read(result, tables, **more).writes


def refused(result, text, tables=TABLES, kind=InvalidUpdateError, **more):
    with pytest.raises(kind) as caught:
        read(result, tables, **more)
    assert text in str(caught.value), str(caught.value)
    return caught.value.node, caught.value.key


# ── updates ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing():
    assert read(None) == Returned()
    assert read({}) == Returned()


@pytest.mark.parametrize("mapping", [dict, OrderedDict, MappingProxyType, lambda d: Command(update=d)])
def test_a_mapping_is_its_items_in_order(mapping):
    value = {"y": 1, "x": [2], "log": ["l"]}
    assert writes(mapping(value)) == [("y", 1), ("x", [2]), ("log", ["l"])]


def test_what_is_read_is_a_copy():
    value = {"x": [1, {"a": [2]}], "y": Overwrite([1])}
    got = writes(value)
    value["x"][1]["a"].append(3)
    value["y"].value.append(2)
    assert got == [("x", [1, {"a": [2]}]), ("y", Overwrite([1]))]


@pytest.mark.parametrize("value", [None, MARK_FOR_REMOVAL, Overwrite(1), (1, 2)])
def test_whatever_is_a_write(value):
    assert writes({"x": value}) == [("x", value)]
    assert writes({"log": value}) == [("log", value)]


@pytest.mark.parametrize(
    "pairs", [[("x", 1), ("log", ["a"]), ("log", ["b"])], (("x", 1), ("log", ["a"]), ("log", ["b"]))]
)
def test_a_commands_update_may_be_pairs(pairs):
    assert writes(Command(update=pairs)) == [("x", 1), ("log", ["a"]), ("log", ["b"])]
    assert writes(Command(update=type(pairs)())) == []


@pytest.mark.parametrize("update", [[("x", 1, 2)], [("x",)], ["x1"], [(1, 2)], [["x", 1]], "x1", 3])
def test_what_isnt_pairs_is_no_update(update):
    assert refused(Command(update=update), "Expected dict") == ("n", None)


@pytest.mark.parametrize("value", [3, "text", [], [1], [{"x": 1}], {1}, object, (("x", 1),), b"", True])
def test_what_isnt_an_update_is_refused(value):
    assert refused(value, f"Expected dict, got {type(value).__name__} from node 'n'") == ("n", None)
    assert refused(value, "as the input", node=START) == (START, None)


def test_a_long_value_is_shown_shortened():
    with pytest.raises(InvalidUpdateError) as caught:
        read("x" * 100)
    assert "'" + "x" * 76 + "..." in str(caught.value)


@dataclass
class Data:
    x: Any = None
    y: Any = 0
    log: list = field(default_factory=list)
    extra: Any = None


def test_an_object_is_the_fields_that_differ_from_their_defaults():
    assert writes(Data(x=1, log=["l"])) == [("x", 1), ("log", ["l"])]
    assert writes(Command(update=Data(x=1))) == [("x", 1)]


def test_an_object_with_a_field_that_the_state_doesnt_have():
    assert refused(Data(extra=1), "'extra'") == ("n", "extra")


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_undeclared_key_is_refused_with_the_nearest_declared():
    assert refused({"lgo": 1}, "'lgo', which the state doesn't have. Did you mean 'log'?") == ("n", "lgo")
    assert refused(
        {"zzzz": 1, "x": 2}, "'zzzz', which the state doesn't have. Declared keys: log, topic, x, y"
    ) == ("n", "zzzz")
    assert refused({"zzzz": [1]}, "the input wrote", node=START) == (START, "zzzz")


def test_lenient_an_undeclared_key_is_dropped():
    assert writes({"zzzz": 1, "x": [2]}, LENIENT) == [("x", [2])]


def test_an_open_state_takes_any_key():
    assert writes({"any": [1], "x": 1}, OPEN) == [("any", [1]), ("x", 1)]


@pytest.mark.parametrize("tables", [TABLES, LENIENT, OPEN])
def test_a_key_that_isnt_a_string_is_refused(tables):
    assert refused({3: 1}, "node 'n' wrote the key 3, a int; keys are strings", tables) == ("n", None)
    assert refused({3: 1}, "the input wrote the key 3", tables, node=START) == (START, None)


def test_a_managed_key_is_read_only():
    assert refused({"left": 1}, "'left', a managed value") == ("n", "left")
    assert writes({"left": 1, "x": 2}, LENIENT) == [("x", 2)]


@pytest.mark.parametrize("value", [iter([]), [iter([])], {"a": iter([])}, Overwrite(iter([]))])
def test_a_stream_is_refused_with_its_place(value):
    assert refused({"x": 1, "y": value}, "node 'n' wrote to key 'y': a list_iterator") == ("n", "y")
    assert refused({"y": value}, "the input wrote to key 'y'", node=START) == (START, "y")


# ── the reading of what came back ────────────────────────────────────────────────────────────────────────────


class Colour(enum.Enum):
    RED = "red"


def came_back(name, value, change=None, tables=TABLES):
    """What is written if a node returns, by name, what it was handed for that name."""
    committed = {name: value}
    handed = {name: copied(value)}
    if change is not None:
        change(handed[name])
    return writes({name: handed[name]}, tables, handed=handed, committed=committed)


@pytest.mark.parametrize("value", [[1, [2]], {"a": 1}, {1}, deque([1]), Data(x=1)])
@pytest.mark.parametrize("name", ["x", "log"])
def test_a_container_or_object_that_comes_back_unchanged_is_no_write(name, value):
    assert came_back(name, value) == []
    assert came_back(name, value, tables=LENIENT) == [(name, value)]


@pytest.mark.parametrize("value", [1, "a", None, (1, 2), Colour.RED, True])
@pytest.mark.parametrize("name", ["x", "log"])
def test_what_may_be_interned_is_a_write(name, value):
    assert came_back(name, value) == [(name, value)]


def test_a_container_that_comes_back_changed_is_a_write():
    assert came_back("x", [1], lambda value: value.append(2)) == [("x", [1, 2])]
    assert came_back("x", [[1]], lambda value: value[0].append(2)) == [("x", [[1, 2]])]
    assert came_back("x", [1], lambda value: operator.setitem(value, 0, 1.0)) == [("x", [1.0])]


@pytest.mark.parametrize("name", ["log", "topic"])
def test_a_container_of_a_key_with_a_reducer_that_comes_back_changed_is_refused(name):
    handed = {name: ["a", "b"]}
    assert refused(
        {name: handed[name]}, "return only the new part", handed=handed, committed={name: ["a"]}
    ) == ("n", name)
    assert writes({name: handed[name]}, LENIENT, handed=handed, committed={name: ["a"]}) == [
        (name, ["a", "b"])
    ]


def test_a_container_under_another_key_is_a_write():
    handed = {"x": [1], "y": [1]}
    assert writes({"y": handed["x"]}, handed=handed, committed={"x": [1], "y": [1]}) == [("y", [1])]


def test_an_equal_container_is_a_write():
    assert writes({"x": [1]}, handed={"x": [1]}, committed={"x": [1]}) == [("x", [1])]


def test_the_whole_input_is_only_what_differs():
    handed = {"x": 1, "y": [1], "log": ["l"], "left": 3}
    committed = {"x": 1, "y": [1], "log": ["l"]}
    assert writes(handed, handed=handed, committed=committed) == []
    handed["x"] = 2
    handed["y"].append(2)
    assert writes(handed, handed=handed, committed=committed) == [("x", 2), ("y", [1, 2])]
    handed["x"] = True
    assert writes(handed, handed=handed, committed=committed | {"x": 1})[0] == ("x", True)


def test_a_key_that_was_added_to_the_input_is_a_write():
    handed = {"x": None}
    assert writes(handed, handed=handed, committed={}) == [("x", None)]


def test_lenient_the_whole_input_is_written():
    handed = {"x": 1, "log": ["l"]}
    assert writes(handed, LENIENT, handed=handed, committed=copy.deepcopy(handed)) == [
        ("x", 1),
        ("log", ["l"]),
    ]


def test_what_an_object_held_when_it_was_handed_out():
    items = [1]
    before = ({"x": items}, None)
    assert writes({"x": items}, handed=object(), committed={"x": [1]}, before=before) == []
    assert writes({"x": [1]}, handed=object(), committed={"x": [1]}, before=before) == [("x", [1])]
    assert writes({"y": items}, handed=object(), committed={"y": [1]}, before=before) == [("y", [1])]


def test_a_handed_out_object_is_read_with_what_was_remembered_of_it():
    tables = graph(Data)
    node = tables.nodes["n"]
    committed = {"x": 1, "y": 2, "log": []}
    handed = node.project(committed)
    before = node.snapshot(handed, committed)
    assert writes(handed, tables, handed=handed, committed=committed, before=before) == []
    handed.x = 5
    assert writes(handed, tables, handed=handed, committed=committed, before=before) == [("x", 5)]
    other = replace(handed)
    assert dict(writes(other, tables, handed=handed, committed=committed, before=before)) == {"x": 5, "y": 2}


# ── validation and ids ───────────────────────────────────────────────────────────────────────────────────────


class Checked(TypedDict):
    x: int
    log: Annotated[list[int], operator.add]


CHECKED = graph(Checked, validate=True)


def test_a_write_is_validated_and_coerced():
    assert writes({"x": "3"}, CHECKED) == [("x", 3)]
    assert writes({"x": Overwrite("3")}, CHECKED) == [("x", Overwrite(3))]
    assert writes({"x": MARK_FOR_REMOVAL}, CHECKED) == [("x", MARK_FOR_REMOVAL)]
    assert writes({"log": ["3"]}, CHECKED) == [("log", ["3"])]


@pytest.mark.parametrize("value", ["three", Overwrite("three")])
def test_a_write_that_the_schema_refuses(value):
    assert refused({"x": value}, f"node 'n' wrote a {type(value).__name__} to key 'x'", CHECKED) == ("n", "x")
    assert refused({"x": value}, "the input wrote", CHECKED, node=START) == (START, "x")


def test_items_without_an_id_get_one_of_their_place():
    tables = graph(TypedDict("schema", {"messages": Annotated[list, add_messages], "x": Any}))
    message = {"role": "user", "content": "hi"}

    def ids(result, place):
        return [
            item["id"]
            for _, value in writes(result, tables, place=place)
            for item in (value if type(value) is list else [value])
        ]

    one = ids({"messages": [message]}, "t\x1fn:1")
    assert one == ids({"messages": [message]}, "t\x1fn:1")
    assert one != ids({"messages": [message]}, "t\x1fn:2")
    assert len(set(ids(Command(update=[("messages", [message]), ("messages", [message])]), "t"))) == 2
    assert "id" not in message
    for value in (MARK_FOR_REMOVAL, Overwrite([message])):
        assert writes({"messages": value}, tables) == [("messages", value)]


# ── commands, sends and lists of them ────────────────────────────────────────────────────────────────────────


def test_a_command_updates_and_routes():
    got = read(Command(update={"x": 1}, goto=["m", Send("m", 1)]))
    assert got == Returned([("x", 1)], Routes(["m"], [Send("m", 1)]), None, routed=True)
    assert read(Command()) == Returned()
    assert read(Command(goto=())) == Returned()
    assert read(Command(goto=[])) == Returned()
    assert read(Command(goto="__end__")) == Returned(routed=True)


def test_a_bare_send():
    assert read(Send("m", [1])) == Returned([], Routes([], [Send("m", [1])]), None, routed=True)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_with_a_command_is_read_one_by_one(kind):
    got = read(
        kind(
            [
                {"x": 1},
                Command(update={"log": ["a"]}, goto="m"),
                None,
                Send("m"),
                Command(update={"log": ["b"]}),
            ]
        )
    )
    assert got == Returned(
        [("x", 1), ("log", ["a"]), ("log", ["b"])], Routes(["m"], [Send("m")]), None, routed=True
    )


def test_the_first_command_for_an_enclosing_graph_counts():
    first, second = Command(graph=Command.PARENT, update={"x": 1}), Command(graph="other")
    got = read([Command(update={"x": 2}), first, second])
    assert got.escape is first
    assert (got.writes, got.routed) == ([("x", 2)], False)


def test_an_unknown_target_is_refused():
    assert refused(Command(goto="mm"), "unknown node 'mm'. Did you mean 'm'?", kind=RoutingError) == (
        "n",
        None,
    )
    assert refused(Send("mm"), "unknown node 'mm'", kind=RoutingError) == ("n", None)


@pytest.mark.parametrize("edge", [("n", "m"), ("n", "__end__"), (["n", "m"], "m")])
@pytest.mark.parametrize("result", [Command(goto="m"), Command(goto="__end__"), Send("m")])
def test_a_goto_beside_edges_is_refused(edge, result):
    edges, lenient = graph(edges=[edge]), graph(edges=[edge], strict=False)
    assert refused(result, "two mechanisms would route", edges, kind=RoutingError) == ("n", None)
    assert read(result, lenient).routed
    assert writes(Command(update={"x": 1}), edges) == [("x", 1)]
    assert read([Command(graph=Command.PARENT, goto="m"), result], edges).escape is not None


# ── a state that is one value ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [{}, {"k": 1}, {"x": [1]}])
def test_what_a_node_returns_is_the_value(value):
    assert writes(value, ROOTED) == [(ROOT, value)]
    assert writes(Command(update=value), ROOTED) == [(ROOT, value)]
    assert quick(ROOTED, value, None) is None


@pytest.mark.parametrize("value", [[], [1], [("x", 1)], (1,), "text", 3])
def test_a_value_that_is_a_list(value):
    assert writes(value, LISTED) == [(ROOT, value)]
    assert writes(Command(update=value), LISTED) == [(ROOT, value)]


def test_commands_and_none_of_a_single_value():
    assert writes(None, LISTED) == []
    got = read([[1], Command(update=[2], goto="m")], LISTED)
    assert (got.writes, got.routes.targets) == ([(ROOT, [1]), (ROOT, [2])], ["m"])


def test_a_stream_as_the_value_is_refused():
    assert refused([iter([])], "list_iterator", LISTED) == ("n", ROOT)


# ── one task's writes after another's ────────────────────────────────────────────────────────────────────────


def test_a_later_write_of_the_same_task_replaces_an_earlier_last_value():
    earlier, later = [("x", 1), ("log", ["a"]), ("y", 2)], [("x", 3), ("log", ["b"])]
    assert followed_by(TABLES, earlier, later) == [("log", ["a"]), ("y", 2), ("x", 3), ("log", ["b"])]
    assert followed_by(OPEN, earlier, later) == [("y", 2), ("x", 3), ("log", ["b"])]
    assert followed_by(TABLES, earlier, []) == earlier
    assert followed_by(TABLES, [], later) == later
    assert earlier == [("x", 1), ("log", ["a"]), ("y", 2)]


def test_which_keys_keep_the_last_value():
    assert [is_last(TABLES, name) for name in ("x", "log", "topic", "undeclared")] == [
        True,
        False,
        False,
        True,
    ]


# ── the quick reading ────────────────────────────────────────────────────────────────────────────────────────

CAREFUL = {
    id(tables): replace(tables, quick_keys=frozenset()) for tables in (TABLES, LENIENT, OPEN, CHECKED, ROOTED)
}
"""The same graphs, read without the quick way."""

shared_object = Data(x=1)
items = st.recursive(
    st.one_of(
        st.none(),
        st.integers(0, 3),
        st.text(max_size=2),
        st.sampled_from([MARK_FOR_REMOVAL, shared_object, Colour.RED, iter([])]),
    ),
    lambda children: st.one_of(
        st.lists(children, max_size=2),
        st.dictionaries(st.text(max_size=1), children, max_size=2),
        st.tuples(children),
        st.builds(Overwrite, children),
        st.builds(deque, st.lists(children, max_size=2)),
    ),
    max_leaves=4,
)
names = st.sampled_from(["x", "y", "log", "topic", "left", "zzzz", 3])
committed_values = st.dictionaries(
    st.sampled_from(["x", "y", "log"]), items.filter(lambda v: "iterator" not in repr(v)), max_size=3
)


@given(data=st.data())
@pytest.mark.parametrize(
    "tables", [TABLES, LENIENT, OPEN, CHECKED, ROOTED], ids=["strict", "lenient", "open", "checked", "root"]
)
def test_the_quick_reading_says_what_the_careful_one_says(tables, data):
    committed = data.draw(committed_values)
    handed = copied(committed)
    result = data.draw(st.dictionaries(names, items, max_size=3))
    for name in data.draw(st.lists(st.sampled_from(sorted(handed)), max_size=2)) if handed else ():
        result[name] = handed[name]
    if data.draw(st.booleans()):
        handed = data.draw(st.sampled_from([None, object(), shared_object]))
    elif data.draw(st.booleans()):
        result = handed
    before = copy.copy(result)
    plain = quick(tables, result, handed)
    assert result == before
    if plain is None:
        return
    got = reader(CAREFUL[id(tables)], handed, committed).read(result)
    assert (got.writes, got.routed, got.escape) == (plain, False, None)
    assert [type(value) for _, value in plain] == [type(value) for _, value in got.writes]
    for (_, one), (name, _) in zip(plain, got.writes, strict=True):
        if type(result[name]) in (list, dict, deque):
            assert one is not result[name]


@pytest.mark.parametrize(
    "result", [None, [], Command(), Send("m"), OrderedDict(x=1), Data(), 3, {"zzzz": 1}, {3: 1}, {"left": 1}]
)
def test_the_quick_reading_leaves_the_rest_to_the_careful_one(result):
    assert quick(TABLES, result, {}) is None


def test_the_quick_reading_takes_the_common_case():
    assert quick(TABLES, {"x": 1, "log": ["a"], "y": None}, {"x": 2, "log": []}) == [
        ("x", 1),
        ("log", ["a"]),
        ("y", None),
    ]
    assert quick(TABLES, {}, {}) == []
    assert quick(TABLES, {"x": 1}, object()) == [("x", 1)]


@pytest.mark.parametrize("value", [Overwrite(1), iter([]), [iter([])]])
def test_the_quick_reading_leaves_what_needs_care(value):
    assert quick(TABLES, {"x": 1, "y": value}, {}) is None


def test_the_quick_reading_leaves_what_came_back():
    handed = {"x": [1]}
    assert quick(TABLES, {"x": handed["x"]}, handed) is None
    assert quick(TABLES, handed, handed) is None
    assert quick(TABLES, {"x": [1]}, object()) is None
