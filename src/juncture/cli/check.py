"""`juncture check`: what is wrong or suspicious about a graph, without running it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated
from warnings import catch_warnings, simplefilter

import typer

from juncture.cli.exits import ExitCode
from juncture.cli.lines import Output, own_output
from juncture.cli.loading import find_graph
from juncture.cli.options import GraphArgument, TracebackOption
from juncture.cli.reporting import reported
from juncture.cli.saying import say
from juncture.errors import GraphCheckWarning
from juncture.graph.check_findings import Finding


def check(
    graph: GraphArgument,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON array.")] = False,
    traceback: TracebackOption = False,
) -> None:
    """Check a graph without running it.

    Prints a line and a remedy for every finding.

    Exit codes: 0 no findings but notes, 1 errors or warnings, 2 wrong usage, or the graph can't be loaded.
    """
    with reported(with_traceback=traceback), own_output() as output:
        with catch_warnings():
            simplefilter(
                "ignore", GraphCheckWarning
            )  # of what is compiled meanwhile: it is among the findings
            found = find_graph(graph)
            findings = asyncio.run(found.graph()).check()
        if as_json:
            output.line(findings)
        else:
            _print(output, findings)
            say(_summary(found.spec, findings))
    if any(finding.severity != "note" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _print(output: Output, findings: Sequence[Finding]) -> None:
    for each in findings:
        output.text(f"{each.severity} {each.code}: {each.place}: {each.message}\n    {each.remedy}")


def _summary(spec: str, findings: Sequence[Finding]) -> str:
    counts = dict.fromkeys(("error", "warning", "note"), 0)
    for finding in findings:
        counts[finding.severity] += 1
    told = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items() if count]
    return f"{spec}: {', '.join(told) or 'no findings'}"
