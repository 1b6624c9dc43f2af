"""Answers to open questions: from ``--answer ID=JSON``, or asked for on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from juncture.cli.asking import ask
from juncture.cli.inputs import read_options, read_text
from juncture.cli.reporting import question_text
from juncture.engine.answers import misfit
from juncture.errors import ConfigError
from juncture.types import Answers, Interrupt

PROMPT = "answer (JSON or text; nothing leaves it open)> "


def read_answers(given: Sequence[str]) -> dict[str, Any]:
    """Answers by the id or key of their question, as they were typed; by an empty name where there is only one question.

    Raises:
        ConfigError: One has no ``=``, isn't JSON, or stands twice.
    """
    named: list[tuple[str, str]] = []
    for each in given:
        name, sign, text = each.partition("=")
        if not sign:
            raise ConfigError(
                f"--answer {each!r} isn't ID=JSON: the id or key of a question, and its answer. For the only open question, "
                "=JSON is enough"
            )
        if name in dict(named):
            raise ConfigError(f"--answer {name}=… stands twice, and a question has one answer")
        named.append((name, text))
    values = read_options([(f"--answer {name}=…", text) for name, text in named])
    return {name: value for (name, _), value in zip(named, values, strict=True)}


def fitting(answers: Mapping[str, Any], questions: Sequence[Interrupt]) -> Answers:
    """Answers by the id of their question.

    Raises:
        ConfigError: One fits no open question, or several.
    """
    found = Answers()
    for name, value in answers.items():
        fits = [q.id for q in questions if (name in (q.id, q.key) if name else True)]
        if len(fits) != 1:
            problem = "no question is open that it names" if not fits else "several open questions fit"
            listed = "\n".join(question_text(each) for each in questions)
            raise ConfigError(f"--answer {name}=…: {problem}. Answer by id:\n{listed}")
        if fits[0] in found:
            raise ConfigError(f"--answer: question {fits[0]} is answered twice, by its id and by its key")
        found[fits[0]] = value
    return found


def asked(questions: Sequence[Interrupt]) -> Answers:
    """What whoever sits at the terminal answers. An empty line leaves a question open, the end of input all that follow."""
    from juncture.cli.drawing import console_on, draw_question

    console, found = console_on(sys.stdout), Answers()
    for question in questions:
        draw_question(console, question)
        while True:
            text = ask(PROMPT, sys.stdout)
            if text is None:
                console.print()
                return found
            if not text:
                break
            try:
                found[question.id] = _fitting(question, _understood(text))
            except ConfigError as error:
                console.print(str(error), style="red", markup=False)
            else:
                break
    return found


def _fitting(question: Interrupt, answer: Any) -> Any:
    """The answer.

    Raises:
        ConfigError: It can't be what the question asks for.
    """
    schema = question.response_schema
    problem = None if schema is None else misfit(schema, answer)
    if problem is not None:
        raise ConfigError(problem)
    return answer


def _understood(text: str) -> Any:
    """What is typed is JSON if it can be, and text otherwise; but what begins like JSON has to be some.

    Raises:
        ConfigError: It begins like JSON, and isn't.
    """
    try:
        return read_text("the answer", text)
    except ConfigError:
        if text[0] in '{["':
            raise
        return text
