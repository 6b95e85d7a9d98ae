"""
What dlref withstands: every public function and method, with every fault in turn at every argument.

    python docs/measure/battery.py --seconds 3600 --results battery.jsonl

The trials are generated from the public list, so that no new function escapes them: bad arrays and
bad options, extreme values, odd memory, threads, other processes.  What is allowed is written with
each kind of trial.  Each trial leaves a line in the file of results, so that a run can be stopped
and resumed; a failure is reduced to the smallest call that fails alike, printed as a script.
Without a limit of time it writes docs/results/battery.csv.  Needs tqdm.
"""

import argparse
import copy
import csv
import functools
import inspect
import itertools
import json
import math
import multiprocessing
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import calls
import numpy as np
from calls import arrays, mapped
from cases import (
    SPECS,
    Problem,
    applicable,
    form_of,
    key_of,
    leaves,
    public_functions,
)

RESULTS = Path(__file__).parents[1] / "results" / "battery.csv"
SECONDS = 60  # that one trial may take; the first compiles
MEMORY = 2**31  # bytes that all trials of a process may take beyond what it has
HUGE = 2**70


class Case:
    """One call of a public function that succeeds."""

    def __init__(self, name, arguments, options, problem=None):
        self.name, self.arguments, self.options = name, arguments, options
        self.problem = problem  # with the formula, where tests/cases.py has one

    def run(self, arguments=None, options=None):
        """Call the function; generators among the options are drawn from once a call."""
        given = copy.deepcopy(self.options if options is None else options)
        return calls.function(self.name)(
            *(self.arguments if arguments is None else arguments), **given
        )


def narrowed(value):
    """Return arguments in float32."""
    return mapped(lambda a: a.astype(np.float32) if a.dtype == np.float64 else a, value)


@functools.cache
def cases():
    """Return {key: case}, of all public functions that take arrays, and of methods."""
    found = {}
    for name, _ in public_functions():
        for number, call in enumerate(SPECS[key_of(name)].calls):
            for dtype in (np.float64, np.float32):
                problem = Problem(key_of(name), call, dtype=dtype)
                arguments = problem.arguments(form_of(name))
                key = f"{name}/{number}/{np.dtype(dtype).name}"
                found[key] = Case(name, arguments, applicable(name, problem), problem)
    for name, (arguments, options) in (calls.calls() | calls.method_calls()).items():
        found[f"{name}/0/float64"] = Case(name, arguments, options)
        found[f"{name}/0/float32"] = Case(name, narrowed(arguments), options)
    return found


def replaced(arguments, target, replace):
    """Return the arguments with one array, counted in order, replaced."""
    count = itertools.count()
    return mapped(lambda a: replace(a) if next(count) == target else a, arguments)


def contents(result):
    """List the arrays of a result, those of objects and dictionaries too."""
    if hasattr(result, "__dict__"):
        result = tuple(vars(result).values())
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list) and not hasattr(result, "_fields"):
        return [a for entry in result for a in contents(entry)]
    return arrays(result)


# Bad arrays and options: refused with a TypeError or a ValueError that names the argument.

BAD = {
    "complex": lambda a: a.astype(complex),
    "longdouble": lambda a: a.astype(np.longdouble),
    "objects": lambda a: a.astype(object),
    "strings": lambda a: np.full(a.shape, "a"),
    "bytes": lambda a: np.full(a.shape, b"a"),
    "texts": lambda a: np.full(a.shape, "a", dtype=np.dtypes.StringDType()),
    "dates": lambda a: np.full(a.shape, np.datetime64("2001-01-01")),
    "durations": lambda a: np.full(a.shape, np.timedelta64(1, "s")),
    "records": lambda a: np.zeros(a.shape, [("x", "f8"), ("y", "i4")]),
    "ragged": lambda _: [[1.0], [1.0, 2.0]],
    "masked": lambda a: np.ma.masked_array(a, mask=np.ones(a.shape, bool)),
    "dictionary": lambda _: {"a": 1.0},
    "set": lambda _: {1.0, 2.0},
    "generator": lambda a: (x for x in a.ravel()),
    "function": lambda _: len,
    "axes": lambda _: np.ones((1,) * 40),
    "nested": lambda a: [a.tolist(), a.tolist(), [[[[[]]]]]],
}
#: Refused, or answered: what they mean depends on the argument.
DOUBTFUL = {
    "none": lambda _: None,
    "integers": lambda _: [HUGE],
    "negative": lambda a: -np.ones(a.shape, int),
    "empty": lambda a: np.empty((0, *a.shape[1:]), a.dtype),
    "an axis more": lambda a: np.ones((2, *a.shape), a.dtype),
    "an entry more": lambda a: np.ones([n + 1 for n in a.shape], a.dtype),
    "a number": lambda a: a.dtype.type(1),
}
VALUES = {
    "array": lambda: np.ones(3),
    "matrix": lambda: np.eye(2),
    "huge": lambda: HUGE,
    "minus": lambda: -1,
    "zero": lambda: 0,
    "half": lambda: 0.5,
    "nan": lambda: math.nan,
    "infinite": lambda: -math.inf,
    "text": lambda: "no such thing",
    "nothing": lambda: None,
    "list": list,
    "object": object,
    "complex": lambda: 1j,
    "true": lambda: True,
}


def refusal(run, *, must=False):
    """Return what is wrong with how a call is refused, "" if nothing."""
    try:
        run()
    except (TypeError, ValueError) as error:
        named = re.match(r"Argument '|.*'\w+'|Option|.*\bseed\b|Expected", str(error))
        return "" if named else f"the error names no argument: {error!r}"
    return "accepted" if must else ""


def try_array(case, kind, target):
    """Put a bad array in place of a good one."""
    make = {**BAD, **DOUBTFUL}[kind]
    arguments = replaced(case.arguments, target, make)
    return refusal(
        lambda: case.run(arguments), must=kind in BAD and not welcome(case, kind, target)
    )


def welcome(case, kind, target):
    """Whether an argument may be what others may not: exact values have more digits."""
    errors = case.name in ("check.ulp_error", "check.error_report")
    return errors and target == 1 and kind in ("longdouble", "objects")


def try_option(case, kind, option):
    """Put a bad value in place of an option."""
    options = {**case.options, option: VALUES[kind]()}
    return refusal(lambda: case.run(options=options))


# Extreme values: no warning, and the answer where there is one.

EXTREMES = ("zero", "subnormal", "tiny", "large", "largest", "infinite", "nan")
INNER = ("subnormal", "tiny", "large")  # extremes whose sums do not overflow
FORMS = ("map", "deriv", "vjp", "jvp", "grad")  # that are compared with the formula
NEAR = 1e-5  # of the largest number of an answer, in float32 too
#: Rounding errors of gradients, relative to the product of what they are made of.
NOISE = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 1e-6}
#: They multiply and add in another order than the formula, and overflow elsewhere.
REORDERED = {
    *("normalization.batch_norm", "normalization.instance_norm"),
    *("attention.linear_attention", "positions.cope"),
}
#: Their slopes jump where numbers are equal, or whole.
KINKS = {
    *("calculus.max_grad", "calculus.max_jvp", "calculus.max_vjp"),
    *("positions.cope_jvp", "positions.cope_vjp"),
}
#: Their docstrings say from which angle on they give NaN, and below which c a difference cancels;
#: powers of large weights and keys overflow.
LIMITED = {
    *("positions.fire_bias_vjp", "positions.fire_bias_jvp"),
    *("recurrent.rnn", "recurrent.rnn_vjp", "recurrent.rnn_jvp"),
    "attention.recurrent_linear_attention_vjp",
    *("positions.rope_tables", "positions.rope_matrix", "positions.rope_score"),
    "positions.rope_tables_multi",
    *("positions.rope_score_vjp", "positions.rope_score_jvp"),
}


def extreme(kind, dtype):
    """Return a value of a kind."""
    info = np.finfo(dtype)
    root = 10.0 ** (160 if dtype == np.float64 else 20)
    table = dict(
        zip(
            EXTREMES,
            (0, info.smallest_subnormal, 1 / root, root, info.max, np.inf, np.nan),
            strict=True,
        )
    )
    return dtype.type(table[kind])


def pushed(a, kind):
    """Return an array with its signs and an extreme size, one entry of seven left as it is."""
    size = np.full(a.shape, extreme(kind, a.dtype))
    out = np.copysign(size, a)
    out.reshape(-1)[6::7] = a.reshape(-1)[6::7]
    return out


def step(f, inputs, tangents, dtype):
    """Return the derivative of a formula along tangents, by a complex step."""
    h = dtype("1e-2400" if dtype == np.longdouble else "1e-100")
    moved = [
        x if v is None else np.asarray(x, np.result_type(dtype, 1j)) + 1j * h * np.asarray(v, dtype)
        for x, v in zip(inputs, tangents, strict=True)
    ]
    out = f(*moved)
    return tuple(y.imag / h for y in out) if isinstance(out, tuple) else np.asarray(out).imag / h


def formula(case, arguments, dtype):
    """Return the values of the formula in a dtype as a list of arrays; 80 bits hold 1e4932."""
    problem, form = case.problem, form_of(case.name)
    f = functools.partial(problem.formula, **problem.options)
    dout, tangents = (), ()
    inputs = arguments
    if form == "vjp":
        dout, inputs = arguments[0], arguments[1:]
    if form == "jvp":
        inputs, tangents = arguments
        if len(problem.inputs) == 1:
            inputs, tangents = (inputs,), (tangents,)
    varying = problem.varying
    wide = [
        a.astype(dtype) if k in varying else a
        for k, a in enumerate(a if a is None else np.asarray(a) for a in inputs)
    ]
    if form == "map":
        return leaves(f(*wide))
    if form == "jvp":
        return leaves(step(f, wide, tangents, dtype))
    if form == "deriv":
        return leaves(step(f, wide, [np.ones(wide[0].shape)], dtype))
    wanted = []
    for k in varying if form == "vjp" else problem.of:
        gradient = np.zeros(wide[k].shape, dtype)
        for j in range(gradient.size):
            unit = np.zeros(gradient.size, dtype)
            unit[j] = 1
            moving = [None] * len(wide)
            moving[k] = unit.reshape(gradient.shape)
            slopes = leaves(step(f, wide, moving, dtype))
            weights = leaves(dout) if form == "vjp" else [np.ones(s.shape) for s in slopes]
            gradient.reshape(-1)[j] = sum(
                np.sum(u.astype(dtype) * s) for u, s in zip(weights, slopes, strict=True)
            )
        wanted.append(gradient)
    return wanted


def answer(case, arguments, dtype):
    """Return the values of the formula in more digits than `dtype` has, None if it knows none."""
    try:
        return formula(case, arguments, np.longdouble)
    except TypeError:  # a special function, or an inverse, that knows no 80 bits
        return formula(case, arguments, np.float64) if dtype == np.float32 else None


def lost(got, want, plain, noise):
    """
    Return what of the answer was lost: not finite, or all 0, where there are numbers.

    Numbers that are another are looked for where float64 is as good as 80 bits.
    """
    limits = np.finfo(got.dtype)
    there = np.isfinite(want) & (abs(want) < limits.max / 4)
    wrong = there & ~np.isfinite(got)
    if np.any(wrong):
        at = np.argmax(wrong)
        return f"{got.ravel()[at]} in place of {want.ravel()[at]}"
    most = np.max(abs(want), where=there, initial=0)
    if got.size and not np.any(got) and most > max(limits.smallest_normal * 1e10, noise):
        return f"0 in place of {most}"
    sure = there & agrees(plain, want)
    apart = abs(np.where(sure, got, 0) - np.where(sure, want, 0))
    off = apart > NEAR * most + max(noise, 1e-18)  # 80 bits round at 1e-19 around 1
    return f"{got[off]} in place of {want[off]}" if np.any(off) else ""


def rounding(form, arguments, dtype):
    """Return the rounding error that a gradient may have, in which large terms cancel; else 0."""
    if form not in ("vjp", "jvp", "grad"):
        return 0.0
    inputs, direction = arguments, np.ones(1)
    if form == "vjp":
        direction, *inputs = arguments
    if form == "jvp":
        inputs, direction = arguments
    return NOISE[dtype] * max(1.0, size(inputs)) * size(direction)


def size(value):
    """Return the largest absolute value in a tree."""
    floats = [a for a in arrays(value) if a.dtype.kind == "f"]
    return max((float(np.max(abs(a), initial=0)) for a in floats), default=0.0)


def agrees(plain, true):
    """Where the formula in float64 is as good as in 80 bits: no term of it is out of range."""
    with np.errstate(all="ignore"):
        return abs(plain - true) <= 1e-6 * abs(true)


def comparable(case, kind):
    """Whether there is an answer to compare with: no kinks, and no sums that must overflow."""
    form = form_of(case.name)
    if case.problem is None or case.name in LIMITED | KINKS or form not in FORMS:
        return False
    if kind == "largest" and case.name in REORDERED:
        return False
    return kind in INNER or (kind in ("zero", "largest") and form == "map")


def try_extreme(case, kind, target):
    """Push one array to an extreme."""
    arguments = replaced(case.arguments, target, lambda a: pushed(a, kind))
    try:
        result = case.run(arguments)
    except ValueError as error:
        return "" if str(error).startswith("Argument '") else f"{error!r}"
    if not comparable(case, kind):
        return ""
    dtype = leaves(result)[0].dtype
    with np.errstate(all="ignore"):
        true = answer(case, arguments, dtype)
        if true is None or any(np.isnan(t).any() for t in true):  # the formula itself knows none
            return ""
        plain = formula(case, arguments, dtype if kind == "largest" else np.float64)
    if kind == "largest":  # sums overflow: what the plain formula gives in the same precision
        true = [np.where(agrees(p, t), t, np.nan) for p, t in zip(plain, true, strict=True)]
    noise = rounding(form_of(case.name), arguments, dtype)
    triples = zip(leaves(result), true, plain, strict=True)
    found = (lost(g, w, p, noise) for g, w, p in triples if g.dtype.kind == "f")
    return next(filter(None, found), "")


# Odd memory, threads and processes: the same bits.


def in_file(a):
    """Return an array whose memory is a file."""
    if not a.size:
        return a
    with tempfile.TemporaryFile() as file:
        out = np.memmap(file, a.dtype, "w+", shape=a.shape or (1,))
    out[...] = a
    return out if a.shape else out[0]


def unaligned(a):
    """Return an array that begins at an odd address."""
    block = np.empty(a.nbytes + 1, np.uint8)
    out = block[1:].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def constant(a):
    """Return an array of strides 0 that repeats its first entry."""
    return np.broadcast_to(a[(0,) * a.ndim], a.shape) if a.size else a


MEMORIES = {
    "memmap": in_file,
    "unaligned": unaligned,
    "negative strides": lambda a: a[..., ::-1].copy()[..., ::-1] if a.ndim else a,
    "zero strides": constant,
    "byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "Fortran": lambda a: a.copy(order="F"),
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
}


def differs(got, want):
    """Return how two results differ, "" if they hold the same to rounding."""
    pairs = list(zip(contents(got), contents(want), strict=True))
    floats = [np.ravel(b[np.isfinite(b)]) for _, b in pairs if b.dtype.kind == "f"]
    scale = max((float(abs(b).max(initial=0)) for b in floats), default=0)
    for a, b in pairs:
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{a.dtype} {a.shape} in place of {b.dtype} {b.shape}"
        if a.dtype.kind not in "fiub":
            continue
        rounding = 0 if a.dtype.kind in "iub" else 64 * np.finfo(a.dtype).eps
        if not np.allclose(a.astype(float), b.astype(float), 0, rounding * scale, equal_nan=True):
            return f"{a} in place of {b}"
    return ""


def bits(result):
    """Return the bytes of a result."""
    return [a.tobytes() for a in contents(result)]


def try_memory(case, kind, _):
    """Put all arrays into odd memory."""
    same = constant if kind == "zero strides" else np.copy
    plain = mapped(lambda a: np.array(same(a), order="C"), case.arguments)
    try:
        want = case.run(plain)
    except np.linalg.LinAlgError:  # of equal rows
        return refusal(lambda: case.run(mapped(MEMORIES[kind], case.arguments)), must=True)
    return differs(case.run(mapped(MEMORIES[kind], case.arguments)), want)


def try_threads(case, *_):
    """Call from eight threads at once."""
    want = bits(case.run())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: bits(case.run()), range(16)))
    return "" if all(f == want for f in found) else "other bits in a thread"


def try_copies(case, *_):
    """Copy the result, and pickle it."""
    result = case.run()
    for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        if type(twin) is not type(result) or bits(twin) != bits(result):
            return "its copy is another"
    return ""


def _bits_of(key):
    return bits(cases()[key].run())


@functools.cache
def workers(kind):
    """Return two processes, started in one way."""
    return ProcessPoolExecutor(2, multiprocessing.get_context(kind))


def try_process(case, kind, key):
    """Call in another process."""
    found = workers(kind).submit(_bits_of, key).result(SECONDS)
    return "" if found == bits(case.run()) else "other bits in another process"


KINDS = {
    "bad arrays": try_array,
    "bad options": try_option,
    "extreme values": try_extreme,
    "odd memory": try_memory,
    "eight threads": try_threads,
    "copies of results": try_copies,
    "other processes": try_process,
}


def options_of(case):
    """List the options of a function: what it takes by keyword alone, and what the case gives."""
    parameters = inspect.signature(calls.function(case.name)).parameters.values()
    return sorted({p.name for p in parameters if p.kind == p.KEYWORD_ONLY} | set(case.options))


def trials():
    """Yield (kind, key of the case, fault, where) for all there is to try."""
    for key, case in cases().items():
        leaves_of = arrays(case.arguments)
        number, dtype = key.split("/")[1:]
        for target, a in enumerate(leaves_of):
            if (number, dtype) == ("0", "float64"):
                for fault in (*BAD, *DOUBTFUL):
                    yield "bad arrays", key, fault, target
            if a.dtype.kind == "f" and a.size:
                for fault in EXTREMES:
                    yield "extreme values", key, fault, target
        for fault in MEMORIES:
            yield "odd memory", key, fault, None
        yield "eight threads", key, "", None
        yield "copies of results", key, "", None
        if number == "0":
            for fault in ("fork", "spawn"):
                yield "other processes", key, fault, key
        if (number, dtype) == ("0", "float64"):
            for option, fault in itertools.product(options_of(case), VALUES):
                yield "bad options", key, fault, option


class TooLong(BaseException):
    """A trial has taken more than its time."""


def _alarm(*_):
    raise TooLong


def outcome(kind, case, fault, where):
    """Return what went wrong in a trial, "" if nothing: anything but the two errors is wrong."""
    before = signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
            warnings.simplefilter("error")
            return KINDS[kind](case, fault, where)
    except TooLong:
        return f"more than {SECONDS} s"
    except Exception as error:  # whatever a fault may lead to
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{error!r} in {Path(last.filename).name}:{last.name}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def smaller(case):
    """Yield calls with an option less, or with all axes of one length cut to 1."""
    for option in case.options:
        rest = {key: value for key, value in case.options.items() if key != option}
        yield Case(case.name, case.arguments, rest, case.problem)
    for n in sorted({side for a in arrays(case.arguments) for side in a.shape} - {0, 1}):
        for less in (1, n - 1):
            cut = functools.partial(_cut, n=n, less=less)
            yield Case(case.name, mapped(cut, case.arguments), case.options, case.problem)


def _cut(a, n, less):
    return a[tuple(slice(less) if side == n else slice(None) for side in a.shape)]


def reduced(kind, case, fault, where):
    """Return the smallest call found that fails alike."""
    word = outcome(kind, case, fault, where)[:30]
    found = True
    while found and kind != "other processes":
        found = False
        for candidate in smaller(case):
            if outcome(kind, candidate, fault, where)[:30] == word:
                case, found = candidate, True
                break
    return case


def script(kind, case, fault, where):
    """Return a script that repeats a trial."""
    case = reduced(kind, case, fault, where)
    arguments, options = case.arguments, dict(case.options)
    if kind == "bad arrays":
        arguments = replaced(arguments, where, {**BAD, **DOUBTFUL}[fault])
    if kind == "extreme values":
        arguments = replaced(arguments, where, lambda a: pushed(a, fault))
    if kind == "bad options":
        options[where] = VALUES[fault]()
    with np.printoptions(threshold=10**6, precision=17):
        given = [f"    {a!r}," for a in arguments] + [f"    {k}={v!r}," for k, v in options.items()]
    chapter, _, own = case.name.partition(".")
    return "\n".join(
        [
            "from numpy import *  # noqa",
            f"from dlref.{chapter} import *",
            f"{own}(",
            *given,
            f")  # {kind}: {fault}",
        ]
    )


def finished(path):
    """Return the trials of an earlier run, and what came of them."""
    lines = path.read_text().splitlines() if path.exists() else []
    done = {tuple(line["trial"]): line["wrong"] for line in map(json.loads, lines)}
    return {trial: wrong for trial, wrong in done.items() if wrong is not None}


def identity(trial):
    """Return a trial as it is written down."""
    return tuple(map(str, trial))


def limit_memory():
    """Let a process take only so much more than it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def write_table(done, path):
    """Write how many trials of each kind there were, on how many functions, and what failed."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["kind", "functions", "trials", "failed"])
        for kind in KINDS:
            of_kind = {trial: wrong for trial, wrong in done.items() if trial[0] == kind}
            functions = {trial[1].split("/")[0] for trial in of_kind}
            table.writerow([kind, len(functions), len(of_kind), sum(map(bool, of_kind.values()))])


def main():
    """Run the trials that are left, in an order drawn from the seed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a regular expression of trials")
    parser.add_argument("--results", type=Path, default=Path("battery.jsonl"))
    options = parser.parse_args()
    from tqdm import tqdm  # noqa: PLC0415  # the sample in the tests does without

    done = finished(options.results)
    wanted = re.compile(options.only)
    left = [t for t in trials() if identity(t) not in done and wanted.search("/".join(identity(t)))]
    random.Random(options.seed).shuffle(left)
    limit_memory()
    with options.results.open("a") as file, tqdm(left, unit="trial") as bar:

        def write(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        for trial in bar:
            kind, key, fault, where = trial
            write({"trial": identity(trial), "wrong": "the process ended"})  # unless it goes on
            try:
                wrong = outcome(kind, cases()[key], fault, where)
            except KeyboardInterrupt:  # it is to be tried again
                write({"trial": identity(trial), "wrong": None})
                raise
            done[identity(trial)] = wrong
            write({"trial": identity(trial), "wrong": wrong})
            if wrong:
                bar.write(f"{wrong}\n{script(kind, cases()[key], fault, where)}\n")
            if bar.format_dict["elapsed"] > options.seconds:
                break
    failed = sum(map(bool, done.values()))
    if not options.only and len(done) >= len(list(trials())):
        write_table(done, RESULTS)
    print(f"{len(done)} trials, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
