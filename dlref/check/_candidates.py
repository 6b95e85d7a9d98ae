r"""Verdicts: does a kernel of one's own compute what dlref computes?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    as_generator,
    float_dtype,
    shown,
)
from .._core.pytree import flat, rebuilt
from ._errors import ulp_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Verdict", "check_forward", "check_jvp", "check_vjp", "random_inputs"]

#: What each dtype allows, relative to the largest value: rounded sums in any order.
ALLOWED = {
    "float16": 2.0**-9,
    "bfloat16": 2.0**-6,
    "float32": 64 * 2.0**-23,
    "float64": 64 * 2.0**-52,
}


class Verdict(NamedTuple):
    """
    Whether a candidate passes, and what is off; it prints itself as a sentence.

    Parameters
    ----------
    ok : bool
        Whether every output has the right shape and dtype and is within what is allowed.
    output : int
        Number of the output that is worst, or wrong in shape or dtype.
    at : tuple of int
        Index of its largest error.
    error : float
        That error, relative to the largest value of the output.
    allowed : float
        What the dtype allows.
    ulp : float
        The error in units in the last place of the value there.
    message : str
        All of it in words.

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

    def __bool__(self) -> bool:
        """Return whether the candidate passes."""
        return self.ok

    def __str__(self) -> str:
        """Return the message."""
        return self.message


def _widened(value: Any) -> Any:
    """Return arrays of real numbers as float64, within tuples, and all else as it is."""
    if isinstance(value, tuple):
        return rebuilt(value, map(_widened, value))
    if value is None or np.asarray(value).dtype.kind in "biu":
        return value
    return np.asarray(value, np.float64)


def _judged(number: int, got: Any, want: Any, like: Any) -> Verdict:
    """Compare one output with the exact one, in the dtype that dlref itself returns."""
    want, dtype = np.asarray(want), np.asarray(like).dtype
    allowed = ALLOWED[dtype.name]
    found = np.asarray(got)
    for what, is_, should in (
        ("shape", found.shape, want.shape),
        ("dtype", found.dtype, dtype),
    ):
        if is_ != should:
            words = f"output {number} has {what} {is_}, where dlref's has {should}"
            return Verdict(False, number, (), np.inf, allowed, np.inf, words)
    if not want.size:
        return Verdict(True, number, (), 0.0, allowed, 0.0, f"output {number} is empty")
    wide = found.astype(np.float64)
    finite = np.isfinite(want)
    scale = float(np.max(np.abs(want[finite]), initial=0.0)) or 1.0
    with np.errstate(all="ignore"):
        errors = np.abs(wide - want) / scale
        same = (wide == want) | (np.isnan(wide) & np.isnan(want))
        same |= np.isinf(wide) & (found == want.astype(dtype))  # too large for the dtype
    errors = np.where(same, 0.0, np.where(finite & np.isfinite(wide), errors, np.inf))
    worst = int(errors.argmax())
    at = tuple(int(i) for i in np.unravel_index(worst, want.shape))
    error, ulp = float(errors.flat[worst]), float(np.ravel(ulp_error(found, want))[worst])
    ok = error <= allowed
    words = (
        f"output {number} is {'right' if ok else 'off'}: largest error {error:.2g} of the largest "
        f"value, {allowed:.2g} is allowed in {dtype}; at {at} it is {wide[at]!s} where "
        f"{want[at]!s} is exact, {ulp:.3g} ULP"
    )
    return Verdict(ok, number, at, error, allowed, ulp, words)


def _verdict(got: Any, want: Any, like: Any) -> Verdict:
    got, want, like = map(flat, (got, want, like))
    if len(got) != len(want):
        words = f"the candidate has {len(got)} outputs, where dlref has {len(want)}"
        return Verdict(False, 0, (), np.inf, 0.0, np.inf, words)
    verdicts = [
        _judged(number, *parts)
        for number, parts in enumerate(zip(got, want, like, strict=True))
        if parts[1] is not None
    ]
    return max(verdicts, key=lambda verdict: (not verdict.ok, verdict.error))


def _form(op: Callable[..., Any], suffix: str) -> Callable[..., Any]:
    """Return op_vjp or op_jvp, from the module that op comes from."""
    module = sys.modules[getattr(op, "__module__", "")] if callable(op) else None
    form = getattr(module, f"{getattr(op, '__name__', op)}_{suffix}", None)
    if form is None or not module or not module.__name__.startswith("dlref."):
        msg = f"Argument 'op' must be a function of dlref that has a {suffix}, not {shown(op)}."
        raise TypeError(msg)
    return form  # type: ignore[no-any-return]


def check_forward(
    candidate: Callable[..., Any], op: Callable[..., Any], *inputs: Any, **options: Any
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

    An error counts relative to the largest value of an output, since sums cancel and a small
    element beside large ones cannot have all digits. Allowed are 64 units of relative rounding
    in float32 and float64, and :math:`2^{-9}` and :math:`2^{-6}` in float16 and bfloat16. Where
    the exact value is infinite or NaN, the candidate must say the same.

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
    want = op(*map(_widened, inputs), **options)
    return _verdict(candidate(*inputs, **options), want, op(*inputs, **options))


def check_vjp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    dout: Any,
    *inputs: Any,
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
    >>> print(check_vjp(lambda u, x: 2 * u, tanh, 1.0, 0.0))
    output 0 is off: largest error 1 of the largest value, 1.4e-14 is allowed in float64;
    at () it is 2.0 where 1.0 is exact, 4.5e+15 ULP
    """
    vjp = _form(op, "vjp")
    want = vjp(_widened(dout), *map(_widened, inputs), **options)
    return _verdict(candidate(dout, *inputs, **options), want, vjp(dout, *inputs, **options))


def check_jvp(
    candidate: Callable[..., Any],
    op: Callable[..., Any],
    primals: Any,
    tangents: Any,
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
    jvp = _form(op, "jvp")
    want = jvp(_widened(primals), _widened(tangents), **options)
    return _verdict(
        candidate(primals, tangents, **options), want, jvp(primals, tangents, **options)
    )


def random_inputs(
    op: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    dtype: npt.DTypeLike,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[Any], ...]:
    r"""
    Draw inputs for a function, rounded to a dtype before anything is computed from them.

    Parameters
    ----------
    op : callable
        The function of dlref they are for; it is called once, so that shapes that do not fit are
        noticed here.
    shapes : sequence of tuple of int
        The shape of each input.
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    rng : numpy.random.Generator
        Source of the numbers.

    Returns
    -------
    tuple of ndarray
        Standard normal numbers of these shapes.

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
    as large as the error of a good kernel, so that the sum of both is blamed on the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import random_inputs
    >>> from dlref.neurons import linear
    >>> x, w = random_inputs(linear, [(4, 3), (2, 3)], np.float16, np.random.default_rng(0))
    >>> x.shape, w.dtype
    ((4, 3), dtype('float16'))
    """
    kind = float_dtype("dtype", dtype)
    rng = as_generator("rng", rng)
    inputs = tuple(rng.normal(size=shape).astype(kind) for shape in shapes)
    op(*inputs)
    return inputs
