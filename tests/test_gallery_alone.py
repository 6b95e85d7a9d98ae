"""Scripts of the gallery, downloaded: in a folder of their own, without the repository.

What they import is installed with dlref or its figures. The few files they read are offered by
their pages, and without such a file they end with a sentence that says so.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = {path.stem: path for path in sorted((ROOT / "gallery").glob("*/plot_*.py"))}
INSTALLED = {"dlref", "numpy", "scipy", "matplotlib", "tqdm", "mpmath"} | sys.stdlib_module_names
FILES = {
    "interactive.py": ROOT / "docs/_ext/interactive.py",
    "alice.txt": ROOT / "gallery/transformer/alice.txt",
    "speed.csv": ROOT / "docs/results/speed.csv",
    "accuracy.csv": ROOT / "docs/results/accuracy.csv",
    "trained_pieces.csv": ROOT / "docs/results/trained_pieces.csv",
}
#: Scripts that end before they compute for long, and what they ask for.
ASK = {
    "plot_accuracy": "accuracy.csv",
    "plot_pieces": "trained_pieces.csv",
    "plot_speed": "speed.csv",
    "plot_storage": "alice.txt",
    "plot_rotary": "interactive.py",
}
#: With their files, in seconds.
CHEAP = ["plot_accuracy", "plot_pieces", "plot_speed", "plot_rotary"]


def imported(tree):
    """Return the modules that are imported outside a ``try``."""
    guarded = {id(n) for t in ast.walk(tree) if isinstance(t, ast.Try) for n in ast.walk(t)}
    nodes = [node for node in ast.walk(tree) if id(node) not in guarded]
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def asked(text):
    """Return the files that a script asks its reader for."""
    return set(re.findall(r'"Put (\S+), which the page offers, beside the script\."', text))


def run(script, folder, *, notebook=False):
    """Run a copy of a script, like a notebook if wanted: without ``__file__``."""
    copy = folder / f"{script}.py"
    copy.write_bytes(SCRIPTS[script].read_bytes())
    command = ["-c", f"exec(open({copy.name!r}).read())"] if notebook else [copy]
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_needs_only_what_is_installed_or_asked_for(script):
    text = SCRIPTS[script].read_text()
    assert imported(ast.parse(text)) <= INSTALLED
    needed = {name for name in FILES if f'"{name}"' in text}
    if "from interactive import" in text:
        needed.add("interactive.py")
    assert asked(text) == needed
    reads = re.findall(r"\.open\(|\bopen\(|read_text|read_bytes|loadtxt|dlref\.__file__", text)
    assert len(reads) == len(needed - {"interactive.py"})


def test_the_pages_offer_what_scripts_ask_for():
    offered = (ROOT / "docs/_ext/gallery_pages.py").read_text()
    wanted = set().union(*(asked(path.read_text()) for path in SCRIPTS.values()))
    assert wanted == set(FILES)
    for path in FILES.values():
        relative = os.path.relpath(path, ROOT / "docs")
        assert f'"/{Path(relative).as_posix()}"' in offered


@pytest.mark.parametrize(("script", "file"), ASK.items())
def test_a_script_without_its_file_says_what_to_do(tmp_path, script, file):
    pytest.importorskip("matplotlib")
    done = run(script, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"Put {file}, which the page offers, beside the script.\n"


@pytest.mark.parametrize("notebook", [False, True])
@pytest.mark.parametrize("script", CHEAP)
def test_a_script_with_its_file_runs(tmp_path, script, notebook):
    pytest.importorskip("matplotlib")
    file = FILES[ASK[script]]
    (tmp_path / file.name).write_bytes(file.read_bytes())
    done = run(script, tmp_path, notebook=notebook)
    assert done.returncode == 0, done.stderr
