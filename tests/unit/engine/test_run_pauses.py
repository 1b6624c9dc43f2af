"""Questions and answers over several runs of a thread; pauses before and after nodes."""

import pytest

from juncture.engine.effects import Done, Paused
from juncture.engine.interrupts import static_question
from juncture.engine.state import TaskRecord
from juncture.errors import InterruptError, NothingToResumeError, PendingInterruptError
from juncture.types import MISSING, START, Answers, Interrupt, Send
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    answer,
    asked,
    call,
    chain,
    failed,
    fan,
    nothing,
    question,
    request,
    result,
    tables,
    went,
    wrote,
)


def saying(*names):
    """Writes the answers that it got."""
    return asked(*names, then=lambda task: Done(task, [("log", [answer(task, name) for name in names])]))


class Thread:
    """Runs of one graph on one thread."""

    def __init__(self, graph, bodies, **common):
        self.graph, self.bodies, self.common = graph, bodies, common
        self.store = Store()

    def run(self, kind="input", **more):
        """One run; `script` is how it went."""
        self.script = Script(
            self.graph, request(kind, saving=True, **self.common | more), self.bodies, store=self.store
        )
        self.ending = self.script.play()
        return self.ending

    def resume(self, value, **more):
        return self.run("command", resume=value, **more)

    @property
    def open(self):
        return [q.id for q in self.ending.questions]


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_saved_and_ends_the_run():
    thread = Thread(chain("a b"), {"a": saying("q")})
    ending = thread.run(x=1)
    asking = question(thread.script.began[0], "q")
    assert (ending.status, ending.questions, ending.state.values) == (
        "interrupted",
        [asking],
        {"x": 1, "log": []},
    )
    assert thread.script.did == ["load", "save input 0", "run a:1", "writes question a:1"]
    assert thread.store.head.records == [TaskRecord("a:1", "question", asking.id, asking)]


def test_an_answer_is_saved_before_its_task_sees_it():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run()
    assert thread.resume("yes").state.values["log"] == ["yes"]
    assert thread.script.did == ["load", "writes answer a:1", "run a:1", "save loop 1"]
    assert thread.store.checkpoints[0].records[1] == TaskRecord("a:1", "answer", "a:1?q", "yes")


def test_without_an_answer_a_task_doesnt_run_again():
    thread = Thread(fan("a b"), {"a": saying("q"), "b": added})
    thread.run()
    ending = thread.run("continue")
    assert (ending.status, thread.open) == ("interrupted", ["a:1?q"])
    assert thread.script.did == ["load"]
    assert thread.resume(7).state.values["log"] == [7, "b:1"]


def test_lenient_a_task_without_an_answer_asks_again():
    thread = Thread(chain("a", strict=False), {"a": saying("q")})
    thread.run()
    thread.run("continue")
    assert thread.script.did == ["load", "run a:1", "writes question a:1"]
    assert thread.open == ["a:1?q"]
    assert len(thread.store.head.records) == 1


def test_every_question_of_a_step_surfaces_in_plan_order():
    thread = Thread(fan("a b c"), {"a": saying("q"), "b": added, "c": saying("r", "s")})
    thread.run()
    assert thread.open == ["a:1?q", "c:1?r", "c:1?s"]
    assert thread.script.did.count("cancel") == 0


def test_questions_are_answered_in_any_order_and_the_rest_stay_open():
    thread = Thread(fan("a b"), {"a": saying("q"), "b": saying("r")})
    thread.run()
    thread.resume({"b:1?r": 2})
    assert thread.open == ["a:1?q"]
    assert thread.script.did == ["load", "writes answer b:1", "start b:1", "wait", "writes done b:1"]
    assert thread.resume(1).state.values["log"] == [1, 2]
    assert thread.script.ran() == ["a:1"]


def test_a_task_whose_graph_paused_before_a_node_is_gone_on_from():
    """A pause of a nested graph before or after a node isn't a question that must be answered."""
    pause = static_question("t", ("a:1",), 1, "n", "before")
    thread = Thread(
        chain("a"), {"a": lambda task: Paused(task, [pause]) if task.records is None else added(task)}
    )
    assert thread.run().questions == [pause]
    ending = thread.run("continue")
    assert (ending.status, ending.state.values["log"]) == ("completed", ["a:1"])


def test_a_task_with_some_answers_runs_again_and_asks_for_the_rest():
    thread = Thread(chain("a"), {"a": saying("q", "r")})
    thread.run()
    thread.resume({"a:1?r": 2})
    assert (thread.open, thread.script.ran()) == (["a:1?q"], ["a:1"])
    assert thread.resume(1).state.values["log"] == [1, 2]


def test_one_plain_answer_for_several_questions_is_refused_and_changes_nothing():
    thread = Thread(fan("a b"), {"a": saying("q"), "b": saying("r")})
    thread.run()
    records = list(thread.store.head.records)
    with pytest.raises(InterruptError, match="multiple pending interrupts"):
        thread.resume(1)
    assert thread.script.did == ["load"]
    assert thread.store.head.records == records


def test_answers_are_remembered_when_the_task_fails():
    thread = Thread(chain("a"), {"a": asked("q", then=failed(RuntimeError()))})
    thread.run()
    with pytest.raises(RuntimeError):
        thread.resume("yes")
    thread.bodies["a"] = saying("q")
    assert thread.run("continue").state.values["log"] == ["yes"]


def test_answers_for_nested_graphs_are_those_of_the_request():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run()
    answers = {"elsewhere": 0}
    thread.resume(5, answers=answers)
    assert answers == {"elsewhere": 0, "a:1?q": 5}


def test_going_on_takes_the_answers_that_the_request_has_for_its_questions():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run("nested")
    ending = thread.run("nested", answers={"a:1?q": 5, "elsewhere": 0}, modes=frozenset({"values"}))
    assert ending.state.values["log"] == [5]
    assert thread.script.did == [
        "load",
        "writes answer a:1",
        "run a:1",
        "save loop 1",
        "emit values",
    ]


def test_a_nested_graph_that_had_finished_ends_again():
    thread = Thread(chain("a"), {"a": added})
    thread.run("nested")
    ending = thread.run("nested", x=9)
    assert (ending.status, ending.state.values) == ("completed", {"log": ["a:1"]})
    assert thread.script.did == ["load"]


def test_a_nested_graph_without_a_saver_begins():
    script = Script(chain("a"), request("nested", x=1), {"a": added})
    assert script.values() == {"x": 1, "log": ["a:1"]}


def test_input_for_a_thread_with_open_questions_is_refused():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run(x=1)
    with pytest.raises(PendingInterruptError, match=r"Open: a:1\?q"):
        thread.run(x=2)
    assert thread.script.did == ["load"]
    assert thread.store.state.values["x"] == 1


def test_lenient_input_discards_open_questions():
    thread = Thread(chain("a", strict=False), {"a": saying("q")})
    thread.run(x=1)
    thread.bodies["a"] = added
    assert thread.run(x=2).state.values == {"x": 2, "log": ["a:2"]}
    assert thread.script.warnings == []


def test_an_input_after_the_answers_is_taken():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run()
    thread.resume(1)
    thread.bodies["a"] = nothing
    assert thread.run(x=2).state.values == {"x": 2, "log": [1]}


@pytest.mark.parametrize("before", [[], ["input"]])
def test_there_must_be_something_to_resume(before):
    thread = Thread(chain("a"), {})
    for kind in before:
        thread.run(kind)
    with pytest.raises(NothingToResumeError):
        thread.resume(1)
    assert thread.script.did == ["load"]


def test_lenient_resuming_nothing_goes_on():
    thread = Thread(chain("a b", strict=False), {"b": failed(RuntimeError())})
    with pytest.raises(RuntimeError):
        thread.run()
    thread.bodies["b"] = added
    assert thread.resume(1).state.values["log"] == ["b:2"]
    assert Thread(chain("a", strict=False), {}).resume(1).status == "completed"


def test_a_question_is_answered_once():
    thread = Thread(chain("a"), {"a": asked("q", then=failed(RuntimeError()))})
    thread.run()
    for _ in "12":
        with pytest.raises(RuntimeError if _ == "1" else NothingToResumeError):
            thread.resume("yes")


def test_questions_of_calls_are_asked_and_answered_in_the_callers_name():
    def body(task):
        outcome = yield call(task, "one")
        return Done(task, [("log", [outcome.result])]) if isinstance(outcome, Done) else Paused(task, [])

    def asking(task):
        given = answer(task.parent, "q")
        if given is MISSING:
            return Paused(task, [question(task.parent, "q")])
        return Done.of_call(task, given)

    thread = Thread(chain("a"), {"a": body, "call": asking})
    thread.run()
    assert thread.open == ["a:1?q"]
    assert thread.resume(3).state.values["log"] == [3]


def test_calls_that_ended_arent_made_again_after_an_answer():
    made = []

    def body(task):
        first = yield call(task, "one")
        if (given := answer(task, "q")) is MISSING:
            return Paused(task, [question(task, "q")])
        return Done(task, [("log", [first.result, given])])

    thread = Thread(chain("a"), {"a": body, "call": lambda task: made.append(task.id) or result("r")(task)})
    thread.run()
    assert thread.resume(3).state.values["log"] == ["r", 3]
    assert made == ["one"]


def test_a_question_asked_twice_in_a_step_is_one():
    same = Interrupt("q", "id", "a")
    thread = Thread(
        fan("a b"), {"a": lambda task: Paused(task, [same]), "b": lambda task: Paused(task, [same])}
    )
    assert thread.run().questions == [same]
    assert len(thread.store.head.records) == 2
    thread.bodies |= {"a": added, "b": added}
    thread.resume(1)
    assert thread.script.did[1] == "writes answer a:1, answer b:1"


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_goes_where_it_says_and_adds_to_what_is_due():
    thread = Thread(tables("a b c", (START, "a")), {"a": failed(RuntimeError())})
    with pytest.raises(RuntimeError):
        thread.run(x=1)
    thread.bodies = dict.fromkeys("abc", added)
    ending = thread.run("command", targets=["c", "a"], sends=[Send("b", 1)], writes=[("x", 2)])
    assert ending.state.values == {"x": 2, "log": ["a:1", "c:1", "b:1.0"]}
    assert thread.script.did[:2] == ["load", "save command 0"]


def test_a_commands_goto_to_a_deferred_node_is_held_back():
    graph = tables({"a": {}, "b": {}, "z": {"defer": True}}, (START, "a"), ("a", "b"))
    script = Script(graph, request("command", targets=["a", "z"]), dict.fromkeys("abz", added))
    assert script.values()["log"] == ["a:1", "b:2", "z:3"]


def test_an_update_goes_in_before_the_resumed_task_runs_once():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run(x=1)
    ending = thread.resume("yes", writes=[("x", 2), ("log", ["update"])])
    assert ending.state.values == {"x": 2, "log": ["update", "yes"]}
    assert thread.script.began[0].values is ending.state.values
    assert [saved.source for saved in thread.store.checkpoints] == ["input", "command", "loop"]
    assert [saved.state.step for saved in thread.store.checkpoints] == [0, 0, 1]


def test_what_was_saved_about_tasks_counts_beside_the_commands_checkpoint():
    thread = Thread(fan("a b c"), {"a": saying("q"), "b": added, "c": saying("r")})
    thread.run()
    thread.resume({"a:1?q": 1}, writes=[("x", 2)])
    assert thread.script.ran() == ["a:1"]
    assert thread.open == ["c:1?r"]
    kinds = [(record.task_id, record.kind) for record in thread.store.state.carried]
    assert sorted(kinds) == sorted(
        [("a:1", "question"), ("a:1", "answer"), ("b:1", "done"), ("c:1", "question")]
    )
    ending = thread.resume(3)
    assert ending.state.values == {"x": 2, "log": [1, "b:1", 3]}
    assert thread.script.ran() == ["c:1"]
    assert thread.store.state.carried == ()


def test_resuming_with_an_update_is_one_commit():
    thread = Thread(chain("a"), {"a": saying("q")})
    thread.run()
    thread.resume("yes", writes=[("x", 2)])
    assert thread.script.did == ["load", "save command 0", "run a:1", "save loop 1"]


def test_an_update_alone_on_a_finished_thread_runs_nothing():
    thread = Thread(chain("a"), {"a": added})
    thread.run()
    ending = thread.run("command", writes=[("x", 1)])
    assert ending.state.values == {"x": 1, "log": ["a:1"]}
    assert thread.script.did == ["load", "save command 1"]


def test_a_command_without_a_saver_or_thread_begins_a_new_one():
    script = Script(chain("a b"), request("command", targets=["b"], writes=[("x", 1)]), {"b": added})
    assert script.values() == {"x": 1, "log": ["b:1"]}
    assert script.did == ["run b:1"]


def test_a_command_on_a_new_thread_starts_from_what_keys_hold_initially():
    seen = []
    bodies = {"a": lambda task: seen.append(dict(task.values)) or nothing(task)}
    Script(chain("a"), request("command", targets=["a"]), bodies).play()
    assert seen == [{"log": []}]


# ── pauses before and after nodes ────────────────────────────────────────────────────────────────────────────


def at(*names):
    return frozenset(names)


def test_a_pause_before_a_node_is_saved_and_passed_once():
    thread = Thread(chain("a b c"), dict.fromkeys("abc", added), before=at("b"))
    ending = thread.run(x=1)
    pause = static_question("t", (), 2, "b", "before")
    assert (ending.status, ending.questions, ending.state.values["log"]) == ("interrupted", [pause], ["a:1"])
    assert thread.script.did == [
        "load",
        "save input 0",
        "run a:1",
        "save loop 1",
        "writes paused b",
    ]
    assert thread.store.head.records == [TaskRecord("", "paused", pause.id, pause)]
    ending = thread.run("continue")
    assert (ending.status, ending.state.values["log"]) == ("completed", ["a:1", "b:2", "c:3"])


def test_a_pause_before_several_tasks_of_a_node_is_one():
    thread = Thread(tables("a b", (START, "a")), {"a": went(sends=[Send("b"), Send("b")])}, before=at("b"))
    assert [(q.node, q.when) for q in thread.run().questions] == [("b", "before")]


def test_a_star_pauses_before_every_step():
    thread = Thread(fan("a b"), {"a": added, "b": added}, before=at("*"))
    assert [q.node for q in thread.run().questions] == ["a", "b"]
    assert thread.script.did == ["load", "save input 0", "writes paused a, paused b"]
    assert thread.run("continue").status == "completed"


def test_a_pause_after_a_node_is_part_of_the_checkpoint():
    thread = Thread(chain("a b"), {"a": added, "b": added}, after=at("a"))
    ending = thread.run(x=1)
    pause = static_question("t", (), 1, "a", "after")
    assert (ending.status, ending.questions) == ("interrupted", [pause])
    assert thread.script.did == ["load", "save input 0", "run a:1", "save loop 1"]
    assert thread.store.state.paused_after == ("a",)
    ending = thread.run("continue")
    assert (ending.status, ending.state.values["log"]) == ("completed", ["a:1", "b:2"])
    assert thread.store.state.paused_after == ()


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_static_pause_may_be_answered_and_input_is_refused_meanwhile(where):
    thread = Thread(chain("a b"), {"a": added, "b": added}, **{where: at("b" if where == "before" else "a")})
    thread.run()
    with pytest.raises(PendingInterruptError):
        thread.run(x=1)
    ending = thread.resume("whatever")
    assert (ending.status, ending.state.values["log"]) == ("completed", ["a:1", "b:2"])


def test_a_pause_after_the_last_node_is_none():
    thread = Thread(chain("a"), {"a": added}, after=at("*"))
    assert thread.run().status == "completed"
    assert thread.store.state.paused_after == ()


def test_a_pause_after_a_node_that_only_a_join_follows():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"), join="arrived")
    thread = Thread(graph, {"a": added, "c": added}, after=at("a"))
    assert [(q.node, q.when) for q in thread.run().questions] == [("a", "after")]
    assert thread.run("continue").state.values["log"] == ["a:1", "c:2"]


def test_a_pause_after_a_node_that_only_a_deferred_one_follows():
    graph = tables({"a": {}, "b": {"defer": True}}, (START, "a"), ("a", "b"))
    thread = Thread(graph, {"a": added, "b": added}, after=at("a"))
    assert [q.node for q in thread.run().questions] == ["a"]


def test_a_pause_after_a_node_stands_after_its_update_and_values():
    thread = Thread(chain("a b"), {"a": added}, after=at("a"), modes=frozenset({"values", "updates"}))
    thread.run()
    assert thread.script.did == [
        *["load", "save input 0", "emit values", "run a:1", "emit updates"],
        *["save loop 1", "emit values", "emit updates"],
    ]
    assert "__interrupt__" in thread.script.parts("updates")[-1]


def test_a_pause_after_a_node_and_one_before_the_next_are_one_stop():
    thread = Thread(chain("a b c"), dict.fromkeys("abc", added), before=at("b"), after=at("a"))
    assert [(q.node, q.when) for q in thread.run().questions] == [("a", "after")]
    ending = thread.run("continue")
    assert (ending.status, ending.state.values["log"]) == ("completed", ["a:1", "b:2", "c:3"])


def test_a_pause_that_was_passed_isnt_made_again_when_its_node_failed():
    thread = Thread(chain("a b"), {"a": added, "b": failed(RuntimeError())}, before=at("b"))
    thread.run()
    for _ in "12":
        with pytest.raises(RuntimeError):
            thread.run("continue")
    thread.bodies["b"] = added
    assert thread.run("continue").status == "completed"


def test_a_pause_that_was_passed_is_no_open_question_any_more():
    thread = Thread(chain("a b"), {"a": added, "b": failed(RuntimeError())}, before=at("b"))
    thread.run()
    with pytest.raises(RuntimeError):
        thread.run("continue")
    thread.bodies["b"] = added
    thread.run(x=1, before=frozenset())
    assert thread.ending.state.values == {"x": 1, "log": ["a:1", "a:3", "b:4"]}


def test_a_loop_pauses_every_time():
    graph = tables("a b", (START, "a"), ("a", "b"), ("b", "a"))
    thread = Thread(graph, {"a": added, "b": nothing}, before=at("a"))
    for kind, step in (("input", 1), ("continue", 3), ("continue", 5)):
        thread.run(kind)
        assert [q.id for q in thread.ending.questions] == [static_question("t", (), step, "a", "before").id]


def test_a_static_pause_and_an_update_while_paused():
    thread = Thread(chain("a b"), {"a": added, "b": added}, after=at("a"))
    thread.run()
    ending = thread.run("command", writes=[("x", 1)])
    assert (ending.status, ending.state.values) == ("completed", {"x": 1, "log": ["a:1", "b:2"]})


def test_a_static_pause_without_a_saver_just_ends_the_run():
    script = Script(chain("a b"), request(before=at("b")), {"a": added})
    ending = script.play()
    assert (ending.status, script.did) == ("interrupted", ["run a:1"])
    script = Script(chain("a b"), request(after=at("a")), {"a": added})
    assert (script.play().status, script.did) == ("interrupted", ["run a:1"])


def test_static_pauses_and_questions_get_their_answers_apart():
    thread = Thread(chain("a b"), {"a": added, "b": saying("q")}, before=at("b"))
    thread.run()
    pause = thread.ending.questions[0]
    thread.resume(Answers({pause.id: None}))
    assert thread.open == ["b:2?q"]
    assert thread.resume(4).state.values["log"] == ["a:1", 4]


def test_pausing_before_a_node_saves_nothing_twice():
    thread = Thread(chain("a b"), {"a": wrote(x=1)}, before=at("b"))
    thread.run()
    thread.run("continue", before=frozenset())
    assert len(thread.store.checkpoints) == 3
