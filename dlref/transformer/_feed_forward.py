r"""Position-wise feed-forward networks, plain and gated: half of every block."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, check_axes, check_ndim, check_shape
from .._core.pytree import as_float_trees, as_tree_tangents, rounded
from .._math.dense import affine, affine_jvp, affine_vjp
from ..activations._by_name import by_name
from ._params import FeedForwardParams, GatedFeedForwardParams
from ._structure import as_network

GATED = {"glu": "sigmoid", "bilinear": "identity"}  # names of gates, and their activations
GATED |= {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu"}
Kind = TypeVar("Kind")
Params = FeedForwardParams | GatedFeedForwardParams
Pullback = Any  # a function from a cotangent to the cotangents of the inputs


# Private functions compute in the dtype they are given and check nothing. `network_forward` returns
# the output and a pullback, which turns its cotangent into the cotangents of the input and
# the parameters; intermediate results that it needs are kept, so that nothing in a model is
# computed twice.


@np.errstate(all="ignore")
def network_forward(x: FloatArray, p: Params, activation: str) -> tuple[FloatArray, Pullback]:
    """Run either kind of network."""
    f, _, vjp, _ = by_name(activation)
    if isinstance(p, FeedForwardParams):
        a = affine(x, p.w1, p.b1)
        h = f(a)

        def pullback(u: FloatArray) -> tuple[FloatArray, Params]:
            dh, dw2, db2 = affine_vjp(u, h, p.w2, p.b2)
            dx, dw1, db1 = affine_vjp(vjp(dh, a), x, p.w1, p.b1)
            return dx, FeedForwardParams(dw1, db1, dw2, db2)

        return affine(h, p.w2, p.b2), pullback
    gate, up = affine(x, p.w_gate, p.b_gate), affine(x, p.w_up, p.b_up)
    opened = f(gate)
    product = opened * up

    @np.errstate(all="ignore")
    def pullback_gated(u: FloatArray) -> tuple[FloatArray, Params]:
        dh, dw_down, db_down = affine_vjp(u, product, p.w_down, p.b_down)
        dx, dw_up, db_up = affine_vjp(dh * opened, x, p.w_up, p.b_up)
        dx_gate, dw_gate, db_gate = affine_vjp(vjp(dh * up, gate), x, p.w_gate, p.b_gate)
        grads = GatedFeedForwardParams(dw_gate, dw_up, dw_down, db_gate, db_up, db_down)
        return dx + dx_gate, grads

    return affine(product, p.w_down, p.b_down), pullback_gated


def affine_tangent(
    x: FloatArray,
    v: FloatArray,
    w: FloatArray,
    dw: FloatArray,
    b: FloatArray | None = None,
    db: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return an affine map and its tangent."""
    return affine(x, w, b), affine_jvp((x, w, b), (v, dw, db))


@np.errstate(all="ignore")
def network_tangent(
    x: FloatArray, v: FloatArray, p: Params, dp: Any, activation: str
) -> tuple[FloatArray, FloatArray]:
    """Run either kind of network with a tangent."""
    f, _, vjp, _ = by_name(activation)
    if isinstance(p, FeedForwardParams):
        a, da = affine_tangent(x, v, p.w1, dp[0], p.b1, dp[1])
        return affine_tangent(f(a), vjp(da, a), p.w2, dp[2], p.b2, dp[3])
    gate, dgate = affine_tangent(x, v, p.w_gate, dp.w_gate, p.b_gate, dp.b_gate)
    up, dup = affine_tangent(x, v, p.w_up, dp.w_up, p.b_up, dp.b_up)
    opened = f(gate)
    dh = vjp(dgate, gate) * up + opened * dup
    return affine_tangent(opened * up, dh, p.w_down, dp.w_down, p.b_down, dp.b_down)


def check_network(name: str, params: Params, width: int) -> None:
    """Raise unless the shapes fit each other and rows of the given width."""
    check_axes(f"{name}.{params._fields[0]}", params[0], 2)
    inner, outer = (len(params[0]), width), (width, len(params[0]))
    shapes = {"w_down": outer, "w2": outer, "b2": outer[:1], "b_down": outer[:1]}
    shapes |= dict.fromkeys(("b1", "b_gate", "b_up"), inner[:1])
    for key, array in zip(params._fields, params, strict=True):
        if array is not None:
            check_shape(f"{name}.{key}", array, shapes.get(key, inner))


def _map(x: npt.ArrayLike, params: Any, kind: type[Any], activation: str) -> FloatArray:
    by_name(activation)
    dtype, [a, p] = as_float_trees({"x": x, "params": as_network(kind, "params", params)})
    check_ndim("x", a, 1)
    check_network("params", p, a.shape[-1])
    return rounded(network_forward(a, p, activation)[0], dtype)


def _vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, params: Any, kind: type[Kind], activation: str
) -> tuple[FloatArray, Kind]:
    by_name(activation)
    trees = {"dout": dout, "x": x, "params": as_network(kind, "params", params)}
    dtype, [u, a, p] = as_float_trees(trees)
    check_ndim("x", a, 1)
    check_network("params", p, a.shape[-1])
    check_shape("dout", u, a.shape)
    dx, dp = network_forward(a, p, activation)[1](u)
    return rounded((dx, dp), dtype)


def _jvp(primals: Any, tangents: Any, kind: type[Any], activation: str) -> FloatArray:
    by_name(activation)
    dtype, [x, p], [v, dp] = as_tree_tangents(("x", "params"), primals, tangents)
    p = as_network(kind, "primals.params", p)
    check_ndim("primals.x", x, 1)
    check_network("primals.params", p, x.shape[-1])
    return rounded(network_tangent(x, v, p, dp, activation)[1], dtype)


def feed_forward(
    x: npt.ArrayLike, params: FeedForwardParams, *, activation: str = "relu"
) -> FloatArray:
    r"""
    Two dense layers with an activation between them, the same for every position.

    Parameters
    ----------
    x : array_like, shape (..., D)
        One vector for each position.
    params : FeedForwardParams
        Weights ``w1`` (F, D), ``w2`` (D, F), and biases or None.
    activation : str, default "relu"
        Name of an element-wise function of :mod:`dlref.activations` that needs no
        options, ``"gelu_tanh"`` or ``"identity"``.

    Returns
    -------
    ndarray, shape (..., D)
        One vector for each position.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not such a tuple.
    ValueError
        If a shape does not fit or the activation is unknown.

    See Also
    --------
    feed_forward_vjp : Gradients, with their derivation.
    gated_feed_forward : The variant of LLaMA.
    encoder_block : Where it stands.

    Notes
    -----
    .. math:: \vec y = \mat W_2 \, f(\mat W_1 \vec x + \vec b_1) + \vec b_2

    "Position-wise" means that each row is computed by itself: attention mixes positions, and this
    network works on the information that each position has gathered. Read row i of :math:`\mat W_1`
    as a key and column i of :math:`\mat W_2` as a value, and the sum

    .. math:: \vec y = \vec b_2 + \sum_i f(\vec k_i \cdot \vec x + b_{1i}) \, \vec v_i

    is a memory of F entries, like attention over F tokens that are parameters, without
    a softmax.

    **Cost.** A position costs :math:`2 D F` multiplications, a matrix element one each. float32
    input is multiplied in float32; the error of an output is then of the order of :math:`\sqrt{F}`
    roundings.

    References
    ----------
    - :cite:t:`Vaswani2017`, section 3.3
    - :cite:t:`Geva2021` reads it as a memory.

    Examples
    --------
    Two hidden units with opposite weights make an absolute value of two ReLUs:

    >>> import numpy as np
    >>> from dlref.transformer import FeedForwardParams, feed_forward
    >>> params = FeedForwardParams(np.array([[1.0], [-1.0]]), None, np.array([[1.0, 1.0]]), None)
    >>> feed_forward([[-3.0], [2.0]], params)
    array([[3.],
           [2.]])

    Positions are independent of each other: permuting them permutes the outputs.

    >>> x = np.array([[1.0], [-2.0], [4.0]])
    >>> feed_forward(x[[2, 0, 1]], params).ravel()
    array([4., 1., 2.])
    """
    return _map(x, params, FeedForwardParams, activation)


def feed_forward_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, params: FeedForwardParams, *, activation: str = "relu"
) -> tuple[FloatArray, FeedForwardParams]:
    r"""
    Vector-Jacobian product (reverse mode) of a feed-forward network.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y` of each position.
    x, params, activation : as in `feed_forward`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to `x`.
    dparams : FeedForwardParams
        Gradient of each parameter, summed over positions; None where it is None.

    See Also
    --------
    dlref.neurons.linear_vjp : The two layers that this is made of.

    Notes
    -----
    **The differential.** Name the intermediate results, :math:`\vec a = \mat W_1 \vec x + \vec b_1`
    and :math:`\vec h = f(\vec a)`. Then

    .. math::

        \dd \vec a &= \mat W_1\, \dd \vec x + \dd \mat W_1\, \vec x + \dd \vec b_1 , \qquad
            \dd \vec h = f'(\vec a) \odot \dd \vec a , \\
        \dd \vec y &= \mat W_2\, \dd \vec h + \dd \mat W_2\, \vec h + \dd \vec b_2 .

    **The inner product.** :math:`\dd L = \sum \vec u \cdot \dd \vec y` over the positions.

    **The transpose.** Go back through them in turn:

    .. math::

        \pdv{L}{\mat W_2} &= \sum \vec u \vec h^\top , & \pdv{L}{\vec b_2} &= \sum \vec u , &
            \pdv{L}{\vec h} &= \mat W_2^\top \vec u , \\
        \vec g = \pdv{L}{\vec a} &= f'(\vec a) \odot \pdv{L}{\vec h} , \\
        \pdv{L}{\mat W_1} &= \sum \vec g \vec x^\top , & \pdv{L}{\vec b_1} &= \sum \vec g , &
            \pdv{L}{\vec x} &= \mat W_1^\top \vec g ,

    with sums over the positions. :math:`4 D F` multiplications per position, after the forward
    pass; :math:`\vec a` and :math:`\vec h` are the arrays to keep from it.

    Examples
    --------
    Where a ReLU is inactive, no gradient passes:

    >>> import numpy as np
    >>> from dlref.transformer import FeedForwardParams, feed_forward_vjp
    >>> params = FeedForwardParams(np.array([[1.0], [-1.0]]), None, np.array([[5.0, 7.0]]), None)
    >>> dx, dparams = feed_forward_vjp([[1.0]], [[2.0]], params)
    >>> dx, dparams.w1.ravel(), dparams.w2
    (array([[5.]]), array([10.,  0.]), array([[2., 0.]]))
    >>> dparams.b1 is None
    True
    """
    return _vjp(dout, x, params, FeedForwardParams, activation)


def feed_forward_jvp(primals: Any, tangents: Any, *, activation: str = "relu") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a feed-forward network.

    Parameters
    ----------
    primals : tuple (x, params)
        Vectors (..., D), and a :class:`FeedForwardParams`.
    tangents : tuple (dx, dparams)
        Directions in the same structure; None at any place is zero.
    activation : as in `feed_forward`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the output.

    Notes
    -----
    The product rule on both layers, with :math:`\vec a = \mat W_1 \vec x + \vec b_1`:

    .. math::

        \dot{\vec a} = \dot{\mat W}_1 \vec x + \mat W_1 \dot{\vec x} + \dot{\vec b}_1 , \qquad
        \dot{\vec y} = \dot{\mat W}_2 f(\vec a)
            + \mat W_2 \bigl( f'(\vec a) \odot \dot{\vec a} \bigr) + \dot{\vec b}_2 .

    Examples
    --------
    The absolute value of the example at :func:`feed_forward` has slope −1 at −3:

    >>> import numpy as np
    >>> from dlref.transformer import FeedForwardParams, feed_forward_jvp
    >>> params = FeedForwardParams(np.array([[1.0], [-1.0]]), None, np.array([[1.0, 1.0]]), None)
    >>> feed_forward_jvp(([-3.0], params), ([1.0], None))
    array([-1.])
    """
    return _jvp(primals, tangents, FeedForwardParams, activation)


def gated_feed_forward(
    x: npt.ArrayLike, params: GatedFeedForwardParams, *, activation: str = "silu"
) -> FloatArray:
    r"""
    Feed-forward network whose hidden units are multiplied by a gate.

    Parameters
    ----------
    x : array_like, shape (..., D)
        One vector for each position.
    params : GatedFeedForwardParams
        Weights ``w_gate``, ``w_up`` (F, D) and ``w_down`` (D, F), and biases ``b_gate``, ``b_up``
        (F,) and ``b_down`` (D,), which may be None.
    activation : str, default "silu"
        Activation of the gate: "silu" makes it SwiGLU, "gelu" GEGLU, "sigmoid" GLU. Any name
        that :func:`feed_forward` takes.

    Returns
    -------
    ndarray, shape (..., D)
        One vector for each position.

    Raises
    ------
    TypeError
        If an array is not real or `params` is not such a tuple.
    ValueError
        If a shape does not fit or the activation is unknown.

    See Also
    --------
    gated_feed_forward_vjp : Gradients, with their derivation.
    dlref.activations.swiglu : The gate on its own.

    Notes
    -----
    .. math::

        \vec y = \mat W_{down} \bigl( f(\mat W_{gate} \vec x + \vec b_{gate}) \odot
            (\mat W_{up} \vec x + \vec b_{up}) \bigr) + \vec b_{down}

    Most models leave the biases out. The product of two linear forms is a quadratic form: with f
    the identity each hidden unit is :math:`(\vec g \cdot \vec x)(\vec p \cdot \vec x)`, which no
    finite sum of ReLUs can be. It has :math:`3 D F` multiplications per position; :math:`F = 8 D /
    3` gives it the cost of a plain network with :math:`F = 4 D`.

    References
    ----------
    - :cite:t:`Shazeer2020`

    Examples
    --------
    With the identity as the gate's activation, one hidden unit squares its input:

    >>> import numpy as np
    >>> from dlref.transformer import GatedFeedForwardParams, gated_feed_forward
    >>> params = GatedFeedForwardParams(np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]))
    >>> gated_feed_forward([[3.0], [-4.0]], params, activation="identity")
    array([[ 9.],
           [16.]])
    """
    return _map(x, params, GatedFeedForwardParams, activation)


def gated_feed_forward_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    params: GatedFeedForwardParams,
    *,
    activation: str = "silu",
) -> tuple[FloatArray, GatedFeedForwardParams]:
    r"""
    Vector-Jacobian product (reverse mode) of a gated feed-forward network.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u = \partial L / \partial \vec y` of each position.
    x, params, activation : as in `gated_feed_forward`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient with respect to `x`.
    dparams : GatedFeedForwardParams
        Gradient of each matrix and bias, summed over positions.

    See Also
    --------
    feed_forward_vjp : Without a gate.

    Notes
    -----
    **The differential.** With :math:`\vec a = \mat W_{gate} \vec x + \vec b_{gate}`, :math:`\vec p
    = \mat W_{up} \vec x + \vec b_{up}` and :math:`\vec h = f(\vec a) \odot \vec p`, the product
    rule gives :math:`\dd \vec h = f(\vec a) \odot \dd \vec p + \vec p \odot f'(\vec a) \odot \dd
    \vec a`.

    **The inner product.** :math:`\dd L = \sum \vec u \cdot \dd \vec y` over the positions, so
    :math:`\vec g = \mat W_{down}^\top \vec u` is the gradient of :math:`\vec h`.

    **The transpose.** The factors of both differentials are diagonal, and the matrices are
    transposed:

    .. math::

        \pdv{L}{\vec p} = \vec g \odot f(\vec a) , \qquad
        \pdv{L}{\vec a} = \vec g \odot \vec p \odot f'(\vec a) , \qquad
        \pdv{L}{\vec x} = \mat W_{up}^\top \pdv{L}{\vec p} + \mat W_{gate}^\top \pdv{L}{\vec a} ,

    and the matrices get :math:`\sum \vec u \vec h^\top`, :math:`\sum \pdv{L}{\vec p} \vec
    x^\top` and :math:`\sum \pdv{L}{\vec a} \vec x^\top`. The biases get the same sums without
    :math:`\vec h` and :math:`\vec x`. A closed gate stops the gradient of its
    input, but not, where :math:`f' \ne 0`, its own.

    Examples
    --------
    The square of the example at :func:`gated_feed_forward` has slope 2 x:

    >>> import numpy as np
    >>> from dlref.transformer import GatedFeedForwardParams, gated_feed_forward_vjp
    >>> params = GatedFeedForwardParams(np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]))
    >>> dx, dparams = gated_feed_forward_vjp([[1.0]], [[3.0]], params, activation="identity")
    >>> dx
    array([[6.]])
    """
    return _vjp(dout, x, params, GatedFeedForwardParams, activation)


def gated_feed_forward_jvp(primals: Any, tangents: Any, *, activation: str = "silu") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a gated feed-forward network.

    Parameters
    ----------
    primals : tuple (x, params)
        Vectors (..., D), and a :class:`GatedFeedForwardParams`.
    tangents : tuple (dx, dparams)
        Directions in the same structure; None at any place is zero.
    activation : as in `gated_feed_forward`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the output.

    Notes
    -----
    The product rule three times:

    .. math::

        \dot{\vec h} = f'(\vec a) \odot \dot{\vec a} \odot \vec p + f(\vec a) \odot \dot{\vec p} ,
        \qquad \dot{\vec y} = \dot{\mat W}_{down} \vec h + \mat W_{down} \dot{\vec h}
            + \dot{\vec b}_{down} ,

    with :math:`\dot{\vec a} = \dot{\mat W}_{gate} \vec x + \mat W_{gate} \dot{\vec x} +
    \dot{\vec b}_{gate}`, and :math:`\dot{\vec p}` likewise.

    Examples
    --------
    The square of the example at :func:`gated_feed_forward`, moved by 0.5 at 3:

    >>> import numpy as np
    >>> from dlref.transformer import GatedFeedForwardParams, gated_feed_forward_jvp
    >>> params = GatedFeedForwardParams(np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]))
    >>> gated_feed_forward_jvp(([3.0], params), ([0.5], None), activation="identity")
    array([3.])
    """
    return _jvp(primals, tangents, GatedFeedForwardParams, activation)
