"""Whether a failed try is followed by another, and when."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.engine.retry import delay_before_retry, is_transient, retries
from juncture.errors import (
    ConfigError,
    HeadMovedError,
    InternalError,
    InterruptError,
    InvalidUpdateError,
    PendingInterruptError,
    RoutingError,
)
from juncture.types import RetryPolicy
from tests.unit.engine.script import notes


class Flaky(Exception):
    pass


def delay(policies, error, attempt=1, jitter=0.25):
    return delay_before_retry(policies, error, attempt, lambda: jitter)


# ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_waits_grow_up_to_a_limit():
    policy = RetryPolicy(
        initial_interval=0.5, backoff_factor=3, max_interval=10, max_attempts=9, jitter=False
    )
    waits = [delay([policy], Flaky(), attempt) for attempt in range(1, 6)]
    assert waits == [0.5, 1.5, 4.5, 10, 10]


def test_jitter_is_added_to_the_limited_wait():
    policy = RetryPolicy(initial_interval=8, max_interval=2)
    assert delay([policy], Flaky(), 2, 0.75) == 2.75
    assert delay([RetryPolicy(initial_interval=8, max_interval=2, jitter=False)], Flaky(), 2, 0.75) == 2


def test_randomness_is_asked_for_only_where_it_is_used():
    def never():
        raise AssertionError("no jitter was asked for")

    assert delay_before_retry([RetryPolicy(jitter=False)], Flaky(), 1, never) == 0.5
    assert delay_before_retry([RetryPolicy()], Flaky(), 3, never) is None
    assert delay_before_retry([RetryPolicy()], KeyError(), 1, never) is None


@given(
    interval=st.floats(0, 10),
    factor=st.floats(0.1, 4),
    limit=st.floats(0, 20),
    attempt=st.integers(1, 6),
    jitter=st.floats(0, 1),
)
def test_a_wait_is_never_longer_than_the_limit_and_the_jitter(interval, factor, limit, attempt, jitter):
    policy = RetryPolicy(interval, factor, limit, max_attempts=7)
    wait = delay([policy], Flaky(), attempt, jitter)
    assert jitter <= wait <= limit + jitter


# ── whether ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("attempts", "attempt", "again"),
    [(3, 1, True), (3, 2, True), (3, 3, False), (1, 1, False), (3, 4, False)],
)
def test_attempts_count_the_first_one(attempts, attempt, again):
    error = Flaky()
    wait = delay([RetryPolicy(max_attempts=attempts, jitter=False)], error, attempt)
    assert (wait is not None) is again
    assert notes(error) == ("" if again else notes(error))
    if not again:
        assert f"not retried: attempt {attempt} of {attempts} was the last" in notes(error)


def test_the_first_policy_that_names_the_exception_decides():
    policies = [
        RetryPolicy(retry_on=KeyError, initial_interval=1, jitter=False),
        RetryPolicy(retry_on=LookupError, initial_interval=2, max_attempts=1, jitter=False),
        RetryPolicy(retry_on=Exception, initial_interval=3, jitter=False),
    ]
    assert delay(policies, KeyError()) == 1
    assert delay(policies, IndexError()) is None
    assert delay(policies, Flaky()) == 3


def test_a_note_says_which_policies_looked():
    error = KeyError("k")
    assert delay([RetryPolicy(retry_on=OSError), RetryPolicy()], error) is None
    assert (
        "not retried: no retry policy of the node names KeyError (<class 'OSError'>, the default)"
        in notes(error)
    )


def test_without_a_policy_nothing_is_said():
    error = Flaky()
    assert delay([], error) is None
    assert notes(error) == ""


@pytest.mark.parametrize(
    ("retry_on", "named"),
    [
        (Flaky, True),
        (Exception, True),
        (KeyError, False),
        ([KeyError, Flaky], True),
        ((Flaky,), True),
        ((), False),
        ([KeyError], False),
        (lambda error: str(error) == "f", True),
        (lambda error: None, False),
        (None, True),
    ],
)
def test_what_a_policy_names(retry_on, named):
    assert retries(RetryPolicy(retry_on=retry_on), Flaky("f")) is named


class Moved(HeadMovedError, ConnectionError):
    pass


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (Flaky(), True),
        (Exception(), True),
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (Moved(), True),
        (InternalError(), True),
        (OSError(), False),
        (FileNotFoundError(), False),
        (TimeoutError(), False),
        (ValueError(), False),
        (UnicodeError(), False),
        (TypeError(), False),
        (ZeroDivisionError(), False),
        (ModuleNotFoundError(), False),
        (KeyError(), False),
        (NameError(), False),
        (SyntaxError(), False),
        (NotImplementedError(), False),
        (RecursionError(), False),
        (ReferenceError(), False),
        (StopIteration(), False),
        (StopAsyncIteration(), False),
        (InvalidUpdateError(), False),
        (RoutingError(), False),
        (PendingInterruptError(), False),
        (InterruptError(), False),
        (ConfigError(), False),
    ],
)
def test_programming_errors_arent_transient(error, transient):
    assert is_transient(error) is transient


class Response:
    def __init__(self, status_code):
        self.status_code = status_code

    def __bool__(self):  # as the response of requests: false for every error
        return False


def http_error(library, name, status):
    """An error as the library has it, which may be missing here."""
    kind = type(
        name, (OSError if library == "requests" else Exception,), {"__module__": f"{library}.exceptions"}
    )
    error = kind("http")
    if status != "none":
        error.response = None if status is None else Response(status)
    return error


@pytest.mark.parametrize(
    ("library", "name", "status", "transient"),
    [
        ("httpx", "HTTPStatusError", 500, True),
        ("httpx", "HTTPStatusError", 503, True),
        ("httpx", "HTTPStatusError", 499, False),
        ("httpx", "HTTPStatusError", 404, False),
        ("httpx", "HTTPStatusError", None, False),
        ("requests", "HTTPError", 502, True),
        ("requests", "HTTPError", 404, False),
        ("requests", "HTTPError", None, True),
        ("requests", "HTTPError", "none", True),
        ("requests", "InvalidURL", 502, False),
        ("httpx", "ReadTimeout", None, True),
        ("elsewhere", "HTTPError", 404, True),
    ],
)
def test_http_errors_go_by_their_status(library, name, status, transient):
    assert is_transient(http_error(library, name, status)) is transient


def test_a_response_without_a_status_isnt_transient():
    error = http_error("httpx", "HTTPStatusError", 500)
    del error.response.status_code
    assert not is_transient(error)


def test_the_real_httpx_is_known():
    httpx = pytest.importorskip("httpx")
    assert isinstance(sys.modules["httpx"], ModuleType)
    request = httpx.Request("GET", "http://localhost")
    for status, transient in ((500, True), (404, False)):
        error = httpx.HTTPStatusError("", request=request, response=httpx.Response(status))
        assert is_transient(error) is transient
    assert is_transient(httpx.ConnectError(""))
