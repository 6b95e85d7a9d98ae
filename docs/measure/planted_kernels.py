"""
Put planted kernels to check_all, and right ones: ``tox run -e measure -- planted_kernels``.

Kernels are planted from four sources: the mistakes of the records, each in a kernel that is right
wherever it does not apply; the rows of tests/check, some of them public reports; the same written
for PyTorch and JAX; the plain formulas of the records, but for stacks and models, which consist of
others, with one operation, factor, power, index or constant changed. A kernel is named if the
headline of the report is the mistake: for a changed formula, anything but noise and parts that are
not written. Right are dlref's own functions, the plain formulas and their variants, of 16 bits in
float32, PyTorch's and JAX's; a tenth of them is put to it five times more, with other numbers.
Writes docs/results/planted.csv; with ``--list``, prints each kernel that is not flagged, not named
or named wrongly, and each alarm. ``--results FILE`` keeps outcomes, so that a run can be stopped
and resumed; ``--only NAME ...`` takes the kernels of these functions, and writes no figures.

docs/results/planted_cases.csv says how many wrong kernels the cases of each kind flag, and how many
no other kind does. ``--cases FILE`` writes the same for each case of a function's form. A case that
flags none alone costs time and may go, unless it stands for a kind of memory, size or option that
no planted kernel has.
"""

import argparse
import ast
import collections
import contextlib
import csv
import functools
import importlib
import itertools
import json
import multiprocessing
import random
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from chapters import RECORDS, WHY  # noqa: E402

from dlref import activations, check  # noqa: E402
from dlref._core.pytree import map_floats, rebuilt, tree_leaves  # noqa: E402
from dlref._records import spec_of  # noqa: E402
from dlref.check._inputs import BEYOND_TILES  # noqa: E402
from dlref.check._oracle.calls import ReferenceCall, form, is_float, widened  # noqa: E402
from dlref.check._oracle.causes import VALUE, _trials  # noqa: E402
from dlref.check._oracle.causes.mutations import OTHER, mutants  # noqa: E402
from dlref.check._oracle.examples import drawn_like, jvp_arguments  # noqa: E402
from dlref.check._oracle.formulas import every_formula, parts  # noqa: E402
from dlref.check._oracle.pairwise_options import INSEPARABLE, SEPARABLE  # noqa: E402

RESULTS = ROOT / "docs" / "results" / "planted.csv"
KINDS = ROOT / "docs" / "results" / "planted_cases.csv"
DTYPES = ("float64", "float32", "float16", "bfloat16")
#: How many mistakes of one record and form, and how many changes of one formula are planted.
OF_RECORD, OF_FORMULA = 2, 4
#: Causes that a changed formula does not have.
NO_FORMULA = ("the errors are noise", "not written", "cancels", "these are sums in")
#: Modules of maps that consist of blocks: searches in one of them take minutes.
OF_BLOCKS = ("_stacks", "_language_model", "_classifier", "_encoder_decoder")
#: Words of the headlines of rows of the tests that expect others.
IN_OTHER_WORDS = {
    "tail tile": "the last entry of x",
    "near a known factor": "2.001 *",
    "a loss times 1.37": "1.37 *",
    "slope of abs at 0": "in some places alone",
}
#: What is read off a result is true, whatever led to it.
READ = ("it is zero", "it is one number in all places", ", unchanged")


class Kernel(NamedTuple):
    """A candidate, what it is judged by, and the words of its mistake; None: any, '': none."""

    source: str
    name: str
    op: Any
    form: str
    candidate: Any
    options: dict[str, Any]
    words: str | None
    seed: int = 0


@contextlib.contextmanager
def other_numbers(seed):
    """Have all generators that begin with a known seed draw other numbers, but for the seed 0."""
    drawn = np.random.default_rng

    def other(key=None):
        return drawn(key if key is None else (seed, *np.ravel(key)))

    if seed:
        np.random.default_rng = other
    try:
        yield
    finally:
        np.random.default_rng = drawn


def put(kernel: Kernel):
    """Return the report on a kernel."""
    given = {"forward": (kernel.candidate, {}), "vjp": (None, {"vjp": kernel.candidate})}
    given["jvp"] = None, {"jvp": kernel.candidate}
    candidate, derivatives = given[kernel.form]
    with np.errstate(all="ignore"), other_numbers(kernel.seed):
        return check.check_all(candidate, kernel.op, **derivatives, **kernel.options)


def headline(report):
    """Return the cause that explains at least half of the failures, without its outputs."""
    words = report._summary().partition("; most often (")[2].partition("): ")[2]
    return re.sub(r"^in (some outputs alone|output \d+( \([^)]*\))?), ", "", words)


def is_own(f):
    return f is not None and spec_of(f)[0].f is f


# Mistakes of the records.


def like(value, results):
    """Return results in the structure and the dtypes of a value."""
    if isinstance(value, tuple):
        return rebuilt(value, [like(part, results) for part in value])
    one = next(results)
    return value if value is None else np.asarray(one).astype(np.asarray(value).dtype)


def calls(known, kind):
    """Yield calls of one form at hard inputs, in float64."""
    rng = np.random.default_rng(5)
    with contextlib.suppress(TypeError):
        for case in check.hard_inputs(known.f, "float64", every_option=True):
            if (
                case.name.startswith(BEYOND_TILES)
                or sum(map(np.size, tree_leaves(case.inputs))) > 5000
            ):
                continue
            out = known.f(*case.inputs, **case.options)
            if not all(np.isfinite(a).all() for a in tree_leaves(out) if is_float(a)):
                continue
            arguments = case.inputs
            if kind == "vjp":
                arguments = drawn_like(out, rng), *case.inputs
            elif kind == "jvp":
                arguments = jvp_arguments(known, case.inputs, rng)
            yield ReferenceCall(known.f, kind, arguments, case.options)


def is_other(results, right):
    """Return whether results are off by more than roundings are."""
    for got, want in zip(results, right, strict=False):
        if want is None or got is None:
            continue
        if np.shape(got) != np.shape(want):
            return True
        size = np.max(np.abs(want), initial=0.0)
        if not np.all(np.abs(np.asarray(got, float) - want) <= 0.02 * size + 1e-9):
            return True
    return False


def mistaken(op, kind, words):
    """Return a kernel with one mistake, right wherever that does not apply."""

    def kernel(*arguments, **options):
        kwargs = {k: widened(a) if isinstance(a, np.ndarray) else a for k, a in options.items()}
        right = ReferenceCall(op, kind, arguments, options).run()
        for said, results in _trials(ReferenceCall(op, kind, widened(arguments), kwargs)):
            if said == words and len(results) == len(tree_leaves(right)):
                return like(right, iter(results))
        return right

    return kernel


def of_records(rng):
    for known in RECORDS:
        if known.why_not or not is_own(known.f):
            continue
        for kind in ("forward", "vjp"):
            if kind == "vjp":
                try:
                    form(known.f, "vjp")
                except TypeError:
                    continue
            found = {}
            with np.errstate(all="ignore"):
                for call in itertools.islice(calls(known, kind), 12):
                    right = tree_leaves(call.run())
                    for words, results in _trials(call):
                        if len(results) == len(right) and is_other(results, right):
                            found.setdefault(words)
            for words in rng.sample([*found], min(OF_RECORD, len(found))):
                kernel = mistaken(known.f, kind, words)
                yield Kernel("records", known.f.__name__, known.f, kind, kernel, {}, words)


# Rows of the tests.


def one_case(inputs, options, **kwargs):
    return {"cases": [check.TestCase("a case", tuple(inputs), options)], **kwargs}


def dtype_of(inputs):
    return next((np.asarray(a).dtype for a in tree_leaves(tuple(inputs)) if is_float(a)), "float64")


def of_tests():
    rows = importlib.import_module("check.test_planted").PLANTED
    for kind, what, op, candidate, arguments, options, words in rows:
        inputs = arguments if kind == "forward" else arguments[1:]
        kwargs = one_case(inputs, options, dtype=dtype_of(inputs))
        yield Kernel("tests", what, op, kind, candidate, kwargs, words)
    lines = importlib.import_module("check.test_verdicts").LINES
    for what, (op, candidate, inputs, options, words) in lines.items():
        kwargs = one_case(inputs, options, dtype=dtype_of(inputs))
        yield Kernel("tests", what, op, "forward", candidate, kwargs, words)
    reports = importlib.import_module("check.test_public_reports").REPORTS
    for what, (op, kind, candidate, kwargs, words) in reports.items():
        yield Kernel("public reports", what, op, kind, candidate, kwargs, words)


def of_frameworks():
    module = importlib.import_module("check.test_planted_in_frameworks")
    for framework, row in itertools.product(module.NAMESPACES, module.ROWS):
        kind, what, op, forward, backward, arguments, options, words = row
        inputs = arguments if kind == "forward" else arguments[1:]
        if kind == "forward":
            xp = importlib.import_module(module.NAMESPACES[framework])
            candidate = functools.partial(forward, xp)
        else:
            in_ = module.in_torch if framework == "torch" else module.in_jax
            candidate = in_(forward, backward)
        kwargs = one_case(inputs, options, dtype=dtype_of(inputs), framework=framework)
        yield Kernel("PyTorch, JAX", f"{framework} {what}", op, kind, candidate, kwargs, words)


# Changed formulas.


def change(node):
    """Yield changes of an expression: not the same as those that causes are sought with."""
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER:
        yield ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            twice = ast.BinOp(ast.Constant(2), ast.Mult(), node.right)
            yield ast.BinOp(node.left, node.op, twice)
        else:
            yield ast.BinOp(ast.Constant(2), ast.Mult(), node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        yield ast.Constant(1.1 * node.value)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt):
        yield ast.Compare(node.left, [ast.Lt()], node.comparators)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value


def in_place_of(op, kind, formula):
    """Return a formula as a kernel, dlref's own where it does not know an option."""

    def kernel(*arguments, **options):
        with np.errstate(all="ignore"):
            right = ReferenceCall(op, kind, arguments, options)
            try:
                out = formula(*arguments, **right.non_default_options)
            except NotImplementedError:
                return right.run()
            whole = right.run()
            # a formula returns numbers where dlref has arrays without axes
            return (
                like(whole, iter(tree_leaves(out)))
                if len(tree_leaves(out)) == len(tree_leaves(whole))
                else out
            )

    return kernel


def is_seen(known, kind, formula, other):
    """Return whether a changed formula has other results at hard inputs."""
    for call in calls(known, kind):
        try:
            with np.errstate(all="ignore"):
                right = tree_leaves(formula(*call.arguments, **call.non_default_options))
                if is_other(tree_leaves(other(*call.arguments, **call.non_default_options)), right):
                    return True
        except NotImplementedError:
            continue
        except Exception:
            return False  # it does not compute at all
    return False


def of_formulas(rng):
    for known in RECORDS:
        if getattr(known.f, "__module__", "").endswith(OF_BLOCKS):
            continue
        for kind, formula in WHY[known.name].plain.items() if known.f else ():
            found = [m for m in mutants(formula, change) if "OFF" not in m[1] and m[1] != "0.5"]
            rng.shuffle(found)
            seen = ((*m[:2], m[2]) for m in found if is_seen(known, kind, formula, m[2]))
            rounds = any("nextafter" in f.__code__.co_names for f in parts(formula))
            for stands, due, other in itertools.islice(seen, OF_FORMULA):
                if rounds and due == "-np.inf":  # it says which way, and is no mistake
                    continue
                kernel = in_place_of(known.f, kind, other)
                name = f"{known.f.__name__}: {stands} for {due}"
                yield Kernel("changed formulas", name, known.f, kind, kernel, {}, None)


# Right ones.


def in_float32(formula):
    """Return a formula that computes 16 bits in float32, as kernels do: its own sums overflow."""

    def wide(a):
        return a.astype(np.float32) if np.asarray(a).dtype.itemsize == 2 else a

    def kernel(*arguments, **options):
        keywords = {key: map_floats(wide, value) for key, value in options.items()}
        return formula(*map_floats(wide, arguments), **keywords)

    return kernel


def right_kernels(rng):
    known_ones = [r for r in RECORDS if not r.why_not and is_own(r.f)]
    for known in known_ones:
        if known.family not in ("elements", "losses"):  # alike
            options = {"dtype": rng.choice(DTYPES)}
            yield Kernel("dlref", known.f.__name__, known.f, "forward", known.f, options, None)
        why = WHY[known.name]
        for kind in sorted(why.plain.keys() | why.variants.keys()):
            for formula in every_formula(why, kind):
                kernel = in_place_of(known.f, kind, in_float32(formula))
                options = {"dtype": rng.choice(DTYPES)}
                yield Kernel("formulas", known.f.__name__, known.f, kind, kernel, options, None)
    right = importlib.import_module("check.test_right")
    for (op, f), dtype in itertools.product(right.F.items(), DTYPES):
        options = {"dtype": dtype, "framework": "torch"}
        yield Kernel("PyTorch", op.__name__, op, "forward", f, options, None)
        yield Kernel("PyTorch", op.__name__, op, "vjp", right.backward(f), options, None)
    jax = importlib.import_module("jax")
    for (op, f), dtype in itertools.product(right.of_jax(jax).items(), DTYPES):
        narrow = op is activations.softmax and dtype in ("float16", "bfloat16")
        options = {"dtype": dtype, "framework": "jax"}
        options |= {"accum_dtype": dtype} if narrow else {}
        if op is not activations.logsumexp:
            yield Kernel("JAX", op.__name__, op, "forward", f, options, None)


#: How many right kernels of ten get other numbers, and how many times.
OF_TEN, SEEDS = 1, 5
AGAIN = "other seeds"


def with_other_numbers(kernels, rng):
    """Yield some of the right kernels with other seeds."""
    for kernel in rng.sample(kernels, len(kernels) * OF_TEN // 10):
        for seed in range(1, SEEDS + 1):
            name = f"{kernel.source}: {kernel.name}"
            yield kernel._replace(source=AGAIN, name=name, seed=seed)


# The count.


def outcome(kernel):
    """Return flagged, named, named wrongly, words, and which of dlref's own cases flag it."""
    report = put(kernel)
    own = {row.case: row.outcome == "off" for row in report.rows}
    if "cases" in kernel.options:
        own = {}
    return *found_of(kernel, report), own


def found_of(kernel, report):
    """Return flagged, named, named wrongly, and words."""
    said = headline(report)
    if report:
        return False, False, False, "right"
    if kernel.words is None:
        read = any(words in said for words in READ)
        wrong = any(words in said for words in NO_FORMULA) and not read
        return True, bool(said) and not wrong, wrong, said
    words = IN_OTHER_WORDS.get(kernel.name, kernel.words)
    named = bool(said) and (words in said if words else False)
    named = named or any(words in said for words in READ if kernel.words)
    if said and not named and kernel.source == "records":
        named = all(
            alike(call, kernel.words, said) for call in calls(spec_of(kernel.op)[0], kernel.form)
        )
    return True, named, bool(said) and not named, said


def alike(call, planted, said):
    """Return whether two mistakes have the same results, or one does not apply."""
    found = dict(_trials(call))
    one = VALUE.fullmatch(said)
    values = one["value"].split(" or ") if one else []
    names = [said, *(f"{one['key']} is {value}, not {one['due']}" for value in values)]
    if planted not in found or not any(name in found for name in names):
        return True
    return any(not is_other(found[name], found[planted]) for name in names if name in found)


KERNELS: list[Kernel] = []
#: Sources of right kernels.
RIGHT = ("dlref", "formulas", "PyTorch", "JAX", AGAIN)


def is_wanted(kernel, names):
    return not names or kernel.op.__name__ in names


def numbered(i):
    return i, outcome(KERNELS[i])


def all_kernels(rng):
    yield from of_records(rng)
    yield from of_tests()
    yield from of_frameworks()
    yield from of_formulas(rng)


def key_of(kernel):
    options = kernel.options.get("dtype"), kernel.options.get("framework")
    seed = (kernel.seed,) if kernel.seed else ()
    what = kernel.source, kernel.op.__name__, kernel.form, kernel.name, kernel.words
    return repr((*what, *options, *seed))


def outcomes(kernels, path):
    """Yield the number and the outcome of each kernel; those in a file of results are not rerun."""
    done = {}
    if path is not None and path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        done = {key: tuple(found) for key, found in map(json.loads, lines)}
    KERNELS.extend(kernels)
    todo = [i for i, kernel in enumerate(kernels) if key_of(kernel) not in done]
    yield from ((i, done[key_of(one)]) for i, one in enumerate(kernels) if key_of(one) in done)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for i, found in pool.imap_unordered(numbered, todo):
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key_of(kernels[i]), found]) + "\n")
            yield i, found


def of_cases(kernels, outcomes_of_wrong):
    """Return rows: function, form, case, wrong kernels, those that the case flags, and alone."""
    found: dict[tuple, list] = collections.defaultdict(list)
    for i, (_, _, _, _, *own) in outcomes_of_wrong.items():
        if own and own[0]:
            found[kernels[i].op.__name__, kernels[i].form].append(own[0])
    rows = []
    for (name, kind), some in sorted(found.items()):
        for case in dict.fromkeys(case for flags in some for case in flags):
            flagging = [flags for flags in some if flags.get(case)]
            alone = sum(sum(flags.values()) == 1 for flags in flagging)
            rows.append([name, kind, case, len(some), len(flagging), alone])
    return rows


#: How the names of cases begin, and what cases of that kind are called.
NAMED = {
    BEYOND_TILES: "sizes beyond tiles, and pairs of options",
    SEPARABLE: "several options together",
    INSEPARABLE: "several options together",
    "the option": "one option",
    "memory with gaps along rows": "memory with gaps, after an offset",
    "memory with gaps": "memory with gaps in the first array",
    "memory that is read-only": "read-only memory, and an upstream gradient of one number",
    "memory": "memory in another order",
    "shapes": "other shapes",
    "random": "random numbers",
    "{": "options of the mathematics",
    "tiny": "numbers that are tiny or huge",
    "huge": "numbers that are tiny or huge",
    "large": "numbers that are tiny or huge",
    "20 times": "numbers that are tiny or huge",
    "an offset": "an offset of 10,000",
    "ties": "equal numbers",
    "zeros": "zeros of both signs",
}
OWN = "cases of one topic"


def kind_of(case):
    return next((kind for start, kind in NAMED.items() if case.startswith(start)), OWN)


def of_kinds(outcomes_of_wrong):
    """Return rows: kind of case, wrong kernels it was put to, those it flags, and alone."""
    counts: dict[str, collections.Counter] = {
        kind: collections.Counter() for kind in dict.fromkeys((*NAMED.values(), OWN))
    }
    for _, _, _, _, *own in outcomes_of_wrong.values():
        for flags in (one for one in own if one):
            kinds = {kind_of(case) for case in flags}
            flagging = {kind_of(case) for case, is_off in flags.items() if is_off}
            for kind in kinds:
                counts[kind].update(put=1, flags=kind in flagging, alone=flagging == {kind})
    return [[kind, c["put"], c["flags"], c["alone"]] for kind, c in counts.items()]


def write(path, heads, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="a file of outcomes, to resume a run")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", help="the names of functions")
    parser.add_argument("--cases", type=Path, help="where to write a table of cases and kernels")
    options = parser.parse_args()
    if options.only:
        RECORDS[:] = [one for one in RECORDS if one.f and one.f.__name__ in options.only]
    planted = [
        one for one in all_kernels(random.Random(options.seed)) if is_wanted(one, options.only)
    ]
    rng = random.Random(options.seed)  # of its own, so that others may be planted
    right = [one for one in right_kernels(rng) if is_wanted(one, options.only)]
    kernels = [*planted, *right, *with_other_numbers(right, rng)]
    counts: dict[str, collections.Counter] = {one.source: collections.Counter() for one in kernels}
    of_wrong = {}
    for i, found in outcomes(kernels, options.results):
        one, (flagged, named, wrong, said) = kernels[i], found[:4]
        if i < len(planted):
            of_wrong[i] = found
        counts[one.source].update(kernels=1, flagged=flagged, named=named, wrong=wrong)
        bad = flagged if i >= len(planted) else not (flagged and (named or one.words == ""))
        if options.list and bad:
            print(one.source, one.form, one.op.__name__, one.name, one.options.get("dtype", ""),
                  one.words, said, sep=" | ", flush=True)  # fmt: skip
    heads = "source", "kernels", "flagged", "named", "named wrongly"
    rows = [
        [
            source,
            c["kernels"],
            c["flagged"],
            *(("–", "–") if source in RIGHT else (c["named"], c["wrong"])),
        ]
        for source, c in counts.items()
    ]
    print(*heads, *(f"\n{row}" for row in rows))
    if options.cases:
        heads_of_cases = "function", "form", "case", "wrong kernels", "flags", "alone"
        write(options.cases, heads_of_cases, of_cases(kernels, of_wrong))
    if not options.only:
        write(RESULTS, heads, rows)
        write(KINDS, ("case", "wrong kernels", "flags", "alone"), of_kinds(of_wrong))


if __name__ == "__main__":
    main()
