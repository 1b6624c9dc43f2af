"""Whether an answer can be what its question asks for, by the JSON schema that is kept with the question.

The exact type is known only to the node that asks, which may be days and a deployment away. The schema is with the question,
so most wrong answers are refused at once, before anything is saved or run. The rule that makes this safe: an answer is
refused here only if no reading of it fits (``"12"`` may become an integer, ``"twelve"`` can't). Whatever isn't sure is
left to the node: keywords that aren't known here, parts marked with `UNSURE`, and values that JSON doesn't have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, cast

from juncture.errors import InvalidAnswerError
from juncture.types import Interrupt

UNSURE: Final = "x-unsure"
"""Marks a part of a schema whose type takes more than the schema says: code of its own looks at a value first."""

_PLAIN: Final = frozenset((NoneType, bool, int, float, str, list, dict))
_TRUTHS: Final = frozenset(("0", "1", "f", "t", "n", "y", "no", "yes", "off", "on", "false", "true"))
Schema = Mapping[str, Any]


def check_answers(questions: Sequence[Interrupt], answers: Mapping[str, Any]) -> None:
    """Refuses answers that can't be what is asked for.

    Raises:
        InvalidAnswerError: Names each of them, what is wrong, and what is expected.
    """
    wrong: dict[str, str] = {}
    first: Interrupt | None = None
    for question in questions:
        schema = question.response_schema
        if schema is not None and question.id in answers:
            problem = misfit(schema, answers[question.id])
            if problem is not None:
                wrong[question.id] = problem
                first = first or question
    if first is None:
        return
    told = "; ".join(
        f"the answer to {q.id} (node {q.node!r}{f', key {q.key!r}' if q.key else ''}): {wrong[q.id]}"
        for q in questions
        if q.id in wrong
    )
    error = InvalidAnswerError(
        f"{told}. Nothing was saved or run, and the questions stay open: answer again",
        node=first.node,
        problems=wrong,
    )
    error.question_id, error.expected = first.id, first.response_schema
    raise error


def misfit(schema: Schema, value: Any) -> str | None:
    """Why no reading of a value can fit a schema; None if one may."""
    return _misfit(schema, value, "", schema)


def _misfit(schema: Schema | bool, value: Any, place: str, root: Schema) -> str | None:
    if not isinstance(schema, Mapping) or UNSURE in schema or type(value) not in _PLAIN:
        return None
    if "$ref" in schema:
        return _misfit(_referred(root, schema["$ref"]), value, place, root)
    members = [schema["const"]] if "const" in schema else schema.get("enum")
    if members is not None:
        return None if _may_be_one(members, value) else _said(place, f"one of {_listed(members)}", value)
    for inner in schema.get("allOf", ()):
        problem = _misfit(inner, value, place, root)
        if problem is not None:
            return problem
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        problems = [_misfit(choice, value, place, root) for choice in choices]
        return None if None in problems else _of_several(problems)
    check = _CHECKS.get(schema.get("type", ""))
    return None if check is None else check(schema, value, place, root)


def _referred(root: Schema, reference: str) -> Schema:
    found: Schema = root
    for name in reference.removeprefix("#/").split("/"):
        found = cast("Schema", found.get(name, {}))
    return found


def _of_several(problems: Sequence[str | None]) -> str:
    """One problem if all choices have the same, else all."""
    return ", or ".join(dict.fromkeys(problem for problem in problems if problem is not None))


def _may_be_one(members: Sequence[Any], value: Any) -> bool:
    if value in members:
        return True
    # An enum of numbers may be named by their text.
    return type(value) is str and any(isinstance(member, (int, float)) for member in members)


def _said(place: str, expected: str, value: Any) -> str:
    text = repr(value)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"{f'{place}: ' if place else ''}expected {expected}, got {shown}"


def _listed(members: Sequence[Any]) -> str:
    return ", ".join(repr(member) for member in members)


# ---- one type each


def _string(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    if "format" in schema:  # a date may be given as a number
        return _said(place, f"a {schema['format']}", value) if type(value) in (NoneType, list, dict) else None
    if type(value) is not str:
        return _said(place, "a text", value)
    if len(value) < schema.get("minLength", 0):
        return _said(place, f"a text of at least {schema['minLength']} characters", value)
    return None


def _number(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    if type(value) is str:
        try:
            float(value)
        except ValueError:
            return _said(place, kind, value)
        return None
    if type(value) not in (bool, int, float) or (
        type(value) is float and schema["type"] == "integer" and not value.is_integer()
    ):
        return _said(place, kind, value)
    for bound, (name, fails) in _BOUNDS.items():
        if bound in schema and fails(value, schema[bound]):
            return _said(place, f"{kind} {name} {schema[bound]}", value)
    return None


_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("of at least", lambda value, bound: value < bound),
    "maximum": ("of at most", lambda value, bound: value > bound),
    "exclusiveMinimum": ("above", lambda value, bound: value <= bound),
    "exclusiveMaximum": ("below", lambda value, bound: value >= bound),
}


def _boolean(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    if type(value) is bool:
        return None
    fits = value.lower() in _TRUTHS if type(value) is str else type(value) in (int, float) and value in (0, 1)
    return None if fits else _said(place, "true or false", value)


def _null(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    return None if value is None else _said(place, "nothing (null)", value)


def _array(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    first = schema.get("prefixItems", ())
    if type(value) is not list:
        return None if first and type(value) is dict else _said(place, "a list", value)
    items = cast("list[Any]", value)
    if len(items) < schema.get("minItems", 0):
        return _said(place, f"a list of at least {schema['minItems']}", value)
    if "maxItems" in schema and len(items) > schema["maxItems"] and not schema.get("uniqueItems"):
        return _said(place, f"a list of at most {schema['maxItems']}", value)
    for index, item in enumerate(items):
        inner = first[index] if index < len(first) else schema.get("items", {})
        problem = _misfit(inner, item, f"{place}[{index}]", root)
        if problem is not None:
            return problem
    return None


def _object(schema: Schema, value: Any, place: str, root: Schema) -> str | None:
    if type(value) is not dict:
        return _said(place, "an object", value)
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return _said(place, f"an object with {_listed(missing)}", value)
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, item in cast("dict[str, Any]", value).items():
        if name not in properties and others is False:
            return _said(place, f"an object without {name!r}; it has {_listed(list(properties))}", value)
        problem = _misfit(properties.get(name, others), item, f"{place}.{name}" if place else str(name), root)
        if problem is not None:
            return problem
    return None


_CHECKS: Final[Mapping[str, Callable[[Schema, Any, str, Schema], str | None]]] = {
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "null": _null,
    "array": _array,
    "object": _object,
}


__all__ = ["UNSURE", "check_answers", "misfit"]
