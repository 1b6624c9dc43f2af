"""Savers by URL: which scheme opens which, with which options. Stores are opened by the same rules (`opened`).

Nothing of a saver is imported before it is asked for, and no message shows what stands after the scheme of a URL with
a server in it: there may be a password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from juncture.errors import GraphBuildError
from juncture.savers.base import Saver

_Read: TypeAlias = Callable[[str], Any]


def seconds(text: str) -> float:
    """Reads an option that is a number."""
    return float(text)


def _seconds_or_never(text: str) -> float | None:
    return None if text.lower() == "never" else float(text)


def yes_or_no(text: str) -> bool:
    """Reads an option that is a truth value."""
    return {"yes": True, "no": False}[text.lower()]


ON_DISK: dict[str, tuple[str, str, dict[str, _Read]]] = {
    "sqlite": (
        "juncture.savers.sqlite",
        "SqliteSaver",
        {"synchronous": str.upper, "timeout": seconds, "lease_ttl": _seconds_or_never},
    ),
    "file": ("juncture.savers.file", "FileSaver", {"fsync": yes_or_no, "lease_ttl": _seconds_or_never}),
}
"""Schemes with a path: module, class, options."""
ON_SERVER: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "postgresql": ("juncture.savers.postgres", "PostgresSaver", "postgres", ("psycopg", "psycopg_pool")),
    "redis": ("juncture.savers.redis", "RedisSaver", "redis", ("redis",)),
}
"""Schemes whose URL goes to the saver as it is: module, class, extra, the packages that it installs."""
ALIASES = {"postgres": "postgresql", "rediss": "redis", "unix": "redis"}


class Schemes(NamedTuple):
    """What URLs of one kind open."""

    what: str
    """The kind, for messages."""
    memory: tuple[str, str]
    """For ``memory:``, module and class."""
    on_disk: Mapping[str, tuple[str, str, dict[str, _Read]]]
    on_server: Mapping[str, tuple[str, str, str, tuple[str, ...]]]

    @property
    def known(self) -> str:
        """Every scheme, with what follows it, for messages."""
        shapes = {"sqlite": "sqlite:PATH", "file": "file:FOLDER"}
        known = [
            "memory:",
            *(shapes[name] for name in self.on_disk),
            *(f"{name}://…" for name in self.on_server),
        ]
        return ", ".join(map(repr, known))


SAVERS = Schemes("saver", ("juncture.savers.memory", "InMemorySaver"), ON_DISK, ON_SERVER)


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
    return opened(SAVERS, url)


def opened(schemes: Schemes, url: str, **options: Any) -> Any:
    """What a URL names among these schemes, made with further options; raises as `open_saver`."""
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise GraphBuildError(
            f"a {schemes.what}'s URL starts with its scheme and a colon. Known: {schemes.known}."
        )
    if scheme == "memory":
        if rest:
            raise GraphBuildError(
                f"'memory:' takes nothing after the colon: a {schemes.what} in memory has no name."
            )
        module, name = schemes.memory
        return getattr(import_module(module), name)(**options)
    if scheme in schemes.on_disk:
        return _on_disk(schemes, scheme, rest, options)
    if ALIASES.get(scheme, scheme) in schemes.on_server:
        return _on_server(schemes, scheme, url, options)
    raise GraphBuildError(
        f"no {schemes.what} for the scheme {scheme + ':'!r}. Known: {schemes.known}. Or pass a {schemes.what} object."
    )


def _on_disk(schemes: Schemes, scheme: str, rest: str, options: dict[str, Any]) -> Any:
    from urllib.parse import parse_qsl, unquote

    module, name, known = schemes.on_disk[scheme]
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        raise GraphBuildError(
            f"a path comes right after {scheme + ':'!r}: write '{scheme}:runs' for one that is relative, "
            f"'{scheme}:/srv/runs' for one that isn't."
        )
    if not path:
        raise GraphBuildError(f"{scheme + ':'!r} needs a path, as in '{scheme}:runs'.")
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


def _on_server(schemes: Schemes, scheme: str, url: str, options: dict[str, Any]) -> Any:
    from importlib.util import find_spec

    module, name, extra, packages = schemes.on_server[ALIASES.get(scheme, scheme)]
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise GraphBuildError(
            f"{scheme + ':'!r} needs the package {missing[0]!r}, which isn't installed. Install juncture[{extra}]."
        )
    if not url.startswith(f"{scheme}://"):
        raise GraphBuildError(f"a URL of {scheme + ':'!r} goes on with two slashes and where the server is.")
    return getattr(import_module(module), name)(url, **options)
