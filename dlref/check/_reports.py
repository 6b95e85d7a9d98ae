r"""A candidate over all hard inputs, and a report of it."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import as_integer, check_callable, check_keys, choice, printable, shown
from .._core.pytree import is_float, map_floats, tree_leaves
from .._records import spec_of
from .._records._spec import SEPARABLE
from ._candidates import (
    Verdict,
    as_limits,
    causes_of,
    html_table,
    judge,
    outcome,
    ratio,
    same_bits,
    with_cause,
    without_cause,
)
from ._inputs import (
    BEYOND_TILES,
    LAYOUTS,
    TestCase,
    as_kind,
    hard_inputs,
    inputs_of_forms,
    joint_inputs,
    laid_out,
    large_inputs,
    layout_inputs,
    shaped_inputs,
)
from ._oracle.arrays import as_numpy
from ._oracle.autograd import in_layout, own_vjp
from ._oracle.bounds import Limits
from ._oracle.calls import ReferenceCall, as_form, learned_options
from ._oracle.causes import (
    cause_in_common,
    in_common,
    is_measured,
    is_of_option,
    is_refuted,
    is_settled,
    is_shown,
    next_cause,
    same_cause,
)
from ._oracle.causes.evidence import Evidence
from ._oracle.causes.heuristics import NARROW_SUMS, NOISE
from ._oracle.error_maps import as_html
from ._oracle.examples import drawn_like, is_valid, jvp_arguments
from ._oracle.pairwise_options import shapes_of

#: Cases that are off, at most, if others are drawn for the search.
MAX_FEW_CASES = 3
#: How large the numbers of those are, beside the numbers of a case.
SMALL = 0.2
#: Cases without a cause, in which the causes of the others are tried.
MAX_OTHER = 4
HEADS = ("form", "case", "", "error / allowed", "error / plain", "why")


class CheckRow(NamedTuple):
    """
    A row of a report: the verdict on one form of a candidate in one case.

    Parameters
    ----------
    form : {"forward", "vjp", "jvp"}
        Form of the candidate: the map itself, its vjp or its jvp.
    case : str
        The name of the case.
    verdict : Verdict
        The verdict.

    See Also
    --------
    CheckReport : Has one for each form and case.

    Notes
    -----
    ``outcome`` is the verdict in a word: "right", "off" or "inconclusive". Rows are named tuples,
    of which ``pandas.DataFrame(report.rows)`` makes a table with a column for each field.

    Examples
    --------
    >>> from dlref.activations import softmax
    >>> from dlref.check import CheckRow, check_all
    >>> report = check_all(lambda x, axis=-1: softmax(x), softmax)
    >>> row = report.failed[0]
    >>> row.form, row.case, row.outcome, row.verdict.cause
    ('forward', "{'axis': 0}", 'off', "the option 'axis' is ignored")
    >>> CheckRow("forward", row.case, row.verdict) == row
    True
    """

    form: str
    case: str
    verdict: Verdict

    @property
    def outcome(self) -> str:
        """The verdict in a word."""
        return outcome(self.verdict)


class CheckReport(NamedTuple):
    """
    Verdicts on a candidate, one for each form and case; it prints itself as a table.

    Parameters
    ----------
    op : str
        The function of dlref.
    dtype : str
        Type of the inputs.
    rows : tuple of CheckRow
        Form, case and verdict.
    skipped_options : tuple of str
        Options that the candidate does not take, whose cases were left out.
    unsupported : tuple of str
        Form and name of each case that the candidate does not support, and why.

    See Also
    --------
    check_all : Makes it.
    CheckRow : The fields of a row.

    Notes
    -----
    A report is true if no verdict is off and at least one is right; inconclusive rows do not count,
    nor do cases that are not supported: they are counted below the summary.
    A row shows the largest ratio of an error to its tolerance, and the largest error over the error
    of the same formula computed plainly in the dtype (a dash where there is none, as for dlref's
    own in float64). Below the rows, an error map shows where the first case that is off has its
    errors; the HTML has an error map for each. ``causes`` counts the explanations. ``to_html`` and
    ``to_json`` return it as text, and write it to a file if they are given a path.

    Examples
    --------
    >>> from dlref.check import CheckReport
    >>> bool(CheckReport("relu", "float32", ()))
    True
    """

    op: str
    dtype: str
    rows: tuple[CheckRow, ...]
    skipped_options: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether no verdict is off, and one is right, if there are any cases."""
        right = any(row.verdict.ok for row in self.rows) or not (self.rows or self.unsupported)
        return right and not self.failed

    @property
    def failed(self) -> tuple[CheckRow, ...]:
        """The rows that are off."""
        return tuple(row for row in self.rows if row.outcome == "off")

    @property
    def causes(self) -> dict[str, int]:
        """How often each explanation was found, most frequent first."""
        causes = (
            output.cause for row in self.rows for output in row.verdict.outputs if output.cause
        )
        return dict(collections.Counter(causes).most_common())

    @property
    def inconclusive_outputs(self) -> tuple[str, ...]:
        """The outputs, by form and name, that no case can judge."""
        judged: dict[str, bool] = {}
        for row in self.rows:
            for output in row.verdict.outputs if len(row.verdict.outputs) > 1 else ():
                name = f"{row.form}: {output.name}"
                judged[name] = judged.get(name, False) or not output.inconclusive
        return tuple(name for name, known in judged.items() if not known)

    def _summary(self) -> str:
        count = len(self.failed)
        message = f"{count} of {len(self.rows)} cases are off" if count else "right in all cases"
        if not self.rows and self.unsupported:
            message = "no case is supported"
        if self.inconclusive_outputs:
            message += f"; no case is conclusive for {', '.join(self.inconclusive_outputs)}"
        explained = [causes_of(row.verdict) for row in self.failed]
        alike = in_common(self.causes)
        explained = [{alike.get(cause, cause) for cause in some} for some in explained]
        every = dict.fromkeys(filter(None, alike.values()))
        shares = {cause: sum(cause in some for some in explained) for cause in every}
        most = max(shares, key=lambda cause: shares[cause], default="")
        why = ""
        if most and 2 * shares[most] >= count:  # one that explains less is no headline
            is_whole = any(some == {most} for some in explained)
            where = self._only_output() if is_whole else "in some outputs alone, "
            if most.startswith("in output"):  # the cause says it itself
                where = ""
            why = f"; most often ({shares[most]}): {where}{most}"
        return f"{self.op}, {self.dtype}: {message}{why}"

    def _only_output(self) -> str:
        """Return which output is off if it is always the same one of several."""
        outputs = [output for row in self.failed for output in row.verdict.outputs]
        off = {output.name for output in outputs if outcome(output) == "off"}
        is_one = len(off) == 1 and {output.name for output in outputs} > off
        return f"in {off.pop()}, " if is_one else ""

    def _cells(self) -> list[tuple[str, str, str, str, str, str]]:
        return [
            (
                row.form,
                row.case,
                row.outcome,
                f"{ratio(row.verdict):.2g}",
                _beside_plain(row.verdict),
                _why(row.verdict),
            )
            for row in self.rows
        ]

    def __repr__(self) -> str:
        """Return the summary, and a line for each case."""
        cells = [("form", "case", "", "error/allowed", "error/plain", "why"), *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(5)]
        lines = [
            "  ".join(
                [*(part.ljust(n) for part, n in zip(row[:5], widths, strict=True)), row[5]]
            ).rstrip()
            for row in cells
        ]
        text = "\n".join([self._summary(), *self._options(), *lines, *self._error_maps()])
        return printable(text)

    def _options(self) -> list[str]:
        """Return the options and the cases that were left out, in lines."""
        lines = []
        if self.skipped_options:
            lines.append(f"options not taken: {', '.join(self.skipped_options)}")
        if self.unsupported:
            names = "; ".join(self.unsupported)
            lines.append(f"cases not supported ({len(self.unsupported)}): {names}")
        return lines

    def _error_maps(self) -> list[str]:
        """Return where the error of the first case with an error map is, in lines."""
        for row in self.failed:
            if row.verdict.error_map:
                where = f"{row.form}, {row.case}: where the error of its worst output is"
                return [where, row.verdict.error_map]
        return []

    def _repr_html_(self) -> str:
        """Return the summary and a table."""
        table = html_table(HEADS, self._cells())
        first = next((row.verdict.worst for row in self.failed if row.verdict.error_map), None)
        error_map = as_html(first.error_map) if first else ""
        message = "".join(f"<p>{escape(line)}</p>" for line in (self._summary(), *self._options()))
        return f"{message}{table}{error_map}"

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a page, and write it to a file if a path is given."""
        title = escape(f"{self.op}, {self.dtype}")
        details = "".join(
            f"<h2>{escape(f'{row.form}: {row.case}')}</h2>{row.verdict._repr_html_()}"
            for row in self.failed
        )
        page = (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"</head><body><h1>{title}</h1>{self._repr_html_()}{details}</body></html>\n"
        )
        return _written(page, path)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return all numbers as JSON, and write them to a file if a path is given."""
        rows = [
            {
                "form": row.form,
                "case": row.case,
                "outcome": row.outcome,
                "ok": row.verdict.ok,
                "message": row.verdict.message,
                "outputs": [_plain(asdict(output)) for output in row.verdict.outputs],
            }
            for row in self.rows
        ]
        report = {"op": self.op, "dtype": self.dtype, "ok": bool(self), "rows": rows}
        report["skipped_options"] = list(self.skipped_options)
        report["unsupported"] = list(self.unsupported)
        return _written(json.dumps(report, indent=1) + "\n", path)


def _why(verdict: Verdict) -> str:
    if verdict:
        notes = dict.fromkeys(output.note for output in verdict.outputs if output.note)
        inconclusive = any(output.inconclusive for output in verdict.outputs)
        return verdict.message if inconclusive else "; ".join(notes)
    return verdict.cause or verdict.message


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return text
    if not isinstance(path, str | os.PathLike):
        msg = f"Argument 'path' must be the name of a file or None, not {shown(path)}."
        raise TypeError(msg)
    Path(path).write_text(text, encoding="utf-8")
    return text


def _plain(value: Any) -> Any:
    """Return numbers that JSON has, in dicts and tuples: infinite and NaN become strings."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _beside_plain(verdict: Verdict) -> str:
    """Return the largest error over the plain formula's; a dash if there is none."""
    ratios = [
        output.max_error / output.baseline for output in verdict.outputs if output.baseline > 0
    ]
    return f"{max(ratios):.2g}" if ratios else "-"


@np.errstate(invalid="ignore")  # a signaling NaN warns where it is widened
def _is_finite(value: Any) -> bool:
    return all(
        np.isfinite(np.asarray(a, np.float64)).all() for a in tree_leaves(value) if is_float(a)
    )


def check_all(
    candidate: Callable[..., Any] | None,
    op: Callable[..., Any],
    *,
    vjp: Callable[..., Any] | str | None = None,
    jvp: Callable[..., Any] | None = None,
    dtype: npt.DTypeLike = "float32",
    framework: str | None = None,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accum_dtype: str = "float32",
    shapes: Sequence[Sequence[Any]] | None = None,
    cases: Iterable[TestCase] | None = None,
    options: Iterable[str] | None = None,
    layout: str | None = None,
    repeats: int = 1,
    progress: Callable[[Iterable[Any]], Iterable[Any]] | None = None,
    device: Any = None,
    supports: Callable[[TestCase], Any] | None = None,
    max_shapes: int | None = None,
) -> CheckReport:
    r"""
    Run a candidate over the hard inputs of a function, forward and backward.

    Parameters
    ----------
    candidate : callable or None
        The kernel, called with the inputs and options of each case; None if only derivatives are
        to be checked.
    op : callable
        A function of dlref that `hard_inputs` knows. If it is a form of a map, such as
        ``activations.softmax_vjp``, the candidate is judged as that form of the map.
    vjp : callable, "autograd" or None
        Its backward pass, called as ``vjp(dout, *inputs, **options)``; "autograd" for the gradient
        that PyTorch or JAX computes for `candidate`, a function or a module of tensors. Options
        that have a gradient in dlref, such as a bias of attention, are differentiated, too.
    jvp : callable or None
        Its forward mode, called as ``jvp(primals, tangents, **options)``.
    dtype : dtype_like
        Type of the inputs.
    framework : {"numpy", "torch", "jax"} or None
        Kind of arrays that the candidates receive; None means NumPy's, or PyTorch's if `dtype`
        is one of its types.
    factor, rtol, atol, strict, accum_dtype : as in `check_forward`
        The tolerance.
    shapes : sequence of sequence of tuple, or None
        Shapes of the inputs that the candidate can take, in place of dlref's own cases: one width
        of the heads, lengths that are multiples of a tile. Each is tried with each option. For an
        optimizer, shapes of its parameters: one array, or a tuple of several.
    cases : iterable of TestCase, or None
        The cases, in place of dlref's own; each may be a tuple of a name, inputs and options. The
        inputs keep their dtypes.
    options : iterable of str, or None
        Names of the options that the candidate takes; None reads them from its signature.
    layout : str or None
        Order of the candidate's axes, where it is not ``"BHTE"`` (batch, heads, time, width): for
        example ``"BTHE"``. Arrays with as many axes as the largest input are transposed.
    repeats : int, default 1
        How often each case is computed, with another input in between. If two results differ in any
        bit, the candidate is nondeterministic, which counts as a failure.
    progress : callable or None
        Wraps the list of cases, as ``tqdm.tqdm`` does to show a progress bar.
    device : str, torch.device or None
        Where PyTorch's tensors are placed, with the strides and the offsets of the inputs, such as
        "cuda".
    supports : callable or None
        Whether the candidate takes a case; others are skipped, and counted in the report.
    max_shapes : int or None
        How many different shapes of inputs the cases have at most, for candidates that are compiled
        for each of them; those of the most cases are kept.

    Returns
    -------
    CheckReport
        True if every case passes; prints a line for each.

    Raises
    ------
    TypeError
        If the inputs of `op` are not known, it lacks the form that is to be checked, or `shapes`,
        `cases` or `options` are malformed.
    ValueError
        If there is nothing to check; if there is a `jvp`, and `op`'s own takes more than point and
        direction; if no case fits `op` or the options of the candidate; if `options` names one that
        there is not; if there are both `shapes` and `cases`; if `layout` has other letters; or if
        `vjp` is "autograd" without a framework that has it.

    See Also
    --------
    hard_inputs : The cases.
    check_forward, check_vjp, check_jvp : The test of each.

    Notes
    -----
    An exception of the candidate counts as a failure of that case, with its message as the cause.
    ``NotImplementedError`` does not, nor a message that there is no kernel: that case is skipped,
    and counted in the report. The same holds for an exception where an input is None that the
    candidate's signature demands. Derivatives are left out where an input or the result is
    infinite.

    In addition to the hard inputs there is a case for each further option of `op`, as of
    ``hard_inputs(op, dtype, every_option=True)``. A candidate may lack such an option: the report
    says which are not taken by its signature or its derivatives'. A candidate that takes
    ``**options`` has to honor all of them, or to refuse them as Python does.

    Sizes go beyond the tiles of kernels: attention of 129 queries and 300 keys with a width of 64,
    rows of 1025 and 4097 numbers, 65 steps of a recurrent layer, 1000 classes; each with three
    axes. Every compatible pair of options occurs together in some case: a kernel can be right with
    each alone and still ignore the temperature when top-p is set. The first case with two axes is
    tried in five layouts of memory: in reverse, in Fortran order, transposed, and after a storage
    offset with gaps and without, where it is read-only.

    The search for the cause of a form ends after two minutes of computing. A block that is wrong in
    a way that no program explains would take an hour.

    Examples
    --------
    A softmax that knows only the last axis, and does not subtract the maximum:

    >>> import numpy as np
    >>> from dlref.activations import softmax
    >>> from dlref.check import check_all
    >>> def naive(x, axis=-1):
    ...     with np.errstate(all="ignore"):
    ...         return np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    >>> report = check_all(naive, softmax)
    >>> bool(report)
    False
    >>> [row.case for row in report.failed][:4]
    ["{'axis': 0}", 'large', 'an offset of 1e4', 'an offset of -1e4']
    >>> report.failed[0].verdict.cause
    "the option 'axis' is ignored"

    A SiLU that does not take ``beta`` is right in all cases without that option:

    >>> from scipy.special import expit
    >>> from dlref.activations import silu
    >>> report = check_all(lambda x: x * expit(x), silu)
    >>> bool(report), report.skipped_options
    (True, ('beta',))
    """
    run = prepared(
        candidate, op, vjp=vjp, jvp=jvp, dtype=dtype, framework=framework, factor=factor, rtol=rtol,
        atol=atol, strict=strict, accum_dtype=accum_dtype, shapes=shapes, cases=cases,
        options=options, layout=layout, repeats=repeats, device=device, supports=supports,
        max_shapes=max_shapes,
    )  # fmt: skip
    if progress is not None:
        check_callable("progress", progress)
    for case, arguments in run.plan if progress is None else progress(run.plan):
        run.add(case, arguments)
    if not run.rows and run.skipped_options and not run.unsupported:
        names = ", ".join(map(repr, dict.fromkeys(run.skipped_options)))
        msg = "Argument 'candidate' must take an option that each case has, of {}: {} does not."
        raise ValueError(msg.format(names, shown(candidate or vjp or jvp)))
    if not run.rows and not run.unsupported:
        msg = "Argument 'op' must be a function that takes one of the cases, not {}."
        raise ValueError(msg.format(shown(op)))
    return run.report()


def prepared(
    candidate: Any,
    op: Any,
    *,
    vjp: Any = None,
    jvp: Any = None,
    dtype: Any = "float32",
    framework: str | None = None,
    shapes: Any = None,
    cases: Any = None,
    options: Any = None,
    layout: str | None = None,
    repeats: int = 1,
    device: Any = None,
    supports: Any = None,
    max_shapes: Any = None,
    **limits: Any,
) -> _Run:
    """Return the run of `check_all`, which has the same arguments, before any case."""
    if isinstance(vjp, str):
        choice("vjp", vjp, ("autograd",))
        check_callable("candidate", candidate)
    for name, f in {"candidate": candidate, "vjp": vjp, "jvp": jvp}.items():
        if f is not None and not (name == "vjp" and isinstance(f, str)):
            check_callable(name, f)
    if candidate is vjp is jvp is None:
        msg = "Argument 'candidate' must be a function where neither 'vjp' nor 'jvp' is, not None."
        raise ValueError(msg)
    if framework is None and (device is not None or str(dtype).startswith("torch.")):
        framework = "torch"
    if supports is not None:
        check_callable("supports", supports)
    forms = {"forward": candidate, "vjp": vjp, "jvp": jvp}
    whole, form = as_form(op)
    # shapes and cases would have the inputs of op itself
    if form != "forward" and vjp is jvp is shapes is cases is None:
        op, forms = whole, {form: candidate}
    if forms.get("jvp") is not None and next(iter(inspect.signature(op).parameters)) == "f":
        msg = "Argument 'jvp' must be None where 'op' takes the name of a cell before the point."
        raise ValueError(msg)
    given = _chosen_forms(op, forms, framework, layout)
    if shapes is not None and cases is not None:
        msg = "Argument 'shapes' must be None where 'cases' are given."
        raise ValueError(msg)
    times = as_integer("repeats", repeats, least=1)
    run = _Run(op, given, as_limits(**limits), framework, times, device, supports)
    run.plan = _plan(op, dtype, shapes, cases, given)
    if max_shapes is not None:
        run.plan = _of_few_shapes(run.plan, as_integer("max_shapes", max_shapes, least=1))
    of_cases = [] if cases is None else [case for case, _ in run.plan]
    run.dtype = _dtypes(of_cases) or as_kind(dtype).name
    if options is not None:
        known = run.optional.union(*(case.options for case, _ in run.plan))
        run.lacking |= run.optional - _names(options, known)
    return run


def _names(options: Any, known: set[str]) -> set[str]:
    """Return the names of options; refuse those that neither the function nor a case has."""
    if isinstance(options, str) or not isinstance(options, Iterable):
        msg = f"Argument 'options' must be names of options, as in ('axis',), not {shown(options)}."
        raise TypeError(msg)
    names = {*options}
    check_keys("options", names, set(), known, what="names")
    return names


def _dtypes(cases: Iterable[TestCase]) -> str:
    """Return the names of the dtypes of the floats in the inputs of cases."""
    inputs = [
        np.asarray(a) for case in cases for a in tree_leaves(as_numpy(case.inputs)) if is_float(a)
    ]
    return ", ".join(sorted({a.dtype.name for a in inputs}))


def _as_cases(cases: Any) -> list[TestCase]:
    """Check cases; one may be any tuple of a name, inputs and options."""
    own = []
    for case in cases if isinstance(cases, Iterable) else (cases,):
        if not _is_case(case):
            what = "a name, a tuple of inputs and a dictionary of options"
            msg = f"Argument 'cases' must have {what} for each case, not {shown(case)}."
            raise TypeError(msg)
        own.append(TestCase(case[0], tuple(case[1]), case[2]))
    if not own:
        msg = "Argument 'cases' must hold at least one case."
        raise ValueError(msg)
    return own


def _is_case(value: Any) -> bool:
    kinds = str, tuple | list, dict
    alike = isinstance(value, tuple | list) and len(value) == len(kinds)
    return alike and all(map(isinstance, value, kinds))


def _chosen_forms(
    op: Any, forms: dict[str, Any], framework: str | None, layout: str | None
) -> dict[str, Any]:
    """Return the forms that are to be checked, in dlref's layout."""
    own = {form: f for form, f in forms.items() if callable(f)}
    if layout is not None:
        own = {form: in_layout(f, layout) for form, f in own.items()}
    if isinstance(forms.get("vjp"), str):  # "autograd"
        constant = ReferenceCall(op, "vjp", (), {}).spec.constant
        own["vjp"] = own_vjp(own["forward"], framework, learned_options(op), constant)
    return own


def _plan(
    op: Any, dtype: Any, shapes: Any, cases: Any, given: dict[str, Any]
) -> list[tuple[TestCase, Any]]:
    """Return all cases, each with the generator of its forms' arguments."""
    if cases is not None:
        return [(case, _arguments) for case in _as_cases(cases)]
    if shapes is not None:
        return [(case, _arguments) for case in shaped_inputs(op, dtype, shapes)]
    own = *hard_inputs(op, dtype, every_option=True), *joint_inputs(op, dtype)
    own = *own, *large_inputs(op, dtype)
    plan: list[tuple[TestCase, Any]] = [(case, _arguments) for case in own]
    for case, memory in layout_inputs(op, dtype):
        plan.append((case, functools.partial(_in_memory, layout=memory)))
    for form, case in inputs_of_forms(op, dtype):
        if form in given:
            plan.append((case, functools.partial(_in_form, form=form)))
    return plan


def _of_few_shapes(plan: list[tuple[TestCase, Any]], count: int) -> list[tuple[TestCase, Any]]:
    """Return the cases of the most frequent shapes, so many of them."""
    every = [shapes_of(case.inputs) for case, _ in plan]
    kept = {shapes for shapes, _ in collections.Counter(every).most_common(count)}
    return [entry for entry, shapes in zip(plan, every, strict=True) if shapes in kept]


class _NotTakenError(Exception):
    """Options that a candidate does not take."""


class _NotSupportedError(Exception):
    """A case that a candidate does not take, by its own word."""


@dataclass
class _Run:
    """The verdicts so far, and the options that the candidate does not take."""

    op: Any
    given: dict[str, Any]
    limits: Limits
    framework: str | None
    repeats: int
    device: Any = None
    supports: Any = None
    dtype: str = ""
    plan: list[tuple[TestCase, Any]] = field(default_factory=list)
    rows: list[CheckRow] = field(default_factory=list)
    skipped_options: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)
    seen: set[tuple[Any, ...]] = field(default_factory=set)
    evidence: list[Evidence | None] = field(default_factory=list)  # of each row
    calls: list[_Call] = field(default_factory=list)  # of each row
    again: dict[int, Callable[..., Any]] = field(default_factory=dict)  # by row: with other numbers
    last: Evidence | None = None
    # no cotangent or tangent is an input: these are drawn with seeds of one number
    rng: Any = field(default_factory=lambda: np.random.default_rng((20, 26)))

    @functools.cached_property
    def optional(self) -> set[str]:
        """The options that a candidate may lack."""
        call = ReferenceCall(self.op, "forward", (), {})
        of_forms = [sample.options for some in call.spec.of_forms.values() for sample in some]
        return {*call.defaults}.union(*of_forms)

    def report(self, *, common: bool = True) -> CheckReport:
        """Return the report so far, with causes that the cases have in common if that is wanted."""
        name = getattr(getattr(self.op, "func", self.op), "__name__", str(self.op))
        skipped_options = tuple(dict.fromkeys(self.skipped_options))
        rows = _without_chance(self.rows, self.calls)
        rows = self.with_common_causes(rows) if common else rows
        unsupported = tuple(self.unsupported)
        return CheckReport(name, self.dtype, tuple(rows), skipped_options, unsupported)

    def report_on(self, number: int) -> CheckReport:
        """Return a report on one case of the plan."""
        self.rows, self.skipped_options, self.unsupported, self.seen = [], [], [], set()
        self.evidence, self.calls, self.again = [], [], {}
        self.add(*self.plan[number])
        return self.report(common=False)

    def add(self, case: TestCase, arguments: Callable[..., Any]) -> None:
        """Judge each form of a case; one beyond tiles without the options that are not taken."""
        for f in self.given.values():
            self.lacking |= {*_lacking(f, case.options)} & self.optional
        if getattr(self.op, "keywords", {}).keys() & case.options.keys():
            return  # a partial has decided already
        missing = [key for key in case.options if key in self.lacking]
        self.skipped_options += missing
        beyond = case.name.startswith((BEYOND_TILES, SEPARABLE))
        if missing and not beyond:
            return
        options = {key: value for key, value in case.options.items() if key not in missing}
        case, rows, evidence, calls = case._replace(options=options), [], [], []
        if beyond:  # of two that differ in options that are not taken, one is enough
            what = shapes_of(case.inputs), *options
            if what in self.seen:
                return
            self.seen.add(what)
            if missing and not is_valid(self.op, case):
                return  # its shapes need an option
        if self.supports is not None and not self.supports(case):
            self.unsupported.append(case.name)
            return
        try:
            for form, (candidate, *given) in arguments(self.op, case, self.given, self.rng):
                try:
                    verdict = self.judge_form(form, candidate, tuple(given), options)
                except _NotSupportedError as error:
                    self.unsupported.append(f"{form}, {case.name} ({error})")
                    continue
                rows.append(CheckRow(form, case.name, verdict))
                evidence.append(self.last)
                calls.append(_Call(*_sizes(tuple(given)), frozenset(options)))
                if outcome(verdict) == "off":
                    self.again[len(self.rows) + len(rows) - 1] = functools.partial(
                        self.judge_other, form, candidate, tuple(given), options
                    )
        except _NotTakenError as error:
            if names := {*error.args} & self.optional:
                self.lacking |= names
                self.add(case, arguments)
                return
            message = f"the candidate does not take {', '.join(error.args)}"
            rows.append(CheckRow(form, case.name, Verdict(ok=False, message=message)))
            evidence.append(None)
            calls.append(_Call(0, 0, frozenset(options)))
        self.rows += rows
        self.evidence += evidence
        self.calls += calls

    def judge_form(
        self, form: str, candidate: Any, given: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Verdict:
        """Judge one form, as often as is wanted."""
        results: list[Any] = []

        @functools.wraps(candidate)
        def kept(*args: Any, **options: Any) -> Any:
            out = candidate(*args, **options)
            results.append(copy.deepcopy(as_numpy(out)))
            return out

        if self.repeats == 1:
            return self.judge_once(form, candidate, given, kwargs)
        first = self.judge_once(form, kept, given, kwargs)
        for number in range(2, self.repeats + 1):
            with np.errstate(all="ignore"):  # a signaling NaN, or a number near the smallest
                other = map_floats(lambda a: a[...] * np.asarray(a).dtype.type(0.5), given)
            self.judge_once(form, candidate, other, kwargs)
            again = self.judge_once(form, kept, given, kwargs)
            if first.ok != again.ok:
                turn = "right" if first.ok else "off"
                message = f"{turn} at the first call, not at call {number}: it keeps a state"
                return replace(again, ok=False, message=f"{message}; {again.message}")
            if first.ok and not same_bits(results[0], results[-1]):
                message = "two calls with the same inputs differ within their bounds"
                return replace(first, ok=False, message=f"nondeterministic: {message}")
        return first

    def judge_once(self, form: str, candidate: Any, given: Any, kwargs: dict[str, Any]) -> Verdict:
        """Return the verdict on one call; an exception of the candidate is one."""
        errors: list[Exception] = []

        def guarded(*args: Any, **options: Any) -> Any:
            try:
                return candidate(*args, **options)
            except Exception as error:  # whatever it is, it is the candidate's
                errors.append(error)
                return ()

        op, form = as_form(self.op) if form == "forward" else (self.op, form)
        call = ReferenceCall(op, form, given, kwargs)
        kept: list[Evidence] = []
        verdict = judge(guarded, call, self.limits, self.framework, self.device, kept)
        # large arrays would fill the memory, and no program is tried on them
        self.last = next((e for e in kept if e.is_small and not errors), None)
        if errors:
            error = errors[0]
            if why := _unsupported(error, candidate, given):
                raise _NotSupportedError(why) from error
            lacking = _lacking(candidate, kwargs)
            lacking += [
                key for key in kwargs if f"unexpected keyword argument {key!r}" in str(error)
            ]
            if isinstance(error, TypeError) and lacking:
                raise _NotTakenError(*dict.fromkeys(lacking))
            message = printable(f"the candidate raises {type(error).__name__}: {error}")
            if self.framework is None and OF_NUMPY.search(str(error)):
                message += " (its inputs are NumPy's arrays unless framework is 'torch' or 'jax')"
            return Verdict(ok=False, message=message)
        return verdict

    def judge_other(
        self,
        form: str,
        candidate: Any,
        given: tuple[Any, ...],
        kwargs: dict[str, Any],
        scale: float = 1.0,
    ) -> tuple[Verdict, Evidence | None] | None:
        """Judge other numbers of the same sizes; None if the map does not take them."""
        rng = np.random.default_rng(5)
        other = map_floats(functools.partial(_other_numbers, rng, scale=scale), given)
        try:
            verdict = self.judge_once(form, candidate, other, kwargs)
        except (ArithmeticError, TypeError, ValueError, _NotTakenError, _NotSupportedError):
            return None
        return verdict, self.last

    @np.errstate(all="ignore")
    def with_common_causes(self, rows: list[CheckRow]) -> list[CheckRow]:
        """
        Return the rows with the causes that hold in all cases of a form.

        Where each case has the same cause, that is it. Otherwise the program is looked for that
        leads to all results. A cause that one case alone has must hold for other numbers, too.
        """
        verdicts = [row.verdict for row in rows]
        for form in dict.fromkeys(row.form for row in rows):
            numbers = [i for i, row in enumerate(rows) if row.form == form]
            self.refute(verdicts, numbers)
            self.find_common_cause(verdicts, numbers)
        return [row._replace(verdict=v) for row, v in zip(rows, verdicts, strict=True)]

    def find_common_cause(self, verdicts: list[Verdict], numbers: list[int]) -> None:
        """Give the verdicts of some rows the cause that they have in common, if there is one."""
        off = [i for i in numbers if outcome(verdicts[i]) == "off"]
        causes = {cause for i in off for cause in causes_of(verdicts[i])}
        if not off or (len(off) > 1 and is_settled(causes)):
            return
        cases = [self.evidence[i] for i in numbers]
        other = self.again[off[0]]() if len(off) == 1 and off[0] in self.again else None
        if other is not None:
            if is_settled(causes) and _shares(causes, other[0]):
                return
            cases.append(other[1])
        cases += self.further_evidence(off)
        if cause := cause_in_common([e for e in cases if e is not None]):
            for i in off:
                if (e := self.evidence[i]) is not None and e.confirms:
                    verdicts[i] = with_cause(verdicts[i], cause)
            return
        chance = {c for c in causes if is_measured(c) and not _is_common(c, cases)}
        if other is not None and not other[0].ok:
            chance |= {c for c in causes if not _holds(c, *other)}
        for i, wrong in itertools.product(off, chance - {""}):
            verdicts[i] = without_cause(verdicts[i], wrong)

    def further_evidence(self, off: list[int]) -> list[Evidence | None]:
        """
        Return cases with small numbers that are off, where few cases are off.

        A result that is saturated, such as the probability 1 of one token, is the same for many
        programs.
        """
        if len(off) > MAX_FEW_CASES:
            return []
        every = [self.again[i](scale=SMALL) for i in off[-2:] if i in self.again]
        cases = [case[1] for case in every if case is not None]
        return [case for case in cases if case is not None and case.off]

    def refute(self, verdicts: list[Verdict], numbers: list[int]) -> None:
        """
        Take a cause from the verdicts of some rows if another row refutes it.

        It is one that is right, or one that is off without a cause. The latter does not refute a
        cause of most cases: there may be a second mistake, as in an option. It does refute another
        value of an option that it gives.
        """
        off = [i for i in numbers if outcome(verdicts[i]) == "off"]
        known = {i: e for i in numbers if (e := self.evidence[i]) is not None}
        other = [e for i, e in known.items() if not any(causes_of(verdicts[i])) and e.is_clear]
        other.sort(key=lambda e: (bool(e.off), e.size))
        alone = [e for e in other if not e.off and len(e.call.non_default_options) == 1]
        small = dict.fromkeys([*other[:MAX_OTHER], *alone[:MAX_OTHER]])
        refuted: frozenset[str] = frozenset()
        while True:
            every = [cause for i in off for cause in causes_of(verdicts[i]) if cause]
            more = {
                cause
                for cause, count in collections.Counter(every).items()
                if any(
                    is_refuted(cause, e)
                    for e in small
                    if not e.off or 2 * count <= len(off) or is_of_option(cause, e)
                )
            }
            if not more - refuted:
                return
            refuted |= more
            for i in off:
                had = causes_of(verdicts[i])
                for cause in more:
                    verdicts[i] = without_cause(verdicts[i], cause)
                if had & more and i in known and (cause := next_cause(known[i], refuted)):
                    verdicts[i] = with_cause(verdicts[i], cause)


def _shares(causes: set[str], verdict: Verdict) -> bool:
    """Return whether each of some causes is one of a verdict."""
    return all(any(same_cause(cause, other) for other in causes_of(verdict)) for cause in causes)


def _holds(cause: str, verdict: Verdict, evidence: Evidence | None) -> bool:
    """Return whether a cause explains other numbers, too, be it the first that does or the next."""
    if _shares({cause}, verdict):
        return True
    known = frozenset(causes_of(verdict))
    return evidence is not None and same_cause(cause, next_cause(evidence, known))


def _is_common(cause: str, cases: Sequence[Evidence | None]) -> bool:
    """Return whether nearly all cases show a cause that is only a number, or that all is zero."""
    shown = [is_shown(cause, e) for e in cases if e is not None and e.off]
    return 4 * shown.count(True) >= 3 * len(shown)


def _other_numbers(rng: Any, a: Any, scale: float = 1.0) -> Any:
    """
    Return numbers of about the same size, times a scale; of both signs where they have both.

    Labels stay, and rows of probabilities are such rows again.
    """
    if scale != 1 and np.isin(a, (-1, 0, 1)).all():
        return a
    factors = rng.uniform(0.7, 1.0, np.shape(a))
    if np.size(a) and np.min(a) < 0 < np.max(a):
        factors = factors * rng.choice([-1.0, 1.0], np.shape(a))
    other = scale * a * factors
    if scale != 1 and _is_distribution(a):
        other = other / other.sum(-1, keepdims=True)
    return other.astype(np.asarray(a).dtype)


def _is_distribution(a: Any) -> bool:
    """Return whether the rows of an array are probabilities, which sum to 1."""
    if not np.ndim(a) or np.min(a, initial=1.0) < 0:
        return False
    return np.allclose(np.sum(a, -1, dtype=float), 1, atol=1e-3)


class _Call(NamedTuple):
    """How many numbers and arrays a call has, and which options."""

    size: int
    arrays: int
    options: frozenset[str]


def _sizes(given: tuple[Any, ...]) -> tuple[int, int]:
    """Return how many numbers a call has, and in how many arrays."""
    arrays = [a for a in tree_leaves(given) if isinstance(a, np.ndarray)]
    return sum(a.size for a in arrays), len(arrays)


def _without_chance(rows: list[CheckRow], calls: Sequence[_Call]) -> list[CheckRow]:
    """
    Drop noise, and sums in 16 bits, as causes where only a few cases show them, by chance.

    A kernel that rounds inside does so in each case, and in large ones before it does in small.
    Sums in 16 bits may be seen in the largest case alone.
    """
    kept = [*rows]
    for form in {row.form for row in rows}:
        own = [i for i, row in enumerate(rows) if row.form == form]
        right = [calls[i] for i in own if rows[i].outcome == "right"]
        off = [i for i in own if rows[i].outcome == "off"]
        for words in NOISE, NARROW_SUMS:
            shown = [i for i in off if words in rows[i].verdict.cause]
            rare = words == NOISE and 3 * len(shown) < len(off)
            if rare or _is_quiet([calls[i] for i in shown], right):
                for i in shown:
                    verdict = without_cause(kept[i].verdict, words)
                    kept[i] = kept[i]._replace(verdict=verdict)
    return kept


def _is_quiet(noisy: Sequence[_Call], right: Sequence[_Call]) -> bool:
    """Return whether most calls that are as large as the noisy ones, and alike, are right."""
    size = max((c.size for c in noisy), default=0)
    arrays = max((c.arrays for c in noisy), default=0)
    options = frozenset[str]().union(*(c.options for c in noisy))
    alike = [c for c in right if c.size >= size and c.arrays >= arrays and c.options <= options]
    return len(alike) > len(noisy)


#: Error messages of libraries that have no kernel for a size, a dtype or an option.
NO_KERNEL = re.compile(r"not implemented for|no (available )?kernel", re.IGNORECASE)


def _unsupported(error: Exception, candidate: Any, given: tuple[Any, ...]) -> str:
    """Return why a candidate does not take a case, empty where its exception is a mistake."""
    message = printable(str(error).partition("\n")[0])
    if isinstance(error, NotImplementedError) or NO_KERNEL.search(message):
        return message or type(error).__name__
    missing = [name for name, a in zip(_demanded(candidate), given, strict=False) if a is None]
    if name := next(filter(None, missing), ""):
        return f"{name} is None"
    return ""


def _demanded(candidate: Any) -> list[str]:
    """Return the name of each parameter in its place, empty where it has a default."""
    try:
        known = inspect.signature(candidate).parameters.values()
    except (TypeError, ValueError):
        return []
    places = (p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return [p.name if p.default is p.empty else "" for p in places]


#: Error messages of libraries about arrays that are not theirs.
OF_NUMPY = re.compile(r"numpy\.ndarray")


#: Forms, each with a candidate and the arguments to give it.
Forms = Iterator[tuple[str, tuple[Any, ...]]]


def _arguments(op: Any, case: TestCase, given: dict[str, Any], rng: Any) -> Forms:
    """Yield the forms of a case that are given, with the candidate and its arguments."""
    if "forward" in given:
        yield "forward", (given["forward"], *case.inputs)
    if not given.keys() & {"vjp", "jvp"}:
        return
    with np.errstate(all="ignore"):
        out = op(*case.inputs, **case.options)
    if _is_finite(out) and _is_finite(case.inputs) and all(np.size(a) for a in tree_leaves(out)):
        if "vjp" in given:
            yield "vjp", (given["vjp"], drawn_like(out, rng), *case.inputs)
        if "jvp" in given:
            yield "jvp", (given["jvp"], *jvp_arguments(spec_of(op)[0], case.inputs, rng))


def _in_memory(op: Any, case: TestCase, given: dict[str, Any], rng: Any, layout: Any) -> Forms:
    """Yield the forms with a cotangent in the same layout, and one whose strides are 0."""
    for form, (candidate, *arguments) in _arguments(op, case, given, rng):
        if form == "vjp":
            dout, *inputs = arguments
            yield form, (candidate, laid_out(dout, layout), *inputs)
            if layout is LAYOUTS["memory that is read-only, after an offset"]:
                yield form, (candidate, map_floats(_expanded, dout), *inputs)
        else:
            yield form, (candidate, *arguments)


def _expanded(a: Any) -> Any:
    """Return one number in all places of an array."""
    return np.broadcast_to(np.asarray(0.75, np.asarray(a).dtype), np.shape(a))


def _in_form(op: Any, case: TestCase, given: dict[str, Any], rng: Any, form: str) -> Forms:
    """Yield one form of a case with options that the map itself may not have."""
    dout = [] if form == "forward" else [drawn_like(op(*case.inputs), rng)]
    yield form, (given[form], *dout, *case.inputs)


def _lacking(candidate: Any, options: dict[str, Any]) -> list[str]:
    """Return the options that the signature of a candidate does not have."""
    try:
        known = inspect.signature(candidate).parameters
    except (TypeError, ValueError):
        return [*options]
    if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in known.values()):
        return []
    return [key for key in options if key not in known]
