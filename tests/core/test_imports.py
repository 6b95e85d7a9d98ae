"""Who imports whom: no circles, also of type checkers, and nothing from a floor above."""

import ast
import os
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lazy_loader
import pytest

from dlref._core.names import attach

ROOT = Path(__file__).parents[2]
#: Floors of the package, the lowest first: what serves all chapters, and these as they are read.
CHAPTERS = re.findall(r"^ +(\w+)$", (ROOT / "docs/reference/index.rst").read_text(), re.MULTILINE)
FLOORS = ["formulas", "_core", "_math", *CHAPTERS]
FLOORS.insert(FLOORS.index("check"), "_records")


def modules(root):
    """Return {dotted name: path} of a package."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name, path):
    """Yield the dotted names that a module imports, those for type checkers among them."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def public(chapter, root):
    """Return {name: module} of what a chapter loads lazily, as its stub says."""
    stub = root / chapter / "__init__.pyi"
    if not stub.exists():
        return {}
    lines = (line.split() for line in stub.read_text().splitlines() if line.startswith("from ."))
    return {line[-1]: line[1][1:] for line in lines if line[1] != "."}


def graph(root):
    """Return {module: modules it imports}; a chapter's public name stands for its module."""
    known, package = modules(root), root.name
    lazy = {
        f"{package}.{chapter.name}.{name}": f"{package}.{chapter.name}.{module}"
        for chapter in root.iterdir()
        for name, module in public(chapter.name, root).items()
    }
    edges = {}
    for name, path in known.items():
        edges[name] = set()
        for options in imported(name, path):
            parts = lazy.get(options, options).split(".")
            starts = (".".join(parts[:n]) for n in range(len(parts), 1, -1))
            edges[name] |= {next((start for start in starts if start in known), name)} - {name}
    return edges


def circle(edges):
    """Return the modules of a circle, or None."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def upward(edges, floors):
    """Return the pairs of modules of which one imports another from a floor above."""

    def floor(module):
        part = module.partition(".")[2].partition(".")[0]  # "" for dlref itself
        return floors.index(part) if part in floors else -1

    return [
        (name, target)
        for name, targets in edges.items()
        for target in targets
        if 0 <= floor(name) < floor(target)
    ]


def test_there_is_no_circle():
    found = circle(graph(ROOT / "dlref"))
    assert found is None, " -> ".join(found)


def test_floors_are_the_folders():
    assert {*FLOORS} == {path.parent.name for path in (ROOT / "dlref").glob("*/__init__.py")}


def test_no_module_imports_from_a_floor_above():
    """A record is loaded for the function that it belongs to, and so it may be of any chapter."""
    found = upward(graph(ROOT / "dlref"), FLOORS)
    assert [pair for pair in found if not pair[0].startswith("dlref._records.")] == []


@pytest.mark.parametrize("guard", ["", "if TYPE_CHECKING:\n    "])
def test_a_circle_and_an_upward_import_are_found(tmp_path, guard):
    root = tmp_path / "dlref"
    for chapter in ("losses", "transformer"):
        (root / chapter).mkdir(parents=True)
        (root / chapter / "__init__.py").touch()
    (root / "__init__.py").touch()
    (root / "losses" / "_a.py").write_text(f"{guard}from ..transformer import f\n")
    (root / "transformer" / "_b.py").write_text("from ..losses._a import g\n")
    (root / "transformer" / "__init__.pyi").write_text("from ._b import f as f\n")
    edges = graph(root)
    assert sorted({*circle(edges)}) == ["dlref.losses._a", "dlref.transformer._b"]
    assert upward(edges, FLOORS) == [("dlref.losses._a", "dlref.transformer._b")]


@pytest.mark.parametrize(
    ("numpy", "dlref"),
    [
        ("does not support loading in subinterpreters", "dlref needs the main interpreter of a "),
        ("libopenblas.so: not found", "libopenblas.so: not found"),
    ],
)
def test_the_error_where_numpy_cannot_be_loaded(tmp_path, monkeypatch, numpy, dlref):
    """A subinterpreter is named first; NumPy writes of broken installations."""

    def load(_):
        raise ImportError(numpy)

    monkeypatch.setattr(lazy_loader, "attach_stub", lambda *_: (load, list, ["softmax"]))
    attribute, *_ = attach("dlref.activations", "__init__.py")
    with pytest.raises(ImportError, match=f"^{dlref}"):
        attribute("softmax")
    (tmp_path / "numpy.py").write_text(f"raise ImportError({numpy!r})")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", "from dlref.activations import softmax"]
    run = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert run.stderr.strip().splitlines()[-1].startswith(f"ImportError: {dlref}")
