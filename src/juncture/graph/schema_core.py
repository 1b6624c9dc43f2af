"""What is taken from pydantic's core schemas: the parts of a model that can be run one by one.

A core schema is the tree that pydantic compiles a class from. For a model it is, from the outside in: functions around
the model (``model_validator`` of modes ``wrap`` and ``after``), the ``model`` node, functions inside it (mode
``before``), and the ``model-fields`` node with one schema for each field. Dataclasses look alike.

From these parts validators are compiled anew: one for each field, without its alias; one for the model that validates
all fields; and one that takes the fields as they are. The latter two have a function in the place of the ``model``
node, which makes the instance: pydantic would put the model's complete validator there.

Checked with pydantic 2.14; the tests of `schema_pydantic` fail if another version builds its schemas otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic_core import SchemaValidator

from juncture.errors import GraphBuildError
from juncture.graph.schema_base import Validate

Node: TypeAlias = dict[str, Any]
"""One node of a core schema."""

Put: TypeAlias = Callable[[dict[str, Any], set[str], dict[str, Any] | None], Any]
"""Makes an instance from its fields' values, the names that count as set, and extra values (None: none allowed)."""

_FUNCTIONS: Final = frozenset({"function-before", "function-after", "function-wrap"})
_ANY: Final[Node] = {"type": "any"}
_LIST_AS_SUCH: Final = frozenset({"type", "items_schema", "strict", "metadata", "ref", "serialization"})
"""What a list's node may hold if its items alone decide whether it is valid."""


class _LooksAround(Exception):
    """A field validator asked for the values of other fields."""


class _Alone:
    """Stands for pydantic's ``ValidationInfo`` while one field is validated without the others."""

    __slots__ = ("_given",)

    def __init__(self, given: Any) -> None:
        self._given = given

    @property
    def data(self) -> dict[str, Any]:
        raise _LooksAround

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)


@dataclass(slots=True, eq=False)
class Core:
    """The parts of one class's core schema."""

    cls: type
    definitions: list[Node]
    outer: list[Node]
    """The functions around the class, outermost first."""
    inner: list[Node]
    """The functions around its fields, outermost first."""
    fields: dict[str, Node]
    """Each field's schema, with its default."""
    config: dict[str, Any]

    @property
    def checks_model(self) -> bool:
        """Whether something is left to check once all fields are valid."""
        return bool(self.outer or self.inner) or any(map(_may_look_around, self.fields.values()))

    @property
    def runs_before(self) -> bool:
        """Whether validators of the model see its values before the fields do, and so may supply some."""
        return bool(self.inner) or any(node["type"] != "function-after" for node in self.outer)

    def validator(self, name: str) -> Validate:
        """What validates one field as the class does, its field validators included.

        A value whose validators ask for other fields is given back as it is; `model_check` validates it.
        """
        node = self.fields[name]
        if not _may_look_around(node):
            return self._one_field(name, node)
        alone = self._one_field(name, _without_others(node))

        def validate(value: Any) -> Any:
            try:
                return alone(value)
            except _LooksAround:
                return value

        return validate

    def item_validator(self, name: str) -> Validate | None:
        """What validates one item of a list field; None if it isn't a list, or is validated as a whole as well."""
        node = self.fields[name]
        node = self._resolved(node["schema"] if node["type"] == "default" else node)
        if node["type"] != "list" or not _LIST_AS_SUCH.issuperset(node):
            return None
        return self._one_field(name, node.get("items_schema", _ANY))

    def full(self, put: Put) -> Callable[[dict[str, Any]], Any]:
        """Validates everything, fields given by their names, and makes an instance."""

        def enter(value: Any, fields: Callable[[Any], Any]) -> Any:
            return value if isinstance(value, self.cls) else put(*_in_order(fields(value)))

        return self._compiled(self._whole(self.fields, enter))

    def model_check(
        self, assemble: Callable[[dict[str, Any]], Any], absent: Collection[str] = ()
    ) -> Callable[[dict[str, Any]], Any]:
        """Runs the validators of the whole model on values that are valid each by itself, and gives the instance.

        Args:
            assemble: Makes an instance from given values; absent ones get their defaults.
            absent: Fields that are never given, and aren't missed though the class requires them.
        """

        def enter(value: Any, fields: Callable[[Any], Any]) -> Any:
            if isinstance(value, self.cls):
                return value
            values, _, names = fields(value)
            return assemble({name: values[name] for name in self.fields if name in names})

        kept = {
            name: node if _may_look_around(node) else _unchecked(node) for name, node in self.fields.items()
        }
        kept |= {name: {"type": "default", "schema": _ANY, "default": None} for name in absent}
        return self._compiled(self._whole(kept, enter))

    def _one_field(self, name: str, node: Node) -> Validate:
        run = self._compiled(self._fields_node({name: node}))

        def validate(value: Any) -> Any:
            return run({name: value})[0][name]

        return validate

    def _whole(self, fields: dict[str, Node], enter: Callable[..., Any]) -> Node:
        inside = _wrapped(self.inner, self._fields_node(fields))
        made = {"type": "function-wrap", "function": {"type": "no-info", "function": enter}, "schema": inside}
        return _wrapped(self.outer, made)

    def _fields_node(self, fields: dict[str, Node]) -> Node:
        return {
            "type": "model-fields",
            "fields": {name: {"type": "model-field", "schema": node} for name, node in fields.items()},
            "model_name": self.cls.__name__,
        }

    def _compiled(self, node: Node) -> Callable[[Any], Any]:
        if self.definitions:
            node = {"type": "definitions", "schema": node, "definitions": self.definitions}
        return SchemaValidator(cast("Any", node), cast("Any", self.config)).validate_python

    def _resolved(self, node: Node) -> Node:
        return _resolved(node, self.definitions)


def read_core(cls: Any) -> Core:
    """The parts of a model's or pydantic dataclass's core schema.

    Raises:
        GraphBuildError: The class makes its core schema in a way of its own.
    """
    node: Node = cls.__pydantic_core_schema__
    definitions: list[Node] = []
    if node["type"] == "definitions":
        definitions = node["definitions"]
        node = node["schema"]
    outer, node = _peeled(node, definitions)
    inner, fields = (
        _peeled(node["schema"], definitions) if node["type"] in {"model", "dataclass"} else ([], node)
    )
    if fields["type"] not in {"model-fields", "dataclass-args"}:
        raise GraphBuildError(
            f"{cls.__name__} makes a pydantic core schema of its own ({node['type']}), so its keys can't be validated "
            "one by one. Leave that method out, or build the graph with strict=False, which validates node inputs only"
        )
    found: Any = fields["fields"]
    if isinstance(found, list):  # of a dataclass
        found = {each["name"]: each for each in cast("list[Node]", found)}
    return Core(
        cls=cls,
        definitions=definitions,
        outer=outer,
        inner=inner,
        fields={name: each["schema"] for name, each in found.items()},
        config={**node.get("config", {}), "title": cls.__name__},
    )


def _peeled(node: Node, definitions: list[Node]) -> tuple[list[Node], Node]:
    """The functions around a node, outermost first, and the node."""
    layers: list[Node] = []
    node = _resolved(node, definitions)
    while node["type"] in _FUNCTIONS:
        layers.append(node)
        node = _resolved(node["schema"], definitions)
    return layers, node


def _resolved(node: Node, definitions: list[Node]) -> Node:
    while node["type"] == "definition-ref":
        node = next(each for each in definitions if each.get("ref") == node["schema_ref"])
    return node


def _wrapped(layers: list[Node], node: Node) -> Node:
    for layer in reversed(layers):
        # A reference may be defined once only, and the class's own definition keeps it.
        node = {**{key: value for key, value in layer.items() if key != "ref"}, "schema": node}
    return node


def _may_look_around(node: Node) -> bool:
    """Whether a field has a validator that is given ``info``, and so can look at other fields."""
    function = node.get("function")
    if isinstance(function, dict) and cast("Node", function)["type"] == "with-info":
        return True
    return isinstance(node.get("schema"), dict) and _may_look_around(node["schema"])


def _without_others(node: Node) -> Node:
    """The field's schema with validators that raise `_LooksAround` if they ask for other fields."""
    node = dict(node)
    if isinstance(node.get("schema"), dict):
        node["schema"] = _without_others(node["schema"])
    function = node.get("function")
    if isinstance(function, dict) and cast("Node", function)["type"] == "with-info":
        node["function"] = {**function, "function": _called_alone(cast("Node", function)["function"])}
    return node


def _called_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    def alone(*arguments: Any) -> Any:
        return function(*arguments[:-1], _Alone(arguments[-1]))

    return alone


def _unchecked(node: Node) -> Node:
    return {**node, "schema": _ANY} if node["type"] == "default" else _ANY


def _in_order(checked: tuple[dict[str, Any], dict[str, Any] | None, set[str]]) -> tuple[Any, set[str], Any]:
    values, extra, names = checked
    return values, names, extra
