"""Which keys a type has, how each merges, and which types are refused."""

import dataclasses
import operator
import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import msgspec
import pydantic
import pytest
import typing_extensions
from typing_extensions import ReadOnly, TypeAliasType

from juncture.channels.ephemeral import EphemeralValue
from juncture.channels.last_value import LastValue
from juncture.channels.managed import IsLastStep, IsLastStepManager, RemainingSteps
from juncture.channels.reduced import BinaryOperatorAggregate
from juncture.errors import GraphBuildError
from juncture.graph.schema import read_schema
from juncture.types import MISSING, ROOT

T = TypeVar("T")
U = TypeVar("U")


class Typed(TypedDict):
    name: str
    items: Annotated[list[int], operator.add]
    left: RemainingSteps


@dataclass
class Data:
    name: str
    items: Annotated[list[int], operator.add] = field(default_factory=list)
    left: RemainingSteps = 0


class Model(pydantic.BaseModel):
    name: str
    items: Annotated[list[int], operator.add] = pydantic.Field(default_factory=list)
    left: RemainingSteps = 0


class Struct(msgspec.Struct):
    name: str
    items: Annotated[list[int], operator.add] = []
    left: RemainingSteps = 0


class Plain:
    name: str
    items: Annotated[list[int], operator.add]
    left: RemainingSteps


KINDS = [
    (Typed, "typed_dict"),
    (Data, "dataclass"),
    (Model, "pydantic"),
    (Struct, "msgspec"),
    (Plain, "typed_dict"),
]


@pytest.mark.parametrize(("tp", "kind"), KINDS)
def test_fields_are_read_in_the_order_of_the_type(tp, kind):
    schema = read_schema(tp)
    assert (schema.kind, schema.name, schema.type) == (kind, tp.__name__, tp)
    assert list(schema.fields) == ["name", "items", "left"]
    assert [f.name for f in schema.fields.values()] == ["name", "items", "left"]
    name, items, left = schema.fields.values()
    assert name.channel == LastValue(str)
    assert (name.base, name.required, name.managed) == (str, True, None)
    assert items.channel == BinaryOperatorAggregate(list[int], operator.add)
    assert items.base == list[int]
    assert left.managed is RemainingSteps.__metadata__[0]
    assert left.base is int


@pytest.mark.parametrize("tp", [Data, Model, Struct])
def test_defaults_are_read(tp):
    name, items, left = read_schema(tp).fields.values()
    assert (name.required, name.default, name.default_factory) == (True, MISSING, MISSING)
    assert (items.required, items.default, items.default_factory) == (False, MISSING, list)
    assert (left.required, left.default, left.default_factory) == (False, 0, MISSING)


def test_lenient_schemas_have_lenient_channels():
    for tp in (Typed, Data, Model, Struct, Annotated[list, operator.add]):
        channels = [f.channel for f in read_schema(tp, strict=False).fields.values()]
        assert [c.lenient for c in channels if isinstance(c, BinaryOperatorAggregate)] == [True], tp


# ── TypedDict ────────────────────────────────────────────────────────────────────────────────────────────────


class Half(TypedDict, total=False):
    a: int
    b: Required[int]
    c: Annotated[Required[int], "doc"]


class Whole(Half):
    d: int
    e: NotRequired[list[int]]
    f: ReadOnly[NotRequired[str]]
    g: Annotated[NotRequired[Annotated[list[int], operator.add]], "doc"]


def test_required_keys_of_typed_dicts():
    schema = read_schema(Whole)
    assert {n: f.required for n, f in schema.fields.items()} == {
        "a": False,
        "b": True,
        "c": True,
        "d": True,
        "e": False,
        "f": False,
        "g": False,
    }
    assert schema.fields["e"].annotation == list[int]
    assert schema.fields["f"].annotation is str
    assert schema.missing({"a": 1, "d": 1}) == ["b", "c"]


def test_typed_dicts_of_typing_extensions_and_functional_ones():
    late = typing_extensions.TypedDict("late", {"in": int, "out": "list[int]"})
    assert [(f.name, f.base) for f in read_schema(late).fields.values()] == [("in", int), ("out", list[int])]


def test_an_empty_typed_dict_has_no_keys():
    class Empty(TypedDict):
        pass

    schema = read_schema(Empty)
    assert (schema.kind, schema.fields) == ("typed_dict", {})
    assert schema.output({"other": 1}) == {}


class Pair(TypedDict, Generic[T, U]):
    one: T
    many: Annotated[list[U], operator.add]
    either: T | None


class Swapped(Pair[U, T], Generic[T, U]):
    extra: dict[str, T]


def test_type_variables_of_generic_typed_dicts_are_replaced():
    fields = read_schema(Pair[int, str]).fields
    assert [f.base for f in fields.values()] == [int, list[str], int | None]
    assert fields["many"].channel == BinaryOperatorAggregate(list[str], operator.add)
    assert read_schema(Pair[int, str]).name == "Pair"


def test_type_variables_are_replaced_where_the_key_was_declared():
    # `Swapped[int, str]` is a `Pair[str, int]`, whose own T is str.
    fields = read_schema(Swapped[int, str]).fields
    assert {n: f.base for n, f in fields.items()} == {
        "one": str,
        "many": list[int],
        "either": str | None,
        "extra": dict[str, int],
    }


def test_generic_types_without_arguments_keep_their_variables():
    assert read_schema(Pair).fields["many"].base == list[U]


# ── dataclasses ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Odd:
    shared: ClassVar[int] = 1
    seed: InitVar[int]
    _: dataclasses.KW_ONLY
    fixed: Final[int] = 2
    derived: list[int] = field(init=False)
    counted: int = field(default=0, init=False)


def test_which_parts_of_a_dataclass_are_keys():
    fields = read_schema(Odd).fields
    assert {n: (f.base, f.required) for n, f in fields.items()} == {
        "seed": (int, True),
        "fixed": (int, False),
        "derived": (list[int], False),
        "counted": (int, False),
    }


@dataclass
class Box(Generic[T]):
    content: T
    more: Annotated[list[T], operator.add] = field(default_factory=list)


@dataclass
class Labelled(Box[int], Generic[T]):
    label: T | None = None


def test_generic_dataclasses():
    assert [f.base for f in read_schema(Box[str]).fields.values()] == [str, list[str]]
    assert [f.base for f in read_schema(Labelled[bytes]).fields.values()] == [int, list[int], bytes | None]


def test_a_subclass_of_a_dataclass_that_is_none_itself():
    class Sub(Data):
        pass

    assert list(read_schema(Sub).fields) == ["name", "items", "left"]


# ── pydantic ─────────────────────────────────────────────────────────────────────────────────────────────────


class Envelope(pydantic.BaseModel, Generic[T]):
    content: T
    seen: Annotated[list[T], operator.add] = []
    shared: ClassVar[int] = 1
    _private: int = 0


def test_generic_models():
    fields = read_schema(Envelope[int]).fields
    assert [f.base for f in fields.values()] == [int, list[int]]
    assert fields["seen"].channel == BinaryOperatorAggregate(list[int], operator.add)
    assert fields["seen"].default_factory() == []


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[list[int], operator.add, pydantic.Field(max_length=3)],
        Annotated[list[int], pydantic.Field(max_length=3), operator.add],
        Annotated[list[int], operator.add, pydantic.AfterValidator(sorted)],
    ],
)
def test_constraints_and_validators_dont_hide_a_reducer(annotation):
    model = pydantic.create_model("Made", items=(annotation, pydantic.Field(min_length=1)))

    class State(TypedDict):
        items: annotation

    for tp in (model, State):
        assert read_schema(tp).fields["items"].channel == BinaryOperatorAggregate(list[int], operator.add)


def test_root_models_are_refused():
    class Many(pydantic.RootModel[list[int]]):
        pass

    with pytest.raises(GraphBuildError, match=r"Many is a RootModel.*Give its root type"):
        read_schema(Many)


# ── msgspec ──────────────────────────────────────────────────────────────────────────────────────────────────


class Renamed(msgspec.Struct, Generic[T], rename="camel", kw_only=True):
    first_name: T
    last_seen: int = 0
    tags: set[str] = msgspec.field(default_factory=set)


def test_keys_of_a_struct_are_the_names_in_python():
    fields = read_schema(Renamed[str]).fields
    assert {n: f.base for n, f in fields.items()} == {"first_name": str, "last_seen": int, "tags": set[str]}
    assert fields["tags"].default_factory is set


def test_an_empty_struct_has_no_keys():
    class Nothing(msgspec.Struct):
        pass

    assert read_schema(Nothing).kind == "msgspec"


# ── single values and open states ────────────────────────────────────────────────────────────────────────────


class Colour(Enum):
    RED = 1


class Untyped:
    pass


Alias = TypeAliasType("Alias", Annotated[list[int], operator.add])


@pytest.mark.parametrize(
    ("tp", "base", "name"),
    [
        (int, int, "int"),
        (dict, dict, "dict"),
        (list[int], list[int], "list[int]"),
        (Colour, Colour, "Colour"),
        (Untyped, Untyped, "Untyped"),
        (int | None, int | None, "int | None"),
        (Literal["a"], Literal["a"], "typing.Literal['a']"),
        (Any, Any, "Any"),
        (Annotated[int, "doc"], int, "typing.Annotated[int, 'doc']"),
    ],
)
def test_bare_types_are_one_value(tp, base, name):
    schema = read_schema(tp)
    assert (schema.kind, schema.name) == ("root", name)
    assert list(schema.fields) == [ROOT]
    assert schema.fields[ROOT].base == base
    assert schema.fields[ROOT].channel == LastValue(base)


@pytest.mark.parametrize("tp", [Annotated[list[int], operator.add], Alias])
def test_a_bare_type_may_have_a_reducer(tp):
    field = read_schema(tp).fields[ROOT]
    assert field.channel == BinaryOperatorAggregate(list[int], operator.add)


def test_a_class_with_a_reducer_on_it_is_one_value_and_otherwise_keys():
    def merged(old, new):
        return {**old, **new}

    assert read_schema(Annotated[Typed, merged]).kind == "root"
    assert read_schema(Annotated[Typed, "doc"]).kind == "typed_dict"


def test_a_managed_value_cant_be_the_whole_state():
    with pytest.raises(GraphBuildError, match="is a managed value, which can't be the whole state"):
        read_schema(IsLastStep)


def test_no_schema_is_an_open_state():
    schema = read_schema(None)
    assert (schema.kind, schema.fields) == ("open", {})
    values = {"anything": [1]}
    assert schema.build(values) is values
    assert schema.output(values) == values
    assert schema.output(values) is not values
    assert schema.validator("anything") is None
    assert repr(schema) == "<Schema the open state (open): >"


@pytest.mark.parametrize("bad", ["State", 3, [int], NewType("UserId", int), TypeVar("T")])
def test_what_is_no_type_is_refused_or_warned_about(bad):
    with pytest.raises(GraphBuildError, match=r"Invalid state_schema: .* Expected a type or Annotated"):
        read_schema(bad)
    with pytest.warns(UserWarning, match="Invalid state_schema"):
        schema = read_schema(bad, strict=False)
    assert schema.kind == "root"


# ── channels in annotations ──────────────────────────────────────────────────────────────────────────────────


def test_channels_in_annotations_are_taken():
    class State(TypedDict):
        a: Annotated[int, EphemeralValue]
        b: Annotated[int, EphemeralValue(int, guard=False)]
        last: Annotated[bool, IsLastStepManager]

    fields = read_schema(State).fields
    assert fields["a"].channel == EphemeralValue(int)
    assert fields["b"].channel == EphemeralValue(int, guard=False)
    assert fields["last"].managed is IsLastStepManager


def test_a_reducer_of_one_argument_is_refused_and_its_key_named():
    class State(TypedDict):
        ok: int
        items: Annotated[list, len]

    with pytest.raises(GraphBuildError, match="Invalid reducer signature") as caught:
        read_schema(State)
    assert caught.value.key == "items"
    assert "State.items" in caught.value.__notes__[0]


def test_forward_references_inside_an_annotation():
    class State(TypedDict):
        items: Annotated[list["Nowhere"], operator.add]  # noqa: F821 - can't be found
        by_name: dict[str, "Nowhere"]  # noqa: F821 - can't be found
        perhaps: Optional["Nowhere"]  # noqa: F821 - can't be found

    fields = read_schema(State).fields
    assert fields["items"].channel == BinaryOperatorAggregate(list, operator.add)
    assert fields["by_name"].base is dict
    assert fields["perhaps"].base is Any
    with pytest.raises(GraphBuildError, match=r"State\.items uses 'Nowhere'"):
        read_schema(State, validate=True)


def test_a_final_field_without_a_type():
    @dataclass
    class State:
        a: Final = 3

    assert read_schema(State).fields["a"].base is Any


def test_a_class_whose_annotations_are_none_is_one_value():
    class Weird:
        __annotations__ = 3

    assert read_schema(Weird).kind == "root"


def test_a_named_tuple_and_a_dict_with_annotations_are_read_as_keys():
    class Point(NamedTuple):
        x: int
        y: int = 0

    class Record(dict):
        x: int

    assert list(read_schema(Point).fields) == ["x", "y"]
    assert list(read_schema(Record).fields) == ["x"]


def test_nothing_heavy_is_imported_for_plain_types():
    code = (
        "import sys, typing, dataclasses\n"
        "from juncture.graph.schema import read_schema, schema_from_callable\n"
        "class A(typing.TypedDict):\n    x: int\n"
        "@dataclasses.dataclass\nclass B:\n    x: int\n"
        "def node(state: A): ...\n"
        "for tp in (A, B, int, None): read_schema(tp)\n"
        "assert schema_from_callable(node) is A\n"
        "print([m for m in ('pydantic', 'pydantic_core', 'msgspec', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
