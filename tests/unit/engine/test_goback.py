"""What of an older checkpoint is taken up when it is gone back to."""

import pytest

from juncture.engine.begin import Request
from juncture.engine.goback import Back, Inside, go_back, unanswered_questions
from juncture.engine.state import Around, Saved, State, TaskRecord
from juncture.errors import ConfigError
from juncture.types import Interrupt

OLD = "c1"


def request(kind="continue", **options):
    return Request(kind, 10, lambda: 0.5, saving=True, thread_id="t", **options)


def asks(name, *namespace, task="a:2"):
    return TaskRecord(task, "question", name, Interrupt(f"{name}?", name, "n", namespace))


def answer(name, task="a:2"):
    return TaskRecord(task, "answer", name, "yes")


def stands(checkpoint, level="a:2", task="a:2"):
    return TaskRecord(task, "nested", checkpoint, level)


def done(task):
    return TaskRecord(task, "done", "", ([("x", 1)], (), ()))


def went_back(asked, *records, branch="", head="c5"):
    saved = Saved(OLD, None, State(step=1, due=("a", "b"), branch=branch), list(records), head_id=head)
    saved.state.edited = ("c0",)
    go_back(asked, saved)
    return saved


def kept(saved):
    assert saved.state.carried == tuple(saved.records)
    assert saved.state.edited == ()
    return [(record.kind, record.name or record.task_id) for record in saved.records]


def test_with_none_nothing_is_kept_and_the_tasks_are_new():
    saved = went_back(request(), done("b:2"), asks("q"), answer("q"))
    assert (kept(saved), saved.state.branch) == ([], "c5")


def test_with_an_answer_what_was_known_before_the_first_is_kept_and_the_tasks_are_the_same():
    records = [done("b:2"), asks("q"), answer("q"), done("a:2")]
    saved = went_back(request("command", resume="no"), *records, branch="c0")
    assert kept(saved) == [("done", "b:2"), ("question", "q")]
    assert saved.state.branch == "c0>c5"


def test_also_of_nested_graphs():
    records = [stands("n1"), asks("q", "a:2"), answer("q"), stands("n2"), asks("r", "a:2"), answer("r")]
    saved = went_back(request("command", resume="no"), *records)
    assert kept(saved) == [("nested", "n1"), ("question", "q")]
    assert [q.id for q in unanswered_questions(records)] == ["q"]


def test_where_nobody_knows_where_the_nested_graph_stood_the_error_says_what_to_do():
    """Beside checkpoints of earlier versions."""
    with pytest.raises(ConfigError, match="None as the input") as caught:
        went_back(request("command", resume="no"), asks("q", "a:2"), answer("q"))
    assert OLD in str(caught.value)
    own = asks("q")
    assert kept(went_back(request("command", resume="no"), own, answer("q"))) == [("question", "q")]


def test_the_newest_is_gone_back_to_as_well_where_that_is_asked_for():
    saved = went_back(request("update", back=Back("pauses")), done("b:2"), head="")
    assert (kept(saved), saved.state.branch) == ([], OLD)


def test_around_a_nested_graph_everything_is_kept_but_what_that_came_to():
    records = [
        done("b:2"),
        stands("n1"),
        stands("m1", level="a:2/other.0"),
        asks("q", "a:2"),
        answer("q"),
        asks("r", "a:2", "deep:1"),
        asks("s", "a:2/other.0"),
        answer("s"),
        TaskRecord("a:2", "call", "price", 5),
        TaskRecord("a:2", "failed", "", "oops"),
        done("a:2"),
    ]
    back = Back("unanswered", Around("p1", 0), Inside("a:2", "a:2", len(records)))
    saved = went_back(request("update", back=back), *records)
    assert kept(saved) == [
        ("done", "b:2"),
        ("nested", "m1"),
        ("question", "s"),
        ("answer", "s"),
        ("call", "price"),
    ]
    assert saved.state.branch == ">c5"


def test_and_what_it_asks_is_asked():
    question = Interrupt("q?", "q", "n", ("a:2",))
    back = Back("unanswered", None, Inside("a:2", "a:2", 1, [question]))
    assert kept(went_back(request("update", back=back), done("b:2"))) == [("done", "b:2"), ("question", "q")]
