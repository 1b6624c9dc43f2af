"""Every value comes back exactly; and whatever the bytes are, reading them gives a value or an error and does nothing else."""

import contextlib
import pathlib
import subprocess
import sys

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.errors import SerializationError
from juncture.persistence.codec import Codec
from tests.properties import forging
from tests.properties.values import VALUES, registry
from tests.unit.persistence.exact import same

CODEC = Codec(registry())


def back(value):
    return CODEC.decode(CODEC.encode(value))


@given(VALUES)
def test_any_value_comes_back_exactly(value):
    assert same(back(value), value)


@given(VALUES, VALUES)
def test_equal_bytes_mean_equal_values(one, other):
    assert (CODEC.encode(one) == CODEC.encode(other)) <= same(one, other)


@given(VALUES)
def test_what_was_written_and_read_is_written_alike(value):
    assert CODEC.encode(back(value)) == CODEC.encode(value)


@given(VALUES)
def test_another_codec_of_the_same_classes_reads_it(value):
    assert same(Codec(registry()).decode(CODEC.encode([value])), [value])


@given(VALUES, st.integers(0, 4))
def test_a_value_stands_inside_of_others_as_alone(value, where):
    around = ([value], {"a": value}, (value,), {1: value}, {"odd": bytearray(b"x"), "a": {"b": [value]}})[
        where
    ]
    assert same(back(around), around)


class Client:
    """Of no class that can be stored."""


@given(VALUES, st.lists(st.sampled_from(["a", "b c", 0, 1]), max_size=4))
def test_what_cannot_be_stored_is_refused_with_its_path(value, steps):
    whole, path = Client(), ""
    for step in reversed(steps):
        if isinstance(step, str):
            whole = {"first": value, step: whole}
            path = (f".{step}" if step.isidentifier() else f"[{step!r}]") + path
        else:
            whole = (value, whole) if step else [whole, value]
            path = f"[{step}]" + path
    with pytest.raises(SerializationError) as caught:
        CODEC.encode(whole, "state")
    assert str(caught.value).startswith(f"state{path}: an object of class {__name__}:Client")


# ── hostile bytes ────────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(stored):
    with contextlib.suppress(SerializationError):
        CODEC.decode(stored)


@given(VALUES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_byte_is_read_as_something_or_refused(value, place, byte):
    stored = bytearray(CODEC.encode(value))
    stored[place % len(stored)] = byte
    with contextlib.suppress(SerializationError):
        CODEC.decode(bytes(stored))


@given(VALUES, st.integers(0, 10_000))
def test_what_was_cut_short_is_refused(value, place):
    stored = CODEC.encode(value)
    with pytest.raises(SerializationError):
        CODEC.decode(stored[: place % len(stored)])


@given(VALUES, st.binary(min_size=1, max_size=3))
def test_what_has_a_tail_is_refused(value, tail):
    with pytest.raises(SerializationError):
        CODEC.decode(CODEC.encode(value) + tail)


@given(st.randoms(use_true_random=False))
def test_forged_extension_types_are_a_value_or_refused(random):
    stored = ormsgpack.packb(forging.forged(random, 0))
    with contextlib.suppress(SerializationError):
        CODEC.decode(stored, "state")


def test_forged_bytes_import_and_call_nothing_and_take_little_memory():
    root = pathlib.Path(forging.__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "tests.properties.forging", "1", "3000"],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    read, refused, *imported = run.stdout.split()
    assert imported == []
    assert int(read) > 300
    assert int(refused) > 300
