"""From a builder to the tables that the engine runs: everything that can be decided before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from juncture.channels import LastValue, channel_for, is_pure
from juncture.channels.base import Channel
from juncture.channels.reduced import BinaryOperatorAggregate
from juncture.engine.fallbacks import FALLBACK
from juncture.engine.tables import (
    ASYNC,
    CHANNEL,
    ENTRY,
    EVERY_KEY,
    FACTORY,
    GRAPH,
    LAST,
    REDUCE,
    SYNC,
    Join,
    Key,
    Node,
    Project,
    Router,
    Tables,
)
from juncture.engine.values import ATOMS, CONTAINERS, copied, copied_dict, copied_value, copied_values
from juncture.errors import GraphBuildError, InvalidUpdateError, note
from juncture.graph.inject import injected, kind_of
from juncture.graph.overall_state import OverAllState, Rules, StateView
from juncture.graph.pausing import Wanted, add_hooks, pauses_of, predicate_node
from juncture.graph.policies import cache_rule
from juncture.graph.schema import (
    Field,
    Schema,
    asks_for_overall_state,
    schema_from_callable,
    schema_of_object,
    union_of_keys,
)
from juncture.graph.specs import command_targets
from juncture.types import END, MISSING, START, RetryPolicy

if TYPE_CHECKING:
    from juncture.graph.builder import StateGraph
    from juncture.graph.specs import NodeSpec


def assemble(
    graph: StateGraph[Any, Any, Any, Any],
    name: str,
    *,
    checkpointer: Any,
    pauses: Wanted,
    debug: bool,
    dataflow: bool,
) -> Tables:
    """The tables of a graph that `validate` found right.

    Raises:
        GraphBuildError: A schema, reducer or function can't be used.
    """
    return _Assembly(graph, name).tables(
        checkpointer=checkpointer,
        pauses=pauses,
        debug=debug,
        dataflow=dataflow,
    )


def asker(graph: StateGraph[Any, Any, Any, Any], name: str) -> Callable[[Callable[..., Any], str], Node]:
    """What makes a node of a predicate on the state of a graph that was assembled."""
    return lambda function, option: _Assembly(graph, name).predicate(function, option)


class _Assembly:
    """The work of one `assemble`."""

    def __init__(self, graph: StateGraph[Any, Any, Any, Any], name: str) -> None:
        self.graph = graph
        self.name = name
        self.state = graph.schema(graph.state_schema)
        self.inputs: dict[str, Schema] = {spec.name: self._input_of(spec) for spec in graph.nodes.values()}
        named = [("state", self.state)]
        named += [("input", graph.schema(graph.input_schema)), ("output", graph.schema(graph.output_schema))]
        named += [(f"node {node!r}", schema) for node, schema in self.inputs.items()]
        self.fields = union_of_keys(named, strict=graph.strict)
        self.schemas = list({id(schema): schema for _, schema in named}.values())
        self.keys = self._keys()
        self.open = self.state.kind == "open"
        self.open_key = self._open_key()
        self.rules = Rules.of(self.keys, self.open_key)
        self.root = self.state.kind == "root"
        self.edges: dict[str, list[str]] = {}
        for start, end in graph.edges:
            self.edges.setdefault(start, []).append(end)
        self.joins: dict[str, tuple[Join, ...]] = {}
        self.joined: set[str] = set()

    # ---- keys

    def _input_of(self, spec: NodeSpec) -> Schema:
        """The schema whose keys a node is handed, as an object of its type or as an `OverAllState`."""
        tp = spec.input_schema
        if tp is None and spec.action is not None and callable(spec.action):
            tp = schema_from_callable(spec.action)
        return self.graph.schema(tp) if tp is not None and tp is not OverAllState else self.state

    def _shows_view(self, function: Any, owner: str, schema: Schema, asked: bool = False) -> bool:
        """Whether a function is handed an `OverAllState`."""
        try:
            if not asked and not (callable(function) and asks_for_overall_state(function)):
                return False
        except GraphBuildError as error:
            note(error, f"juncture: {owner}")
            raise
        if schema.kind == "root":
            raise GraphBuildError(
                f"{owner} asks for an OverAllState, but the state is a single value without keys. Annotate its parameter "
                "with the type of that value"
            )
        return True

    def _keys(self) -> dict[str, Key]:
        keys: dict[str, Key] = {}
        for name, field in self.fields.items():
            if field.managed is None:
                keys[name] = self._key(name, self._channel_of(field))
                keys[name].required = self._required(name)
        for name, strategy in self.graph.key_strategies.items():
            if name not in keys:
                if self.state.kind != "open":
                    raise GraphBuildError(
                        f"key_strategies names {name!r}, which the state schema doesn't have", key=name
                    )
                keys[name] = self._key(name, self._strategy(name, strategy))
        return keys

    def _initial(self) -> Callable[[], dict[str, Any]]:
        """What makes the first values: a default of the schema that a reducer starts from, or a channel's zero."""
        factories: dict[str, Callable[[], Any]] = {}
        values: dict[str, Any] = {}
        for name, key in self.keys.items():
            field = self.fields.get(name)
            if self.graph.strict and key.merge == REDUCE and field is not None:
                if field.default_factory is not MISSING:
                    factories[name] = field.default_factory
                    continue
                if field.default is not MISSING:
                    values[name] = field.default
                    continue
            if (zero := key.channel.initial()) is not MISSING:
                values[name] = zero
        if not factories:
            return lambda: copied_dict(values)
        return lambda: copied_dict(values) | {name: make() for name, make in factories.items()}

    def _required(self, name: str) -> bool:
        """Whether the state's schema, if it validates, demands the key."""
        return name in self.state.required and self.state.validator(name) is not None

    def _strategy(self, name: str, strategy: Any, typ: Any = Any) -> Channel:
        try:
            return channel_for(strategy, typ, lenient=not self.graph.strict)
        except GraphBuildError as error:
            error.key = name
            error.add_note(f"juncture: in key_strategies, for key {name!r}")
            raise

    def _channel_of(self, field: Field) -> Channel:
        strategy = self.graph.key_strategies.get(field.name)
        if strategy is None:
            return field.channel
        if type(field.channel) is not LastValue:
            raise GraphBuildError(
                f"key {field.name!r} has a reducer in its schema and another in key_strategies; keep one",
                key=field.name,
            )
        return self._strategy(field.name, strategy, field.base)

    def _key(self, name: str, channel: Channel) -> Key:
        if type(channel) is LastValue:
            return Key(name, LAST, channel, validate=self._validator(name))
        if isinstance(channel, BinaryOperatorAggregate):
            reducer = channel.operator
            return Key(
                name,
                REDUCE,
                channel,
                reducer,
                is_pure(reducer),
                identify=getattr(reducer, "identify", None),
                validate_merged=self._merged_validator(name, reducer),
            )
        return Key(name, CHANNEL, channel, None, pure=False)

    def _validator(self, name: str) -> Callable[[Any], Any] | None:
        for schema in self.schemas:
            if name in schema.fields and (validate := schema.validator(name)) is not None:
                return validate
        return None

    def _merged_validator(self, name: str, reducer: Any) -> Callable[[Any, Any, Any], Any] | None:
        validate = self._validator(name)
        if validate is None:
            return None

        def merged(old: Any, writes: Any, new: Any) -> Any:
            return validate(new)

        return merged

    def _open_key(self) -> Callable[[str], Key] | None:
        strategy = self.graph.default_strategy
        if not self.open:
            if strategy is not None:
                raise GraphBuildError(
                    "default_strategy is for keys that no schema names, and this graph has a schema. Name the keys in "
                    "key_strategies, or annotate them"
                )
            return None
        channel = LastValue(Any) if strategy is None else channel_for(strategy, lenient=not self.graph.strict)
        if type(channel) is LastValue:
            last = Key("", LAST, channel)
            return lambda name: last
        if not isinstance(channel, BinaryOperatorAggregate):
            raise GraphBuildError(
                f"default_strategy is a {type(channel).__name__}, which needs to know its keys; name them in key_strategies. "
                "A default is a reducer: any function of (old, new)"
            )
        return lambda name: self._key(name, channel)

    # ---- projections

    def _project(self, schema: Schema, *, shared: bool, view: bool) -> Project:
        """What makes an input of this schema from the committed values: an object of its type, or a view."""
        if view:
            return self._view(self._pick(schema, shared=True), shared=shared)
        build = schema.build
        pick = self._pick(schema, shared=shared)
        if schema.kind in ("open", "typed_dict"):
            return pick
        return lambda values, flat=None: build(pick(values, flat))

    def _pick(self, schema: Schema, *, shared: bool) -> Project:
        names = tuple(schema.fields)
        # What there is beyond the fields of an open state, nobody knows.
        everything = schema.kind == "open" or not (self.open or set(self.fields) - set(names))
        if shared:
            if everything:
                return lambda values, _=None: values.copy()
            return lambda values, _=None: {name: values[name] for name in names if name in values}
        return copied_values if everything else _some(names)

    def _view(self, pick: Project, *, shared: bool) -> Project:
        rules = self.rules
        return lambda values, _=None: StateView(pick(values), rules, shared=shared)

    def _sent(self, owner: str, *, shared: bool, view: bool) -> Callable[[Any], Any]:
        """What makes an input of what was sent."""
        if not view:
            return (lambda value: value) if shared else copied
        viewed = self._view(lambda values, _=None: dict(values), shared=shared)

        def project(sent: Any) -> Any:
            if isinstance(sent, Mapping):
                return viewed(cast("dict[str, Any]", sent))
            raise InvalidUpdateError(
                f"{owner} asks for an OverAllState and was sent a {type(sent).__name__}. Send it a dict of keys, or annotate its "
                "parameter with what it is sent"
            )

        return project

    # ---- nodes

    def _retry(self, policy: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...]:
        policy = policy if policy is not None else self.graph.default_retry
        if policy is None:
            return ()
        return (policy,) if isinstance(policy, RetryPolicy) else tuple(policy)

    def _node(self, spec: NodeSpec) -> Node:
        from juncture.graph.compiled import CompiledGraph

        action: Any = spec.action
        if action is not None and not isinstance(action, CompiledGraph) and hasattr(action, "add_node"):
            action = action.compile(name=spec.name)
        if isinstance(action, CompiledGraph):
            return self._graph_node(spec, action)
        schema = self.inputs[spec.name]
        shared = (spec.isolation or self.graph.isolation) == "shared"
        owner = f"node {spec.name!r}"
        view = self._shows_view(action, owner, schema, asked=spec.input_schema is OverAllState)
        kind = FACTORY if spec.factory is not None else kind_of(action)
        cache = spec.cache_policy
        if cache is None and kind in (SYNC, ASYNC) and not spec.inline and not spec.name.startswith(FALLBACK):
            cache = self.graph.default_cache
        node = Node(
            name=spec.name,
            kind=kind,
            call=action,
            project=self._project(schema, shared=shared, view=view),
            project_send=self._sent(owner, shared=shared, view=view),
            inject=injected(action, owner, handles=spec.name.startswith(FALLBACK))
            if action is not None
            else {},
            managed={n: f.managed for n, f in schema.fields.items() if f.managed is not None},
            updates_of=self._updates_of(schema),
            snapshot=self._snapshot(schema, view=view),
            factory=spec.factory,
            defer=spec.defer,
            inline=spec.inline,
            skips_empty=spec.on_empty_stream == "skip",
            reads=self._reads(schema),
            writes=self._writes(spec),
            shared=shared,
            retry=self._retry(spec.retry_policy),
            cache=cache_rule(cache, [self.name, spec.name], kind, action),
            timeout=spec.timeout or (None if spec.inline else self.graph.default_timeout),
            root_value=self.root,
        )
        if spec.factory is not None:
            node.prepare = lambda made: self._prepared(spec, node, made)
        return node

    def _handled(self, spec: NodeSpec, node: Node) -> Node:
        """The node with its error handler, which is handed what it was."""
        action = spec.error_handler or self.graph.default_fallback
        if action is not None:
            own = replace(
                spec,
                name=FALLBACK + spec.name,
                action=action,
                factory=None,
                retry_policy=None,
                timeout=None,
                cache_policy=None,
                defer=False,
            )
            self.inputs[own.name] = self.inputs[spec.name]
            node.fallback = self._node(own)
            node.fallback.straight = True
        return node

    def _prepared(self, spec: NodeSpec, node: Node, made: Any) -> Node:
        """The node of what a factory made, with the edges of the node that the factory stands for."""
        if not callable(made) and not hasattr(made, "tables") and not hasattr(made, "add_node"):
            raise GraphBuildError(
                f"the factory of node {node.name!r} made {made!r}, a {type(made).__name__}; it must make an action: a "
                "function, a callable object or a graph",
                node=node.name,
            )
        new = self._node(replace(spec, action=made, factory=None))
        new.fallback = node.fallback
        new.successors, new.joins, new.routers = node.successors, node.joins, node.routers
        new.routes, new.straight, new.leads = node.routes, node.straight, node.leads
        new.ask_before, new.ask_after, new.route_later = node.ask_before, node.ask_after, node.route_later
        return new

    @staticmethod
    def _snapshot(schema: Schema, *, view: bool) -> Callable[[Any, Mapping[str, Any]], Any] | None:
        if view:
            return lambda handed, committed: handed.remembered(committed)
        return None if schema.kind in ("open", "typed_dict", "root") else schema.snapshot

    def _updates_of(self, schema: Schema) -> Callable[[Any, Any], Mapping[str, Any] | None]:
        """Reads a returned object: one of the graph's types, or of any class with annotated fields."""
        objects = [s for s in (schema, *self.schemas) if s.kind not in ("open", "typed_dict", "root")]
        others: dict[type, Schema | None] = {}

        def updates_of(result: Any, before: Any) -> Mapping[str, Any] | None:
            for candidate in objects:
                update = candidate.updates_of(result, before if candidate is schema else None)
                if update is not None:
                    return update
            kind = type(result)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
            if kind in ATOMS or kind in CONTAINERS or isinstance(result, Mapping):
                return None
            if kind not in others:
                others[kind] = schema_of_object(result)
            other = others[kind]
            return other.updates_of(result) if other is not None else None

        return updates_of

    def _graph_node(self, spec: NodeSpec, action: Any) -> Node:
        """A nested graph: which keys it is given, and which of its writes come back (`engine.nested`)."""
        if action.checkpointer is not None:
            raise GraphBuildError(
                f"node {spec.name!r} is a graph compiled with a saver of its own, which a nested graph doesn't use: it is kept "
                "with the graph around it. Compile it without a checkpointer, or with checkpointer=False to keep nothing",
                node=spec.name,
            )
        cache_rule(spec.cache_policy, [self.name, spec.name], GRAPH, action)
        child: Tables = action.tables
        offered = self._in_common(child.input_keys)
        back = self._in_common(child.output_keys)
        shared = frozenset(
            name
            for name, theirs in child.keys.items()
            if theirs.merge == REDUCE
            and (back is None or name in back)
            and (mine := self.keys.get(name)) is not None
            and mine.merge == REDUCE
            and mine.reducer == theirs.reducer
        )
        return Node(
            name=spec.name,
            kind=GRAPH,
            call=None,
            project=copied_values if offered is None else _some(sorted(offered)),
            project_send=copied,
            graph=child,
            shared_keys=shared,
            returned_keys=EVERY_KEY if back is None else back - shared,
            reads=offered,
            writes=self._writes(spec),
            defer=spec.defer,
            retry=self._retry(spec.retry_policy),
            timeout=spec.timeout or self.graph.default_timeout,
            root_value=self.root,
        )

    def _in_common(self, theirs: frozenset[str] | None) -> frozenset[str] | None:
        """The keys that this graph and a nested one both have; None for all, where both states are open."""
        if theirs is None:
            return None if self.open else frozenset(self.keys)
        return theirs if self.open else theirs & self.keys.keys()

    def _router(self, source: str, branch: Any) -> Router:
        owner = f"the router {branch.name!r} of node {source!r}"
        schema = self.inputs.get(source, self.state)
        own = schema_from_callable(branch.path)
        view = self._shows_view(branch.path, owner, self.state)
        if view:
            schema = self.state
        elif own is not None:
            schema = self.graph.schema(own)
            unknown = set(schema.fields) - set(self.fields)
            if unknown and self.graph.strict:
                raise GraphBuildError(
                    f"{owner} reads {sorted(unknown)}, which the state doesn't have",
                    node=source,
                )
        return Router(
            name=branch.name,
            call=branch.path,
            kind=kind_of(branch.path),
            project=self._project(schema, shared=False, view=view),
            inject=injected(branch.path, owner),
            managed={n: f.managed for n, f in schema.fields.items() if f.managed is not None},
            targets=branch.targets,
            default=branch.default,
            reads=self._reads(schema),
        )

    def _reads(self, schema: Schema) -> frozenset[str] | None:
        """The keys that are handed out with a schema; None where that may be any."""
        return None if schema.kind in ("open", "root") else self._keys_of(schema)

    def _writes(self, spec: NodeSpec) -> frozenset[str] | None:
        for key in sorted(spec.writes or ()):
            if key not in self.keys and not self.open:
                raise GraphBuildError(
                    f"writes of node {spec.name!r} names {key!r}, which the state doesn't have. It has: "
                    f"{', '.join(sorted(self.keys))}",
                    node=spec.name,
                    key=key,
                )
        return spec.writes

    def _leads(self, node: Node) -> frozenset[str] | None:
        """The nodes that a node may lead to; None where that may be any."""
        found = {*node.successors, *(join.target for join in node.joins)}
        for router in node.routers:
            if router.targets is None:
                return None
            found.update(name for name in router.targets.values() if name != END)
            found.update(() if router.default in (None, END) else (router.default,))
        spec = self.graph.nodes.get(node.name)
        if not node.routes and spec is not None:
            declared = (*(spec.destinations or ()), *command_targets(spec.action))
            if not declared:
                return None  # a command may lead anywhere
            found.update(name for name in declared if name != END)
        return frozenset(found)

    def predicate(self, function: Callable[..., Any], option: str) -> Node:
        """The node that asks a function of the state whether to pause."""
        from juncture.graph.specs import BranchSpec

        return predicate_node(self._router(START, BranchSpec(option, function, None)), option)

    # ---- the whole

    def tables(
        self,
        *,
        checkpointer: Any,
        pauses: Wanted,
        debug: bool,
        dataflow: bool,
    ) -> Tables:
        graph = self.graph
        nodes = {name: self._handled(spec, self._node(spec)) for name, spec in sorted(graph.nodes.items())}
        for name, spec in graph.nodes.items():
            add_hooks(nodes[name], spec)
        entry = Node(START, ENTRY, None, copied_values, copied, root_value=self.root)
        joins = self._joins()
        deferred = frozenset(node.name for node in nodes.values() if node.defer)
        for node in (entry, *nodes.values()):
            self._connect(node, deferred)
        output = graph.schema(graph.output_schema)
        given = graph.schema(graph.input_schema)
        check = self.state.check_model if self.state.has_model_check else None
        slow = any(key.validate is not None or key.identify is not None for key in self.keys.values())
        return Tables(
            name=self.name,
            nodes=nodes,
            entry=entry,
            keys=self.keys,
            open_key=self.open_key,
            input_keys=self._keys_of(given),
            output_keys=self._keys_of(output),
            takes=given.only_key,
            gives=output.only_key,
            joins=joins,
            initial=self._initial(),
            strict=graph.strict,
            deferred=deferred,
            quick_keys=frozenset() if slow or self.root else self.keys.keys(),
            pauses=pauses_of(pauses, self.predicate, hooks=any(map(_says_where, graph.nodes.values()))),
            volatile=tuple(key for key in self.keys.values() if key.channel.volatile),
            untracked=frozenset(n for n, key in self.keys.items() if not key.channel.tracked),
            finishing=tuple(k for k in self.keys.values() if type(k.channel).finish is not Channel.finish),
            check_model=check,
            persist=checkpointer is not False,
            remembers=checkpointer is True,
            recalls=any(node.graph is not None and node.graph.remembers for node in nodes.values()),
            exposed=any(map(_is_exposed, nodes.values())),
            message_keys=frozenset(n for n, key in self.keys.items() if key.identify is not None),
            debug=debug,
            dataflow=dataflow and graph.strict,
            declares=any(node.writes is not None for node in nodes.values()),
        )

    def _keys_of(self, schema: Schema) -> frozenset[str] | None:
        return (
            None if schema.kind == "open" else frozenset(name for name in schema.fields if name in self.keys)
        )

    def _joins(self) -> dict[str, Join]:
        """The joins by id, and by source; neither ``|`` nor ``:`` can be in a node's name."""
        joins: dict[str, Join] = {}
        for spec in self.graph.joins:
            self.joined.update(spec.sources)
            if spec.target != END:
                join = Join(
                    "|".join(spec.sources) + f":{spec.target}", spec.sources, spec.target, spec.policy
                )
                joins[join.id] = join
        for join in joins.values():
            for source in join.sources:
                self.joins[source] = (*self.joins.get(source, ()), join)
        return joins

    def _connect(self, node: Node, deferred: frozenset[str]) -> None:
        ends = self.edges.get(node.name, ())
        node.successors = tuple(sorted(end for end in ends if end != END))
        node.joins = self.joins.get(node.name, ())
        node.routers = tuple(
            self._router(node.name, branch) for branch in self.graph.branches.get(node.name, {}).values()
        )
        node.routes = bool(ends or node.routers) or node.name in self.joined
        node.leads = self._leads(node)
        node.straight = not node.joins and not node.routers and deferred.isdisjoint(node.successors)


def _some(names: Sequence[str]) -> Project:
    """Copies these keys, in this order."""
    return lambda values, flat=None: {
        name: copied_value(name, values[name], flat) for name in names if name in values
    }


def _says_where(spec: NodeSpec) -> bool:
    """Whether a node says for itself where to pause."""
    return spec.interrupt_before_route or not (spec.interrupt_before is None and spec.interrupt_after is None)


def _is_exposed(node: Node) -> bool:
    """Whether the node's code can reach containers of the state; of what a factory makes, nothing is known."""
    return node.shared or node.kind == FACTORY or (node.graph is not None and node.graph.exposed)


__all__ = ["assemble"]
