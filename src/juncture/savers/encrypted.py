"""Encryption of everything that a saver needn't read, around any saver.

`EncryptedSaver` keeps the contract of `juncture.savers.base` with what the saver inside it keeps: it encrypts headers,
payloads and records on their way in, and decrypts them on their way out. Nothing is read that it didn't encrypt.

What stands in the saver
------------------------
Each header, payload and record content is AES-256-GCM (NIST SP 800-38D)::

    0xC1  0x01  length of the key's id (1 byte)  the key's id  nonce (12 bytes, random)  ciphertext  tag (16 bytes)

0xC1 begins no value in MessagePack, so what isn't encrypted is recognised; 0x01 is the version. The associated data is
everything before the nonce, and then the place, each part of it with its length:

    a header    "header", thread, namespace, and every column of its checkpoint
    a payload   "part", thread, namespace, seq, and the checkpoint that brought it
    a record    "record", thread, namespace, checkpoint, task, kind, and the name that stands in the saver

What is asked for decides thread and namespace, never what the saver answers. So a ciphertext opens with its own key at
its own place only, and a column that was changed makes the header unreadable.

A record's name may hold a digest of a node's arguments, which could be guessed. So what stands in the saver instead is
a digest of it made with a key (HMAC-SHA-256), different at every place; the name itself is encrypted with the content.
It is made with the ring's oldest key, to stay the same when keys rotate, or a record saved twice would be two. Where
that key was taken out of the ring meanwhile, the later of the two counts.
"""

from __future__ import annotations

import binascii
import hmac
import logging
import os
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_bytes
from typing import TYPE_CHECKING, TypeAlias

from juncture.errors import ConfigError, DecryptionError, GraphBuildError, SerializationError
from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Part,
    Saver,
    Spans,
    StoredCheckpoint,
    StoredRecord,
    StoredThread,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_Place: TypeAlias = tuple[str, ...]

_MARK = 0xC1
_VERSION = 1
_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_LONGEST = 2**31 - 1
"""What one call of the cipher takes."""


class KeyRing:
    """The keys that stored checkpoints are encrypted with.

    One key, the current one, encrypts; each of them decrypts what it encrypted, which says the id of its key. To
    rotate: put a new key before the others, and keep the old ones for as long as something is stored that they
    encrypted (history never changes, so it isn't encrypted anew). Where several programs share the saver, let all of
    them know the new key (``current=`` the old one) before the first of them uses it.

    Args:
        keys: 32 random bytes each (``secrets.token_bytes(32)``), by an id of at most 255 bytes that is never given to
            another key. Newest first.
        current: The id of the key that encrypts; by default the first.

    Raises:
        ConfigError: There is no key, or one isn't 32 bytes, or `current` is none of them. No key is ever shown.
        GraphBuildError: The package ``cryptography`` isn't installed.
    """

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise GraphBuildError(
                "encryption needs the package 'cryptography', which isn't installed. Install juncture[encrypt]."
            ) from error
        if not isinstance(keys, Mapping) or not keys:
            raise ConfigError("a key ring needs at least one key: KeyRing({id: key}).")
        for key_id, key in keys.items():
            _check_key(key_id, key)
        self.current = next(iter(keys)) if current is None else current
        """The id of the key that encrypts."""
        if self.current not in keys:
            raise ConfigError(
                f"the key ring has no key {self.current!r} that could be the current one: it has {_listed(keys)}."
            )
        self.ids = tuple(keys)
        """The id of every key, newest first."""
        self._ciphers: dict[str, AESGCM] = {key_id: AESGCM(bytes(key)) for key_id, key in keys.items()}
        self._prefix = _prefix(self.current)
        self._names_key = hmac.digest(bytes(keys[self.ids[-1]]), b"juncture: names of records", "sha256")

    @classmethod
    def from_env(cls, variable: str = "JUNCTURE_KEYS", *, current: str | None = None) -> KeyRing:
        """The keys in an environment variable: ``id:key`` or several with commas between, each key in base64.

        Raises:
            ConfigError: The variable isn't set, or isn't such. What it holds is never shown.
        """
        text = os.environ.get(variable, "")
        if not text.strip():
            raise ConfigError(
                f"the environment variable {variable} isn't set; it would hold the keys: 'id:key', each key 32 bytes in "
                "base64, several with commas between, the newest first."
            )
        keys: dict[str, bytes] = {}
        for place, entry in enumerate(text.split(","), 1):
            key_id, colon, encoded = entry.strip().partition(":")
            try:
                key = b64decode(encoded.strip(), validate=True) if colon else b""
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != _KEY_BYTES or key_id in keys:
                raise ConfigError(
                    f"entry {place} of the environment variable {variable} isn't 'id:key' with a new id and a key of "
                    "32 bytes in base64."
                )
            keys[key_id] = key
        return cls(keys, current=current)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(map(repr, self.ids))}; current={self.current!r})"

    def seal(self, plain: bytes, place: _Place) -> bytes:
        """Encrypts something that will stand at a place.

        Raises:
            SerializationError: It is larger than the cipher takes, 2 GiB.
        """
        if len(plain) > _LONGEST - _TAG_BYTES:
            raise SerializationError(
                f"thread {place[1]!r}: a {place[0]} of {len(plain)} bytes is too large to be encrypted; the limit is 2 GiB. "
                "Nothing was saved."
            )
        nonce, prefix = token_bytes(_NONCE_BYTES), self._prefix
        sealed = self._ciphers[self.current].encrypt(nonce, plain, prefix + _encoded(place))
        return prefix + nonce + sealed

    def open(self, sealed: bytes, place: _Place) -> bytes:
        """What `seal` was given for this very place.

        Raises:
            DecryptionError: It wasn't encrypted, or not with a key of this ring, or it was changed or moved. The
                message says which, to be put after the name of the thing.
        """
        from cryptography.exceptions import InvalidTag

        key_id, start = self._key_of(sealed)
        end = start + _NONCE_BYTES
        try:
            cipher = self._ciphers[key_id]
            return cipher.decrypt(sealed[start:end], sealed[end:], sealed[:start] + _encoded(place))
        except (InvalidTag, OverflowError) as error:
            raise DecryptionError(
                f"was changed, or moved there from elsewhere, or the key {key_id!r} isn't the one that encrypted it"
            ) from error

    def _key_of(self, sealed: bytes) -> tuple[str, int]:
        """The id of a ciphertext's key, which is in the ring, and where its nonce starts."""
        if sealed[:1] != bytes((_MARK,)):
            raise DecryptionError(
                "isn't encrypted: it was put there by something else than this EncryptedSaver. Whoever can write to "
                "the storage could have made it up"
            )
        if sealed[1:2] not in (b"", bytes((_VERSION,))):
            raise DecryptionError(
                f"was encrypted in version {sealed[1]} of the format, which this Juncture doesn't know. Update it"
            )
        start = 3 + (sealed[2] if len(sealed) > 2 else 0)
        if len(sealed) < start + _NONCE_BYTES + _TAG_BYTES:
            raise DecryptionError("is cut short")
        key_id = sealed[3:start].decode("utf-8", "replace")
        if key_id not in self._ciphers:
            raise DecryptionError(
                f"was encrypted with the key {key_id!r}, and the key ring only has {_listed(self.ids)}. Add that key "
                "after the others to read it"
            )
        return key_id, start

    def pseudonym(self, name: str, place: _Place) -> str:
        """What stands in the saver for a name at a place. Always the same; says nothing about the name but its equality."""
        return hmac.digest(self._names_key, _encoded((*place, name)), "sha256")[:16].hex() if name else ""


def _check_key(key_id: str, key: bytes) -> None:
    try:
        fits = 1 <= len(key_id.encode()) <= 255
    except (AttributeError, UnicodeEncodeError):
        fits = False
    if not fits:
        raise ConfigError(f"the id of a key is a text of 1 to 255 bytes, not {key_id!r}.")
    if not isinstance(key, bytes | bytearray) or len(key) != _KEY_BYTES:
        found = f"{len(key)} bytes" if isinstance(key, bytes | bytearray) else f"a {type(key).__name__}"
        raise ConfigError(
            f"the key {key_id!r} is {found}, not 32 random bytes. Make one with secrets.token_bytes(32); a password isn't "
            "one."
        )


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(map(repr, ids))


def _prefix(key_id: str) -> bytes:
    encoded = key_id.encode()
    return bytes((_MARK, _VERSION, len(encoded))) + encoded


def _encoded(place: _Place) -> bytes:
    """Different bytes for different places, whatever the texts are."""
    parts: list[bytes] = []
    for text in place:
        encoded = text.encode("utf-8", "surrogatepass")
        parts += (len(encoded).to_bytes(8, "big"), encoded)
    return b"".join(parts)


class EncryptedSaver(Saver):
    """A saver that encrypts what another keeps. The module's docstring says how; the laws are those of any saver.

    What stays readable, because a saver finds and compares by it: ids of threads, namespaces (which hold names of
    nodes), checkpoints, runs and tasks; steps, sources, times and places; the kinds of records; leases; and how many
    there are of each and how long they are. Some of it can be changed by whoever can write to the storage: they can
    take leases, remove whole rows, or put back an older row at its own place (an older head of a thread, the former
    content of a record). They can't read or make up values, and can't move any.

    Args:
        saver: Keeps what is encrypted. It is closed together with this one. Read and written without this one, it
            gives bytes that nothing else understands, and what is written so is refused here.
        keys: What encrypts and decrypts.
    """

    def __init__(self, saver: Saver, keys: KeyRing) -> None:
        self._saver = saver
        self._keys = keys
        self.blocking = saver.blocking
        self.lease_ttl = saver.lease_ttl

    # ---- checkpoints

    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """As `Saver.load`.

        Raises:
            DecryptionError: Something in it can't be decrypted.
        """
        found = self._saver.load(thread_id, namespace, checkpoint_id, known=known)
        return self._loaded(found, thread_id, namespace, checkpoint_id)

    async def aload(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """As `load`."""
        found = await self._saver.aload(thread_id, namespace, checkpoint_id, known=known)
        return self._loaded(found, thread_id, namespace, checkpoint_id)

    def put(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """As `Saver.put`."""
        stored, sealed, beside = self._sealed(checkpoint, payload, follows, records)
        self._saver.put(stored, sealed, follows=follows, records=beside, lease=lease)

    async def aput(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """As `put`."""
        stored, sealed, beside = self._sealed(checkpoint, payload, follows, records)
        await self._saver.aput(stored, sealed, follows=follows, records=beside, lease=lease)

    def put_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `Saver.put_records`."""
        sealed = self._sealed_records(thread_id, namespace, checkpoint_id, records)
        self._saver.put_records(thread_id, namespace, checkpoint_id, sealed, lease=lease)

    async def aput_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `put_records`."""
        sealed = self._sealed_records(thread_id, namespace, checkpoint_id, records)
        await self._saver.aput_records(thread_id, namespace, checkpoint_id, sealed, lease=lease)

    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """As `Saver.history`; raises `DecryptionError` if something in one of them can't be decrypted."""
        found = self._saver.history(thread_id, namespace, before=before, limit=limit, records=records)
        return [self._opened(one, thread_id, namespace) for one in found]

    async def ahistory(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """As `history`."""
        found = await self._saver.ahistory(thread_id, namespace, before=before, limit=limit, records=records)
        return [self._opened(one, thread_id, namespace) for one in found]

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """As `Saver.parts`.

        Raises:
            DecryptionError: One of them can't be decrypted.
        """
        return self._opened_parts(self._saver.parts(thread_id, namespace, spans), thread_id, namespace)

    async def aparts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """As `parts`."""
        return self._opened_parts(await self._saver.aparts(thread_id, namespace, spans), thread_id, namespace)

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """As `Saver.namespaces`."""
        return self._saver.namespaces(thread_id)

    async def anamespaces(self, thread_id: str) -> list[str]:
        """As `namespaces`."""
        return await self._saver.anamespaces(thread_id)

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """As `Saver.threads`. One whose head can't be decrypted is listed without anything of it, as law 13 says."""
        return self._opened_threads(self._saver.threads(after=after, limit=limit))

    async def athreads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """As `threads`."""
        return self._opened_threads(await self._saver.athreads(after=after, limit=limit))

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `Saver.drop`."""
        self._saver.drop(thread_id, namespace, checkpoint_ids, lease=lease)

    async def adrop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `drop`."""
        await self._saver.adrop(thread_id, namespace, checkpoint_ids, lease=lease)

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """As `Saver.delete_thread`."""
        self._saver.delete_thread(thread_id, lease=lease)

    async def adelete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """As `delete_thread`."""
        await self._saver.adelete_thread(thread_id, lease=lease)

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """As `Saver.acquire_lease`."""
        return self._saver.acquire_lease(thread_id, holder, token, ttl, instead_of=instead_of)

    async def aacquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """As `acquire_lease`."""
        return await self._saver.aacquire_lease(thread_id, holder, token, ttl, instead_of=instead_of)

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """As `Saver.renew_leases`."""
        return self._saver.renew_leases(leases, ttl)

    async def arenew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """As `renew_leases`."""
        return await self._saver.arenew_leases(leases, ttl)

    def release_lease(self, lease: Lease) -> None:
        """As `Saver.release_lease`."""
        self._saver.release_lease(lease)

    async def arelease_lease(self, lease: Lease) -> None:
        """As `release_lease`."""
        await self._saver.arelease_lease(lease)

    def leases(self) -> list[Lease]:
        """As `Saver.leases`."""
        return self._saver.leases()

    async def aleases(self) -> list[Lease]:
        """As `leases`."""
        return await self._saver.aleases()

    # ---- the end

    def close(self) -> None:
        """Closes the saver inside."""
        self._saver.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._saver.aclose()

    # ---- in

    def _sealed(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        follows: str | None,
        records: Sequence[StoredRecord],
    ) -> tuple[StoredCheckpoint, bytes, list[StoredRecord]]:
        thread_id, namespace = checkpoint.thread_id, checkpoint.namespace
        header = self._keys.seal(checkpoint.header, _header_place(checkpoint, thread_id, namespace))
        place = _part_place(thread_id, namespace, checkpoint.seq, checkpoint.checkpoint_id)
        # Records without a head to stand beside are refused by the saver inside, whatever is in them.
        beside = self._sealed_records(thread_id, namespace, follows or "", records) if records else []
        return replace(checkpoint, header=header), self._keys.seal(payload, place), beside

    def _sealed_records(
        self, thread_id: str, namespace: str, checkpoint_id: str, records: Sequence[StoredRecord]
    ) -> list[StoredRecord]:
        sealed: list[StoredRecord] = []
        for task_id, kind, name, content in records:
            place = ("record", thread_id, namespace, checkpoint_id, task_id, kind)
            shown = self._keys.pseudonym(name, place)
            encoded = name.encode("utf-8", "surrogatepass")
            plain = len(encoded).to_bytes(4, "big") + encoded + content
            sealed.append(StoredRecord(task_id, kind, shown, self._keys.seal(plain, (*place, shown))))
        return sealed

    # ---- out

    def _loaded(
        self, found: LoadedCheckpoint | None, thread_id: str, namespace: str, checkpoint_id: str | None
    ) -> LoadedCheckpoint | None:
        if found is None:
            return None
        if checkpoint_id not in (None, found.checkpoint.checkpoint_id):
            raise _told(
                thread_id,
                namespace,
                f"checkpoint {checkpoint_id}",
                DecryptionError(f"isn't what its place holds, which is {found.checkpoint.checkpoint_id}"),
            )
        return self._opened(found, thread_id, namespace)

    def _opened(self, found: LoadedCheckpoint, thread_id: str, namespace: str) -> LoadedCheckpoint:
        stored = found.checkpoint
        try:
            header = self._keys.open(stored.header, _header_place(stored, thread_id, namespace))
        except DecryptionError as error:
            what = f"the header of checkpoint {stored.checkpoint_id} (or one of its columns)"
            raise _told(thread_id, namespace, what, error) from error.__cause__
        return replace(
            found,
            checkpoint=replace(stored, thread_id=thread_id, namespace=namespace, header=header),
            parts=tuple(self._opened_parts(found.parts, thread_id, namespace)),
            records=self._opened_records(found.records, thread_id, namespace, stored.checkpoint_id),
        )

    def _opened_parts(self, parts: Iterable[Part], thread_id: str, namespace: str) -> list[Part]:
        opened: list[Part] = []
        for seq, checkpoint_id, payload in parts:
            try:
                plain = self._keys.open(payload, _part_place(thread_id, namespace, seq, checkpoint_id))
            except DecryptionError as error:
                what = f"part {seq}, of checkpoint {checkpoint_id},"
                raise _told(thread_id, namespace, what, error) from error.__cause__
            opened.append(Part(seq, checkpoint_id, plain))
        return opened

    def _opened_records(
        self, records: Iterable[StoredRecord], thread_id: str, namespace: str, checkpoint_id: str
    ) -> tuple[StoredRecord, ...]:
        opened: dict[tuple[str, str, str], StoredRecord] = {}
        for task_id, kind, shown, content in records:
            place = ("record", thread_id, namespace, checkpoint_id, task_id, kind, shown)
            try:
                plain = self._keys.open(content, place)
            except DecryptionError as error:
                what = f"the record {kind!r} of task {task_id!r} beside checkpoint {checkpoint_id}"
                raise _told(thread_id, namespace, what, error) from error.__cause__
            end = 4 + int.from_bytes(plain[:4], "big")
            name = plain[4:end].decode("utf-8", "surrogatepass")
            # Only where the oldest key went from the ring are there two of one name: the later one replaces.
            opened[task_id, kind, name] = StoredRecord(task_id, kind, name, plain[end:])
        return tuple(opened.values())

    def _opened_threads(self, threads: Iterable[StoredThread]) -> list[StoredThread]:
        return [one._replace(head=self._opened_or_nothing(one.head, one.thread_id)) for one in threads]

    def _opened_or_nothing(self, found: LoadedCheckpoint, thread_id: str) -> LoadedCheckpoint:
        try:
            return self._opened(found, thread_id, "")
        except DecryptionError as error:
            logging.getLogger("juncture").warning(str(error))
        head, seq = found.head_id, found.head_seq
        nothing = StoredCheckpoint(thread_id, "", head, None, 0, "", "", 0.0, seq, (), b"")
        return LoadedCheckpoint(nothing, head, seq)


def _header_place(stored: StoredCheckpoint, thread_id: str, namespace: str) -> _Place:
    parent = ("-",) if stored.parent_id is None else ("+", stored.parent_id)
    spans = ",".join(f"{first}-{last}" for first, last in stored.builds_on)
    return (
        "header",
        thread_id,
        namespace,
        stored.checkpoint_id,
        *parent,
        str(stored.step),
        stored.source,
        stored.run_id,
        float(stored.created_at).hex(),
        str(stored.seq),
        spans,
    )


def _part_place(thread_id: str, namespace: str, seq: int, checkpoint_id: str) -> _Place:
    return ("part", thread_id, namespace, str(seq), checkpoint_id)


def _told(thread_id: str, namespace: str, what: str, error: DecryptionError) -> DecryptionError:
    where = f"thread {thread_id!r}" + (f", namespace {namespace!r}" if namespace else "")
    said = DecryptionError(
        f"{where}: {what} can't be decrypted: it {error}. Nothing of it was used or changed; if the storage was tampered "
        "with, restore the thread from a backup."
    )
    said.thread_id = thread_id
    return said
