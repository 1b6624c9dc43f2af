"""The laws of a saver (`juncture.savers.base`), as checks that run on any saver.

In a test of your own saver, with pytest or without::

    from juncture.testing.saver_conformance import LAWS, check_saver

    @pytest.mark.parametrize("law", LAWS, ids=str)
    def test_law(law, tmp_path):
        law(lambda: MySaver(tmp_path / "runs"))

    check_saver(lambda: MySaver(new_folder()))      # all of them, in one go

A law opens a new, empty saver for itself and closes it. Each is written once and runs twice: with the sync methods,
and with their async twins. A broken law raises `AssertionError`, which says what was found instead, or the error that
the saver shouldn't have raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from juncture.testing.saver_conformance import lease_laws, series_laws, thread_laws
from juncture.testing.saver_conformance.face import STRANGE, Face, Law, MakeSaver, checkpoint, payload_of

__all__ = ["LAWS", "STRANGE", "Face", "Law", "MakeSaver", "check_saver", "checkpoint", "payload_of"]

LAWS: list[Law] = [*series_laws.LAWS, *thread_laws.LAWS, *lease_laws.LAWS]
"""Every law, once for the sync methods and once for the async ones."""


def check_saver(make_saver: MakeSaver, laws: Sequence[Law] | None = None) -> None:
    """Checks every law, and says all that are broken.

    Args:
        make_saver: Makes a new, empty saver at each call.
        laws: Only these.

    Raises:
        ExceptionGroup: One error for each broken law, with the law's name as a note.
    """
    broken: list[Exception] = []
    for law in LAWS if laws is None else laws:
        try:
            law(make_saver)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told at the end
            error.add_note(f"law {law}")
            broken.append(error)
    if broken:
        raise ExceptionGroup(f"{len(broken)} laws of a saver are broken", broken)
