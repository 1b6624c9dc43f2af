"""What nodes are handed, and what the objects they return write."""

import dataclasses
import math
import operator
from collections import Counter, OrderedDict
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, ClassVar, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from juncture.graph.schema import read_schema, schema_of_object
from juncture.graph.schema_base import same
from juncture.types import ROOT

T = TypeVar("T")


class Typed(TypedDict):
    name: str
    items: list[int]


@dataclass
class Data:
    name: str
    items: Annotated[list[int], operator.add] = field(default_factory=list)
    note: str | None = None
    level: int = 1


class Model(pydantic.BaseModel):
    name: str
    items: Annotated[list[int], operator.add] = pydantic.Field(default_factory=list)
    note: str | None = None
    level: int = 1


class Struct(msgspec.Struct):
    name: str
    items: Annotated[list[int], operator.add] = msgspec.field(default_factory=list)
    note: str | None = None
    level: int = 1


@dataclass(slots=True)
class Slotted:
    name: str
    items: Annotated[list[int], operator.add] = field(default_factory=list)
    note: str | None = None
    level: int = 1


@pydantic.dataclasses.dataclass
class Checked:
    name: str
    items: Annotated[list[int], operator.add] = pydantic.Field(default_factory=list)
    note: str | None = pydantic.Field(default=None)
    level: int = 1


OBJECTS = [Data, Model, Struct, Slotted, Checked]

each_object = pytest.mark.parametrize("tp", OBJECTS)


def handed(tp, committed, **options):
    """An object as a node gets it, its schema, and the snapshot, the containers copied as the engine does."""
    schema = read_schema(tp, **options)
    copies = {key: list(v) if isinstance(v, list) else v for key, v in committed.items()}
    instance = schema.build(copies)
    return schema, instance, schema.snapshot(instance, committed)


# ── building ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_dicts_and_single_values_are_handed_out_as_they_are():
    values = {"name": "a", "items": [1]}
    assert read_schema(Typed).build(values) is values
    root = [1]
    assert read_schema(list[int]).build({ROOT: root}) is root
    assert read_schema(list[int]).build({}) is None
    assert read_schema(list[int]).output({ROOT: root}) is root
    assert read_schema(Typed).snapshot(values) is None
    assert read_schema(Typed).updates_of(values) is None
    assert read_schema(int).updates_of(3) is None


@each_object
def test_objects_are_built_with_defaults_for_what_is_absent(tp):
    schema = read_schema(tp)
    instance = schema.build({"name": "a", "level": 5})
    assert type(instance) is tp
    assert (instance.name, instance.items, instance.note, instance.level) == ("a", [], None, 5)
    assert instance == tp(name="a", level=5)
    assert schema.build({"name": "b"}).items is not schema.build({"name": "b"}).items


@pytest.mark.parametrize("tp", [Data, Struct, Slotted, Model])
def test_containers_are_taken_as_they_are(tp):
    items = [1]
    assert read_schema(tp).build({"name": "a", "items": items}).items is items


@each_object
@pytest.mark.parametrize("strict", [True, False])
def test_a_missing_required_field_is_the_class_s_own_error(tp, strict):
    expected: Any = None
    try:
        tp(level=1)
    except (TypeError, pydantic.ValidationError) as error:
        expected = error
    with pytest.raises(type(expected)) as caught:
        read_schema(tp, strict=strict).build({"level": 1})
    assert str(caught.value).splitlines()[0] == str(expected).splitlines()[0]
    assert "name" in str(caught.value)
    assert read_schema(tp).missing({"level": 1}) == ["name"]
    assert read_schema(tp).missing({"name": None}) == []


@each_object
def test_output_is_an_instance_of_this_schema_s_keys(tp):
    assert read_schema(tp).output({"name": "a", "other": 1}) == tp(name="a")


def test_output_of_a_typed_dict_is_a_new_dict_of_its_keys():
    values = {"items": [1], "other": 1, "name": "a"}
    assert list(read_schema(Typed).output(values).items()) == [("name", "a"), ("items", [1])]


@dataclass
class Derived:
    seed: InitVar[int]
    base: int = 1
    shared: ClassVar[int] = 0
    total: int = field(init=False)
    log: list[int] = field(init=False, default_factory=list)

    def __post_init__(self, seed):
        self.total = self.base + seed


def test_init_only_and_derived_fields():
    schema = read_schema(Derived)
    values = {"seed": 2, "base": 3, "log": [9]}
    instance = schema.build(values)
    assert (instance.total, instance.log) == (5, [9])
    assert values == {"seed": 2, "base": 3, "log": [9]}
    # Neither what the constructor derived nor the seed, which the object doesn't keep, counts as changed.
    assert schema.updates_of(instance, schema.snapshot(instance, values)) == {}
    assert schema.updates_of(Derived(2, base=1)) == {"total": 3}
    with pytest.raises(TypeError, match="seed"):
        schema.build({"base": 1})


def test_frozen_and_keyword_only_dataclasses():
    @dataclass(frozen=True, kw_only=True)
    class Frozen:
        a: int
        b: list[int] = field(init=False, default_factory=list)

    schema = read_schema(Frozen)
    instance = schema.build({"a": 1, "b": [2]})
    assert (instance.a, instance.b) == (1, [2])
    before = schema.snapshot(instance, {"a": 1, "b": [2]})
    assert schema.updates_of(instance, before) == {}
    instance.b.append(3)
    assert schema.updates_of(instance, before) == {"b": [2, 3]}
    assert schema.updates_of(dataclasses.replace(instance, a=5)) == {"a": 5}


# ── returned objects ─────────────────────────────────────────────────────────────────────────────────────────


@each_object
def test_other_objects_are_no_updates(tp):
    schema = read_schema(tp)
    others = [other for other in OBJECTS if other is not tp]
    for value in [{"name": "a"}, None, 3, "a", *(other(name="a") for other in others)]:
        assert schema.updates_of(value) is None


@each_object
def test_a_new_object_writes_required_fields_and_what_was_set(tp):
    schema = read_schema(tp)
    assert schema.updates_of(tp(name="a", level=2)) == {"name": "a", "level": 2}
    assert schema.updates_of(tp(name="a", items=[1])) == {"name": "a", "items": [1]}
    assert list(schema.updates_of(tp(level=2, items=[1], name="a"))) == ["name", "items", "level"]


def test_a_none_that_was_set_is_a_write():
    assert read_schema(Model).updates_of(Model(name="a", note=None)) == {"name": "a", "note": None}

    @dataclass
    class Full:
        note: str | None = "full"

    assert read_schema(Full).updates_of(Full(note=None)) == {"note": None}
    for tp in (Data, Slotted, Struct):
        assert read_schema(tp).updates_of(tp(name=None)) == {"name": None}


def test_a_new_object_of_a_subclass_counts():
    class Sub(Data):
        pass

    assert read_schema(Data).updates_of(Sub(name="a")) == {"name": "a"}


def test_a_default_is_told_from_an_equal_value_of_another_type():
    @dataclass
    class Flag:
        on: int = 1
        part: float = 0.0

    assert read_schema(Flag).updates_of(Flag(on=True, part=0)) == {"on": True, "part": 0}


@each_object
@pytest.mark.parametrize("with_committed", [True, False])
def test_the_handed_out_object_writes_what_changed(tp, with_committed):
    committed = {"name": "a", "items": [1], "level": 3}

    def after(change):
        schema, instance, before = handed(tp, committed)
        if not with_committed:
            before = schema.snapshot(instance)
        change(instance)
        update = schema.updates_of(instance, before)
        assert committed == {"name": "a", "items": [1], "level": 3}
        return update

    def rebound(instance):
        instance.items.append(2)
        instance.items = list(instance.items)

    assert after(lambda it: None) == {}
    assert after(lambda it: setattr(it, "level", 4)) == {"level": 4}
    assert after(lambda it: setattr(it, "level", None)) == {"level": None}
    assert after(lambda it: setattr(it, "level", 3)) == {}
    assert after(lambda it: setattr(it, "level", True)) == {"level": True}
    assert after(lambda it: it.items.append(2)) == {"items": [1, 2]}
    assert after(lambda it: setattr(it, "items", [5])) == {"items": [5]}
    assert after(lambda it: setattr(it, "items", [1])) == {}
    assert after(rebound) == {"items": [1, 2]}
    assert after(lambda it: (setattr(it, "note", "n"), setattr(it, "name", "b"))) == {
        "name": "b",
        "note": "n",
    }


@each_object
def test_changes_in_what_a_default_made_are_seen(tp):
    schema, instance, before = handed(tp, {"name": "a"})
    assert schema.updates_of(instance, before) == {}
    instance.items.append(1)
    assert schema.updates_of(instance, before) == {"items": [1]}


@each_object
def test_a_changed_value_is_the_very_one_that_was_handed_out(tp):
    schema, instance, before = handed(tp, {"name": "a", "items": [1]})
    assert before[0]["items"] is instance.items
    items = instance.items
    items.append(2)
    assert schema.updates_of(instance, before)["items"] is items


def test_a_field_that_was_deleted_isnt_written():
    schema, instance, before = handed(Data, {"name": "a", "level": 3})
    del instance.level
    assert schema.updates_of(instance, before) == {"level": 1}  # what the class shows then
    del instance.name
    assert schema.updates_of(instance, before) == {"level": 1}
    assert schema.updates_of(instance) == {}


def test_structs_know_fields_that_arent_set():
    class Partly(msgspec.Struct):
        a: int | msgspec.UnsetType = msgspec.UNSET
        b: int | msgspec.UnsetType = 1

    schema = read_schema(Partly)
    assert schema.updates_of(Partly(b=msgspec.UNSET)) == {}
    assert schema.updates_of(Partly(a=2)) == {"a": 2}


def test_structs_of_one_and_no_field():
    class One(msgspec.Struct):
        a: int

    class Nothing(msgspec.Struct):
        pass

    schema, instance, before = handed(One, {"a": 1})
    instance.a = 2
    assert schema.updates_of(instance, before) == {"a": 2}
    schema, instance, before = handed(Nothing, {})
    assert schema.updates_of(instance, before) == {}


def test_a_field_behind_a_descriptor_is_read_through_it():
    @dataclass
    class Guarded:
        a: int = 0

    def get(self):
        return self.__dict__["_a"] * 1

    def put(self, value):
        self.__dict__["_a"] = value

    Guarded.a = property(get, put)
    schema, instance, before = handed(Guarded, {"a": 1})
    assert schema.updates_of(instance, before) == {}
    instance.a = 2
    assert schema.updates_of(instance, before) == {"a": 2}


def test_instances_of_annotated_classes_are_updates_though_dicts_are_handed_out():
    class Plain:
        a: int
        b: int

    class Record(dict):
        a: int

    schema = read_schema(Plain)
    assert schema.build({"a": 1}) == {"a": 1}
    assert schema.snapshot({"a": 1}, {"a": 1}) is None
    plain = Plain()
    plain.a = 1
    assert schema.updates_of(plain) == {"a": 1}
    assert schema.updates_of({"a": 1}) is None
    # A dict is read as a dict, whatever its class says.
    assert read_schema(Record).updates_of(Record(a=1)) is None


def test_the_schema_of_any_object():
    assert schema_of_object(Data("a")).updates_of(Data("a")) == {"name": "a"}
    assert schema_of_object(Model(name="a")).updates_of(Model(name="a")) == {"name": "a"}
    for value in [1, "a", [1], {"a": 1}, None, object()]:
        assert schema_of_object(value) is None


# ── equality ─────────────────────────────────────────────────────────────────────────────────────────────────


class Unequal:
    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None


@pytest.mark.parametrize(
    "make",
    [
        lambda: 1,
        lambda: [1, [2], {"a": (3,)}],
        lambda: {"a": {1, 2}},
        lambda: OrderedDict(a=1),
        lambda: Counter("aab"),
        lambda: Data("a", [1]),
    ],
)
def test_equal_values_are_the_same(make):
    assert same(make(), make())


def test_one_object_is_the_same_even_if_it_cant_be_compared():
    unequal = Unequal()
    assert same(unequal, unequal)
    assert same([math.nan], [math.nan])
    assert not same(Unequal(), Unequal())


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        ([1], [True]),
        ([1], (1,)),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"b": 1}),
        ({1: "a"}, {True: "a"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, OrderedDict(a=1)),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}),
        (None, 0),
    ],
)
def test_values_that_differ_in_type_or_order_arent_the_same(a, b):
    assert not same(a, b)
