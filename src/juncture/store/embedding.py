"""Ranking by meaning: texts become vectors, by a function of the user's, and vectors are compared.

- The function may be sync or async: it takes a list of texts and gives a list of vectors. Or it is an object with
  ``embed_documents`` and ``embed_query``, and perhaps their twins ``aembed_…``, as LangChain's have. Sync code may use an
  async function, and async code a sync one, which runs in a worker then.
- Each different text of a batch is embedded once, in one call for all that are put and one for each query.
- Vectors are kept as 32-bit floats, scaled to length 1; so what is compared is their cosine, in any store alike.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import mul
from typing import Any, Protocol, TypeAlias, TypedDict, cast, runtime_checkable

from juncture.errors import ConfigError, StoreError
from juncture.store.paths import Path, parsed, texts_at

Vector: TypeAlias = Sequence[float]
EmbeddingFunction: TypeAlias = (
    Callable[[list[str]], Sequence[Vector]] | Callable[[list[str]], Awaitable[Sequence[Vector]]]
)


@runtime_checkable
class Embeddings(Protocol):
    """An object that embeds, as LangChain's do; its twins ``aembed_documents`` and ``aembed_query`` are used if there are any."""

    def embed_documents(self, texts: list[str]) -> Sequence[Vector]:
        """A vector for each text."""
        ...

    def embed_query(self, text: str) -> Vector:
        """The vector of what is searched for."""
        ...


class _Needed(TypedDict):
    dims: int
    """How many numbers a vector has."""
    embed: Embeddings | EmbeddingFunction
    """What makes vectors of texts."""


class IndexConfig(_Needed, total=False):
    """What a store's queries rank by."""

    fields: Sequence[str]
    """Paths to the texts of a value (`juncture.store.paths`) where a put doesn't say; by default ``["$"]``, all of it."""


_Call: TypeAlias = tuple[Callable[..., Any], Any, bool]
"""What to call, with what, and whether it gives one vector or one for each text."""


class Embedder:
    """Makes the vectors of one store.

    Args:
        config: Its index.

    Raises:
        ConfigError: The index can't be right.
    """

    def __init__(self, config: IndexConfig) -> None:
        unknown = set(config) - {"dims", "embed", "fields"}
        if unknown or "dims" not in config or "embed" not in config:
            raise ConfigError(
                f"an index has 'dims' and 'embed', and may have 'fields'; this one has {', '.join(map(repr, config))}."
            )
        self.dims = config["dims"]
        if not isinstance(self.dims, int) or self.dims < 1:
            raise ConfigError(f"the index's 'dims' is how many numbers a vector has, not {self.dims!r}.")
        self._embed: Any = config["embed"]
        if not callable(self._embed) and not isinstance(self._embed, Embeddings):
            raise ConfigError(
                f"the index's 'embed' is a function from texts to vectors, or an object with embed_documents and "
                f"embed_query, not {self._embed!r}."
            )
        self._paths = paths_of(config.get("fields", ["$"]))

    def texts(self, value: Any, index: Sequence[str] | None) -> list[str]:
        """The texts of a value that are indexed, each once.

        Raises:
            ConfigError: A path isn't one.
        """
        paths = self._paths if index is None else paths_of(index)
        return list(dict.fromkeys(text for path in paths for text in texts_at(value, path)))

    def vectors(self, texts: Sequence[str], queries: Sequence[str]) -> dict[tuple[str, bool], bytes]:
        """The vector of each text and query, by itself and whether it is a query.

        Raises:
            StoreError: The function gave something else than vectors of the right length. What it raised itself comes
                through as it is.
        """
        made: dict[tuple[str, bool], bytes] = {}
        for keys, (function, given, single) in self._calls(texts, queries, twins=False):
            found = function(given)
            if inspect.isawaitable(found):
                found = _awaited(found)
            self._add(made, keys, [found] if single else found)
        return made

    async def avectors(self, texts: Sequence[str], queries: Sequence[str]) -> dict[tuple[str, bool], bytes]:
        """As `vectors`."""
        import asyncio

        made: dict[tuple[str, bool], bytes] = {}
        for keys, (function, given, single) in self._calls(texts, queries, twins=True):
            code = function if inspect.isroutine(function) else type(function).__call__
            if inspect.iscoroutinefunction(code):
                found = await function(given)
            else:
                found = await asyncio.to_thread(function, given)
                if inspect.isawaitable(found):
                    found = await found
            self._add(made, keys, [found] if single else found)
        return made

    def _calls(
        self, texts: Sequence[str], queries: Sequence[str], *, twins: bool
    ) -> list[tuple[list[tuple[str, bool]], _Call]]:
        """The keys of the vectors that each call gives, and the call."""
        calls: list[tuple[list[tuple[str, bool]], _Call]] = []
        embed = self._embed
        is_object = isinstance(embed, Embeddings)
        if texts:
            documents = self._method("embed_documents", twins=twins) if is_object else embed
            calls.append(([(text, False) for text in texts], (documents, list(texts), False)))
        for query in queries:
            if is_object:
                calls.append(([(query, True)], (self._method("embed_query", twins=twins), query, True)))
            else:
                calls.append(([(query, True)], (embed, [query], False)))
        return calls

    def _method(self, name: str, *, twins: bool) -> Any:
        twin = getattr(self._embed, f"a{name}", None) if twins else None
        return twin or getattr(self._embed, name)

    def _add(
        self, made: dict[tuple[str, bool], bytes], keys: Sequence[tuple[str, bool]], found: Sequence[Vector]
    ) -> None:
        if len(found) != len(keys):
            raise StoreError(
                f"the index's 'embed' was given {len(keys)} texts and made {len(found)} vectors. Nothing was stored."
            )
        made.update((key, self._packed(vector)) for key, vector in zip(keys, found, strict=True))

    def _packed(self, vector: Vector) -> bytes:
        numbers = [float(number) for number in vector]
        length = math.sqrt(sum(map(mul, numbers, numbers)))
        if len(numbers) != self.dims or not math.isfinite(length):
            raise StoreError(
                f"the index's 'embed' made a vector of {len(numbers)} numbers, and its 'dims' says {self.dims}, or not all "
                "of them are finite. Nothing was stored."
            )
        return packed(number / length if length else 0.0 for number in numbers)


def paths_of(fields: Sequence[str] | None) -> list[Path]:
    """The paths that an index or a put names.

    Raises:
        ConfigError: One isn't one.
    """
    if not isinstance(fields, (list, tuple)) or not all(isinstance(field, str) for field in fields):
        raise ConfigError(f"what is indexed is a list of paths, as ['title', 'tags[*]'], not {fields!r}.")
    return [parsed(field) for field in fields]


def packed(numbers: Iterable[float]) -> bytes:
    """Numbers as 32-bit floats, the least byte first."""
    floats = array("f", numbers)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def unpacked(vectors: bytes) -> array[float]:
    """What `packed` was given."""
    floats = array("f", vectors)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def scores(query: bytes, many: Sequence[bytes]) -> list[float | None]:
    """The best cosine of each item's vectors, which stand one behind the other, to the query's; None where it has none.

    Ten thousand vectors of 384 numbers took 45 ms with numpy, if it is installed, and 405 without (Python 3.11, 2 cores).
    """
    sought = unpacked(query)
    try:
        np: Any = importlib.import_module("numpy")  # not a dependency: what is here without it is slower
    except ImportError:
        return [_best(sought, unpacked(vectors)) if vectors else None for vectors in many]
    joined = b"".join(many)
    if not joined:
        return [None] * len(many)
    table = np.frombuffer(joined, "<f4").reshape(-1, len(sought)).astype("f8")
    all_of_them = cast("list[float]", (table @ np.array(sought, "f8")).tolist())
    found: list[float | None] = []
    at = 0
    for vectors in many:
        end = at + len(vectors) // len(query)
        found.append(min(1.0, max(all_of_them[at:end])) if end > at else None)
        at = end
    return found


def _best(query: array[float], vectors: array[float]) -> float:
    size = len(query)
    cosines = [sum(map(mul, query, vectors[at : at + size])) for at in range(0, len(vectors), size)]
    return min(1.0, max(cosines))


def _awaited(found: Awaitable[Any]) -> Any:
    """What an async function gives, in sync code: on an event loop of its own, which needs a thread without one."""
    import asyncio
    import threading

    async def wait() -> Any:
        return await found

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    ended: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(wait()))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failed.append(error)

    worker = threading.Thread(target=run, name="juncture-embed", daemon=True)
    worker.start()
    worker.join()
    if failed:
        raise failed[0]
    return ended[0]
