r"""Numerical derivatives, and the test that both modes of differentiation agree."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    as_generator,
    as_number,
    check_callable,
    check_flags,
    choice,
    result,
    shown,
)
from .._core.pytree import is_float, map_tree, tree_leaves
from ._candidates import html_table, written
from ._oracle.arrays import as_numpy, calling, framework_of, handed
from ._oracle.autograd import own_vjp
from ._oracle.differences import ridders
from ._oracle.unwritten import poisoned

STEP = 1e-200  #: of the complex step: its square is zero


def _with_step(x: FloatArray, i: int, h: Any) -> Any:
    """Return x with its element i moved by a step."""
    there = x.astype(np.result_type(x, h))
    with np.errstate(all="ignore"):
        there.flat[i] += h
    return there


def _central(f: Callable[[FloatArray], Any], x: FloatArray, i: int, h: float) -> FloatArray:
    there, before = _with_step(x, i, h), _with_step(x, i, -h)
    width: float = there.flat[i] - before.flat[i]  # the step after rounding
    return (np.asarray(f(there), np.float64) - np.asarray(f(before), np.float64)) / width


def _stepped(f: Callable[[Any], Any], x: FloatArray, i: int, h: Any) -> Any:
    return f(_with_step(x, i, h))


def _check_analytic(f: Callable[[Any], Any], x: FloatArray, jacobian: FloatArray) -> None:
    """Raise if the complex step and a difference do not agree along a random direction."""
    v = np.random.default_rng(0).normal(size=x.shape)
    stepped = jacobian @ np.ravel(v)
    with np.errstate(all="ignore"):
        differ = ridders(lambda h: f(x + h * v), 0.01)
    size = np.max(np.abs([stepped, differ]), initial=0.0)
    if np.max(np.abs(stepped - differ), initial=0.0) > 1e-4 * size:
        msg = (
            "Argument 'f' must be analytic for the method 'complex', without abs, conj, real or "
            "comparisons: along a random direction a difference says otherwise."
        )
        raise ValueError(msg)


def numerical_jacobian(
    f: Callable[[Any], Any], x: npt.ArrayLike, *, method: str = "ridders"
) -> FloatArray:
    r"""
    Jacobian of a function, from its values alone.

    Parameters
    ----------
    f : callable
        A function of one array that returns one. For "complex" it must accept complex numbers.
    x : array_like
        The point, in float64.
    method : {"ridders", "complex", "central"}
        How the derivative is formed.

    Returns
    -------
    ndarray of float64, shape of f(x) + shape of `x`
        Entry (i, j) is the derivative of output i with respect to input j.

    Raises
    ------
    TypeError
        If `x` is not real, or `f` cannot be called.
    ValueError
        If the method is unknown, or f is not analytic though the method is complex: a difference
        along a random direction is compared.

    See Also
    --------
    adjoint_gap : A test without any step.

    Notes
    -----
    All methods change one element of x at a time, so they cost some calls of f per element. With
    the unit vector :math:`\vec e_j`,

    .. math::

        \text{central: } & \quad
            \pdv{f}{x_j} = \frac{f(\vec x + h \vec e_j) - f(\vec x - h \vec e_j)}{2 h} + O(h^2), \\
        \text{complex: } & \quad \pdv{f}{x_j} = \frac{\operatorname{Im} f(\vec x + i h \vec e_j)}{h}
            + O(h^2) .

    *central* has a truncation error of order :math:`h^2` and a rounding error of order
    :math:`\epsilon / h`, with the machine epsilon :math:`\epsilon`; the best h is near
    :math:`\epsilon^{1/3}`, and ten digits are the most to hope for. The step is that, times
    :math:`\abs{x_j}` where this is larger than 1.

    *ridders*: the truncation error is a series in :math:`h^2`, so that differences at several steps
    are extrapolated to h = 0, and the place in the tableau where neighbors agree best is
    taken: about 12 digits, for 24 calls.

    *complex*: for an analytic f, :math:`f(x + ih) = f(x) + i h f'(x) - h^2 f''(x)/2 - \dots`, and
    the imaginary part over h is the derivative, with no difference of nearly equal numbers. With
    :math:`h = 10^{-200}` the rest vanishes, and all digits are right, for one call per element. It
    needs an f without absolute values, comparisons or conjugation; 24 more calls, once, show
    whether f is such a function.

    References
    ----------
    - :cite:t:`Ridders1982`
    - :cite:t:`SquireTrapp1998`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import numerical_jacobian
    >>> f = lambda x: np.array([x[0] * x[1], np.sin(x[0])])
    >>> numerical_jacobian(f, [0.0, 2.0], method="complex")
    array([[2., 0.],
           [1., 0.]])
    >>> errors = [
    ...     abs(numerical_jacobian(np.exp, 1.0, method=method) / np.e - 1)
    ...     for method in ("central", "ridders", "complex")
    ... ]
    >>> bool(1e-9 > errors[0] > 1e-13 and errors[1] < 1e-11 and errors[2] < 1e-15)
    True
    """
    check_callable("f", f)
    _, (point,) = as_floats({"x": x})
    choice("method", method, ("ridders", "complex", "central"))
    columns: list[FloatArray] = []
    for i in range(point.size):
        size = max(abs(float(point.flat[i])), 1.0)
        if method == "complex":
            columns.append(np.asarray(_stepped(f, point, i, 1j * STEP)).imag / STEP)
        elif method == "central":
            columns.append(_central(f, point, i, size * np.finfo(float).eps ** (1 / 3)))
        else:
            columns.append(ridders(functools.partial(_stepped, f, point, i), 0.1 * size))
    shape = np.shape(columns[0] if columns else f(point))
    out = np.stack(columns, axis=-1) if columns else np.empty((*shape, 0))
    if method == "complex" and columns:
        _check_analytic(f, point, out)
    return result(out.reshape(shape + point.shape), np.dtype(np.float64))


def _random_direction(value: Any, rng: np.random.Generator) -> Any:
    """Return a direction for an array or a nested tuple of them; None for a constant."""

    def drawn(entry: Any) -> Any:
        array = np.empty(0, int) if entry is None else as_array("primals", entry)
        return None if array.dtype.kind in "biu" else rng.normal(size=array.shape)

    return map_tree(drawn, value)


def _terms(left: Any, right: Any) -> FloatArray:
    """Return the terms of the inner product of two structures of arrays; constants have none."""
    a, b = tree_leaves(left), tree_leaves(right)
    if len(a) != len(b):  # a vjp may leave constants out
        a, b = ([part for part in side if part is not None] for side in (a, b))
    if len(a) != len(b):
        msg = f"Argument 'f_vjp' must return {len(b)} gradients, one for each input, not {len(a)}."
        raise ValueError(msg)
    pairs = zip(a, b, strict=True)
    terms = [np.ravel(u) * np.ravel(v) for u, v in pairs if u is not None and v is not None]
    return np.concatenate([np.empty(0), *terms])


def _relative_gap(left: FloatArray, right: FloatArray) -> float:
    """Return how far two sums are apart, relative to the larger sum of absolute terms."""
    size = max(np.abs(left).sum(), np.abs(right).sum())
    return float(abs(left.sum() - right.sum()) / size) if size else 0.0


def adjoint_gap(
    f_jvp: Callable[..., Any], f_vjp: Callable[..., Any], primals: Any, rng: np.random.Generator
) -> float:
    r"""
    Relative difference of both sides of the identity that ties the two modes together.

    Parameters
    ----------
    f_jvp : callable
        Forward mode, called as ``f_jvp(primals, tangents)``.
    f_vjp : callable
        Reverse mode, called as ``f_vjp(dout, *primals)``.
    primals : array_like or tuple of array_like
        The point; tuples may be nested. Integer arrays and None are constants.
    rng : numpy.random.Generator
        Draws the direction v and the cotangent u.

    Returns
    -------
    float
        :math:`\abs{\langle u, \mat J v \rangle - \langle \mat J^\top u, v \rangle}`, divided by
        the sum of the absolute values of the terms of one product, whichever sum is larger; a few
        :math:`10^{-16}` if both modes are right.

    Raises
    ------
    TypeError
        If `rng` is not a generator, or a mode cannot be called.
    ValueError
        If the vjp returns more or fewer gradients than there are inputs.

    See Also
    --------
    numerical_jacobian : To find which of the two is wrong.

    Notes
    -----
    Both modes give the same number,

    .. math::

        \vec u \cdot (\mat J \vec v) = \vec u^\top \mat J \vec v = (\mat J^\top \vec u) \cdot \vec v

    for all cotangents and tangents. A random pair finds nearly any mistake in either mode, with one
    call of each, and with no step to choose. It does not find a mistake that is in both.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax_jvp, softmax_vjp
    >>> from dlref.check import adjoint_gap
    >>> x = np.random.default_rng(0).normal(size=(4, 8))
    >>> adjoint_gap(softmax_jvp, softmax_vjp, x, np.random.default_rng(1)) < 1e-15
    True

    A backward pass that forgot the second term of softmax:

    >>> from dlref.activations import softmax
    >>> wrong = lambda dout, x: softmax(x) * dout
    >>> adjoint_gap(softmax_jvp, wrong, x, np.random.default_rng(1)) > 0.01
    True
    """
    rng = as_generator("rng", rng)
    check_callable("f_jvp", f_jvp)
    check_callable("f_vjp", f_vjp)
    tangents = _random_direction(primals, rng)
    inputs = primals if isinstance(primals, tuple) else (primals,)
    with poisoned(inputs):
        by_jvp = f_jvp(primals, tangents)
    dout = _random_direction(by_jvp, rng)
    with poisoned(inputs):
        by_vjp = f_vjp(dout, *inputs)
    with np.errstate(all="ignore"):
        return _relative_gap(_terms(dout, by_jvp), _terms(by_vjp, tangents))


class GradientCheck(NamedTuple):
    """
    Whether a backward pass is the derivative of its function; it prints itself as a sentence.

    Parameters
    ----------
    ok : bool
        Whether every gap is within the tolerance.
    gaps : tuple of float
        Largest relative difference for each input; NaN for constants.
    second : float or None
        The same for the second order, if it was asked for.
    allowed : float
        The tolerance.
    batched, undefined : float or None
        The same for stacked upstream gradients and for missing ones, if they were asked for.

    See Also
    --------
    check_gradients : Makes it.

    Notes
    -----
    It is true if the backward pass is right, so that ``assert check_gradients(...)`` is a test.

    Examples
    --------
    >>> from dlref.check import GradientCheck
    >>> print(GradientCheck(False, (1e-12, 0.5), None, 1e-7))
    the gradient of input 1 is off by 0.5, where 1e-07 is allowed
    """

    ok: bool
    gaps: tuple[float, ...]
    second: float | None
    allowed: float
    batched: float | None = None
    undefined: float | None = None

    def __bool__(self) -> bool:
        """Return whether it is right."""
        return self.ok

    def __repr__(self) -> str:
        """Return the sentence."""
        first = {
            f"the gradient of input {i}": gap
            for i, gap in enumerate(self.gaps)
            if not np.isnan(gap)
        }
        every = first | self._further_differences()
        off = [
            f"{key} is off by {gap:.2g}" for key, gap in every.items() if not gap <= self.allowed
        ]
        if off:
            return f"{', '.join(off)}, where {self.allowed:.2g} is allowed"
        most = max(first.values(), default=0.0)
        return f"all gradients are right: largest difference {most:.2g}"

    def _further_differences(self) -> dict[str, float]:
        """Return the largest difference of each further test that was asked for."""
        every = {
            "the second order": self.second,
            "the gradient of stacked upstream gradients": self.batched,
            "the gradient where an upstream gradient is None": self.undefined,
        }
        return {name: gap for name, gap in every.items() if gap is not None}

    def _repr_html_(self) -> str:
        """Return the sentence, and a table of the differences of each input."""
        rows = [(f"input {i}", f"{gap:.2g}") for i, gap in enumerate(self.gaps)]
        rows += [(name, f"{gap:.2g}") for name, gap in self._further_differences().items()]
        rows.append(("allowed", f"{self.allowed:.2g}"))
        return f"<p>{escape(str(self))}</p>" + html_table(("", "difference"), rows)


def _gap(left: Any, right: Any) -> float:
    """Return the largest difference relative to the largest value; inf for another shape."""
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    size = max(np.max(np.abs(a), initial=0.0), np.max(np.abs(b), initial=0.0))
    return float(np.max(np.abs(a - b), initial=0.0) / size) if size else 0.0


def _slope(phi: Callable[..., Any], method: str, i: int, v: FloatArray) -> FloatArray:
    """Return the derivative of phi along a direction of input i."""

    def at_step(h: Any) -> Any:
        return phi(i, h, v)

    differ = ridders(at_step, 0.05)
    if method != "complex":
        return differ
    with np.errstate(all="ignore"):
        exact = np.imag(at_step(1j * STEP)) / STEP
    if _gap(exact, differ) > 1e-4:
        msg = "Argument 'f' must be analytic for the method 'complex': a difference says otherwise."
        raise ValueError(msg)
    return np.asarray(exact)


def _call_on_copies(name: str, g: Callable[..., Any], values: tuple[Any, ...], kind: str) -> Any:
    """Call a function with copies of arrays, to which it must not write, in poisoned memory."""
    given = handed(list(values), kind)
    with poisoned(values, framework=kind):
        out = as_numpy(g(*given))
    if written(values, given):
        msg = f"Argument {name!r} must not write to the arrays that it is given."
        raise ValueError(msg)
    return tuple(out) if isinstance(out, list) else out


def check_gradients(
    f: Callable[..., Any],
    vjp: Callable[..., Any] | str,
    *inputs: Any,
    rng: np.random.Generator | None = None,
    method: str = "ridders",
    fast: bool = False,
    order: int = 1,
    batched: bool = False,
    undefined: bool = False,
    rtol: float = 1e-7,
    framework: str | None = None,
) -> GradientCheck:
    r"""
    Compare a backward pass with differences of its function, which dlref need not know.

    Parameters
    ----------
    f : callable
        The function, called as ``f(*inputs)``; it returns an array or a tuple of arrays.
    vjp : callable or "autograd"
        Its backward pass, called as ``vjp(dout, *inputs)``; it returns one array per
        floating-point input, a tuple or list if there are several. "autograd" for the gradient that
        PyTorch or JAX computes for `f`.
    *inputs : array_like
        The point; integers and None are constants, floats are widened to float64.
    rng : numpy.random.Generator or None
        Draws `dout` and the directions; None means one with the seed 0.
    method : {"ridders", "complex"}
        Extrapolated differences, or a complex step, for which `f` must be analytic.
    fast : bool
        Whether to compare along one random direction per input, rather than element by element.
    order : {1, 2}
        With 2, the derivative of the vjp is checked, too: second derivatives must be symmetric.
    batched : bool
        Whether to call the vjp once with three upstream gradients stacked along a new first axis,
        as ``torch.func.vmap`` or ``jax.vmap`` does; for PyTorch and JAX.
    undefined : bool
        Whether to call the vjp with None for the upstream gradient of each output, as PyTorch does
        for outputs that the loss does not use; None then stands for zeros.
    rtol : float
        Difference allowed, relative to the largest element.
    framework : {"numpy", "torch", "jax"} or None
        Kind of arrays that both receive; None means the same kind as the inputs.

    Returns
    -------
    GradientCheck
        True if every gradient is right; prints which is not.

    Raises
    ------
    TypeError
        If `f` or `vjp` is not a function, or `rng` is not a generator.
    ValueError
        If an option is unknown, `batched` or "autograd" lack a framework, the number of gradients
        is wrong, f or its vjp writes to the arrays that it is given, or f is not analytic though
        the method is complex.

    See Also
    --------
    numerical_jacobian : The differences themselves.
    check_vjp : For functions that dlref knows.

    Notes
    -----
    For a random :math:`u`, :math:`\phi(x) = \langle u, f(x) \rangle` has the gradient
    :math:`\mat J^\top u`, which the vjp returns. In the fast mode, both are multiplied by a random
    direction. The cost does not grow with the number of elements, and a mistake is found if it is
    not small compared with `rtol` times the sum of all terms: one wrong element of a million has
    less weight than one of ten.

    For the second order, the vjp g is taken as a function of x. Its Jacobian is the Hessian of
    :math:`\phi`, which is symmetric: :math:`\langle w, \mat H v \rangle = \langle v, \mat H w
    \rangle` for random directions v and w, with :math:`\mat H v` by differences of g.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import check_gradients
    >>> f = lambda x, w: np.tanh(x @ w)
    >>> def vjp(u, x, w):
    ...     g = u * (1 - np.tanh(x @ w) ** 2)
    ...     return g @ w.T, x.T @ g
    >>> x, w = np.random.default_rng(0).normal(size=(2, 3, 3))
    >>> bool(check_gradients(f, vjp, x, w))
    True
    >>> half = lambda u, x, w: (vjp(u, x, w)[0], vjp(u, x, w)[1] / 2)
    >>> print(check_gradients(f, half, x, w))
    the gradient of input 1 is off by 0.5, where 1e-07 is allowed
    """
    check_callable("f", f)
    kind = framework_of(inputs, framework)
    if isinstance(vjp, str):
        choice("vjp", vjp, ("autograd",))
        vjp = own_vjp(f, kind)
    check_callable("vjp", vjp)
    choice("method", method, ("ridders", "complex"))
    choice("order", order, (1, 2))
    check_flags(fast=fast, batched=batched, undefined=undefined)
    if batched and kind == "numpy":
        msg = "Argument 'framework' must be 'torch' or 'jax' where 'batched' is True."
        raise ValueError(msg)
    rtol = as_number("rtol", rtol, least=0)
    rng = as_generator("rng", np.random.default_rng(0) if rng is None else rng)
    own = [as_numpy(a) for a in inputs]
    as_floats({f"inputs[{i}]": a for i, a in enumerate(own) if is_float(a)})
    point = [np.array(a, np.float64) if is_float(a) else a for a in own]
    floating = [i for i, a in enumerate(point) if is_float(a)]

    def run(g: Callable[..., Any], *values: Any) -> Any:
        return _call_on_copies("f" if g is f else "vjp", g, values, kind)

    with calling(kind), np.errstate(all="ignore"):
        dout = _random_direction(run(f, *point), rng)

        def phi(i: int, h: Any, v: FloatArray) -> Any:
            moved = [a + h * v if j == i else a for j, a in enumerate(point)]
            parts = zip(tree_leaves(dout), tree_leaves(run(f, *moved)), strict=True)
            return sum(np.sum(u * np.asarray(y)) for u, y in parts)

        def grads(values: list[Any]) -> list[Any]:
            out = [*tree_leaves(run(vjp, dout, *values))]
            if len(out) != len(floating):
                msg = (
                    f"Argument 'vjp' must return {len(floating)} gradients, one for each array of "
                    f"floats, not {len(out)}."
                )
                raise ValueError(msg)
            return [np.zeros(()) if g is None else _numbers(g) for g in out]

        gaps = [float("nan")] * len(point)
        for i, got in zip(floating, grads(point), strict=True):
            slope = functools.partial(_slope, phi, method, i)
            gaps[i] = float("inf")
            if got.shape == np.shape(point[i]):
                gaps[i] = (_fast_gap if fast else _full_gap)(slope, got, point[i], rng)
        second = None
        if order == 2:
            fit = all(np.isfinite(gaps[i]) for i in floating)
            second = _asymmetry(grads, point, floating, rng) if fit else float("inf")
        stacked = _stacked_gap(vjp, dout, point, rng, kind) if batched else None
        missing = _missing_gap(lambda u: run(vjp, u, *point), dout) if undefined else None
    every = [*(gaps[i] for i in floating), *(second, stacked, missing)]
    ok = all(gap <= rtol for gap in every if gap is not None)
    return GradientCheck(ok, tuple(gaps), second, rtol, stacked, missing)


def _fast_gap(slope: Any, got: Any, x: Any, rng: Any) -> float:
    """Return the gap along one random direction."""
    v = rng.normal(size=np.shape(x))
    gap = _relative_gap(got * v, np.asarray(slope(v)))
    return gap if np.isfinite(gap) else float("inf")


def _full_gap(slope: Any, got: Any, x: Any, _rng: Any) -> float:
    """Return the largest gap, element by element."""
    want = np.zeros(np.shape(x))
    for k in range(want.size):
        v = np.zeros(want.shape)
        v.flat[k] = max(1.0, abs(float(x.flat[k])))
        want.flat[k] = float(slope(v)) / v.flat[k]
    return _gap(got, want)


def _stacked_gap(vjp: Any, dout: Any, point: list[Any], rng: Any, kind: str) -> float:
    """Return how far one call for three upstream gradients is from three calls."""
    three = [_random_direction(dout, rng) for _ in range(3)]
    one_by_one = [tree_leaves(_call_on_copies("vjp", vjp, (u, *point), kind)) for u in three]
    together: Any = tuple(map(np.stack, zip(*three, strict=True)))
    if not isinstance(dout, tuple):
        together = np.stack(three)
    framework = importlib.import_module(kind)
    vmap = framework.func.vmap if kind == "torch" else framework.vmap

    def at_once(u: Any, *values: Any) -> Any:
        return vmap(lambda dout: vjp(dout, *values))(u)

    stacked = tree_leaves(_call_on_copies("vjp", at_once, (together, *point), kind))
    pairs = zip(stacked, zip(*one_by_one, strict=True), strict=True)
    return max((_gap(got, np.stack(want)) for got, want in pairs if got is not None), default=0.0)


def _missing_gap(vjp: Callable[[Any], Any], dout: Any) -> float:
    """Return how far gradients with None are from those with zeros, over all outputs."""

    def gap(*douts: Any) -> float:
        return _undefined_gap(*(tree_leaves(vjp(u)) for u in douts))

    if not isinstance(dout, tuple):
        return gap(None, np.zeros_like(dout))
    ends = [(dout[:i], np.zeros_like(part), dout[i + 1 :]) for i, part in enumerate(dout)]
    return max(gap((*a, None, *b), (*a, zeros, *b)) for a, zeros, b in ends)


def _undefined_gap(got: list[Any], want: list[Any]) -> float:
    """Return the largest gap; a gradient that is None counts as zeros."""
    if len(got) != len(want):
        return float("inf")
    pairs = zip(got, want, strict=True)
    filled = ((np.zeros_like(b) if a is None else a, b) for a, b in pairs if b is not None)
    return max((_gap(a, b) for a, b in filled), default=0.0)


def _numbers(gradient: Any) -> FloatArray:
    try:
        return np.asarray(gradient, np.float64)
    except (TypeError, ValueError) as error:
        msg = f"Argument 'vjp' must return arrays of floats, not {shown(gradient)}."
        raise TypeError(msg) from error


def _asymmetry(
    grads: Callable[[list[Any]], list[Any]],
    point: list[Any],
    floating: list[int],
    rng: np.random.Generator,
) -> float:
    """Return how far <w, H v> and <v, H w> are apart, H v by differences of the gradients."""
    v, w = ([rng.normal(size=np.shape(point[i])) for i in floating] for _ in range(2))

    def curved(direction: list[Any]) -> list[FloatArray]:
        sizes = np.cumsum([d.size for d in direction])[:-1]

        def at_step(h: float) -> FloatArray:
            moved = list(point)
            for i, d in zip(floating, direction, strict=True):
                moved[i] = point[i] + h * d
            return np.concatenate([np.ravel(g) for g in grads(moved)])

        return np.split(ridders(at_step, 0.05), sizes)

    return _relative_gap(*(_terms(tuple(a), tuple(curved(b))) for a, b in ((w, v), (v, w))))
