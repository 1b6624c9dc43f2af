"""The one thread on which async code waits: order, errors, loops that come and go, forks, the end."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from juncture.savers.one_worker import OneWorker


@pytest.fixture
def worker():
    worker = OneWorker("one worker")
    yield worker
    worker.close()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "one worker"]


def run(coroutine):
    return asyncio.run(coroutine)


def test_calls_are_made_on_one_thread_in_the_order_in_which_they_came(worker):
    made = []

    async def use():
        calls = [
            worker.call(lambda number=number: (made.append(number), threading.get_ident())[1])
            for number in range(50)
        ]
        return set(await asyncio.gather(*calls))

    assert not threads(), "it begins with the first call"
    ran_on = run(use())
    assert made == list(range(50))
    assert ran_on == {thread.ident for thread in threads()}
    assert threading.get_ident() not in ran_on


def test_an_error_is_raised_where_the_call_is_awaited(worker):
    async def use():
        with pytest.raises(ZeroDivisionError):
            await worker.call(lambda: 1 / 0)
        with pytest.raises(SystemExit):
            await worker.call(sys.exit)
        return await worker.call(lambda: "still there")

    assert run(use()) == "still there"


def test_several_loops_use_it_at_once(worker):
    found = []

    async def use(name):
        found.extend(await asyncio.gather(*(worker.call(lambda: name) for _ in range(20))))

    users = [threading.Thread(target=run, args=(use(name),)) for name in "abc"]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert sorted(found) == sorted("abc" * 20)
    assert len(threads()) == 1


def test_a_call_that_nobody_awaits_any_more_is_made(worker):
    may_go, made = threading.Event(), []

    async def use():
        first = asyncio.ensure_future(worker.call(lambda: may_go.wait(20)))
        second = asyncio.ensure_future(worker.call(lambda: made.append(1)))
        second.cancel()
        first.cancel()
        may_go.set()
        await worker.call(lambda: None)
        with pytest.raises(asyncio.CancelledError):
            await first

    run(use())
    assert made == [1]


def test_a_loop_that_is_gone_is_told_nothing(worker):
    may_go, made = threading.Event(), threading.Event()

    async def leave():
        worker.call(lambda: may_go.wait(20))
        worker.call(made.set)

    run(leave())
    may_go.set()
    assert made.wait(20)

    async def use():
        return await worker.call(lambda: "still there")

    assert run(use()) == "still there"


def test_closing_ends_the_thread_after_what_it_was_given(worker):
    may_go, made = threading.Event(), []

    async def use():
        calls = [worker.call(lambda: may_go.wait(20)), worker.call(lambda: made.append(1))]
        (thread,) = threads()
        worker.close()
        worker.close()
        may_go.set()
        await asyncio.gather(*calls)
        thread.join(20)
        assert not thread.is_alive()

    run(use())
    assert made == [1]

    async def anew():
        return await worker.call(lambda: "anew")

    assert run(anew()) == "anew"


def test_the_thread_ends_with_its_owner_and_keeps_nothing_alive():
    class Result:
        pass

    owners = [OneWorker("one worker")]

    async def use():
        result = await owners[0].call(Result)
        await owners[0].call(lambda: None)
        return weakref.ref(result)

    result = run(use())
    (thread,) = threads()
    gc.collect()
    assert result() is None
    owners.clear()
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


def test_the_child_of_a_fork_has_a_thread_of_its_own():
    script = """if True:
        import asyncio, os, threading, warnings
        from juncture.savers.one_worker import OneWorker
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks beside threads
        worker, going = OneWorker("one worker"), True
        async def use():
            return await worker.call(os.getpid)
        async def keep_busy():
            while going:
                await use()
        user = threading.Thread(target=lambda: asyncio.run(keep_busy()))
        user.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                loop = asyncio.new_event_loop()  # the parent's may be half made
                os._exit(loop.run_until_complete(use()) != os.getpid())
            assert os.waitpid(child, 0)[1] == 0
        going = False
        user.join()
        assert asyncio.run(use()) == os.getpid()
        print("all alive")
    """
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert (found.stdout, found.returncode) == ("all alive\n", 0), found.stderr
