"""Checks every graph that tests compile: ``pytest -p tests.checked tests/behaviour``.

`compile` itself warns of what is certain, so those findings need no plugin. This one lists the others at the end of the
run, each with a test that compiled such a graph, for somebody to read: is it true of that graph?
"""

from collections.abc import Iterator
from typing import Any

import pytest

from juncture.graph import check, compiled

_found: dict[str, str] = {}
_running = "while tests were collected"


def pytest_configure(config: pytest.Config) -> None:
    make = compiled._checked

    def checked(graph: Any, pauses: set[str]) -> Any:
        shape = make(graph, pauses)
        for finding in check.every_finding(shape):
            _found.setdefault(str(finding), _running)
        return shape

    compiled._checked = checked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _running  # noqa: PLW0603 - there is one test at a time in a process
    _running = item.nodeid
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("findings")
    for finding, test in sorted(_found.items()):
        terminalreporter.line(f"{finding}\n    {test}")
