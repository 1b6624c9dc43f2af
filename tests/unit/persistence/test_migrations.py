"""What older versions of a class stored is read by the present one, as its author says, or not at all."""

import collections
import dataclasses
import enum
import subprocess
import sys
import textwrap
from typing import NamedTuple

import msgspec
import ormsgpack
import pydantic
import pytest

from juncture.errors import GraphBuildError, SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry


def registry_of(*classes, **options):
    registry = Registry(DEFAULT)
    for cls in classes:
        registry.register(cls, **options)
    return registry


def stored(value, *classes, **options):
    """What a program with these classes stores."""
    return Codec(registry_of(*classes, **options)).encode({"a": [value]}, "state")


def read(registry, content):
    return Codec(registry).decode(content, "state")["a"][0]


def called(name, module="shop"):
    """Gives a class the name that it has in the program of this version."""

    def rename(cls):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = module
        return cls

    return rename


# The same class in three programs.


@called("Order")
@dataclasses.dataclass
class Order1:
    id: int
    price: float


@called("Order")
@dataclasses.dataclass
class Order2:
    id: int
    cents: int


@called("Order")
@dataclasses.dataclass
class Order3:
    key: str
    cents: int
    note: str = ""


def to_order2(fields, version):
    return {"id": fields["id"], "cents": round(fields["price"] * 100)}


def to_order3(fields, version):
    if version < 2:
        fields = to_order2(fields, version)
    return {"key": str(fields["id"]), "cents": fields["cents"]}


FIRST = stored(Order1(7, 1.5), Order1)
SECOND = stored(Order2(7, 150), Order2, version=2, migrate=to_order2)


def test_each_older_version_is_migrated_and_the_present_one_is_not():
    registry = registry_of(Order3, version=3, migrate=to_order3)
    assert read(registry, FIRST) == read(registry, SECOND) == Order3("7", 150)
    third = stored(Order3("8", 1, "n"), Order3, version=3, migrate=to_order3)
    assert read(registry, third) == Order3("8", 1, "n")
    again = Codec(registry).encode({"a": [read(registry, FIRST)]})
    assert b"shop:Order@3" in again
    assert read(registry_of(Order3, version=3, migrate=pytest.fail), again) == Order3("7", 150)


def test_a_migration_is_told_the_version_and_gives_what_defaults_fill():
    asked = []

    def migrate(fields, version):
        asked.append((version, fields))
        return {"key": "k", "cents": 0}

    registry = registry_of(Order3, version=3, migrate=migrate)
    assert read(registry, FIRST) == Order3("k", 0, "")
    read(registry, SECOND)
    assert asked == [(1, {"id": 7, "price": 1.5}), (2, {"id": 7, "cents": 150})]


def test_without_a_migration_what_does_not_fit_is_an_error_that_names_key_class_and_way_out():
    with pytest.raises(
        SerializationError,
        match=r"^state\.a\[0\]: .*class shop:Order can't be rebuilt: .*'price' no longer exists.*migrate=",
    ):
        read(registry_of(Order2), FIRST)

    @called("Order")
    @dataclasses.dataclass
    class More(Order1):
        customer: str

    with pytest.raises(
        SerializationError, match=r"^state\.a\[0\]: .*'customer' is required.*default.*migrate="
    ):
        read(registry_of(More), FIRST)


def test_an_older_program_refuses_what_a_newer_one_stored():
    for registry in (registry_of(Order1), registry_of(Order2)):
        with pytest.raises(
            SerializationError,
            match=r"^state\.a\[0\]: an object of version 2 of shop:Order.* has version 1.*Update",
        ):
            read(registry, SECOND)


def test_a_renamed_class_is_found_by_its_former_names():
    @called("Purchase", "shop.buying")
    @dataclasses.dataclass
    class Purchase:
        id: int
        price: float

    registry = registry_of(Purchase, formerly=["shop:Order", "older:Order"])
    assert read(registry, FIRST) == Purchase(7, 1.5)
    assert b"shop.buying:Purchase" in Codec(registry).encode(Purchase(1, 1.0))
    with pytest.raises(SerializationError, match=r"version 2 of shop\.buying:Purchase"):
        read(registry, SECOND)


def test_a_class_may_be_renamed_and_changed_at_once():
    @called("Purchase")
    @dataclasses.dataclass
    class Purchase:
        key: str
        cents: int

    registry = registry_of(Purchase, name="purchase", version=3, migrate=to_order3, formerly=("shop:Order",))
    assert read(registry, FIRST) == read(registry, SECOND) == Purchase("7", 150)
    assert b"purchase@3" in Codec(registry).encode(Purchase("1", 1))


class Pair1(NamedTuple):
    left: int


class Pair2(NamedTuple):
    first: int
    second: int = 0


class Model1(pydantic.BaseModel):
    x: int
    seen: bool = False


class Model2(pydantic.BaseModel):
    y: int
    seen: bool = False
    _cache: int = 3


class Struct1(msgspec.Struct):
    x: int


class Struct2(msgspec.Struct):
    y: int


class Color1(enum.Enum):
    GREY = 1


class Color2(enum.Enum):
    GRAY = 1


class Flag1(enum.Flag):
    A = 1
    B = 2


class Flag2(enum.Flag):
    B = 1
    A = 2


class Items1(list):
    pass


class Items2(list):
    pass


class Odd:
    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return type(other) is Odd and other.held == self.held

    __hash__ = None


def renamed(old, new):
    return lambda fields, version: {new if name == old else name: value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("old", "new", "migrate"),
    [
        (Pair1(1), Pair2(1), renamed("left", "first")),
        (Model1(x=1), Model2(y=1), renamed("x", "y")),
        (Struct1(1), Struct2(1), renamed("x", "y")),
        (Color1.GREY, Color2.GRAY, lambda name, version: name.replace("E", "A")),
        (Items1([1, 2]), Items2(["1", "2"]), lambda items, version: list(map(str, items))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_of_every_kind_are_migrated(old, new, migrate):
    content = stored(old, type(old), name="thing")
    found = read(registry_of(type(new), name="thing", version=2, migrate=migrate), content)
    assert found == new
    assert type(found) is type(new)


def test_a_model_keeps_what_it_knows_besides_its_fields():
    content = stored(Model1(x=1), Model1, name="thing")
    found = read(registry_of(Model2, name="thing", version=2, migrate=renamed("x", "y")), content)
    assert found.model_fields_set == {"y"}
    assert found._cache == 3


def test_a_combination_of_flags_is_migrated_by_its_value():
    def migrate(given, version):
        return [3] if given == [3] else given

    content = stored([Flag1.A | Flag1.B, Flag1.A], Flag1, name="flag")
    registry = registry_of(Flag2, name="flag", version=2, migrate=migrate)
    assert read(registry, content) == [Flag2.A | Flag2.B, Flag2.A]


def test_what_encode_gave_is_migrated_for_decode():
    content = stored(Odd(1), Odd, name="odd", encode=lambda odd: odd.held, decode=Odd)
    registry = registry_of(
        Odd,
        name="odd",
        encode=lambda odd: [odd.held],
        decode=lambda held: Odd(held[0]),
        version=2,
        migrate=lambda held, version: [held],
    )
    assert read(registry, content) == Odd(1)
    assert read(registry, Codec(registry).encode({"a": [Odd(2)]})) == Odd(2)


def test_what_stands_inside_is_migrated_too():
    content = stored({"all": collections.deque([(Order1(1, 1.0),)])}, Order1)
    registry = registry_of(Order3, version=3, migrate=to_order3)
    assert read(registry, content) == {"all": collections.deque([(Order3("1", 100),)])}


@pytest.mark.parametrize(
    ("migrate", "why"),
    [
        (lambda fields, version: None, "its migrate gave NoneType instead of a dict of fields"),
        (lambda fields, version: [1], "its migrate gave list"),
        (lambda fields, version: {"key": "k"}, "'cents' is required"),
        (lambda fields, version: fields, "'price' no longer exists|'id' no longer exists"),
        (lambda fields, version: fields["nothing"], "nothing"),
    ],
)
def test_a_migration_that_fails_is_an_error_with_key_and_class(migrate, why):
    with pytest.raises(
        SerializationError, match=rf"^state\.a\[0\]: .*shop:Order can't be rebuilt: .*({why})"
    ):
        read(registry_of(Order3, version=3, migrate=migrate), FIRST)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"version": 2}, "version 2, and no migrate="),
        ({"migrate": to_order2}, "version 1, and migrate="),
        ({"version": 0}, "counted from 1"),
        ({"name": "a@2"}, "'a@2'.*'@'"),
        ({"name": ""}, "is empty"),
        ({"formerly": ["a", "b@1"]}, "'b@1'.*'@'"),
        ({"formerly": "a:B"}, "takes a list of names, not 'a:B'"),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(options, wrong):
    registry = Registry()
    with pytest.raises(GraphBuildError, match=wrong):
        registry.register(Order1, **options)
    assert registry.for_class(Order1) is None


def test_a_name_is_one_class_s_only():
    registry = registry_of(Order1)
    with pytest.raises(GraphBuildError, match="both called shop:Order"):
        registry.register(Pair1, formerly=["shop:Order"])
    with pytest.raises(GraphBuildError, match="both called shop:Order"):
        registry.register(Pair1, formerly=["shop:Order"], replace=True)  # no new definition of it
    registry.register(Pair1, formerly=["other"])
    with pytest.raises(GraphBuildError, match="both called other"):
        registry.register(Pair2, name="other", replace=True)
    assert registry.for_name("other").cls is Pair1
    assert registry.for_class(Pair2) is None
    registry.register(Order2, version=2, migrate=to_order2, replace=True)
    assert registry.for_class(Order1) is None
    assert registry.for_name("shop:Order").cls is Order2


def test_a_class_registered_anew_gives_up_its_former_names():
    registry = registry_of(Pair1, formerly=["other"])
    registry.register(Pair1, name="pair")
    assert registry.for_name("other") is None
    registry.register(Pair2, name="other")


def test_a_graph_takes_over_names_and_versions_of_a_nested_one():
    inner, outer = registry_of(Order3, version=3, migrate=to_order3, formerly=["older"]), Registry(DEFAULT)
    outer.include(inner)
    assert read(outer, FIRST) == Order3("7", 150)
    assert outer.for_name("older").cls is Order3


@pytest.mark.parametrize("first", ["graph", "process"])
def test_what_the_process_says_of_a_class_goes_before_what_a_graph_found(first):
    process = Registry()
    graph = Registry(process)
    if first == "graph":
        graph.register_annotation(list[Order3])
    process.register(Order3, name="order", version=3, migrate=to_order3, formerly=["shop:Order"])
    if first == "process":
        graph.register_annotation(list[Order3])
    assert read(graph, FIRST) == Order3("7", 150)
    assert b"order@3" in Codec(graph).encode(Order3("7", 1))
    assert graph.for_name("shop:Order@3").cls is graph.for_name("order@3").cls is Order3


@pytest.mark.parametrize(
    "name", ["shop:Order@", "shop:Order@0", "shop:Order@-1", "shop:Order@01", "shop:Order@x", "@1"]
)
def test_a_forged_version_is_an_unknown_class(name):
    content = ormsgpack.packb(ormsgpack.Ext(64, ormsgpack.packb([name, [{"id": 1, "price": 1.0}]])))
    with pytest.raises(SerializationError, match="isn't registered here"):
        Codec(registry_of(Order1)).decode(content)


@pytest.mark.parametrize("cls", [int, bool, type(None), list, dict, tuple, collections.Counter])
def test_what_is_stored_as_it_is_needs_no_registering(cls):
    for options in ({}, {"encode": repr, "decode": cls}):
        with pytest.raises(GraphBuildError, match="stored exactly as they are"):
            Registry().register(cls, **options)


def test_only_classes_are_registered():
    for thing in (list[int], "Order", Order1(1, 1.0), None):
        with pytest.raises(GraphBuildError, match="only classes"):
            Registry().register(thing)


def test_a_decorator_takes_the_same_arguments():
    script = """
        import dataclasses
        from juncture import register_type
        from juncture.persistence.codec import Codec
        from juncture.persistence.registry import DEFAULT, Registry

        @register_type(name="doc")
        @dataclasses.dataclass
        class Doc:
            x: int

        stored = Codec(Registry(DEFAULT)).encode(Doc(1))

        @register_type(name="doc", version=2, migrate=lambda fields, version: {"y": fields["x"]})
        @dataclasses.dataclass
        class Doc:
            y: int

        assert Codec(Registry(DEFAULT)).decode(stored) == Doc(y=1)
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
