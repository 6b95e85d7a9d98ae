r"""Adafactor: mean squares of rows and columns in place of a mean square for each weight."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import FloatArray, as_number
from .._core.pytree import as_state, displayed
from .._core.threads import as_carray, over_rows
from ._kernels.factored import BAND, directions, move, sums_of_squares
from ._kernels.steps import COST, walked


@displayed
class AdafactorState(NamedTuple):
    r"""
    State of :func:`adafactor_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    row, column : array, tuple or None
        Running means of the squared gradients over the columns and over the rows, of shapes
        (..., n, 1) and (..., 1, m); None for a vector or a number.
    square : array, tuple or None
        Running mean of the squared gradients of a vector or a number; None for a matrix.

    See Also
    --------
    adafactor_step : Takes and returns it.

    Notes
    -----
    They are in the dtype that the step is computed in: float32 for float32 parameters.

    Examples
    --------
    >>> from dlref.training import AdafactorState, adafactor_step
    >>> _, state = adafactor_step([[1.0, 2.0]], [[2.0, 4.0]], None, learning_rate=0.5)
    >>> state
    AdafactorState(step=1, row=array([[10.]]), column=array([[ 4., 16.]]), square=None)
    """

    step: int
    row: Any
    column: Any
    square: Any


def _row_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return (*shape[:-1], 1) if len(shape) > 1 else None


def _column_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return (*shape[:-2], 1, shape[-1]) if len(shape) > 1 else None


def _square_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return shape if len(shape) < 2 else None


SHAPES = (_row_shape, _column_shape, _square_shape)


def _updated(
    p: FloatArray,
    g: FloatArray,
    row: FloatArray | None,
    column: FloatArray | None,
    square: FloatArray | None,
    *,
    share: float,
    rate: float,
    keep: float,
    eps: tuple[float | None, float],
    d: float,
) -> tuple[FloatArray | None, ...]:
    if p.size == 0:
        return p.copy(), row, column, square
    number = p.dtype.type
    least = np.finfo(p.dtype).eps if eps[0] is None else number(eps[0])

    def mean(old: Any, new: FloatArray) -> Any:
        return old + number(share) * (new.astype(p.dtype) - old)

    m = p.shape[-1] if p.ndim else 1
    n = p.shape[-2] if p.ndim > 1 else 1
    p3, g3 = (as_carray(a).reshape(-1, n, m) for a in (p, g))
    with np.errstate(all="ignore"):
        if row is None or column is None:
            square = np.asarray(mean(square, np.square(g)))
            of_rows, of_columns = np.ones((1, 1), p.dtype), square
        else:
            rows, columns = _mean_squares(g3)
            row, column = (
                mean(row, rows.reshape(row.shape)),
                mean(column, columns.reshape(column.shape)),
            )
            of_rows, of_columns = row / np.maximum(row.mean(-2, keepdims=True), least), column
        out, squares = np.empty_like(p3), np.empty((len(p3) * n, 2))
        factors = as_carray(of_rows).reshape(-1, n), as_carray(of_columns).reshape(-1, m)
        over_rows(directions, len(squares), COST * m, p3, g3, *factors, least * least, out, squares)
        size, length = np.sqrt(squares.sum(0) / p.size)
        factor = rate * max(eps[1], size) / max(1.0, length / d)
        over_rows(move, p.size, COST, p3.reshape(-1), number(keep), number(factor), out.reshape(-1))
    return out.reshape(p.shape), row, column, square


def _mean_squares(g: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean squares of the rows and of the columns of a stack of matrices."""
    matrices, n, m = g.shape
    bands = -(-n // BAND)
    rows, columns = np.empty((matrices, n)), np.zeros((matrices, bands, m))
    over_rows(sums_of_squares, matrices * bands, COST * BAND * m, g, rows, columns)
    return rows / m, columns.sum(1) / n


def adafactor_step(
    params: Any,
    grads: Any,
    state: AdafactorState | None,
    *,
    learning_rate: float,
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: float = 0.0,
) -> tuple[Any, AdafactorState]:
    r"""
    Step of Adafactor: a divisor of rows and columns, and steps relative to the weights.

    It trained T5 and PaLM. Its state for a matrix is a row and a column, where Adam has two
    matrices.

    Parameters
    ----------
    params : array_like, or tuple
        Parameters :math:`\mat W`: an array, or tuples and named tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\mat G`, in the structure of `params`.
    state : AdafactorState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Largest relative step :math:`\eta \ge 0`: a share of the root mean square of the weights.
    beta2_decay : float
        Exponent :math:`\gamma \le 0`: step t counts :math:`t^\gamma` in the mean squares.
    eps : tuple of float or None, and float
        Least root :math:`\epsilon_1 \ge 0` of a mean square, where None is the machine epsilon of
        the dtype, and least root mean square :math:`\epsilon_2 \ge 0` of the weights.
    d : float
        Root mean square, greater than 0, to which longer steps are shortened.
    weight_decay : float
        Rate :math:`\lambda \ge 0` of the decay: each step removes the share :math:`\eta \lambda`
        of the parameters.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : AdafactorState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not an AdafactorState, `eps` is not a pair, or an option
        is not a number.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, or an option
        is out of range.

    See Also
    --------
    adam_step : Keeps a mean square for each weight.
    muon_step : Another step for matrices.

    Notes
    -----
    For a matrix with n rows and m columns, and with :math:`\operatorname{rms}` for the root mean
    square of all elements, step t is

    .. math::

        r_i &\leftarrow (1 - t^\gamma)\, r_i + t^\gamma\, \frac1m \sum_j G_{ij}^2 , \qquad
        c_j \leftarrow (1 - t^\gamma)\, c_j + t^\gamma\, \frac1n \sum_i G_{ij}^2 , \\
        V_{ij} &= \frac{r_i\, c_j}{\max(\frac1n \sum_k r_k, \epsilon_1)} , \qquad
        D_{ij} = \frac{G_{ij}}{\max(\sqrt{V_{ij}}, \epsilon_1)} , \\
        \mat W &\leftarrow (1 - \eta \lambda)\, \mat W
        - \min\Bigl(\eta, \tfrac{1}{\sqrt t}\Bigr)
        \frac{\max(\operatorname{rms}(\mat W), \epsilon_2)}{\max(1, \operatorname{rms}(\mat D) / d)}
        \, \mat D .

    A vector keeps a mean square of each element, and V is this mean. An array of more axes is a
    stack of matrices in its last two, and its root mean squares are over all of it.

    **Why a row times a column.** Of all matrices :math:`r_i\, c_j`, the one nearest to a positive
    matrix :math:`\mat S` in the generalized Kullback-Leibler divergence :math:`\sum_{ij} \bigl(
    S_{ij} \log (S_{ij} / (r_i c_j)) - S_{ij} + r_i c_j \bigr)` has no slope in :math:`r_i`,

    .. math:: \sum_j \Bigl( c_j - \frac{S_{ij}}{r_i} \Bigr) = 0 , \qquad
       r_i = \frac{\sum_j S_{ij}}{\sum_j c_j} ,

    and likewise in :math:`c_j`. The product of both is

    .. math:: r_i\, c_j = \frac{\sum_l S_{il} \sum_k S_{kj}}{\sum_{kl} S_{kl}} ,

    since the sum of all :math:`r_i c_j` is the sum of all :math:`S_{ij}`. With means in place of
    sums it is the :math:`V_{ij}` above. Sums of rows are linear, so the sums of a running mean of
    :math:`\mat G \odot \mat G` are running means of sums, and the matrix itself is never needed.
    It is exact where the squares have rank one.

    **Why no correction of the start.** Step 1 counts :math:`1^\gamma = 1`: nothing remains of the
    zeros. With :math:`\gamma = -1` all steps so far count alike; with the default, newer ones count
    more, and the mean looks back over :math:`t^{0.8}` steps.

    **How long the steps are.** Where gradients suddenly grow, V lags behind and D is long; such a
    step is shortened to the root mean square d. The rest is relative: the root mean square of a
    step is at most :math:`\eta` times the one of the weights, so one learning rate serves layers of
    all scales.

    **Conventions.** As ``torch.optim.Adafactor``. In the paper :math:`\epsilon_1 = 10^{-30}` is
    added to the squares of the gradient. Other versions also keep a mean of the gradients (a
    :math:`\beta_1`), or take a learning rate that is not relative; this one does not.

    **Memory.** n + m numbers for a matrix, and one for each element of a vector.

    **Special values.** Squares that overflow (gradients from 1e154 in float64 or 1e19 in float32
    on) make their rows and columns infinite, and with :math:`\epsilon_1 = 0` a row of zeros gives
    NaN.

    References
    ----------
    - :cite:t:`ShazeerStern2018`

    Examples
    --------
    The squares of this gradient are a row times a column, so each weight moves alike: by the
    learning rate times the root mean square of the weights, which is 4:

    >>> import numpy as np
    >>> from dlref.training import adafactor_step
    >>> w, g = np.full((2, 2), 4.0), np.array([[1.0, -10.0], [100.0, 1000.0]])
    >>> moved, state = adafactor_step(w, g, None, learning_rate=0.125)
    >>> moved
    array([[3.5, 4.5],
           [3.5, 3.5]])
    >>> state.row, state.column
    (array([[5.05e+01],
           [5.05e+05]]), array([[  5000.5, 500050. ]]))

    Where they are not, one gradient counts for its row and its column:

    >>> moved, _ = adafactor_step(w, np.array([[1.0, 0.0], [0.0, 0.0]]), None, learning_rate=0.125)
    >>> w - moved
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    gamma = as_number("beta2_decay", beta2_decay, above=-math.inf, most=0)
    least = _checked_eps(eps)
    threshold = as_number("d", d, above=0)
    decay = as_number("weight_decay", weight_decay, least=0)
    step, *slots = as_state(AdafactorState, state)
    step += 1
    moved = partial(
        _updated,
        share=step**gamma,
        rate=min(eta, step**-0.5),
        keep=1.0 - eta * decay,
        eps=least,
        d=threshold,
    )
    params, *slots = walked(moved, params, grads, tuple(slots), shapes=SHAPES)
    return params, AdafactorState(step, *slots)


def _checked_eps(eps: Any) -> tuple[float | None, float]:
    if not isinstance(eps, tuple | list) or len(eps) != 2:
        msg = f"Argument 'eps' must be a tuple of 2 numbers, not {eps!r}."
        raise TypeError(msg)
    first = None if eps[0] is None else as_number("eps[0]", eps[0], least=0)
    return first, as_number("eps[1]", eps[1], least=0)
