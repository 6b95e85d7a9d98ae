r"""Verdicts: does a kernel of one's own compute what dlref computes, and if not, what does it?"""

from __future__ import annotations

import functools
import html
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import as_generator, as_number, float_dtype, shown
from .._core.pytree import flat
from ._causes import Case, explained
from ._errors import ulp_error
from ._scales import element_scales, mapped_arrays, row_largest, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Verdict", "check_forward", "check_jvp", "check_vjp", "random_inputs"]

#: What each dtype allows, relative to the scale of an element: rounded sums in any order.
ALLOWED = {
    "float16": 2.0**-9,
    "bfloat16": 2.0**-6,
    "float32": 32 * 2.0**-23,
    "float64": 32 * 2.0**-52,
}


class Verdict(NamedTuple):
    """
    Whether a candidate passes, and what is off; it prints itself as sentences.

    Parameters
    ----------
    ok : bool
        Whether every output has the right shape and dtype and every element is within what is
        allowed.
    output : int
        Number of the output that is worst, or wrong in shape or dtype.
    at : tuple of int
        Index of its largest error.
    error : float
        That error, relative to the scale of the element.
    allowed : float
        What is allowed there.
    ulp : float
        The error in units in the last place of the value there.
    message : str
        All of it in words.
    share : float
        Share of the elements of that output that are wrong.
    failures : tuple of str
        A sentence for each output that is wrong.
    causes : tuple of str
        Known mistakes that give what the candidate gives.

    See Also
    --------
    check_forward, check_vjp, check_jvp : What return it.

    Notes
    -----
    A verdict is true if the candidate passes, so that ``assert check_forward(...)`` is a test.

    Examples
    --------
    >>> from dlref.check import Verdict
    >>> bool(Verdict(False, 0, (1,), 0.5, 1e-14, 1e15, "it is off"))
    False
    """

    ok: bool
    output: int
    at: tuple[int, ...]
    error: float
    allowed: float
    ulp: float
    message: str
    share: float = 0.0
    failures: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the candidate passes."""
        return self.ok

    def __str__(self) -> str:
        """Return the message."""
        return self.message

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook."""
        rows = "".join(f"<li>{html.escape(line)}</li>" for line in self.message.split("\n"))
        return f"<p><b>{'right' if self.ok else 'wrong'}</b></p><ul>{rows}</ul>"


class _Tolerance(NamedTuple):
    """What the caller allows."""

    factor: float
    rtol: float | None
    atol: float | None

    def limits(self, want: Any, scale: Any, dtype: str) -> Any:
        """Return the largest error of each element."""
        if self.rtol is None and self.atol is None:
            return self.factor * ALLOWED[dtype] * scale
        return (self.atol or 0.0) + (self.rtol or 0.0) * np.abs(
            np.where(np.isfinite(want), want, 0)
        )


def _wrong(got: Any, want: Any, limits: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the error of each element, and where it is beyond what is allowed."""
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        same |= np.isinf(got) & (got == want.astype(dtype).astype(np.float64))  # beyond the dtype
        errors = np.where(same, 0.0, np.abs(got - want))
        errors = np.where(np.isfinite(errors), errors, np.inf)
        # half of the smallest number of the dtype is as near as one can get to 0
        tiny = float(np.nextafter(dtype.type(0), dtype.type(1)))
    return errors, errors > np.maximum(limits, tiny)


def _judged(number: int, got: Any, want: Any, like: Any, scale: Any, by: _Tolerance) -> Verdict:
    """Compare one output with the exact one, in the dtype that dlref itself returns."""
    want, dtype = np.asarray(want, np.float64), np.asarray(like).dtype
    found = np.asarray(got)
    for what, is_, should in (
        ("shape", found.shape, want.shape),
        ("dtype", found.dtype, dtype),
    ):
        if is_ != should:
            words = f"output {number} has {what} {is_}, where dlref's has {should}"
            return Verdict(False, number, (), np.inf, 0.0, np.inf, words, 1.0)
    if not want.size:
        return Verdict(True, number, (), 0.0, 0.0, 0.0, f"output {number} is empty")
    limits = np.broadcast_to(by.limits(want, scale, dtype.name), want.shape)
    wide = found.astype(np.float64)
    errors, wrong = _wrong(wide, want, limits, dtype)
    with np.errstate(all="ignore"):
        beyond = np.where(errors == 0, 0.0, errors / limits)
    worst = int(beyond.argmax())
    at = tuple(int(i) for i in np.unravel_index(worst, want.shape))
    with np.errstate(all="ignore"):
        unit = float(np.ravel(scale)[worst]) or 1.0
        error, allowed = float(errors.flat[worst]) / unit, float(limits.flat[worst]) / unit
    ulp = float(np.ravel(ulp_error(found, want))[worst])
    share = float(wrong.mean())
    words = (
        f"output {number} is right"
        if not wrong.any()
        else f"output {number} is off in "
        f"{np.count_nonzero(wrong)} of {wrong.size} elements ({share:.0%})"
    )
    words += (
        f"; the worst, at {at}, is {wide[at]!s} where {want[at]!s} is exact: {error:.2g} of its "
        f"scale, {allowed:.2g} is allowed in {dtype}, {ulp:.3g} ULP"
    )
    return Verdict(not wrong.any(), number, at, error, allowed, ulp, words, share)


def _listed(value: Any) -> Any:
    """Return lists of outputs as tuples."""
    return tuple(value) if isinstance(value, list) else value


def _check_reference(want: list[Any], inputs: tuple[Any, ...], name: str) -> None:
    """Raise if the reference is NaN though no input is: the inputs are none of its domain."""

    def has_nan(value: Any) -> bool:
        found: list[bool] = []
        mapped_arrays(
            lambda a: found.append(a.dtype.kind == "f" and bool(np.isnan(a).any())), value
        )
        return any(found)

    if any(has_nan(np.asarray(y)) for y in want) and not any(map(has_nan, inputs)):
        msg = f"Argument 'inputs' must be in the domain of {name}, which gives NaN for them."
        raise ValueError(msg)


def _compared(
    candidate: Callable[..., Any],
    f: Callable[..., Any],
    op: Callable[..., Any],
    form: str,
    inputs: tuple[Any, ...],
    options: dict[str, Any],
    tolerance: dict[str, Any],
) -> Verdict:
    """Call the candidate and the reference, and compare."""
    by = _Tolerance(
        as_number("factor", tolerance["factor"], above=0),
        *(
            None if tolerance[t] is None else as_number(t, tolerance[t], least=0)
            for t in ("rtol", "atol")
        ),
    )
    wide = tuple(map(widened, inputs))
    reference = functools.partial(f, **options)
    want = [y for y in flat(reference(*wide)) if y is not None]
    like = [y for y in flat(reference(*inputs)) if y is not None]
    _check_reference(want, wide, op.__name__)
    handed = tuple(mapped_arrays(np.copy, x) for x in inputs)
    got = [y for y in flat(_listed(candidate(*handed, **options))) if y is not None]
    if len(got) != len(want):
        words = f"the candidate has {len(got)} outputs, where dlref has {len(want)}"
        return Verdict(False, 0, (), np.inf, 0.0, np.inf, words, 1.0, (words,))
    scales = element_scales(reference, wide, tuple(want))
    pairs = zip(got, want, like, scales, strict=True)
    verdicts = [_judged(i, *parts, by) for i, parts in enumerate(pairs)]
    failures = [v.message for v in verdicts if not v.ok] + _written(inputs, handed)
    worst = max(verdicts, key=lambda v: (not v.ok, v.error / v.allowed if v.allowed else v.error))
    if not failures:
        return worst

    def fits(i: int, one: Any, other: Any) -> bool:
        dtype = np.asarray(like[i]).dtype
        scale = scales[i] + abs(other) + row_largest(other)
        return not _wrong(one, other, by.limits(other, scale, dtype.name), dtype)[1].any()

    case = Case(f, wide, options, [np.asarray(y, np.float64) for y in want], form, op)
    comparable = all(np.asarray(g).dtype.kind in "fV" for g in got)
    causes = explained(case, got, [v.ok for v in verdicts], fits) if comparable else ()
    message = "\n".join([*failures, *(f"This is what comes out if {cause}." for cause in causes)])
    return worst._replace(ok=False, message=message, failures=tuple(failures), causes=causes)


def _written(inputs: tuple[Any, ...], handed: tuple[Any, ...]) -> list[str]:
    """Return a sentence for each input that the candidate has written to."""
    found = []
    for i, (before, after) in enumerate(zip(inputs, handed, strict=True)):
        pairs = zip(flat(before), flat(after), strict=True)
        if any(
            a is not None and np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs
        ):
            found.append(f"the candidate writes to input {i}")
    return found


def _of_dlref(op: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Take the options out of a partial."""
    while isinstance(op, functools.partial) and not op.args:
        op, options = op.func, {**op.keywords, **options}
    return op, options


def _form(op: Any, suffix: str) -> Callable[..., Any]:
    """Return op_vjp or op_jvp, from the module that op comes from."""
    module = sys.modules[getattr(op, "__module__", "")] if callable(op) else None
    form = getattr(module, f"{getattr(op, '__name__', op)}_{suffix}", None)
    if form is None or not module or not module.__name__.startswith("dlref."):
        msg = (
            f"Argument 'op' must be a function of dlref that has a {suffix}, or come with its "
            f"reference, not {shown(op)}."
        )
        raise TypeError(msg)
    return form  # type: ignore[no-any-return]


def check_forward(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    *inputs: Any,
    factor: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
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
    factor : float, default 1.0
        Multiplies what is allowed.
    rtol, atol : float or None
        Allow ``atol + rtol * abs(exact)`` instead, if one of them is given.
    **options : object
        Keyword arguments of both.

    Returns
    -------
    Verdict
        True if it passes; prints what is off, where and by how much.

    Raises
    ------
    TypeError, ValueError
        What `op` raises for these inputs.

    See Also
    --------
    check_vjp, check_jvp : The same for derivatives.
    random_inputs : Inputs to test with.

    Notes
    -----
    What is right is what `op` returns for the inputs *widened to float64*: rounding the inputs is
    not the kernel's fault, rounding inside it is. Shape and dtype must be those that `op` returns
    for the inputs as they are.

    **Every element has a bound of its own.** Its scale is

    .. math::

        s_i = \abs{y_i} + \max_k \frac{\abs{y_i(x (1 + h \xi_k)) - y_i(x)}}{h}
            + \max_{\text{row}} \Bigl( \frac{\abs y}{8}
            + \max_k \frac{\abs{y(x (1 + \epsilon \xi_k)) - y(x)}}{\epsilon} \Bigr) .

    The second term is measured: how far the element moves if all inputs change by a relative
    h, in random directions :math:`\xi_k`. No kernel can do better than that, times a unit of
    rounding: in a sum it is what the terms make, however much they cancel. The last terms stand
    for rounding on the way: beside larger elements of the same row, and, measured with an
    :math:`\epsilon` near that of float64, beside larger numbers whose difference is 0. Allowed are
    32 units of relative rounding of that scale in float32 and float64, and :math:`2^{-9}` and
    :math:`2^{-6}` in float16 and bfloat16. Where the exact value is infinite, or NaN because an
    input is, the candidate must say the same.

    The candidate gets copies of the inputs; to write to them is an error. If it is off, known
    mistakes are tried, one after the other; those that give what the candidate gives are named.

    Examples
    --------
    A softmax without the subtraction of the maximum, and what becomes of it:

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
    op, options = _of_dlref(op, options)
    tolerance = {"factor": factor, "rtol": rtol, "atol": atol}
    return _compared(candidate, op, op, "map", inputs, options, tolerance)


def check_vjp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    dout: Any,
    *inputs: Any,
    reference: Callable[..., Any] | None = None,
    factor: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
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
    reference : callable or None
        The right vjp, for an `op` that is no function of dlref: a lambda around one, for example.
    factor : float, default 1.0
        Multiplies what is allowed.
    rtol, atol : float or None
        Allow ``atol + rtol * abs(exact)`` instead, if one of them is given.
    **options : object
        Keyword arguments of both.

    Returns
    -------
    Verdict
        True if every gradient passes; prints what is off, where and by how much.

    Raises
    ------
    TypeError
        If `op` is not a function of dlref with a vjp, or its vjp raises it.
    ValueError
        What the vjp raises for these inputs.

    See Also
    --------
    check_forward : What is compared, and what is allowed.
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
    >>> print(check_vjp(lambda u, x: 2 * u, tanh, 1.0, 0.0))  # doctest: +ELLIPSIS
    output 0 is off in 1 of 1 elements (100%); the worst, at (), is 2.0 where 1.0 is exact: ...
    This is what comes out if it is twice what is right.
    """
    op, options = _of_dlref(op, options)
    vjp = _form(op, "vjp") if reference is None else reference
    tolerance = {"factor": factor, "rtol": rtol, "atol": atol}
    return _compared(candidate, vjp, op, "vjp", (_listed(dout), *inputs), options, tolerance)


def check_jvp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    reference: Callable[..., Any] | None = None,
    factor: float = 1.0,
    rtol: float | None = None,
    atol: float | None = None,
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
    reference : callable or None
        The right jvp, for an `op` that is no function of dlref.
    factor : float, default 1.0
        Multiplies what is allowed.
    rtol, atol : float or None
        Allow ``atol + rtol * abs(exact)`` instead, if one of them is given.
    **options : object
        Keyword arguments of both.

    Returns
    -------
    Verdict
        True if it passes; prints what is off, where and by how much.

    Raises
    ------
    TypeError
        If `op` is not a function of dlref with a jvp, or its jvp raises it.
    ValueError
        What the jvp raises for these inputs.

    See Also
    --------
    check_forward : What is compared, and what is allowed.

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
    op, options = _of_dlref(op, options)
    jvp = _form(op, "jvp") if reference is None else reference
    tolerance = {"factor": factor, "rtol": rtol, "atol": atol}
    both = _listed(primals), _listed(tangents)
    return _compared(candidate, jvp, op, "jvp", both, options, tolerance)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], _: Any) -> Any:
    return rng.normal(size=shape)


def _unit(rng: np.random.Generator, shape: tuple[int, ...], _: Any) -> Any:
    return rng.uniform(size=shape)


def _signs(rng: np.random.Generator, shape: tuple[int, ...], _: Any) -> Any:
    return rng.choice([-1.0, 1.0], size=shape)


def _distributions(rng: np.random.Generator, shape: tuple[int, ...], _: Any) -> Any:
    e = np.exp(rng.normal(size=shape))
    return e / e.sum(-1, keepdims=True)


def _log_distributions(rng: np.random.Generator, shape: tuple[int, ...], _: Any) -> Any:
    return np.log(_distributions(rng, shape, _))


def _targets(rng: np.random.Generator, shape: tuple[int, ...], first: tuple[int, ...]) -> Any:
    """Draw classes, or distributions if the shape is that of the logits."""
    if tuple(shape) == tuple(first):
        return _distributions(rng, shape, first)
    return rng.integers(0, first[-1], shape)


#: How to draw the inputs of functions whose domain is not all numbers, by position.
DRAWS: dict[str, tuple[Callable[..., Any], ...]] = {
    "attention_distance": (_distributions,),
    "attention_entropy": (_distributions,),
    "attention_rollout": (_distributions,),
    "attention_shares": (_distributions,),
    "binary_cross_entropy": (_normal, _unit),
    "cross_entropy": (_normal, _targets),
    "hinge": (_normal, _signs),
    "kl_divergence": (_log_distributions, _distributions),
    "nll": (_log_distributions, _targets),
}


def random_inputs(
    op: Callable[..., Any],
    shapes: Sequence[tuple[int, ...] | None],
    dtype: npt.DTypeLike,
    rng: np.random.Generator,
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Draw inputs for a function, rounded to a dtype before anything is computed from them.

    Parameters
    ----------
    op : callable
        The function of dlref they are for; it is called once, so that shapes that do not fit are
        noticed here.
    shapes : sequence of tuple of int or None
        The shape of each input; None for one that is left out.
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    rng : numpy.random.Generator
        Source of the numbers.
    **options : object
        Keyword arguments that `op` needs.

    Returns
    -------
    tuple of ndarray or None
        Standard normal numbers of these shapes; where a loss takes classes, distributions or
        logarithms of them, those. A target of the shape of the logits is a distribution, of one
        axis less it holds classes.

    Raises
    ------
    TypeError
        If the dtype is another, or `rng` no generator.
    ValueError
        If `op` refuses inputs of these shapes.

    See Also
    --------
    check_forward : What they are for.

    Notes
    -----
    A test that rounds its inputs *after* it has computed the reference from the unrounded ones
    measures the rounding of the inputs, and blames it on the kernel. In float16 that alone is
    as large as the error of a good kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import random_inputs
    >>> from dlref.losses import cross_entropy
    >>> rng = np.random.default_rng(0)
    >>> logits, classes = random_inputs(cross_entropy, [(4, 3), (4,)], np.float16, rng)
    >>> logits.dtype, classes.dtype, bool(classes.max() < 3)
    (dtype('float16'), dtype('int64'), True)
    """
    kind = float_dtype("dtype", dtype)
    rng = as_generator("rng", rng)
    draws = DRAWS.get(getattr(op, "__name__", ""), ())
    inputs = []
    for i, shape in enumerate(shapes):
        draw = draws[i] if i < len(draws) else _normal
        drawn = None if shape is None else np.asarray(draw(rng, shape, shapes[0]))
        whole = drawn is None or drawn.dtype.kind == "i"
        inputs.append(drawn if whole else drawn.astype(kind))  # type: ignore[union-attr]
    op(*inputs, **options)
    return tuple(inputs)
