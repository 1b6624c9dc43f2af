"""What a type checker knows of tasks: checked by mypy and basedpyright, never run."""

from typing import assert_type

from juncture import CallFuture, RetryPolicy, task


@task
def double(x: int) -> int:
    return 2 * x


@task
async def name(x: int, *, prefix: str = "") -> str:
    return f"{prefix}{x}"


@task(name="half", retry_policy=RetryPolicy(max_attempts=2))
def halve(x: int) -> float:
    return x / 2


@task(name="later")
async def later(x: int) -> float:
    return x / 2


def calls() -> None:
    assert_type(double(1), CallFuture[int])
    assert_type(double(x=1).result(), int)
    assert_type(name(1, prefix="n").result(), str)
    assert_type(halve(1).result(), float)


async def async_calls() -> None:
    assert_type(await double(1), int)
    assert_type(await name(1), str)
    assert_type(await later(1), float)
    double("1")  # type: ignore[arg-type] # refused: that is the point
