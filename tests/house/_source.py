"""Where the project's own files are, and how the house tests read them."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "juncture"

_NOT_OURS = {".git", ".venv", "build", "dist", "node_modules", "__pycache__"}


def modules() -> list[Path]:
    """Every module of the package, in a fixed order."""
    return sorted(SRC.rglob("*.py"))


def name_of(path: Path) -> str:
    """The path as it is shown in a test's id and in a failure."""
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def tracked() -> list[Path]:
    """Every file that git tracks; without git, every file that isn't made by a tool."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return sorted(_walk(ROOT))
    paths = (ROOT / name for name in listed.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]  # one that was deleted is still listed until the commit


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if path.name not in _NOT_OURS and not path.name.endswith("_cache"):
                yield from _walk(path)
        else:
            yield path
