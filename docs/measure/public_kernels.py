"""
Put other people's kernels to check_all: ``tox run -e measure -- public_kernels``.

They are in docs/measure/public: mistakes of our reviews (``--set given``) and of public issues and
pull requests (``--set fresh``; ``--set later`` was looked up when the search was done, ``--set
november``, ``december``, ``newest``, ``latest``, ``unseen`` and ``untried`` on 2026-11-29,
``unfamiliar``, ``unmet``, ``unheard``, ``unread``, ``unwritten`` and ``unopened`` on 2026-11-30,
``unsought`` and ``unasked`` on 2026-12-01), each in a kernel that is right but for it. A kernel is
named if the headline of the report is the mistake, in any words that its expressions allow; another
headline is counted apart. Each kernel without its mistake, and kernels as people write them, have
to pass the check. Writes docs/results/public.csv.
``--list`` prints the mistake of each kernel and the headline of its report, and each right kernel
that is flagged; a run of one set writes its rows alone; ``--only NAME ...`` takes the kernels of
these functions or sources, and writes no figures.
"""

import argparse
import collections
import copy
import csv
import functools
import inspect
import multiprocessing
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from public import collected  # noqa: E402
from public.kernels import Right, Wrong  # noqa: E402

from dlref import check  # noqa: E402
from dlref._core.pytree import map_floats, tree_leaves  # noqa: E402
from dlref.check._oracle.calls import separate  # noqa: E402
from dlref.check._oracle.examples import drawn_like  # noqa: E402

RESULTS = ROOT / "docs" / "results" / "public.csv"
#: How far apart, in roundings, two numbers are that no order of operations explains.
ROUNDINGS = 64
SETS = (
    *("given", "fresh", "later", "november", "december", "newest", "latest", "unseen", "untried"),
    *("unfamiliar", "unmet", "unheard", "unread", "unwritten", "unopened", "unsought", "unasked"),
)
#: Groups of the kernels, by set and source or form.
GROUPS = {
    "B": "our reviews: inputs that proved nothing",
    "C": "our reviews: named wrongly",
    "D": "our reviews: not named",
    "GPU": "our reviews: authors of GPU kernels",
    "forward": "public reports, forward",
    "vjp": "public reports, backward",
    "later": "public reports, set 1",
    "november": "public reports, set 2",
    "december": "public reports, set 3",
    "newest": "public reports, set 4",
    "latest": "public reports, set 5",
    "unseen": "public reports, set 6",
    "untried": "public reports, set 7",
    "unfamiliar": "public reports, set 8",
    "unmet": "public reports, set 9",
    "unheard": "public reports, set 10",
    "unread": "public reports, set 11",
    "unwritten": "public reports, set 12",
    "unopened": "public reports, set 13",
    "unsought": "public reports, set 14",
    "unasked": "public reports, set 15",
    "repaired": "the same kernels without their mistakes",
    "right": "right kernels as people write them",
}


def put(op, form, candidate, options):
    """Return the report on a kernel."""
    forward, backward = (candidate, None) if form == "forward" else (None, candidate)
    if form == "autograd":
        forward, backward = candidate, "autograd"
    with np.errstate(all="ignore"):
        # a changed formula that is tried as a cause may write to its inputs
        return check.check_all(forward, op, vjp=backward, **copy.deepcopy(dict(options)))


def headline(report):
    """Return the cause that explains at least half of the failures."""
    words = report._summary().partition("; most often (")[2]
    return words.partition("): ")[2]


def is_named(one, said):
    return any(re.search(words, said, re.IGNORECASE) for words in one.named)


def calls(one):
    """Yield arguments and options of the cases that a kernel takes, in two orders of memory."""
    dtype = one.options.get("dtype", "float32")
    some = one.options.get("cases") or check.hard_inputs(one.op, dtype, every_option=True)
    known = inspect.signature(one.kernel).parameters
    rng = np.random.default_rng(7)
    for case in some:
        if set(case.options) <= set(known):
            inputs = case.inputs
            if one.form != "forward":
                inputs = drawn_like(one.op(*inputs, **case.options), rng), *inputs
            yield inputs, case.options
            yield map_floats(lambda a: np.array(a, order="F"), inputs), case.options


def own_gradients(kernel, dout, inputs, options, slip):
    """Return PyTorch's gradients of the inputs that are floats."""
    given = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in inputs]
    floats = [a.requires_grad_() for a in given if torch.is_tensor(a) and a.is_floating_point()]
    out = kernel(*given, **options, slip=slip)
    grads = torch.autograd.grad(out, floats, torch.tensor(np.asarray(dout)), allow_unused=True)
    return tuple(np.zeros(()) if grad is None else grad.numpy() for grad in grads)


def results(one, inputs, options, slip):
    """Return the results of a kernel, or PyTorch's gradients of them."""
    if one.form != "autograd":
        return one.kernel(*inputs, **options, slip=slip)
    dout, *inputs = inputs
    return own_gradients(one.kernel, dout, inputs, options, slip)


def is_far(a, b):
    """Return whether an element differs by more than roundings."""
    eps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}.get(b.dtype.name, 2.0**-7)
    if a.shape != b.shape:
        return True
    a, b = a.astype(float), b.astype(float)
    far = np.abs(a - b) > ROUNDINGS * eps * np.abs(b)
    other = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return np.where(np.isfinite(a) & np.isfinite(b), far, other).any()


def differs(one):
    """Return whether the slip changes a number by more than roundings."""
    for inputs, options in calls(one):
        try:
            # a generator draws the same numbers for both
            pair = [results(one, separate(tuple(inputs)), options, slip) for slip in (one.slip, "")]
        except NotImplementedError:
            continue
        leaves = zip(*map(tree_leaves, pair), strict=False)
        if any(is_far(*map(np.asarray, both)) for both in leaves):
            return True
    return False


def repaired(wrong):
    """Yield each kernel without its slip, once for each way it is put to the check."""
    seen = set()
    for one in wrong:
        key = one.op, one.form, one.kernel, id(one.options) if one.options else ""
        if key not in seen:
            seen.add(key)
            yield Right("repaired", one.op, one.form, one.kernel, one.options)


def group_of(one):
    if isinstance(one, Right):
        return "repaired" if one.source == "repaired" else "right"
    if one.source in GROUPS:
        return one.source
    for name in SETS[2:]:
        if any(one is other for other in collected(name.upper())):
            return name
    return "forward" if one.form == "forward" else "vjp"


def outcome(one):
    """Return whether a kernel is flagged, and what is said of it."""
    slip = {"slip": one.slip} if isinstance(one, Wrong) else {}
    report = put(one.op, one.form, functools.partial(one.kernel, **slip), one.options)
    return int(not report), headline(report), report


#: The kernels of a run, in each process.
TRIED: list[Wrong | Right] = []


def numbered(number):
    """Return whether a kernel is flagged, what is said of it, the first message, and seconds."""
    one = TRIED[number]
    start = time.time()
    with np.errstate(all="ignore"):
        if isinstance(one, Wrong) and not differs(one):
            return None, "", "", 0.0
    flagged, said, report = outcome(one)
    message = report.failed[0].verdict.message if report.failed else ""
    return flagged, said, message, time.time() - start


def is_wanted(one, names):
    name = getattr(one.op, "__name__", "")
    return not names or {name, one.source, one.kernel.__module__.rpartition(".")[2]} & {*names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", help="functions of dlref, sources or modules")
    parser.add_argument("--set", choices=SETS)
    options = parser.parse_args()
    sets = [name for name in SETS if options.set in (None, name)]
    wrong = [one for name in sets for one in collected(name.upper())]
    wrong = [one for one in wrong if is_wanted(one, options.only)]
    right = [*repaired(wrong), *(one for one in collected("RIGHT") if is_wanted(one, options.only))]
    counts: dict[str, collections.Counter] = {group: collections.Counter() for group in GROUPS}
    tried = [*wrong, *right]
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2, initializer=TRIED.extend, initargs=(tried,)) as pool:
        outcomes = pool.imap(numbered, range(len(tried)))
        for one, (flagged, said, message, seconds) in zip(tried, outcomes, strict=True):
            is_right = isinstance(one, Right)
            if flagged is None:
                sys.exit(f"{one.source}: {one.slip!r} changes nothing in {one.op.__name__}.")
            named = int(bool(not is_right and flagged and is_named(one, said)))
            other = int(bool(not is_right and flagged and said and not named))
            counts[group_of(one)].update(kernels=1, flagged=flagged, named=named, other=other)
            if options.list and (flagged or not is_right):
                word = "named" if named else "another" if other else "nothing"
                word = ("ALARM" if is_right else word) if flagged else "not flagged"
                print(word, one.source, one.op.__name__, one.form, f"{seconds:.0f} s", sep=" | ")
                print(f"    is:   {one.truth}" if not is_right else message)
                print(f"    said: {said}", flush=True)
    heads = "kernels", "number", "flagged", "named", "another cause named"
    rows = [
        [GROUPS[group], c["kernels"], c["flagged"],
         *(("–", "–") if group in ("repaired", "right") else (c["named"], c["other"]))]
        for group, c in counts.items() if c["kernels"]
    ]  # fmt: skip
    print(*heads, *(f"\n{row}" for row in rows))
    if not options.only:
        if options.set:  # only a run of all sets tries every right kernel
            with RESULTS.open(encoding="utf-8", newline="") as file:
                every = {row[0]: row for row in csv.reader(file)}
            every |= {row[0]: row for row in rows if row[3] != "–"}
            rows = [every[group] for group in GROUPS.values() if group in every]
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
