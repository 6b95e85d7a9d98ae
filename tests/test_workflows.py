"""What the workflow files call is there."""

import configparser
import json
import re
import subprocess
import sys
import textwrap
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


def test_the_address_of_the_pages_has_one_place():
    """The workflow's variable reaches the configuration of the docs, and no file has an address."""
    name = "DLREF_DOCS_ADDRESS"
    pages = next(path for path in WORKFLOWS if path.name == "pages.yml").read_text()
    assert f"{name}: ${{{{ vars.DOCS_ADDRESS }}}}" in pages
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    assert name in tox["testenv:docs"]["pass_env"].split()
    configuration = (ROOT / "docs" / "conf.py").read_text()
    assert configuration.count(name) == 1
    assert "switcher.json" in configuration
    assert "switcher.json" in pages


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path):
    actions = re.findall(r"uses: (\S+)", path.read_text())
    assert actions
    assert [name for name in actions if not re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", name)] == []


def test_only_jobs_that_run_nothing_of_the_project_may_write():
    """A job that installs or runs packages must not hold a token that can change the repository."""
    for path in WORKFLOWS:
        for job in re.split(r"\n  (?=\w+:)", path.read_text()):
            if re.search(r"(contents|id-token): write", job):
                assert not re.search(r"pip install|tox|npm", job), (path.name, job[:20])


def test_nightly_scripts_exist():
    text = (ROOT / ".github/workflows/nightly.yml").read_text()
    scripts = re.findall(r"measure -- (\w+)", text)
    assert scripts
    assert all((ROOT / "docs" / "measure" / f"{name}.py").is_file() for name in scripts)


def test_versions_of_the_pages_are_sorted_as_versions(tmp_path):
    pages = (ROOT / ".github/workflows/pages.yml").read_text()
    program = re.search(r"<<'PROGRAM' .*?\n(.*?)^ +PROGRAM$", pages, re.DOTALL | re.MULTILINE)[1]
    for name in ("v0.9.0", "v0.10.0", "v1.0.0", "v0.10.1"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-c", textwrap.dedent(program)]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    versions = [entry["version"] for entry in json.loads(out)]
    assert versions == ["v1.0.0", "v0.10.1", "v0.10.0", "v0.9.0"]


def test_hooks_run_what_lint_runs():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    commands = tox["testenv:lint"]["commands"].split("\n")[1:]
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    plain = [re.sub(r" --force-exclude| \.(?= |$)| --check(?= \.)", "", c) for c in commands]
    wanted = [re.sub(r" --force-exclude", "", hook) for hook in hooks]
    assert wanted == plain


def test_environments_are_found():
    assert {"docs", "lint", "package"} <= environments()
    assert "nothing" not in environments()
