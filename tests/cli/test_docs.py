"""What the page on the command line shows is what happens.

A ``console`` block holds commands, each after ``$``, and what they print; ``…`` stands for anything within a line.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house._source import ROOT
from tests.house.test_docs_code import Block, blocks_of

PAGE = (ROOT / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
BLOCKS = [block for block in blocks_of(PAGE) if block.language == "console"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_a_block_shows_what_its_commands_print(block: Block, folder: Path):
    (flow,) = (each for each in blocks_of(PAGE) if each.language == "python")
    (folder / "flow.py").write_text(flow.source, encoding="utf-8")
    commands = [line.removeprefix("$ ") for line in block.text if line.startswith("$ ")]
    expected = [line for line in block.text if not line.startswith("$ ")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(commands)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PATH": path, "PYTHONUTF8": "1"},
        text=True,
    )
    pattern = "\n".join(re.escape(line).replace("…", "[^\n]*") for line in expected)
    assert re.fullmatch(pattern, done.stdout.rstrip("\n")), done.stdout
