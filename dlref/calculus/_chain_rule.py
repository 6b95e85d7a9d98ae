r"""The chain rule, from one variable to vectors, and the total derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, result, shown
from ._accumulation import chain_cost

if TYPE_CHECKING:
    from ._accumulation import Order


def chain_rule(*jacobians: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of a composition, the product of the Jacobians of its parts.

    Parameters
    ----------
    *jacobians : array_like
        Jacobians of the functions, the outermost first, each evaluated at the output of the next.
        The shape is the shape of the output followed by the shape of the input of the function:
        ``(m, n)`` between vectors, ``()`` between scalars, ``(n,)`` if one side is a scalar.
        Leading axes of ``(..., m, n)`` are batch axes and broadcast.

    Returns
    -------
    ndarray or scalar
        Jacobian of the composition, of the outermost output and the innermost input, in
        the same convention.

    Raises
    ------
    TypeError
        If a Jacobian is neither integer nor a real floating-point array.
    ValueError
        If there is no Jacobian, or two neighbors do not fit.

    See Also
    --------
    total_derivative : Several paths from the input to the output.
    chain_cost : The cost of an order of multiplication.

    Notes
    -----
    **One variable.** For :math:`y = f(u)`, :math:`u = g(x)`, a step :math:`\Delta x` makes
    :math:`\Delta u = g'(x) \Delta x + o(\Delta x)`, where the last term is a remainder that is
    small even compared with :math:`\Delta x`; and that makes
    :math:`\Delta y = f'(u) \Delta u + o(\Delta u)`. Since :math:`\Delta u` is at most proportional
    to :math:`\Delta x`, both remainders are :math:`o(\Delta x)`:
    :math:`\Delta y = f'(u)\, g'(x)\, \Delta x + o(\Delta x)`, that is,

    .. math:: \dv{y}{x} = \dv{y}{u} \dv{u}{x} .

    **Vectors.** The Jacobian of f has a row for each output and a column for each input: in row i
    and column k stands :math:`\partial y_i / \partial u_k`, the derivative of output i with respect
    to input k. For :math:`y = f(u)`, :math:`u = g(x)` every :math:`u_k` depends on
    :math:`x_j`, and :math:`y_i` on every :math:`u_k`; to first order the effects add up:

    .. math::

        \pdv{y_i}{x_j} = \sum_k \pdv{y_i}{u_k} \pdv{u_k}{x_j},
        \qquad\text{that is,}\qquad
        J_{f \circ g}(x) = J_f(g(x))\, J_g(x) .

    The sum over :math:`k` is a matrix product, and the scalar rule is its :math:`1 \times 1` case.
    Longer chains continue in the same way. The product is associative, so every order gives the
    same matrix, but not at the same cost: the code takes the cheapest, by :func:`chain_cost`.

    **A loss at the end.** A loss L is one number, so its Jacobian with respect to y is one row, the
    gradient :math:`u_i = \partial L / \partial y_i`. It is called the *upstream gradient*, or the
    *cotangent* of y. The chain rule multiplies this row by the Jacobian of the map from x to y:

    .. math:: \pdv{L}{x_j} = \sum_i u_i \pdv{y_i}{x_j} .

    This is the *vector-Jacobian product* of the map, for short its vjp. Backpropagation is one such
    product after the other, from the loss to the input.

    **Shapes.** A scalar in the chain has no axis, so a Jacobian of shape ``(n,)`` is a row if the
    output is a scalar, and a column if the input is one. Its neighbors determine which; if all
    Jacobians have one axis, the first is a row.

    References
    ----------
    The rules are built up from one variable in :cite:t:`ParrHoward2018`.

    Examples
    --------
    :math:`y = \sin(x^2)` at :math:`x = 1.5`, with :math:`u = x^2`: the slopes are
    :math:`\cos(x^2)` and :math:`2x`.

    >>> import numpy as np
    >>> from dlref.calculus import chain_rule
    >>> x = 1.5
    >>> float(np.sin(x**2).round(12)), float(chain_rule(np.cos(x**2), 2 * x).round(12))
    (0.778073196888, -1.884520868168)

    The function :math:`f = (u_1 + u_2,\; u_1 u_2)` of :math:`g = (x^2, \sin x)` at :math:`x = 1`.
    Each function has a matrix of partial derivatives, with a row for each output and a column for
    each input, and the matrices are multiplied:

    >>> x = 1.0
    >>> u = np.array([x**2, np.sin(x)])
    >>> np.array([u.sum(), u.prod()]).round(8)  # y
    array([1.84147098, 0.84147098])
    >>> J_f, J_g = [[1, 1], [u[1], u[0]]], [[2 * x], [np.cos(x)]]
    >>> chain_rule(J_f, J_g).round(8)
    array([[2.54030231],
           [2.22324428]])

    A row before a column is a number, the derivative of a scalar along a curve:

    >>> float(chain_rule([1, 2, 3], [4, 5, 6]))
    32.0
    """
    if not jacobians:
        msg = "Argument 'jacobians' must hold at least one Jacobian, not 0."
        raise ValueError(msg)
    names = [f"jacobians[{position}]" for position in range(len(jacobians))]
    dtype, arrays = as_floats(dict(zip(names, jacobians, strict=True)))
    return result(_product(names, arrays), dtype)


def total_derivative(
    partials: Sequence[npt.ArrayLike], inner: Sequence[npt.ArrayLike]
) -> FloatArray:
    r"""
    Derivative of a function that the input reaches along several paths.

    Parameters
    ----------
    partials : sequence of array_like
        :math:`\partial y / \partial u_i`, the partial derivatives of
        :math:`y = f(u_1, \ldots, u_k)`, each shaped as in :func:`chain_rule`.
    inner : sequence of array_like
        :math:`\partial u_i / \partial x`, one for each of `partials`. A direct use of
        :math:`x` counts as a path with :math:`u_i = x`, of derivative one.

    Returns
    -------
    ndarray or scalar
        :math:`\mathrm{d} y / \mathrm{d} x`.

    Raises
    ------
    TypeError
        If an argument is not a sequence, or a derivative is neither integer nor a real
        floating-point array.
    ValueError
        If the sequences are empty or of different lengths, the two derivatives of a path
        do not fit, or the paths have different shapes.

    See Also
    --------
    chain_rule : One path.

    Notes
    -----
    A step :math:`\Delta x` changes every :math:`u_i` by
    :math:`\pdv{u_i}{x} \Delta x + o(\Delta x)`; since :math:`f` is differentiable at
    :math:`u`, the effects of small changes of its arguments add up:

    .. math:: \dv{y}{x} = \sum_{i=1}^{k} \pdv{y}{u_i} \pdv{u_i}{x} .

    Drawn as a graph, it is a sum over all paths from :math:`x` to :math:`y` of the product
    of the slopes along the path. The partial derivative with respect to :math:`x` keeps
    the other :math:`u_i` fixed and sees one path; the total derivative sees them all.

    This is the chain rule for vectors again: a row of all partial derivatives times a column of all
    inner derivatives, one product for each path.

    References
    ----------
    The name and the example are from :cite:t:`ParrHoward2018`.

    Examples
    --------
    :math:`y = x + u` with :math:`u = x^2` at :math:`x = 2`. Along the direct path the slope is
    1, along the other :math:`2 x = 4`:

    >>> from dlref.calculus import total_derivative
    >>> x = 2.0
    >>> x + x**2, float(total_derivative([1, 1], [1, 2 * x]))
    (6.0, 5.0)

    A weight used twice gets the gradients of both uses:

    >>> total_derivative([[1, 0], [0, 2]], [[[1, 0], [0, 1]], [[1, 0], [0, 1]]])
    array([1., 2.])
    """
    for name, value in (("partials", partials), ("inner", inner)):
        if not hasattr(value, "__len__"):
            msg = f"Argument {name!r} must be a sequence of derivatives, not {shown(value)}."
            raise TypeError(msg)
    if len(partials) != len(inner) or not len(partials):
        msg = (
            "Arguments 'partials' and 'inner' must have one derivative each for every path, "
            f"not {len(partials)} and {len(inner)}."
        )
        raise ValueError(msg)
    names = [[f"{side}[{i}]" for i in range(len(inner))] for side in ("partials", "inner")]
    dtype, arrays = as_floats(dict(zip(names[0] + names[1], [*partials, *inner], strict=True)))
    paths = zip(*names, arrays[: len(inner)], arrays[len(inner) :], strict=True)
    total, *others = (_product([outer, inside], [f, g]) for outer, inside, f, g in paths)
    for position, path in enumerate(others, 1):
        if path.shape != total.shape:
            msg = (
                f"Argument 'inner[{position}]' must make a path of shape {total.shape}, as the "
                f"first one, not {path.shape}."
            )
            raise ValueError(msg)
        total = total + path
    return result(total, dtype)


def _product(names: list[str], jacobians: list[FloatArray]) -> FloatArray:
    """Multiply the Jacobians of a chain in the cheapest order."""
    scalar = _scalar_variables(names, jacobians)
    matrices = [
        array if array.ndim > 1 else array.reshape(1 if row else -1, 1 if column else -1)
        for array, row, column in zip(jacobians, scalar, scalar[1:], strict=False)
    ]
    for name, left, right in zip(names[1:], matrices, matrices[1:], strict=False):
        if left.shape[-1] != right.shape[-2]:
            msg = (
                f"Argument {name!r} must have {left.shape[-1]} rows to fit the one before, "
                f"not shape {right.shape}."
            )
            raise ValueError(msg)
    try:
        np.broadcast_shapes(*(matrix.shape[:-2] for matrix in matrices))
    except ValueError:
        shapes = ", ".join(str(matrix.shape) for matrix in matrices)
        msg = (
            f"Arguments {names[0]!r} to {names[-1]!r} must have batch axes that broadcast, "
            f"not shapes {shapes}."
        )
        raise ValueError(msg) from None
    with np.errstate(all="ignore"):
        product = _multiply(matrices, chain_cost([matrix.shape[-2:] for matrix in matrices])[1])
    lost = ((-2,) if scalar[0] else ()) + ((-1,) if scalar[-1] else ())
    return product.squeeze(lost).copy()  # a chain of one is the caller's own array


def _multiply(matrices: list[FloatArray], order: Order) -> FloatArray:
    if isinstance(order, int):
        return matrices[order]
    product: FloatArray = _multiply(matrices, order[0]) @ _multiply(matrices, order[1])
    return product


def _scalar_variables(names: list[str], jacobians: list[FloatArray]) -> list[bool]:
    """
    Return which variables of the chain, from output to input, are scalars.

    Two scalars meet at a Jacobian without axes, two vectors at a matrix, one of each at a Jacobian
    with one axis.  The first Jacobian with another number of axes decides for all before it.
    """
    decisive = next((k for k, array in enumerate(jacobians) if array.ndim != 1), None)
    if decisive is None:
        scalar = [True]
    else:
        scalar = [(jacobians[decisive].ndim == 0) != (decisive % 2 == 1)]
    for name, array in zip(names, jacobians, strict=True):
        if array.ndim != 1 and scalar[-1] != (array.ndim == 0):
            axis = "no axis" if scalar[-1] else "an axis"
            msg = (
                f"Argument {name!r} must have {axis} for its output, the input of the one "
                f"before, not shape {array.shape}."
            )
            raise ValueError(msg)
        scalar.append(scalar[-1] != (array.ndim == 1))
    return scalar
