r"""A candidate over all hard inputs, and a report of it."""

from __future__ import annotations

import inspect
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import check_callable
from .._core.pytree import flat
from ._candidates import Verdict, check_forward, check_jvp, check_vjp, html_table
from ._inputs import hard_inputs, option_inputs
from ._known import record_of
from ._oracle.calls import is_float
from ._oracle.examples import along, drawn_like
from ._oracle.pictures import as_html

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from ._inputs import HardCase

__all__ = ["CheckReport", "check_all"]


HEADS = ("form", "case", "", "error / allowed", "error / plain", "why")


class CheckReport(NamedTuple):
    """
    Verdicts on a candidate, one for each form and case; it prints itself as a table.

    Parameters
    ----------
    op : str
        The function of dlref.
    dtype : str
        Type of the inputs.
    rows : tuple of (str, str, Verdict)
        Form ("forward", "vjp", "jvp"), case, verdict.
    left_out : tuple of str
        Options that the candidate does not take, whose cases were left out.

    See Also
    --------
    check_all : Makes it.

    Notes
    -----
    A report is true if every verdict is. A row has the worst error over its element's tolerance,
    and the largest error over the error of the same formula computed plainly in the dtype (a dash
    where there is none, as for dlref's own in float64). Below the rows stands where the error of
    the first case that is off sits; HTML has such a picture for each. ``causes`` counts the
    explanations. ``to_html`` and ``to_json`` return it as text, and write it to a file if they are
    given a path.

    Examples
    --------
    >>> from dlref.check import CheckReport
    >>> bool(CheckReport("relu", "float32", ()))
    True
    """

    op: str
    dtype: str
    rows: tuple[tuple[str, str, Verdict], ...]
    left_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether every verdict is true."""
        return all(verdict.ok for _, _, verdict in self.rows)

    @property
    def failed(self) -> tuple[tuple[str, str, Verdict], ...]:
        """The rows that are off."""
        return tuple(row for row in self.rows if not row[2])

    @property
    def causes(self) -> dict[str, int]:
        """How often each explanation was found, most frequent first."""
        found = [one.cause for _, _, v in self.rows for one in v.outputs if one.cause]
        counts = {cause: found.count(cause) for cause in found}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def _summary(self) -> str:
        count = len(self.failed)
        words = f"{count} of {len(self.rows)} cases are off" if count else "right in all cases"
        most = next(iter(self.causes.items()), None)
        why = f"; most often ({most[1]}): {most[0]}" if most else ""
        return f"{self.op}, {self.dtype}: {words}{why}"

    def _cells(self) -> list[tuple[str, str, str, str, str, str]]:
        return [
            (
                form,
                case,
                "right" if verdict else "off",
                f"{_ratio(verdict):.2g}",
                _beside_plain(verdict),
                "" if verdict else (verdict.cause or verdict.message),
            )
            for form, case, verdict in self.rows
        ]

    def __str__(self) -> str:
        """Return the summary, and a line for each case."""
        cells = [("form", "case", "", "error/allowed", "error/plain", "why"), *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(5)]
        lines = [
            "  ".join(
                [*(part.ljust(n) for part, n in zip(row[:5], widths, strict=True)), row[5]]
            ).rstrip()
            for row in cells
        ]
        return "\n".join([self._summary(), *self._options(), *lines, *self._pictures()])

    def _options(self) -> list[str]:
        return [f"options not taken: {', '.join(self.left_out)}"] if self.left_out else []

    def _pictures(self) -> list[str]:
        """Return where the error of the first case with a picture sits, in lines."""
        for form, case, verdict in self.failed:
            if verdict.picture:
                return [f"{form}, {case}: where the error of its worst output is", verdict.picture]
        return []

    def __repr__(self) -> str:
        """Return the same, for a prompt."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the summary and a table."""
        table = html_table(HEADS, self._cells())
        first = next((row[2].worst for row in self.failed if row[2].picture), None)
        picture = as_html(first.picture) if first else ""
        words = "".join(f"<p>{escape(line)}</p>" for line in (self._summary(), *self._options()))
        return f"{words}{table}{picture}"

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a page, and write it to a file if a path is given."""
        title = escape(f"{self.op}, {self.dtype}")
        details = "".join(
            f"<h2>{escape(f'{form}: {case}')}</h2>{verdict._repr_html_()}"
            for form, case, verdict in self.failed
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
                "form": form,
                "case": case,
                "ok": verdict.ok,
                "message": verdict.message,
                "outputs": [_plain(one._asdict()) for one in verdict.outputs],
            }
            for form, case, verdict in self.rows
        ]
        told = {"op": self.op, "dtype": self.dtype, "ok": bool(self), "rows": rows}
        told["left_out"] = list(self.left_out)
        return _written(json.dumps(told, indent=1) + "\n", path)


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _plain(value: Any) -> Any:
    """Return numbers that JSON has, in dicts and tuples: infinite and NaN become strings."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _ratio(verdict: Verdict) -> float:
    if verdict.error == 0:
        return 0.0
    return verdict.error / verdict.allowed if verdict.allowed else float("inf")


def _beside_plain(verdict: Verdict) -> str:
    """Return the largest error over the plain formula's; a dash if there is none."""
    ratios = [one.largest / one.baseline for one in verdict.outputs if one.baseline > 0]
    return f"{max(ratios):.2g}" if ratios else "-"


def _is_finite(value: Any) -> bool:
    return all(np.isfinite(np.asarray(a, np.float64)).all() for a in flat(value) if is_float(a))


def check_all(
    candidate: Callable[..., Any] | None,
    op: Callable[..., Any],
    *,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    dtype: npt.DTypeLike = "float32",
    framework: str | None = None,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Callable[[Iterable[Any]], Iterable[Any]] | None = None,
) -> CheckReport:
    r"""
    Run a candidate over the hard inputs of a function, forward and backward.

    Parameters
    ----------
    candidate : callable or None
        The kernel, called with the inputs and options of each case; None if only derivatives are
        to be checked.
    op : callable
        A function of dlref that `hard_inputs` knows.
    vjp : callable or None
        Its backward pass, called as ``vjp(dout, *inputs, **options)``.
    jvp : callable or None
        Its forward mode, called as ``jvp(primals, tangents, **options)``.
    dtype : dtype_like
        Type of the inputs.
    framework : {"numpy", "torch", "jax"} or None
        Kind of arrays that the candidates receive; None means NumPy's.
    factor, rtol, atol : float
        As in `check_forward`.
    progress : callable or None
        Wraps the list of cases, as ``tqdm.tqdm`` does to show a progress bar.

    Returns
    -------
    CheckReport
        True if every case passes; prints a line for each.

    Raises
    ------
    TypeError
        If the inputs of `op` are not known, or it lacks the form that is to be checked.
    ValueError
        If there is a `jvp`, and `op`'s own takes more than point and direction.

    See Also
    --------
    hard_inputs : The cases.
    check_forward, check_vjp, check_jvp : The test of each.

    Notes
    -----
    An exception of the candidate counts as a failure of that case, with its words as the cause.
    Derivatives are left out where an input or the result is infinite.

    In addition to the hard inputs there is a case for each further option of `op`, as of
    ``hard_inputs(op, dtype, every_option=True)``. A candidate may lack such an option: the report
    says which are not taken by its signature or its derivatives'. One that takes
    ``**options`` has to heed all, or to refuse them as Python does.

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
    >>> [case for form, case, verdict in report.failed]
    ["{'axis': 0}", 'large', 'an offset of 1e4', 'an offset of -1e4']
    >>> report.failed[0][2].cause
    "the option 'axis' is ignored"

    A SiLU without the factor inside of the sigmoid is right where it can be:

    >>> from scipy.special import expit
    >>> from dlref.activations import silu
    >>> report = check_all(lambda x: x * expit(x), silu)
    >>> bool(report), report.left_out
    (True, ('beta',))
    """
    functions = {"candidate": candidate, "vjp": vjp, "jvp": jvp, "progress": progress}
    for name, f in functions.items():
        if f is not None:
            check_callable(name, f)
    if jvp is not None and next(iter(inspect.signature(op).parameters)) == "f":
        msg = "Argument 'jvp' must be None where 'op' takes the name of a cell before the point."
        raise ValueError(msg)
    limits = {"factor": factor, "rtol": rtol, "atol": atol, "framework": framework}
    given = {"forward": candidate, "vjp": vjp, "jvp": jvp}
    given = {form: f for form, f in given.items() if f is not None}
    rng = np.random.default_rng(0)
    rows: list[tuple[str, str, Verdict]] = []
    left_out: list[str] = []
    cases: Iterable[tuple[HardCase, bool]] = [
        *((case, False) for case in hard_inputs(op, dtype)),
        *((case, True) for case in option_inputs(op, dtype)),
    ]
    for case, is_optional in cases if progress is None else progress(cases):
        if is_optional and any(_lacking(f, case.options) for f in given.values()):
            left_out.append([*case.options][-1])
            continue
        for form, arguments in _arguments(op, case, given, rng):
            verdict = _tried(JUDGES[form], (given[form], op, *arguments), case.options, limits)
            if is_optional and verdict.message.startswith(NOT_TAKEN):
                left_out.append([*case.options][-1])
            else:
                rows.append((form, case.name, verdict))
    name = getattr(op, "__name__", str(op))
    return CheckReport(name, np.dtype(dtype).name, tuple(rows), tuple(dict.fromkeys(left_out)))


NOT_TAKEN = "the candidate does not take"
JUDGES: dict[str, Callable[..., Verdict]] = {
    "forward": check_forward,
    "vjp": check_vjp,
    "jvp": check_jvp,
}


def _arguments(
    op: Any, case: HardCase, given: dict[str, Any], rng: Any
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the forms of a case that are given, with the arguments of each."""
    if "forward" in given:
        yield "forward", case.inputs
    if not given.keys() & {"vjp", "jvp"}:
        return
    with np.errstate(all="ignore"):
        out = op(*case.inputs, **case.options)
    if _is_finite(out) and _is_finite(case.inputs) and all(np.size(a) for a in flat(out)):
        if "vjp" in given:
            yield "vjp", (drawn_like(out, rng), *case.inputs)
        if "jvp" in given:
            yield "jvp", along(record_of(op)[0], case.inputs, rng)


def _lacking(candidate: Any, options: dict[str, Any]) -> list[str]:
    """Return the options that the signature of a candidate does not have."""
    try:
        known = inspect.signature(candidate).parameters
    except (TypeError, ValueError):
        return [*options]
    if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in known.values()):
        return []
    return [key for key in options if key not in known]


def _tried(judge: Any, arguments: Any, options: dict[str, Any], limits: dict[str, Any]) -> Verdict:
    """Return the verdict; an exception of the candidate is one."""
    candidate, *rest = arguments
    errors: list[Exception] = []

    def guarded(*args: Any, **told: Any) -> Any:
        try:
            return candidate(*args, **told)
        except Exception as error:  # whatever it is, it is the candidate's
            errors.append(error)
            return ()

    verdict: Verdict = judge(guarded, *rest, **limits, **options)
    if errors:
        error = errors[0]
        lacking = _lacking(candidate, options)
        lacking += [key for key in options if f"unexpected keyword argument {key!r}" in str(error)]
        if isinstance(error, TypeError) and lacking:
            return Verdict(False, (), f"{NOT_TAKEN} {', '.join(dict.fromkeys(lacking))}")
        return Verdict(False, (), f"the candidate raises {type(error).__name__}: {error}")
    return verdict
