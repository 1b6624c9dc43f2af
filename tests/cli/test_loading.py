"""FILE:graph: what is found, and what is said where there is nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import FLOW, Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

KINDS = """
    from functools import partial

    from juncture import START, CompiledGraph, InMemorySaver, StateGraph

    builder = StateGraph().add_node("n", lambda state: {"ran": True}).add_edge(START, "n")
    compiled = builder.compile()


    def make():
        return builder


    async def amake():
        return compiled


    def with_default(depth=1, *more, **options):
        return builder.compile()


    class Holder:
        inner = builder

        def __call__(self):
            return builder


    holder = Holder()
    bound = partial(lambda given: given, builder)
"""


@pytest.mark.parametrize(
    "name", ["builder", "compiled", "make", "amake", "with_default", "Holder.inner", "holder", "bound"]
)
def test_builders_compiled_graphs_and_factories_run(name: str, juncture: Juncture, write: Write):
    write("kinds.py", KINDS)
    done = juncture("run", f"kinds.py:{name}", "--input", "{}")
    assert done.code == 0, done.err
    assert done.last["values"] == {"ran": True}


@pytest.mark.parametrize("name", ["builder", "compiled", "make", "amake"])
def test_each_kind_takes_a_saver(name: str, juncture: Juncture, write: Write):
    write("kinds.py", KINDS)
    done = juncture("run", f"kinds.py:{name}", "--input", "{}", "--checkpointer", "memory:", "--thread", "t")
    assert (done.code, done.last["thread_id"]) == (0, "t"), done.err
    assert done.last["checkpoint"] is not None


# ── which graph ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_builder_and_its_compiled_graph_are_one(juncture: Juncture, write: Write):
    write("flow.py", FLOW + "\n    app = again = graph.compile()\n    _hidden = StateGraph(Count)\n")
    done = juncture("run", "flow.py", "--input", '{"texts": ["a"]}')
    assert done.last["values"]["total"] == 1, done.err


def test_a_factory_that_says_what_it_returns_is_the_only_graph(juncture: Juncture, write: Write):
    write(
        "factory.py",
        """
        from __future__ import annotations

        from juncture import START, CompiledGraph, StateGraph


        def something() -> int:
            return 1


        def needs(a: int) -> CompiledGraph:
            raise AssertionError


        async def make() -> CompiledGraph[dict]:
            return StateGraph().add_node("n", lambda state: {"a": 1}).add_edge(START, "n").compile()
        """,
    )
    assert juncture("run", "factory.py", "--input", "{}").last["values"] == {"a": 1}


def test_several_graphs_are_listed(juncture: Juncture, write: Write):
    write("two.py", "from juncture import StateGraph\nfirst, second = StateGraph(), StateGraph()\n")
    done = juncture("run", "two.py", "--input", "{}")
    assert done.code == 2
    assert "two.py has several graphs: first, second. Name one, for example two.py:first" in done.err


# ── where it is imported from ────────────────────────────────────────────────────────────────────────────────


def test_what_lies_beside_the_file_and_in_the_working_directory_is_found(juncture: Juncture, write: Write):
    write("there/beside.py", "VALUE = 1\n")
    write("here.py", "VALUE = 2\n")
    write(
        "there/deep.py",
        """
        import beside
        import here
        from juncture import START, StateGraph

        graph = StateGraph().add_node("n", lambda state: {"a": [beside.VALUE, here.VALUE]}).add_edge(START, "n")
        """,
    )
    done = juncture("run", "there/deep.py:graph", "--input", "{}")
    assert done.last["values"] == {"a": [1, 2]}, done.err


def test_a_dotted_module_is_imported(juncture: Juncture, write: Write):
    write("package/__init__.py", "")
    write("package/size.py", "SIZE = 3\n")
    write(
        "package/flow.py",
        """
        from juncture import START, StateGraph

        from .size import SIZE

        graph = StateGraph().add_node("n", lambda state: {"a": SIZE}).add_edge(START, "n")
        """,
    )
    assert juncture("run", "package.flow:graph", "--input", "{}").last["values"] == {"a": 3}
    assert juncture("run", "package.flow", "--input", "{}").last["values"] == {"a": 3}
    as_file = juncture("run", "package/flow.py:graph", "--input", "{}")
    assert as_file.code == 2
    assert "package/flow.py:3: importing package/flow.py failed" in as_file.err
    assert "name it by its dotted name" in as_file.err


def test_classes_are_those_of_whoever_imports_the_file(juncture: Juncture, write: Write):
    write(
        "shapes.py",
        """
        from juncture import START, StateGraph


        class Point:
            pass


        def node(state):
            import shapes

            return {"same": shapes.Point is Point, "name": Point.__module__}


        graph = StateGraph().add_node(node).add_edge(START, "node")
        """,
    )
    done = juncture("run", "shapes.py", "--input", "{}")
    assert done.last["values"] == {"same": True, "name": "shapes"}


def test_a_name_with_a_colon_is_a_file_if_there_is_one(juncture: Juncture, write: Write):
    write("a:b.py", FLOW)
    assert juncture("run", "a:b.py", "--input", '{"texts": ["a"]}').code == 0


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("flov.py:graph", "there is no file 'flov.py'. Did you mean 'flow.py'? A relative path starts at"),
        ("absent/flow.py", "there is no file 'absent/flow.py'"),
        ("there", "'there' is a folder: name the file in it"),
        ("notes.txt:graph", "'notes.txt' isn't a Python file"),
        ("nowhere.flow:graph", "there is no module 'nowhere.flow': Python doesn't find 'nowhere'"),
        ("there.nowhere:graph", "there is no module 'there.nowhere': Python doesn't find 'there.nowhere'"),
        ("my-flow:graph", "'my-flow' is neither a file that exists nor a module's name"),
        (":graph", "':graph' isn't FILE:graph"),
        ("flow.py:", "'flow.py:' isn't FILE:graph"),
        ("x" * 5000, "there is no module"),
        ("json.py:graph", "json.py has the name of a module that is in use already (json)"),
        ("flow.py:grpah", "flow.py has no 'grpah'. Did you mean 'graph'? Graphs in it: graph"),
        ("flow.py:graph.nope", "flow.py has no 'graph.nope'"),
        (
            "flow.py:Count",
            "flow.py:Count is the class Count, and neither a graph nor a function that makes one",
        ),
        ("other.py:number", "other.py:number is a int, and neither a graph nor"),
        ("other.py:number", "Nothing at its top is a StateGraph or a compiled graph"),
        (
            "other.py:needs",
            "other.py:needs can't be called as a factory: it has the required parameters a, b",
        ),
        ("other.py:wrong", "other.py:wrong returned a int, and not a graph"),
        ("other.py:awrong", "other.py:awrong returned a NoneType, and not a graph"),
        (
            "other.py:fails",
            "other.py:8, in fails: the factory other.py:fails raised ZeroDivisionError: division by zero",
        ),
        ("other.py:afails", "other.py:14, in afails: the factory other.py:afails raised KeyError: 'x'"),
        ("other.py", "other.py has no graph: nothing at its top is a StateGraph or a compiled graph"),
        ("syntax.py", "syntax.py:2: this isn't Python"),
        ("syntax.py", "'(' was never closed\n    graph = (\n            ^"),
        ("imports_syntax.py", "syntax.py:2: this isn't Python"),
        ("missing.py", "missing.py:3: importing missing.py failed: No module named 'nosuchmodule'. Install"),
        (
            "imports_missing.py",
            "missing.py:3: importing imports_missing.py failed: No module named 'nosuchmodule'",
        ),
        (
            "imports_missing:graph",
            "missing.py:3: importing imports_missing failed: No module named 'nosuchmodule'",
        ),
        ("raises.py", "raises.py:1: importing raises.py raised NameError: name 'undefined' is not defined"),
        (
            "exits.py",
            "exits.py:2: importing exits.py called exit(3). Put what the file does as a program under",
        ),
        ("unbuilt.py", "unbuilt.py:3: the graph can't be built: "),
        ("notbuilt.py", "notbuilt.py:graph: the graph can't be built: "),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_wrong_with_it_is_said(spec: str, said: str, juncture: Juncture, write: Write, folder: Path):
    write("flow.py", FLOW)
    write("there/__init__.py", "")
    write("notes.txt", "graph = 1\n")
    write("json.py", FLOW)
    write(
        "other.py",
        """
        number = 1


        def needs(a, b): ...


        def fails():
            return 1 / 0


        def wrong(): return 1
        async def awrong(): ...
        async def afails():
            return {}["x"]
        """,
    )
    write("syntax.py", "x = 1\ngraph = (\n")
    write("imports_syntax.py", "import syntax\n")
    write("missing.py", "import os\n\nfrom nosuchmodule import graph\n")
    write("imports_missing.py", "from missing import graph\n")
    write("raises.py", "undefined\n")
    write("exits.py", "import sys\nsys.exit(3)\n")
    write(
        "unbuilt.py",
        "from juncture import StateGraph\n\napp = StateGraph().add_edge('a', 'b').compile()\n",
    )
    write("notbuilt.py", "from juncture import StateGraph\n\ngraph = StateGraph().add_edge('a', 'b')\n")
    done = juncture("run", spec, "--input", "{}")
    assert done.code == 2, done.err
    assert done.out == ""
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_failed_is_not_left_among_the_modules(juncture: Juncture, write: Write):
    write("flow.py", "undefined\n")
    assert juncture("run", "flow.py", "--input", "{}").code == 2
    assert "flow" not in sys.modules
    write("flow.py", FLOW)
    assert juncture("run", "flow.py", "--input", '{"texts": ["a"]}').code == 0
