"""What a call was given besides its input and config, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, cast

from juncture.drivers.clock import CLOCK
from juncture.drivers.context import TaskContext
from juncture.drivers.meter import Meter
from juncture.engine.tables import Tables
from juncture.errors import ConfigError
from juncture.steering import Budget, RunControl


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


def steering_of(
    control: RunControl | None, budget: Budget | None, around: TaskContext | None
) -> tuple[RunControl | None, Meter]:
    """What steers a run, and what counts for it: if nothing is given, those of the run that it is part of.

    Raises:
        ConfigError: Something else is given.
    """
    for given, kind in ((control, RunControl), (budget, Budget)):
        if given is not None and not isinstance(cast("Any", given), kind):
            name = "control is a" if kind is RunControl else "budget is a"
            raise ConfigError(f"{name} {kind.__name__}, got {type(given).__name__}")
    if around is not None and control is None:
        shared = around.program.shared
        return shared.control, shared.meter if budget is None else Meter(shared.control, budget, CLOCK.get())
    return control, Meter(control, budget, CLOCK.get())


__all__ = ["read_context", "read_output_keys", "steering_of"]
