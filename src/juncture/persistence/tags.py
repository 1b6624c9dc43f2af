"""The builtin types that MessagePack has no word for: how each is stored as an extension type, and read back.

The tables are part of the checkpoint format (`juncture.persistence.codec` has its specification): a tag's meaning
never changes, and a new type gets a new tag.

An encoder turns a value into the payload of its tag; it gets `pack`, which turns any storable value into bytes. A
decoder turns the payload back and gets `unpack`, `pack`'s inverse. Modules that most programs never load are
imported by the decoders only: a value of theirs can't be met before the program itself has loaded them.
"""

from __future__ import annotations

# Containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
import collections
import datetime
import importlib
import math
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ormsgpack import packb

from juncture.errors import SerializationError

Pack = Callable[[Any], bytes]
Unpack = Callable[[bytes], Any]
Encoder = Callable[[Any, Pack], bytes]
Decoder = Callable[[bytes, Unpack], Any]

STRING = 2
BYTEARRAY = 3
TUPLE = 16
MAPPING = 17
ARRAY = 48
NUMPY_SCALAR = 49
OBJECT = 64
"""An object of a registered class: ``[name, parts]``."""


# ── numbers and text ─────────────────────────────────────────────────────────────────────────────────────────


def _int(value: int, _: Pack) -> bytes:
    return value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)


def _to_int(payload: bytes, _: Unpack) -> int:
    return int.from_bytes(payload, "big", signed=True)


def string(value: str, _: Pack) -> bytes:
    """Text with lone surrogates, which UTF-8 proper can't hold."""
    return value.encode("utf-8", "surrogatepass")


def _to_string(payload: bytes, _: Unpack) -> str:
    return payload.decode("utf-8", "surrogatepass")


def _complex(value: complex, _: Pack) -> bytes:
    return struct.pack(">dd", value.real, value.imag)


def _to_complex(payload: bytes, _: Unpack) -> complex:
    return complex(*struct.unpack(">dd", payload))


def _range(value: range, pack: Pack) -> bytes:
    return pack([value.start, value.stop, value.step])


def _to_range(payload: bytes, unpack: Unpack) -> range:
    return range(*unpack(payload))


def _decimal(value: Any, _: Pack) -> bytes:
    return str(value).encode()


def _to_decimal(payload: bytes, _: Unpack) -> Any:
    from decimal import Decimal

    return Decimal(payload.decode())


def _fraction(value: Any, pack: Pack) -> bytes:
    return pack([value.numerator, value.denominator])


def _to_fraction(payload: bytes, unpack: Unpack) -> Any:
    from fractions import Fraction

    numerator, denominator = unpack(payload)
    if type(numerator) is not int or type(denominator) is not int:
        raise ValueError(
            "a fraction is of two integers"
        )  # of a text like "1e999999999" it would compute for years
    return Fraction(numerator, denominator)


# ── containers ───────────────────────────────────────────────────────────────────────────────────────────────


def _sequence(value: Iterable[Any], pack: Pack) -> bytes:
    return pack(list(value))


def _to_tuple(payload: bytes, unpack: Unpack) -> tuple[Any, ...]:
    return tuple(unpack(payload))


def _set(value: Iterable[Any], pack: Pack) -> bytes:
    # In the order of the bytes: a set's own order differs from process to process, and equal sets would differ.
    items = sorted(pack(item) for item in value)
    return array_head(len(items)) + b"".join(items)


def array_head(length: int) -> bytes:
    """How MessagePack begins an array: for items that are packed already, and must not be packed twice."""
    if length < 1 << 4:
        return bytes((0x90 | length,))
    return b"\xdc" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdd" + length.to_bytes(4, "big")


def _to_set(payload: bytes, unpack: Unpack) -> set[Any]:
    return set(unpack(payload))


def _to_frozenset(payload: bytes, unpack: Unpack) -> frozenset[Any]:
    return frozenset(unpack(payload))


def mapping(value: Any, pack: Pack) -> bytes:
    """Keys and values in turn, in the mapping's order."""
    return pack(list(chain.from_iterable(dict.items(value))))


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    each = iter(flat)
    return zip(each, each, strict=True)


def _to_mapping(payload: bytes, unpack: Unpack) -> dict[Any, Any]:
    return dict(_pairs(unpack(payload)))


def _plain_mapping(value: Any, pack: Pack) -> bytes:
    if vars(value):
        raise SerializationError(f"the attributes set on this {type(value).__name__} can't be stored with it")
    return mapping(value, pack)


def _to_counter(payload: bytes, unpack: Unpack) -> Any:
    made: collections.Counter[Any] = collections.Counter()
    dict.update(made, _pairs(unpack(payload)))  # Counter's own update would add
    return made


def _to_ordered_dict(payload: bytes, unpack: Unpack) -> Any:
    return collections.OrderedDict(_pairs(unpack(payload)))


def _deque(value: Any, pack: Pack) -> bytes:
    return pack([value.maxlen, *value])


def _to_deque(payload: bytes, unpack: Unpack) -> Any:
    maxlen, *items = unpack(payload)
    return collections.deque(items, maxlen)


_BUILTIN = (list, dict, set, tuple, frozenset, str, bytes, bytearray, int, float, complex, bool)
_FACTORIES: dict[str, Callable[[], Any]] = {
    **{factory.__name__: factory for factory in _BUILTIN},
    "Counter": collections.Counter,
    "OrderedDict": collections.OrderedDict,
    "deque": collections.deque,
}


def _defaultdict(value: Any, pack: Pack) -> bytes:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if name is not None and _FACTORIES.get(name) is not factory:
        raise SerializationError(
            f"a defaultdict can be stored if its factory is None or one of {', '.join(_FACTORIES)}; this one's is "
            f"{factory!r}. Store a dict, or use such a factory"
        )
    return pack([name, *chain.from_iterable(dict.items(value))])


def _to_defaultdict(payload: bytes, unpack: Unpack) -> Any:
    name, *flat = unpack(payload)
    return collections.defaultdict(None if name is None else _FACTORIES[name], _pairs(flat))


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────

_UTC = datetime.UTC
_NO_ZONE = (None, True)


def _zone_of(value: Any) -> Any:
    """None for no zone, True for UTC, else the zone itself, which has a tag of its own."""
    return True if value.tzinfo is _UTC else value.tzinfo


def _to_zone(stored: Any) -> Any:
    return _UTC if stored is True else stored


def _datetime(v: datetime.datetime, pack: Pack) -> bytes:
    fields = [v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.fold, _zone_of(v)]
    return packb(fields) if fields[8] in _NO_ZONE else pack(fields)


def _to_datetime(payload: bytes, unpack: Unpack) -> datetime.datetime:
    *fields, fold, zone = unpack(payload)
    return datetime.datetime(*fields, tzinfo=_to_zone(zone), fold=fold)


def _date(value: datetime.date, _: Pack) -> bytes:
    return packb([value.year, value.month, value.day])


def _to_date(payload: bytes, unpack: Unpack) -> datetime.date:
    return datetime.date(*unpack(payload))


def _time(v: datetime.time, pack: Pack) -> bytes:
    return pack([v.hour, v.minute, v.second, v.microsecond, v.fold, _zone_of(v)])


def _to_time(payload: bytes, unpack: Unpack) -> datetime.time:
    *fields, fold, zone = unpack(payload)
    return datetime.time(*fields, tzinfo=_to_zone(zone), fold=fold)


def _timedelta(value: datetime.timedelta, _: Pack) -> bytes:
    return packb([value.days, value.seconds, value.microseconds])


def _to_timedelta(payload: bytes, unpack: Unpack) -> datetime.timedelta:
    return datetime.timedelta(*unpack(payload))


def _timezone(value: Any, pack: Pack) -> bytes:
    return pack(list(value.__getinitargs__()))  # the offset, and the name if one was given


def _to_timezone(payload: bytes, unpack: Unpack) -> datetime.timezone:
    return datetime.timezone(*unpack(payload))


def _keyed_zone(value: Any, _: Pack) -> bytes:
    if value.key is None:
        raise SerializationError("a ZoneInfo read from a file has no key by which it could be found again")
    return str(value.key).encode()


def _to_keyed_zone(payload: bytes, _: Unpack) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(payload.decode())


# ── names and places ─────────────────────────────────────────────────────────────────────────────────────────


def _uuid(value: Any, _: Pack) -> bytes:
    return value.bytes


def _to_uuid(payload: bytes, _: Unpack) -> Any:
    from uuid import UUID

    return UUID(bytes=payload)


def _path(value: Any, pack: Pack) -> bytes:
    return pack([type(value).__name__, str(value)])


def _to_path(payload: bytes, unpack: Unpack) -> Any:
    import pathlib

    kind, text = unpack(payload)
    if kind not in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"):
        raise ValueError(f"{kind!r} is no kind of path")
    return getattr(pathlib, kind)(text)


# ── numpy ────────────────────────────────────────────────────────────────────────────────────────────────────


def array(value: Any, pack: Pack) -> bytes:
    """``[dtype, shape, order, bytes or list of objects]``."""
    numpy = sys.modules["numpy"]
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    if value.dtype == object:
        return pack(["O", list(value.shape), order, list(value.flat)])
    descr = None
    if _is_plain(value.dtype):
        descr = numpy.lib.format.dtype_to_descr(value.dtype)
    # A dtype of another library may call itself by the name of one of numpy's.
    if not _is_descr(descr) or numpy.lib.format.descr_to_dtype(descr) != value.dtype:
        raise SerializationError(f"numpy arrays of dtype {value.dtype} can't be stored exactly")
    return pack([descr, list(value.shape), order, value.tobytes(order)])


def _is_plain(dtype: Any) -> bool:
    """Whether the items are so many bytes and nothing else."""
    return dtype.kind in "biufcmMSUV" and not dtype.hasobject and dtype.itemsize > 0


def _is_descr(descr: Any) -> bool:
    """Whether this describes plain items as numpy itself describes them; numpy would take more, and evaluate some."""
    if isinstance(descr, str):
        return _PLAIN_DESCR.fullmatch(descr) is not None
    return isinstance(descr, list) and all(map(_is_field, descr))


def _is_field(field: Any) -> bool:
    match field:
        case (name, inner):
            shape = ()
        case (name, inner, tuple(shape)):
            pass
        case _:
            return False
    names = name if isinstance(name, tuple) else (name,)  # with a title
    plain = all(isinstance(part, str) for part in names) and all(type(length) is int for length in shape)
    return plain and _is_descr(inner)


_PLAIN_DESCR = re.compile(r"[<>|=][biufcmMSUV]\d{0,10}(\[\d{0,10}[a-zA-Z]{1,7}\])?", re.ASCII)


def _to_array(payload: bytes, unpack: Unpack) -> Any:
    numpy: Any = importlib.import_module("numpy")  # not a dependency; whoever stored an array has it
    descr, shape, order, content = unpack(payload)
    if descr == "O":
        items = numpy.empty(len(content), dtype=object)
        for place, item in enumerate(content):  # at once, numpy would look into items that are lists
            items[place] = item
        return items.reshape(tuple(shape)).copy(order=order)
    dtype = numpy.lib.format.descr_to_dtype(descr) if _is_descr(descr) else None
    if dtype is None or not _is_plain(dtype):
        raise ValueError("an array of plain bytes can't hold anything else")
    # Before numpy is asked for the memory that the shape needs.
    lengths = {type(length) for length in shape} <= {int}
    if not lengths or type(content) is not bytes or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError("the array's shape doesn't fit its bytes")
    if not content:
        return numpy.empty(tuple(shape), dtype, order=order)
    return numpy.ndarray(tuple(shape), dtype, buffer=bytearray(content), order=order)


def numpy_scalar(value: Any, pack: Pack) -> bytes:
    """As an array without dimensions."""
    return array(sys.modules["numpy"].asarray(value), pack)


def _to_numpy_scalar(payload: bytes, unpack: Unpack) -> Any:
    made = _to_array(payload, unpack)
    if made.shape:
        raise ValueError("a scalar has no dimensions")
    return made[()]


# ── the tables ───────────────────────────────────────────────────────────────────────────────────────────────

ENCODERS: dict[type, tuple[int, Encoder]] = {
    int: (1, _int),  # only those beyond 64 bits come here
    str: (STRING, string),
    bytearray: (BYTEARRAY, lambda value, _: bytes(value)),
    complex: (4, _complex),
    range: (5, _range),
    tuple: (TUPLE, _sequence),
    dict: (MAPPING, mapping),
    set: (18, _set),
    frozenset: (19, _set),
    collections.deque: (20, _deque),
    collections.defaultdict: (21, _defaultdict),
    collections.OrderedDict: (22, _plain_mapping),
    collections.Counter: (23, _plain_mapping),
    datetime.datetime: (32, _datetime),
    datetime.date: (33, _date),
    datetime.time: (34, _time),
    datetime.timedelta: (35, _timedelta),
    datetime.timezone: (36, _timezone),
}

# By module and name, for classes that may not be loaded.
LATE_ENCODERS: dict[tuple[str, str], tuple[int, Encoder]] = {
    ("decimal", "Decimal"): (6, _decimal),
    ("fractions", "Fraction"): (7, _fraction),
    ("zoneinfo", "ZoneInfo"): (37, _keyed_zone),
    ("uuid", "UUID"): (40, _uuid),
} | {
    (module, name): (41, _path)
    for module in ("pathlib", "pathlib._local")  # Python 3.13 moved them
    for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
}

DECODERS: dict[int, Decoder] = {
    1: _to_int,
    STRING: _to_string,
    BYTEARRAY: lambda payload, _: bytearray(payload),
    4: _to_complex,
    5: _to_range,
    6: _to_decimal,
    7: _to_fraction,
    TUPLE: _to_tuple,
    MAPPING: _to_mapping,
    18: _to_set,
    19: _to_frozenset,
    20: _to_deque,
    21: _to_defaultdict,
    22: _to_ordered_dict,
    23: _to_counter,
    32: _to_datetime,
    33: _to_date,
    34: _to_time,
    35: _to_timedelta,
    36: _to_timezone,
    37: _to_keyed_zone,
    40: _to_uuid,
    41: _to_path,
    ARRAY: _to_array,
    NUMPY_SCALAR: _to_numpy_scalar,
}

SEQUENCES = (tuple, set, frozenset, collections.deque)
MAPPINGS = (dict, collections.defaultdict, collections.OrderedDict, collections.Counter)
