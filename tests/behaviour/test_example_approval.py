"""`examples/approval.py` does what it says: each command is a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "approval.py"
pytestmark = pytest.mark.timeout(60)


def test_two_reviewers_answer_in_processes_of_their_own(tmp_path):
    def run(*words: str) -> list[str]:
        command = [sys.executable, str(PROGRAM), *words, "--thread", "trip", "--db", str(tmp_path / "a.db")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    boss, finance = "boss is asked: train to Oslo for 250?", "finance is asked: train to Oslo for 250?"
    assert run("submit") == [boss, finance]
    assert run("pending") == [boss, finance]
    assert run("answer", 'finance={"decision": "edit", "amount": 180}') == [boss]
    refused = run("answer", 'boss={"decision": "perhaps"}')
    assert "expected one of 'approve', 'edit', 'reject', got 'perhaps'" in refused[0]
    assert refused[1:] == [boss]
    assert run("answer", 'boss={"decision": "reject", "reason": "too dear"}') == ["rejected (boss: too dear)"]


def test_the_smallest_edit_holds(tmp_path):
    sys.path.insert(0, str(PROGRAM.parent))
    import approval

    with approval.build("memory:") as graph:
        graph.invoke({"what": "train", "amount": 9}, thread_id="t")
        done = graph.resume(
            "t", {"boss": {"decision": "approve"}, "finance": {"decision": "edit", "amount": 7}}
        )
    assert (done["amount"], done["outcome"]) == (7, "approved: 7")
