"""Long lists of objects, compared by what they hold all at once: no change in place is missed, whatever it is."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import msgspec
import numpy
import pydantic
import pytest

from juncture.engine.state import State
from juncture.errors import SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.columns import CHUNK, LONG, Columns
from juncture.persistence.format import body_of_parts
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.track import Track


@dataclasses.dataclass
class Note:
    text: Any
    more: Any = None


@dataclasses.dataclass
class Twin:
    """As a Note, under another name."""

    text: Any
    more: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    text: Any
    more: Any = None


@dataclasses.dataclass
class Base:
    __slots__ = ("beside",)


@dataclasses.dataclass
class Both(Base):
    """Fields in its dict, and a slot beside it."""

    text: Any
    more: Any = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    text: Any
    more: Any = None
    _hidden: Any = pydantic.PrivateAttr(None)


class Other(pydantic.BaseModel):
    text: Any
    more: Any = None


class OtherTwin(pydantic.BaseModel):
    text: Any
    more: Any = None


@dataclasses.dataclass
class Computing:
    text: Any

    @functools.cached_property
    def length(self) -> int:
        return len(self.text)


class Struct(msgspec.Struct):
    text: Any


class Pair(NamedTuple):
    text: Any


class Encoded:
    def __init__(self, text: Any) -> None:
        self.text = text


CLASSES = (Note, Twin, Slotted, Both, Model, Other, OtherTwin, Computing, Struct, Pair)


def make_codec():
    registry = Registry(DEFAULT)
    for cls in CLASSES:
        registry.register(cls)
    registry.register(Encoded, encode=lambda o: o.text, decode=Encoded)
    return Codec(registry)


CODEC = make_codec()


def columns_of(items: Any) -> Columns | None:
    """As a save makes them."""
    columns = Columns.of(CODEC, items)
    if columns is not None:
        assert columns.noted(CODEC.pack_noting(items)[1])
    return columns


def many(cls: Any, **fields: Any) -> list[Any]:
    return [cls(text=f"{number}", **copy.deepcopy(fields)) for number in range(LONG + 3)]


def both(text: Any) -> Both:
    made = Both(text, {"a": 1})
    made.beside = [text]
    return made


def in_dict(name: str, value: Any) -> Callable[[Any], None]:
    return lambda o: vars(o).__setitem__(name, value)


def put(name: str, value: Any) -> Callable[[Any], None]:
    return lambda o: setattr(o, name, value)


def reordered(o: Any) -> None:
    vars(o)["text"] = vars(o).pop("text")


class Change(NamedTuple):
    """A list of objects, and what is done to one of them."""

    items: Callable[[], list[Any]]
    how: Callable[[Any], Any]


NESTED = {"of": Note("n", [1])}
CHANGES = {
    "field": Change(lambda: many(Note), put("text", "other")),
    "slot": Change(lambda: many(Slotted), put("text", "other")),
    "slot-inside": Change(lambda: many(Slotted, more=[1]), lambda o: o.more.append(2)),
    "slot-beside-a-dict": Change(lambda: [both(n) for n in range(LONG)], put("beside", None)),
    "inside-a-slot-beside": Change(lambda: [both(n) for n in range(LONG)], lambda o: o.beside.append(0)),
    "model-field": Change(lambda: many(Model), put("text", "other")),
    "model-field-past-its-setter": Change(lambda: many(Model), in_dict("text", "other")),
    "model-extra": Change(lambda: many(Model, extra=1), put("extra", 2)),
    "model-extra-new": Change(lambda: many(Model), put("extra", 2)),
    "model-extra-gone": Change(lambda: many(Model, extra=1), lambda o: delattr(o, "extra")),
    "model-extra-order": Change(
        lambda: many(Model, a=1, b=1),
        lambda o: o.__pydantic_extra__.update(a=o.__pydantic_extra__.pop("a")),
    ),
    "model-private": Change(lambda: many(Model), put("_hidden", [1])),
    "model-fields-set": Change(lambda: many(Model), lambda o: o.__pydantic_fields_set__.add("more")),
    "model-fields-set-less": Change(lambda: many(Model), lambda o: o.__pydantic_fields_set__.discard("text")),
    "model-fields-set-beyond": Change(lambda: many(Model), lambda o: o.__pydantic_fields_set__.add("any")),
    "list-inside": Change(lambda: many(Note, more=[1]), lambda o: o.more.append(2)),
    "dict-inside": Change(lambda: many(Model, more={"a": {}}), lambda o: o.more["a"].update(b=1)),
    "dict-order-inside": Change(
        lambda: many(Note, more={"a": 1, "b": 2}), lambda o: o.more.update(a=o.more.pop("a"))
    ),
    "object-inside": Change(lambda: many(Note, more=NESTED), lambda o: o.more["of"].more.append(2)),
    "model-inside": Change(
        lambda: many(Note, more=Model(text="t")), lambda o: o.more.__pydantic_fields_set__.add("more")
    ),
    "array-inside": Change(lambda: many(Note, more=numpy.array([1, 2])), lambda o: o.more.__setitem__(0, 5)),
    "array-type-inside": Change(
        lambda: many(Note, more=numpy.array([1, 2])), lambda o: put("more", o.more.astype("u8"))(o)
    ),
    "set-inside": Change(lambda: many(Note, more={1}), lambda o: o.more.add(2)),
    "one-is-true": Change(lambda: many(Note, more=1), put("more", value=True)),
    "one-is-a-float": Change(lambda: many(Note, more=1), put("more", 1.0)),
    "zero-is-negative": Change(lambda: many(Note, more=0.0), put("more", -0.0)),
    "one-inside": Change(lambda: many(Note, more=[1]), lambda o: o.more.append(o.more.pop() == 1)),
    "key-inside": Change(lambda: many(Note, more={1: 1}), lambda o: put("more", {True: 1})(o)),
    "bytes": Change(lambda: many(Note, more=b"abc"), put("more", bytearray(b"abc"))),
    "bytearray": Change(lambda: many(Note, more=bytearray(b"abc")), put("more", b"abc")),
    "bytearray-inside": Change(lambda: many(Note, more=bytearray(b"abc")), lambda o: o.more.append(1)),
    "text-and-bytes": Change(lambda: many(Note, more="abc"), put("more", b"abc")),
    "list-and-tuple": Change(lambda: many(Note, more=[1]), put("more", (1,))),
    "none-and-empty": Change(lambda: many(Note, more=[]), put("more", None)),
    "surrogate": Change(lambda: many(Note, more="\ud800"), put("more", "\ud801")),
    "more-attributes": Change(lambda: many(Note), in_dict("beyond", 1)),
    "order-of-attributes": Change(lambda: many(Note), reordered),
    "class": Change(lambda: many(Note), put("__class__", Twin)),
    "model-class": Change(lambda: many(Other), put("__class__", OtherTwin)),
    "computed": Change(lambda: many(Computing), put("text", "other")),
    "struct": Change(lambda: many(Struct), put("text", "other")),
    "encoded": Change(lambda: [Encoded(f"{n}") for n in range(LONG)], put("text", "other")),
    "mixed-classes": Change(lambda: [*many(Note), *many(Twin)], put("more", 1)),
    "mixed-kinds": Change(lambda: ["text", *many(Note), *many(Pair), *many(Model)], put("text", "other")),
    "many": Change(lambda: many(Note) * CHUNK, put("text", "other")),
}


class Series:
    """The parts of one series, as they are saved."""

    def __init__(self) -> None:
        self.track = Track(CODEC, frozenset(), exposed=False)
        self.parts: list[bytes] = []

    def save(self, **values: Any) -> int:
        """How many bytes were written."""
        payload, builds_on = self.track.encode(State(values=values), len(self.parts) + 1)
        if not builds_on:
            self.parts.clear()
        self.parts.append(payload)
        return len(payload)

    def read(self) -> dict[str, Any]:
        return body_of_parts(CODEC, self.parts).values


def test_what_changes_while_a_list_is_being_saved_shows_in_the_next_save():
    """Whatever changed since the columns were made differs from them: they are made before what is saved."""
    items = many(Note)
    left = [1, 1]  # one call makes the columns; in the next, the first object was written already

    def encode(o: Any) -> Any:
        left.pop()
        if not left:
            items[0].text = "changed"
            left.extend([1] * 100)
        return o.text

    codec = make_codec()
    codec.registry.register(Encoded, encode=encode, decode=Encoded)
    items[5].more = Encoded("")
    track = Track(codec, frozenset(), exposed=False)
    state = State(values={"items": items})
    first, _ = track.encode(state, 1)
    assert body_of_parts(codec, [first]).values["items"][0].text == "0"
    second, _ = track.encode(state, 2)
    assert body_of_parts(codec, [first, second]).values["items"][0].text == "changed"


def as_bytes(value: Any) -> bytes:
    return CODEC.pack(value)


@pytest.mark.parametrize("place", [1, -1])
@pytest.mark.parametrize("name", CHANGES)
def test_no_change_in_place_is_missed(name, place):
    change = CHANGES[name]
    items = change.items()
    columns = columns_of(items)
    series = Series()
    series.save(items=items, note="n" * 1_000)
    assert series.save(items=[*items]) < 100  # once as nothing changed
    change.how(items[place])
    if columns is not None:
        assert columns.grown(items) is None
        assert columns.grown([*items, *change.items()]) is None
    series.save(items=items)
    assert as_bytes(series.read()["items"]) == as_bytes(items)
    assert list(map(type, series.read()["items"])) == list(map(type, items))
    items = [*items, *change.items()]
    series.save(items=items)
    assert as_bytes(series.read()["items"]) == as_bytes(items)


ONE_BY_ONE = {"computed", "struct", "encoded", "mixed-kinds"}
"""Lists of which each object has to be looked at."""


@pytest.mark.parametrize("name", CHANGES)
def test_which_lists_are_read_by_columns(name):
    assert (columns_of(CHANGES[name].items()) is None) == (name in ONE_BY_ONE)


@pytest.mark.parametrize(
    "value",
    [
        tuple(many(Note)),
        many(Note)[: LONG - 1],
        [[note] for note in many(Note)],
        many(lambda text: {"text": text}),
        [*many(Note), *many(Slotted)],
        [*many(Note), *many(Both)],
        [*many(Note), {"text": ""}],
    ],
    ids=["tuple", "short", "nested", "dicts", "without-a-dict", "with-a-slot", "a-dict-among-them"],
)
def test_what_is_not_a_long_list_of_objects_of_one_kind_is_left_alone(value):
    assert Columns.of(CODEC, value) is None


@pytest.mark.parametrize(
    ("cls", "how"),
    [
        (Note, in_dict("beyond", 1)),
        (Note, reordered),
        (Note, lambda o: delattr(o, "text")),
        (Note, put("more", object())),
        (Model, reordered),
        (Model, put("more", object())),
        (Model, put("extra", object())),
        (Model, put("_hidden", object())),
        (Model, put("__pydantic_fields_set__", None)),
    ],
    ids=["beyond", "order", "deleted", "odd", "model-order", "model-odd", "extra", "private", "no-set"],
)
def test_an_object_that_is_not_as_its_class_says_is_left_alone(cls, how):
    items = many(cls)
    how(items[5])
    assert Columns.of(CODEC, items) is None


@pytest.mark.parametrize("items", [many(Slotted), many(Model)], ids=["dataclass", "model"])
def test_an_object_without_one_of_its_slots_is_left_alone(items):
    columns = columns_of(items)
    object.__delattr__(items[1], "__pydantic_private__" if type(items[1]) is Model else "more")
    assert columns is not None
    assert columns.grown(items) is None
    assert Columns.of(CODEC, items) is None


@pytest.mark.parametrize("steps", [[1] * 20, [CHUNK - LONG, 1, CHUNK], [3 * CHUNK], [CHUNK, 0, 5]], ids=str)
@pytest.mark.parametrize("make", [Note, Slotted, Model, both], ids=["dict", "slots", "model", "both"])
def test_a_list_that_grows_is_as_if_it_had_been_read_at_once(make, steps):
    items = [make(text=number) for number in range(LONG)]
    columns = columns_of(items)
    for step in steps:
        items = [*items, *(make(text=number) for number in range(step))]
        assert columns is not None
        columns = columns.grown(items)
        assert columns is not None
        assert columns.noted(CODEC.pack_noting(items)[1])
    at_once = columns_of(items)
    assert columns is not None
    assert at_once is not None
    assert columns.known() == at_once.known()
    assert columns.weight == at_once.weight
    assert columns.grown(items) is not None
    assert as_bytes(columns.anew().items) == as_bytes(items)
    make_other = many(Note)
    assert columns.grown(make_other) is None
    assert columns.grown(items[:-1]) is None
    assert columns.grown(tuple(items)) is None
    assert columns.grown([*items[:-1], copy.copy(items[-1])]) is None
    items[-1].text = "changed"
    assert columns.grown(items) is None


def test_what_follows_and_can_not_be_read_so_ends_it():
    items = many(Note)
    columns = columns_of(items)
    assert columns is not None
    for other in ("text", Pair("t"), Slotted("t"), Model(text="t"), Note(object())):
        assert columns.grown([*items, other]) is None
    assert columns.grown([*items, Twin("t")]) is not None


def test_an_object_that_was_not_saved_ends_it():
    items = many(Note)
    columns = Columns.of(CODEC, items)
    assert columns is not None
    assert not columns.noted(CODEC.pack_noting(items[:-1])[1])


# ── made anew ────────────────────────────────────────────────────────────────────────────────────────────────


def full_model(text: Any) -> Model:
    made = Model(text=text, extra=[text])
    made._hidden = {"a": [text]}
    made.__pydantic_fields_set__.discard("text")
    return made


@pytest.mark.parametrize("make", [Note, Twin, Slotted, both, Model, full_model, Other])
def test_objects_made_anew_hold_what_was_saved_and_share_nothing(make):
    items = [make(text=[number, Note([number])]) for number in range(2 * CHUNK + 5)]
    before = as_bytes(items)
    columns = columns_of(items)
    assert columns is not None
    for item in items:
        item.text = "changed"
    columns.drop_items()
    first, second = columns.anew(), columns.anew()
    read = CODEC.unpack(before)
    assert as_bytes(first.items) == as_bytes(second.items) == before
    for one, other in zip(first.items, read, strict=True):
        assert type(one) is type(other)
        assert getattr(one, "__dict__", None) == getattr(other, "__dict__", None)
        for slot in ("__pydantic_extra__", "__pydantic_private__", "__pydantic_fields_set__", "beside"):
            assert getattr(one, slot, None) == getattr(other, slot, None)
    first.items[0].text.append(1)
    first.items[1].text[1].more = "changed"
    assert as_bytes(second.items) == before
    assert second.grown(second.items) is not None
    assert first.grown(first.items) is None
    assert as_bytes(columns.anew().items) == before


def test_a_class_that_is_stored_otherwise_now_ends_it():
    codec = make_codec()
    items = many(Note)
    columns = Columns.of(codec, items)
    assert columns is not None
    assert columns.noted(codec.pack_noting(items)[1])
    assert columns.is_known
    codec.registry.register(Note, encode=lambda o: o.text, decode=Note)
    assert not columns.is_known
    assert columns.grown(items) is None


def test_an_object_that_can_not_be_made_anew_is_an_error():
    class Refusing(pydantic.BaseModel):
        text: Any
        refuses: bool = False

        def __new__(cls, **fields: Any) -> Self:
            if refusing:
                raise ValueError("not now")
            return super().__new__(cls)

    refusing: list[int] = []
    codec = make_codec()
    codec.registry.register(Refusing)
    columns = Columns.of(codec, many(Refusing))
    assert columns is not None
    refusing.append(1)
    with pytest.raises(SerializationError, match="not now"):
        columns.anew()
