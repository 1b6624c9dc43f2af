"""Marks for tests that compile faulty graphs on purpose.

`compile` warns of them, and a warning fails a test. The codes are named, so that a test whose graph gets another fault
fails all the same, and nothing is silenced for the graphs of other tests.
"""

import pytest

from juncture.graph.check_findings import CODES


def faulty(*codes: str) -> pytest.MarkDecorator:
    """Lets `compile` warn of faults with these codes; of any fault, if none is named."""
    assert CODES.keys() >= set(codes)
    which = "|".join(codes) or ".*"
    return pytest.mark.filterwarnings(f"ignore:.*, '({which})':juncture.GraphCheckWarning")
