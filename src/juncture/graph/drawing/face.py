"""What a compiled graph offers of its pictures; everything is imported when the first is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, cast, get_args, overload

from juncture.errors import ConfigError
from juncture.types import RunResult, StateSnapshot

if TYPE_CHECKING:
    from juncture.graph.compiled import CompiledGraph
    from juncture.graph.drawing.drawn import DrawnGraph
    from juncture.graph.drawing.ran import Record

    _Compiled: TypeAlias = CompiledGraph[Any, Any, Any, Any]

TextFormat: TypeAlias = Literal["mermaid", "plantuml", "dot", "ascii", "svg", "json"]
Format: TypeAlias = Literal[TextFormat, "png"]
Ran: TypeAlias = "RunResult | Mapping[str, Any] | str | Record"
FORMATS: Final[tuple[str, ...]] = (*get_args(TextFormat), "png")


class Drawable:
    """The pictures of a graph."""

    def get_graph(self, config: Mapping[str, Any] | None = None, *, xray: bool | int = False) -> DrawnGraph:
        """The graph's nodes and edges as they are drawn: every edge that a run can take, and no other.

        Args:
            config: Not used; it is here because LangGraph's has it.
            xray: True: nested graphs are drawn open; a number: so many levels of them. Their nodes' ids are
                ``parent:child``.
        """
        from juncture.graph.drawing.tracing import traced

        return traced(cast("_Compiled", self), xray=xray)

    @overload
    def draw(
        self,
        format: TextFormat = "mermaid",
        *,
        xray: bool | int = False,
        conditions: bool = False,
        run: Ran | None = None,
        title: str | None = None,
    ) -> str: ...
    @overload
    def draw(
        self,
        format: Literal["png"],
        *,
        xray: bool | int = False,
        conditions: bool = False,
        run: Ran | None = None,
        title: str | None = None,
    ) -> bytes: ...
    def draw(
        self,
        format: Format = "mermaid",  # noqa: A002 - what it is, and short
        *,
        xray: bool | int = False,
        conditions: bool = False,
        run: Ran | None = None,
        title: str | None = None,
    ) -> str | bytes:
        """A picture of the graph: every edge that a run can take, and no other.

        What a router or a command may choose is read from declarations (a path_map, ``Literal[...]``, ``destinations``),
        and where there is none, from the code. Where that doesn't tell, the edge leads to a question mark.

        Args:
            format: ``"mermaid"``, ``"plantuml"``, ``"dot"`` and ``"json"`` need nothing. ``"ascii"`` (in box-drawing
                characters), ``"svg"`` and ``"png"`` need the extra ``draw``, and no network, browser or other program.
            xray: True: nested graphs are drawn open; a number: so many levels of them.
            conditions: Routers are drawn as nodes of their own.
            run: A run that is drawn over it: how often each node ran, for how long, what it failed with, and which edges
                were surely taken. A `RunResult` of a run with a saver, whose `timings` are shown if it has them; a thread, as its id or a config; the states of a
                thread, as ``get_state_history`` gives them; or the events that a listener was told
                (``listeners=[events.append]``), with exact times and what happened in nested graphs.
            title: Written above it.

        Returns:
            The text of the picture; for ``"png"`` its bytes.

        Raises:
            ConfigError: There is no such format, or the run can't be drawn: it kept nothing, or not every step.
            ImportError: The extra isn't installed.
        """
        if format not in FORMATS:
            raise ConfigError(f"there is no format {format!r}; there are {', '.join(map(repr, FORMATS))}")
        graph = self.get_graph(xray=xray)
        if run is not None:
            graph = graph.with_run(_record(cast("_Compiled", self), run))
            if isinstance(run, RunResult) and run.timings is not None:
                graph = graph.with_times(run.timings.by_node)
        if conditions:
            graph = graph.with_conditions()
        return _drawn(graph, format, title)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What a notebook shows: the SVG, or Mermaid's text, which newer notebooks draw themselves."""
        return {"text/plain": repr(self), **self.get_graph().shown()}


def _record(graph: _Compiled, run: Ran) -> Record:
    if isinstance(run, RunResult):
        return _of_result(graph, cast("RunResult[Any]", run))
    if not isinstance(run, (str, Mapping)):
        return run
    states = list(graph.get_state_history(run, values=False))
    if not states:
        raise ConfigError(f"the thread of {run!r} has no states, so there is no run to be drawn")
    return states


def _of_result(graph: _Compiled, result: RunResult) -> list[StateSnapshot]:
    """The states of one run of a thread."""
    if result.checkpoint is None:
        raise ConfigError(
            "the run was on no thread, so nothing of it was kept. Give the graph a checkpointer and the run a thread_id, "
            "or draw the run from its events: listeners=[events.append]"
        )
    last = result.checkpoint.checkpoint_id
    states = list(graph.get_state_history(result.checkpoint.thread_id, values=False))
    by_id = {state.config["configurable"]["checkpoint_id"]: state for state in states}
    found: list[StateSnapshot] = []
    while (state := by_id.get(last)) is not None:
        found.append(state)
        metadata = state.metadata or {}
        if metadata.get("run_id") != result.run_id or metadata.get("source") != "loop":
            return found  # with what the run began with
        last = (state.parent_config or {"configurable": {}})["configurable"].get("checkpoint_id")
    raise ConfigError(
        f"thread {result.checkpoint.thread_id!r} doesn't keep the state that this run began with: it was pruned, or not saved "
        "(durability='exit'). Draw the run from its events: listeners=[events.append]"
    )


def _drawn(graph: DrawnGraph, format: Format, title: str | None) -> str | bytes:  # noqa: A002 - as above
    match format:
        case "mermaid":
            return graph.draw_mermaid(title=title)
        case "plantuml":
            return graph.draw_plantuml(title=title)
        case "dot":
            return graph.draw_dot(title=title)
        case "ascii":
            return graph.draw_ascii(title=title)
        case "svg":
            return graph.draw_svg(title=title)
        case "png":
            return graph.draw_png(title=title)
        case "json":
            import json

            return json.dumps(graph.to_json(), ensure_ascii=False, indent=2) + "\n"
        case _:
            assert_never(format)


__all__ = ["FORMATS", "Drawable", "Format", "TextFormat"]
