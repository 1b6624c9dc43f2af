"""The meaning of a description: supersteps, written as plainly as possible. The oracle; it uses no engine.

A step runs every due node (by name), then every packet (in the order sent), all on the state before the step;
their writes merge in that order; then edges, routers and joins say what is due next. Deferred nodes wait until
nothing else is due. A failure leaves the state as it was. Lenient is what LangGraph does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from tests.properties.graphs import (
    END,
    REDUCERS,
    START,
    Boom,
    Graph,
    Join,
    Marker,
    Packet,
    act,
    choose,
    digest,
)

Writes = list[tuple[str, Any]]
Ended = tuple[str, Writes, list[Any]]  # a task's node, its writes, and where it leads


class Fault(NamedTuple):
    """An error that ends a run (``boom``, ``update``, ``routing``, ``stuck``, ``limit``), and its place."""

    kind: str
    node: str | None
    step: int
    path: tuple[str, ...]


class Failed(Exception):
    """Ends a run. One of the faults in `args` is raised: which, depends on what ran before the first failure."""


class Up(Exception):
    """A command to the graph around this one: writes and targets."""


class Unclear(Exception):
    """The run is too long, or what it leaves depends on which task ends first."""


@dataclass
class Run:
    """One run of one graph, and all that can be seen of it."""

    graph: Graph
    strict: bool = True
    limit: int = 25
    path: tuple[str, ...] = ()
    budget: list[None] = field(default_factory=lambda: [None] * 60)  # tasks
    values: dict[str, Any] = field(default_factory=dict)  # what is committed
    stream: list[dict[str, Any]] = field(default_factory=list)  # what the mode ``values`` shows
    steps: list[list[tuple[str, Writes]]] = field(default_factory=list)  # what was committed, in plan order
    ran: list[list[tuple[tuple[str, ...], str, int]]] = field(default_factory=list)  # what began in each step
    due: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)  # deferred nodes that were triggered
    sends: list[Packet] = field(default_factory=list)

    def go(self, given: Mapping[str, Any]) -> None:
        """Runs to the end. If it raises Failed or Up, `values` are those before the step that did."""
        zeros = {"add": [], "cat": [], "sum": 0, "merge": {}} | ({} if self.strict else {"max": 0, "mix": 0})
        self.values = {key: zeros[kind] for key, kind in self.graph.keys.items() if kind in zeros}
        self.joins: list[tuple[Join, set[str]]] = [(join, set()) for join in self.graph.joins]
        self.commit([self.checked(START, list(given.items()), ())])
        while (tasks := self.plan()) or not self.strict:
            if len(self.ran) >= self.limit:
                self.fail("limit")
            if not tasks:
                return
            self.ran.append([])
            self.commit(self.execute(tasks))
        if any(seen for _, seen in self.joins):
            self.fail("stuck")

    def plan(self) -> list[tuple[str, Mapping[str, Any]]]:
        self.fire(lambda join, seen: seen == set(join.sources) and not self.graph.node(join.target).defer)
        if not self.due and not self.sends:
            self.due, self.waiting = self.waiting, set()
            self.fire(lambda join, seen: seen == set(join.sources))
        if not self.due and not self.sends:
            self.fire(lambda join, seen: join.policy == "arrived")
        edges = [(name, self.values) for name in sorted(self.due)]
        packets = [(send.node, send.arg) for send in self.sends]
        self.due, self.sends = set(), []
        return edges + packets

    def fire(self, ready: Callable[[Join, set[str]], bool]) -> None:
        for join, seen in self.joins:
            if seen and ready(join, seen):
                self.due.add(join.target)
                seen.clear()

    def execute(self, tasks: list[tuple[str, Mapping[str, Any]]]) -> list[Ended]:
        ended, faults, ups = [], [], []
        for name, view in tasks:
            try:
                ended.append(self.checked(name, *self.perform(name, view)))
            except Failed as failed:
                faults += failed.args
            except Up as up:
                ups.append(up)
        if len(ups) > 1 or (ups and faults):
            raise Unclear
        if faults or ups:
            raise Failed(*faults) if faults else ups[0]
        return ended

    def perform(self, name: str, view: Mapping[str, Any]) -> tuple[Writes, tuple[Any, ...]]:
        node = self.graph.node(name)
        if not self.budget:
            raise Unclear
        self.budget.pop()
        if node.inner:
            child = Run(node.inner, self.strict, self.limit, (*self.path, name), self.budget)
            return self.nested(child, view)
        self.ran[-1].append((self.path, name, digest(view)))
        try:
            done = act(node, self.graph.keys, view)
        except Boom:
            self.fail("boom", name)
        if node.form == "parent":
            raise Up(done.writes, done.goto)
        if node.form == "wrong":
            self.fail("update", name)
        return done.writes, done.goto

    def nested(self, child: "Run", view: Mapping[str, Any]) -> tuple[Writes, tuple[Any, ...]]:
        up = None
        try:
            child.go({key: value for key, value in view.items() if key in child.graph.keys})
        except Up as command:
            up = command
        finally:
            self.ran[-1] += [ran for step in child.ran for ran in step]
        update, goto = up.args if up else ([], ())
        if not self.strict:
            return (update if up else list(child.values.items())), goto
        written = [write for step in child.steps for _, writes in step for write in writes]
        same = {key for key, kind in child.graph.keys.items() if self.graph.keys.get(key) == kind != "last"}
        final = {key: child.values.get(key, Marker("remove")) for key, _ in written if key not in same}
        return [*(write for write in written if write[0] in same), *final.items(), *update], goto

    def checked(self, name: str, writes: Writes, goto: tuple[Any, ...]) -> Ended:
        """What a task ended with: writes of known keys, and all the known targets that it leads to."""
        known = [write for write in writes if write[0] in self.graph.keys]
        if self.strict and known != writes:
            self.fail("update", name)
        if self.strict and goto and name in self.graph.sources() and not self.graph.node(name).inner:
            self.fail("routing", name)
        targets = [*goto, *(target for source, target in self.graph.edges if source == name)]
        for router in self.graph.routers:
            if router.source == name:
                targets += choose(router, self.merged([(name, known, [])]))
        there = [t for t in targets if t == END or self.graph.node(t.node if isinstance(t, Packet) else t)]
        if self.strict and there != targets:
            self.fail("routing", name)
        return name, known, there

    def commit(self, ended: list[Ended]) -> None:
        self.values = self.merged(ended)
        if self.ran:
            self.steps.append([(name, writes) for name, writes, _ in ended])
        if self.strict or any(writes for _, writes, _ in ended):
            self.stream.append(self.values)
        for name, _, targets in ended:
            for join, seen in self.joins:
                seen.update({name} & set(join.sources))
            self.sends += [target for target in targets if isinstance(target, Packet)]
            for target in {t for t in targets if isinstance(t, str) and t != END}:
                (self.waiting if self.graph.node(target).defer else self.due).add(target)

    def merged(self, ended: list[Ended]) -> dict[str, Any]:
        """The committed values with the writes of `ended`, in that order."""
        values = dict(self.values)
        writes = [write for _, some, _ in ended for write in some]
        for key in dict.fromkeys(key for key, _ in writes):
            mine = [value for k, value in writes if k == key]
            reducer = REDUCERS.get(self.graph.keys[key])
            marks = {value.how for value in mine if isinstance(value, Marker)}
            overwrites = [value for value in mine if isinstance(value, Marker) and value.how == "overwrite"]
            if len(mine if reducer is None else overwrites) > 1 or (reducer and len(marks) > 1):
                self.fail("update", ended[0][0] if len(ended) == 1 else None)
            for value in mine if self.strict or not overwrites else overwrites:
                if isinstance(value, Marker) and value.how == "remove":
                    values.pop(key, None)
                elif isinstance(value, Marker):
                    values[key] = value.value
                else:
                    values[key] = reducer(values[key], value) if reducer and key in values else value
        return values

    def fail(self, kind: str, node: str | None = None) -> NoReturn:
        raise Failed(Fault(kind, node, len(self.ran), self.path))
