"""Whether two values are the same to the last bit: equal, of the same types all the way down, in the same order."""

import collections
import dataclasses
import decimal
import math
import struct

import msgspec
import numpy as np
import pydantic

from juncture.types import Send


def same(one, other):
    """True if nobody could tell one value from the other, except by identity. Needs no deep stack."""
    pairs = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if type(a) is not type(b):
            return False
        inside = _inside(a), _inside(b)
        if inside[0] is None:
            if not _same_leaf(a, b):
                return False
        elif len(inside[0]) != len(inside[1]):
            return False
        else:
            pairs.extend(zip(*inside, strict=True))
    return True


def _inside(value):
    """What a container holds, and what it is besides; None for a leaf."""
    if isinstance(value, dict):
        return [getattr(value, "default_factory", None), *(part for item in value.items() for part in item)]
    if isinstance(value, collections.deque):
        return [value.maxlen, *value]
    if isinstance(value, list | tuple):
        return [*value, *getattr(value, "__dict__", {}).items()]
    if isinstance(value, pydantic.BaseModel):
        about = [value.model_fields_set, value.__pydantic_extra__, value.__pydantic_private__]
        return [dict(value.__dict__), *about]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, np.ndarray | np.generic):
        order = value.flags.c_contiguous, value.flags.f_contiguous
        return [
            str(value.dtype),
            value.shape,
            order,
            value.tolist() if value.dtype == object else value.tobytes(),
        ]
    if isinstance(value, Send):
        return [value.node, value.arg, value.timeout]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None


def _same_leaf(a, b):
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, complex):
        return _same_leaf(a.real, b.real) and _same_leaf(a.imag, b.imag)
    if isinstance(a, decimal.Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if hasattr(a, "fold"):
        return repr(a) == repr(b) and a.fold == b.fold
    return a is b or (a == b and repr(a) == repr(b))
