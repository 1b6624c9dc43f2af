"""What the chunks of a stream make together, and where streams stand in what a node returned."""

from dataclasses import dataclass

import pytest

from juncture import Chunk, Command, Stream
from juncture.engine.chunks import (
    aggregated,
    is_message,
    is_value_stream,
    message_id,
    messages_in,
    streams_in,
    with_values,
)
from juncture.types import ROOT


@dataclass
class Said:
    """A message object that can be added to another, as LangChain's chunks can."""

    content: str
    type: str = "ai"
    id: str | None = None

    def __add__(self, other):
        return Said(self.content + other.content)


def test_texts_are_joined():
    assert aggregated(["a", "", "b"]) == "ab"
    assert aggregated([b"a", b"b"]) == b"ab"


def test_lists_are_concatenated_and_others_listed():
    assert aggregated([[1], [], [2, 3]]) == [1, 2, 3]
    assert aggregated([1, "a"]) == [1, "a"]
    assert aggregated([{"x": 1}, {"x": 2}]) == [{"x": 1}, {"x": 2}]
    assert aggregated([]) is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100])
def test_message_objects_are_added_in_order(count):
    texts = [f"{i} " for i in range(count)]
    assert aggregated([Said(text) for text in texts]) == Said("".join(texts))


def test_each_text_is_copied_as_often_as_a_tree_is_deep():
    added = 0

    @dataclass
    class Counted(Said):
        def __add__(self, other):
            nonlocal added
            added += len(self.content) + len(other.content)
            return Counted(self.content + other.content)

    aggregated([Counted("x") for _ in range(1024)])
    assert added == 1024 * 10


def test_messages_are_merged():
    chunks = [
        {"role": "assistant", "content": "it ", "id": "m"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "is", "id": None},
        {"role": "assistant", "usage": {"total": 3, "details": {"cached": 1}, "tier": "a"}},
        {
            "role": "assistant",
            "usage": {"total": 2, "details": {"cached": 1}, "tier": None},
            "finish": "stop",
        },
    ]
    assert aggregated(chunks) == {
        "role": "assistant",
        "content": "it is",
        "id": "m",
        "usage": {"total": 5, "details": {"cached": 2}, "tier": "a"},
        "finish": "stop",
    }
    assert chunks[0] == {"role": "assistant", "content": "it ", "id": "m"}


def test_a_message_without_text_has_an_empty_one_and_a_name_keeps_its_none():
    assert aggregated([{"role": "assistant", "name": None}]) == {
        "role": "assistant",
        "name": None,
        "content": "",
    }


def test_usage_that_changes_its_kind_is_the_last_one():
    chunks = [{"role": "a", "usage": {"t": 1}}, {"role": "a", "usage": {"t": {"in": 1}}}]
    assert aggregated(chunks)["usage"] == {"t": {"in": 1}}


def calls_of(*fragments):
    return aggregated([{"role": "assistant", "tool_calls": [fragment]} for fragment in fragments])[
        "tool_calls"
    ]


def test_fragments_of_tool_calls_are_put_together():
    assert calls_of(
        {"id": "1", "index": 0, "name": "find", "arguments": '{"q":'},
        {"index": 1, "id": "2", "name": "add", "arguments": "{"},
        {"index": 0, "arguments": ' "x"}', "name": None},
        {"index": 1, "arguments": "}"},
    ) == [
        {"id": "1", "index": 0, "name": "find", "arguments": '{"q": "x"}'},
        {"id": "2", "index": 1, "name": "add", "arguments": "{}"},
    ]


def test_a_fragment_without_a_name_goes_on_with_the_last_call():
    assert calls_of({"name": "find", "args": "a"}, {"args": "b"}) == [{"name": "find", "args": "ab"}]


def test_arguments_that_are_no_text_are_taken_whole():
    assert calls_of({"id": "1", "args": {"q": 1}}) == [{"id": "1", "args": {"q": 1}}]


def test_calls_known_by_id_alone_are_told_apart():
    assert calls_of({"id": "1", "args": "a"}, {"id": "2", "args": "b"}, {"id": "1", "args": "c"}) == [
        {"id": "1", "args": "ac"},
        {"id": "2", "args": "b"},
    ]


def words():
    yield "a"


async def later():
    yield "a"


def test_what_is_taken_for_a_stream():
    assert is_value_stream(words())
    assert is_value_stream(later())
    assert is_value_stream(Stream([1]))
    assert not is_value_stream(iter([1]))
    assert not is_value_stream(map(str, [1]))
    assert not is_value_stream([1])
    assert not is_value_stream(Chunk(1))


def test_the_marks_cant_be_iterated_over():
    for mark in (Stream([1]), Chunk(1)):
        with pytest.raises(TypeError):
            next(mark)


@pytest.mark.parametrize("shape", ["mapping", "command", "pairs", "list", "root", "root command"])
def test_where_streams_stand_and_what_takes_their_place(shape):
    stream, empty = words(), words()
    results = {
        "mapping": ({"a": stream, "b": 1, "c": empty}, {"a": "A", "b": 1}),
        "command": (
            Command(update={"a": stream, "c": empty}, goto="n"),
            Command(update={"a": "A"}, goto="n"),
        ),
        "pairs": (
            Command(update=[("a", stream), ("b", 1), ("c", empty)]),
            Command(update=[("a", "A"), ("b", 1)]),
        ),
        "list": (
            [Command(update={"a": stream}), {"b": 1, "c": empty}],
            [Command(update={"a": "A"}), {"b": 1}],
        ),
        "root": (stream, "A"),
        "root command": (Command(update=stream), Command(update="A")),
    }
    result, filled = results[shape]
    root = shape.startswith("root")
    found = streams_in(result, root=root)
    assert found == ([(ROOT, stream)] if root else [("a", stream), ("c", empty)])
    assert with_values(result, {id(stream): "A"}, root=root) == filled


def test_where_there_is_none_nothing_changes():
    result = Command(update=None, goto="n")
    assert streams_in(result) == []
    assert with_values(result, {}) == result
    assert streams_in(5, root=True) == []
    assert with_values(5, {}, root=True) == 5
    assert streams_in("text") == []


def test_what_is_a_message():
    assert is_message({"role": "user", "content": "x"})
    assert is_message(Said("x"))
    assert not is_message({"role": "user"})
    assert not is_message({"content": "x"})
    assert not is_message("x")
    assert messages_in([Said("x"), 1]) == [Said("x")]
    assert messages_in({"role": "user", "content": "x"}) == [{"role": "user", "content": "x"}]
    assert messages_in(5) == []
    assert message_id({"id": "a"}) == message_id(Said("x", id="a")) == "a"
    assert message_id({"id": 5}) is None
