"""How one key of the state is stored and merged. Pure: no I/O, no clock, no threads."""
