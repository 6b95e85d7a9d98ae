"""What the files beside the package say of it: license, citation, the picture of the README."""

import re
import tomllib
from pathlib import Path

import package
import pytest

import dlref

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_citation_agrees_with_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    said = dict(re.findall(r"^([\w-]+): (.+)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title"} <= set(said)  # and authors: what the format requires
    assert "authors:\n  - name: " + PROJECT["authors"][0]["name"] in text
    assert said["version"] == dlref.__version__
    assert said["license"] == PROJECT["license"]


@pytest.mark.parametrize("address", ["https://code.invalid/dlref", "https://dlref.example/source"])
def test_a_release_needs_the_address_of_the_repository(tmp_path, monkeypatch, address):
    """Not the placeholder of RFC 2606, for which the pages have no link."""
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{address}"\n')
    monkeypatch.setattr(package, "ROOT", tmp_path)
    if ".example/" in address:
        with pytest.raises(AssertionError, match="placeholder"):
            package.repository()
    else:
        assert package.repository() == address


def test_licence_is_the_one_that_the_package_names():
    [name] = PROJECT["license-files"]
    assert (ROOT / name).read_text(encoding="utf-8").startswith(f"{PROJECT['license']} License\n")


def test_texts_that_are_not_ours_have_a_licence_beside_them():
    texts = [p for p in ROOT.glob("gallery/*/*.txt") if not p.match("*.LICENSE.txt")]
    assert texts
    for path in texts:
        license = path.with_name(f"{path.stem}.LICENSE.txt").read_text(encoding="utf-8")
        assert license.startswith(f"{path.name} holds ")


def test_pictures_of_the_readme_are_there():
    pictures = re.findall(r"!\[.+\]\((.+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert pictures
    assert all((ROOT / name).is_file() for name in pictures)
