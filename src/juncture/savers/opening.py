"""Savers by URL: which scheme opens which, with which options.

Nothing of a saver is imported before it is asked for, and no message shows what stands after the scheme of a URL with
a server in it: there may be a password.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from juncture.errors import GraphBuildError
from juncture.savers.base import Saver
from juncture.savers.memory import InMemorySaver

_Read: TypeAlias = Callable[[str], Any]


def _seconds(text: str) -> float:
    return float(text)


def _seconds_or_never(text: str) -> float | None:
    return None if text.lower() == "never" else float(text)


def _yes_or_no(text: str) -> bool:
    return {"yes": True, "no": False}[text.lower()]


ON_DISK: dict[str, tuple[str, str, dict[str, _Read]]] = {
    "sqlite": (
        "juncture.savers.sqlite",
        "SqliteSaver",
        {"synchronous": str.upper, "timeout": _seconds, "lease_ttl": _seconds_or_never},
    ),
    "file": ("juncture.savers.file", "FileSaver", {"fsync": _yes_or_no, "lease_ttl": _seconds_or_never}),
}
"""Schemes with a path: module, class, options."""
ON_SERVER: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "postgresql": ("juncture.savers.postgres", "PostgresSaver", "postgres", ("psycopg", "psycopg_pool")),
    "redis": ("juncture.savers.redis", "RedisSaver", "redis", ("redis",)),
}
"""Schemes whose URL goes to the saver as it is: module, class, extra, the packages that it installs."""
ALIASES = {"postgres": "postgresql", "rediss": "redis", "unix": "redis"}
KNOWN = "'memory:', 'sqlite:PATH', 'postgresql://…', 'redis://…', 'file:FOLDER'"


def open_saver(url: str) -> Saver:
    """The saver that a URL names; whoever opens it closes it.

    - ``memory:`` is a new `InMemorySaver` each time.
    - ``sqlite:runs.db``, ``sqlite:/srv/runs.db``, ``sqlite:runs.db?synchronous=normal``: a `SqliteSaver`. Its options
      are ``synchronous``, ``timeout`` (seconds) and ``lease_ttl`` (seconds, or ``never``).
    - ``postgresql://user:password@host/database``: a `PostgresSaver`; needs the extra ``postgres``.
    - ``redis://host:6379/0``, ``rediss://…`` (with TLS), ``unix:///socket``: a `RedisSaver`; needs the extra ``redis``.
    - ``file:runs``: a `FileSaver` in that folder. Its options are ``fsync`` (``yes`` or ``no``) and ``lease_ttl``.

    A path is relative to the working directory of now. ``%3F`` stands for a question mark in it, and ``%25`` for ``%``.

    Raises:
        GraphBuildError: The URL names no saver, an option can't be right, or an extra isn't installed. Nothing was
            opened.
        ConfigError: The saver can't take the URL.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise GraphBuildError(f"a saver's URL starts with its scheme and a colon. Known: {KNOWN}.")
    if scheme == "memory":
        if rest:
            raise GraphBuildError("'memory:' takes nothing after the colon: a saver in memory has no name.")
        return InMemorySaver()
    if scheme in ON_DISK:
        return _on_disk(scheme, rest)
    if ALIASES.get(scheme, scheme) in ON_SERVER:
        return _on_server(scheme, url)
    raise GraphBuildError(
        f"no saver for the scheme {scheme + ':'!r}. Known: {KNOWN}. Or pass a saver object."
    )


def _on_disk(scheme: str, rest: str) -> Saver:
    from urllib.parse import parse_qsl, unquote

    module, name, known = ON_DISK[scheme]
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        raise GraphBuildError(
            f"a path comes right after {scheme + ':'!r}: write '{scheme}:runs' for one that is relative, "
            f"'{scheme}:/srv/runs' for one that isn't."
        )
    if not path:
        raise GraphBuildError(f"{scheme + ':'!r} needs a path, as in '{scheme}:runs'.")
    options: dict[str, Any] = {}
    for option, text in parse_qsl(query, keep_blank_values=True):
        if option not in known:
            raise GraphBuildError(
                f"{scheme + ':'!r} has no option {option!r}. It has: {', '.join(sorted(known))}."
            )
        try:
            options[option] = known[option](text)
        except (ValueError, KeyError):
            raise GraphBuildError(f"{scheme + ':'!r} can't have {option}={text!r}.") from None
    return getattr(import_module(module), name)(unquote(path), **options)


def _on_server(scheme: str, url: str) -> Saver:
    from importlib.util import find_spec

    module, name, extra, packages = ON_SERVER[ALIASES.get(scheme, scheme)]
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise GraphBuildError(
            f"{scheme + ':'!r} needs the package {missing[0]!r}, which isn't installed. Install juncture[{extra}]."
        )
    if not url.startswith(f"{scheme}://"):
        raise GraphBuildError(f"a URL of {scheme + ':'!r} goes on with two slashes and where the server is.")
    return getattr(import_module(module), name)(url)
