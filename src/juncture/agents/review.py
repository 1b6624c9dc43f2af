"""People decide about tool calls before they are made: approve, edit or reject, in one question for several calls.

The rules:

* Each call that needs a decision gets its own, by the call's id; two calls of one tool need two.
* An answer may decide about some of them: the rest is asked again, and what was decided stands.
* A decision about a call that isn't asked about, or of a kind that isn't allowed, leaves the question open and says why.
* Calls that need no decision are approved, and listed with the question, so that people see everything that will be done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from juncture.drivers.context import current
from juncture.drivers.response import Response
from juncture.engine.answers import UNSURE
from juncture.persistence import register_type

Kind: TypeAlias = Literal["approve", "edit", "reject"]
Needs: TypeAlias = Collection[str] | Mapping[str, str] | Callable[[Mapping[str, Any]], "str | bool | None"]
"""The tools whose calls need a decision; with a description each; or a function of the call that gives one, or says whether."""

_KINDS: Final[Mapping[str, Kind]] = {
    "approve": "approve",
    "approved": "approve",
    "accept": "approve",
    "edit": "edit",
    "edited": "edit",
    "reject": "reject",
    "rejected": "reject",
}


@dataclass(frozen=True)
class HumanDecision:
    """What somebody decided about one tool call."""

    type: Kind
    arguments: Mapping[str, Any] | None = None
    """Of an edit: the arguments to call it with."""
    name: str | None = None
    """Of an edit: another tool to call, if it is to be another."""
    message: str | None = None
    """Of a rejection: why; the model is told."""

    @classmethod
    def parse(cls, given: Any) -> HumanDecision:
        """A decision as people and programs give it: one of these, a word in any case, or a mapping.

        A mapping has a ``type`` (``approve``, ``edit`` or ``reject``, also as ``Approved`` and so on), and ``arguments`` (or
        ``args``), ``name`` and ``message`` (or ``reason``); LangChain's ``edited_action`` is read as well.

        Raises:
            ValueError: It isn't a decision.
        """
        if isinstance(given, HumanDecision):
            return given
        told = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {"type": given})
        kind = _KINDS.get(str(told.get("type", "")).strip().lower())
        if kind is None:
            raise ValueError(f"the type of a decision is approve, edit or reject, got {told.get('type')!r}")
        action: Mapping[str, Any] = told.get("edited_action") or told
        arguments = cast("Mapping[str, Any] | None", action.get("arguments", action.get("args")))
        if kind == "edit" and not hasattr(arguments, "keys"):
            raise ValueError(f"an edit says the arguments to call the tool with, got {arguments!r}")
        message = told.get("message", told.get("reason"))
        edits = kind == "edit"
        return cls(kind, arguments if edits else None, action.get("name") if edits else None, message)


register_type(HumanDecision)  # so that it may be given as an answer


@dataclass(frozen=True)
class Reviewed:
    """What is left of tool calls once people have decided."""

    calls: list[dict[str, Any]]
    """Those to make, in the order given, with their edits."""
    rejected: list[dict[str, Any]]
    """The others."""
    messages: list[dict[str, Any]]
    """For each rejected call a tool's message with the reason, to be given to the model."""
    decisions: Mapping[str, HumanDecision] = field(default_factory=dict[str, HumanDecision])
    """By the id of the call."""


def review_tool_calls(
    calls: Sequence[Mapping[str, Any]],
    needs: Needs,
    *,
    allowed: Collection[Kind] = ("approve", "edit", "reject"),
) -> Reviewed:
    """Asks about tool calls, inside a node, and gives back what was decided; the run pauses until it is.

    The question's value is ``{"requests": [{id, name, arguments, description, allowed}, …], "automatic": [{id, name,
    arguments}, …]}``. It is answered by a mapping of call ids to decisions, a list with one for each request, or, where there
    is one request, by its decision (see `HumanDecision.parse`).

    Args:
        calls: With ``name``, ``args`` or ``arguments``, and an ``id``, as models give them.
        needs: Which of them need a decision.
        allowed: What may be decided.

    Raises:
        ValueError: A call has no id, or two have the same.
        InterruptError: As `interrupt`.
    """
    known = {_id_of(call): call for call in calls}
    if len(known) != len(calls):
        raise ValueError("two tool calls have the same id, so no decision could tell them apart")
    asked = {ident: told for ident, call in known.items() if (told := _needs(needs, call)) is not None}
    automatic = [_shown(call) for ident, call in known.items() if ident not in asked]
    decided: dict[str, HumanDecision] = {}
    while left := [ident for ident in asked if ident not in decided]:
        requests = [
            {**_shown(known[ident]), "description": asked[ident], "allowed": sorted(allowed)}
            for ident in left
        ]
        value = {"requests": requests, "automatic": automatic}
        decided |= current().ask(value, f"review {', '.join(left)}", _response(left, allowed))
    return _outcome(known, decided)


def _id_of(call: Mapping[str, Any]) -> str:
    ident = call.get("id")
    if not isinstance(ident, str) or not ident:
        raise ValueError(
            f"the call of {call.get('name')!r} has no id, so a decision about it couldn't find it"
        )
    return ident


def _arguments(call: Mapping[str, Any]) -> Any:
    return call["args"] if "args" in call else call.get("arguments", {})


def _shown(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": call["id"], "name": call.get("name"), "arguments": _arguments(call)}


def _needs(needs: Needs, call: Mapping[str, Any]) -> str | None:
    """The description of a call that needs a decision; None for one that doesn't."""
    name = call.get("name")
    if callable(needs):
        told = needs(call)
    elif isinstance(needs, Mapping):
        told = cast("Mapping[Any, str]", needs).get(name)
    else:
        told = name in needs
    if told is None or told is False:
        return None
    return told if isinstance(told, str) else f"Call {name}?"


def _response(left: Sequence[str], allowed: Collection[Kind]) -> Response:
    """What an answer about these calls is."""

    def check(answer: Any) -> dict[str, HumanDecision]:
        given: Any = answer
        if isinstance(answer, (list, tuple)):
            several = cast("Sequence[Any]", answer)
            if len(several) != len(left):
                raise ValueError(f"{len(left)} calls wait for a decision, and {len(several)} were given")
            given = dict(zip(left, several, strict=True))
        elif len(left) == 1 and not (isinstance(answer, Mapping) and left[0] in answer):
            given = {left[0]: cast("Any", answer)}
        if not hasattr(given, "items") or not given:
            raise ValueError(f"decide about at least one of the calls {', '.join(left)}, by id")
        decisions: dict[str, HumanDecision] = {}
        for ident, each in cast("Mapping[Any, Any]", given).items():
            if ident not in left:
                raise ValueError(f"no call {ident!r} waits for a decision; these do: {', '.join(left)}")
            decision = HumanDecision.parse(each)
            if decision.type not in allowed:
                raise ValueError(f"{decision.type} isn't allowed for {ident}: {', '.join(sorted(allowed))}")
            decisions[ident] = decision
        return decisions

    schema = {
        "title": "Decisions",
        "type": "object",
        "properties": {ident: {"enum": sorted(allowed)} for ident in left},
        UNSURE: True,
    }
    return Response(check, lambda: schema)


def _outcome(known: Mapping[str, Mapping[str, Any]], decided: Mapping[str, HumanDecision]) -> Reviewed:
    calls: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for ident, given in known.items():
        call, decision = dict(given), decided.get(ident)
        if decision is None or decision.type == "approve":
            calls.append(call)
        elif decision.type == "edit":
            call["args" if "args" in call else "arguments"] = dict(decision.arguments or {})
            call["name"] = decision.name or call.get("name")
            calls.append(call)
        else:
            rejected.append(call)
            reason = decision.message or f"Somebody rejected the call of {call.get('name')}. It was not made."
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": ident,
                    "name": call.get("name"),
                    "content": reason,
                    "status": "error",
                }
            )
    return Reviewed(calls, rejected, messages, dict(decided))


__all__ = ["HumanDecision", "Reviewed", "review_tool_calls"]
