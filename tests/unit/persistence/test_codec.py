"""Values come back exactly, or are refused when they are written, with their place."""

import asyncio
import collections
import datetime as dt
import decimal
import fractions
import io
import math
import pathlib
import subprocess
import sys
import textwrap
import threading
import uuid
import zoneinfo
from concurrent.futures import ThreadPoolExecutor

import ormsgpack
import pytest

from juncture.errors import SerializationError
from juncture.persistence.codec import DEEPEST_OTHER, DEEPEST_PLAIN, Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.types import (
    MARK_FOR_REMOVAL,
    MISSING,
    UNSET,
    Answer,
    Answers,
    CheckpointRef,
    Command,
    Interrupt,
    Overwrite,
    RunResult,
    Send,
)
from tests.unit.persistence.exact import same

CODEC = Codec(Registry(DEFAULT))


def back(value, codec=CODEC):
    return codec.decode(codec.encode(value))


# ── round trips ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        math.inf,
        2**63 - 1,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        255,
        -128,
        b"",
        "",
        [],
        {},
        (),
        set(),
        frozenset(),
        collections.deque(maxlen=0),
        collections.deque([1, 2], 2),
        {True: "bool"},
        {1.0: "float"},
        {None: 0, "": 1, (): 2, frozenset(): 3},
        {"a": {1: {"b": {(2, "c"): bytearray(b"d")}}}},
        [bytearray(b"x"), b"x"],
        {"b": [1, {"c": [bytearray(b"x")]}], "plain": ["text"]},
        {"text": "\ud800", "\udfff": "key"},
        {"ÄÅÆ ąćę": "text whose bytes look like the start of binary content", "b": b"\xc4"},
        {("a", 1), ("b", 2)},
        {frozenset({1}), frozenset({2, (3,)})},
        decimal.Decimal("1.10"),
        decimal.Decimal("-0"),
        decimal.Decimal("sNaN123"),
        decimal.Decimal("1E-999999"),
        fractions.Fraction(-1, 2**70),
        complex(-0.0, math.nan),
        dt.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
        dt.timedelta.max,
        dt.datetime(1, 1, 1),  # noqa: DTZ001  # without a zone, on purpose
        pathlib.Path("/tmp/a b"),
        pathlib.PureWindowsPath(r"c:\x"),
        uuid.UUID(int=0),
        collections.Counter(a=-1, b=0),
        Interrupt("really?", "0" * 32, node="n", namespace=("a", "b"), key="k", when="before"),
        Command(update={"a": (1,)}, goto=[Send("n", {1}), "m"]),
        Command(graph=Command.PARENT, resume=None),
        Send("n", [1], timeout=2.5),
        Send("n"),
        Answer({"a": 1}),
        Answers({"id": (1,)}),
        CheckpointRef("t", ("n",), "c"),
        Overwrite([MARK_FOR_REMOVAL]),
    ],
)
def test_a_value_at_an_edge_comes_back_exactly(value):
    assert same(back(value), value)
    assert same(back([{"in": value}]), [{"in": value}])


def test_markers_are_the_same_object():
    assert back(MARK_FOR_REMOVAL) is MARK_FOR_REMOVAL
    assert back({"a": [MISSING]})["a"][0] is MISSING
    assert back(UNSET) is UNSET


def test_a_result_comes_back_with_its_attributes():
    result = RunResult(
        {"a": (1,)},
        status="completed",
        run_id="r",
        steps=3,
        interrupts=(Interrupt(1, "i"),),
        last_nodes=("n",),
    )
    again = back(result)
    assert type(again) is RunResult
    assert again == {"a": (1,)}
    assert again.value is again
    assert (again.status, again.run_id, again.steps, again.interrupts, again.last_nodes) == (
        "completed",
        "r",
        3,
        (Interrupt(1, "i"),),
        ("n",),
    )
    assert back(RunResult({}, status="failed", run_id="r", value=7)).value == 7


def test_a_zone_is_the_same_object():
    assert back(dt.datetime(2024, 1, 1, tzinfo=dt.UTC)).tzinfo is dt.UTC
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    assert back(dt.datetime(2024, 1, 1, tzinfo=berlin)).tzinfo is berlin


def test_bytes_do_not_depend_on_the_order_in_which_a_set_was_made():
    names = [f"name {number}" for number in range(50)]
    forwards, backwards = set(names), set()
    for name in reversed(names):
        backwards.add(name)
    assert CODEC.encode(forwards) == CODEC.encode(backwards)


def test_bytes_are_the_same_in_another_process():
    script = (
        "from juncture.persistence.codec import Codec; from juncture.persistence.registry import DEFAULT, Registry;"
        "print(Codec(Registry(DEFAULT)).encode({'a': {'x', 'y', 'z', ('t',)}, 'b': frozenset('abcdef')}).hex())"
    )
    value = {"a": {"x", "y", "z", ("t",)}, "b": frozenset("abcdef")}
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert run.stdout.strip() == CODEC.encode(value).hex()


def test_decoded_containers_are_new():
    value = {"list": [1], "tuple": ([2],)}
    stored = CODEC.encode(value)
    first, second = CODEC.decode(stored), CODEC.decode(stored)
    first["list"].append(0)
    first["tuple"][0].append(0)
    assert second == value == {"list": [1], "tuple": ([2],)}


def test_the_value_is_not_referred_to_afterwards():
    value = {"list": [1], "odd": {1: bytearray(b"x")}}
    stored = CODEC.encode(value)
    value["list"].append(2)
    value["odd"][1].extend(b"y")
    assert CODEC.decode(stored) == {"list": [1], "odd": {1: bytearray(b"x")}}


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Items(list):
    pass


class Mapping(dict):
    pass


class Raw(bytes):
    pass


class Pair(tuple):
    __slots__ = ()


class Ratio(float):
    pass


class Moment(dt.datetime):
    pass


class Client:
    pass


async def coroutine():
    pass


def generator():
    yield


@pytest.mark.parametrize(
    "value",
    [
        Text("x"),
        Number(1),
        Items([1]),
        Mapping(a=1),
        Raw(b"x"),
        Pair((1,)),
        Ratio(1.5),
        Moment(2024, 1, 1),
        type("Deck", (collections.deque,), {})([1]),
        type("Tally", (collections.Counter,), {})("a"),
        Client(),
        Client,
        print,
        generator(),
        io.StringIO(),
        memoryview(b"x"),
        object(),
        ...,
        NotImplemented,
        Exception("x"),
        sys,
        threading.Lock(),
        dt.timezone(dt.timedelta(hours=1)).utcoffset,
        ormsgpack,
        iter([]),
        {}.keys(),
        type("Zone", (dt.tzinfo,), {})(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_with_its_place_and_class(value):
    cls = type(value)
    name = f"{cls.__module__}:{cls.__qualname__}"
    for whole, place in (
        (value, "state"),
        ({"docs": [0, 1, 2, {"client": value}]}, "state.docs[3].client"),
        ({"a": (0, [value])}, "state.a[1][0]"),
        ({"a b": {"c": {1: value}}}, "state['a b'].c[1]"),
        ({"a": collections.deque([value])}, "state.a[0]"),
        ({"a": Overwrite([value])}, "state.a.value[0]"),
        ({"a": collections.OrderedDict(b=value)}, "state.a.b"),
        ({"ok": bytearray(b"x"), "a": {"b": [value]}}, "state.a.b[0]"),
        ({"ok": {1: 2}, "a": {"b": [value]}}, "state.a.b[0]"),
    ):
        with pytest.raises(SerializationError) as caught:
            CODEC.encode(whole, "state")
        message = str(caught.value)
        assert message.startswith(f"{place}: "), message
        assert name in message
        assert "register_type" in message


def test_a_coroutine_is_refused():
    never_awaited = coroutine()
    with pytest.raises(SerializationError, match=r"state\.a: .*coroutine"):
        CODEC.encode({"a": never_awaited}, "state")
    never_awaited.close()


@pytest.mark.parametrize(
    "key", [Text("k"), Number(1), (1, Client()), frozenset({Text("k")}), Moment(2024, 1, 1)]
)
def test_a_key_is_refused_too(key):
    for keyed in ({key: 1}, collections.OrderedDict({key: 1}), collections.Counter({key: 1})):
        with pytest.raises(SerializationError, match=r"^state\.a\.key\(.*register_type"):
            CODEC.encode({"a": keyed}, "state")


def test_a_subclass_is_told_what_it_would_become():
    with pytest.raises(SerializationError, match="subclass of str, which would come back as a plain str"):
        CODEC.encode(Text("x"))


def test_a_member_of_a_set_is_refused():
    with pytest.raises(SerializationError, match=r"^state\.a\[\d\]: .*Text"):
        CODEC.encode({"a": {1, 2, Text("x")}}, "state")


def test_a_factory_that_has_no_name_is_refused():
    with pytest.raises(
        SerializationError, match=r"^state\.a: a defaultdict can be stored if its factory is None"
    ):
        CODEC.encode({"a": collections.defaultdict(lambda: 1)}, "state")
    fake = type("list", (), {})
    with pytest.raises(SerializationError, match="defaultdict"):
        CODEC.encode(collections.defaultdict(fake))


def test_a_zone_without_a_key_is_refused():
    with (
        open("/usr/share/zoneinfo/UTC", "rb")
        if pathlib.Path("/usr/share/zoneinfo/UTC").exists()
        else _utc() as file
    ):
        zone = zoneinfo.ZoneInfo.from_file(file)
    with pytest.raises(SerializationError, match=r"^state\.a: .*no key"):
        CODEC.encode({"a": dt.datetime(2024, 1, 1, tzinfo=zone)}, "state")


def _utc():
    return zoneinfo._common.load_tzdata("UTC")


def test_attributes_of_a_builtin_mapping_are_not_dropped():
    counter = collections.Counter("a")
    counter.owner = "me"
    with pytest.raises(SerializationError, match="attributes set on this Counter"):
        CODEC.encode(counter)


# ── cycles and depth ─────────────────────────────────────────────────────────────────────────────────────────


def loop_of(make):
    inner = []
    inner.append(make(inner))
    return inner


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: {"a": x},
        lambda x: (x,),
        lambda x: {1: x},
        lambda x: collections.deque([x]),
        lambda x: Overwrite(x),
        lambda x: Send("n", x),
    ],
)
def test_what_contains_itself_is_refused(make):
    with pytest.raises(SerializationError, match=r"^state\.a\[0\].*: refers to itself"):
        CODEC.encode({"a": loop_of(make)}, "state")


def nested(make, levels):
    value = 1
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda x: [x], DEEPEST_PLAIN),
        (lambda x: {"a": x}, DEEPEST_PLAIN),
        (lambda x: (x,), DEEPEST_OTHER),
        (lambda x: {1: x}, DEEPEST_OTHER),
        (lambda x: frozenset({x}), DEEPEST_OTHER),
        (Overwrite, DEEPEST_OTHER),
    ],
)
def test_nesting_has_a_limit_that_is_said(make, limit):
    assert back(nested(make, limit)) == nested(make, limit)
    for levels in (limit + 1, limit + 2, 2 * limit, 20_000):
        value = nested(make, levels)
        with pytest.raises(SerializationError, match=rf"^state: .*nested more than {limit} deep"):
            CODEC.encode(value, "state")


@pytest.mark.parametrize("odd", [bytearray(b"x"), "\ud800", {1: 2}])
def test_an_odd_thing_costs_no_depth(odd):
    deep = nested(lambda x: [x], DEEPEST_PLAIN - 3)
    for value in ([deep, {"odd": odd}], [deep, nested(lambda x: {"a": x}, DEEPEST_PLAIN - 3), [odd]]):
        assert same(back(value), value)


@pytest.mark.parametrize("odd", [lambda: bytearray(b"x"), lambda: "\ud800", lambda: {1: 2}])
@pytest.mark.parametrize(
    "around",
    [
        lambda x, odd: (x, odd),
        lambda x, odd: {0: x, 1: odd},
        lambda x, odd: Overwrite([x, odd]),
        lambda x, odd: collections.deque([odd, {"a": [x]}]),
    ],
)
def test_odd_things_at_every_level_are_each_packed_once_or_twice(odd, around):
    value = 1
    for _ in range(DEEPEST_OTHER - 2):  # were the work doubled at each level, this would never end
        value = around(value, odd())
    assert same(back(value), value)
    assert not CODEC.kept


def test_a_set_in_a_set_is_packed_once():
    value = 1
    for _ in range(DEEPEST_OTHER - 2):
        value = frozenset({value, 0})
    assert back(value) == value


def test_the_stack_of_the_caller_may_be_almost_full():
    value = nested(lambda x: (x,), DEEPEST_OTHER)
    stored = CODEC.encode(value)
    outcomes = set()

    def deeper(left):
        if left:
            return deeper(left - 1)
        for call in (lambda: CODEC.decode(stored) == value, lambda: CODEC.encode(value) == stored):
            try:
                outcomes.add(call())
            except SerializationError as error:
                outcomes.add("refused" if "stack" in str(error) else str(error))
            except RecursionError:
                outcomes.add("no room at all")
        return None

    frames = len(list(_frames()))
    for left in range(0, sys.getrecursionlimit() - frames - 5, 25):
        deeper(left)
    assert {True, "refused"} <= outcomes <= {True, "refused", "no room at all"}


def _frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


# ── hostile and broken bytes ─────────────────────────────────────────────────────────────────────────────────


def ext(tag, payload):
    return ormsgpack.packb(ormsgpack.Ext(tag, payload))


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\xa1\xff",
        b"\x81\x01\x02",
        ext(1, b"") + b"",
        ext(99, b"x"),
        ext(2, b"\xff"),
        ext(4, b"short"),
        ext(5, ormsgpack.packb([1, 2, 0])),
        ext(6, b"not a number"),
        ext(7, ormsgpack.packb([1, 0])),
        ext(7, ormsgpack.packb(["1e999999999"])),
        ext(7, ormsgpack.packb(["1e999999999", 1])),
        ext(7, ormsgpack.packb([1, True])),
        ext(16, b"\xc1"),
        ext(17, ormsgpack.packb([1])),
        ext(17, ormsgpack.packb([[], 1])),
        ext(18, ormsgpack.packb([[]])),
        ext(20, ormsgpack.packb([])),
        ext(21, ormsgpack.packb(["eval", "a", 1])),
        ext(32, ormsgpack.packb([2024, 13, 1])),
        ext(37, b"../../etc/passwd"),
        ext(37, b"No/Such"),
        ext(40, b"short"),
        ext(41, ormsgpack.packb(["os.system", "true"])),
        ext(64, ormsgpack.packb("juncture:Send")),
        ext(64, ormsgpack.packb(["juncture:Send"])),
        ext(64, ormsgpack.packb(["juncture:Send", 5])),
        ext(64, ormsgpack.packb(["juncture:Overwrite", [{}]])),
        ext(64, ormsgpack.packb(["juncture:Overwrite", [{"value": 1, "extra": 2}]])),
        ext(64, ormsgpack.packb(["juncture:Interrupt", [5]])),
    ],
    ids=lambda stored: stored.hex() or "empty",
)
def test_bytes_that_are_no_value_are_refused(stored):
    if stored == ext(1, b""):
        assert CODEC.decode(stored) == 0
        return
    with pytest.raises(SerializationError, match=r"^state: "):
        CODEC.decode(stored, "state")


def tower(levels, around, inside=b"\x01"):
    for _ in range(levels):
        inside = ext(16, around(inside))
    return inside


@pytest.mark.parametrize("levels", [DEEPEST_OTHER + 1, 1_000])
@pytest.mark.parametrize("beside", [b"", b"x" * 300])
def test_a_forged_tower_of_tags_is_refused(levels, beside):
    stored = tower(levels, lambda inside: b"\x92\xc5" + len(beside).to_bytes(2, "big") + beside + inside)
    with pytest.raises(SerializationError, match=f"nested more than {DEEPEST_OTHER} deep"):
        CODEC.decode(stored)


@pytest.mark.parametrize("lists", [200, 1_000])
def test_towers_of_lists_in_towers_of_tags_do_not_end_the_process(lists):
    stored = tower(DEEPEST_OTHER, lambda inside: b"\x91" * lists + inside)
    script = """
        import sys, threading
        from juncture.persistence.codec import Codec
        from juncture.persistence.registry import DEFAULT, Registry

        stored = sys.stdin.buffer.read()
        found = []
        threading.stack_size(4 << 20)
        worker = threading.Thread(target=lambda: found.append(Codec(Registry(DEFAULT)).decode(stored)))
        worker.start()
        worker.join()
        (value,) = found
        depth = 0
        while value != 1:
            (value,) = value
            depth += 1
        print(depth)
        """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], input=stored, capture_output=True, check=True
    )
    assert int(run.stdout) == DEEPEST_OTHER * lists


def test_values_are_read_alike_at_once_and_in_turn():
    value = {"a": [1, {"b": (2, [3])}], "long": "x" * 300, "c": [[], {}, [{"d": {5: b"y" * 300}}]]}
    for _ in range(9):
        value = {
            "deep": (value, collections.deque([value["long"], [Overwrite(1)]]), {"k": [{"l": (1,)}]}),
            "long": "x",
        }
        assert same(back(value), value)


def test_what_cannot_be_read_deep_inside_of_a_large_value_is_told_soon():
    stored = tower(90, lambda inside: b"\x92\xc5\x10\x00" + b"x" * 0x1000 + inside, ext(99, b""))
    assert len(stored) > 300_000
    with pytest.raises(SerializationError, match=r"^state(\[1\]){32}: .*kind 99"):
        CODEC.decode(stored, "state")


@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "subprocess:Popen", "never.seen:Thing"])
def test_a_name_that_is_not_registered_is_never_imported(name):
    sys.modules.pop("never.seen", None)
    stored = ormsgpack.packb({"a": [ormsgpack.Ext(64, ormsgpack.packb([name, ["true"]]))]})
    with pytest.raises(
        SerializationError, match=rf"^state\.a\[0\]: .*class {name}, which isn't registered"
    ) as caught:
        CODEC.decode(stored, "state")
    assert "register_type" in str(caught.value)
    assert "never.seen" not in sys.modules


def test_the_place_of_what_cannot_be_read_is_found_inside_of_other_things():
    unknown = ormsgpack.Ext(64, ormsgpack.packb(["a:B", []]))

    def around(tag, content):
        return ormsgpack.Ext(tag, ormsgpack.packb(content))

    whole = {
        "ok": 1,
        "t": around(
            16, [0, {"x": around(64, ["juncture:Overwrite", [{"value": around(17, [1, unknown])}]])}]
        ),
    }
    with pytest.raises(SerializationError, match=r"^state\.t\[1\]\.x\.value\[1\]: .*a:B"):
        CODEC.decode(ormsgpack.packb(whole), "state")


# ── many at once, and signals ────────────────────────────────────────────────────────────────────────────────


def test_one_codec_serves_many_workers():
    good = {"a": (1, {2}), "b": [{1: b"x"}]}
    bad = {"a": (1, [Client()])}

    def work(number):
        if number % 2:
            with pytest.raises(SerializationError, match=r"^w\.a\[1\]\[0\]: "):
                CODEC.encode(bad, "w")
            return True
        return same(back(good), good)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))
    assert not CODEC._left


class Stop(BaseException):
    pass


@pytest.mark.parametrize("signal", [KeyboardInterrupt, Stop, asyncio.CancelledError])
def test_a_signal_raised_while_a_value_is_encoded_or_decoded_is_not_lost(signal):
    def interrupted(_):
        raise signal

    registry = Registry(DEFAULT)
    registry.register(Client, encode=interrupted, decode=interrupted)
    codec = Codec(registry)
    with pytest.raises(signal):
        codec.encode({"a": [(Client(),)]})
    stored = ormsgpack.packb([ormsgpack.Ext(64, ormsgpack.packb([f"{Client.__module__}:Client", None]))])
    with pytest.raises(signal):
        codec.decode(stored)
    assert codec.decode(codec.encode({"a": (1,)})) == {"a": (1,)}
