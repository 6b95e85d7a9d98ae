r"""Verdicts: does a kernel of one's own compute what dlref computes?"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import as_bool, as_number, check_callable, choice, printable, shown
from .._core.pytree import is_float, named_leaves, tree_leaves
from .._records import UNKNOWN, spec_of
from ._errors import ulp_error
from ._oracle.arrays import as_numpy, calling, device_of, framework_of, handed
from ._oracle.bounds import NORMAL, Limits, baselines, bounds
from ._oracle.calls import ReferenceCall, as_form, learned_options, separate, widened
from ._oracle.causes import cause_in_common, cause_of, common_cause, is_settled
from ._oracle.causes.evidence import Evidence
from ._oracle.causes.heuristics import NARROW_SUMS
from ._oracle.error_maps import ErrorMap, as_html, as_text, error_map_of
from ._oracle.sampled_bounds import Split, sampled_baselines, sampled_bounds, split_of
from ._oracle.stochastic_rounding import EPS
from ._oracle.unwritten import NAN, NOT_WRITTEN, ZERO, needs_another_call, poisoned, unwritten

#: If an error exceeds its bound by less than the factor, the bound is measured again at so many
#: times as many points: the maximum over few points can be less than half of the true one.
CLOSE_CALL_FACTOR, CLOSE_CALL_DRAWS = 4, 10
#: The message for an output whose bounds are all at least as large as its values.
INCONCLUSIVE = "each element may be off by as much as it is large, so that zeros would pass"


@dataclass(frozen=True)
class OutputCheck:
    r"""
    One output of a candidate, compared with the exact one.

    Parameters
    ----------
    name : str
        Which output: its number, and the input or option whose gradient it is.
    ok : bool
        Whether shape and dtype are right, every element is within its bound, and the bounds are not
        too wide to tell: some element that is not 0 has a bound below its size.
    num_wrong : int
        Number of elements beyond their bounds.
    size : int
        Number of elements.
    at : tuple of int
        Index of the element that is farthest beyond its bound.
    got : float
        The candidate's value there.
    exact : float
        The exact value there.
    error : float
        Their distance.
    allowed : float
        Tolerance of that element.
    ulp : float
        The error in units in the last place of the exact value.
    condition_number : float
        Condition number of this element: relative change of the exact value per relative change
        of the inputs.
    baseline : float
        Largest error of the same formula, computed plainly in that dtype at these inputs. Where
        dlref has no plain formula, the largest error of its own result in that dtype.
    max_error : float
        Largest error of the candidate, wherever it is.
    error_map : tuple of tuple of float
        Error over tolerance, the largest in each of some tiles: rows and columns of the
        array, leading axes joined. Empty if the output is right.
    places : str
        Where the wrong elements are.
    cause : str
        Explanation of the difference, empty if none is known.
    note : str
        A remark on an output that is right, such as float32 for inputs of 16 bits.

    See Also
    --------
    Verdict : All outputs together.

    Notes
    -----
    With a condition number c, the rounding of the inputs alone, before the kernel has done
    anything, changes the result by c roundings: its last :math:`\log_2 c` binary digits are lost.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu
    >>> from dlref.check import OutputCheck, check_forward
    >>> output = check_forward(np.abs, relu, np.array([1.0, -2.0, 3.0])).outputs[0]
    >>> output.num_wrong, output.size, output.at, output.got, output.exact
    (1, 3, (1,), 2.0, 0.0)
    >>> OutputCheck("output 0", ok=True).num_wrong
    0
    """

    name: str
    ok: bool
    num_wrong: int = 0
    size: int = 0
    at: tuple[int, ...] = ()
    got: float = 0.0
    exact: float = 0.0
    error: float = 0.0
    allowed: float = 0.0
    ulp: float = 0.0
    condition_number: float = 0.0
    baseline: float = 0.0
    max_error: float = 0.0
    error_map: ErrorMap = ()
    places: str = ""
    cause: str = ""
    note: str = ""

    def __repr__(self) -> str:
        """Return a sentence."""
        if self.inconclusive:
            return f"{self.name} is inconclusive: {self.places}; {_beside(self)}"
        if self.ok:
            note = f"; {self.note}" if self.note else ""
            return f"{self.name} is right: {_beside(self)}{note}"
        if self.at == () and self.error == np.inf and not self.size:
            return f"{self.name} {self.places}"
        why = f"; {self.cause}" if self.cause else ""
        share = f"{self.num_wrong} of {self.size} elements ({self.num_wrong / self.size:.0%})"
        return f"{self.name} is off in {share}, {self.places}; {_beside(self)}{why}"

    @property
    def inconclusive(self) -> bool:
        """Whether every element may be as far off as it is large, and none is farther."""
        return not self.ok and bool(self.size) and not self.num_wrong


def _beside(output: OutputCheck) -> str:
    if not output.size:
        return "it is empty"
    note = ""
    if output.condition_number > 1e3:
        note = f"; one rounding of the inputs moves it by {output.condition_number:.2g} roundings"
    return (
        f"worst at {output.at}: {output.got!s} where {output.exact!s} is exact, an error of "
        f"{output.error:.2g} ({output.ulp:.3g} ULP) where {output.allowed:.2g} is allowed{note}"
    )


def outcome(judged: OutputCheck | Verdict) -> str:
    """Return a verdict in a word."""
    return "right" if judged.ok else ("inconclusive" if judged.inconclusive else "off")


@dataclass(frozen=True)
class Verdict:
    """
    Whether a candidate passes, and where it does not; it prints itself as sentences and a table.

    Parameters
    ----------
    ok : bool
        Whether every output has the right shape and dtype, every element is within its bound, some
        output has bounds that zeros would not meet, and the inputs are unchanged.
    outputs : tuple of OutputCheck
        The comparison of each output.
    message : str
        The verdict in a sentence.
    evidence : tuple
        The call and the candidate's outputs, from which a cause is searched for.

    See Also
    --------
    check_forward, check_vjp, check_jvp : Return it.

    Notes
    -----
    A verdict is true if the candidate passes, so that ``assert check_forward(...)`` is a test. It
    is also false where it is inconclusive: where the bound of every element is at least as large as
    the element, so that zeros would pass. Where some outputs are right and others
    cannot be judged, it is true, and its message names the ones that it cannot judge. ``worst`` is
    the output that is farthest off; ``at``, ``error``, ``allowed``, ``ulp`` and ``cause`` belong to
    it, and ``error_map`` shows where its error sits. The causes that take milliseconds stand in
    `outputs`. If they are not enough, ``cause`` and printing search for a changed formula that
    leads to the candidate's outputs. This takes seconds, once: ``explained`` has the result.

    Examples
    --------
    >>> from dlref.check import Verdict
    >>> bool(Verdict(False, (), "it is off"))
    False
    """

    ok: bool
    outputs: tuple[OutputCheck, ...] = ()
    message: str = ""
    evidence: tuple[Evidence, ...] = field(default=(), repr=False, compare=False)

    def __bool__(self) -> bool:
        """Return whether the candidate passes."""
        return self.ok

    @functools.cached_property
    def explained(self) -> Verdict:
        """The verdict whose cause is the changed formula that leads to the outputs, if one does."""
        if not self.evidence or is_settled(causes_of(self)):
            return self
        with np.errstate(all="ignore"):
            cause = cause_in_common(self.evidence)
        return with_cause(replace(self, evidence=()), cause) if cause else self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the verdict with its cause, and without the evidence."""
        return Verdict, (self.ok, self.explained.outputs, self.explained.message)

    @property
    def inconclusive(self) -> bool:
        """Whether no output is off, but these inputs do not tell whether one is right."""
        every = all(output.inconclusive for output in self.outputs)
        return not self.ok and bool(self.outputs) and every

    @property
    def worst(self) -> OutputCheck | None:
        """The output that is farthest off."""
        bad = [output for output in self.outputs if not (output.ok or output.inconclusive)]
        return max(bad or self.outputs, key=ratio, default=None)

    @property
    def output(self) -> int:
        """Number of the output that is farthest off, among those that there are."""
        return self.outputs.index(self.worst) if self.worst else 0

    @property
    def at(self) -> tuple[int, ...]:
        """Index of the worst element."""
        return self.worst.at if self.worst else ()

    @property
    def error(self) -> float:
        """Error of the worst element."""
        return self.worst.error if self.worst else float("inf")

    @property
    def allowed(self) -> float:
        """The tolerance of the worst element."""
        return self.worst.allowed if self.worst else 0.0

    @property
    def ulp(self) -> float:
        """Error of the worst element in units in the last place."""
        return self.worst.ulp if self.worst else float("inf")

    @property
    def cause(self) -> str:
        """Explanation of the output that is farthest off; empty if none is known."""
        worst = self.explained.worst
        return worst.cause if worst else ""

    @property
    def error_map(self) -> str:
        """Where the error of the worst output sits, a sign for each tile; empty if it is right."""
        return as_text(self.worst.error_map) if self.worst and self.worst.error_map else ""

    def __repr__(self) -> str:
        """Return the message, and a line for each output if there are several."""
        outputs, message = self.explained.outputs, self.explained.message
        several = outputs if len(outputs) > 1 else ()
        return printable("\n".join([message, *(f"  {output}" for output in several)]))

    def _repr_html_(self) -> str:
        """Return the sentence and a table of the outputs."""
        heads = ("output", "", "wrong", "worst at", "is", "exact", "error", "allowed", "cause")
        outputs, message = self.explained.outputs, self.explained.message
        error_maps = "".join(as_html(output.error_map) for output in outputs)
        rows = [
            (
                output.name,
                outcome(output),
                f"{output.num_wrong} of {output.size}",
                output.at,
                f"{output.got:.6g}",
                f"{output.exact:.6g}",
                f"{output.error:.2g}",
                f"{output.allowed:.2g}",
                output.cause or ("" if output.ok else output.places),
            )
            for output in outputs
        ]
        return f"<p>{escape(message)}</p>" + html_table(heads, rows) + error_maps


def html_table(heads: Any, rows: Any) -> str:
    cells = [
        "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row)
        for tag, row in [("th", heads), *(("td", row) for row in rows)]
    ]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def ratio(judged: OutputCheck | Verdict) -> float:
    """Return the worst error over its tolerance."""
    if judged.error == 0:
        return 0.0
    return judged.error / judged.allowed if judged.allowed else float("inf")


def _entered(value: Any, least: int = 0) -> Any:
    """Return lists of numbers, nested so often at least, as an array."""
    if not isinstance(value, list):
        return value
    with contextlib.suppress(ValueError):  # ragged: a list of arrays
        if (array := np.asarray(value)).dtype.kind in "biuf" and array.ndim >= least:
            return array
    return value


def _integers_as_floats(call: ReferenceCall, result: Any) -> tuple[Any, ...]:
    """
    Return the arguments, integers as float64 where the function takes them for real numbers.

    Indices are none of these: as floats they are refused, or lead to another `result` than the call
    has.
    """
    own = call.arguments
    for i, value in enumerate(own):
        if not isinstance(value, tuple | list) and np.asarray(value).dtype.kind in "iu":
            real = (*own[:i], np.asarray(value, np.float64), *own[i + 1 :])
            with contextlib.suppress(TypeError, ValueError):
                if same_bits(replace(call, arguments=real).run(), result):
                    own = real
    return own


def _outputs(got: Any, want: Any) -> list[Any]:
    """Return the arrays of a result; a list is an array where one is wanted, else a tuple."""
    if isinstance(want, tuple) and isinstance(got, list | tuple):
        inner = want if len(want) == len(got) else (None,) * len(got)
        return [part for g, w in zip(got, inner, strict=True) for part in _outputs(g, w)]
    if isinstance(got, tuple) or (isinstance(got, list) and len(got) == 1):
        return [part for entry in got for part in _outputs(entry, None)]
    return [got]


def _array(value: Any) -> Any:
    """Return an array; None for None and for lists that are ragged."""
    with contextlib.suppress(ValueError):
        return None if value is None else np.asarray(value)
    return None


def _arrays(value: Any) -> tuple[Any, ...]:
    return tuple(a for a in tree_leaves(value) if isinstance(a, np.ndarray | np.generic | float))


def same_bits(left: Any, right: Any) -> bool:
    pairs = zip(tree_leaves(left), tree_leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def written(before: Any, after: Any) -> list[int]:
    """Return the numbers of the arguments that were changed."""
    pairs = enumerate(zip(before, after, strict=True))
    return [i for i, (a, b) in pairs if not same_bits(_arrays(a), _arrays(as_numpy(b)))]


#: For the number of an output, which of its elements were not written.
Unwritten = dict[int, Any]


class _NotComparableError(Exception):
    """A candidate wrote to its arguments, or returned no arrays that could be compared."""


@dataclass(frozen=True)
class _Reference:
    """The arguments of a candidate, and the outputs that it should return for them."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    call: ReferenceCall  # in float64
    outputs: Any  # of this call
    own: list[Any]  # dlref's outputs in the dtype of the arguments, which is the candidate's

    @functools.cached_property
    def want(self) -> list[Any]:
        """The exact outputs."""
        return tree_leaves(self.outputs)

    @functools.cached_property
    def split(self) -> Split | None:
        """How the call can be cut into independent parts, if it is large."""
        return split_of(self.call, self.want)

    @functools.cached_property
    def dtypes(self) -> list[Any]:
        """The dtype of each output; None where there is none."""
        return [None if part is None else np.asarray(part).dtype for part in self.own]

    @functools.cached_property
    def optional(self) -> set[int]:
        """The gradients that a candidate may leave out: by the targets of a loss."""
        spec = self.call.spec
        if self.call.form != "vjp" or not spec.is_loss or spec.of is None:
            return set()
        places = [i for i, a in enumerate(self.call.inputs) if is_float(a)]
        count = len(self.want)
        return {k for k in range(count) if k >= len(places) or places[k] not in spec.of}

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the outputs."""
        return _names_of_outputs(self.call, self.want)


def _names_of_outputs(call: ReferenceCall, want: list[Any]) -> list[str]:
    """Return names of outputs: a gradient has the name of its input, or of an option."""
    numbers = [f"output {i}" for i in range(len(want))]
    if call.form != "vjp":
        return numbers
    inputs = [*zip(call.names, call.inputs, strict=True)]
    varied = [pair for i, pair in enumerate(inputs) if i not in call.spec.constant]
    learned = [(name, call.settings.get(name)) for name in learned_options(call.core)]
    there = [i for i, w in enumerate(want) if w is not None]
    for some in (inputs, varied):
        leaves = [leaf for pair in (*some, *learned) for leaf in named_leaves(*pair)]
        paths = [path for path, value in leaves if is_float(value)]
        if len(paths) == len(there):
            for i, path in zip(there, paths, strict=True):
                numbers[i] += f" (gradient of {path})"
            return numbers
    return numbers


def _reference_of(call: ReferenceCall) -> _Reference:
    """Compute the outputs that a candidate should return for the arguments of a call."""
    own = tuple(_entered(a) for a in as_numpy(call.arguments))
    options = {key: _entered(as_numpy(value), least=2) for key, value in call.options.items()}
    narrow = replace(call, arguments=own, options=options).with_inputs_in_place()
    result = narrow.run()
    real = _integers_as_floats(narrow, result)
    wide = {k: v if isinstance(v, float) else widened(v) for k, v in narrow.options.items()}
    exact = replace(narrow, arguments=widened(real), options=wide, memory=real)
    reference = _Reference(own, options, exact, exact.run(), tree_leaves(result))
    _check_reference(reference)
    return reference


def _check_reference(reference: _Reference) -> None:
    """Raise if the reference is NaN though no input is; a mean over no target is."""
    call = reference.call
    if call.spec.is_loss and any(
        np.asarray(a).dtype.kind in "iu" for a in tree_leaves(call.inputs)
    ):
        return
    parts = [np.asarray(w) for w in reference.want if w is not None]
    if not any(np.isnan(w).any() for w in parts if w.dtype.kind == "f"):
        return
    given = [np.asarray(a) for a in _arrays((call.arguments, tuple(call.options.values())))]
    if not any(np.isnan(a).any() for a in given if a.dtype.kind == "f"):
        msg = "Argument 'inputs' must be valid for 'op': its exact result has NaN for these."
        raise ValueError(msg)


def _run_candidate(
    candidate: Callable[..., Any],
    framework: str,
    device: Any,
    settings: Any,
    reference: _Reference,
    byte: int = NAN,
) -> list[Any]:
    """
    Call a candidate with copies of the arguments, and return its outputs as NumPy's arrays.

    Every byte of the memory that it allocates is set to `byte`, and `settings` are the caller's
    settings of ``np.errstate``.
    """
    arguments, options = reference.arguments, reference.options
    with calling(framework):
        given = handed(separate(arguments), framework, device)
        kwargs = {key: handed(separate(value), framework, device) for key, value in options.items()}
        memory = poisoned(tuple(reference.own), byte, framework, device)
        with memory, np.errstate(**settings):
            returned = candidate(*given, **kwargs)
        try:
            got = as_numpy(returned)
        except (TypeError, ValueError, RuntimeError) as error:  # sparse, or on no device
            msg = printable(f"what the candidate returned is no array: {error}")
            raise _NotComparableError(msg) from error
        changed = written((*arguments, *options.values()), (*given, *kwargs.values()))
    if changed:
        names = [*(f"argument {i}" for i in range(len(arguments))), *map(repr, options)]
        msg = f"the candidate wrote to {', '.join(names[i] for i in changed)}"
        raise _NotComparableError(msg)
    outputs = _without_constants(_outputs(got, reference.outputs), reference)
    outputs = _with_optional(outputs, reference)
    _check_outputs(outputs, reference)
    return outputs


def _unwritten(got: list[Any], reference: _Reference, run: Callable[..., list[Any]]) -> Unwritten:
    """Return which elements of each output were not written, where there are any."""
    want, dtypes = reference.want, reference.dtypes
    twice = {i for i, w in enumerate(want) if w is not None and needs_another_call(w, dtypes[i])}
    again = run(reference, byte=ZERO) if twice else got
    there: Unwritten = {}
    for i, w in enumerate(want):
        first, second = _array(got[i]), _array(again[i])
        alike = all(a is not None and np.shape(a) == np.shape(w) for a in (w, first, second))
        if alike:
            where = unwritten(first, w, second if i in twice else None)
            there |= {i: where} if where.any() else {}
    return there


def _without_constants(got: list[Any], reference: _Reference) -> list[Any]:
    """
    Drop the gradients of constants, which dlref does not compute.

    A function of PyTorch returns a gradient or None for each input, others for each array of
    floats.
    """
    call, count = reference.call, len(reference.want)
    constant = call.spec.constant
    if call.form != "vjp" or not constant or len(got) == count:
        return got
    every = [*range(len(call.inputs))]
    floats = [i for i in every if is_float(call.inputs[i])]
    learned = count - sum(i not in constant for i in floats)
    for places in (every, floats):
        if len(got) == len(places) + learned:
            own = [
                g for i, g in zip(places, got, strict=False) if i in floats and i not in constant
            ]
            return [*own, *got[len(places) :]]
    return got


def _with_optional(got: list[Any], reference: _Reference) -> list[Any]:
    """Return outputs with None in the place of those that were left out and may be."""
    count = len(reference.want)
    needed = [k for k in range(count) if k not in reference.optional]
    if len(got) == count or len(got) != len(needed):
        return got
    return [got[needed.index(k)] if k in needed else None for k in range(count)]


def _check_outputs(got: list[Any], reference: _Reference) -> None:
    """Raise if something is no array, or there is another number of outputs."""
    for part, array in zip(got, map(_array, got), strict=True):
        if not isinstance(part, np.ndarray) and array is not None and array.dtype.kind in "OSU":
            msg = f"the candidate returned {shown(part)}, which is no array"
            raise _NotComparableError(msg)
    if len(got) != len(reference.want):
        msg = f"the candidate has {len(got)} outputs, where dlref has {len(reference.want)}"
        names = [name.partition(" (")[2][:-1] for name in reference.names]
        raise _NotComparableError(f"{msg}: {', '.join(names)}" if all(names) else msg)


class _Tolerance(NamedTuple):
    """For each element of an output: its bound, the bound without rtol and atol, and its move."""

    bound: Any
    rounding: Any
    move: Any  # how far the exact value moves if the inputs move by one rounding


class _Comparison(NamedTuple):
    """An output of a candidate beside the exact one."""

    check: OutputCheck
    bound: Any

    @property
    def is_off(self) -> bool:
        return not (self.check.ok or self.check.inconclusive)


def _compare(reference: _Reference, got: list[Any], limits: Limits) -> dict[int, _Comparison]:
    """Compare each output; if one is hardly off, measure the bounds at more points."""
    comparisons = _compare_once(reference, got, limits)
    checks = [comparison.check for comparison in comparisons.values()]
    if any(c.allowed < c.error < CLOSE_CALL_FACTOR * c.allowed for c in checks):
        return _compare_once(reference, got, limits, CLOSE_CALL_DRAWS)
    return comparisons


def _compare_once(
    reference: _Reference, got: list[Any], limits: Limits, draws: int = 1
) -> dict[int, _Comparison]:
    """Compare each output, with bounds that are measured at so many times the usual points."""
    want, dtypes = reference.want, reference.dtypes
    arrays = [*map(_array, got)]
    if reference.split is None:
        limit, moves = bounds(reference.call, want, dtypes, limits, draws)
    else:
        own = reference.split, reference.call, want, dtypes
        limit, moves = sampled_bounds(*own, limits, arrays, draws)
    comparisons = {}
    for i, w in enumerate(want):
        if w is None or (i in reference.optional and got[i] is None):
            continue
        with np.errstate(all="ignore"):
            bound = limit[i] + limits.atol + limits.rtol * np.nan_to_num(np.abs(w), posinf=0.0)
        name, array = reference.names[i], arrays[i]
        if array is None:
            what = "None" if got[i] is None else "a ragged list"
            check = _refused(name, f"is {what}, where dlref has an array")
        else:
            tolerance = _Tolerance(bound, np.asarray(limit[i]), moves[i])
            check = _compare_output(name, array, np.asarray(w), dtypes[i], tolerance)
        comparisons[i] = _Comparison(check, bound)
    return comparisons


def _refused(name: str, message: str) -> OutputCheck:
    """Return the check of an output whose elements cannot be compared."""
    nan, inf = float("nan"), float("inf")
    return OutputCheck(
        name,
        ok=False,
        got=nan,
        exact=nan,
        error=inf,
        ulp=inf,
        condition_number=nan,
        baseline=nan,
        max_error=inf,
        places=message,
    )


def _compare_output(
    name: str, got: Any, want: Any, dtype: Any, tolerance: _Tolerance
) -> OutputCheck:
    """Compare an array with the exact one."""
    if got.shape != want.shape:
        return _refused(name, f"has shape {got.shape}, where dlref's has {want.shape}")
    note = ""
    if is_float(got) and got.dtype == np.float32 and np.dtype(dtype).itemsize == 2:
        note = f"it is float32, where dlref's is {np.dtype(dtype)}"
    elif got.dtype != np.dtype(dtype):
        message = f"has dtype {got.dtype}, where dlref's has {np.dtype(dtype)}"
        if is_float(got) and is_float(want):
            # numbers of the other dtype are judged, too: there may be more to say
            near = _compare_output(name, got.astype(dtype), want, dtype, tolerance)
            message += "; the values are right" if near.ok else ""
        return _refused(name, message)
    if not want.size:
        return OutputCheck(name, ok=True)
    wide, errors = _errors(got, want)
    bound = np.asarray(tolerance.bound)
    with np.errstate(all="ignore"):
        ratios = np.where(errors == 0, 0.0, errors / bound)
    bad = ~(errors <= bound)
    worst = int(ratios.argmax())
    at = tuple(int(i) for i in np.unravel_index(worst, want.shape))
    exact, error, count = float(want[at]), float(errors[at]), int(bad.sum())
    floats = is_float(got)
    eps = EPS[np.dtype(dtype).name] if floats else 1.0
    with np.errstate(all="ignore"):  # a result below the smallest normal number
        size = abs(want[at]) * eps
        number = float(tolerance.move[at] / size) if np.isfinite(exact) and exact else 0.0
    there = (want != 0) & np.isfinite(want)
    zeros_pass = there.any() and (tolerance.rounding >= np.abs(want))[there].all()
    inconclusive = floats and not count and bool(zeros_pass)
    return OutputCheck(
        name,
        ok=not count and not inconclusive,
        num_wrong=count,
        size=want.size,
        at=at,
        got=float(wide[at]),
        exact=exact,
        error=error,
        allowed=float(bound[at]),
        ulp=float(ulp_error(got[at], want[at])) if floats else error,
        condition_number=number,
        max_error=float(errors.max()),
        error_map=error_map_of(ratios) if count else (),
        places=INCONCLUSIVE if inconclusive else (_places(bad) if count else ""),
        note=note,
    )


def _errors(got: Any, want: Any) -> tuple[Any, Any]:
    """Return an array in float64, and how far each element is off, infinite where one alone is."""
    wide = got.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype).astype(np.float64)  # infinite where it is too large
        same = (wide == want) | (np.isnan(wide) & np.isnan(want))
        same |= np.isinf(wide) & (wide == rounded)
        same |= (wide == 0) & (np.abs(want) < NORMAL.get(got.dtype.name, 0.0))
        finite = np.isfinite(want) & np.isfinite(wide)
        return wide, np.where(same, 0.0, np.where(finite, np.abs(wide - want), np.inf))


def _places(bad: Any) -> str:
    """Return where elements are, in words: whole rows, a range along an axis, or the first few."""
    if bad.all():
        return "everywhere"
    for axis in range(bad.ndim):
        others = tuple(a for a in range(bad.ndim) if a != axis)
        touched = np.flatnonzero(bad.any(others))
        if len(touched) == bad.shape[axis]:
            continue
        whole = bad.take(touched, axis).all()
        gaps = np.diff(touched)
        if whole or len(touched) < bad.shape[axis] / 2:
            if len(touched) > 1 and (gaps == 1).all():
                where = f"{touched[0]} to {touched[-1]}"
            elif len(touched) > 2 and (gaps == gaps[0]).all():
                where = f"{touched[0]}, {touched[1]}, ... {touched[-1]}"
            else:
                where = ", ".join(map(str, touched[:6])) + (", ..." if len(touched) > 6 else "")
            return f"{'all of' if whole else 'in'} {where} along axis {axis}"
    first = ", ".join(str(tuple(map(int, i))) for i in np.argwhere(bad)[:4])
    return f"at {first}{', ...' if bad.sum() > 4 else ''}"


def _explain(
    reference: _Reference,
    got: list[Any],
    comparisons: dict[int, _Comparison],
    limits: Limits,
    there: Unwritten,
) -> list[OutputCheck]:
    """Return the comparisons with causes, and with the error of the plain formula."""
    call, want, dtypes = reference.call, reference.want, reference.dtypes
    arrays = [*map(_array, got)]
    if reference.split is None:
        plain = baselines(call, want, reference.own, dtypes)
    else:
        plain = sampled_baselines(reference.split, call, want, reference.own, dtypes)
    off = {i: c.bound for i, c in comparisons.items() if c.is_off and i not in there}
    common = common_cause(call, arrays, want, off) if len(off) > 1 else ""
    narrow_sums = _right_with_narrow_sums(reference, got, comparisons, limits)
    checks = []
    for i, (check, bound) in comparisons.items():
        is_ragged = arrays[i] is None and got[i] is not None
        cause = ""
        if i in off and not is_ragged:
            cause = common or cause_of(call, i, arrays[i], want, bound, dtypes[i])
        if i in narrow_sums and (not cause or "noise" in cause):
            name = np.dtype(dtypes[i]).name
            cause = f"{NARROW_SUMS} {name}: pass accum_dtype={name!r} if that is meant"
        places = f"{check.places}; {cause}" if cause and not check.size else check.places
        baseline = check.baseline if arrays[i] is None else plain[i]
        explained = replace(check, baseline=baseline, places=places, cause=cause)
        checks.append(_not_written(explained, there[i]) if i in there else explained)
    return checks


def _not_written(check: OutputCheck, there: Any) -> OutputCheck:
    """Return the check of an output with elements that are not written, if right by chance."""
    if check.num_wrong >= there.sum():
        return replace(check, cause=NOT_WRITTEN)
    places = _places(there)
    count, inf = int(there.sum()), float("inf")
    at = tuple(map(int, np.argwhere(there)[0]))
    return replace(
        check, ok=False, num_wrong=count, at=at, error=inf, ulp=inf, max_error=inf,
        error_map=error_map_of(np.where(there, inf, 0.0)), places=places, cause=NOT_WRITTEN,
    )  # fmt: skip


def _right_with_narrow_sums(
    reference: _Reference, got: list[Any], comparisons: dict[int, _Comparison], limits: Limits
) -> set[int]:
    """Return the outputs that are off, but right for a kernel whose sums are of 16 bits."""
    wrong = {i for i, comparison in comparisons.items() if comparison.check.num_wrong}
    narrow = {np.dtype(reference.dtypes[i]).name for i in wrong}
    if len(narrow) != 1 or not narrow <= {"float16", "bfloat16"} or limits.strict:
        return set()
    again = _compare_once(reference, got, replace(limits, accum_dtype=narrow.pop()))
    return {i for i in wrong if again[i].check.ok}


def as_limits(*, strict: Any = False, accum_dtype: Any = "float32", **numbers: Any) -> Limits:
    """Return the limits; refuse values that are none."""
    tolerances = {key: float(as_number(key, value, least=0.0)) for key, value in numbers.items()}
    name = str(accum_dtype).removeprefix("torch.")
    choice("accum_dtype", name, ("float32", "float16", "bfloat16"))
    return Limits(strict=as_bool("strict", strict), accum_dtype=name, **tolerances)


def _check_order(candidate: Any, op: Any) -> None:
    """Raise if dlref's function is in the place of the candidate, and the candidate in its."""
    own = getattr(op, "__module__", None) or ""
    named = getattr(op, "__name__", "<lambda>") != "<lambda>"
    if named and not own.startswith("dlref.") and spec_of(candidate)[0] is not UNKNOWN:
        msg = (
            "Argument 'op' must be a function of dlref, and 'candidate' yours: they are exchanged,"
            f" {shown(candidate)} and {shown(op)}."
        )
        raise TypeError(msg)


def judge(
    candidate: Callable[..., Any],
    call: ReferenceCall,
    limits: Limits,
    framework: str | None,
    device: Any = None,
    evidence: list[Evidence] | None = None,
) -> Verdict:
    """
    Return the verdict on a candidate that is called with the arguments of a call of dlref.

    The outputs of the candidate are appended to `evidence`, for causes that all cases have.
    """
    check_callable("candidate", candidate)
    _check_order(candidate, call.op)
    every = *call.arguments, *call.options.values()
    framework = framework_of(every, framework)
    device = device_of(every, framework, device)
    # Whatever numbers the candidate returns, they lead to a verdict, and not to a warning of NumPy.
    # The candidate itself runs with the caller's settings.
    run = functools.partial(_run_candidate, candidate, framework, device, np.geterr())
    with np.errstate(all="ignore"):
        return _judged(_reference_of(call), run, limits, evidence)


def _judge_alone(
    candidate: Callable[..., Any],
    call: ReferenceCall,
    limits: Limits,
    framework: str | None,
    device: Any,
) -> Verdict:
    """Return the verdict on one call, which keeps the evidence for a search for its cause."""
    evidence: list[Evidence] = []
    verdict = judge(candidate, call, limits, framework, device, evidence)
    return replace(verdict, evidence=tuple(e for e in evidence if e.off and e.is_small))


def causes_of(verdict: Verdict) -> set[str]:
    """Return the causes of the outputs that are off; an empty one of an output without any."""
    return {output.cause for output in verdict.outputs if outcome(output) == "off"}


def _judged(
    reference: _Reference,
    run: Callable[..., list[Any]],
    limits: Limits,
    evidence: list[Evidence] | None,
) -> Verdict:
    """Run a candidate, compare its outputs with the reference, and explain the differences."""
    try:
        got = run(reference)
        there = _unwritten(got, reference, run)
    except _NotComparableError as error:
        return Verdict(ok=False, message=str(error))
    comparisons = _compare(reference, got, limits)
    checks = _explain(reference, got, comparisons, limits, there)
    if evidence is not None and not there:  # no program leads to the rest of another call
        evidence.append(_evidence(reference, got, comparisons))
    # Where some output is right, the others may be 0 but for the rounding of float64.
    is_known = any(check.ok for check in checks) or not checks
    ok = is_known and not any(outcome(check) == "off" for check in checks)
    return Verdict(ok, tuple(checks), _summary(checks))


def _evidence(
    reference: _Reference, got: list[Any], comparisons: dict[int, _Comparison]
) -> Evidence:
    off = frozenset(i for i, comparison in comparisons.items() if comparison.is_off)
    limits = {i: comparison.bound for i, comparison in comparisons.items()}
    arrays = [*map(_array, got)]
    return Evidence(
        reference.call, arrays, reference.want, reference.dtypes, limits, off, reference.names
    )


def _summary(checks: list[OutputCheck]) -> str:
    if len(checks) == 1:
        return str(checks[0])
    off = [check for check in checks if outcome(check) == "off"]
    inconclusive = [check.name for check in checks if check.inconclusive]
    if inconclusive and not off:
        right = f"{len(checks) - len(inconclusive)} of {len(checks)} outputs are right; "
        message = f"inconclusive for {', '.join(inconclusive)}: {INCONCLUSIVE}"
        return message if len(inconclusive) == len(checks) else right + message
    if not off:
        return f"all {len(checks)} outputs are right"
    names = ", ".join(check.name for check in off)
    by_cause: dict[str, list[str]] = {}
    for check in off:
        by_cause.setdefault(check.cause, []).append(check.name)
    causes = [
        cause if len(by_cause) == 1 else f"in {' and '.join(some)}, {cause}"
        for cause, some in by_cause.items()
        if cause
    ]
    return "; ".join([f"{len(off)} of {len(checks)} outputs are off: {names}", *causes])


def without_cause(verdict: Verdict, words: str) -> Verdict:
    """Return a verdict without the causes that contain some words."""
    return _with_outputs(
        verdict, [replace(c, cause="") if words in c.cause else c for c in verdict.outputs]
    )


def with_cause(verdict: Verdict, cause: str) -> Verdict:
    """Return a verdict with one cause for all outputs that are off."""
    return _with_outputs(
        verdict,
        [replace(c, cause=cause) if outcome(c) == "off" else c for c in verdict.outputs],
    )


def _with_outputs(verdict: Verdict, checks: list[OutputCheck]) -> Verdict:
    """Return a verdict of the same outcome with other checks, and the message that they make."""
    return replace(verdict, outputs=tuple(checks), message=_summary(checks))


def check_forward(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    *inputs: Any,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accum_dtype: str = "float32",
    framework: str | None = None,
    device: Any = None,
    **options: Any,
) -> Verdict:
    r"""
    Compare a kernel with a function of dlref, on the same inputs.

    Parameters
    ----------
    candidate : callable
        The kernel, called with `inputs` and `options`.
    op : callable
        A function of dlref.
    *inputs : array_like
        Inputs in the dtype to test.
    factor : float
        Multiplier of each element's tolerance.
    rtol, atol : float
        Additional tolerance, relative to each element and absolute.
    strict : bool, default False
        Whether each element is held to its own size, whatever the plain formula loses: the tails of
        GELU, for example, where ``1 + erf`` cancels.
    accum_dtype : {"float32", "float16", "bfloat16"}
        Format in which the candidate accumulates sums of 16-bit numbers. Sums of wider numbers
        are accumulated in their own format.
    framework : {"numpy", "torch", "jax"} or None
        Kind of arrays that the candidate receives; None means the same kind as the inputs.
    device : str, torch.device or None
        Where PyTorch's tensors are placed, with the strides and the offsets of the inputs; None
        means where the inputs are.
    **options : object
        Keyword arguments that both functions receive.

    Returns
    -------
    Verdict
        True if it passes; prints which outputs are off, where and by how much.

    Raises
    ------
    TypeError, ValueError
        The errors of `op` for these inputs.

    See Also
    --------
    check_vjp, check_jvp : The same for derivatives.
    random_inputs : Inputs to test with.

    Notes
    -----
    The reference is the result of `op` for the inputs *widened to float64*: rounding the inputs is
    not the kernel's fault, rounding inside it is. Shape and dtype must be the same as `op` returns
    for the inputs as they are.

    Every element has a bound of its own. The inputs are moved by a rounding or a part of it, up or
    down at random, and the exact result moves by the rounding of its terms: by about
    :math:`\epsilon \sqrt{\sum_j (w_j x_j)^2}` for a sum of products, whatever the sum is. A kernel
    is allowed a few of these and a few units of its own last place, or the error of the same
    formula computed plainly in that dtype, whichever is more, times `factor`. The formula is
    evaluated several times near the inputs, also with operations that are rounded up or down at
    random, because a single evaluation may be nearly exact by chance. Automatic differentiation of
    that formula counts, too, and for softmax and attention the exponential of :math:`x_i -
    \operatorname{logsumexp} x`. Where the exact value is infinite, the candidate must return the
    same infinity. Where the bound of every element is at least as large as the element, zeros would
    pass: the verdict is then neither right nor wrong (``inconclusive``). A plain formula that
    overflows on the way to its result does not widen the bound. NaN in the exact result is an error
    of the inputs, unless they hold NaN themselves.

    The candidate is given copies of the inputs, with the order and the gaps of their memory, and
    fails if it writes to them. It may return arrays of any library, a list where dlref has a tuple,
    and 0 in place of subnormal numbers, as some processors do.

    Memory that the candidate allocates is filled with NaN. Otherwise an element that it leaves
    unwritten could still hold the right number of an earlier call. If an output has integers, or
    NaN is right, the candidate is called twice: in memory of NaN, and in memory of zeros. With
    another C library than glibc, and on a device, only blocks that were freed are filled.

    If `op` is a ``partial`` of options, it has the vjp and jvp of its function; the vjp and jvp of
    a lambda are formed by differences, right to :math:`10^{-9}` of the largest element, or to a
    rounding of it in the dtype.

    Examples
    --------
    A softmax without the subtraction of the maximum:

    >>> import numpy as np
    >>> from dlref.activations import softmax
    >>> from dlref.check import check_forward
    >>> def naive(x):
    ...     with np.errstate(all="ignore"):
    ...         return np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    >>> x = np.float32([[1.0, 2.0, 3.0]])
    >>> bool(check_forward(naive, softmax, x))
    True
    >>> verdict = check_forward(naive, softmax, 100 * x)
    >>> verdict.ok, verdict.at, verdict.error
    (False, (0, 0), inf)
    """
    check_callable("op", op)
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accum_dtype=accum_dtype)
    call = ReferenceCall(*as_form(op), inputs, options)
    return _judge_alone(candidate, call, limits, framework, device)


def check_vjp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    dout: Any,
    *inputs: Any,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accum_dtype: str = "float32",
    framework: str | None = None,
    device: Any = None,
    **options: Any,
) -> Verdict:
    r"""
    Compare a backward pass with the vjp of a function of dlref.

    Parameters
    ----------
    candidate : callable
        The backward pass, called with `dout`, `inputs` and `options`.
    op : callable
        The map, a function of dlref that has a vjp.
    dout : array_like or tuple of array_like
        Gradient of a loss with respect to the output.
    *inputs : array_like
        Inputs in the dtype to test.
    factor, rtol, atol, strict, accum_dtype, framework, device, **options : as in `check_forward`
        Raises the same errors.

    Returns
    -------
    Verdict
        True if every gradient passes; prints which ones are off, where and by how much.

    Raises
    ------
    TypeError
        If `op` is not a function of dlref with a vjp, or its vjp raises it.
    ValueError
        The errors of the vjp for these inputs.

    See Also
    --------
    check_forward : The comparison and the tolerance.
    adjoint_gap : A test without a reference.

    Notes
    -----
    A candidate returns one array per differentiable input, in their order; a tuple if several.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import tanh
    >>> from dlref.check import check_vjp
    >>> x, dout = np.linspace(-3, 3, 7), np.ones(7)
    >>> bool(check_vjp(lambda u, x: u / np.cosh(x) ** 2, tanh, dout, x))
    True
    >>> print(check_vjp(lambda u, x: 2 * u, tanh, 1.0, 0.0))
    output 0 (gradient of x) is off in 1 of 1 elements (100%), everywhere; worst at (): 2.0 where
    1.0 is exact, an error of 1 (4.5e+15 ULP) where 7.1e-15 is allowed;
    it is doubled: a factor 2, or accumulated twice
    """
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accum_dtype=accum_dtype)
    call = ReferenceCall(op, "vjp", (dout, *inputs), options)
    return _judge_alone(candidate, call, limits, framework, device)


def check_jvp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accum_dtype: str = "float32",
    framework: str | None = None,
    device: Any = None,
    **options: Any,
) -> Verdict:
    r"""
    Compare a forward-mode derivative with the jvp of a function of dlref.

    Parameters
    ----------
    candidate : callable
        The derivative, called with `primals`, `tangents` and `options`.
    op : callable
        The map, a function of dlref that has a jvp.
    primals : array_like or tuple of array_like
        The point, in the dtype to test.
    tangents : array_like or tuple of array_like
        The direction.
    factor, rtol, atol, strict, accum_dtype, framework, device, **options : as in `check_forward`
        Raises the same errors.

    Returns
    -------
    Verdict
        True if it passes; prints which outputs are off, where and by how much.

    Raises
    ------
    TypeError
        If `op` is not a function of dlref with a jvp, or its jvp raises it.
    ValueError
        The errors of the jvp for these inputs.

    See Also
    --------
    check_forward : The comparison and the tolerance.

    Notes
    -----
    Point and direction are tuples over all inputs of the map, bare arrays if it has one.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu
    >>> from dlref.check import check_jvp
    >>> bool(check_jvp(lambda x, dx: np.where(x > 0, dx, 0.0), relu, np.ones(3), np.ones(3)))
    True
    """
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accum_dtype=accum_dtype)
    call = ReferenceCall(op, "jvp", (primals, tangents), options)
    return _judge_alone(candidate, call, limits, framework, device)
