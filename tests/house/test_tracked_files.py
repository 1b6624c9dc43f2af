"""What may stand in the project's files: no lock files, no registry's address, no machine's paths, no bare ignores."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.house._source import name_of, tracked

LOCK_FILES = {
    "Pipfile.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pylock.toml",
    "uv.lock",
    "yarn.lock",
}

# A lock file is refused because of the addresses in it; so is the address by itself, wherever it stands.
REGISTRY = re.compile(
    r"\b(?:[\w-]+\.)*(?:pypi|pythonhosted|npmjs|crates|rubygems)\.(?:org|com|io|dev|net)\b"
    r"|\b(?:registry|proxy)\.[\w-]+\.(?:org|com|io|dev|net)\b"
    r"|\bdeb\.debian\.(?:org|net)\b"
    r"|--(?:extra-)?index-url\s*=?\s*\w+:",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.\-/])/(?:root|work|home/\w+)/")

# `noqa`, `type: ignore` and their like name their rule and say why, after it or in a comment on the line above.
IGNORE = re.compile(
    r"\s*(?:noqa|(?:type|pyright|mypy):\s*ignore|pragma:\s*no (?:cover|branch))"
    r"(?P<rule>:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[\w, -]+\]|-errors\b)?(?P<rest>.*)"
)


def texts() -> list[Path]:
    return [path for path in tracked() if b"\0" not in path.read_bytes()[:8192]]


def test_no_lock_file_is_tracked():
    assert [name_of(path) for path in tracked() if path.name in LOCK_FILES] == []


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["registry", "machine"])
def test_no_foreign_address_is_tracked(pattern: re.Pattern[str]):
    found = [
        f"{name_of(path)}:{number}: {match[0]}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found, "\n".join(found)


def test_addresses_are_recognised():
    # Put together here, so that this file names none itself.
    for name, domain in (
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("registry.npmjs", "org"),
        ("proxy.x", "io"),
    ):
        assert REGISTRY.search(f"see https://{name}.{domain}/simple")
    assert REGISTRY.search("pip install --extra-index-url" + " https://example.com")
    assert not REGISTRY.search("https://peps.python.org/pep-0735/ and a proxy.")
    assert MACHINE_PATH.search("in " + "/".join(["", "root", "project"]))
    assert not MACHINE_PATH.search("docs/home/page and a/work/list")


def bare_ignores(source: str) -> list[tuple[int, str]]:
    """Line and text of every ignore comment that doesn't name its rule, or gives no reason."""
    bare: list[tuple[int, str]] = []
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        pieces = [(piece, IGNORE.match(piece)) for piece in token.string.split("#")[1:]]
        ignores = [match for _, match in pieces if match is not None]
        if not ignores:
            continue
        number = token.start[0]
        words = " ".join(match["rest"] if match else piece for piece, match in pieces)
        reasoned = len(re.findall(r"[^\W\d_]{2,}", words)) >= 2 or lines[number - 2].lstrip().startswith("#")
        if not reasoned or any(match["rule"] is None and "pragma" not in match[0] for match in ignores):
            bare.append((number, token.string))
    return bare


def test_every_ignore_says_what_and_why():
    found = [
        f"{name_of(path)}:{line}: {text}"
        for path in tracked()
        if path.suffix == ".py"
        for line, text in bare_ignores(path.read_text(encoding="utf-8"))
    ]
    assert not found, "name the rule and say why:\n" + "\n".join(found)


def test_bare_ignores_are_found():
    mark = "#"
    source = f"""
a = 1  {mark} noqa: E731
b = 1  {mark} noqa  because it must be
c = 1  {mark} noqa: E731 - the name is shown in a traceback
d = 1  {mark} type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the point of the test
e = 1  {mark} type: ignore[arg-type]
{mark} The stub says int, and that is wrong.
f = 1  {mark} pyright: ignore[reportArgumentType]
g = 1  {mark} pragma: no cover
"""
    assert [line for line, _ in bare_ignores(source)] == [2, 3, 6, 9]
