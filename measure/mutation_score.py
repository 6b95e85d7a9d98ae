"""
Plant mistakes in dlref's own kernels and forms, one at a time, and see whether its tests notice.

Each mutant exchanges one operator, comparison, constant or sign of a function, in a copy of the
tree. The tests of its topic run interpreted; if they pass, so do the doctests of the module, the
contract of its chapter and all tests of the chapter. What survives all of them is listed: either a
test is missing, or the change makes no difference to a result, which the list then has to say.

    tox run -e measure -- mutation_score --count 300 --seed 1
"""

import argparse
import ast
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "results" / "mutation_score.csv"
CHAPTERS = (
    "activations", "attention", "calculus", "convolution", "losses", "neurons", "normalization",
    "positions", "propagation", "recurrent", "training", "transformer",
)  # fmt: skip
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
LIMIT = 240  #: seconds; an endless loop counts as noticed


def sites(tree):
    """Yield the nodes of functions that can be changed: no annotations, no text of errors."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Raise | ast.JoinedStr | ast.FunctionDef):
                    continue
                if mutation(node) is not None:
                    yield node


def mutation(node):
    """Return a description of the change of a node, None if it has none."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return f"{ast.unparse(node)} with {OPERATORS[type(node.op)].__name__}"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        return f"{ast.unparse(node)} with {COMPARISONS[type(node.ops[0])].__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"{ast.unparse(node)} without its sign"
    if isinstance(node, ast.Constant) and type(node.value) is float:
        return f"{node.value} times 1.01, or 0.01"
    return None


def change(node):
    if isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
    else:
        node.value = node.value * 1.01 or 0.01


def sample(count, seed):
    """Return (file, number of the site), as many of each chapter."""
    rng, chosen = random.Random(seed), []
    for k, chapter in enumerate(CHAPTERS):
        every = [
            (path, number)
            for path in sorted((ROOT / "dlref" / chapter).rglob("*.py"))
            for number, _ in enumerate(sites(ast.parse(path.read_text(encoding="utf-8"))))
        ]
        share = count * (k + 1) // len(CHAPTERS) - count * k // len(CHAPTERS)
        chosen += rng.sample(every, min(share, len(every)))
    return chosen


def planted(path, number):
    """Return the source with one site changed, its line and the description."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = list(sites(tree))[number]
    words, line = mutation(node), node.lineno
    change(node)
    return ast.unparse(tree), line, words


def stages(path):
    """Yield arguments of pytest, the quickest first."""
    chapter = path.relative_to(ROOT / "dlref").parts[0]
    topic = path.stem.strip("_")
    own = ROOT / "tests" / chapter / f"test_{topic}.py"
    if own.exists():
        yield [str(own.relative_to(ROOT))]
    yield ["tests/test_contract.py", "-k", f"{chapter}."]
    yield ["--doctest-modules", f"dlref/{chapter}"]
    yield [f"tests/{chapter}"]


def noticed(folder, path, environment):
    """Return the arguments of the first tests that fail, None if all pass."""
    for arguments in stages(path):
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "time"
        if done.returncode not in {0, 5}:  # 5: no test was selected
            return " ".join(arguments)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--output", type=Path, default=TABLE)
    told = parser.parse_args()
    chosen = sample(told.count, told.seed)
    random.Random(told.seed).shuffle(chosen)
    rows, end = [], time.monotonic() + 60 * told.minutes
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "dlref"
        skipped = shutil.ignore_patterns(".*", "_build", "__pycache__", "gallery")
        shutil.copytree(ROOT, folder, ignore=skipped)
        environment = {
            **os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "tests")]),
        }  # fmt: skip
        for path, number in chosen:
            if time.monotonic() > end:
                break
            target = folder / path.relative_to(ROOT)
            source, line, words = planted(path, number)
            target.write_text(source, encoding="utf-8")
            found = noticed(folder, path, environment)
            shutil.copyfile(path, target)
            rows.append([str(path.relative_to(ROOT)), line, words, found or "survives"])
            print(*rows[-1], sep=" | ", flush=True)
            with told.output.open("w", encoding="utf-8", newline="") as file:
                header = ["file", "line", "change", "noticed by"]
                csv.writer(file, lineterminator="\n").writerows([header, *rows])
    alive = sum(row[3] == "survives" for row in rows)
    print(f"{len(rows)} mutants, {alive} survive: {100 * (1 - alive / max(1, len(rows))):.1f} %")


if __name__ == "__main__":
    main()
