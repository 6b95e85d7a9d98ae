r"""The loss of a multilayer perceptron over a batch, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._core.arguments import FloatArray, choice
from ..losses import cross_entropy, cross_entropy_grad, squared_error, squared_error_grad
from ..neurons import mlp, mlp_vjp

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ..neurons import LinearParams

__all__ = ["mlp_loss", "mlp_loss_grad", "mlp_loss_value_and_grad"]

#: Losses and their gradients.
LOSSES: dict[str, tuple[Callable[..., FloatArray], Callable[..., Any]]] = {
    "cross_entropy": (cross_entropy, cross_entropy_grad),
    "squared_error": (squared_error, squared_error_grad),
}


def mlp_loss(
    x: npt.ArrayLike,
    targets: npt.ArrayLike,
    params: tuple[LinearParams, ...],
    *,
    loss: str = "cross_entropy",
    activation: str = "relu",
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
) -> FloatArray:
    r"""
    Mean loss of a multilayer perceptron over a batch.

    Parameters
    ----------
    x : array_like, shape (..., D_0)
        Inputs, one in each row.
    targets : array_like
        Classes (...,) or distributions (..., D_K) for "cross_entropy", values (..., D_K) for
        "squared_error".
    params : tuple of LinearParams
        Parameters of the layers.
    loss : {"cross_entropy", "squared_error"}
        Loss that compares the outputs with the targets; cross-entropy takes the outputs as logits.
    activation, dropout : as in `mlp`
        The same.

    Returns
    -------
    scalar
        Mean loss.

    Raises
    ------
    TypeError
        If an array is not real, or `params` is not a tuple of layers.
    ValueError
        If a shape does not fit, a class is out of range, or an option is unknown.

    See Also
    --------
    dlref.neurons.mlp : The network.
    minibatch_descent : Training with it.
    dlref.losses.cross_entropy, dlref.losses.squared_error : The losses.

    Notes
    -----
    .. math:: L(\theta) = \frac{1}{N} \sum_{n=1}^{N}
        \ell\bigl(\operatorname{mlp}(\vec x_n; \theta), t_n\bigr) .

    For "squared_error" the mean is over all N D_K elements.

    Examples
    --------
    Equal logits of two classes cost log 2:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import mlp_loss
    >>> params = (LinearParams(np.zeros((2, 3))),)
    >>> float(mlp_loss(np.ones((5, 3)), [0, 1, 1, 0, 1], params)), np.log(2)
    (0.6931471805599453, np.float64(0.6931471805599453))
    """
    value, _ = LOSSES[_checked(loss)]
    return value(mlp(x, params, activation=activation, dropout=dropout), targets)


def _checked(loss: str) -> str:
    choice("loss", loss, (*LOSSES,))
    return loss


def mlp_loss_value_and_grad(
    x: npt.ArrayLike,
    targets: npt.ArrayLike,
    params: tuple[LinearParams, ...],
    *,
    loss: str = "cross_entropy",
    activation: str = "relu",
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
) -> tuple[FloatArray, tuple[LinearParams, ...]]:
    r"""
    Mean loss of a multilayer perceptron over a batch, and its gradient.

    Parameters
    ----------
    x, targets, params, loss, activation, dropout : as in `mlp_loss`
        Raises the same errors.

    Returns
    -------
    value : scalar
        Mean loss.
    dparams : tuple of LinearParams
        Gradient with respect to each parameter; None where it is None.

    Notes
    -----
    The loss gives the cotangent of the outputs; :func:`~dlref.neurons.mlp_vjp` needs nothing else
    from it. For the cross-entropy of logits, with the softmax :math:`\vec p_n` and the one-hot
    target :math:`\vec t_n`,

    .. math:: \vec \delta_K^{(n)} = \frac{1}{N} (\vec p_n - \vec t_n) ,

    and for the squared error of values :math:`\frac{2}{N D_K} (\vec z_K - \vec t_n)`.

    Examples
    --------
    The gradients of the biases of all classes add up to 0:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import mlp_loss_value_and_grad
    >>> params = (LinearParams(np.zeros((2, 3)), np.zeros(2)),)
    >>> value, [layer] = mlp_loss_value_and_grad(np.ones((4, 3)), [0, 1, 1, 1], params)
    >>> layer.bias
    array([ 0.25, -0.25])
    """
    value, grad = LOSSES[_checked(loss)]
    out = mlp(x, params, activation=activation, dropout=dropout)
    _, dparams = mlp_vjp(grad(out, targets), x, params, activation=activation, dropout=dropout)
    return value(out, targets), dparams


def mlp_loss_grad(
    x: npt.ArrayLike,
    targets: npt.ArrayLike,
    params: tuple[LinearParams, ...],
    *,
    loss: str = "cross_entropy",
    activation: str = "relu",
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
) -> tuple[LinearParams, ...]:
    r"""
    Gradient of the mean loss of a multilayer perceptron over a batch.

    Parameters
    ----------
    x, targets, params, loss, activation, dropout : as in `mlp_loss`
        Raises the same errors.

    Returns
    -------
    tuple of LinearParams
        Gradient with respect to each parameter; None where it is None.

    Notes
    -----
    The second result of :func:`mlp_loss_value_and_grad`. For each layer l,

    .. math::

       \pdv{L}{\mat W_l} = \sum_n \vec \delta_l^{(n)} \bigl( \vec h_{l-1}^{(n)} \bigr)^\top , \qquad
       \pdv{L}{\vec b_l} = \sum_n \vec \delta_l^{(n)} ,

    with the input :math:`\vec h_{l-1}` of the layer and the :math:`\vec \delta_l` that
    :func:`~dlref.neurons.mlp_vjp` derives.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import mlp_loss_grad
    >>> params = (LinearParams(np.zeros((1, 1)), np.zeros(1)),)
    >>> mlp_loss_grad([[2.0]], [[3.0]], params, loss="squared_error")
    (LinearParams(weight=array([[-12.]]), bias=array([-6.])),)
    """
    return mlp_loss_value_and_grad(
        x, targets, params, loss=loss, activation=activation, dropout=dropout
    )[1]
