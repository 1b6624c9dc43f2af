"""Building a graph: nodes, edges, joins, conditional edges. Nothing is run here.

What can be known at once is checked at once (names, types of arguments); what needs the whole graph is checked by
`compile` (`validate`). A builder stays usable after `compile`; later changes don't reach compiled graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from juncture.channels.base import Channel, Reducer
from juncture.errors import GraphBuildError
from juncture.graph.check_findings import Report, read_silence
from juncture.graph.inject import name_of, return_hint
from juncture.graph.overall_state import strategies_by_key
from juncture.graph.policies import read_cache_policy, read_fallback, read_timeout
from juncture.graph.schema import Schema, read_schema, refuse_managed
from juncture.graph.specs import (
    BranchSpec,
    EmptyStream,
    Isolation,
    JoinSpec,
    NodeSpec,
    Options,
    Retry,
    Schedule,
    literals,
)
from juncture.observe.listeners import Event, Listener, OnListenerError
from juncture.types import (
    END,
    START,
    CachePolicy,
    ContextT,
    InputT,
    OutputT,
    StateT,
    Timeout,
    TimeoutPolicy,
)

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack

    from juncture.cache.base import Cache
    from juncture.graph.compiled import CompiledGraph
    from juncture.graph.pausing import Names
    from juncture.savers.base import Saver
    from juncture.store.base import Store


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph of nodes over one typed state, to be compiled.

    Args:
        state_schema: A TypedDict, dataclass, pydantic model, `msgspec.Struct`, or a bare (annotated) type. Without one
            the state is open: any key, kept by `key_strategies`, and `OverAllState` for nodes that ask for it.
        context_schema: The type of what a call gives as ``context=``.
        input_schema: What a call's input may hold; by default the state.
        output_schema: What a call returns; by default the state.
        key_strategies: Key -> reducer or channel. With a schema: for keys that it declares without a reducer.
        default_strategy: Of an open state: the strategy of every other key; by default the last value is kept.
        strict: False gives LangGraph 1.2.24's lenient behaviour: unknown keys and targets are ignored, two ways of
            routing at once are both followed, and so on.
        validate: Validate writes of a dataclass or TypedDict state, with pydantic. Models and structs always are.
        isolation: ``"copy"`` hands nodes copies of the state's containers; ``"shared"`` hands out the state itself.
        silence: Codes of findings that aren't to be reported of this graph (`check`).

    Raises:
        GraphBuildError: A schema can't be used.
    """

    @overload
    def __init__(
        self: StateGraph[dict[str, Any], None, dict[str, Any], dict[str, Any]],
        state_schema: None = None,
        context_schema: None = None,
        *,
        input_schema: None = None,
        output_schema: None = None,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: StateGraph[Any, Any, Any, Any],
        state_schema: Any = None,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
        **options: Unpack[Options],
    ) -> None: ...
    def __init__(
        self,
        state_schema: Any = None,
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
        key_strategies: Mapping[str, Reducer | Channel] | None = None,
        default_strategy: Reducer | Channel | None = None,
        strict: bool = True,
        validate: bool = False,
        isolation: Isolation = "copy",
        silence: Collection[str] = (),
    ) -> None:
        if isolation not in ("copy", "shared"):
            raise GraphBuildError(f'isolation is "copy" or "shared", got {isolation!r}')
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.input_schema = input_schema if input_schema is not None else state_schema
        self.output_schema = output_schema if output_schema is not None else state_schema
        self.strict = strict
        self.validate_writes = validate
        self.isolation: Isolation = isolation
        self.silence = read_silence(silence, "the graph")
        self.key_strategies = strategies_by_key(key_strategies)
        self.default_strategy = default_strategy
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[tuple[str, str]] = set()
        self.joins: list[JoinSpec] = []
        self.branches: dict[str, dict[str, BranchSpec]] = {}
        self.default_retry: Retry | None = None
        self.default_timeout: TimeoutPolicy | None = None
        self.default_fallback: Callable[..., Any] | None = None
        self.default_cache: CachePolicy | None = None
        self.schemas: dict[Any, Schema] = {}
        for role, schema in (
            ("state", state_schema),
            ("input", self.input_schema),
            ("output", self.output_schema),
        ):
            read = self.schema(schema)
            if role != "state" and schema is not state_schema:
                refuse_managed(read, role)

    def schema(self, tp: Any) -> Schema:
        """The schema read from a type, once for every graph; one that was read already is itself."""
        key = id(tp)
        if key not in self.schemas:
            self.schemas[key] = (
                tp
                if isinstance(tp, Schema)
                else read_schema(tp, validate=self.validate_writes, strict=self.strict)
            )
        return self.schemas[key]

    # ---- nodes

    def add_node(
        self,
        node: str | Any,
        action: Any = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: Retry | None = None,
        destinations: tuple[str, ...] | Mapping[str, str] | None = None,
        factory: Callable[[], Any] | None = None,
        inline: bool = False,
        isolation: Isolation | None = None,
        silence: Collection[str] = (),
        on_empty_stream: EmptyStream = "error",
        timeout: Timeout | None = None,
        error_handler: Callable[..., Any] | None = None,
        writes: Collection[str] | None = None,
        cache_policy: CachePolicy | None = None,
        interrupt_before: Callable[..., Any] | None = None,
        interrupt_after: Callable[..., Any] | None = None,
        interrupt_before_route: bool = False,
    ) -> Self:
        """Adds a node.

        Args:
            node: Its name; or the action, which is then named after itself.
            action: A function of the state (sync, async, generator, async generator), a callable object, a partial, a
                compiled graph, or a graph still to be compiled.
            defer: Hold it back until nothing else is due.
            metadata: Kept with the node, for drawings and traces.
            input_schema: What the node is handed; by default what its first parameter is annotated with, else the state.
            retry_policy: When a failed try is followed by another; the first policy that names the exception counts.
            destinations: Where its commands may lead, for checks and drawings.
            factory: Instead of an action: called once a run, and what it returns is the action.
            inline: In async runs, call this sync function on the event loop's thread instead of a worker.
            isolation: ``"shared"`` hands it the state itself, uncopied; by default as the graph says.
            silence: Codes of findings that aren't to be reported of it (`check`).
            on_empty_stream: What a stream means that it returns as a value and that gives no chunk: ``"error"``, or
                ``"skip"`` for no write.
            timeout: How long a try may take: a `TimeoutPolicy`, or seconds or a timedelta for its `run_timeout`. An async
                node is cancelled then, a sync one abandoned: the thread that it runs on can't be stopped.
            error_handler: Called in the same step once the node has failed for good, with the same input, and with what failed as
                ``error: NodeError``. What it returns is the result; the node's edges aren't followed, it leads on by a
                `Command`.
            writes: The keys that it writes, and no others: lets nodes that don't read them run ahead of it where the graph is
                compiled with ``schedule="dataflow"``. Writing another key is an error.
            cache_policy: That its results are kept in the graph's cache, and used again. Not for graphs, generators, and nodes
                with ``inline=True``.
            interrupt_before: Asked before it runs, with what it is handed: what this function returns is asked, and the run
                pauses; None or False for no pause. It may have ``runtime`` and ``config`` parameters, and be async.
            interrupt_after: Asked after it has run, with what it was handed and what it wrote, likewise. The pause comes
                after the step was committed.
            interrupt_before_route: A pause after it comes before its routers are asked: they are when the run goes on, about
                the state as it then is. Without `interrupt_after`, every run of it pauses there.

        Raises:
            GraphBuildError: The name is taken, reserved or malformed, there is no action, a code doesn't exist, or a time
                limit isn't greater than 0 or given to a node with ``inline=True``.
        """
        name = node if isinstance(node, str) else None
        if name is None:
            action = node
            name = getattr(node, "name", None) if _is_graph(node) else name_of(node)
        name = self._check_node(name, action, factory, isolation)
        if _is_graph(action):
            action = action.as_action()
        if on_empty_stream not in ("error", "skip"):
            raise GraphBuildError(f'on_empty_stream is "error" or "skip", got {on_empty_stream!r}', node=name)
        self.nodes[name] = NodeSpec(
            name,
            action,
            defer,
            dict(metadata or {}),
            input_schema,
            retry_policy,
            destinations,
            factory,
            inline,
            isolation,
            read_silence(silence, f"node {name!r}"),
            on_empty_stream,
            read_timeout(timeout, name, inline=inline),
            read_fallback(error_handler, name),
            self._read_writes(name, writes),
            read_cache_policy(cache_policy, name, inline=inline),
            interrupt_before,
            interrupt_after,
            interrupt_before_route,
        )
        return self

    def _read_writes(self, name: str, writes: Collection[str] | None) -> frozenset[str] | None:
        if writes is None:
            return None
        if isinstance(writes, str) or not all(isinstance(key, str) for key in writes):
            raise GraphBuildError(
                f"writes of node {name!r} is a list of state keys, got {writes!r}", node=name
            )
        return frozenset(writes)

    def _check_node(
        self, name: Any, action: Any, factory: Callable[[], Any] | None = None, isolation: str | None = None
    ) -> str:
        if (action is None) == (factory is None):
            raise GraphBuildError(
                f"node {name!r} needs an action or a factory, and not both: add_node({name!r}, function)",
                node=name,
            )
        if not isinstance(name, str) or not name:
            raise GraphBuildError(f"a node's name is a string that isn't empty, got {name!r} for {action!r}")
        self._check_name(name)
        if action is not None and not (callable(action) or _is_graph(action)):
            raise GraphBuildError(
                f"the action of node {name!r} is {action!r}, a {type(action).__name__}; it must be callable or a graph",
                node=name,
            )
        if factory is not None and not callable(factory):
            raise GraphBuildError(
                f"the factory of node {name!r} is a {type(factory).__name__}; it must be callable"
            )
        if isolation not in (None, "copy", "shared"):
            raise GraphBuildError(
                f'isolation of node {name!r} is "copy" or "shared", got {isolation!r}', node=name
            )
        return name

    def _check_name(self, name: str) -> None:
        if name in (START, END):
            raise GraphBuildError(f"node name {name!r} is reserved", node=name)
        for character in ("|", ":"):
            if character in name:
                raise GraphBuildError(
                    f"node name {name!r} contains {character!r}, which is a reserved character", node=name
                )
        if name in self.nodes:
            raise GraphBuildError(f"Node `{name}` already present. Names are unique in a graph", node=name)

    def set_node_defaults(
        self,
        *,
        retry_policy: Retry | None = None,
        timeout: Timeout | None = None,
        error_handler: Callable[..., Any] | None = None,
        cache_policy: CachePolicy | None = None,
    ) -> Self:
        """Sets what applies to nodes that say nothing of their own; None leaves an earlier default.

        It is applied by `compile`, also to nodes added before, and isn't inherited by nested graphs. A nested graph is a node
        as well, whose try is all that it does.

        Args:
            retry_policy: As in `add_node`, like all the others.
            timeout: Not for nodes with ``inline=True``, which block the event loop that would have to stop them.
            error_handler: Of every node that has none. Handlers themselves have the default policy and limit, and no handler
                and no cache.
            cache_policy: Only for nodes that can have one.

        Raises:
            GraphBuildError: The time limit isn't greater than 0, or the handler can't be called.
        """
        if retry_policy is not None:
            self.default_retry = retry_policy
        if timeout is not None:
            self.default_timeout = read_timeout(timeout, None)
        if error_handler is not None:
            self.default_fallback = read_fallback(error_handler, None)
        if cache_policy is not None:
            self.default_cache = read_cache_policy(cache_policy, None)
        return self

    def add_sequence(self, nodes: Sequence[Any | tuple[str, Any]]) -> Self:
        """Adds nodes and an edge from each to the next. The first and last are not connected to `START` or `END`.

        Args:
            nodes: Actions, or pairs of name and action.

        Raises:
            GraphBuildError: There is none, or a name occurs twice.
        """
        pairs: list[tuple[str, Any]] = []
        for item in nodes:
            if isinstance(item, tuple):
                pairs.append(cast("tuple[str, Any]", item))
            else:
                pairs.append((getattr(item, "name", "") if _is_graph(item) else name_of(item) or "", item))
        names = [name for name, _ in pairs]
        if not names:
            raise GraphBuildError("Sequence requires at least one node")
        if len(set(names)) != len(names):
            raise GraphBuildError(f"Node names must be unique in a sequence, got {names}")
        for name, action in pairs:
            self._check_node(name, action)  # all of them before the first is added
        for name, action in pairs:
            self.add_node(name, action)
        for first, second in pairwise(names):
            self.add_edge(first, second)
        return self

    # ---- edges

    def add_edge(
        self, start_key: str | Sequence[str], end_key: str, *, join: Literal["all", "arrived"] = "all"
    ) -> Self:
        """Adds an edge, or a join of several nodes into one.

        Args:
            start_key: A node's name or `START`: whenever it ran, `end_key` runs in the next step. Or several nodes:
                `end_key` runs once all of them have run since it last did.
            end_key: A node's name or `END`.
            join: ``"arrived"``: if the run would otherwise end, the join fires with those that came.

        Raises:
            GraphBuildError: `END` as a start, `START` as an end, or a join of nodes that don't exist yet.
        """
        if join not in ("all", "arrived"):
            raise GraphBuildError(f'join is "all" or "arrived", got {join!r}')
        if not isinstance(end_key, str):
            raise GraphBuildError(f"an edge ends at a node's name or END, got {end_key!r}")
        if end_key == START:
            raise GraphBuildError("START cannot be an end node")
        if not isinstance(start_key, Iterable):
            raise GraphBuildError(
                f"an edge starts at a node's name, START, or a list of names, got {start_key!r}"
            )
        if isinstance(start_key, str):
            if start_key == END:
                raise GraphBuildError("END cannot be a start node")
            self.edges.add((start_key, end_key))
            return self
        sources = self._join_sources(list(start_key), end_key)
        if any(
            (spec.sources, spec.target) == (sources, end_key) and spec.policy != join for spec in self.joins
        ):
            raise GraphBuildError(
                f"the join of {', '.join(sources)} into {end_key!r} exists with another policy; keep one",
                node=end_key,
            )
        self.joins.append(JoinSpec(sources, end_key, join))
        return self

    def _join_sources(self, given: Collection[str], end_key: str) -> tuple[str, ...]:
        if not given:
            raise GraphBuildError(f"the join into {end_key!r} has no sources; name at least one node")
        if END in given:
            raise GraphBuildError("END cannot be a start node")
        if START in given:
            raise GraphBuildError(
                "START can't be part of a join: it runs once, before everything. Use add_edge(START, …)"
            )
        for name in (*given, end_key):
            if name not in self.nodes and name != END:
                raise GraphBuildError(f"Need to add_node `{name}` first", node=name)
        return tuple(sorted(set(given)))

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[..., Any],
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
        *,
        name: str | None = None,
        default: str | None = None,
    ) -> Self:
        """Adds a conditional edge: after `source`, `path` is asked where to go.

        Args:
            source: A node's name or `START`.
            path: A function of the state, sync or async, that sees the writes of `source`. It returns a node's name,
                `END`, a `Send`, a `Command`, or several of them; an empty list goes nowhere.
            path_map: What `path` may return -> node; or the names of the nodes. Without it, the return annotation
                ``Literal[...]`` serves; else any node may be named.
            name: By default the function's own; unique for a source.
            default: Where an empty result goes.

        Raises:
            GraphBuildError: The source has a branch of that name, or `path` or `path_map` can't be used.
        """
        if source == END:
            raise GraphBuildError("END cannot be a start node")
        if not callable(path):
            raise GraphBuildError(
                f"the router of node {source!r} is a {type(path).__name__}; it must be callable"
            )
        name = name or (name_of(path) or "condition").replace("<lambda>", "condition")
        if name in self.branches.get(source, ()):
            raise GraphBuildError(
                f"Branch with name `{name}` already exists for node `{source}`. Give another one a name: name=…",
                node=source,
            )
        if path_map is not None and not path_map:
            raise GraphBuildError(f"the path_map of branch {name!r} at node {source!r} is empty", node=source)
        if isinstance(path_map, str):
            raise GraphBuildError(
                f"the path_map of branch {name!r} is the string {path_map!r}; give a list of names"
            )
        targets: dict[Hashable, str] | None
        if path_map is None:
            targets = {value: value for value in literals(return_hint(path))} or None
        elif isinstance(path_map, Mapping):
            targets = dict(path_map)
        else:
            targets = {value: value for value in path_map}
        self.branches.setdefault(source, {})[name] = BranchSpec(name, path, targets, default)
        return self

    def set_entry_point(self, key: str) -> Self:
        """Adds an edge from `START`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., Any], path_map: Mapping[Hashable, str] | Sequence[str] | None = None
    ) -> Self:
        """Adds a conditional edge from `START`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """Adds an edge to `END`."""
        return self.add_edge(key, END)

    def as_action(self) -> Any:
        """What stands for it where it is a node of another graph: itself."""
        return self

    # ---- check and compile

    def check(self) -> Report:
        """What is wrong with the graph, or may be, without running anything: see `docs/reference/checks.md`.

        Nothing is raised: what `compile` would refuse is reported as well.
        """
        from juncture.graph.check import check_builder

        return check_builder(self)

    def compile(
        self,
        checkpointer: Saver | str | bool | None = None,
        *,
        interrupt_before: Names | None = None,
        interrupt_after: Names | None = None,
        interrupt_before_route: Names | None = None,
        debug: bool = False,
        name: str | None = None,
        durability: Literal["sync", "async", "exit"] = "sync",
        cache: Cache | str | None = None,
        listeners: Sequence[Listener | Callable[[Event], Any]] = (),
        on_listener_error: OnListenerError = "warn",
        schedule: Schedule = "superstep",
        store: Store | str | None = None,
        on_finish: Literal["keep", "archive", "delete"] = "keep",
    ) -> CompiledGraph[StateT, ContextT, InputT, OutputT]:
        """The graph, checked and ready to run.

        Args:
            checkpointer: A saver, or the URL of one (``"memory:"``, ``"sqlite:runs.db"``, ``"postgresql://…"``, ``"redis://…"``,
                ``"file:folder"``). None: nothing is kept, or, as a nested graph, what the enclosing graph uses. False: nothing is
                kept, whatever the enclosing graph does. True, for a nested graph: what None means, and each time that its
                node runs on a thread, it goes on from the state it ended with the time before.
            interrupt_before: Nodes to pause before; ``"*"`` for all; or a function of the state that says whether to pause,
                sync or async.
            interrupt_after: Likewise after; the function sees the state with what the step wrote.
            interrupt_before_route: Likewise after nodes and before their routers are asked, which they are when the run goes
                on, about the state as it then is: people may have edited it.
            debug: Compare what nodes were handed with what is left of it, and raise `StateMutationError` where an object
                was changed in place.
            name: The graph's name, and its node's when it is added to another.
            durability: When steps are durable, unless a call says otherwise; see `RunOptions`.
            cache: Where results of nodes with a `CachePolicy` are kept: a cache, or the URL of one (``"memory:"``,
                ``"sqlite:results.db"``, ``"redis://…"``). None, as a nested graph: the enclosing graph's.
            listeners: Objects of subclasses of `Listener`, or functions of an `Event`: told what happens in every run. As a
                nested graph, its runs are told to the listeners of the graph around it.
            schedule: ``"superstep"``: a step begins when the one before has ended. ``"dataflow"``: a node whose input can't change
                any more runs ahead, if it says what it reads (a schema of its own) and writes (``writes=``); the state after
                every step is the same. See `check` for what waits, and why.
            on_listener_error: What a listener's exception means: ``"warn"`` in the log, ``"ignore"``, or ``"raise"``, which
                ends the run.
            store: Long-term memory for its nodes: a store, or the URL of one (`open_store`), which is closed with the graph.
                None: none, or, as a nested graph, that of the graph around it.
            on_finish: What becomes of a thread when a run of it is done, unless a call says otherwise; see `RunOptions`.

        Warns:
            GraphCheckWarning: It can be run, and has a fault that is certain; see `check`. Not with ``strict=False``.

        Raises:
            GraphBuildError: The graph can't be right; the message says where and what to do.
        """
        from juncture.graph.compiled import CompiledGraph

        return CompiledGraph(
            self,
            checkpointer,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            interrupt_before_route=interrupt_before_route,
            debug=debug,
            name=name,
            durability=durability,
            cache=cache,
            listeners=listeners,
            on_listener_error=on_listener_error,
            schedule=schedule,
            store=store,
            on_finish=on_finish,
        )


def _is_graph(action: Any) -> bool:
    from juncture.graph.compiled import CompiledGraph

    return isinstance(action, (CompiledGraph, StateGraph))
