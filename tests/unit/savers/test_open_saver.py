"""Savers by URL: which one is opened, what is refused, and that no password is shown."""

import importlib.util
import subprocess
import sys

import pytest

import juncture.savers
from juncture.errors import ConfigError, GraphBuildError
from juncture.savers import FileSaver, InMemorySaver, SqliteSaver, open_saver
from juncture.testing.saver_conformance import checkpoint


def test_each_memory_url_is_a_new_saver():
    first, second = open_saver("memory:"), open_saver("memory:")
    assert isinstance(first, InMemorySaver)
    first.put(checkpoint(1), b"", follows=None)
    assert first.load("t") is not None
    assert second.load("t") is None


@pytest.mark.parametrize("form", ["relative", "absolute"])
def test_a_path_is_the_one_of_the_working_directory_of_now(form, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_saver("sqlite:runs.db" if form == "relative" else f"sqlite:{tmp_path}/runs.db") as saver:
        assert isinstance(saver, SqliteSaver)
        monkeypatch.chdir("elsewhere")
        saver.put(checkpoint(1), b"", follows=None)
    assert (tmp_path / "runs.db").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_url_is_a_folder(tmp_path):
    with open_saver(f"file:{tmp_path}/runs?fsync=no&lease_ttl=7") as saver:
        assert isinstance(saver, FileSaver)
        assert saver.lease_ttl == 7
        saver.put(checkpoint(1), b"", follows=None)
    assert (tmp_path / "runs").is_dir()


@pytest.mark.parametrize("name", ["a b.db", "50%25 off.db", "what%3F.db", "é.db", "a+b.db", "#1.db"])
def test_a_path_may_hold_any_character(name, tmp_path):
    with open_saver(f"sqlite:{tmp_path}/{name}?timeout=1") as saver:
        saver.put(checkpoint(1), b"", follows=None)
    assert (tmp_path / name.replace("%25", "%").replace("%3F", "?")).exists()


@pytest.mark.parametrize(("text", "ttl"), [("60", 60.0), ("0.5", 0.5), ("never", None)])
def test_options_reach_the_saver(text, ttl, tmp_path):
    with open_saver(f"sqlite:{tmp_path}/runs.db?lease_ttl={text}&synchronous=normal") as saver:
        assert saver.lease_ttl == ttl


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("mongodb://me:secret@host", "no saver for the scheme 'mongodb:'.*'memory:'.*'sqlite:PATH'"),
        ("SQLITE:secret", "no saver for the scheme 'SQLITE:'"),
        ("memory", "scheme and a colon.*'memory:'"),
        ("runs.db", "scheme and a colon"),
        ("", "scheme and a colon"),
        ("memory:here", "nothing after the colon"),
        ("sqlite:", "needs a path"),
        ("sqlite:?timeout=1", "needs a path"),
        ("sqlite://runs.db", "write 'sqlite:runs'"),
        ("sqlite:///srv/runs.db", "'sqlite:/srv/runs'"),
        ("file://host/runs", "write 'file:runs'"),
        ("sqlite:runs.db?secret=1", r"no option 'secret'.*lease_ttl, synchronous, timeout"),
        ("sqlite:runs.db?timeout=soon", "can't have timeout='soon'"),
        ("sqlite:runs.db?timeout", "can't have timeout=''"),
        ("file:runs?fsync=maybe", "can't have fsync='maybe'"),
        ("postgresql:me:secret", "two slashes"),
        ("redis:secret", "two slashes"),
    ],
)
def test_what_names_no_saver_is_an_error_that_says_what_does(url, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphBuildError, match=named) as caught:
        open_saver(url)
    assert "secret" not in str(caught.value).replace("no option 'secret'", "")
    assert not list(tmp_path.iterdir()), "nothing was opened"


@pytest.mark.parametrize(
    ("url", "named"),
    [("sqlite:runs.db?synchronous=off", "'FULL' or 'NORMAL'"), ("sqlite:%3Amemory%3A", "InMemorySaver")],
)
def test_what_the_saver_itself_refuses(url, named):
    with pytest.raises(ConfigError, match=named):
        open_saver(url)


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("postgresql://me:secret@host/runs", "psycopg", "postgres"),
        ("postgres://me:secret@host/runs", "psycopg_pool", "postgres"),
        ("redis://:secret@host", "redis", "redis"),
        ("rediss://:secret@host", "redis", "redis"),
        ("unix:///run/secret.sock", "redis", "redis"),
    ],
)
def test_a_missing_extra_is_named_and_no_password(url, package, extra, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(
        GraphBuildError, match=rf"'{package}', which isn't installed.*juncture\[{extra}\]"
    ) as caught:
        open_saver(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://me:secret@localhost:1/runs", "PostgresSaver"),
        ("postgres://me:secret@localhost:1/runs", "PostgresSaver"),
        ("redis://:secret@localhost:1/0", "RedisSaver"),
        ("rediss://:secret@localhost:1/0", "RedisSaver"),
        ("unix:///nowhere/redis.sock", "RedisSaver"),
    ],
)
def test_a_server_is_not_asked_before_it_is_needed(url, name):
    with open_saver(url) as saver:
        assert type(saver).__name__ == name


@pytest.mark.parametrize("name", juncture.savers.__all__)
def test_every_name_is_there(name):
    assert getattr(juncture.savers, name).__name__ == name or name in {"MemorySaver", "Spans"}


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'Sqlite'"):
        juncture.savers.Sqlite  # noqa: B018  # looking is what fails


def test_nothing_is_imported_before_it_is_asked_for():
    look = (
        "import sys, juncture, juncture.savers as s; s.open_saver('memory:');"
        "print({'sqlite3', 'asyncio', 'psycopg', 'redis', 'cryptography'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()", found.stderr
