"""Bytes that an attacker may have stored; and a program that reads them under watch.

The program takes a seed and a number of forgeries. It prints how many were read as some value, how many were refused,
and which modules had been imported meanwhile. It ends with an error as soon as reading one does anything else than
computing (opens a file outside of the time zones, starts a process, imports, compiles …), or takes much memory.
"""

import sys
from random import Random

import ormsgpack

TAGS = (1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 32, 33, 34, 35, 36, 37, 40, 41, 48, 49, 64)
NAMES = (
    "os:system",
    "builtins:eval",
    "builtins.eval",
    "subprocess:Popen",
    "never_seen:Thing",
    "juncture:Send",
    "juncture:Overwrite",
    "juncture:Command",
    "juncture:MISSING",
    "juncture:RunResult",
    "juncture:Send@2",
    "../../etc/passwd",
    "Europe/Berlin",
    "tzdata/zoneinfo",
    "never/seen",
    "PosixPath",
    "Counter",
    "eval",
    "1e999999999",
    "O",
    "<f8",
    "|V1000000000",
    "<U0",
    "M8[s]",
)
NUMBERS = (0, 1, -1, 2, 7, 60, 255, 2024, 10**6, 10**9, 10**12, 2**31, 2**63 - 1, -(2**63), 2**64 - 1)
HEADS = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x10",
    b"\xdc\xff\xff" + b"\x90" * 40,
    b"\x91" * 900,
    b"\xc1",
    b"",
)


def forged(random: Random, depth: int):
    """A value for ormsgpack, with extension types of every tag and of none, whose payloads are right, nearly, or not."""
    choice = random.random()
    if depth > 5 or choice < 0.3:
        return random.choice(
            (None, True, 1.5, float("nan"), b"", b"\x00" * 8, random.choice(NUMBERS), random.choice(NAMES))
        )
    if choice < 0.45:
        return [forged(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3, 4, 9)))]
    if choice < 0.55:
        return {random.choice(NAMES): forged(random, depth + 1) for _ in range(random.randrange(3))}
    tag = random.choice(TAGS) if random.random() < 0.97 else random.randrange(128)
    if random.random() < 0.1:
        return ormsgpack.Ext(tag, random.choice(HEADS))
    if random.random() < 0.1:
        return ormsgpack.Ext(tag, random.choice(NAMES).encode())
    return ormsgpack.Ext(tag, ormsgpack.packb(_content(random, tag, depth + 1)))


def _content(random: Random, tag: int, depth: int):
    """Something like what a payload of this tag holds."""
    item = lambda: forged(random, depth)  # noqa: E731  # said often, and only here
    number = lambda: random.choice(NUMBERS)  # noqa: E731  # the same
    match tag:
        case 4 | 5 | 7 | 32 | 33 | 34 | 35 | 36 if random.random() < 0.8:
            return [number() for _ in range(random.choice((1, 2, 3, 3, 7, 9)))]
        case 20 if random.random() < 0.8:
            return [random.choice((None, number())), item(), item()]
        case 41 | 21 if random.random() < 0.8:
            return [random.choice(NAMES), random.choice(NAMES), item()]
        case 48 | 49 if random.random() < 0.9:
            shape = [number() for _ in range(random.randrange(4))]
            return [
                random.choice(NAMES[-6:]),
                shape,
                random.choice("CFA"),
                random.choice((b"", b"\x00" * 8, [1])),
            ]
        case 64 if random.random() < 0.9:
            return [random.choice(NAMES), item()]
        case _:
            return [item() for _ in range(random.randrange(5))]


def main(seed: int, count: int) -> None:
    """Reads forgeries under watch."""
    import resource

    from juncture.errors import SerializationError
    from juncture.persistence.codec import Codec
    from juncture.persistence.registry import DEFAULT, Registry

    codec = Codec(Registry(DEFAULT))
    random = Random(seed)
    forgeries = [ormsgpack.packb(forged(random, 0)) for _ in range(count)]
    for stored in forgeries[: count // 10]:  # loads what decoders load: numpy, zoneinfo and the like
        try:
            codec.decode(stored)
        except SerializationError:
            continue
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    loaded = set(sys.modules)
    watched: list[str] = []
    sys.addaudithook(lambda event, arguments: _watch(watched, event, arguments))
    read = refused = 0
    for stored in forgeries:
        try:
            codec.decode(stored, "state")
            read += 1
        except SerializationError:
            refused += 1
        if watched:
            raise SystemExit(f"reading {stored!r} did: {watched}")
    imported = [name for name in set(sys.modules) - loaded if not name.startswith("tzdata")]
    print(read, refused, *imported)


_COMPUTING = ("object.__", "sys._getframe", "gc.", "code.__new__", "builtins.id", "marshal.loads", "array.")


def _watch(watched: list[str], event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(_COMPUTING):
        return
    told = f"{event}{arguments!r}"[:300]
    if "zoneinfo" not in told and "tzdata" not in told:
        watched.append(told)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
