"""Digest a folder of documents: a first real graph. No key, no network.

    list ─┬─ one Send a file ─> read ─> rank ─> approve ─┬─> write
          └─ no files ─> end                             └─ rejected ─> end

`list` finds the files, `read` runs once for each of them, all at the same time, `rank` starts when the last is read,
`approve` pauses the run until a person has answered, `write` writes the report. The graph comes first, then the
command line; how a document is counted is in `documents.py`.

Run it: ./scripts/demo [FOLDER] [--approve | --reject] [--out FILE] [--thread ID] [--workers N]
Progress and the question go to standard error, the outcome to standard output.

Exit codes: 0 the report is written; 1 failed; 2 wrong usage; 3 paused, nobody was there to approve; 4 rejected;
5 there are no files; 130 stopped by Ctrl-C.
"""

import argparse
import operator
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from documents import Document, as_markdown, by_telling_terms, count, printable

from juncture import (
    END,
    START,
    Command,
    CompiledGraph,
    InMemorySaver,
    Interrupt,
    Overwrite,
    PendingInterruptError,
    Send,
    StateGraph,
    interrupt,
)
from juncture.savers import Saver, SqliteSaver
from juncture.types import StreamWriter

PROJECT = Path(__file__).resolve().parent.parent
SKIPPED = {"__pycache__", "node_modules", "site-packages"}


class Digest(TypedDict):
    """The state. A call gives the first three keys, the nodes the others; a node returns what it changes."""

    folder: str
    patterns: list[str]
    out: str
    files: list[str]
    documents: Annotated[list[Document], operator.add]
    """Each `read` returns one; they are added in the order in which they were sent, whoever ends first."""
    report: str
    approved: bool


class Job(TypedDict):
    """What one `read` is given instead of the state."""

    folder: str
    name: str


def list_files(state: Digest, writer: StreamWriter) -> dict[str, Any]:
    """The files that match the patterns; also folders that can't be looked into, so that the report names them."""
    folder, names = Path(state["folder"]), set[str]()
    for path in (found for pattern in state["patterns"] for found in folder.glob(pattern)):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") or part in SKIPPED for part in inside.parts)
        open_folder = os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)
        if not (hidden or open_folder or path == Path(state["out"])):
            names.add(str(inside))
    writer({"found": len(names)})
    return {"files": sorted(names), "documents": Overwrite([])}  # not added to those of an earlier digest


def one_read_each(state: Digest) -> list[Send] | Literal["__end__"]:
    """Where `list` leads to."""
    return [Send("read", Job(folder=state["folder"], name=name)) for name in state["files"]] or END


def read(job: Job, writer: StreamWriter) -> dict[str, Any]:
    """One document, counted; or why it couldn't be, for one bad file must not lose the others."""
    try:
        document = count(job["name"], Path(job["folder"], job["name"]))
    except Exception as error:  # noqa: BLE001 - whatever a parser stumbles over
        problem = getattr(error, "strerror", None) or str(error) or repr(error)
        document = Document(job["name"], problem)
    writer({"name": document.name, "problem": document.problem})
    return {"documents": [document]}


def rank(state: Digest) -> dict[str, Any]:
    """The report. Runs once: in the step after the one in which all `read` ran."""
    unread = [document for document in state["documents"] if document.problem]
    ranked = by_telling_terms([document for document in state["documents"] if not document.problem])
    return {"report": as_markdown(Path(state["folder"]).name, ranked, unread)}


def approve(state: Digest) -> Command[Literal["write", "__end__"]]:
    """Pauses in `interrupt`. When the answer is there this runs again from its top, and `interrupt` returns it."""
    answer = interrupt(
        {"question": f"Write this report to {printable(state['out'])}?", "report": state["report"]}
    )
    return Command(update={"approved": answer is True}, goto="write" if answer is True else END)


def write(state: Digest) -> None:
    """Writes the report: a node of its own, so that it happens once and only after the answer."""
    out = Path(state["out"])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(state["report"], encoding="utf-8")


def build(saver: Saver) -> CompiledGraph[Digest]:
    """The graph, which keeps its threads in `saver`."""
    graph: StateGraph[Digest] = StateGraph(Digest)
    graph.add_node("list", list_files)
    graph.add_node("read", read)
    graph.add_node("rank", rank)
    graph.add_node("approve", approve)
    graph.add_node("write", write)
    graph.add_edge(START, "list")
    graph.add_conditional_edges("list", one_read_each, ["read", END])
    graph.add_edge("read", "rank")
    graph.add_edge("rank", "approve")
    return graph.compile(checkpointer=saver)


def open_saver() -> InMemorySaver:
    """Where threads are kept: for as long as this program runs."""
    return InMemorySaver()


def open_file(out: Path) -> Saver:
    """Threads in a file beside the report: a paused one goes on with the next call of the program."""
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    return SqliteSaver(out.absolute().with_name(f".{printable(out.stem)}.threads.db"))


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────

WRITTEN, FAILED, PAUSED, REJECTED, NO_FILES, STOPPED = 0, 1, 3, 4, 5, 130


class Progress:
    """Shows what `list` and `read` send: one live line on a terminal, a line a file elsewhere."""

    def __init__(self) -> None:
        self.live, self.found, self.done = sys.stderr.isatty(), 0, 0

    def show(self, part: dict[str, Any]) -> None:
        """Shows one part of the stream."""
        if "found" in part:
            self.found = part["found"]
            return
        self.done += 1
        line = f"[{self.done}/{self.found}] {printable(part['name'])}"
        line += f": {part['problem']}" if part["problem"] else ""
        if self.live:
            line = "\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1]
        stays = not self.live or part["problem"] or self.done == self.found
        print(line, end="\n" if stays else "", file=sys.stderr, flush=True)


def follow(graph: CompiledGraph[Digest], given: Any, config: dict[str, Any]) -> tuple[Interrupt, ...]:
    """Runs the graph to its end or next pause, shows the progress, and gives the questions it paused for."""
    questions: tuple[Interrupt, ...] = ()
    progress = Progress()
    for mode, part in graph.stream(given, config, stream_mode=["custom", "updates"]):
        if mode == "custom":
            progress.show(part)
        elif "__interrupt__" in part:
            questions = part["__interrupt__"]
    return questions


def ask(question: dict[str, str]) -> bool | None:
    """The answer of the person at the terminal; None if there is none, or if they leave."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    print("", question["report"], question["question"], sep="\n", end=" [y/n] ", file=sys.stderr, flush=True)
    while line := sys.stdin.readline():
        if line.strip().lower() in {"y", "yes", "n", "no"}:
            return line.strip().lower().startswith("y")
        print("y or n?", end=" ", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return None


def run(options: argparse.Namespace, saver: Saver) -> int:
    """Digests, asks, and gives the exit code."""
    graph = build(saver)
    folder, out = os.path.abspath(options.folder or PROJECT), os.path.abspath(options.out)
    config = {
        "configurable": {"thread_id": printable(options.thread or folder)},
        "max_concurrency": options.workers,
    }
    patterns = ["**/*"] if options.folder else ["docs/**/*", "*.md"]
    try:
        questions = follow(graph, {"folder": folder, "patterns": patterns, "out": out}, config)
    except PendingInterruptError:  # this thread was left at the question
        questions = follow(graph, None, config)
    if not questions:
        print(f"There are no files in {printable(folder)}.")
        return NO_FILES
    answer = ask(questions[0].value) if options.answer is None else options.answer
    if answer is None:
        print("Paused: the report waits for approval. Run this again with --approve, or with --reject.")
        return PAUSED
    follow(graph, Command(resume=answer), config)
    print(f"The report is in {printable(out)}." if answer else "Rejected: nothing was written.")
    return WRITTEN if answer else REJECTED


def main(arguments: Sequence[str] | None = None, saver: Saver | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser("demo", description="Digests a folder of documents into a report.")
    parser.add_argument("folder", nargs="?", type=Path, help="default: the docs of this project")
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--approve", dest="answer", action="store_const", const=True, help="write")
    answers.add_argument("--reject", dest="answer", action="store_const", const=False, help="don't write")
    parser.add_argument(
        "--out", type=Path, default=PROJECT / "build" / "digest.md", help="default: %(default)s"
    )
    parser.add_argument("--thread", metavar="ID", help="default: the folder")
    parser.add_argument("--workers", type=int, default=8, metavar="N", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.folder and not options.folder.is_dir():
        parser.error(f"there is no folder {str(options.folder)!r}")
    if options.out.is_dir():
        parser.error(f"--out names a file to write, and {str(options.out)!r} is a folder")
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, not {options.workers}")
    try:
        return run(options, saver or open_file(options.out))
    except OSError as error:
        print(f"The report can't be written: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nStopped: nothing was written.", file=sys.stderr)
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
