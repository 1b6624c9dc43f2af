"""However a value is cut into chunks, and wherever a try of its stream breaks, the state is the same in the end."""

import asyncio
import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

from hypothesis import given
from hypothesis import strategies as st

from juncture import START, DiscardedChunks, RetryPolicy, StateGraph


class State(TypedDict, total=False):
    text: str
    rows: list[int]
    log: Annotated[list[str], operator.add]


class Broken(Exception):
    """What ends a try."""


texts = st.lists(st.text(max_size=4), min_size=1, max_size=6)
rows = st.lists(st.lists(st.integers(), max_size=3), min_size=1, max_size=5)


def graph_of(chunks: dict[str, list[Any]], breaks: dict[str, int], *, later: bool) -> Any:
    """Two nodes side by side whose streams break once, after so many chunks."""
    tries: dict[str, int] = {}

    def source(name: str) -> Iterator[Any]:
        tries[name] = tries.get(name, 0) + 1
        for index, chunk in enumerate(chunks[name]):
            if tries[name] == 1 and index == breaks[name]:
                raise Broken
            yield chunk

    async def source_async(name: str) -> Any:
        for chunk in source(name):
            await asyncio.sleep(0)
            yield chunk

    def node(name: str) -> Any:
        async def give(state: State) -> dict[str, Any]:
            return {name: source_async(name), "log": [name]}

        return give if later else lambda state: {name: source(name), "log": [name]}

    builder = StateGraph(State)
    for name in ("text", "rows"):
        policy = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node(f"{name}_node", node(name), retry_policy=policy)
        builder.add_edge(START, f"{name}_node")
    return builder.compile()


@given(texts, rows, st.integers(0, 6), st.integers(0, 6), st.booleans(), st.booleans())
def test_any_chunking_and_failure_gives_the_same_state_and_each_chunk_counts_once(
    text, row, break_text, break_rows, later, is_async
):
    graph = graph_of({"text": text, "rows": row}, {"text": break_text, "rows": break_rows}, later=later)
    kept: dict[str, list[Any]] = {}
    seqs: list[int] = []

    def take(part: Any) -> None:
        seqs.append(part.seq)
        if part.mode == "messages":
            chunk, metadata = part.data
            mine = kept.setdefault(metadata["langgraph_node"], [])
            if isinstance(chunk, DiscardedChunks):
                assert len(mine) == chunk.count
                mine.clear()
            else:
                mine.append(chunk)
        else:
            final.update(part.data)

    async def run() -> None:
        async for part in graph.astream({}, stream_mode=["messages", "values"], version="parts"):
            take(part)

    final: dict[str, Any] = {}
    if is_async:
        asyncio.run(run())
    else:
        for part in graph.stream({}, stream_mode=["messages", "values"], version="parts"):
            take(part)
    assert final == {
        "text": "".join(text),
        "rows": [n for part in row for n in part],
        "log": ["rows", "text"],
    }
    assert kept == {"text_node": text, "rows_node": row}
    assert seqs == list(range(len(seqs)))
