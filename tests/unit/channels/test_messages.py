"""`add_messages`: messages of any kind, merged by their ids, deterministic and without touching what was given."""

import copy
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.channels import (
    REMOVE_ALL_MESSAGES,
    BinaryOperatorAggregate,
    RemoveMessage,
    add_messages,
    fold,
    identified,
)
from juncture.errors import InvalidUpdateError
from juncture.types import MISSING, Overwrite


def user(content, identity):
    return {"role": "user", "content": content, "id": identity}


def ids(messages):
    return [message["id"] if isinstance(message, dict) else message.id for message in messages]


def contents(messages):
    return [message["content"] if isinstance(message, dict) else message.content for message in messages]


@dataclass
class Said:
    content: Any
    role: str = "user"
    id: str | None = None


@dataclass(frozen=True, slots=True)
class FrozenSaid:
    content: Any
    role: str = "user"
    id: str | None = None
    hidden: list[int] = field(default_factory=list)


class ModelSaid(pydantic.BaseModel, frozen=True):
    content: Any
    type: str = "human"
    id: str | None = None


class StructSaid(msgspec.Struct, frozen=True):
    content: Any
    role: str = "user"
    id: str | None = None


class TupleSaid(NamedTuple):
    content: Any
    role: str = "user"
    id: str | None = None


class Unwilling:
    """A message whose id can't be set."""

    __slots__ = ("content",)
    type = "human"
    id = None

    def __init__(self, content):
        self.content = content


KINDS = [Said, FrozenSaid, StructSaid, TupleSaid]
a, b, c = user("a", "1"), user("b", "2"), user("c", "3")

# ── what is a message ────────────────────────────────────────────────────────────────────────────────────────


def test_strings_and_tuples_become_dicts():
    made = add_messages([], ["hi", ("assistant", [{"type": "text", "text": "yes"}])])
    assert [list(message) for message in made] == [["role", "content", "id"]] * 2
    assert [message["role"] for message in made] == ["user", "assistant"]
    assert contents(made) == ["hi", [{"type": "text", "text": "yes"}]]


def test_one_message_needs_no_list():
    assert add_messages(a, b) == [a, b]
    assert contents(add_messages("hi", ("assistant", "yes"))) == ["hi", "yes"]
    assert contents(add_messages(("user", "hi"), "yes")) == ["hi", "yes"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_objects_stay_what_they_are_and_are_copied_to_get_an_id(kind):
    given = kind("hi")
    (stored,) = add_messages([], given)
    assert type(stored) is kind
    assert len(stored.id) == 32
    assert stored.content == "hi"
    assert given.id is None
    known = kind("hi", id="7")
    assert add_messages([], [known])[0] is known


def test_models_are_copied_as_models():
    given = ModelSaid(content="hi")
    (stored,) = add_messages([], given)
    assert (given.id, stored.content, len(stored.id)) == (None, "hi", 32)
    assert stored.model_fields_set == {"content", "id"}


def test_dicts_are_copied_to_get_an_id():
    given = {"type": "human", "content": "hi", "more": [1]}
    (stored,) = add_messages([], [given])
    assert "id" not in given
    assert {**given, "id": stored["id"]} == stored


class Kept(dict):
    """A dict of a library."""


def test_a_dict_of_another_class_is_a_message_too():
    kept = Kept(a)
    assert add_messages([kept], [b])[0] is kept


@pytest.mark.parametrize(
    "item",
    [
        5,
        None,
        {"content": "hi"},
        {},
        ["user", "hi"],
        ("user",),
        ("user", "hi", "more"),
        (1, "hi"),
        object(),
    ],
)
def test_anything_else_is_no_message(item):
    with pytest.raises(
        InvalidUpdateError, match=r"is no message: .*Write a string, a tuple \(role, content\)"
    ):
        add_messages([], [item])


def test_what_is_no_message_is_shown_in_short():
    with pytest.raises(InvalidUpdateError, match=r"x{10}\.\.\.\. Write"):
        add_messages([], [{"content": "x" * 100}])


def test_a_message_that_can_not_get_an_id_is_refused():
    with pytest.raises(InvalidUpdateError, match="a Unwilling without an id was written"):
        add_messages([], Unwilling("hi"))


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_c108_new_messages_are_appended_and_known_ones_replaced_in_their_place():
    new = user("B", "2")
    left = [a, b]
    assert add_messages(left, [c, new]) == [a, new, c]
    assert left == [a, b]


def test_a_message_is_replaced_by_one_of_another_kind():
    said = Said("B", id="2")
    assert add_messages([a, b, c], said) == [a, said, c]


def test_messages_are_replaced_and_appended_in_turns():
    d = user("d", "4")
    written = [user("A", "1"), c, user("C", "3"), d, user("B", "2"), user("D", "4")]
    assert contents(add_messages([a, b], written)) == ["A", "B", "C", "D"]


def test_messages_of_one_write_with_one_id_leave_the_last():
    assert add_messages([], [a, user("A", "1")]) == [user("A", "1")]


def test_nothing_written_leaves_the_messages():
    left = [a]
    assert add_messages(left, []) is left


REMOVALS = [
    RemoveMessage,
    lambda identity: {"type": "remove", "id": identity},
    lambda identity: {"role": "remove", "id": identity},
    lambda identity: Said("", role="remove", id=identity),
    lambda identity: ModelSaid(content="", type="remove", id=identity),
]


@pytest.mark.parametrize("removal", REMOVALS)
def test_c108_a_message_is_removed_by_its_id(removal):
    assert add_messages([a, b, c], removal("2")) == [a, c]
    assert add_messages([a, b], [removal("2"), c, removal("1")]) == [c]
    assert add_messages([a], [b, removal("2")]) == [a]
    assert add_messages([a, b], [removal("1"), removal("1")]) == [b]


@pytest.mark.parametrize("removal", REMOVALS)
def test_c108_a_message_that_does_not_exist_can_not_be_removed(removal):
    with pytest.raises(
        ValueError, match=r"Attempting to delete a message with an ID that doesn't exist \('9'\)"
    ):
        add_messages([a], [b, removal("9")])


@pytest.mark.parametrize("removal", [RemoveMessage(None), {"type": "remove"}])
def test_a_removal_without_an_id_is_refused(removal):
    with pytest.raises(InvalidUpdateError, match="doesn't say which"):
        add_messages([a], removal)


def test_a_message_that_was_removed_may_be_written_again_in_its_place():
    new = user("A", "1")
    assert add_messages([a, b], [RemoveMessage("1"), new]) == [new, b]


@pytest.mark.parametrize("removal", REMOVALS)
def test_c108_all_messages_are_removed_and_what_follows_is_kept(removal):
    everything = removal(REMOVE_ALL_MESSAGES)
    assert add_messages([a, b], [everything]) == []
    assert add_messages([a, b], [RemoveMessage("9"), c, everything, a]) == [a]
    assert add_messages([a], [everything, b, everything, c]) == [c]
    assert contents(add_messages([a], [everything, "hi", "hi"])) == ["hi", "hi"]


def test_what_follows_a_removal_of_all_is_merged_as_well():
    everything = RemoveMessage(REMOVE_ALL_MESSAGES)
    assert add_messages([a], [everything, b, user("B", "2")]) == [user("B", "2")]
    with pytest.raises(ValueError, match="that doesn't exist"):
        add_messages([a], [everything, RemoveMessage("1")])


def test_what_was_stored_by_other_means_is_read_as_messages():
    left = add_messages(
        ["hi", {"role": "user", "content": "a"}, b, ("assistant", "yes"), Said("c")], [user("B", "2")]
    )
    assert contents(left) == ["hi", "a", "B", "yes", "c"]
    assert None not in ids(left)
    assert None not in ids(
        add_messages([user("a", None)], []) + add_messages([Said("a"), user("b", None)], [])
    )
    channel = BinaryOperatorAggregate(list, add_messages)
    assert contents(channel.update([a], [Overwrite(["hi"]), "yes"])) == ["hi", "yes"]


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────────

written = st.sampled_from(
    ["hi", "yes", ("assistant", "hi"), {"type": "human", "content": {"x": [1, None]}}, Said("hi"), a, b]
)


@given(st.lists(st.lists(written, max_size=4), max_size=4))
def test_ids_are_the_same_in_every_run_and_different_in_one_list(steps):
    def once():
        return fold(add_messages, MISSING, copy.deepcopy(steps))

    messages = once()
    assert messages == once()
    if messages is not MISSING:
        assert len(set(ids(messages))) == len(messages)
        assert len(messages) >= max(len([item for item in step if item not in (a, b)]) for step in steps)


def test_ids_do_not_depend_on_the_process():
    class Opaque:
        pass

    content = {"b": (1, 2.5, None, True, b"x"), "a": Opaque()}
    turned = {"a": Opaque(), "b": [1, 2.5, None, True, b"x"]}
    assert ids(add_messages([], ["hi", ("assistant", "\ud800")])) == [
        "9029d11923f644b620b8345a9981fbe5",
        "8ed5b4e2d0ed27587f2dfea18557387c",
    ]
    assert ids(add_messages([], [("user", content)])) == ids(add_messages([], [("user", turned)]))


def test_an_id_tells_place_role_kind_and_content():
    alone = [
        add_messages([], [message])[0]
        for message in ("a", "b", ("system", "a"), Said("a"), Said(1), Said("1"))
    ]
    behind = add_messages([a], ["a"])[-1:] + add_messages([b], ["a"])[-1:] + add_messages([a, b], ["a"])[-1:]
    assert len(set(ids(alone + behind))) == 9


def test_an_id_is_not_given_twice_even_if_the_list_was_put_together_by_hand():
    (_, _, made) = add_messages([a, b], ["hi"])
    again = add_messages([{**made, "content": "other"}, b], ["hi"])
    assert contents(again) == ["other", "b", "hi"]
    assert len(set(ids(again))) == 3


def test_ids_go_on_after_all_messages_were_removed():
    (first,) = add_messages([], "hi")
    (second,) = add_messages([first], [RemoveMessage(REMOVE_ALL_MESSAGES), "hi"])
    assert second["id"] != first["id"]


def test_ids_from_a_salt_stay_with_the_message():
    given = ["hi", a, Said("hi"), RemoveMessage("1")]
    made = identified(given, "task 1")
    assert made == identified(given, "task 1")
    assert [made[1], made[3]] == [a, RemoveMessage("1")]
    assert made[1] is a
    assert len(set(ids(made) + ids(identified(given, "task 2")))) == 5
    assert add_messages([b], made[:3]) == [b, *made[:3]]
    assert identified("hi", "task 1") == made[:1]


def test_langchain_messages_are_such_messages():
    langchain = pytest.importorskip("langchain_core.messages")
    given = langchain.HumanMessage("hi")
    (stored,) = add_messages([], given)
    assert given.id is None
    assert stored == langchain.HumanMessage("hi", id=stored.id)
    answer = langchain.AIMessage("yes", id="2")
    assert add_messages([stored], [answer, langchain.RemoveMessage(id=stored.id)]) == [answer]
    everything = langchain.RemoveMessage(id=REMOVE_ALL_MESSAGES)
    assert add_messages([stored], [everything, answer]) == [answer]
    assert contents(add_messages([stored, a], ("assistant", "yes"))) == ["hi", "a", "yes"]


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_arguments_it_gives_itself_for_an_annotation():
    assert add_messages()([a], [b]) == [a, b]
    assert add_messages(format=None)([a], [b]) == [a, b]


@pytest.mark.parametrize(("arguments", "given"), [({"left": []}, "left"), ({"right": []}, "right")])
def test_one_argument_is_not_enough(arguments, given):
    with pytest.raises(
        ValueError, match=f"Must specify non-null arguments for both .* Only received: '{given}'"
    ):
        add_messages(**arguments)


@pytest.mark.parametrize(
    ("name", "phrase"), [("langchain-openai", "needs LangChain"), ("xml", "Unrecognized format='xml'")]
)
def test_other_formats_are_refused(name, phrase):
    with pytest.raises(ValueError, match=phrase):
        add_messages([], [], format=name)


def test_the_first_write_is_made_into_messages_where_the_type_has_no_zero():
    for lenient in (True, False):
        channel = BinaryOperatorAggregate(list | None, add_messages, lenient=lenient)
        assert contents(channel.update(MISSING, ["hi"])) == ["hi"]


def test_a_removal_is_a_value():
    assert RemoveMessage("1") == RemoveMessage(id="1") != RemoveMessage("2")
    assert pickle.loads(pickle.dumps(RemoveMessage("1"))) == RemoveMessage("1")
    assert RemoveMessage("1").type == "remove"


def test_an_id_that_cannot_be_known_again_is_refused():
    stored = add_messages([], [{"role": "user", "content": "a", "id": "1"}])
    with pytest.raises(TypeError, match="unhashable"):
        add_messages(stored, [{"role": "user", "content": "b", "id": ["2"]}])
