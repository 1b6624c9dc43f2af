"""Juncture against LangGraph: what a step, a checkpoint, a long chat, a fan-out, a chunk, a call and an import cost.

``python -m bench`` prints one table: row, LangGraph, Juncture, ratio, target, met or not. Figures are microseconds
unless the cell says otherwise; a ratio is LangGraph's figure over Juncture's, so that larger is better for Juncture.

Method:

* **The same program.** Each graph is built by one function of `bench.graphs`, which takes the library as an argument.
  The one difference is ``inline=True``, which LangGraph doesn't have. Nodes do next to nothing
  (``{"n": state["n"] + 1}``), so that what is left is the engine. Every call checks its own result: a library
  that skips work fails its row instead of winning it.
* **The same process, in turns.** A warm-up call of each, then blocks A B A B …, so that a slower or a busier minute
  of the machine hits both. A block is as many calls as take 5 ms, at least one; its figure is their mean.
* **Minima.** A case's figure is its smallest block; noise only ever adds. Both libraries get the same number of
  blocks: as many as fit in the case's time, at least 5. Ratios are of minima.
* **The same collector.** Python's garbage collector is on, with its default thresholds: collecting what a library
  leaves behind is part of its cost. Before a case everything alive is frozen and before each block all garbage is
  collected, so that neither library pays for what the other left. (It spares LangGraph the scans of its own larger
  heap that its users pay for; ratios err on LangGraph's side.)
* **Async** cases of both run on one event loop that lives as long as the case; time is taken inside it, so that
  starting a loop isn't counted.
* **Import** is measured in fresh interpreters, one after the other in turns, after a first one that writes bytecode.
  Time is that of the import statement; memory is the peak of resident memory afterwards, as the kernel counts it.
* **Files** stand on the project's disk. Both libraries' SQLite savers run with the same ``synchronous``, and each with
  its library's own default of when a step counts as saved.
* **Chats** are had in a fresh interpreter each, once: sizes don't vary, and a turn's figure is a minimum of ten.
  LangGraph's long ones take minutes and gigabytes, and are had only with ``--long``.
* A **difference** (a subgraph call over the same nodes inlined, a step without the fixed cost of a call) is taken
  between minima.
* LangGraph's tracing is off and its variables are removed from the environment.

Modules: `libraries` names of both; `graphs` the programs; `cases` what one call does; `rows` the table's rows and
targets; `measure` blocks and minima; `stores` SQLite files; `chat` long chats; `footprint` fresh interpreters; `floor`
the hand-written loop; `table` the output.
"""
