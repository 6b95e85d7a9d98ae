"""The script that plants mistakes in dlref, on a small module; its table and what is said of it."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import mutation_score
import pytest

ROOT = mutation_score.ROOT
ROWS = list(mutation_score.rows_of(mutation_score.TABLE).values())
PAGE = " ".join((ROOT / "docs" / "withstands.rst").read_text(encoding="utf-8").split())

MODULE = '''
def outer(x):
    """2.0 is not changed here."""
    def inner(y: "1.0") -> "2 * y":
        return y * 3.0 if y > 0 else -y
    return inner(x) + 1


def unused(x):
    if x < 0:
        raise ValueError(x - 1)
    return x
'''
TEST = """
import sample

def test_other():
    assert True

def test_outer():
    assert (sample.outer(2), sample.outer(-1)) == (7, 2)
"""
RUN = """
import sys
from pathlib import Path
import pytest
import mutation_score as m

m.ROOT, path = Path.cwd(), Path.cwd() / "dlref" / "chapter" / "sample.py"
every = [m.mutant(path, i) for i in range(len(m.nodes_of(path)))]
found = []
planter = m.Planter(every, lambda mutant, words: found.append((mutant.words, words)), 1e12)
pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", "."], plugins=[planter])
print("found", found)
"""


def test_sites_are_those_of_results():
    words = [mutation_score.mutation(node) for node in mutation_score.sites(ast.parse(MODULE))]
    assert sorted(words) == [
        "-y without its sign", "-y without its sign", "3.0 times 1.01, or 0.01",
        "3.0 times 1.01, or 0.01", "inner(x) + 1 with Sub", "x - 1 with Add", "x < 0 with LtE",
        "y * 3.0 with Div", "y * 3.0 with Div", "y > 0 with GtE", "y > 0 with GtE",
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this platform")
def test_mutants_are_noticed_or_survive(tmp_path):
    folder = tmp_path / "dlref" / "chapter"
    folder.mkdir(parents=True)
    (folder / "sample.py").write_text(MODULE)
    (tmp_path / "test_sample.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = dlref/chapter\n")
    paths = str(Path(mutation_score.__file__).parent), str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}\n{RUN}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(ast.literal_eval(done.stdout.rpartition("found ")[2]))
    noticed = {words for words, by in found.items() if by == "test_sample.py::test_outer"}
    assert noticed == {
        "-y without its sign", "3.0 times 1.01, or 0.01", "inner(x) + 1 with Sub",
        "y * 3.0 with Div",
    }  # fmt: skip
    assert {by for words, by in found.items() if words not in noticed} == {"survives"}


def test_the_nearest_tests_are_first():
    path = ROOT / "dlref" / "activations" / "_softmax.py"
    key = mutation_score.nearness(path)
    tests = ROOT / "tests"
    items = [
        SimpleNamespace(path=tests / "test_contract.py", name="test[activations.softmax_vjp]"),
        SimpleNamespace(path=tests / "activations" / "test_softmax.py", name="test"),
        SimpleNamespace(path=path, name="softmax"),
        SimpleNamespace(path=tests / "activations" / "test_gated.py", name="test"),
        SimpleNamespace(path=tests / "test_contract.py", name="test[activations.glu]"),
    ]
    assert [key(item) for item in items] == [0, 1, 2, 3, 4]


def test_a_kernel_belongs_to_the_topics_that_use_it():
    folder = ROOT / "dlref" / "calculus"
    names = {path.name for path in mutation_score.users(folder / "_kernels" / "reductions.py")}
    assert {"reductions.py", "_prod.py"} <= names
    assert "_maximum.py" not in names


def test_the_table_has_every_chapter_and_a_reason_for_each_survivor():
    """A test that does not end in time may only be slow, so no row may rest on that."""
    chapters = {Path(row[0]).parts[1] for row in ROWS}
    assert chapters == set(mutation_score.CHAPTERS)
    assert not any("does not end" in row[3] for row in ROWS)
    assert all(row[4] for row in ROWS if row[3] == mutation_score.SURVIVES)
    assert not any(row[4] for row in ROWS if row[3] != mutation_score.SURVIVES)


def test_the_page_says_what_the_table_does():
    count, noticed, reasons = mutation_score.score(ROWS)
    said = re.search(r"Of (\d+) mutants (\d+) are noticed. The other (\d+) do", PAGE)
    assert [int(number) for number in said.groups()] == [count, noticed, reasons]
