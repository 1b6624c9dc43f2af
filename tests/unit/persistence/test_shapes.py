"""Objects of registered classes come back exactly; what has changed in the class is an error or a default."""

import abc
import collections
import dataclasses
import enum
import functools
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import ormsgpack
import pydantic
import pytest
from pydantic import dataclasses as pydantic_dataclasses

from juncture.errors import GraphBuildError, SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry

T = TypeVar("T")


def codec_of(*classes, learn=False):
    registry = Registry(DEFAULT, learn=learn)
    for cls in classes:
        registry.register(cls)
    return Codec(registry)


def back(value, *classes):
    codec = codec_of(*(classes or (type(value),)))
    found = codec.decode(codec.encode({"in": [value]}))["in"][0]
    assert type(found) is type(value)
    return found


# ── enums ────────────────────────────────────────────────────────────────────────────────────────────────────


class Color(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796  # an alias
    GREEN = (2, object)  # a value that could not be stored itself


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Flags(enum.Flag):
    A = 1
    B = 2
    AB = 3


class Bits(enum.IntFlag):
    A = 1


class Outer:
    class Inner(enum.Enum):
        X = "x"


@pytest.mark.parametrize(
    "member",
    [
        Color.RED,
        Color.GREEN,
        Level.LOW,
        Word.YES,
        Flags.A,
        Flags.AB,
        Flags.A & Flags.B,
        Bits(5),
        Outer.Inner.X,
    ],
    ids=repr,
)
def test_an_enum_member_is_the_same_object(member):
    assert back(member) is member
    codec = codec_of(type(member))
    assert codec.decode(codec.encode({member: {member}})) == {member: {member}}


def test_an_enum_member_is_known_by_its_name():
    registry = Registry()
    registry.register(Color)
    stored = Codec(registry).encode(Color.RED)
    renumbered = enum.Enum("Color", {"GREEN": 1, "RED": 2}, module=__name__)
    later = Registry()
    later.register(renumbered)
    assert Codec(later).decode(stored) is renumbered.RED
    without = Registry()
    without.register(enum.Enum("Color", {"GREEN": 1}, module=__name__))
    with pytest.raises(
        SerializationError, match=r"Color can't be rebuilt: the member 'RED' no longer exists"
    ):
        Codec(without).decode(stored)


# ── dataclasses ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Doc:
    title: str
    tags: list[str] = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=0, compare=False, repr=False)
    counted: int = dataclasses.field(init=False, default=7)

    def __post_init__(self):
        self.title = self.title.upper()
        self.counted += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: "Frozen | None" = None


@dataclasses.dataclass(slots=True)
class Base:
    x: int


@dataclasses.dataclass
class Mixed(Base):
    y: int = 0


@dataclasses.dataclass(kw_only=True)
class Box(Generic[T]):
    content: T
    kind: ClassVar[str] = "box"


@dataclasses.dataclass
class Lazy:
    n: int

    @functools.cached_property
    def big(self):
        return self.n * 100


@dataclasses.dataclass
class Shouting:
    name: str

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + "!")


class Guarded:
    """A descriptor that keeps its value elsewhere."""

    def __set_name__(self, owner, name):
        self.where = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError("no default")
        return getattr(instance, self.where)

    def __set__(self, instance, value):
        setattr(instance, self.where, value)


@dataclasses.dataclass
class WithGuard:
    x: Guarded = Guarded()  # descriptors as defaults are what dataclasses document
    y: int = 1


@dataclasses.dataclass
class Keyed(dict):
    label: str = ""


def test_a_dataclass_comes_back_without_its_constructor():
    doc = Doc("a", ["t"], hidden=3)
    doc.title = "lower"
    found = back(doc)
    assert found == doc
    assert (found.title, found.hidden, found.counted) == ("lower", 3, 8)


def test_a_dataclass_of_any_kind_comes_back():
    assert back(Frozen((1, {2}), Frozen(1))) == Frozen((1, {2}), Frozen(1))
    assert hash(back(Frozen(1))) == hash(Frozen(1))
    assert {back(Frozen(1)): 1}[Frozen(1)] == 1
    assert back(Mixed(1, 2)) == Mixed(1, 2)
    assert back(Box[int](content=(1,))) == Box(content=(1,))
    assert back(pydantic_dataclasses.dataclass(type("P", (), {"__annotations__": {"x": int}}))("3")).x == 3


def test_other_attributes_come_back_and_what_was_computed_does_not():
    lazy = Lazy(2)
    lazy.extra = [1]
    assert lazy.big == 200
    found = back(lazy)
    assert vars(found) == {"n": 2, "extra": [1]}
    assert found.big == 200


def test_attributes_are_set_past_setattr_and_properties():
    shouting = Shouting("a")
    assert back(shouting).name == "a!"
    guarded = WithGuard(5)
    guarded.x = {6}
    assert back(guarded).x == {6}


def test_a_dataclass_that_is_a_dict_keeps_both():
    keyed = Keyed("l")
    keyed["a"] = (1,)
    found = back(keyed)
    assert found["a"] == (1,)
    assert found.label == "l"


def test_a_field_that_was_lost_is_refused():
    doc = Doc("a")
    del doc.title
    with pytest.raises(
        SerializationError, match=r"^v\[0\]: .*Doc can't be stored: its field 'title' was never set"
    ):
        codec_of(Doc).encode([doc], "v")


def test_the_place_inside_of_an_object_is_told():
    with pytest.raises(SerializationError, match=r"^state\.doc\.tags\[1\]: .*object"):
        codec_of(Doc).encode({"doc": Doc("a", ["t", object()])}, "state")


def version(name, fields, **options):
    return dataclasses.make_dataclass(name, fields, **options)


def reread(value, newer):
    """The value, written by its class and read by a newer one of the same name."""
    old, new = Registry(), Registry()
    old.register(type(value), name="Thing")
    new.register(newer, name="Thing")
    return Codec(new).decode(Codec(old).encode({"things": [value]}), "state")["things"][0]


def test_a_newer_dataclass_fills_in_its_defaults():
    old = version("Thing", [("a", int)])(1)
    newer = version(
        "Thing",
        [
            ("a", int),
            ("b", list, dataclasses.field(default_factory=lambda: [2])),
            ("c", int, 3),
            ("d", int, dataclasses.field(init=False)),
        ],
    )
    found = reread(old, newer)
    assert (found.a, found.b, found.c) == (1, [2], 3)
    assert not hasattr(found, "d")


@pytest.mark.parametrize(
    ("newer", "trouble"),
    [
        (version("Thing", [("a", int), ("b", int)]), "the field 'b' is required, and was not stored"),
        (version("Thing", [("z", int, 0)]), "the stored field 'a' no longer exists in the class"),
        (Frozen, "the stored field 'q' no longer exists|required"),
    ],
)
def test_a_newer_dataclass_that_cannot_hold_it_is_an_error(newer, trouble):
    old = version("Thing", [("a", int), ("q", int, 0)] if newer is Frozen else [("a", int)])(1)
    with pytest.raises(
        SerializationError, match=rf"^state\.things\[0\]: .*class Thing can't be rebuilt: ({trouble})"
    ):
        reread(old, newer)


def test_an_attribute_without_room_is_an_error():
    old = version("Thing", [("a", int)])(1)
    old.extra = 1
    with pytest.raises(SerializationError, match="no longer has room for the attribute 'extra'"):
        reread(old, version("Thing", [("a", int)], slots=True))


# ── named tuples ─────────────────────────────────────────────────────────────────────────────────────────────


class Point(NamedTuple):
    x: int
    y: Any = None


class Dot(Point):
    """With room for attributes."""


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024  # the untyped kind


def test_a_named_tuple_comes_back():
    assert back(Point(1, (2,))) == Point(1, (2,))
    assert back(Pair(1, {2})).b == {2}
    dot = Dot(1)
    dot.label = "here"
    assert back(dot).label == "here"
    codec = codec_of(Point)
    assert codec.decode(codec.encode({Point(1): {Point(2)}})) == {Point(1): {Point(2)}}


def test_a_newer_named_tuple_goes_by_name():
    class Wider(NamedTuple):
        y: int
        x: int

    class Longer(NamedTuple):
        x: int
        y: int
        z: int

    class Filled(NamedTuple):
        x: int
        y: int
        z: int = 9

    assert reread(Point(1, 2), Wider) == Wider(y=2, x=1)
    assert reread(Point(1), Filled) == Filled(1, None, 9)
    with pytest.raises(SerializationError, match="'z' is required"):
        reread(Point(1), Longer)


# ── pydantic ─────────────────────────────────────────────────────────────────────────────────────────────────


class Address(pydantic.BaseModel):
    street: str
    number: int = 1


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str = pydantic.Field(alias="n", default="x")
    addresses: list[Address] = []
    anything: Any = None
    _secret: list[int] = pydantic.PrivateAttr(default_factory=list)
    _unset: int = pydantic.PrivateAttr()

    @pydantic.computed_field
    @functools.cached_property
    def shout(self) -> str:
        return self.name.upper()

    @pydantic.field_validator("name")
    @classmethod
    def not_empty(cls, value):
        assert value
        return value


class FrozenModel(pydantic.BaseModel, frozen=True):
    a: tuple[int, ...] = ()


class Holder(pydantic.BaseModel, Generic[T]):
    item: T


class Root(pydantic.RootModel[dict[str, int]]):
    pass


def test_a_model_comes_back_with_all_it_knows():
    person = Person(n="joe", addresses=[Address(street="s")], anything=(1, {2}), more={"a": 1})
    person._secret.append(4)
    assert person.shout == "JOE"
    person.__dict__["name"] = ""  # what validation would refuse
    found = back(person, Person, Address)
    del person.__dict__["shout"]
    assert found == person
    assert found.model_fields_set == person.model_fields_set == {"name", "addresses", "anything", "more"}
    assert found.model_extra == {"more": {"a": 1}}
    assert found._secret == [4]
    assert not hasattr(found, "_unset")
    assert found.addresses[0].model_fields_set == {"street"}
    assert found.model_dump_json() == person.model_dump_json()
    assert found.model_copy(update={"name": "z"}).name == "z"


def test_models_do_not_share_what_is_new():
    codec = codec_of(Person)
    stored = codec.encode(Person())
    one, other = codec.decode(stored), codec.decode(stored)
    one.model_extra["x"] = 1
    one._secret.append(1)
    assert other.model_extra == {}
    assert other._secret == []


def test_models_of_any_kind_come_back():
    assert hash(back(FrozenModel(a=(1,)))) == hash(FrozenModel(a=(1,)))
    assert back(Holder[int](item=1)) == Holder[int](item=1)
    assert back(Holder[Address](item=Address(street="s")), Holder[Address], Address).item == Address(
        street="s"
    )
    assert back(Root({"a": 1})) == Root({"a": 1})
    assert back(Person.model_construct(n="q", name="w"), Person) == Person.model_construct(n="q", name="w")


def test_a_model_without_a_field_is_refused():
    with pytest.raises(SerializationError, match="its field 'street' was never set"):
        codec_of(Address).encode(Address.model_construct())


def test_the_place_inside_of_a_model_is_told():
    person = Person(more=[1, object()])
    with pytest.raises(SerializationError, match=r"^state\.p\.more\[1\]: "):
        codec_of(Person).encode({"p": person}, "state")
    person = Person()
    person._secret.append(object())
    with pytest.raises(SerializationError, match=r"^state\.p\._secret\[0\]: "):
        codec_of(Person).encode({"p": person}, "state")


def test_a_newer_model_fills_in_its_defaults_or_is_an_error():
    class Thing(pydantic.BaseModel):
        number: int = 5
        street: str
        doubled: int = pydantic.Field(default_factory=lambda data: data["number"] * 2)
        made: list = pydantic.Field(default_factory=list)
        _new: int = pydantic.PrivateAttr(default=3)

    found = reread(Address(street="s", number=4), Thing)
    assert (found.street, found.number, found.doubled, found.made, found._new) == ("s", 4, 8, [], 3)
    assert list(found.model_dump()) == ["number", "street", "doubled", "made"]
    assert found.model_fields_set == {"street", "number"}

    class Needs(pydantic.BaseModel):
        street: str
        number: int
        zip: str

    with pytest.raises(SerializationError, match="class Thing can't be rebuilt: the field 'zip' is required"):
        reread(Address(street="s"), Needs)

    class Lost(pydantic.BaseModel):
        street: str

    with pytest.raises(SerializationError, match="the stored field 'number' no longer exists"):
        reread(Address(street="s"), Lost)


def test_what_a_newer_model_has_no_room_for_is_an_error():
    class Closed(pydantic.BaseModel):
        name: str = ""
        addresses: list = []
        anything: Any = None
        _secret: Any = pydantic.PrivateAttr(default=None)

    class Public(pydantic.BaseModel, extra="allow"):
        name: str = ""
        addresses: list = []
        anything: Any = None

    assert reread(Person(), Closed)._secret == []
    with pytest.raises(SerializationError, match="extra fields, which the class no longer allows"):
        reread(Person(more=1), Closed)
    with pytest.raises(SerializationError, match="the stored private attribute '_secret' no longer exists"):
        reread(Person(), Public)


# ── msgspec ──────────────────────────────────────────────────────────────────────────────────────────────────


class Struct(msgspec.Struct):
    a: int
    b: list = []


class Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    some_name: tuple
    maybe: Any = msgspec.UNSET


class Changing(msgspec.Struct):
    a: int

    def __post_init__(self):
        self.a += 1


class Open(msgspec.Struct, dict=True):
    a: int


def test_a_struct_comes_back():
    assert back(Struct(1, [(2,)])) == Struct(1, [(2,)])
    codec = codec_of(Strict)
    codec.registry.register(type(msgspec.UNSET))
    assert codec.decode(codec.encode(Strict(some_name=(1,)))) == Strict(some_name=(1,))
    changing = Changing(1)
    assert changing.a == 2
    assert back(changing).a == 2
    opened = Open(1)
    opened.more = {1}
    assert back(opened).more == {1}


def test_a_newer_struct_fills_in_its_defaults_or_is_an_error():
    wider = msgspec.defstruct(
        "Thing", [("a", int), ("b", list), ("c", int, 3), ("d", list, msgspec.field(default_factory=list))]
    )
    found = reread(Struct(1), wider)
    assert (found.a, found.b, found.c, found.d) == (1, [], 3, [])
    with pytest.raises(SerializationError, match="'c' is required"):
        reread(Struct(1), msgspec.defstruct("Thing", [("a", int), ("b", list), ("c", int)]))
    with pytest.raises(SerializationError, match="'b' no longer exists"):
        reread(Struct(1), msgspec.defstruct("Thing", [("a", int)]))


# ── subclasses of builtins ───────────────────────────────────────────────────────────────────────────────────


class Text(str):
    __slots__ = ("lang",)

    def __str__(self):
        return "something else"


class Number(int):
    def __int__(self):
        return 0

    def __index__(self):
        return 0


class Ratio(float):
    pass


class Raw(bytes):
    def __getitem__(self, key):
        return b"no"


class Items(list):
    def __iter__(self):
        return iter(())


class Table(dict):
    def __init__(self, *args, owner):
        super().__init__(*args)
        self.owner = owner

    def items(self):
        return []

    def __setitem__(self, key, value):
        raise AssertionError("not by assignment")


class Group(set):
    pass


class Fixed(frozenset):
    pass


class Triple(tuple):
    __slots__ = ()

    def __new__(cls, a, b, c):
        return super().__new__(cls, (a, b, c))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("x"), str.__str__),
        (Number(2**70), int.__int__),
        (Ratio(1.5), float.__float__),
        (Raw(b"x"), lambda raw: bytes.__getitem__(raw, slice(None))),
        (Items([1, (2,)]), list.copy),
        (Table({1: (2,)}, owner="me"), lambda table: list(dict.items(table))),
        (Group({1, (2,)}), lambda group: set(set.__iter__(group))),
        (Fixed({1}), lambda fixed: set(frozenset.__iter__(fixed))),
        (Triple(1, 2, [3]), list),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_registered_subclass_keeps_its_content_and_attributes(value, plain):
    cls = type(value)
    if hasattr(value, "__dict__"):
        value.note = ["n"]
    found = back(value)
    assert plain(found) == plain(value)
    assert getattr(found, "note", None) == getattr(value, "note", None)
    assert getattr(found, "owner", None) == getattr(value, "owner", None)
    if cls is Text:
        value.lang = "de"
        assert back(value).lang == "de"


def test_the_place_inside_of_a_subclass_is_told():
    for value, place in (
        (Items([0, object()]), r"\[1\]"),
        (Table({"k": object()}, owner=1), r"\.k"),
        (Table({}, owner=object()), r"\.owner"),
    ):
        with pytest.raises(SerializationError, match=rf"^state\.v{place}: "):
            codec_of(type(value)).encode({"v": value}, "state")


# ── what has no shape, and converters ────────────────────────────────────────────────────────────────────────


class Plain:
    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Wrong(Exception):
    code: int


@dataclasses.dataclass
class Deck(collections.deque):
    label: str = ""


@pytest.mark.parametrize(
    "cls", [Plain, Wrong, Deck, object, type, abc.ABC, Generic], ids=lambda cls: cls.__name__
)
def test_a_class_that_would_not_come_back_exactly_needs_a_converter(cls):
    with pytest.raises(GraphBuildError, match=r"can't be stored exactly.*encode= and decode="):
        Registry().register(cls)


def test_a_converter_says_how():
    registry = Registry(DEFAULT)
    registry.register(Plain, encode=lambda plain: (plain.a,), decode=lambda parts: Plain(*parts))
    codec = Codec(registry)
    found = codec.decode(codec.encode([Plain({1: 2})]))[0]
    assert type(found) is Plain
    assert found.a == {1: 2}
    with pytest.raises(SerializationError, match=r"^v\[0\]\.encoded\[0\]: .*object"):
        codec.encode([Plain(object())], "v")


def test_a_converter_that_fails_is_named_with_its_reason():
    def fail(_):
        raise OSError("no disk")

    registry = Registry()
    registry.register(Plain, encode=fail, decode=lambda parts: parts)
    with pytest.raises(SerializationError, match=r"^v\.x: this .*Plain can't be stored: no disk") as caught:
        Codec(registry).encode({"x": Plain(1)}, "v")
    assert isinstance(caught.value.__cause__, OSError)
    registry.register(Plain, encode=lambda plain: plain.a, decode=fail)
    stored = Codec(registry).encode({"x": Plain(1)})
    with pytest.raises(SerializationError, match=r"^v\.x: .*Plain can't be rebuilt: no disk") as caught:
        Codec(registry).decode(stored, "v")
    assert isinstance(caught.value.__cause__, OSError)


def test_a_converter_must_give_its_own_class():
    registry = Registry()
    registry.register(Plain, encode=lambda plain: plain.a, decode=lambda parts: parts)
    codec = Codec(registry)
    with pytest.raises(SerializationError, match="its decode gave int instead"):
        codec.decode(codec.encode(Plain(1)))


def test_forged_parts_of_a_registered_class_are_refused():
    for cls in (Doc, Point, Address, Struct, Table, Color):
        codec = codec_of(cls)
        name = codec.registry.for_class(cls).name
        for parts in (None, 1, "x", [], [1], {}, [{"zz": 1}], [[1]]):
            stored = ormsgpack.packb(ormsgpack.Ext(64, ormsgpack.packb([name, parts])))
            try:
                found = codec.decode(stored)
            except SerializationError as error:
                told = str(error)
            else:
                told = name
                assert type(found) is cls
            assert name in told
