"""`import juncture` is light: what only some graphs need is imported when they need it."""

import subprocess
import sys

import pytest

from tests.house._source import SRC

HEAVY = [
    "asyncio",
    "concurrent.futures",
    "httpx",
    "langchain_core",
    "langgraph",
    "msgspec",
    "multiprocessing",
    "pydantic",
    "sqlite3",
    "ssl",
]


@pytest.mark.skipif(not (SRC / "__init__.py").exists(), reason="juncture/__init__.py is not written yet")
def test_importing_juncture_imports_nothing_heavy():
    # -I: no user site, no PYTHON… variables; site's own start-up is subtracted, as a .pth file may import things.
    program = (
        "import sys; before = set(sys.modules); import juncture; "
        f"print(*[m for m in {HEAVY} if m in sys.modules and m not in before])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
