"""What a type checker knows of tasks: checked by mypy and basedpyright, never run."""

from typing import assert_type

from juncture import (
    CallFuture,
    Command,
    Entrypoint,
    RetryPolicy,
    RunResult,
    Runtime,
    aonce,
    entrypoint,
    gather,
    once,
    task,
)


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


@entrypoint()
def flow(x: int, *, previous: str | None = None) -> str:
    assert_type(gather(double(x), name(x)).result(), tuple[int, str])
    assert_type(once("pay", lambda key: len(key)), int)
    return previous or str(x)


@entrypoint("memory:", context_schema=bytes)
async def later_flow(x: list[int], runtime: Runtime[bytes]) -> float:
    async def pay(key: str) -> float:
        return 1.0

    assert_type(await gather(*[double(n) for n in x]), tuple[int, ...])
    assert_type(await aonce("pay", pay), float)
    return sum(x) / 2


@entrypoint()
def saving(x: int, *, previous: bytes | None = None) -> entrypoint.final[str, bytes]:
    return entrypoint.final(value="returned", save=previous or b"saved")


@entrypoint()
async def saving_later(x: int) -> entrypoint.final[str, bytes]:
    final = entrypoint.final(value="returned", save=b"saved")
    assert_type(final.value, str)
    assert_type(final.save, bytes)
    return final


def entrypoints() -> None:
    assert_type(flow, Entrypoint[int, str, None])
    assert_type(flow.invoke(1), RunResult[str])
    assert_type(flow.invoke(1).value, str)
    assert_type(flow.invoke(Command(resume=1), thread_id="1").value, str)
    assert_type(saving.invoke(1).value, str)
    assert_type(saving_later.invoke(1).value, str)
    assert_type(later_flow.invoke([1], thread_id="1", context=b"").value, float)
    flow.invoke("1")  # type: ignore[call-overload] # refused: that is the point


async def async_entrypoints() -> None:
    assert_type((await flow.ainvoke(1)).value, str)
    assert_type((await later_flow.ainvoke([1])).value, float)
