"""The laws of a store (`juncture.store.base`), as checks that run on any store.

In a test of your own store, with pytest or without::

    from juncture.testing.store_conformance import LAWS, check_store

    @pytest.mark.parametrize("law", LAWS, ids=str)
    def test_law(law, tmp_path):
        law(lambda **options: MyStore(tmp_path / "memory", **options))

    check_store(lambda **options: MyStore(new_folder(), **options))      # all of them, in one go

A law opens a new, empty store for itself and closes it. It may ask for one with ``ttl`` and ``clock`` (a function that
gives seconds, by which items run out), or with ``index``; leave out the laws with `needs` that your store hasn't. Each is
written once and runs twice: with the sync methods, and with their async twins. A broken law raises `AssertionError`, or
the error that the store shouldn't have raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from juncture.testing.store_conformance import item_laws, search_laws
from juncture.testing.store_conformance.face import STRANGE, Face, Law, MakeStore, embed

__all__ = ["LAWS", "STRANGE", "Face", "Law", "MakeStore", "check_store", "embed"]

LAWS: list[Law] = [*item_laws.LAWS, *search_laws.LAWS]
"""Every law, once for the sync methods and once for the async ones."""


def check_store(make_store: MakeStore, laws: Sequence[Law] | None = None) -> None:
    """Checks every law, and says all that are broken.

    Args:
        make_store: Makes a new, empty store at each call.
        laws: Only these.

    Raises:
        ExceptionGroup: One error for each broken law, with the law's name as a note.
    """
    broken: list[Exception] = []
    for law in LAWS if laws is None else laws:
        try:
            law(make_store)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told at the end
            error.add_note(f"law {law}")
            broken.append(error)
    if broken:
        raise ExceptionGroup(f"{len(broken)} laws of a store are broken", broken)
