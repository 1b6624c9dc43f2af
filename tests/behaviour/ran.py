"""Nodes that say that they ran, for tests that look at what runs again and what doesn't."""

import operator
from typing import Annotated, Any, TypedDict

from juncture import interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Ran(list[str]):
    """Which nodes were begun, in order."""

    def step(self, name: str) -> Any:
        """A node that writes its name."""

        def node(state):
            self.append(name)
            return {"log": [name]}

        return node

    def asks(self, name: str) -> Any:
        """A node that asks, and writes its name with the answer."""

        def node(state):
            self.append(name)
            return {"log": [(name, interrupt(f"{name}?"))]}

        return node

    def fails(self, name: str, times: int) -> Any:
        """A node that fails so many times, and then writes its name."""
        left = [times]

        def node(state):
            self.append(name)
            if left[0]:
                left[0] -= 1
                raise RuntimeError(f"{name} failed")
            return {"log": [name]}

        return node

    def since(self) -> list[str]:
        """What ran since this was last asked."""
        found = list(self)
        self.clear()
        return found


def asked(result: Any) -> list[Any]:
    """The values of the open questions of a result or a snapshot."""
    return [question.value for question in result.interrupts]


def ids(result: Any) -> dict[Any, str]:
    """The ids of open questions, by their value."""
    return {question.value: question.id for question in result.interrupts}


def named(config: Any) -> str:
    """The id of the checkpoint that a config names."""
    return config["configurable"]["checkpoint_id"]
