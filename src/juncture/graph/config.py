"""A call's config, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, cast

from juncture.errors import ConfigError
from juncture.types import STREAM_MODES, StreamMode

DEFAULT_LIMIT: Final = 1000
"""How many supersteps one invocation may execute unless the config says otherwise."""
LENIENT_LIMIT: Final = 10007
"""The same for lenient graphs: LangGraph 1.2.24's."""

_KNOWN: Final = (
    "callbacks",
    "configurable",
    "max_concurrency",
    "metadata",
    "recursion_limit",
    "run_id",
    "run_name",
    "tags",
)
_EMPTY: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class CallOptions:
    """What a call's config says."""

    config: Mapping[str, Any]
    """As it was given."""
    thread_id: str | None = None
    limit: int = DEFAULT_LIMIT
    max_concurrency: int | None = None
    run_id: str | None = None
    checkpoint_id: str | None = None
    """The checkpoint to go on from, or to look at, instead of the newest."""
    checkpoint_ns: str = ""
    """Which nested graph's, as text."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is kept with checkpoints."""


def read_config(
    config: Mapping[str, Any] | None, thread_id: str | None, *, strict: bool = True
) -> CallOptions:
    """The options in a config.

    Args:
        config: ``{"configurable": {"thread_id": …}, "recursion_limit": n, "max_concurrency": n, …}``.
        thread_id: Given straight to the call; the config must not name another.

        strict: Of the graph; it decides the limit that holds where none is given.

    Raises:
        ConfigError: Something in it has the wrong type, an unknown name, or can't be.
    """
    limit = DEFAULT_LIMIT if strict else LENIENT_LIMIT
    if config is None:
        return CallOptions(_EMPTY, _thread(thread_id) if thread_id is not None else None, limit)
    if not isinstance(config, Mapping):
        raise ConfigError(f"config is a mapping, got {type(config).__name__}")
    for name in config:
        if name not in _KNOWN:
            near = get_close_matches(str(name), _KNOWN, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Values of your own go under 'configurable'."
            raise ConfigError(f"config has the unknown entry {name!r}. {hint} Known: {', '.join(_KNOWN)}")
    _check_names(config)
    configurable = config.get("configurable")
    if configurable is None:
        configurable = _EMPTY
    elif not isinstance(configurable, Mapping):
        raise ConfigError(f"config['configurable'] is a mapping, got {type(configurable).__name__}")
    named = cast("Mapping[str, Any]", configurable)
    given = named.get("thread_id")
    if thread_id is not None and given is not None and _thread(given) != _thread(thread_id):
        raise ConfigError(
            f"two threads are named: thread_id={thread_id!r}, and {given!r} in config['configurable']"
        )
    chosen = thread_id if thread_id is not None else given
    width = config.get("max_concurrency")
    if width is None:
        width = named.get("max_concurrency")
    run_id = config.get("run_id")
    return CallOptions(
        config,
        _thread(chosen) if chosen is not None else None,
        _count("recursion_limit", config.get("recursion_limit", limit)),
        None if width is None else _count("max_concurrency", width),
        None if run_id is None else _run_id(run_id),
        _name("checkpoint_id", named.get("checkpoint_id")),
        _name("checkpoint_ns", named.get("checkpoint_ns")) or "",
        _scalars(config.get("metadata")),
    )


def _name(entry: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"config['configurable']['{entry}'] is a string, got {value!r}")
    return value or None


def _scalars(metadata: Any) -> Mapping[str, Any]:
    """What of the metadata is kept with checkpoints: what can be shown and compared."""
    if not metadata:
        return _EMPTY
    return {
        name: value
        for name, value in metadata.items()
        if type(name) is str and (value is None or type(value) in (str, int, float, bool))
    }


def _thread(thread_id: Any) -> str:
    named: type[Any] = thread_id.__class__
    if named is bool or not (
        issubclass(named, (str, int)) or (named.__module__, named.__name__) == ("uuid", "UUID")
    ):
        raise ConfigError(f"thread_id is a string (or a whole number, or a UUID), got {named.__name__}")
    text = str(thread_id)
    if not text:
        raise ConfigError("thread_id is empty; name the conversation that the run belongs to")
    return text


def _run_id(run_id: Any) -> str:
    named: type[Any] = run_id.__class__
    if not (issubclass(named, str) or (named.__module__, named.__name__) == ("uuid", "UUID")) or not str(
        run_id
    ):
        raise ConfigError(f"config['run_id'] is a UUID or a string that isn't empty, got {run_id!r}")
    return str(run_id)


def _check_names(config: Mapping[str, Any]) -> None:
    """The entries that only listeners and tracers read."""
    tags = config.get("tags")
    if tags is not None and (
        not isinstance(tags, (list, tuple))
        or not all(isinstance(tag, str) for tag in cast("list[Any]", tags))
    ):
        raise ConfigError(f"config['tags'] is a list of strings, got {tags!r}")
    metadata = config.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigError(f"config['metadata'] is a mapping, got {type(metadata).__name__}")
    name = config.get("run_name")
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"config['run_name'] is a string, got {name!r}")


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"config['{name}'] is a whole number, got {value!r}")
    if value < 1:
        raise ConfigError(f"config['{name}'] must be at least 1, got {value}")
    return value


def read_modes(stream_mode: StreamMode | Sequence[StreamMode]) -> tuple[StreamMode, ...]:
    """The stream modes that are asked for.

    Raises:
        ConfigError: One doesn't exist.
    """
    if not isinstance(stream_mode, (str, list, tuple)):
        raise ConfigError(
            f"stream_mode is a name or a list of names, got {stream_mode!r}. Known: {', '.join(STREAM_MODES)}"
        )
    modes = (stream_mode,) if isinstance(stream_mode, str) else tuple(stream_mode)
    for mode in modes:
        if mode not in STREAM_MODES:
            raise ConfigError(f"unknown stream mode {mode!r}. Known: {', '.join(STREAM_MODES)}")
    return modes
