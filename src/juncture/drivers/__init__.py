"""Performing what the engine asks for: calling user code, threads, event loops, saving.

* `context`  the one context variable, and what running user code can ask of its run
* `attempt`  one try of one task: the only place where user code is called
* `run`      what one call of a graph shares; the programs of it and its nested graphs
* `base`     what both drivers do alike: everything that never waits
* `sync`     waits by blocking; workers
* `aio`      waits by awaiting
* `pool`     workers;  `loops`  event loops for async nodes under a sync run
* `calls`    calls made inside tasks, and their futures

A driver decides nothing about meaning. It steps programs (`engine.run.Loop.program`), one at a time.
"""
