r"""Muon: momentum whose steps have all singular values near 1."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import FloatArray, as_bool, as_number, choice
from .._core.pytree import as_state, displayed
from ._kernels.steps import walked
from ._newton_schulz import QUINTIC, checked_polynomial, orthogonalized


@displayed
class MuonState(NamedTuple):
    r"""
    State of :func:`muon_step`.

    Parameters
    ----------
    step : int
        Number of steps so far.
    mean : array, or tuple
        Running mean :math:`\mat M` of the gradients, in the dtype that the step is computed in:
        float32 for float32 parameters.

    See Also
    --------
    muon_step : Takes and returns it.

    Notes
    -----
    The mean starts at 0 and is not corrected for it: its size does not matter, since the step is
    divided by its norm.

    Examples
    --------
    >>> from dlref.training import MuonState, muon_step
    >>> params, state = muon_step([[1.0]], [[2.0]], None, learning_rate=0.5, momentum=0.75)
    >>> state
    MuonState(step=1, mean=array([[0.5]]))
    """

    step: int
    mean: Any


def _factor(adjust: str, rows: int, columns: int) -> float:
    """Return the factor of the learning rate of a matrix."""
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / max(columns, 1)))


def _updated(
    p: FloatArray,
    g: FloatArray,
    mean: FloatArray,
    *,
    eta: float,
    decay: float,
    mu: float,
    ahead: bool,
    adjust: str,
    polynomial: tuple[int, tuple[float, float, float], float],
) -> tuple[FloatArray, FloatArray]:
    if p.ndim != 2:
        msg = f"Argument 'params' must hold matrices, with 2 axes, not an array of shape {p.shape}."
        raise ValueError(msg)
    number = p.dtype.type
    with np.errstate(all="ignore"):
        mean = number(mu) * mean + number(1.0 - mu) * g
        blend = number(1.0 - mu) * g + number(mu) * mean if ahead else mean
        step = orthogonalized(blend, *polynomial)
        rate = number(eta * _factor(adjust, *p.shape))
        return number(1.0 - eta * decay) * p - rate * step, mean


def muon_step(
    params: Any,
    grads: Any,
    state: MuonState | None,
    *,
    learning_rate: float,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.1,
    steps: int = 5,
    coefficients: tuple[float, float, float] = QUINTIC,
    eps: float = 1e-7,
    adjust: str = "original",
) -> tuple[Any, MuonState]:
    r"""
    Step of Muon: momentum, with the singular values of the step brought near 1.

    It trains the weight matrices of the hidden layers of language models (Kimi K2, GLM-4.5), next
    to AdamW for all other parameters.

    Parameters
    ----------
    params : array_like, or tuple
        Weight matrices :math:`\mat W`, each of shape (n_out, n_in): an array, or tuples and named
        tuples of arrays, nested.
    grads : array_like, or tuple
        Gradient :math:`\mat G`, in the structure of `params`.
    state : MuonState or None
        The state that the step before returned; None starts.
    learning_rate : float
        Step size :math:`\eta \ge 0`.
    momentum : float, default 0.95
        Share :math:`\mu` of the mean that is kept, from 0 to 1.
    nesterov : bool, default True
        Whether the gradient is mixed into the mean once more, after :func:`nesterov_step`.
    weight_decay : float, default 0.1
        Share :math:`\lambda \ge 0` of the parameters that each step removes, times the learning
        rate.
    steps, coefficients, eps : as in `newton_schulz`
        Raises the same errors.
    adjust : str
        Factor r of the learning rate: ``"original"`` or ``"match_rms_adamw"``.

    Returns
    -------
    params : array, or tuple
        The parameters after the step, in their structure and dtypes.
    state : MuonState
        For the next step.

    Raises
    ------
    TypeError
        If an array is not real, `state` is not a MuonState, or an option has the wrong type.
    ValueError
        If the gradient does not have the structure and the shapes of the parameters, one of these
        is not a matrix, or an option is out of range.

    See Also
    --------
    newton_schulz : The polynomial NS.
    adamw_step : For biases, norms, embeddings and the output layer.

    Notes
    -----
    For a matrix with n rows and m columns,

    .. math::

        \mat M_t &= \mu\, \mat M_{t-1} + (1 - \mu)\, \mat G_t , \qquad
        \mat N_t = (1 - \mu)\, \mat G_t + \mu\, \mat M_t , \\
        \mat W_t &= (1 - \eta \lambda)\, \mat W_{t-1} - \eta\, r\, \operatorname{NS}(\mat N_t) ,
        \qquad r = \sqrt{\max(1, n / m)} ,

    where :math:`\operatorname{NS}(\mat N)` is close to :math:`\mat U \mat V^\top`, the product of
    the singular vectors of :math:`\mat N = \mat U\, \mat S\, \mat V^\top`: five steps bring
    singular values above 0.52 % of the norm of N to between 0.68 and 1.13, and smaller ones may
    stay small. Without `nesterov` it acts on :math:`\mat M_t`.

    **Why the singular values are removed.** A step that changes the weights by :math:`\mat O`
    changes the outputs of a layer by :math:`\mat O \vec x`, at most by the spectral norm (its
    largest singular value) :math:`\norm{\mat O}_2` times :math:`\norm{\vec x}`. Of all steps with a
    spectral norm of at most 1, the one that lowers the loss most, to first order, is

    .. math:: \min_{\norm{\mat O}_2 \le 1} \; \sum_{ij} G_{ij}\, O_{ij} = -\sum_k s_k ,
       \qquad \mat O = -\mat U \mat V^\top ,

    because :math:`\sum_{ij} G_{ij} O_{ij} = \sum_k s_k\, \vec u_k^\top \mat O\, \vec v_k` with the
    singular values and vectors of :math:`\mat G`, and no factor of :math:`s_k` is below −1. Plain
    descent is the answer for the Frobenius norm, and signs are the answer for the largest element.
    Gradients of weight matrices have a few large singular values and many small ones; plain steps
    follow the large ones, steps of Muon all alike.

    **How long the steps are.** With singular values of 1, the root mean square of the elements of
    the step is :math:`1 / \sqrt{\max(n, m)}`. The factor r is for a layer with more outputs than
    inputs. With ``"match_rms_adamw"`` it is :math:`0.2 \sqrt{\max(n, m)}`, and the root mean square
    is 0.2, as is common with AdamW, so that learning rate and weight decay of AdamW serve
    :cite:p:`LiuMuon2025`.

    **Conventions.** As ``torch.optim.Muon``, whose mean has the factor :math:`1 - \mu` before the
    gradient; the algorithm of Jordan's post, without it, takes the same steps, as the size of
    :math:`\mat N` cancels. PyTorch computes the polynomial in bfloat16 and so differs by one or two
    percent. Reshape the kernel of a convolution to (n_out, the rest) first.

    **QK-Clip.** Steps of the same length in all directions let the scores of attention grow, as
    nothing holds the norms of the weights of queries and keys. Kimi K2 clips them after each step
    (MuonClip): if the largest score of a head in the batch exceeds a threshold, both of its weights
    are multiplied by the root of their ratio. A score is a product of a query and a key, so it is
    multiplied by the ratio, and the largest one is at the threshold again. Where heads share a part
    of the keys, as in latent attention, the ratio itself goes to the queries of that part.

    **Memory.** The state is one array of the size of the parameters; Adam has two.

    References
    ----------
    - :cite:t:`JordanMuon2024`
    - QK-Clip: :cite:t:`KimiK22025`
    - The norm of a step: :cite:t:`BernsteinNewhouse2024`

    Examples
    --------
    A gradient with the singular values 100 and 5 gives a step with both near 1:

    >>> import numpy as np
    >>> from dlref.training import muon_step
    >>> w, state = muon_step(np.zeros((2, 2)), np.diag([100.0, 5.0]), None, learning_rate=1.0)
    >>> w.round(2)
    array([[-0.7 ,  0.  ],
           [ 0.  , -0.76]])

    The scale of the loss cancels:

    >>> w, state = muon_step(np.zeros((2, 2)), np.diag([1e-3, 5e-5]), None, learning_rate=1.0)
    >>> w.round(2)
    array([[-0.7 ,  0.  ],
           [ 0.  , -0.76]])

    QK-Clip with the threshold 8, of a head whose largest score is 32:

    >>> x, w_q, w_k = np.eye(2), np.diag([8.0, 1.0]), np.diag([4.0, 1.0])
    >>> ratio = min(1.0, 8 / np.max((x @ w_q.T) @ (x @ w_k.T).T))
    >>> w_q, w_k = ratio**0.5 * w_q, ratio**0.5 * w_k
    >>> (x @ w_q.T) @ (x @ w_k.T).T
    array([[8.  , 0.  ],
           [0.  , 0.25]])
    """
    eta = as_number("learning_rate", learning_rate, least=0)
    choice("adjust", adjust, ("original", "match_rms_adamw"))
    moved = partial(
        _updated,
        eta=eta,
        decay=as_number("weight_decay", weight_decay, least=0),
        mu=as_number("momentum", momentum, least=0, most=1),
        ahead=as_bool("nesterov", nesterov),
        adjust=adjust,
        polynomial=checked_polynomial(steps, coefficients, eps),
    )
    step, mean = as_state(MuonState, state)
    params, mean = walked(moved, params, grads, (mean,))
    return params, MuonState(step + 1, mean)
