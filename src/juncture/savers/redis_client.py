"""A client of Redis that runs scripts, for whatever is kept there; nothing is opened before the first one.

Nothing is sent twice: a call whose answer got lost raises, and may have changed something. No message shows a password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from juncture.errors import ConfigError, SaverError, SaverUnavailableError

if TYPE_CHECKING:
    from redis import Redis
    from redis.commands.core import Script

CONNECT_TIMEOUT = 5.0
"""Seconds to reach Redis, unless the URL says ``socket_connect_timeout=…``."""
ANSWER_TIMEOUT = 30.0
"""Seconds to wait for an answer, unless the URL says ``socket_timeout=…``."""


class Client:
    """Runs scripts at one URL.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, with redis-py's options.
        owner: Whose it is, for messages.

    Raises:
        ConfigError: The package ``redis`` isn't installed, or the URL can't be used.
    """

    def __init__(self, url: str, owner: str) -> None:
        self._owner = owner
        self._client, self.where = _opened(url, owner)
        self._scripts: dict[str, Script] = {}
        self._closed = False

    def run(self, text: str, key: bytes, *arguments: bytes | str | float) -> list[Any]:
        """What a script replies.

        Raises:
            SaverUnavailableError: It couldn't be sent, or wasn't answered.
            SaverError: This was closed.
        """
        import redis

        if self._closed:
            raise SaverError(f"this {self._owner} was closed. Open the URL with a new one.")
        script = self._scripts.get(text)
        if script is None:
            script = self._scripts[text] = self._client.register_script(text)
        try:
            return cast(
                "list[Any]",  # what a script gives back is known to whoever calls this
                script(keys=[key], args=list(arguments)),
            )
        except redis.RedisError as error:
            raise SaverUnavailableError(
                f"Redis at {self.where} didn't do what it was asked: {type(error).__name__}: {error}. What was saved "
                "before stays. Is it running, reachable, and not full?"
            ) from error

    def close(self) -> None:
        """Closes the connections."""
        self._closed = True
        self._client.close()


def _opened(url: str, owner: str) -> tuple[Redis, str]:
    """A client with a pool of its own, and the name of the place for messages, which has no password in it."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise ConfigError(f"{owner} needs redis-py: pip install 'juncture[redis]'.") from None
    try:
        pool = redis.ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
            url, socket_connect_timeout=CONNECT_TIMEOUT, socket_timeout=ANSWER_TIMEOUT
        )
        settings = pool.connection_kwargs
        settings["decode_responses"] = False
        settings["retry"] = Retry(NoBackoff(), 0)  # a put that was sent again would follow itself
        settings["retry_on_error"] = []
        pool.connection_class(**settings)  # not connected yet: options that it doesn't have are found here
    except (ValueError, TypeError):  # its text may hold a part of the password
        raise ConfigError(
            "the URL of Redis can't be read. It looks like redis://user:password@host:6379/0, with %-escapes for special "
            "characters in the password, and after a question mark redis-py's options."
        ) from None
    place = settings.get("path") or f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"
    return redis.Redis.from_pool(pool), f"{place}, database {settings.get('db', 0)}"
