"""Counting documents (Markdown, Python, HTML, any other text), and showing the counts as a report.

Nothing here knows of graphs: it is the work that `digest.py` spreads over one. Only the standard library.
"""

import io
import math
import re
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

LARGEST = 10_000_000
"""Bytes. What is larger is not read."""
SHORTEST_TERM = 4
"""Letters. Shorter words don't tell what a document is about."""
STOP_WORDS = frozenset(
    """about also been each from have into just like made make more most much only other over same should some such
    than that their them then there these they this under very well were what when where which while will with
    without would your""".split()  # noqa: SIM905 - as a list it would take sixty lines
)
"""They don't either."""
TELLING = 5
"""How many terms stand for a document."""

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]* *$|\Z)", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^ {0,3}#{1,6}\s+\S|^\w[^\n]*\n(?:=+|-+) *$", re.MULTILINE)
LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\n]+\)")
URL = re.compile(r"https?://[^\s<>\"'()\[\]]+")
WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
SPECIAL = re.compile(r"([\\`*_\[\]<|])")


@dataclass(frozen=True)
class Document:
    """One document, counted. Where `problem` says something, it couldn't be read and the counts are 0."""

    name: str
    problem: str = ""
    words: int = 0
    headings: int = 0
    links: int = 0
    code_blocks: int = 0
    terms: dict[str, int] = field(default_factory=dict)
    """Term -> how often."""


def count(name: str, path: Path) -> Document:
    """The counts of one file.

    Raises:
        OSError, ValueError: It can't be read as text; the message is the reason.
    """
    if not path.is_file():
        raise OSError("not a readable file")  # a broken link, a pipe, a folder that can't be looked into
    if path.stat().st_size > LARGEST:
        raise OSError(f"larger than {LARGEST:,} bytes")
    source = path.read_bytes()
    if b"\0" in source:
        raise ValueError("binary")
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if not text.strip():
        raise ValueError("empty")
    counted, prose = FORMATS.get(path.suffix.lower(), of_text)(Document(name), text.replace("\r\n", "\n"))
    words = WORD.findall(URL.sub(" ", prose))
    terms = Counter(word.lower() for word in words if len(word) >= SHORTEST_TERM and word.isalpha())
    telling = {term: often for term, often in terms.items() if term not in STOP_WORDS}
    return replace(counted, words=len(words), terms=telling)


def of_text(document: Document, text: str) -> tuple[Document, str]:
    """Text of a format that isn't known: words and bare links."""
    return replace(document, links=len(URL.findall(text))), text


def of_markdown(document: Document, text: str) -> tuple[Document, str]:
    """Markdown: what is outside of code blocks."""
    prose, code_blocks = FENCE.subn("", text)
    headings = len(HEADING.findall(prose))
    prose, links = LINK.subn(r"\1", prose)
    links += len(URL.findall(prose))
    return replace(document, headings=headings, links=links, code_blocks=code_blocks), prose


def of_python(document: Document, text: str) -> tuple[Document, str]:
    """Python: the words of comments and docstrings; classes and functions count as headings."""
    parts, headings, starts = list[str](), 0, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts):
            parts.append(token.string)
        headings += token.type == tokenize.NAME and token.string in {"class", "def"}
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            starts = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    prose = "\n".join(parts)
    return replace(document, headings=headings, links=len(URL.findall(prose))), prose


class Page(HTMLParser):
    """What a page shows, and how often it uses which tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.shown, self.silent = Counter[str](), list[str](), 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Counts a tag; an anchor only if it leads somewhere."""
        self.tags[tag] += tag != "a" or any(name == "href" for name, _ in attrs)
        self.silent += tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        """After a script or a style, text shows again."""
        self.silent = max(0, self.silent - (tag in {"script", "style"}))

    def handle_data(self, data: str) -> None:
        """Keeps text that shows."""
        if not self.silent:
            self.shown.append(data)


def of_html(document: Document, text: str) -> tuple[Document, str]:
    """HTML: the words that the page shows."""
    page = Page()
    page.feed(text)
    page.close()
    headings = sum(page.tags[f"h{level}"] for level in range(1, 7))
    counted = replace(document, headings=headings, links=page.tags["a"], code_blocks=page.tags["pre"])
    return counted, " ".join(page.shown)


FORMATS = {".md": of_markdown, ".markdown": of_markdown, ".py": of_python, ".html": of_html, ".htm": of_html}


def by_telling_terms(documents: Sequence[Document]) -> list[tuple[Document, list[str]]]:
    """The documents with their most telling terms; those whose terms tell most come first.

    A term is weighed by tf-idf: more if its document uses it often, less if many documents use it.
    """
    spread = Counter(term for document in documents for term in document.terms)
    ranked = list[tuple[float, str, Document, list[str]]]()
    for document in documents:
        weight = {
            term: (1 + math.log(often)) * math.log((1 + len(documents)) / spread[term])
            for term, often in document.terms.items()
        }
        telling = sorted(weight, key=lambda term: (-weight[term], term))[:TELLING]
        ranked.append((-sum(weight[term] for term in telling), document.name, document, telling))
    return [(document, telling) for *_, document, telling in sorted(ranked, key=lambda entry: entry[:2])]


def as_markdown(
    title: str, ranked: Sequence[tuple[Document, Sequence[str]]], unread: Sequence[Document]
) -> str:
    """The report on documents, each with its telling terms, and on those that couldn't be read."""
    words = sum(document.words for document, _ in ranked)
    lines = [
        f"# Digest of {escaped(title)}\n",
        f"{len(ranked)} documents, {words:,} words; {len(unread)} not read.\n",
        "| | document | words | headings | links | code blocks | telling terms |",
        "|--:|---|--:|--:|--:|--:|---|",
    ]
    for place, (it, telling) in enumerate(ranked, 1):
        counts = f"{it.words} | {it.headings} | {it.links} | {it.code_blocks}"
        lines.append(f"| {place} | {escaped(it.name)} | {counts} | {', '.join(telling)} |")
    if unread:
        lines += ["\n## Not read\n", "| file | why |", "|---|---|"]
        lines += [f"| {escaped(it.name)} | {escaped(it.problem)} |" for it in unread]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text for one cell of a table, so that Markdown shows it as it is."""
    return SPECIAL.sub(r"\\\1", printable(text))


def printable(text: str) -> str:
    """The text on one line; what can't be shown, such as a byte of a name that isn't UTF-8, as a placeholder."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))
