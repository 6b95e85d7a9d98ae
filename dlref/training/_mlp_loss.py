r"""The loss of a multilayer perceptron over a batch, its gradient, and its curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, choice
from .._core.pytree import as_float_trees, check_tree, filled, rounded
from ..activations import softmax_vjp
from ..activations._by_name import by_name
from ..losses import cross_entropy, cross_entropy_grad, squared_error, squared_error_grad
from ..neurons import LinearParams, linear, linear_jvp, linear_vjp, mlp, mlp_vjp

IGNORED = -100  #: as a class: the row has no loss
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


def mlp_loss_hvp(
    x: npt.ArrayLike,
    targets: npt.ArrayLike,
    params: tuple[LinearParams, ...],
    direction: tuple[LinearParams | None, ...],
    *,
    loss: str = "cross_entropy",
    activation: str = "relu",
    dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    gauss_newton: bool = False,
) -> tuple[LinearParams, ...]:
    r"""
    Hessian of the loss of a multilayer perceptron, times a direction of its parameters.

    Parameters
    ----------
    x, targets, params : as in `mlp_loss`
        Raises the same errors.
    direction : tuple of LinearParams
        The vector, in the structure of `params`; None at any place is zero.
    loss, activation, dropout : as in `mlp_loss`
        The same.
    gauss_newton : bool, default False
        Whether to leave out the curvature of the network and keep the one of the loss.

    Returns
    -------
    tuple of LinearParams
        The product with respect to each parameter; None where it is None.

    Raises
    ------
    ValueError
        If `direction` does not have the structure and the shapes of `params`.

    See Also
    --------
    dlref.neurons.mlp_vjp : The gradient, whose tangent this is.
    dlref.activations.softmax_jacobian : The Hessian of the cross-entropy by the logits.

    Notes
    -----
    The Hessian of n parameters has :math:`n^2` entries, but a product with it is the change of the
    gradient along one direction,

    .. math:: \mat H \vec v = \dv{}{t} \nabla L(\theta + t \vec v) \Big|_{t = 0} .

    So it is the tangent of each line of backpropagation. The forward pass carries the tangents of
    :func:`~dlref.neurons.mlp_jvp` along, with :math:`\vec v` as the tangent of the parameters.

    **The loss.** With the softmax :math:`\vec p` of a row, the tangent of
    :math:`\vec \delta_K = \frac1N (\vec p - \vec t)` is

    .. math:: \dot{\vec \delta}_K = \frac1N \bigl( \operatorname{diag}(\vec p)
       - \vec p\, \vec p^\top \bigr)\, \dot{\vec z}_K ,

    whatever the target is. For the squared error it is
    :math:`\frac{2}{N D_K}\, \dot{\vec z}_K`.

    **The layers.** Let :math:`\vec g_l` be the gradient of the output of layer l, and
    :math:`\mat D_l` the one of its weight, both for one row. The product rule gives

    .. math::

       \vec g_l &= \mat W_{l+1}^\top \vec \delta_{l+1} , \qquad
          \dot{\vec g}_l = \mat W_{l+1}^\top \dot{\vec \delta}_{l+1}
          + \dot{\mat W}_{l+1}^\top \vec \delta_{l+1} , \\
       \dot{\vec \delta}_l &= \vec m_l \odot \bigl( \phi'(\vec z_l) \odot \dot{\vec g}_l
          + \phi''(\vec z_l) \odot \dot{\vec z}_l \odot \vec g_l \bigr) , \\
       \dot{\mat D}_l &= \dot{\vec \delta}_l\, \vec h_{l-1}^\top
          + \vec \delta_l\, \dot{\vec h}_{l-1}^\top .

    The sums of :math:`\dot{\mat D}_l` and of :math:`\dot{\vec \delta}_l` over the rows are the
    results for the weight and the bias. All of it costs about as much as two gradients.

    **Gauss-Newton.** The terms with :math:`\vec g_l` or :math:`\vec \delta_l` come from the
    curvature of the network. The others are the curvature of the loss, seen through the network,
    and `gauss_newton` keeps these alone. They are never negative in any direction, and for the
    cross-entropy they are the Fisher information (:doc:`/curvature` has the proofs).

    References
    ----------
    - :cite:t:`Pearlmutter1994`

    Examples
    --------
    At equal logits of two classes, the second derivative by one bias is 1/4:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import mlp_loss_hvp
    >>> params = (LinearParams(np.zeros((2, 1)), np.zeros(2)),)
    >>> v = (LinearParams(np.zeros((2, 1)), np.array([1.0, 0.0])),)
    >>> [layer] = mlp_loss_hvp(np.array([[3.0]]), np.array([0]), params, v)
    >>> layer.bias
    array([ 0.25, -0.25])
    """
    value, grad = LOSSES[_checked(loss)]
    value(mlp(x, params, activation=activation, dropout=dropout), targets)  # checks the arguments
    layers = tuple(LinearParams(*layer) for layer in params)
    check_tree("direction", direction, layers)
    dtype, trees = as_float_trees({"x": x, "params": layers, "direction": direction})
    h, layers, moves = trees[0], trees[1], filled(trees[2], trees[1])
    masks = [None if m is None else np.asarray(m, h.dtype) for m in dropout or [None] * len(moves)]
    dh, tape, forms = np.zeros_like(h), [], by_name(activation)
    for layer, move, mask in zip(layers, moves, [*masks, None], strict=False):
        z, dz = linear(h, *layer), linear_jvp((h, *layer), (dh, *move))
        tape.append((layer, move, h, dh, z, dz))
        h, dh = _masked(mask, forms.map(z), forms.vjp(dz, z))
    delta, ddelta = grad(z, targets), _curvature(loss, z, dz, targets)
    products: list[LinearParams] = []
    for k, (layer, move, h, dh, _, _) in reversed([*enumerate(tape)]):
        if gauss_newton:
            delta = np.zeros_like(delta)
        dg, dweight, *dbias = linear_vjp(ddelta, h, *layer)
        more_dg, more_dweight = linear_vjp(delta, dh, move.weight)
        products.insert(0, LinearParams(dweight + more_dweight, *dbias))
        if k:
            z, dz = tape[k - 1][-2:]
            g, dg = _masked(masks[k - 1], linear_vjp(delta, h, layer.weight)[0], dg + more_dg)
            ddelta = forms.vjp(dg, z) + forms.deriv2(z) * dz * g
            delta = forms.vjp(g, z)
    return rounded(tuple(products), dtype)


def _masked(mask: FloatArray | None, *arrays: FloatArray) -> tuple[FloatArray, ...]:
    return arrays if mask is None else tuple(mask * a for a in arrays)


def _curvature(loss: str, z: FloatArray, dz: FloatArray, targets: npt.ArrayLike) -> FloatArray:
    """Return the Hessian of the loss by the outputs, times their tangent."""
    if loss == "squared_error":
        return 2 / z.size * dz
    given = np.asarray(targets)
    if given.ndim == z.ndim:
        share = given.sum(axis=-1, keepdims=True) * z.shape[-1] / z.size
    else:
        counted = given[..., None] != IGNORED
        share = counted / np.count_nonzero(counted)
    return np.asarray(share, z.dtype) * softmax_vjp(dz, z)
