"""What the workflow files call is there."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
ENVIRONMENTS = re.compile(r"tox run -e ([\w,]+)")

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="an sdist has no workflow files")


def environments():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    return {name.removeprefix("testenv:") for name in tox.sections()} | {"py"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_environments_of_tox_exist(path):
    called = {n for found in ENVIRONMENTS.findall(path.read_text()) for n in found.split(",")}
    assert called
    assert called <= environments()


def test_pythons_are_those_that_the_package_names():
    test = next(path for path in WORKFLOWS if path.name == "test.yml").read_text()
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert f'python: ["{oldest}"' in test


def test_environments_are_found():
    assert {"docs", "lint", "package"} <= environments()
    assert "nothing" not in environments()
