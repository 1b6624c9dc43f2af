"""Makes the samples of the present checkpoint format that aren't there yet: ``python -m tests.samples.make``.

Run it once when a version of the format is new, or a program was added to `tests.samples.programs`, and commit what it
wrote. It never touches a sample that is there: samples say what *was* stored, so that every later Juncture can be
shown to read it (`tests/unit/persistence/test_samples.py`).

``values.json`` holds encoded values by name. The others hold all series of threads as a saver keeps them, one program
each; ``encrypted.json`` as a saver keeps them under an `EncryptedSaver`. Bytes are in base64.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

from juncture.persistence.codec import Codec
from juncture.persistence.format import VERSION
from juncture.persistence.registry import DEFAULT, Registry
from juncture.savers import InMemorySaver
from juncture.savers.base import Saver, StoredCheckpoint, StoredRecord
from juncture.savers.encrypted import EncryptedSaver, KeyRing
from tests.samples.programs import PROGRAMS, TEST_KEY, VALUES

HERE = Path(__file__).parent


def text_of(content: bytes) -> str:
    return b64encode(content).decode()


def dumped(saver: Saver) -> list[dict[str, Any]]:
    """Everything that a saver keeps, oldest first."""
    rows: list[dict[str, Any]] = []
    for thread in saver.threads():
        for namespace in saver.namespaces(thread.thread_id):
            for found in reversed(saver.history(thread.thread_id, namespace, records=True)):
                (part,) = saver.parts(thread.thread_id, namespace, ((found.checkpoint.seq,) * 2,))
                columns = asdict(found.checkpoint) | {"header": text_of(found.checkpoint.header)}
                records = [[*record[:3], text_of(record.content)] for record in found.records]
                rows.append({"checkpoint": columns, "payload": text_of(part.payload), "records": records})
    return rows


def restore(rows: list[dict[str, Any]], saver: Saver) -> None:
    """Puts into a saver what `dumped` gave."""
    heads: dict[tuple[str, str], str] = {}
    for row in rows:
        columns = dict(row["checkpoint"])
        columns["header"] = b64decode(columns["header"])
        columns["builds_on"] = tuple((first, last) for first, last in columns["builds_on"])
        checkpoint = StoredCheckpoint(**columns)
        series = checkpoint.thread_id, checkpoint.namespace
        saver.put(checkpoint, b64decode(row["payload"]), follows=heads.get(series))
        heads[series] = checkpoint.checkpoint_id
        records = [StoredRecord(*record[:3], b64decode(record[3])) for record in row["records"]]
        saver.put_records(*series, checkpoint.checkpoint_id, records)


def samples() -> dict[str, Any]:
    """Name of the file → its content, of the present format."""
    codec = Codec(Registry(DEFAULT))
    made: dict[str, Any] = {
        "values": {
            name: [text_of(codec.encode(value)) for value in values] for name, values in VALUES.items()
        }
    }
    for name, (build, run) in PROGRAMS.items():
        saver = InMemorySaver()
        run(build().compile(checkpointer=saver))
        made[name] = dumped(saver)
    inside = InMemorySaver()
    build, run = PROGRAMS["work"]
    run(build().compile(checkpointer=EncryptedSaver(inside, KeyRing({"test": TEST_KEY}))))
    made["encrypted"] = dumped(inside)
    return made


def main() -> None:
    """Writes what is missing."""
    folder = HERE / f"format-{VERSION}"
    folder.mkdir(exist_ok=True)
    for name, content in samples().items():
        path = folder / f"{name}.json"
        if path.exists():
            print(f"{path.name} is there, and stays as it is")
        else:
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            print(f"{path.name} was made")


if __name__ == "__main__":
    main()
