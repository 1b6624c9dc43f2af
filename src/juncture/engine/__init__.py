"""The semantics of a run: pure functions, and the one loop that puts them in sequence.

Nothing here does I/O, reads a clock, starts a thread or knows an event loop; import-linter checks it.
Read `run` first: it is the whole sequence of a run on one screen. Every other module is a part of it:

* `tables`   what `compile()` knows about a graph
* `state`    what is committed, and what a checkpoint holds
* `task`     one node to run in one step
* `effects`  what the loop asks of its driver, and what it is told
* `returns`  what a node returned, as writes and routes
* `routing`  where a task leads
* `commit`   writes merged into the state
* `plan`     which tasks a state is due
* `values`   copies at the border between user code and the state
"""
