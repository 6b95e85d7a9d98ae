r"""Verdicts: does a kernel of one's own compute what dlref computes?"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.arguments import as_bool, as_number, check_callable, choice, shown
from .._core.pytree import flat, is_float, named_leaves
from .._records import UNKNOWN, spec_of
from ._errors import ulp_error
from ._oracle.arrays import as_numpy, calling, framework_of, handed
from ._oracle.bounds import NORMAL, Limits, baselines, bounds
from ._oracle.calls import Call, as_form, learned_options, separate, widened
from ._oracle.causes import cause_of, common_cause
from ._oracle.pictures import as_html, as_text, picture_of
from ._oracle.rounded import EPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._oracle.pictures import Picture

__all__ = ["OutputCheck", "Verdict", "check_forward", "check_jvp", "check_vjp"]

#: An error this near its bound is compared with another, of a plain formula computed at so many
#: times more places: its largest error at a few may be less than half of the largest there is.
CLOSE, MORE = 4, 10


class OutputCheck(NamedTuple):
    r"""
    One output of a candidate, compared with the exact one.

    Parameters
    ----------
    name : str
        Which output: its number, and the input or option whose gradient it is.
    ok : bool
        Whether shape and dtype are right, every element is within its bound, and the bounds are not
        too wide to tell: some element that is not 0 has a bound below its size.
    wrong : int
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
    condition : float
        How far the exact value moves, relative to itself, if the inputs move by one rounding,
        in units of one rounding.
    baseline : float
        Largest error of the same formula, computed plainly in that dtype at these inputs. Where
        dlref has no plain formula, the largest error of its own result in that dtype.
    largest : float
        Largest error of the candidate, wherever it is.
    picture : tuple of tuple of float
        Error over tolerance, the largest in each of some tiles: rows and columns of the
        array, leading axes joined. Empty if the output is right.
    places : str
        Where the wrong elements are.
    cause : str
        Explanation of the difference, empty if none is known.

    See Also
    --------
    Verdict : All outputs together.

    Notes
    -----
    A condition of c says that c roundings are in the result before the kernel has done anything:
    the last :math:`\log_2 c` digits come from the inputs' own rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu
    >>> from dlref.check import OutputCheck, check_forward
    >>> one = check_forward(np.abs, relu, np.array([1.0, -2.0, 3.0])).outputs[0]
    >>> one.wrong, one.size, one.at, one.got, one.exact
    (1, 3, (1,), 2.0, 0.0)
    >>> OutputCheck._fields[-2:]
    ('places', 'cause')
    """

    name: str
    ok: bool
    wrong: int
    size: int
    at: tuple[int, ...]
    got: float
    exact: float
    error: float
    allowed: float
    ulp: float
    condition: float
    baseline: float
    largest: float
    picture: Picture
    places: str
    cause: str

    def __repr__(self) -> str:
        """Return a sentence."""
        if self.cannot_tell:
            return f"{self.name}: cannot tell here, {self.places}; {_beside(self)}"
        if self.ok:
            return f"{self.name} is right: {_beside(self)}"
        if self.at == () and self.error == np.inf and not self.size:
            return f"{self.name} {self.places}"
        why = f"; {self.cause}" if self.cause else ""
        share = f"{self.wrong} of {self.size} elements ({self.wrong / self.size:.0%})"
        return f"{self.name} is off in {share}, {self.places}; {_beside(self)}{why}"

    @property
    def cannot_tell(self) -> bool:
        """Whether every element may be as far off as it is large, and none is farther."""
        return not self.ok and bool(self.size) and not self.wrong


def _beside(one: OutputCheck) -> str:
    if not one.size:
        return "it is empty"
    note = ""
    if one.condition > 1e3:
        note = f"; one rounding of the inputs moves it by {one.condition:.2g} roundings"
    return (
        f"worst at {one.at}: {one.got!s} where {one.exact!s} is exact, an error of "
        f"{one.error:.2g} ({one.ulp:.3g} ULP) where {one.allowed:.2g} is allowed{note}"
    )


def outcome(judged: OutputCheck | Verdict) -> str:
    """Return a verdict in a word."""
    return "right" if judged.ok else ("cannot tell" if judged.cannot_tell else "off")


class Verdict(NamedTuple):
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

    See Also
    --------
    check_forward, check_vjp, check_jvp : Return it.

    Notes
    -----
    A verdict is true if the candidate passes, so that ``assert check_forward(...)`` is a test. It
    is also false where it cannot tell (``cannot_tell``): where the bound of every element is at
    least as large as the element, so that zeros would pass. Where some outputs are right and others
    cannot be judged, it is true, and its message names the ones that it cannot judge. ``worst`` is
    the output that is farthest off; ``at``, ``error``, ``allowed``, ``ulp`` and ``cause`` belong to
    it, and ``picture`` shows where its error sits.

    Examples
    --------
    >>> from dlref.check import Verdict
    >>> bool(Verdict(False, (), "it is off"))
    False
    """

    ok: bool
    outputs: tuple[OutputCheck, ...]
    message: str

    def __bool__(self) -> bool:
        """Return whether the candidate passes."""
        return self.ok

    @property
    def cannot_tell(self) -> bool:
        """Whether no output is off, but these inputs do not tell whether one is right."""
        return not self.ok and bool(self.outputs) and all(one.cannot_tell for one in self.outputs)

    @property
    def worst(self) -> OutputCheck | None:
        """The output that is farthest off."""
        bad = [one for one in self.outputs if not (one.ok or one.cannot_tell)]
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
        """Explanation of the first output that is off; empty if none is known."""
        return next((one.cause for one in self.outputs if one.cause), "")

    @property
    def picture(self) -> str:
        """Where the error of the worst output sits, a sign for each tile; empty if it is right."""
        return as_text(self.worst.picture) if self.worst and self.worst.picture else ""

    def __repr__(self) -> str:
        """Return the message, and a line for each output if there are several."""
        if len(self.outputs) < 2:
            return self.message
        return "\n".join([self.message, *(f"  {one}" for one in self.outputs)])

    def _repr_html_(self) -> str:
        """Return the sentence and a table of the outputs."""
        heads = ("output", "", "wrong", "worst at", "is", "exact", "error", "allowed", "cause")
        pictures = "".join(as_html(one.picture) for one in self.outputs)
        rows = [
            (
                one.name,
                outcome(one),
                f"{one.wrong} of {one.size}",
                one.at,
                f"{one.got:.6g}",
                f"{one.exact:.6g}",
                f"{one.error:.2g}",
                f"{one.allowed:.2g}",
                one.cause or ("" if one.ok else one.places),
            )
            for one in self.outputs
        ]
        return f"<p>{escape(self.message)}</p>" + html_table(heads, rows) + pictures


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


def _integers_as_floats(call: Call, found: Any) -> tuple[Any, ...]:
    """
    Return the arguments, integers as float64 where the function takes them for real numbers.

    Indices are none of these: as floats they are refused, or mean something else. `found` is what
    the call returns.
    """
    own = call.arguments
    for i, value in enumerate(own):
        if not isinstance(value, tuple | list) and np.asarray(value).dtype.kind in "iu":
            real = (*own[:i], np.asarray(value, np.float64), *own[i + 1 :])
            with contextlib.suppress(TypeError, ValueError):
                if same_bits(replace(call, arguments=real).run(), found):
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


def _not_alike(call: Call, got: list[Any], want: list[Any]) -> str:
    """Return words if a result has something that is no array, or another number of outputs."""
    for part, array in zip(got, map(_array, got), strict=True):
        if not isinstance(part, np.ndarray) and array is not None and array.dtype.kind in "OSU":
            return f"the candidate returned {shown(part)}, which is no array"
    if len(got) != len(want):
        words = f"the candidate has {len(got)} outputs, where dlref has {len(want)}"
        named = [name.partition(" (")[2][:-1] for name in _named(call, want)]
        return f"{words}: {', '.join(named)}" if all(named) else words
    return ""


def _refused(name: str, words: str) -> OutputCheck:
    nan, inf = float("nan"), float("inf")
    return OutputCheck(name, False, 0, 0, (), nan, nan, inf, 0.0, inf, nan, nan, inf, (), words, "")


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


#: The numbers of an output that is empty, from `got` to `largest`.
EIGHT_ZEROS = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#: The words for bounds that all reach the values.
UNTOLD = "each element may be off by as much as it is large, so that zeros would pass"


def _judged(
    name: str, found: Any, want: Any, dtype: Any, bound: Any, move: Any, reach: Any
) -> OutputCheck:
    """Compare one output with the exact one; `reach` is the bound without rtol and atol."""
    want = np.asarray(want)
    if found.shape != want.shape:
        return _refused(name, f"has shape {found.shape}, where dlref's has {want.shape}")
    if found.dtype != np.dtype(dtype):
        words = f"has dtype {found.dtype}, where dlref's has {np.dtype(dtype)}"
        if is_float(found) and is_float(want):
            # numbers of the other dtype are judged, too: there may be more to say
            near = _judged(name, found.astype(dtype), want, dtype, bound, move, reach)
            words += "; the values are right" if near.ok else ""
        return _refused(name, words)
    if not want.size:
        return OutputCheck(name, True, 0, 0, (), *EIGHT_ZEROS, (), "", "")
    wide = found.astype(np.float64)
    with np.errstate(all="ignore"):
        errors = np.abs(wide - want)
        rounded = want.astype(dtype).astype(np.float64)  # infinite where it is too large
        same = (wide == want) | (np.isnan(wide) & np.isnan(want))
        same |= np.isinf(wide) & (wide == rounded)
        same |= (wide == 0) & (np.abs(want) < NORMAL.get(found.dtype.name, 0.0))
        errors = np.where(
            same, 0.0, np.where(np.isfinite(want) & np.isfinite(wide), errors, np.inf)
        )
        ratios = np.where(errors == 0, 0.0, errors / bound)
    bad = ~(errors <= bound)
    worst = int(ratios.argmax())
    at = tuple(int(i) for i in np.unravel_index(worst, want.shape))
    exact = float(want[at])
    error = float(errors[at])
    floats = is_float(found)
    ulp = float(np.ravel(ulp_error(found, want))[worst]) if floats else error
    eps = EPS[np.dtype(dtype).name] if floats else 1.0
    with np.errstate(all="ignore"):  # a result below the smallest normal number
        condition = float(move[at] / (abs(want[at]) * eps)) if np.isfinite(exact) and exact else 0.0
    count = int(bad.sum())
    there = (want != 0) & np.isfinite(want)
    untold = floats and there.any() and not count and (reach >= np.abs(want))[there].all()
    return OutputCheck(
        name,
        not count and not untold,
        count,
        want.size,
        at,
        float(wide[at]),
        exact,
        error,
        float(np.asarray(bound)[at]),
        ulp,
        condition,
        0.0,
        float(errors.max()),
        picture_of(ratios) if count else (),
        UNTOLD if untold else (_places(bad) if count else ""),
        "",
    )


def _checked_reference(call: Call, want: list[Any]) -> None:
    """Raise if the reference is NaN though no input is; a mean over no target is."""
    if call.spec.is_loss and any(np.asarray(a).dtype.kind in "iu" for a in flat(call.inputs)):
        return
    parts = [np.asarray(w) for w in want if w is not None]
    if not any(np.isnan(w).any() for w in parts if w.dtype.kind == "f"):
        return
    given = [np.asarray(a) for a in _arrays((call.arguments, tuple(call.options.values())))]
    if not any(np.isnan(a).any() for a in given if a.dtype.kind == "f"):
        msg = "Argument 'inputs' must be valid for 'op': its exact result has NaN for these."
        raise ValueError(msg)


def _arrays(value: Any) -> tuple[Any, ...]:
    return tuple(a for a in flat(value) if isinstance(a, np.ndarray | np.generic | float))


def same_bits(one: Any, other: Any) -> bool:
    pairs = zip(flat(one), flat(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def written(before: Any, after: Any) -> list[int]:
    """Return the numbers of the arguments that were changed."""
    pairs = enumerate(zip(before, after, strict=True))
    return [i for i, (a, b) in pairs if not same_bits(_arrays(a), _arrays(as_numpy(b)))]


def _named(call: Call, want: list[Any]) -> list[str]:
    """Return names of outputs: a gradient has the name of its input, or of an option."""
    numbers = [f"output {i}" for i in range(len(want))]
    if call.form != "vjp":
        return numbers
    inputs = [*zip(call.names, call.inputs, strict=True)]
    varied = [one for i, one in enumerate(inputs) if i not in call.spec.constant]
    learned = [(name, call.settings.get(name)) for name in learned_options(call.core)]
    there = [i for i, w in enumerate(want) if w is not None]
    for some in (inputs, varied):
        leaves = [leaf for one in (*some, *learned) for leaf in named_leaves(*one)]
        paths = [path for path, value in leaves if is_float(value)]
        if len(paths) == len(there):
            told = dict(zip(there, paths, strict=True))
            return [
                f"{n} (gradient of {told[i]})" if i in told else n for i, n in enumerate(numbers)
            ]
    return numbers


def _without_gradient(exact: Call, count: int) -> set[int]:
    """Return the gradients that a candidate may leave out: by the targets of a loss."""
    known = exact.spec
    if exact.form != "vjp" or not known.is_loss or known.of is None:
        return set()
    places = [i for i, a in enumerate(exact.inputs) if is_float(a)]
    return {k for k in range(count) if k >= len(places) or places[k] not in known.of}


def _filled(got: list[Any], count: int, optional: set[int]) -> list[Any]:
    """Return outputs with None in the place of those that were left out and may be."""
    needed = [k for k in range(count) if k not in optional]
    if len(got) == count or len(got) != len(needed):
        return got
    return [got[needed.index(k)] if k in needed else None for k in range(count)]


def _compared(
    exact: Call,
    got: list[Any],
    want: list[Any],
    dtypes: list[Any],
    limits: Limits,
    times: int = 1,
) -> dict[int, tuple[Any, OutputCheck]]:
    """Return the bounds of each output, measured at so many times the usual places, and a check."""
    limit, moves = bounds(exact, want, dtypes, limits, times)
    names, checks = _named(exact, want), {}
    optional = _without_gradient(exact, len(want))
    for i, w in enumerate(want):
        if w is None or (i in optional and got[i] is None):
            continue
        with np.errstate(all="ignore"):
            bound = limit[i] + limits.atol + limits.rtol * np.nan_to_num(np.abs(w), posinf=0.0)
        if (found := _array(got[i])) is None:
            what = "None" if got[i] is None else "a ragged list"
            one = _refused(names[i], f"is {what}, where dlref has an array")
        else:
            one = _judged(names[i], found, w, dtypes[i], bound, moves[i], np.asarray(limit[i]))
        checks[i] = bound, one
    return checks


def as_limits(*, strict: Any = False, accumulate: Any = "float32", **numbers: Any) -> Limits:
    """Return the limits; refuse numbers and words that are none."""
    told = {key: float(as_number(key, value, least=0.0)) for key, value in numbers.items()}
    name = str(accumulate).removeprefix("torch.")
    choice("accumulate", name, ("float32", "float16", "bfloat16"))
    return Limits(strict=as_bool("strict", strict), accumulate=name, **told)


def _right_if_accumulated(
    exact: Call, got: list[Any], want: list[Any], dtypes: list[Any], limits: Limits, compared: Any
) -> set[int]:
    """Return the outputs that are off, but right for a kernel whose sums are of 16 bits."""
    narrow = {np.dtype(dtypes[i]).name for i, (_, one) in compared.items() if one.wrong}
    if len(narrow) != 1 or not narrow <= {"float16", "bfloat16"} or limits.strict:
        return set()
    again = _compared(exact, got, want, dtypes, replace(limits, accumulate=narrow.pop()))
    return {i for i, (_, one) in again.items() if compared[i][1].wrong and one.ok}


def _right(compared: Any) -> tuple[int, ...]:
    return tuple(i for i, (_, one) in compared.items() if one.ok)


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


def judged(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    form: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    limits: Limits,
    framework: str | None,
) -> Verdict:
    """Call both, and compare all outputs."""
    check_callable("candidate", candidate)
    _check_order(candidate, op)
    op, form = as_form(op) if form == "forward" else (op, form)
    framework = framework_of((*arguments, *options.values()), framework)
    own = tuple(_entered(a) for a in as_numpy(arguments))
    told = {key: _entered(as_numpy(value), least=2) for key, value in options.items()}
    narrow = Call(op, form, own, told)
    like = narrow.run()
    real = _integers_as_floats(narrow, like)
    wide = {k: v if isinstance(v, float) else widened(v) for k, v in told.items()}
    exact = Call(op, form, widened(real), wide, memory=real)
    whole = exact.run()
    want = flat(whole)
    _checked_reference(exact, want)
    with calling(framework):
        given = handed(separate(own), framework)
        extra = {key: handed(separate(value), framework) for key, value in told.items()}
        returned = candidate(*given, **extra)
        try:
            got = as_numpy(returned)
        except (TypeError, ValueError, RuntimeError) as error:  # sparse, or on no device
            return Verdict(False, (), f"what the candidate returned is no array: {error}")
        changed = written((*own, *told.values()), (*given, *extra.values()))
    got = _filled(_outputs(got, whole), len(want), _without_gradient(exact, len(want)))
    if changed:
        names = [*(f"argument {i}" for i in range(len(own))), *map(repr, told)]
        words = f"the candidate wrote to {', '.join(names[i] for i in changed)}"
        return Verdict(False, (), words)
    if words := _not_alike(exact, got, want):
        return Verdict(False, (), words)
    dtypes = [None if part is None else np.asarray(part).dtype for part in flat(like)]
    compared = _compared(exact, got, want, dtypes, limits)
    if any(one.allowed < one.error < CLOSE * one.allowed for _, one in compared.values()):
        compared = _compared(exact, got, want, dtypes, limits, MORE)
    plain = baselines(exact, want, flat(like), dtypes)
    by_sums = _right_if_accumulated(exact, got, want, dtypes, limits, compared)
    off = {i: bound for i, (bound, one) in compared.items() if not (one.ok or one.cannot_tell)}
    common = common_cause(exact, [*map(_array, got)], want, off) if len(off) > 1 else ""
    checks = []
    for i, (bound, one) in compared.items():
        found = _array(got[i])
        baseline = one.baseline if found is None else plain[i]
        ragged = found is None and got[i] is not None
        cause = ""
        if not (one.ok or ragged or one.cannot_tell):
            cause = common or cause_of(exact, i, found, want, bound, dtypes[i], _right(compared))
        if i in by_sums and (not cause or "noise" in cause):
            name = np.dtype(dtypes[i]).name
            cause = f"these are sums in {name}: pass accumulate={name!r} if that is meant"
        places = f"{one.places}; {cause}" if cause and not one.size else one.places
        checks.append(one._replace(baseline=baseline, places=places, cause=cause))
    # where some output is right, others may be 0 but for the rounding of float64
    known = any(one.ok for one in checks) or not checks
    ok = known and all(one.ok or one.cannot_tell for one in checks)
    return Verdict(ok, tuple(checks), _summary(checks))


def _summary(checks: list[OutputCheck]) -> str:
    off = [one for one in checks if not one.ok and not one.cannot_tell]
    if len(checks) == 1:
        return str(checks[0])
    untold = [one.name for one in checks if one.cannot_tell]
    if untold and not off:
        right = f"{len(checks) - len(untold)} of {len(checks)} outputs are right; "
        words = f"cannot tell here of {', '.join(untold)}: {UNTOLD}"
        return words if len(untold) == len(checks) else right + words
    if not off:
        return f"all {len(checks)} outputs are right"
    names = ", ".join(one.name for one in off)
    causes = list(dict.fromkeys(one.cause for one in off if one.cause))
    return f"{len(off)} of {len(checks)} outputs are off: {names}" + "".join(
        f"; {cause}" for cause in causes
    )


def without_cause(verdict: Verdict, words: str) -> Verdict:
    """Return a verdict without the causes that contain some words."""
    outputs = [one._replace(cause="") if words in one.cause else one for one in verdict.outputs]
    return verdict._replace(outputs=tuple(outputs), message=_summary(outputs))


def check_forward(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    *inputs: Any,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accumulate: str = "float32",
    framework: str | None = None,
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
    accumulate : {"float32", "float16", "bfloat16"}
        Format in which the candidate accumulates sums of 16-bit numbers. Sums of wider numbers
        are accumulated in their own format.
    framework : {"numpy", "torch", "jax"} or None
        Kind of arrays that the candidate receives; None means the same kind as the inputs.
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
    pass: the verdict is then neither right nor wrong (``cannot_tell``). A plain formula that
    overflows on the way to its result does not widen the bound. NaN in the exact result is an error
    of the inputs, unless they hold NaN themselves.

    The candidate is given copies of the inputs, with the order and the gaps of their memory, and
    fails if it writes to them. It may return arrays of any library, a list where dlref has a tuple,
    and 0 in place of subnormal numbers, as some processors do.

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
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accumulate=accumulate)
    return judged(candidate, op, "forward", inputs, options, limits, framework)


def check_vjp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    dout: Any,
    *inputs: Any,
    factor: float = 2.0,
    rtol: float = 0.0,
    atol: float = 0.0,
    strict: bool = False,
    accumulate: str = "float32",
    framework: str | None = None,
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
    factor, rtol, atol, strict, accumulate, framework, **options : as in `check_forward`
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
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accumulate=accumulate)
    return judged(candidate, op, "vjp", (dout, *inputs), options, limits, framework)


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
    accumulate: str = "float32",
    framework: str | None = None,
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
    factor, rtol, atol, strict, accumulate, framework, **options : as in `check_forward`
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
    limits = as_limits(factor=factor, rtol=rtol, atol=atol, strict=strict, accumulate=accumulate)
    return judged(candidate, op, "jvp", (primals, tangents), options, limits, framework)
