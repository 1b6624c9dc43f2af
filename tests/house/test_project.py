"""pyproject.toml, constraints.txt and the scripts agree with one another."""

import os
import re
import tomllib
from typing import Any

import pytest

from tests.house._source import ROOT, SRC

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS = ["scripts/bench", "scripts/check", "scripts/demo", "scripts/pin", "scripts/test", ".ci/run"]


def normalised(requirement: str) -> str:
    """The name in a requirement, as an index spells it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def declared() -> set[str]:
    """Every package that pyproject.toml names anywhere, the project itself left out."""
    project = PROJECT["project"]
    requirements = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for several in (*project["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()):
        requirements += [requirement for requirement in several if isinstance(requirement, str)]
    return {normalised(requirement) for requirement in requirements} - {project["name"]}


def test_every_package_is_pinned_and_nothing_else_is_said():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    strange = [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+( ; .+)?", line)]
    assert not strange, (
        f"constraints.txt holds names, versions and markers only; run ./scripts/pin: {strange}"
    )
    missing = declared() - {normalised(line) for line in lines}
    assert not missing, f"not pinned; run ./scripts/pin: {sorted(missing)}"


def test_the_extra_all_names_every_extra():
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    named = re.fullmatch(r"juncture\[(.*)\]", extras["all"][0])
    assert named is not None
    assert set(named[1].split(",")) == set(extras) - {"all"}


def test_users_see_our_types():
    assert (SRC / "py.typed").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_started(name: str):
    path = ROOT / name
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert os.access(path, os.X_OK)


def test_the_readme_is_the_distributions():
    assert ("readme" in PROJECT["project"]) == (ROOT / "README.md").exists(), (
        "pyproject.toml: readme = 'README.md'"
    )
