r"""Square matrices with rows and columns of sum 1, and both Jacobian products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)


def _check_square(x: FloatArray) -> None:
    check_ndim("x", x, 2)
    if x.shape[-1] != x.shape[-2]:
        msg = f"Argument 'x' must have square matrices, not shape {x.shape}."
        raise ValueError(msg)


def _normalized(z: FloatArray, steps: int) -> Iterator[tuple[int, FloatArray]]:
    """Yield the logarithms after each half step, with the axis along which they sum to one."""
    for _ in range(steps if z.size else 0):
        for axis in (-1, -2):
            z = z - z.max(axis, keepdims=True)
            z = z - np.log(np.exp(z).sum(axis, keepdims=True))
            yield axis, z


def sinkhorn(x: npt.ArrayLike, *, steps: int = 20) -> FloatArray:
    r"""
    Make matrices of scores doubly stochastic: rows and columns of probabilities.

    Parameters
    ----------
    x : array_like, shape (..., n, n)
        Scores.
    steps : int, default 20
        How often the rows and then the columns are divided by their sums, at least 1.

    Returns
    -------
    ndarray, shape of `x`
        Positive matrices. Each column sums to one, and each row nearly.

    Raises
    ------
    TypeError
        If `x` is not real or `steps` is not an integer.
    ValueError
        If `x` has no square matrices, or there is no step.

    See Also
    --------
    dlref.activations.softmax : One half step.
    sinkhorn_vjp : The backward pass, through the steps and in the limit.

    Notes
    -----
    The first half step is a softmax of each row. The columns of the result do not sum to one, so
    they are divided by their sums, which spoils the rows, and so on. For the logarithms
    :math:`Z` of the matrix, which begin with the scores, a division is a subtraction:

    .. math:: Z_{ij} \leftarrow Z_{ij} - \log \sum_k e^{Z_{ik}} , \qquad
       Z_{ij} \leftarrow Z_{ij} - \log \sum_k e^{Z_{kj}} .

    **The limit.** All subtractions of row i can be collected in one number, and all subtractions of
    column j in another one. So the result is always the exponential of the scores with scaled rows
    and columns,

    .. math:: P_{ij} = r_i\, e^{X_{ij}}\, c_j .

    For finite scores the matrix converges, and only one doubly stochastic matrix has this form
    :cite:p:`SinkhornKnopp1967`. Near the limit, a step multiplies the error by
    :math:`\sigma_2^2`, the square of the second largest singular value of the limit: the closer it
    is to a permutation, the slower.

    **Why doubly stochastic.** Such a matrix is a mean of permutations, so its largest singular
    value is 1, and a product of such matrices is one again. Hyper-connections mix several residual
    streams by one in each layer: the streams keep their sum, and do not grow with the depth
    :cite:p:`XieHyper2025` (:doc:`/connections_and_caches` has the proof, and trained models).

    **Numerics.** Logarithms neither overflow nor underflow, and the largest entry is subtracted
    before each exponential. The map is computed in float64 and rounded once.

    **Special values.** A score of -inf is an entry of 0. Infinity, NaN, or a row or column of -inf
    alone, make a matrix of NaN.

    Examples
    --------
    A matrix whose rows and columns all have the same sum needs one step. For others, the sums of
    the rows come closer to one with each step:

    >>> import numpy as np
    >>> from dlref.normalization import sinkhorn
    >>> x = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> sinkhorn(x, steps=1)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> x = np.log([[4.0, 1.0], [1.0, 1.0]])
    >>> for steps in (1, 2, 3):
    ...     print(sinkhorn(x, steps=steps).sum(-1).round(4))
    [0.9011 1.0989]
    [0.989 1.011]
    [0.9988 1.0012]

    The limit is 2/3 on the diagonal, where ``4 * 1 == 2 * 2``:

    >>> sinkhorn(x).round(6)
    array([[0.666667, 0.333333],
           [0.333333, 0.666667]])
    """
    dtype, [logs] = as_floats({"x": x})
    _check_square(logs)
    with np.errstate(all="ignore"):
        *_, (_, logs) = (-1, logs), *_normalized(logs, as_integer("steps", steps, least=1))
        return result(np.exp(logs), dtype)


def sinkhorn_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, steps: int = 20) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of Sinkhorn's steps.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Cotangent :math:`\mat U = \partial L / \partial \mat P`.
    x, steps : as in `sinkhorn`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `x`
        Gradient with respect to `x`.

    Notes
    -----
    **The differential.** A half step along the rows is :math:`Z' = Z - \log \sum e^Z`, and
    :math:`P' = e^{Z'}` has rows of sum one, so

    .. math:: \dd Z'_{ij} = \dd Z_{ij} - \sum_k P'_{ik}\, \dd Z_{ik} .

    **The inner product.** With the gradient :math:`G` with respect to :math:`Z'`, the loss
    changes by

    .. math:: \dd L = \sum_{ij} G_{ij}\, \dd Z'_{ij}
       = \sum_{ij} \Bigl( G_{ij} - P'_{ij} \sum_k G_{ik} \Bigr)\, \dd Z_{ij} ,

    since :math:`\dd Z_{ij}` counts for itself, and in the sum of each entry of its row.

    **The transpose.** The factor of :math:`\dd Z_{ij}` is the gradient before the half step:

    .. math:: \pdv{L}{Z_{ij}} = G_{ij} - P'_{ij} \sum_k G_{ik} .

    It begins with :math:`G = \mat U \odot \mat P`, since :math:`P = e^Z`, and takes the half steps
    in reverse, along columns and rows by turns. All :math:`P'` are kept: two for each step.

    **In the limit** there is a way that keeps only the last one. The rows and the columns of
    :math:`P_{ij} = r_i\, e^{X_{ij}}\, c_j` are scaled by numbers whose logarithms change by some
    :math:`\alpha_i` and :math:`\beta_j`,

    .. math:: \dd P_{ij} = P_{ij} \bigl( \dd X_{ij} + \alpha_i + \beta_j \bigr) .

    These follow from sums that stay one. The sum over j and the sum over i are

    .. math:: \alpha_i + \sum_j P_{ij}\, \beta_j = -\sum_j P_{ij}\, \dd X_{ij} , \qquad
       \beta_j + \sum_i P_{ij}\, \alpha_i = -\sum_i P_{ij}\, \dd X_{ij} ,

    2n linear equations, in which a number may be moved from all :math:`\beta_j` to all
    :math:`\alpha_i`. This is the implicit function theorem. They are the ones of a projection of
    :math:`P_{ij}\, \dd X_{ij}` onto the changes without sums, orthogonal if each entry counts with
    the weight :math:`1 / P_{ij}`, so the Jacobian is symmetric. The gradient is the same map of
    :math:`\mat U`, in place of :math:`\dd \mat X`.

    Examples
    --------
    After enough steps, the gradient through them is the one by the implicit function theorem:

    >>> import numpy as np
    >>> from dlref.normalization import sinkhorn, sinkhorn_vjp
    >>> x = np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 1.0], [-1.0, 0.0, 1.0]])
    >>> u = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
    >>> through_steps = sinkhorn_vjp(u, x, steps=60)
    >>> p, one = sinkhorn(x, steps=60), np.eye(3)
    >>> system = np.block([[one, p], [p.T, one]])
    >>> sums = np.concatenate([(p * u).sum(1), (p * u).sum(0)])
    >>> alpha, beta = np.split(np.linalg.lstsq(system, -sums)[0], 2)
    >>> implicit = p * (u + alpha[:, None] + beta)
    >>> bool(np.allclose(through_steps, implicit, rtol=0, atol=1e-14))
    True
    """
    dtype, [u, z] = as_floats({"dout": dout, "x": x})
    _check_square(z)
    check_shape("dout", u, z.shape)
    with np.errstate(all="ignore"):
        halves = [(a, np.exp(y)) for a, y in _normalized(z, as_integer("steps", steps, least=1))]
        g = u * halves[-1][1] if halves else u
        for axis, p in reversed(halves):
            g = g - p * g.sum(axis, keepdims=True)
        return result(g, dtype)


def sinkhorn_jvp(primals: Any, tangents: Any, *, steps: int = 20) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of Sinkhorn's steps.

    Parameters
    ----------
    primals : array_like, shape (..., n, n)
        The scores.
    tangents : array_like, shape (..., n, n), or None
        Their tangent; None is zero.
    steps : int, default 20
        As in `sinkhorn`, which raises the same errors.

    Returns
    -------
    ndarray, shape of the scores
        Tangent of the result. Each column sums to zero, and each row nearly.

    Notes
    -----
    The half steps of :func:`sinkhorn_vjp` in their own order, and then the exponential:

    .. math:: \dot P_{ij} = P_{ij}\, \dot Z_{ij} .

    Examples
    --------
    More weight for one entry takes it from its row and its column, and gives to the entry across:

    >>> import numpy as np
    >>> from dlref.normalization import sinkhorn_jvp
    >>> sinkhorn_jvp(np.zeros((2, 2)), [[1.0, 0.0], [0.0, 0.0]])
    array([[ 0.125, -0.125],
           [-0.125,  0.125]])
    """
    dtype, [z], [v] = as_tangents(primals, tangents, count=1)
    _check_square(z)
    with np.errstate(all="ignore"):
        p = np.ones_like(z)
        for axis, logs in _normalized(z, as_integer("steps", steps, least=1)):
            p = np.exp(logs)
            v = v - (p * v).sum(axis, keepdims=True)
        return result(p * v, dtype)
