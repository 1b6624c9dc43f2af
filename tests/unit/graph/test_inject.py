"""Which parameters the engine fills, how a function is called, and what it is called."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import pytest

from juncture.engine.tables import ASYNC, ASYNC_GENERATOR, GENERATOR, SYNC
from juncture.errors import GraphBuildError
from juncture.graph.inject import injected, kind_of, name_of, return_hint
from juncture.types import Command


class Callables:
    """Objects with a method or a ``__call__`` of every kind."""

    def method(self, state, runtime): ...

    @staticmethod
    def static(state, *, writer): ...

    @classmethod
    def on_class(cls, state, config): ...


class Sync:
    def __call__(self, state, writer) -> Literal["x"]: ...


class Async:
    async def __call__(self, state): ...


class Generator:
    def __call__(self, state):
        yield


class AsyncGenerator:
    async def __call__(self, state):
        yield


async def coroutine(state): ...


def generator(state):
    yield


async def async_generator(state):
    yield


def plain(state): ...


def three(first, runtime, last): ...


@pytest.mark.parametrize(
    ("function", "plan"),
    [
        (plain, []),
        (lambda state, runtime: 0, ["runtime"]),
        (lambda state, *, writer, config: 0, ["writer", "config"]),
        (lambda state, writer=None, other=1: 0, ["writer"]),
        (lambda state, *args, runtime, **kwargs: 0, ["runtime"]),
        (lambda *args, config: 0, ["config"]),
        (lambda *args, **kwargs: 0, []),
        (lambda runtime: 0, []),
        (lambda state, /, config: 0, ["config"]),
        (lambda state=None: 0, []),
        (Callables().method, ["runtime"]),
        (Callables.static, ["writer"]),
        (Callables.on_class, ["config"]),
        (Sync(), ["writer"]),
        (functools.partial(three, last=1), ["runtime"]),
        (functools.partial(three, 1, last=1), []),
        (len, []),
        (dict, []),
        (int, []),
        (operator.itemgetter("x"), []),
    ],
)
def test_what_is_filled(function, plan):
    assert injected(function, "it") == {name: name for name in plan}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda state, other: 0, "it has a parameter 'other' that nothing fills"),
        (lambda state, *, other: 0, "'other'"),
        (lambda state, runtime, other: 0, "'other'"),
        (lambda state, runtime, /: 0, "'runtime'"),
        (three, "'last'"),
        (lambda: 0, "it takes no positional argument"),
        (lambda *, runtime: 0, "it takes no positional argument"),
        (lambda **kwargs: 0, "it takes no positional argument"),
        (lambda *, state: 0, "'state'"),
        (functools.partial(plain, state=1), "it takes no positional argument"),
    ],
)
def test_what_cant_be_called(function, text):
    with pytest.raises(GraphBuildError) as caught:
        injected(function, "it")
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["runtime", "config", "writer"])
def test_what_was_bound_by_the_user_isnt_filled(name):
    def node(state, runtime=None, config=None, writer=None): ...

    assert name not in injected(functools.partial(node, **{name: 1}), "it")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (plain, SYNC),
        (len, SYNC),
        (dict, SYNC),
        (operator.itemgetter("x"), SYNC),
        (Callables().method, SYNC),
        (Sync(), SYNC),
        (coroutine, ASYNC),
        (Async(), ASYNC),
        (Async().__call__, ASYNC),
        (generator, GENERATOR),
        (Generator(), GENERATOR),
        (async_generator, ASYNC_GENERATOR),
        (AsyncGenerator(), ASYNC_GENERATOR),
    ],
)
def test_how_a_function_is_called(function, kind):
    assert kind_of(function) == kind
    assert kind_of(functools.partial(functools.partial(function))) == kind


class Named:
    name = "chosen"

    def __call__(self, state): ...


class Numbered(Named):
    name = 3


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (plain, "plain"),
        (functools.partial(functools.partial(plain)), "plain"),
        (lambda state: 0, "<lambda>"),
        (Callables().method, "method"),
        (Sync, "Sync"),
        (Sync(), "Sync"),
        (Named(), "chosen"),
        (Numbered(), None),
        (len, "len"),
    ],
)
def test_what_a_function_is_called(action, name):
    assert name_of(action) == name


def hinted(state) -> Command[Literal["a"]]: ...


def unresolved(state) -> Nowhere: ...  # noqa: F821 - a name that can't be resolved


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (plain, None),
        (hinted, Command[Literal["a"]]),
        (functools.partial(hinted), Command[Literal["a"]]),
        (unresolved, None),
        (Sync(), Literal["x"]),
        (Sync().__call__, Literal["x"]),
        (3, None),
        (len, None),
    ],
)
def test_return_annotations(function: Any, hint):
    assert return_hint(function) == hint
