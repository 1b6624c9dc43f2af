"""Ending tries that have timed out: async ones are cancelled and awaited, sync ones abandoned (a thread can't be killed).

An abandoned try is booked as ended at once. Whatever it still does is dropped: its outcome and its calls aren't heard of,
and what it asks of its run raises `Cancelled` (`Driver.stops`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from juncture.drivers.run import Program
from juncture.engine.effects import Called, Event, Stopped
from juncture.engine.task import Task

if TYPE_CHECKING:
    from juncture.drivers.base import Driver
    from juncture.drivers.timers import Limit


def expire(driver: Driver, limit: Limit) -> None:
    """Ends a try that has reached its limit, with everything under it. It is heard of as timed out."""
    program, task = limit.program, limit.task
    limit.expired = True
    end_calls(driver, program, task)
    running = (program.live or {}).get(task)
    if isinstance(running, Program):
        for entry in [entry for entry in driver.ready if entry[0] is running]:
            driver.ready.remove(entry)
        driver.close_program(running)
        abandon_all(driver, running)
    elif isinstance(running, bool) and driver.on_worker(task):
        abandon(driver, program, task)
    else:
        driver.halt_inner(task)
        driver.stop_task(program, task)


def end_calls(driver: Driver, program: Program, task: Task) -> None:
    """Ends the calls of a try that has timed out, and lets go on whoever waits for one."""
    for future in list(driver.calls):
        if task in (future.caller.task, future.caller.task.parent):
            future.settle(Stopped(future.caller.task))
    driver.cancel_calls(program, task)
    for call, running in list((program.live or {}).items()):
        if call.parent is task and isinstance(running, bool) and driver.on_worker(call):
            abandon(driver, program, call)


def abandon(driver: Driver, program: Program, task: Task) -> None:
    """Waits no longer for a task on a worker."""
    driver.abandoned.add(task)
    driver.pool.abandon()
    driver.halt_inner(task)
    driver.active -= 1
    told = driver.heard(program, Stopped(task))
    if told is not None:
        driver.ready.append(told)


def abandon_all(driver: Driver, program: Program) -> None:
    """Waits no longer for any task on a worker under a program that was closed."""
    for task, running in list((program.live or {}).items()):
        if isinstance(running, Program):
            abandon_all(driver, running)
        elif isinstance(running, bool) and driver.on_worker(task):
            abandon(driver, program, task)


def is_forgotten(driver: Driver, event: Event) -> bool:
    """Whether an event comes from an abandoned try, so that nobody wants to hear of it."""
    if event.task in driver.abandoned:
        return True
    if isinstance(event, Called) and event.reply.caller.task in driver.abandoned:
        event.reply.settle(Stopped(event.task))
        return True
    return False


__all__ = ["abandon", "abandon_all", "expire", "is_forgotten"]
