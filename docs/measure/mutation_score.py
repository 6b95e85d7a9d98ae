"""
Plant mistakes in dlref's own kernels and forms, one at a time, and see whether its tests notice.

Each mutant exchanges one operator, comparison, constant or sign of a function. The tests of a
chapter are collected once, interpreted; for each mutant the process forks, and in the child the
function gets its changed code, wherever it is held. The tests run from those nearest to the change
to those of the whole chapter, until one fails. A survivor needs a test, or a reason why the change
makes no difference to a result, which the column ``reason`` of the table has to give.

    tox run -e measure -- mutation_score --count 300 --seed 1 --resume

Writes docs/results/mutation_score.csv line by line, so that a run can be stopped and resumed.
``--again`` reruns the survivors that have no reason.
"""

import argparse
import ast
import contextlib
import csv
import gc
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "results" / "mutation_score.csv"
HEADER = ("file", "line", "change", "noticed by", "reason")
SURVIVES = "survives"
NOWHERE = "no function has this code"  #: its module is not loaded: this tells nothing
CHAPTERS = (
    "_math", "activations", "attention", "calculus", "convolution", "losses", "neurons",
    "normalization", "positions", "propagation", "quantization", "recurrent", "training",
    "transformer",
)  # fmt: skip
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
#: Seconds of processor time that one test may take before it counts as an endless loop, and that
#: all tests of a mutant may take before it counts as a survivor of those that ran.
OF_TEST, OF_ALL = 90, 900
#: Tests of the functions that `dlref._math` is made for.
OF_ELEMENTS = (
    "tests/activations",
    "tests/attention/test_scaled_dot_product.py",
    "tests/losses/test_cross_entropy.py",
)
#: The imports of a file.
IMPORTS = re.compile(r"^(?:from|import) [^(\n]*(?:\([^)]*\))?", re.MULTILINE)


class Mutant(NamedTuple):
    """A site in a file of dlref, by its number, and the line and words of its change."""

    path: Path
    number: int
    line: int
    words: str

    @property
    def key(self):
        return str(self.path.relative_to(ROOT)), str(self.line), self.words


# Where mistakes are planted.


def sites(tree):
    """Yield the nodes of functions that can be changed."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if can_change(node):
                    yield node


def can_change(node):
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATORS
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in COMPARISONS
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    return isinstance(node, ast.Constant) and type(node.value) is float


def mutation(node):
    """Return a description of the change of a node."""
    if isinstance(node, ast.BinOp):
        return f"{ast.unparse(node)} with {OPERATORS[type(node.op)].__name__}"
    if isinstance(node, ast.Compare):
        return f"{ast.unparse(node)} with {COMPARISONS[type(node.ops[0])].__name__}"
    if isinstance(node, ast.UnaryOp):
        return f"{ast.unparse(node)} without its sign"
    return f"{node.value} times 1.01, or 0.01"


def change(node):
    if isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
    else:
        node.value = node.value * 1.01 or 0.01


@cache
def nodes_of(path):
    """Return the nodes of a file that can be changed; do not change these."""
    return list(sites(ast.parse(path.read_text(encoding="utf-8"))))


def mutant(path, number):
    node = nodes_of(path)[number]
    return Mutant(path, number, node.lineno, mutation(node))


def sample(count, seed):
    """Return mutants, as many of each chapter."""
    rng, chosen = random.Random(seed), {}
    for k, chapter in enumerate(CHAPTERS):
        share = count * (k + 1) // len(CHAPTERS) - count * k // len(CHAPTERS)
        paths = sorted((ROOT / "dlref" / chapter).rglob("*.py"))
        every = [(path, number) for path in paths for number in range(len(nodes_of(path)))]
        chosen[chapter] = [mutant(*one) for one in rng.sample(every, min(share, len(every)))]
    return chosen


# How they are planted: a function gets other code.


def codes(code):
    """Yield a code object and those within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes(one)


def plant(mutant):
    """Give the changed code to every function that has the code of a mutant's file."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    change(list(sites(tree))[mutant.number])
    whole = compile(tree, str(mutant.path), "exec")
    news = {(one.co_firstlineno, one.co_name): one for one in codes(whole)}
    firsts = {line: one for (line, _), one in news.items()}
    planted = 0
    for f in gc.get_objects():
        if isinstance(f, FunctionType) and f.__code__.co_filename == str(mutant.path):
            old = f.__code__
            new = news.get((old.co_firstlineno, old.co_name), firsts.get(old.co_firstlineno))
            if new is not None and new.co_freevars == old.co_freevars:
                # copies of kernels have names of their own
                f.__code__ = new.replace(co_name=old.co_name, co_qualname=old.co_qualname)
                planted += 1
    return planted


# The tests, the nearest first.


@cache
def imports_of(folder):
    """Return what each file of a folder imports."""
    return {one: "\n".join(IMPORTS.findall(one.read_text("utf-8"))) for one in folder.rglob("*.py")}


@cache
def public_of(path):
    body = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def users(path):
    """Return the files of a chapter that use a file, and itself, by what they import."""
    imports = imports_of(ROOT / "dlref" / path.relative_to(ROOT / "dlref").parts[0])
    found, last = {path}, {path}
    while last:
        names = re.compile("|".join(rf"\b{re.escape(one.stem)}\b" for one in last))
        last = {one for one, text in imports.items() if names.search(text)} - found
        found |= last
    return found


def nearness(path):
    """Return a key that sorts tests: those of the topic before those of the chapter."""
    chapter = path.relative_to(ROOT / "dlref").parts[0]
    files = users(path)
    topics = {one.stem.strip("_") for one in files}
    public = set().union(*(public_of(one) for one in files))
    own = path.stem.strip("_")

    def key(item):
        file, name = item.path, item.name
        if file.name == "test_contract.py":
            called = re.search(rf"{chapter}\.(\w+)", name)
            return 0 if called and called[1] in public else 4
        if file.name.startswith(f"test_{own}"):
            return 1
        if file in files or file.stem.removeprefix("test_") in topics:
            return 2
        return 3 if file.suffix == ".py" and "tests" in file.parts else 4

    return key


class Planter:
    """A plugin of pytest that runs the collected tests on one mutant after another."""

    def __init__(self, mutants, write, end):
        self.mutants, self.write, self.end = mutants, write, end

    def pytest_runtestloop(self, session):
        for mutant in self.mutants:
            if time.time() > self.end:
                break
            items = sorted(session.items, key=nearness(mutant.path))
            found = noticed(mutant, session, items)
            if found != NOWHERE:
                self.write(mutant, found)
        return True


def noticed(mutant, session, items):
    """Return the first test that fails, in a process of its own; `SURVIVES` if none does."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        try:
            in_child(mutant, session, items, send)
        finally:
            os._exit(0)
    os.close(send)
    lines, end = b"", time.monotonic() + 10 * OF_ALL
    with os.fdopen(receive, "rb", buffering=0) as pipe:
        while time.monotonic() < end and select.select([pipe], [], [], 60) is not None:
            if not select.select([pipe], [], [], 0)[0]:
                continue
            part = pipe.read(2**16)
            if not part:
                break
            lines += part
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    options = lines.decode().splitlines()
    last = options[-1] if options else "! it ended"
    kind, _, words = last.partition(" ")
    if kind == "=":
        return SURVIVES
    return words if kind in "!F" else f"{words}, which does not end"


def in_child(mutant, session, items, send):
    """Plant a mutant, run tests until one fails, and say so."""

    def say(text):
        os.write(send, f"{text}\n".encode())

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if not plant(mutant):
        say(f"! {NOWHERE}")
        return
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also in a loop of C
    end = time.process_time() + OF_ALL
    for item, following in zip(items, [*items[1:], None], strict=True):
        if time.process_time() > end:
            break
        say(f"> {item.nodeid}")
        signal.setitimer(signal.ITIMER_PROF, OF_TEST)
        try:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            failed = session.testsfailed
        except BaseException:
            failed = True
        if failed:
            say(f"F {item.nodeid}")
            return
    say("= none")


def work(chapter, mutants, write, end):
    """Collect the tests of a chapter, and run them on its mutants."""
    arguments = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"dlref/{chapter}"]
    arguments += ["tests/math", *OF_ELEMENTS] if chapter == "_math" else [f"tests/{chapter}"]
    chosen = "activations. or losses." if chapter == "_math" else f"{chapter}."
    arguments += ["tests/test_contract.py", "-k", f"not test_contract.py or {chosen}"]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(arguments, plugins=[Planter(mutants, write, end)])


# The table.


def rows_of(path):
    """Return the rows of a table, by what was changed."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {tuple(row[:3]): row for row in [*csv.reader(file)][1:]}


def append(path, row):
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(row)


def score(rows):
    """Return how many mutants there are, are noticed, and have a reason not to be."""
    survivors = [row for row in rows if row[3] == SURVIVES]
    return len(rows), len(rows) - len(survivors), sum(bool(row[4]) for row in survivors)


def run_all(options, chosen):
    """Run the chapters in two processes each of which takes one after another."""
    environment = {
        **os.environ, "NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    waiting, running = list(chosen), []
    while waiting or running:
        running = [one for one in running if one.poll() is None]
        while waiting and len(running) < options.jobs and time.time() < options.end:
            command = [sys.executable, __file__, *sys.argv[1:], "--resume"]
            command += ["--chapter", waiting.pop(0), "--end", str(options.end)]
            running.append(subprocess.Popen(command, cwd=ROOT, env=environment))
        if time.time() >= options.end:
            waiting = []
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=TABLE)
    parser.add_argument("--resume", action="store_true", help="keep what the table has")
    parser.add_argument("--again", action="store_true", help="rerun survivors without a reason")
    parser.add_argument("--chapter", choices=CHAPTERS, help="this one alone, in this process")
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.end = options.end or time.time() + 60 * options.minutes
    chosen = sample(options.count, options.seed)
    if options.chapter:
        done = rows_of(options.output)

        def write(mutant, found):
            if mutant.key not in done:
                append(options.output, [*mutant.key, found, ""])
            print(*mutant.key, found, sep=" | ", flush=True, file=sys.__stderr__)

        todo = [one for one in chosen[options.chapter] if one.key not in done]
        if todo:
            work(options.chapter, todo, write, options.end)
        return
    rows = rows_of(options.output) if options.resume or options.again else {}
    kept = [r for r in rows.values() if not (options.again and r[3] == SURVIVES and not r[4])]
    options.output.unlink(missing_ok=True)
    for row in [HEADER, *kept]:
        append(options.output, row)
    if options.again:
        sys.argv.remove("--again")
    run_all(options, chosen)
    count, killed, reasons = score(rows_of(options.output).values())
    print(f"{count} mutants, {killed} noticed, {reasons} of the others make no difference:")
    print(f"{100 * killed / max(1, count - reasons):.1f} %")


if __name__ == "__main__":
    main()
