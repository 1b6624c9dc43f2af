"""What a call was given besides its input and config, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, cast

from juncture.drivers.context import TaskContext
from juncture.engine.tables import Tables
from juncture.errors import ConfigError
from juncture.steering import RunControl


def read_output_keys(tables: Tables, keys: str | Sequence[str] | None) -> frozenset[str] | None:
    """The keys that the result is restricted to; None for all.

    Raises:
        ConfigError: One isn't there.
    """
    if keys is None:
        return tables.output_keys
    named: Any = [keys] if isinstance(keys, str) else keys
    if not isinstance(named, (list, tuple, set, frozenset)) or not all(
        isinstance(key, str) for key in cast("list[Any]", named)
    ):
        raise ConfigError(f"output_keys is a key or a list of keys, got {keys!r}")
    chosen = frozenset(cast("list[str]", named))
    for key in sorted(chosen):
        if key not in tables.keys and tables.open_key is None:
            raise ConfigError(
                f"output_keys: Key {key} not in channels. Known keys: {', '.join(sorted(tables.keys))}"
            )
    return chosen


def read_context(schema: type[Any] | None, context: Any, outer: TaskContext | None) -> Any:
    """The run's context: made into its schema, or, if none is given, that of the run around it.

    Raises:
        ConfigError: It doesn't fit the schema.
    """
    if context is None and outer is not None:
        return outer.program.shared.context
    if schema is None or context is None or not isinstance(context, Mapping):
        return context
    if is_dataclass(schema) or hasattr(schema, "model_validate") or hasattr(schema, "__struct_fields__"):
        try:
            return cast("Any", schema)(**cast("Mapping[str, Any]", context))
        except Exception as error:
            raise ConfigError(f"context doesn't fit {schema.__name__}: {error}") from error
    return cast("Any", context)


def read_control(control: RunControl | None, around: TaskContext | None) -> RunControl | None:
    """What steers the run: if nothing is given, what steers the run that it is part of.

    Raises:
        ConfigError: It is something else.
    """
    if control is None:
        return None if around is None else around.program.shared.control
    given: Any = control
    if not isinstance(given, RunControl):
        raise ConfigError(f"control is a RunControl, got {type(given).__name__}")
    return control


__all__ = ["read_context", "read_control", "read_output_keys"]
