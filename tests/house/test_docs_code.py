"""Every Python block of README.md and docs/**/*.md runs, page by page, top to bottom, in one namespace a page.

* ` ```python ` is run. What it prints is compared with an ` ```output ` block, or with a ` ```text ` block if nothing
  but blank lines stands between the two. Both belong to the nearest Python block above them.
* ` ```python no-run ` is not run. An HTML comment on the line above it, or a comment as its first line, says why.
* Other spellings of the language (`py`, `python3`, `pycon`, `{code-block} python`) are refused: they would escape.

A page runs in an empty folder of its own, so that files it writes don't litter the project.
"""

import contextlib
import io
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from tests.house._source import ROOT, name_of

PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>[^`]*)$")
_ESCAPES = re.compile(r"^(?:py|py3|python3|pycon|ipython\d?|\{(?:code|code-block|sourcecode)\}\s*py.*)$")


@dataclass
class Block:
    """A fenced block: its language as written, the line of its first line of text, and what is directly above."""

    language: str
    line: int
    above: str
    text: list[str] = field(default_factory=list[str])

    @property
    def source(self) -> str:
        return "\n".join(self.text) + "\n"


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks: list[Block] = []
    opened: tuple[str, str] | None = None  # indent and ticks of the block that we are in
    above = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened = (fence["indent"], fence["ticks"])
                blocks.append(Block(fence["language"].strip(), number + 1, above))
            elif line.strip():
                above = line.strip()
        elif fence is not None and fence["ticks"].startswith(opened[1]) and not fence["language"].strip():
            opened, above = None, "```"
        else:
            blocks[-1].text.append(line.removeprefix(opened[0]))
    assert opened is None, "the last block isn't closed"
    return blocks


def refuse_escapes(block: Block, place: str) -> None:
    """Fail on a block that looks like Python but wouldn't be run, and on one that is left out without a reason."""
    assert not _ESCAPES.match(block.language), f"{place}: write ```python, not ```{block.language}"
    words = block.language.split()
    if words[:1] != ["python"]:
        return
    assert words in (["python"], ["python", "no-run"]), f"{place}: only `no-run` may follow ```python"
    if "no-run" in words:
        first = block.text[0].strip() if block.text else ""
        assert block.above.startswith("<!--") or first.startswith("#"), (
            f"{place}: no-run needs a comment saying why"
        )


def run_page(path: Path, page: str, module: ModuleType) -> int:
    """Run the blocks of a page in the module's namespace; how many ran. Lines in a traceback are the page's."""
    ran = 0
    printed: str | None = None
    for block in blocks_of(page):
        place = f"{path}:{block.line}"
        refuse_escapes(block, place)
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.source, str(path), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, vars(module))
            printed, ran = output.getvalue(), ran + 1
        elif block.language == "output" or (block.language == "text" and block.above == "```"):
            assert printed is not None, f"{place}: there is no Python block above this output"
            assert printed.rstrip() == block.source.rstrip(), (
                f"{place}: the block above printed something else"
            )
    return ran


@pytest.fixture
def page_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> ModuleType:
    # A real module: annotations of the page's schemas are resolved through sys.modules.
    module = ModuleType("docs_" + re.sub(r"\W+", "_", request.node.name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    return module


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_code_of_a_page_runs(path: Path, page_module: ModuleType):
    run_page(path, path.read_text(encoding="utf-8"), page_module)


def test_blocks_share_a_namespace_and_output_is_compared(page_module: ModuleType):
    page = "```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\nwords\n\n```text\nfree\n```\n"
    assert run_page(Path("page.md"), page, page_module) == 2
    with pytest.raises(AssertionError, match=r"page.md:14: the block above printed something else"):
        run_page(
            Path("page.md"),
            page.replace("```text\n1", "\n\n```output\n2").replace("x = 1\n", "x = 3\n"),
            page_module,
        )


@pytest.mark.parametrize(
    "page",
    [
        "```py\nx\n```\n",
        "```python3\nx\n```\n",
        "```{code-block} python\nx\n```\n",
        "```python no-run\nx\n```\n",
    ],
)
def test_code_does_not_escape(page: str, page_module: ModuleType):
    with pytest.raises(AssertionError):
        run_page(Path("page.md"), page, page_module)


def test_code_that_says_why_is_left_out(page_module: ModuleType):
    page = "<!-- needs a key -->\n```python no-run\nx\n```\n```python no-run\n# needs a key\nx\n```\n"
    assert run_page(Path("page.md"), page, page_module) == 0


def test_a_failing_block_fails(page_module: ModuleType):
    with pytest.raises(ZeroDivisionError):
        run_page(Path("page.md"), "```python\n1 / 0\n```\n", page_module)
