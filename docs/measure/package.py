"""Build the package, look into it, and install it where nothing else is (``tox run -e package``).

The files are built twice and have to be the same, byte for byte, so that anyone can build a release
again and compare its checksums. The wheel is installed with the lowest versions that it allows and
with the newest, for each Python from 3.11 to 3.14 that is on this machine; there, one function of
each chapter is called. ``tox run -e package -- dist``, for a release, keeps the files in a folder
dist, and their checksums in dist.sha256; it demands an address of the repository.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALLS = """
import importlib, numpy as np, dlref
from dlref import *
for chapter in dlref.__all__:
    for name in getattr(importlib.import_module(f"dlref.{chapter}"), "__all__", []) \
            if hasattr(getattr(dlref, chapter), "__path__") else []:
        getattr(getattr(dlref, chapter), name)
assert dlref.calculus.norm_grad([3.0, 4.0]).tolist() == [0.6, 0.8]
assert dlref.activations.softmax([0.0, 0.0]).tolist() == [0.5, 0.5]
assert dlref.losses.squared_error([1.0], [3.0]) == 4
assert dlref.attention.causal_mask(2, 2).tolist() == [[True, False], [True, True]]
assert dlref.normalization.layer_norm([1.0, 3.0], eps=0).tolist() == [-1, 1]
assert dlref.positions.alibi_slopes(8)[0] == 0.5
assert dlref.check.ulp_error(1.0, 1.0) == 0
print(np.__version__)
"""


def run(*command, **options):
    return subprocess.run(
        [str(c) for c in command], check=True, text=True, capture_output=True, **options
    ).stdout


def in_repository():
    """Return the files under version control that the sdist has to hold."""
    names = run("git", "ls-files", cwd=ROOT).splitlines()
    return {name for name in names if not name.startswith(".")}


def version():
    """Return the version, after checking that every file that says it agrees."""
    source = (ROOT / "dlref" / "__init__.py").read_text(encoding="utf-8")
    own = re.search('__version__ = "(.+)"', source)[1]
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {own}\n" in cited, f"CITATION.cff has another version than {own}"
    changelog = (ROOT / "docs" / "changelog.rst").read_text(encoding="utf-8")
    newest = re.search(r"^(.+)\n-+$", changelog, re.MULTILINE)[1]
    assert newest == "Unreleased" or newest.startswith(own), f"{newest} leads the changelog"
    return own


def repository():
    """Return where the repository is, which a release has to say."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    address = tomllib.loads(text)["project"]["urls"]["Repository"]
    assert ".example/" not in address, "pyproject.toml has a placeholder for the repository"
    return address


def built(folder):
    """Build the files twice, and return their checksums, which have to be the same."""
    every = []
    for out in (folder, folder / "again"):
        run(sys.executable, "-m", "build", "-o", out, ROOT)
        files = sorted(out.glob("dlref-*"))
        every.append({f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files})
    assert every[0] == every[1], f"two builds differ: {every}"
    shutil.rmtree(folder / "again")
    return every[0]


def look_into(sdist, wheel):
    """Fail if a file is missing, or one is there that nobody needs."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    missing = in_repository() - held
    assert not missing, f"not in the sdist: {sorted(missing)[:5]}"
    held = set(zipfile.ZipFile(wheel).namelist())
    assert all(name.startswith(("dlref/", "dlref-")) for name in held)
    assert "dlref/py.typed" in held
    package = {name for name in in_repository() if name.startswith("dlref/")}
    assert package <= held, f"not in the wheel: {sorted(package - held)[:5]}"


def lowest():
    """Return the lowest versions that pyproject.toml allows, as pip's constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in project["dependencies"]]
    return [f"{one[1]}=={one[2]}.*" for one in found]


def installed(python, wheel, constraints, folder):
    """Install the wheel in an environment of its own and call what it holds."""
    run(python, "-m", "venv", folder)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--only-binary=:all:", wheel]
    run(*pip, *constraints)
    return run(folder / "bin" / "python", "-W", "error", "-c", CALLS, cwd=folder).strip()


def _runs(python):
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def interpreter(minor):
    """Return a Python of that version that runs; pyenv has names of versions that do not."""
    for folder in os.environ["PATH"].split(os.pathsep):
        python = shutil.which(f"python3.{minor}", path=folder)
        if python and _runs(python):
            return python
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("keep", nargs="?", type=Path, help="folder for the files")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"dlref {version()}", repository() if keep else "")
        sums = "".join(f"{digest}  {file}\n" for file, digest in built(folder).items())
        print(sums, end="", flush=True)
        (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
        run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
        look_into(sdist, wheel)
        print(f"{sdist.name}: {sdist.stat().st_size / 1e3:.0f} kB", flush=True)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB", flush=True)
        for minor in range(11, 15):
            python = interpreter(minor)
            if python is None:
                print(f"Python 3.{minor}: not on this machine")
                continue
            wanted = {"newest": []} | ({"lowest": lowest()} if minor == 11 else {})
            for which, constraints in wanted.items():
                start = time.monotonic()
                numpy = installed(python, wheel, constraints, folder / f"{minor}-{which}")
                seconds = time.monotonic() - start
                print(
                    f"Python 3.{minor}, {which} versions (NumPy {numpy}): {seconds:.0f} s",
                    flush=True,
                )
        if keep is not None:
            keep.mkdir(exist_ok=True)
            for file in (sdist, wheel):
                shutil.copy(file, keep)
            keep.with_suffix(".sha256").write_text(sums, encoding="utf-8")


if __name__ == "__main__":
    main()
