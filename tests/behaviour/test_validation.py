"""Every update is validated before it is committed, where the schema says how (right-behaviour 4, decision 14)."""

import operator
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pydantic
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
from tests.behaviour.building import builder, chain, fan, nothing, place, seen_by, wrote

# ── rule 4: wrong types ──────────────────────────────────────────────────────────────────────────────────────


class PModel(BaseModel):
    n: int = 0
    tags: Annotated[list[int], operator.add] = []
    name: str = ""


class PStruct(msgspec.Struct):
    n: int = 0
    tags: Annotated[list[int], operator.add] = msgspec.field(default_factory=list)
    name: str = ""


@dataclass
class PData:
    n: int = 0
    tags: Annotated[list[int], operator.add] = field(default_factory=list)
    name: str = ""


class PDict(TypedDict, total=False):
    n: int
    tags: Annotated[list[int], operator.add]
    name: str


VALIDATED = {
    "pydantic": (PModel, {}),
    "msgspec": (PStruct, {}),
    "dataclass": (PData, {"validate": True}),
    "TypedDict": (PDict, {"validate": True}),
}


@pytest.fixture(params=list(VALIDATED))
def validated(request):
    return VALIDATED[request.param]


WRONG = {
    "last value": ("n", "three"),
    "reduced": ("tags", ["three"]),
    "none": ("n", None),
    "overwrite": ("tags", Overwrite(["three"])),
    "overwrite of a last value": ("n", Overwrite("three")),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_a_wrong_type_is_refused(engine, saver, validated, wrong):
    """Rule 4: every update is validated before it is committed; the thread stays as it was, and can be loaded."""
    schema, options = validated
    key, value = WRONG[wrong]
    outputs = [{"name": "new", key: value}, {"name": "right"}]
    graph = chain(schema, odd=lambda s: outputs.pop(0), saver=saver, options=options)
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {"n": 1, "name": "old"}, thread_id="t")
    assert place(caught.value) == ("odd", key)
    written = value.value if isinstance(value, Overwrite) else value
    assert type(written).__name__ in str(caught.value)
    result = engine.invoke(graph, None, thread_id="t")
    assert as_dict(result) == {"n": 1, "tags": [], "name": "right"}


def as_dict(result: Any) -> dict[str, Any]:
    """A result's values, whatever the schema."""
    value = result.value
    return dict(value) if isinstance(value, dict) else {n: getattr(value, n) for n in ("n", "tags", "name")}


@pytest.mark.parametrize("wrong", ["last value", "reduced"])
def test_a_wrong_input_is_refused(engine, saver, validated, wrong):
    """Rule 4: the input too, before anything runs or is saved."""
    schema, options = validated
    key, value = WRONG[wrong]
    ran = []
    graph = chain(schema, a=lambda s: ran.append(1), saver=saver, options=options)
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {key: value}, thread_id="t")
    assert caught.value.key == key
    assert "input" in str(caught.value)
    assert ran == []
    assert as_dict(engine.invoke(graph, {"n": 1}, thread_id="t")) | {"tags": [], "name": ""} == {
        "n": 1, "tags": [], "name": "",
    }  # fmt: skip


@pytest.mark.parametrize("how", ["command", "router", "generator", "sent", "parallel", "subgraph", "parent"])
def test_a_wrong_type_is_refused_wherever_it_comes_from(engine, validated, how):
    """Rule 4: no way around the validation."""
    schema, options = validated
    write = {"name": "new", "n": "three"}

    class Loose(TypedDict, total=False):
        n: Any
        name: Any

    graph = StateGraph(schema, **options)
    if how == "command":
        graph.add_node("odd", lambda s: Command(update=write)).add_edge(START, "odd")
    elif how == "router":
        graph.add_node("odd", nothing).add_edge(START, "odd")
        graph.add_conditional_edges("odd", lambda s: Command(update=write, goto=END))
    elif how == "generator":

        def odd(state):
            yield {"name": "new"}
            yield {"n": "three"}

        graph.add_node("odd", odd).add_edge(START, "odd")
    elif how == "sent":
        graph.add_node("odd", lambda s: write).add_conditional_edges(START, lambda s: Send("odd", {}))
    elif how == "parallel":
        graph.add_node("odd", lambda s: {"n": "three"}).add_node("fine", wrote("name", "new"))
        graph.add_edge(START, "odd").add_edge(START, "fine")
    elif how == "subgraph":
        graph.add_node("odd", chain(Loose, inside=lambda s: write)).add_edge(START, "odd")
    else:
        child = builder(Loose, {"c": lambda s: Command(graph=Command.PARENT, update=write)}, (START, "c"))
        graph.add_node("odd", child.compile()).add_edge(START, "odd")
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph.compile(), {"n": 1})
    assert place(caught.value) == ("odd", "n")
    assert "str" in str(caught.value)
    assert as_dict(caught.value.result)["n"] == 1


@pytest.mark.parametrize("kind", ["pydantic", "dataclass", "TypedDict"])
def test_what_was_coerced_is_stored(engine, kind):
    """Rule 4, decision 14: the coerced value is what the state holds; of a reduced key, the coerced merged value."""
    schema, options = VALIDATED[kind]
    seen = []
    graph = chain(schema, a=lambda s: {"n": "3", "tags": ["4"]}, b=seen_by(seen), options=options)
    assert as_dict(engine.invoke(graph, {"tags": ["1"]})) | {"name": ""} == {
        "n": 3,
        "tags": [1, 4],
        "name": "",
    }
    handed = seen[0] if isinstance(seen[0], dict) else vars(seen[0])
    assert (handed["n"], handed["tags"]) == (3, [1, 4])


@pytest.mark.parametrize(
    ("schema", "expected"), [(PData, PData(n="three")), (PDict, {"n": "three", "tags": []})]
)
def test_dataclasses_and_dicts_are_validated_only_when_asked(engine, schema, expected):
    """Rule 4: `validate=True` is for those; without it a type is documentation."""
    assert engine.invoke(chain(schema, a=wrote("n", "three")), {}).value == expected


class Ordered(BaseModel):
    low: int = 0
    high: int = 10
    seen: Annotated[list[int], operator.add] = []

    @pydantic.model_validator(mode="after")
    def in_order(self):
        if self.low > self.high:
            raise ValueError(f"{self.low} is above {self.high}")
        return self


def test_checks_of_the_whole_model_run_at_the_end_of_the_step(engine, saver):
    """Decision 14: two updates that are right by themselves may contradict each other; then neither is applied."""
    outputs = [({"low": 7}, {"high": 5}), ({"low": 7}, {"high": 9})]
    graph = fan(Ordered, a=lambda s: outputs[0][0], b=lambda s: outputs.pop(0)[1], saver=saver)
    meet = threading.Lock()
    with meet, pytest.raises(InvalidUpdateError, match="7 is above 5") as caught:
        engine.invoke(graph, {"seen": [1]}, thread_id="t")
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)
    assert engine.invoke(graph, {}, thread_id="t").value == Ordered(low=7, high=9, seen=[1])


def test_updates_that_are_wrong_only_together_with_the_state_are_refused(engine):
    """Decision 14: one node's update, right by its type, against what is committed."""
    with pytest.raises(InvalidUpdateError, match="20 is above 10") as caught:
        engine.invoke(chain(Ordered, a=wrote("low", 20)), {})
    assert caught.value.node == "a"
    with pytest.raises(InvalidUpdateError, match="20 is above 10"):
        engine.invoke(chain(Ordered, a=nothing), {"low": 20})


class Needed(BaseModel):
    must: int
    may: int | None = None


class NeededDict(TypedDict):
    must: int
    may: NotRequired[int]


@pytest.mark.parametrize(("schema", "options"), [(Needed, {}), (NeededDict, {"validate": True})])
def test_a_required_key_cant_be_removed(engine, schema, options):
    """Decision 14: the state could not be handed out any more."""
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(
            chain(schema, odd=wrote("must", MARK_FOR_REMOVAL), options=options), {"must": 1, "may": 2}
        )
    assert place(caught.value) == ("odd", "must")
    assert "required" in str(caught.value)
    result = engine.invoke(
        chain(schema, a=wrote("may", MARK_FOR_REMOVAL), options=options), {"must": 1, "may": 2}
    )
    assert result.value in (Needed(must=1), {"must": 1})


def test_lenient_models_are_validated_only_where_they_are_handed_out(engine):
    """Rule 4, L: a wrong value is committed, and the next node fails when its input is made."""
    graph = chain(PModel, a=wrote("n", "three"), b=nothing, options={"strict": False})
    with pytest.raises(pydantic.ValidationError) as caught:
        engine.invoke(graph, {})
    assert failure(caught.value).node == "b"
