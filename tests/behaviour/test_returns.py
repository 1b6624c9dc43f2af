"""Each kind of value that a node returns is an update, or is refused by name (right-behaviour 7, graph-api 5 and 6)."""

import dataclasses
import operator
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from juncture import (
    END,
    MARK_FOR_REMOVAL,
    START,
    Command,
    InvalidUpdateError,
    Overwrite,
    Send,
    StateGraph,
    failure,
)
from tests.behaviour.building import builder, chain, fan, nothing, place, shown, wrote


class State(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], operator.add]


# ── what may be returned ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Data:
    x: Any = None
    y: Any = 0
    log: Annotated[list[Any], operator.add] = field(default_factory=list)


class Model(BaseModel):
    x: Any = None
    y: Any = 0
    log: Annotated[list[Any], operator.add] = []


class Struct(msgspec.Struct):
    x: Any = None
    y: Any = 0
    log: Annotated[list[Any], operator.add] = msgspec.field(default_factory=list)


@pytest.mark.parametrize(
    ("returned", "changed"),
    [
        (None, {}),
        ({}, {}),
        ({"x": 1}, {"x": 1}),
        (OrderedDict(x=1), {"x": 1}),
        (State(x=1, log=["n"]), {"x": 1, "log": ["n"]}),
        (Command(), {}),
        (Command(goto=END), {}),
        (Command(update={"x": 1}), {"x": 1}),
        (Command(update=[("x", 1), ("log", ["a"]), ("log", ["b"])]), {"x": 1, "log": ["a", "b"]}),
        ([Command(update={"x": 1}), Command(update={"y": 2})], {"x": 1, "y": 2}),
        ([Command(update={"x": 1}), {"y": 2}], {"x": 1, "y": 2}),
        (({"log": ["a"]}, Command(update={"log": ["b"]}), {"log": ["c"]}), {"log": ["a", "b", "c"]}),
        ([Command(update={"log": ["a"]}, goto=END)], {"log": ["a"]}),
    ],
    ids=shown,
)
def test_what_a_node_may_return(engine, colour, returned, changed):
    """graph-api 5 and 6: each accepted kind of return means the same on both drivers."""
    graph = builder(State, {"a": colour(lambda s: returned)}, (START, "a")).compile()
    assert engine.invoke(graph, {"y": 0}) == {"y": 0, "log": []} | changed


def test_what_a_graph_called_inside_a_node_gave_may_be_returned(engine):
    """graph-api 14: `return child.invoke(…)` is what people write."""
    child = chain(State, inside=lambda s: {"x": s["x"] + 1})
    assert engine.invoke(chain(State, a=lambda s: child.invoke({"x": s["x"]})), {"x": 1})["x"] == 2


@pytest.mark.parametrize(
    "returned",
    [
        "text", "", 0, 1, 1.5, True, False, b"x", [], (), set(), {"x"}, frozenset({"x"}), object(), [1], ["x"],
        [{}], [{"x": 1}], ({"x": 1}, {"y": 2}), [("x", 1)], dict, State, Data,
        ValueError("returned"), END, range(2), Overwrite({"x": 1}), MARK_FOR_REMOVAL, lambda s: {"x": 1},
    ],
    ids=shown,
)  # fmt: skip
def test_what_a_node_may_not_return(engine, returned):
    """graph-api 5: anything else is refused with the node and what it returned; nothing is applied."""
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(chain(State, before=wrote("x", 1), odd=lambda s: returned), {})
    assert place(caught.value) == ("odd", None)
    assert "Expected dict" in str(caught.value)
    assert type(returned).__name__ in str(caught.value)
    assert caught.value.result == {"x": 1, "log": []}


@pytest.mark.parametrize(
    "returned", [[Send("sink")], (Send("sink"), Send("sink")), [Send("sink"), {"x": 1}]], ids=shown
)
def test_a_list_of_sends_is_no_update(engine, returned):
    """graph-api 5: a bare `Send` is accepted, a list of them isn't: what a list may hold are commands and updates."""
    graph = builder(State, {"odd": lambda s: returned, "sink": nothing}, (START, "odd")).compile()
    with pytest.raises(InvalidUpdateError, match="Expected dict") as caught:
        engine.invoke(graph, {})
    assert caught.value.node == "odd"


def test_a_bare_send_is_a_route(engine):
    """graph-api 5: it schedules the task, and updates nothing."""
    graph = builder(
        State, {"a": lambda s: Send("b", 5), "b": lambda sent: {"x": sent}}, (START, "a")
    ).compile()
    assert engine.invoke(graph, {}) == {"x": 5, "log": []}


class Partial(BaseModel):
    x: int = 1
    y: int = 2


class Stray(BaseModel):
    lag: list[int] = []


@pytest.mark.parametrize("schema", [State, Data, Model, Struct, None])
def test_an_object_of_another_class_with_fields_is_an_update(engine, schema):
    """graph-api 5: an instance of any annotated class writes the fields that were set; unknown ones are refused."""
    values = engine.stream(chain(schema, a=lambda s: Partial(x=2)), {"y": 0}, stream_mode="values")
    assert (values[-1]["x"], values[-1]["y"]) == (2, 0)
    if schema is not None:
        with pytest.raises(InvalidUpdateError) as caught:
            engine.invoke(chain(schema, odd=lambda s: Stray(lag=[1])), {})
        assert place(caught.value) == ("odd", "lag")


@pytest.mark.parametrize("name", [1, None, ("x",), b"x"], ids=shown)
def test_keys_are_strings(engine, name):
    """Rule 3: a key of another type is refused by closed and open states."""
    for schema in (State, None):
        with pytest.raises(
            InvalidUpdateError, match=repr(name).replace("(", r"\(").replace(")", r"\)")
        ) as caught:
            engine.invoke(chain(schema, odd=lambda s: {name: 1}), {"x": 1})
        assert caught.value.node == "odd"


@pytest.mark.parametrize("given", ["text", 1, [], ["x"], object(), True, {1}], ids=shown)
def test_what_may_not_be_given(engine, given):
    """Bad input anywhere: the input is checked like a return, and nothing runs."""
    ran = []
    with pytest.raises(InvalidUpdateError, match="input") as caught:
        engine.invoke(chain(State, a=ran.append), given)
    assert type(given).__name__ in str(caught.value)
    assert ran == []


# ── objects as updates ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schema", [Data, Model, Struct])
class TestObjects:
    """Rule 7: what a returned object writes."""

    def test_a_new_object_writes_what_was_set(self, engine, schema):
        """A new object writes the fields that were set, not its defaults."""
        graph = chain(schema, a=lambda s: schema(x=5, log=["new"]))
        result = engine.invoke(graph, {"x": 1, "y": 2, "log": ["old"]})
        assert result.value == schema(x=5, y=2, log=["old", "new"])

    def test_the_object_handed_out_writes_what_changed(self, engine, schema):
        """Two branches that return their state with one field changed don't contradict each other."""

        def set_x(state):
            state.x = "x"
            return state

        def set_y(state):
            state.y = "y"
            return state

        graph = fan(schema, a=set_x, b=set_y, c=lambda s: s)
        result = engine.invoke(graph, {"x": 1, "y": 2, "log": ["old"]})
        assert result.value == schema(x="x", y="y", log=["old"])

    def test_none_that_was_set_is_a_write(self, engine, schema):
        """Setting a field to None is not the same as leaving it."""

        def unset(state):
            state.y = None
            return state

        assert engine.invoke(chain(schema, a=unset), {"x": 1, "y": 2}).value == schema(x=1, y=None)

    def test_a_container_changed_in_place_is_a_write(self, engine, schema):
        """In the object handed out, a field changed in place counts like one assigned."""

        def change(state):
            state.x["k"].append(2)
            return state

        assert engine.invoke(chain(schema, a=change), {"x": {"k": [1]}}).value.x == {"k": [1, 2]}

    def test_a_reduced_field_changed_in_place_is_refused(self, engine, schema):
        """With a reducer the old part would be merged once more."""

        def change(state):
            state.log.append("new")
            return state

        with pytest.raises(InvalidUpdateError, match="only the new part") as caught:
            engine.invoke(chain(schema, a=change), {"log": ["old"]})
        assert place(caught.value) == ("a", "log")

    def test_commands_carry_objects(self, engine, schema):
        """The update of a command may be an object as well."""
        graph = builder(schema, {"a": lambda s: Command(update=schema(x=5))}, (START, "a")).compile()
        assert engine.invoke(graph, {"y": 2}).value == schema(x=5, y=2)

    def test_a_sent_argument_is_handed_out_as_it_is(self, engine, schema):
        """graph-api 6: the argument of a `Send` is the input, whatever it is; what the node returns is its update."""
        seen = []

        def worker(sent):
            seen.append(sent)
            return schema(log=[repr(sent)])

        graph = StateGraph(schema).add_node("worker", worker)
        graph.add_conditional_edges(
            START, lambda s: [Send("worker", {"x": 1}), Send("worker", 5), Send("worker", schema(x=2))]
        )
        result = engine.invoke(graph.compile(), {"y": 1}).value
        assert sorted(seen, key=str) == sorted([{"x": 1}, 5, schema(x=2)], key=str)
        assert result == schema(y=1, log=["{'x': 1}", "5", repr(schema(x=2))])

    def test_a_sent_object_that_comes_back_is_an_update(self, engine, schema):
        """Rule 7: it isn't the state that was handed out, so what was set in it is written."""
        graph = StateGraph(schema).add_node("worker", lambda sent: sent)
        graph.add_conditional_edges(START, lambda s: Send("worker", schema(x=2, log=["sent"])))
        assert engine.invoke(graph.compile(), {"y": 1}).value == schema(x=2, y=1, log=["sent"])

    def test_an_input_may_be_an_object(self, engine, schema):
        """The input writes what was set."""
        assert engine.invoke(chain(schema, a=nothing), schema(x=1, log=["in"])).value == schema(
            x=1, log=["in"]
        )

    def test_a_dict_is_an_update_as_well(self, engine, schema):
        """A dict may be returned whatever the schema is."""
        assert engine.invoke(chain(schema, a=wrote("x", 3)), {}).value == schema(x=3)

    def test_an_undeclared_key_is_refused(self, engine, schema):
        """Rule 3, for states that are objects."""
        with pytest.raises(InvalidUpdateError, match="'logs'") as caught:
            engine.invoke(chain(schema, a=wrote("logs", 3)), {})
        assert place(caught.value) == ("a", "logs")
        assert "'log'" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "changed"),
    [
        (Model, lambda s, **fields: s.model_copy(update=fields)),
        (Data, dataclasses.replace),
        (Struct, msgspec.structs.replace),
    ],
)
def test_a_changed_copy_of_the_state_writes_what_changed(engine, schema, changed):
    """Rule 7: the other way to write it: the list in the copy is the one that was handed out."""
    graph = fan(schema, a=lambda s: changed(s, x="a"), b=lambda s: changed(s, log=["b"]))
    assert engine.invoke(graph, {"log": ["in"]}).value == schema(x="a", log=["in", "b"])


def test_fields_set_tells_even_what_equals_the_default(engine):
    """Rule 7: a pydantic model knows that its default was set on purpose."""
    graph = chain(Model, a=lambda s: Model(y=0))
    assert engine.invoke(graph, {"x": 1, "y": 5}).value == Model(x=1, y=0)


# ── a state of one value ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "given", "returned", "expected"),
    [
        (int, 1, 2, 2),
        (Annotated[int, operator.add], 1, 2, 3),
        (list, [1], [2], [2]),
        (Annotated[list, operator.add], [1], [2], [1, 2]),
        (dict, {"a": 1}, {"b": 2}, {"b": 2}),
        (Annotated[dict, operator.or_], {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (str, "a", "b", "b"),
        (Annotated[list, operator.add], [1], Command(update=[2]), [1, 2]),
        (Annotated[list, operator.add], [1], Command(update=[("k", 1)]), [1, ("k", 1)]),
        (Annotated[list, operator.add], [1], None, [1]),
        (Annotated[list, operator.add], [1], Overwrite([9]), [9]),
        (tuple, (1,), (), ()),
    ],
    ids=shown,
)
def test_a_state_of_one_value(engine, schema, given, returned, expected):
    """graph-api 3: the state is one unnamed value; the result's dict is empty and `value` holds it (decision 4)."""
    result = engine.invoke(chain(schema, a=lambda s: returned), given)
    assert result.value == expected
    assert dict(result) == {}


def test_branches_of_a_state_of_one_value(engine):
    """Rule 6: the conflict names the writers, here too."""
    with pytest.raises(InvalidUpdateError, match=r"'a'.*'b'"):
        engine.invoke(fan(int, a=lambda s: 1, b=lambda s: 2), 0)
    assert engine.invoke(fan(Annotated[int, operator.add], a=lambda s: 1, b=lambda s: 2), 0).value == 3


# ── generators ───────────────────────────────────────────────────────────────────────────────────────────────


def pieces(is_async: bool):
    if is_async:

        async def node(state):
            yield {"log": ["a"], "x": 1}
            yield None
            yield Command(update={"log": ["b"]})
            yield {"log": ["c"], "x": 2}

        return node

    def node(state):
        yield {"log": ["a"], "x": 1}
        yield None
        yield Command(update={"log": ["b"]})
        yield {"log": ["c"], "x": 2}

    return node


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_a_generator_node_writes_in_pieces(engine, is_async):
    """Issue's node kinds: keys with a reducer take every piece in order, others keep the last."""
    graph = chain(State, node=pieces(is_async))
    assert engine.invoke(graph, {}) == {"log": ["a", "b", "c"], "x": 2}
    updates = engine.stream(graph, {}, stream_mode="updates")
    assert [u["node"] for u in updates if u["node"]] == [
        {"log": ["a"], "x": 1}, {"log": ["b"]}, {"log": ["c"], "x": 2},
    ]  # fmt: skip


def test_a_generator_that_fails_writes_nothing(engine):
    """Rule 2: what it had yielded before isn't applied."""

    def node(state):
        yield {"log": ["a"]}
        raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between") as caught:
        engine.invoke(chain(State, node=node), {})
    assert failure(caught.value).result == {"log": []}
    assert failure(caught.value).node == "node"
