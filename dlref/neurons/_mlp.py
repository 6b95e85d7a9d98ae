r"""The multilayer perceptron: dense layers and activations, forward and backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, check_axes, check_broadcast, check_ndim, check_shape
from .._core.pytree import as_float_trees, as_tree_tangents, displayed, rounded, shaped_like
from .._math.dense import affine, affine_jvp, affine_vjp
from ..activations._by_name import Forms, by_name


@displayed
class LinearParams(NamedTuple):
    r"""
    Parameters of a dense layer.

    Parameters
    ----------
    weight : ndarray, shape (n_out, n_in)
        Weights, one row for each output.
    bias : ndarray or None, shape (n_out,)
        Biases; None leaves them out.

    See Also
    --------
    mlp : Takes one for each layer.
    linear : A single layer.

    Notes
    -----
    Names and layout are the same as in PyTorch's ``nn.Linear``.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> LinearParams(np.ones((1, 2)))
    LinearParams(weight=array([[1., 1.]]), bias=None)
    """

    weight: FloatArray
    bias: FloatArray | None = None


Params = tuple[LinearParams, ...]
Masks = tuple[npt.ArrayLike | None, ...]


def mlp(
    x: npt.ArrayLike,
    params: Params,
    *,
    activation: str = "relu",
    dropout: Masks | None = None,
) -> FloatArray:
    r"""
    Multilayer perceptron: K dense layers with an activation between them.

    Parameters
    ----------
    x : array_like, shape (..., D_0)
        Inputs, one in each row.
    params : tuple of LinearParams
        Weights :math:`\mat W_l` (D_l, D_{l−1}) and biases of K layers, at least one.
    activation : str, default "relu"
        Name of a function of :mod:`dlref.activations`, or "identity". It follows every layer but
        the last.
    dropout : tuple of array_like or None
        A factor for the output of each of the K − 1 hidden layers, from
        :func:`dlref.transformer.dropout_mask`, or None. It broadcasts to (..., D_l).

    Returns
    -------
    ndarray, shape (..., D_K)
        Outputs :math:`\vec z_K` of the last layer, without an activation: logits of a
        classifier, values of a regression.

    Raises
    ------
    TypeError
        If an array is not real, or `params` is not a tuple of layers.
    ValueError
        If widths of neighboring layers differ, or `activation` or the number of masks is wrong.

    See Also
    --------
    mlp_vjp : Backpropagation, derived.
    mlp_deltas : The gradient layer by layer.
    linear : One layer.
    dlref.training.mlp_loss_value_and_grad : A loss of it, to train with.

    Notes
    -----
    With :math:`\vec h_0 = \vec x`, the layers l = 1 to K compute

    .. math::

        \vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad
        \vec h_l = \vec m_l \odot \phi(\vec z_l) ,

    and the result is :math:`\vec z_K`, without an activation. The factor :math:`\vec m_l` is the
    mask of :func:`dropout <dlref.neurons.dropout>`; without dropout it is 1. Without :math:`\phi`
    all layers would be one, of the weight :math:`\mat W_K \cdots \mat W_1`.

    **Numerics.** Products of matrices are computed in the dtype of the arguments.

    References
    ----------
    - :cite:t:`Rumelhart1986`

    Examples
    --------
    Two hidden neurons compute XOR, which a single layer cannot:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams, mlp
    >>> hidden = LinearParams(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0.0, -1.0]))
    >>> out = LinearParams(np.array([[1.0, -2.0]]))
    >>> mlp([[0, 0], [0, 1], [1, 0], [1, 1]], (hidden, out))
    array([[0.],
           [1.],
           [1.],
           [0.]])
    """
    forms = by_name(activation)
    dtype, [a, p] = as_float_trees({"x": x, "params": _as_layers("params", params)})
    masks = _check("", a, p, dropout)
    return rounded(_forward(a, p, forms, masks)[1][-1], dtype)


def _as_layers(name: str, params: Any) -> Params:
    if not isinstance(params, tuple | list) or isinstance(params, LinearParams) or not params:
        msg = f"Argument {name!r} must be a tuple of LinearParams, one for each layer."
        raise TypeError(msg)
    return tuple(shaped_like(LinearParams, f"{name}[{i}]", p) for i, p in enumerate(params))


def _check(prefix: str, x: FloatArray, params: Params, dropout: Any) -> list[FloatArray | None]:
    """Raise unless the layers fit each other; return the masks."""
    check_ndim(f"{prefix}x", x, 1)
    width = x.shape[-1]
    for i, (w, b) in enumerate(params):
        name = f"{prefix}params[{i}]"
        check_axes(f"{name}.weight", w, 2)
        check_shape(f"{name}.weight", w, (len(w), width))
        if b is not None:
            check_shape(f"{name}.bias", b, (len(w),))
        width = len(w)
    hidden = len(params) - 1
    if dropout is None:
        return [None] * hidden
    if not isinstance(dropout, tuple | list) or len(dropout) != hidden:
        msg = f"Argument 'dropout' must be a tuple of {hidden} arrays or None, one a hidden layer."
        raise ValueError(msg)
    for i, mask in enumerate(dropout):
        if mask is not None:
            shape = (*x.shape[:-1], len(params[i].weight))
            check_broadcast(f"dropout[{i}]", np.shape(mask), shape)
    return [None if mask is None else np.asarray(mask, x.dtype) for mask in dropout]


def _forward(
    x: FloatArray, params: Params, forms: Forms, masks: Sequence[FloatArray | None]
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the inputs of all layers, and their pre-activations."""
    inputs, zs = [x], [affine(x, *params[0])]
    for p, mask in zip(params[1:], masks, strict=True):
        h = forms.map(zs[-1])
        inputs.append(h if mask is None else h * mask)
        zs.append(affine(inputs[-1], *p))
    return inputs, zs


def _deltas(
    dout: FloatArray,
    zs: list[FloatArray],
    params: Params,
    forms: Forms,
    masks: Sequence[FloatArray | None],
) -> list[FloatArray]:
    """Return the gradient with respect to the pre-activation of each layer."""
    deltas = [dout]
    for z, mask, p in zip(zs[-2::-1], masks[::-1], params[:0:-1], strict=True):
        dh = affine(deltas[0], p.weight.T)
        deltas.insert(0, forms.vjp(dh if mask is None else dh * mask, z))
    return deltas


def mlp_deltas(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: Params,
    *,
    activation: str = "relu",
    dropout: Masks | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Gradient with respect to the pre-activation of each layer of a multilayer perceptron.

    Parameters
    ----------
    dout : array_like, shape (..., D_K)
        Cotangent :math:`\vec u = \partial L / \partial \vec z_K` of the output.
    x, params, activation, dropout : as in `mlp`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray, shape (..., D_l)
        :math:`\vec \delta_l = \partial L / \partial \vec z_l` for l = 1 to K.

    See Also
    --------
    mlp_vjp : The gradients of the parameters, which are made of these; with the derivation.
    dlref.propagation.signal_propagation : How large they are in the mean, predicted.

    Notes
    -----
    .. math::

        \vec \delta_K = \vec u , \qquad
        \vec \delta_l = \phi'(\vec z_l) \odot \vec m_l \odot \mat W_{l+1}^\top \vec \delta_{l+1} .

    **Vanishing gradients.** The backward pass multiplies, for each layer, by a matrix and by
    slopes. With the spectral norm :math:`\sigma_l` of :math:`\mat W_l`, the largest factor by which
    it stretches a vector, slopes of at most :math:`s` in size and no dropout,

    .. math:: \norm{\vec \delta_1} \le s^{K-1} \prod_{l=2}^{K} \sigma_l \; \norm{\vec \delta_K} .

    The slope of the sigmoid is at most 1/4. Ten layers whose weights have norm 1 leave at most
    :math:`4^{-9}`, 4 millionths, of the gradient to the first.

    Examples
    --------
    A chain of five sigmoids of weight 1. Each passes at most a quarter of the gradient:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams, mlp_deltas
    >>> chain = (LinearParams(np.ones((1, 1))),) * 5
    >>> deltas = mlp_deltas([1.0], [0.0], chain, activation="sigmoid")
    >>> np.concatenate(deltas).round(4)
    array([0.003 , 0.012 , 0.0512, 0.2253, 1. ])
    """
    forms = by_name(activation)
    trees = {"dout": dout, "x": x, "params": _as_layers("params", params)}
    dtype, [u, a, p] = as_float_trees(trees)
    masks = _check("", a, p, dropout)
    check_shape("dout", u, (*a.shape[:-1], len(p[-1].weight)))
    _, zs = _forward(a, p, forms, masks)
    deltas = _deltas(u.copy(), zs, p, forms, masks)
    return rounded(tuple(deltas), dtype)


def mlp_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: Params,
    *,
    activation: str = "relu",
    dropout: Masks | None = None,
) -> tuple[FloatArray, Params]:
    r"""
    Vector-Jacobian product (reverse mode) of a multilayer perceptron: backpropagation.

    Parameters
    ----------
    dout : array_like, shape (..., D_K)
        Cotangent :math:`\vec u = \partial L / \partial \vec z_K` of the output.
    x, params, activation, dropout : as in `mlp`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D_0)
        Gradient with respect to `x`.
    dparams : tuple of LinearParams
        Gradients of all weights and biases, summed over the rows of `x`; None where there is none.

    Notes
    -----
    **The differential.** Layer l has :math:`\vec h_l = \vec m_l \odot \phi(\vec z_l)`, so

    .. math:: \dd \vec z_l = \mat W_l\, \dd \vec h_{l-1} + \dd \mat W_l\, \vec h_{l-1}
       + \dd \vec b_l , \qquad \dd \vec h_l = \vec m_l \odot \phi'(\vec z_l) \odot \dd \vec z_l .

    **The inner product.** :math:`\dd L = \vec u \cdot \dd \vec z_K` for the loss L, summed over the
    rows. Write :math:`\vec \delta_l = \partial L / \partial \vec z_l`, a column.

    **The transpose.** From the last layer to the first one:

    1. **Last layer.** The output is :math:`\vec z_K`, so :math:`\vec \delta_K = \vec u`.
    2. **The layer below.** :math:`\vec z_{l+1}` depends on :math:`\vec z_l` through
       :math:`\vec h_l` alone. The Jacobians of the two steps are

       .. math::

           \pdv{\vec h_l}{\vec z_l} = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l)) , \qquad
           \pdv{\vec z_{l+1}}{\vec h_l} = \mat W_{l+1} ,

       the first diagonal, since each neuron has an activation of its own.
    3. **Chain rule.** A gradient is multiplied by the transposed Jacobians, the later one first:

       .. math::

           \vec \delta_l = \operatorname{diag}(\vec m_l \odot \phi'(\vec z_l))\,
               \mat W_{l+1}^\top \vec \delta_{l+1}
           = \vec m_l \odot \phi'(\vec z_l) \odot \mat W_{l+1}^\top \vec \delta_{l+1} .

    4. **Parameters.** Since :math:`z_{l,i} = \sum_j W_{l,ij} h_{l-1,j} + b_{l,i}`,

       .. math::

           \pdv{L}{\mat W_l} = \sum_{\text{rows}} \vec \delta_l \vec h_{l-1}^\top , \qquad
           \pdv{L}{\vec b_l} = \sum_{\text{rows}} \vec \delta_l , \qquad
           \pdv{L}{\vec x} = \mat W_1^\top \vec \delta_1 .

    The forward pass keeps :math:`\vec z_l` and :math:`\vec h_l`. The backward pass takes two
    products where the forward pass takes one, so a gradient of *all* parameters costs about three
    forward passes, however many there are. One difference quotient per parameter would cost one
    forward pass each.

    References
    ----------
    - :cite:t:`Rumelhart1986`

    Examples
    --------
    Backpropagation by hand, for two layers and the ReLU:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams, mlp_vjp
    >>> W1, W2 = np.array([[1.0, 2.0], [-1.0, 1.0]]), np.array([[3.0, 5.0]])
    >>> x, u = np.array([1.0, 1.0]), np.array([1.0])
    >>> z1 = W1 @ x  # 3 and 0: the second neuron is inactive
    >>> delta1 = (z1 > 0) * (W2.T @ u)
    >>> delta1
    array([3., 0.])
    >>> dx, dparams = mlp_vjp(u, x, (LinearParams(W1), LinearParams(W2)))
    >>> bool(np.all(dparams[0].weight == np.outer(delta1, x)) and np.all(dx == W1.T @ delta1))
    True
    """
    forms = by_name(activation)
    trees = {"dout": dout, "x": x, "params": _as_layers("params", params)}
    dtype, [u, a, p] = as_float_trees(trees)
    masks = _check("", a, p, dropout)
    check_shape("dout", u, (*a.shape[:-1], len(p[-1].weight)))
    inputs, zs = _forward(a, p, forms, masks)
    deltas = _deltas(u, zs, p, forms, masks)
    grads = [affine_vjp(d, h, *layer) for d, h, layer in zip(deltas, inputs, p, strict=True)]
    dparams = tuple(LinearParams(dw, db) for _, dw, db in grads)
    return rounded((grads[0][0], dparams), dtype)


def mlp_jvp(
    primals: Any, tangents: Any, *, activation: str = "relu", dropout: Masks | None = None
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a multilayer perceptron.

    Parameters
    ----------
    primals : tuple (x, params)
        Inputs (..., D_0) and a tuple of :class:`LinearParams`.
    tangents : tuple (dx, dparams)
        Directions in the same structure; None at any place is zero.
    activation, dropout : as in `mlp`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D_K)
        Tangent of the output.

    Notes
    -----
    Values and tangents are computed together, layer by layer. By the product rule and the chain
    rule, from :math:`\dot{\vec h}_0 = \dot{\vec x}` on,

    .. math::

        \dot{\vec z}_l = \dot{\mat W}_l \vec h_{l-1} + \mat W_l \dot{\vec h}_{l-1}
            + \dot{\vec b}_l , \qquad
        \dot{\vec h}_l = \vec m_l \odot \phi'(\vec z_l) \odot \dot{\vec z}_l .

    One pass gives the change along one direction; the reverse mode gives all partial derivatives
    of one number.

    Examples
    --------
    Where the ReLU is active, the tangent of the output is W2 W1 v:

    >>> import numpy as np
    >>> from dlref.neurons import LinearParams, mlp_jvp
    >>> W1, W2 = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[3.0, 5.0]])
    >>> v = np.array([1.0, 0.0])
    >>> params = LinearParams(W1), LinearParams(W2)
    >>> mlp_jvp((np.ones(2), params), (v, None)), W2 @ W1 @ v
    (array([13.]), array([13.]))
    """
    forms = by_name(activation)
    dtype, [x, p], [v, dp] = as_tree_tangents(("x", "params"), primals, tangents)
    p = _as_layers("primals.params", p)
    masks = _check("primals.", x, p, dropout)
    inputs, zs = _forward(x, p, forms, masks)
    dz = affine_jvp((x, *p[0]), (v, *dp[0]))
    for h, z, mask, layer, moves in zip(inputs[1:], zs, masks, p[1:], dp[1:], strict=False):
        dh = forms.vjp(dz, z) if mask is None else forms.vjp(dz, z) * mask
        dz = affine_jvp((h, *layer), (dh, *moves))
    return rounded(dz, dtype)
