"""numpy's arrays and scalars come back exactly."""

import numpy as np
import ormsgpack
import pytest

from juncture.errors import SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry

CODEC = Codec(Registry(DEFAULT))
PADDED = np.dtype([("a", "i1"), ("b", ">f8"), (("title", "c"), [("d", "M8[25s]")])], align=True)
RECORD = np.dtype([("name", "<U3"), ("at", "<M8[s]"), ("point", "<f4", (2,))])


def back(value):
    return CODEC.decode(CODEC.encode({"in": [value]}))["in"][0]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6),
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::3],
        np.arange(6).reshape(2, 3).T,
        np.array(5),
        np.array([]),
        np.empty((0, 3), dtype="u1"),
        np.array([True, False]),
        np.array([1 + 2j, np.nan]),
        np.array(["é", "", "longer"]),
        np.array([b"a", b""]),
        np.array(["", ""]),
        np.array(["2024-01-01", "NaT"], dtype="datetime64[ns]"),
        np.array([1], dtype="timedelta64[D]"),
        np.array([("a", "2024-01-01", (1, 2))], dtype=RECORD),
        np.zeros(2, dtype=PADDED),
        np.array([np.float16(1.5)]),
        np.array([np.longdouble("1.25")]),
        np.array([None, {"a": (1,)}, [2]], dtype=object),
        np.array([[1, "x"], [b"y", 2.5]], dtype=object, order="F"),
        np.zeros((2, 0, 3)),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_an_array_comes_back_exactly(array):
    found = back(array)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.flags.f_contiguous == array.flags.f_contiguous or array.flags.forc is False
    assert found.flags.writeable
    assert found.dtype.isnative == array.dtype.isnative
    if array.dtype == object:
        assert found.tolist() == array.tolist()
    else:
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_objects_in_an_array_stay_what_they_are_even_if_they_look_like_more_dimensions(order):
    for items in (
        [[1, 2], [3, 4]],
        [np.arange(2), np.arange(2)],
        [(1,), (2,)],
        [np.array(5), np.int8(5)],
        [[], []],
    ):
        array = np.empty((2, 1, 2), dtype=object, order=order)
        for place in np.ndindex(array.shape):
            array[place] = items[place[0]]
        found = back(array)
        assert found.shape == array.shape
        assert found.flags.f_contiguous == array.flags.f_contiguous
        for place in np.ndindex(array.shape):
            assert type(found[place]) is type(array[place])
            assert np.array_equal(found[place], array[place])
    alone = np.empty((), dtype=object)
    alone[()] = [1, 2]
    assert back(alone)[()] == [1, 2]


def test_an_array_that_was_read_is_its_own():
    stored = CODEC.encode(np.arange(3))
    first = CODEC.decode(stored)
    first[0] = 9
    assert CODEC.decode(stored)[0] == 0


@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(1.5),
        np.float64("nan"),
        np.float32(-0.0),
        np.int8(-1),
        np.uint64(2**64 - 1),
        np.bool_(1),
        np.complex128(1j),
        np.str_("é"),
        np.str_(""),
        np.bytes_(b"x"),
        np.datetime64("2024-01-01T00:00", "m"),
        np.timedelta64(3, "h"),
        np.array([("a", "2024-01-01", (1, 2))], dtype=RECORD)[0],
    ],
    ids=lambda scalar: repr(scalar)[:30],
)
def test_a_scalar_comes_back_exactly(scalar):
    found = back(scalar)
    assert type(found) is type(scalar)
    assert found.dtype == scalar.dtype
    assert found.tobytes() == scalar.tobytes()


def test_a_scalar_may_be_a_key():
    value = {np.int64(1): "a", (np.str_("x"),): "b"}
    found = CODEC.decode(CODEC.encode(value))
    assert found == value
    assert [type(key) for key in found] == [np.int64, tuple]


class Matrix(np.ndarray):
    pass


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3).view(Matrix),
        np.ma.array([1, 2], mask=[0, 1]),
        np.array([(1, None)], dtype=[("a", int), ("b", object)]),
        np.array(["text of any length"], dtype=np.dtypes.StringDType()),
        np.zeros(3, dtype="V0"),
        np.zeros(3, dtype=[]),
    ],
    ids=lambda array: type(array).__name__ + str(array.dtype),
)
def test_what_would_not_come_back_exactly_is_refused(array):
    with pytest.raises(SerializationError, match=r"^state\.a\[0\]: "):
        CODEC.encode({"a": [array]}, "state")


def test_an_object_in_an_array_must_be_storable():
    with pytest.raises(SerializationError, match=r"^state\.a: .*object"):
        CODEC.encode({"a": np.array([object()], dtype=object)}, "state")


@pytest.mark.parametrize(
    "forged",
    [
        ["|O", [1], "C", b"\x00" * 8],
        [[["a", "|O"]], [1], "C", b"\x00" * 8],
        [[["a", ["|O", [1]]]], [1], "C", b"\x00" * 8],
        ["T", [1], "C", b"\x00" * 16],
        ["<f8", [10**12], "C", b""],
        ["<f8", [10**12, 10**12], "C", b"\x00" * 8],
        ["<f8", [2**61 + 1], "C", b"\x00" * 8],
        ["<f8", [-1, -1], "C", b"\x00" * 8],
        ["<f8", [1.0], "C", b"\x00" * 8],
        ["<f8", [True], "C", b"\x00" * 8],
        ["<f8", ["1"], "C", b"\x00" * 8],
        ["<f8", 1, "C", b"\x00" * 8],
        ["<f8", [1], "C", b"\x00" * 7],
        ["<f8", [1], "C", [0] * 8],
        ["<f8", [1], "Z", b"\x00" * 8],
        ["<f8", [1] * 100, "C", b"\x00" * 8],
        ["V0", [10**12], "C", b""],
        ["<U0", [10**12], "C", b""],
        [[["a", "<f8", [10**6, 10**6]]], [1], "C", b""],
        ["O", [10**12], "C", [1]],
        ["O", [1], "C", 10**12],
        ["no dtype", [1], "C", b"x"],
        ["(2,3)<f8", [1], "C", b"\x00" * 48],
        ["<f8,<f8", [1], "C", b"\x00" * 16],
        ["9" * 9999 + "<f8", [1], "C", b"x"],
        ["os.system", [1], "C", b"x"],
        [None, [1], "C", b"x"],
        ["<f8", [1], "C"],
    ],
    ids=repr,
)
def test_forged_bytes_become_no_objects_and_take_no_memory(forged):
    for tag in (48, 49):
        stored = ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(forged)))
        with pytest.raises(SerializationError, match="can't be rebuilt"):
            CODEC.decode(stored)


def test_a_forged_scalar_has_no_dimensions():
    stored = ormsgpack.packb(ormsgpack.Ext(49, ormsgpack.packb(["<f8", [1], "C", b"\x00" * 8])))
    with pytest.raises(SerializationError, match="no dimensions"):
        CODEC.decode(stored)
