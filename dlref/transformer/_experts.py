r"""Mixture of experts: each token goes through a few of many networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_number,
    check_constant,
    check_ndim,
    check_pattern,
    check_shape,
    choice,
    entries,
)
from .._core.pytree import as_float_trees, as_tree_tangents, rounded, shaped_like
from .._math.dense import affine, affine_jvp, affine_vjp
from ..activations import sigmoid, sigmoid_vjp
from ..activations._by_name import by_name
from ._feed_forward import GATED, Pullback, check_network, network_forward, network_tangent
from ._options import BlockOptions
from ._params import ExpertParams, GatedFeedForwardParams, MixtureParams
from ._router import Router, as_router, check_router, route, route_jvp, route_vjp


class Mixture(NamedTuple):
    """Options of a mixture, checked."""

    router: Router
    activation: str
    limit: float | None
    shift: float
    beta: float

    def hidden(self, gate: FloatArray, up: FloatArray) -> tuple[FloatArray, ...]:
        """Return hidden units, and their derivatives by gate and up."""
        f, slope, *_ = by_name(self.activation)
        g, u = gate, up
        dg: Any = 1.0
        du: Any = 1.0
        if self.limit is not None:
            top = gate.dtype.type(self.limit)
            g, u = np.minimum(gate, top), np.clip(up, -top, top)
            dg, du = gate <= top, abs(up) <= top
        beta, shifted = gate.dtype.type(self.beta), u + gate.dtype.type(self.shift)
        # an activation with a slope: f(beta g) / beta, which is g sigma(beta g) for SiLU
        opened = f(g) if beta == 1 else np.asarray(f(beta * g)) / beta
        return opened * shifted, np.asarray(slope(beta * g)) * shifted * dg, opened * du


def as_mixture(
    count: int,
    *,
    activation: str = "swiglu",
    limit: float | None = None,
    shift: float = 0.0,
    beta: float = 1.0,
    **router: Any,
) -> Mixture:
    """Check the options of a mixture of so many experts."""
    choice("activation", activation, GATED)
    bound = None if limit is None else as_number("limit", limit, above=0)
    slope = as_number("beta", beta, above=0)
    r = as_router(count, **router)
    return Mixture(r, GATED[activation], bound, as_number("shift", shift), slope)


def mixture_of(o: BlockOptions, p: MixtureParams) -> Mixture:
    """Return the options of a block's mixture."""
    if o.router is None:
        msg = (
            "Argument 'router' must be options such as {'k': 2} for a mixture of experts, not None."
        )
        raise ValueError(msg)
    kinds = {f: name for name, f in GATED.items()}
    choice("activation", o.activation, kinds)
    return as_mixture(len(p.router), activation=kinds[o.activation], **dict(o.router))


# Private functions compute in the dtype they are given and check nothing. Tokens are rows (N, D).


def _of_expert(p: ExpertParams, e: int) -> list[Any]:
    """Return the arrays of one expert, None where it has no bias."""
    return [None if a is None else a[e] for a in p]


@np.errstate(all="ignore")
def _expert(
    x: FloatArray, p: ExpertParams, e: int, o: Mixture
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the output of an expert, its hidden units and their derivatives."""
    own = _of_expert(p, e)
    gate, up = affine(x, own[0], own[3]), affine(x, own[1], own[4])
    h, by_gate, by_up = o.hidden(gate, up)
    return affine(h, own[2], own[5]), h, by_gate, by_up


def mixture_forward(x: FloatArray, p: MixtureParams, o: Mixture) -> tuple[FloatArray, Pullback]:
    """Run a mixture on (..., D); the cotangents are (dx, dparams)."""
    rows = x.reshape(-1, x.shape[-1])
    at = route(affine(rows, p.router, p.router_bias), p.correction, o.router)
    out = np.zeros_like(rows)
    kept: list[Any] = []
    with np.errstate(all="ignore"):
        for e in range(len(p.router)):
            where, slot = np.nonzero(at.experts == e)
            if len(where):
                y, *rest = _expert(rows[where], p.experts, e, o)
                out[where] += at.weights[where, slot, None] * y
                kept.append((e, where, slot, y, *rest))
    more, shared_pullback = _shared_forward(rows, p)

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> tuple[FloatArray, MixtureParams]:
        u = u.reshape(rows.shape)
        dx, dw = np.zeros_like(rows), np.zeros_like(at.weights)
        grads: list[Any] = [None if a is None else np.zeros_like(a) for a in p.experts]
        for e, where, slot, y, h, by_gate, by_up in kept:
            du = u[where]
            dw[where, slot] = (du * y).sum(-1)
            _add_expert(grads, dx, e, where, at.weights[where, slot, None] * du, h, by_gate, by_up)
        dz = route_vjp(dw, None, at, o.router)
        dx_router, drouter, dbias = affine_vjp(dz, rows, p.router, p.router_bias)
        dx += dx_router
        dx_shared, dshared, dgate = shared_pullback(u)
        dx += dx_shared
        correction = None if p.correction is None else np.zeros_like(p.correction)
        experts = ExpertParams(*grads)
        return dx.reshape(x.shape), MixtureParams(
            drouter, experts, dbias, correction, dshared, dgate
        )

    def _add_expert(
        grads: Any, dx: FloatArray, e: int, where: Any, dy: FloatArray, h: Any, by_gate: Any,
        by_up: Any,
    ) -> None:  # fmt: skip
        z, own = rows[where], _of_expert(p.experts, e)
        dh, dw_down, db_down = affine_vjp(dy, h, own[2], own[5])
        dz_gate, dw_gate, db_gate = affine_vjp(dh * by_gate, z, own[0], own[3])
        dz_up, dw_up, db_up = affine_vjp(dh * by_up, z, own[1], own[4])
        dx[where] += dz_gate + dz_up
        gradients = dw_gate, dw_up, dw_down, db_gate, db_up, db_down
        for total, part in zip(grads, gradients, strict=True):
            if total is not None:
                total[e] = part

    return (out + more).reshape(x.shape), pullback


def _shared_forward(x: FloatArray, p: MixtureParams) -> tuple[FloatArray, Pullback]:
    """Run the network of all tokens; the cotangents are (dx, dshared, dgate)."""
    if p.shared is None:
        return np.zeros_like(x), lambda u: (np.zeros_like(x), None, None)
    y, back = network_forward(x, p.shared, "silu")
    weight = p.shared_gate
    if weight is None:
        return y, lambda u: (*back(u), None)
    gate = affine(x, weight)

    def pullback(u: FloatArray) -> tuple[Any, ...]:
        dx, dshared = back(sigmoid(gate) * u)
        du = np.asarray(sigmoid_vjp((u * y).sum(-1, keepdims=True), gate))
        dx_gate, dgate, _ = affine_vjp(du, x, weight)
        return dx + dx_gate, dshared, dgate

    return sigmoid(gate) * y, pullback


@np.errstate(all="ignore")
def mixture_tangent(
    x: FloatArray, v: FloatArray, p: MixtureParams, dp: MixtureParams, o: Mixture
) -> tuple[FloatArray, FloatArray]:
    """Run a mixture with a tangent."""
    rows, moved = x.reshape(-1, x.shape[-1]), v.reshape(-1, x.shape[-1])
    head = rows, p.router, p.router_bias
    at = route(affine(*head), p.correction, o.router)
    dw, _ = route_jvp(affine_jvp(head, (moved, dp.router, dp.router_bias)), at, o.router)
    out, dout = np.zeros_like(rows), np.zeros_like(rows)
    for e in range(len(p.router)):
        where, slot = np.nonzero(at.experts == e)
        if len(where):
            y, dy = _expert_tangent(rows[where], moved[where], p.experts, dp.experts, e, o)
            w = at.weights[where, slot, None]
            out[where] += w * y
            dout[where] += w * dy + dw[where, slot, None] * y
    more, dmore = _shared_tangent(rows, moved, p, dp)
    return (out + more).reshape(x.shape), (dout + dmore).reshape(x.shape)


def _expert_tangent(
    x: FloatArray, v: FloatArray, p: ExpertParams, dp: ExpertParams, e: int, o: Mixture
) -> tuple[FloatArray, FloatArray]:
    y, h, by_gate, by_up = _expert(x, p, e, o)
    own, moves = _of_expert(p, e), _of_expert(dp, e)
    dgate = affine_jvp((x, own[0], own[3]), (v, moves[0], moves[3]))
    dup = affine_jvp((x, own[1], own[4]), (v, moves[1], moves[4]))
    dh = by_gate * dgate + by_up * dup
    return y, affine_jvp((h, own[2], own[5]), (dh, moves[2], moves[5]))


def _shared_tangent(
    x: FloatArray, v: FloatArray, p: MixtureParams, dp: MixtureParams
) -> tuple[FloatArray, FloatArray]:
    if p.shared is None:
        return np.zeros_like(x), np.zeros_like(x)
    y, dy = network_tangent(x, v, p.shared, dp.shared, "silu")
    if p.shared_gate is None:
        return y, dy
    gate = affine(x, p.shared_gate)
    dgate = affine_jvp((x, p.shared_gate, None), (v, dp.shared_gate, None))
    return sigmoid(gate) * y, sigmoid(gate) * dy + np.asarray(sigmoid_vjp(dgate, gate)) * y


# Checks.


def check_mixture(name: str, p: MixtureParams, width: int) -> None:
    """Raise unless the shapes fit each other and rows of the given width."""
    start = f"{name}." if name else ""
    n = len(np.atleast_1d(p.router))
    check_pattern(f"{start}router" if name else "weight", p.router, ("n", width))
    experts = f"{start}experts" if name else "params"
    check_ndim(f"{experts}.w_gate", p.experts.w_gate, 3)
    F = p.experts.w_gate.shape[1]
    shapes = (n, F, width), (n, F, width), (n, width, F), (n, F), (n, F), (n, width)
    for field, array, shape in zip(p.experts._fields, p.experts, shapes, strict=True):
        if array is not None:
            check_shape(f"{experts}.{field}", array, shape)
    for field in ("router_bias", "correction"):
        array = getattr(p, field)
        if array is not None:
            check_shape(f"{start}{field}", array, (n,))
    if p.shared is not None:
        check_network(f"{start}shared", p.shared, width)
    if p.shared_gate is not None:
        if p.shared is None:
            msg = f"Argument '{start}shared_gate' must be None where shared is None, not an array."
            raise ValueError(msg)
        check_shape(f"{start}shared_gate", p.shared_gate, (1, width))


def _mixture(
    x: Any, weight: Any, params: Any, more: dict[str, Any], options: dict[str, Any], **arrays: Any
) -> tuple[Any, list[Any], MixtureParams, Mixture]:
    experts = shaped_like(ExpertParams, "params", params)
    trees = {**arrays, "x": x, "weight": weight, "params": experts}
    shared = more["shared"]
    if shared is not None:
        shared = shaped_like(GatedFeedForwardParams, "shared", shared)
    dtype, [*values, w, experts, bias, correction, network, gate] = as_float_trees(
        trees | more | {"shared": shared}
    )
    check_ndim("x", values[-1], 1)
    check_router("", values[-1], w, bias, correction)
    p = MixtureParams(w, experts, bias, correction, network, gate)
    check_mixture("", p, values[-1].shape[-1])
    return dtype, values, p, as_mixture(len(w), **options)


def mixture_of_experts(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    params: ExpertParams,
    *,
    k: int,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
    router_bias: npt.ArrayLike | None = None,
    activation: str = "swiglu",
    limit: float | None = None,
    shift: float = 0.0,
    beta: float = 1.0,
    shared: GatedFeedForwardParams | None = None,
    shared_gate: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Send each token through k of n networks, and add up their outputs.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Tokens.
    weight : array_like, shape (n, D)
        Weight of the router.
    params : ExpertParams
        Parameters of the n networks.
    k, score, correction, groups, top_groups, normalize, scale : as in `top_k_router`
        Options of the router.
    router_bias : array_like or None, shape (n,)
        Biases of the router's logits.
    activation : str, default "swiglu"
        Kind of the gates: "swiglu", "geglu", "geglu_tanh", "reglu", "glu" or "bilinear".
    limit : float or None
        Bound of the gate from above, and of the other factor from both sides (gpt-oss: 7).
    shift : float, default 0.0
        Added to the factor that the gate multiplies (gpt-oss: 1).
    beta : float, default 1.0
        Slope of the activation, :math:`f(\beta z) / \beta` (gpt-oss: 1.702).
    shared : GatedFeedForwardParams or None
        A network with SiLU that all tokens go through (DeepSeek-V3).
    shared_gate : array_like or None, shape (1, D)
        Weight of a gate of its output (Qwen3-Next).

    Returns
    -------
    ndarray, shape (..., D)
        Outputs.

    Raises
    ------
    TypeError
        If an array is not real, `params` is not such a tuple, or an option has the wrong type.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    top_k_router : The choice.
    gated_feed_forward : One network for all tokens.
    mixture_of_experts_vjp : Gradients.

    Notes
    -----
    With the choice C and the weights w of :func:`top_k_router`,

    .. math::

        \vec y = \sum_{e \in C} w_e\, N_e(\vec x) + \sigma(\vec g \cdot \vec x)\, N(\vec x), \qquad
        N_e(\vec x) = \mat W^d_e \bigl( f(\min(\vec a, \ell)) \odot
            (\operatorname{clip}(\vec b, -\ell, \ell) + \delta) \bigr) + \vec b^d_e ,

    where :math:`\vec a = \mat W^g_e \vec x + \vec b^g_e` is the gate of an expert before its
    activation f, and :math:`\vec b = \mat W^u_e \vec x + \vec b^u_e` the factor that it multiplies.
    The superscripts g, u and d are the gate, up and down arrays of :class:`ExpertParams`. The
    second term of y is there if a network is shared, without the sigmoid if it has no gate. The
    bound :math:`\ell` of `limit` and the shift :math:`\delta` come from gpt-oss, and so does the
    slope :math:`\beta` of `beta`, with which :math:`f(\beta z) / \beta` stands for f.

    The model has the parameters of n networks, but a token costs the multiplications of k. The rows
    of each expert are gathered, so that a product of matrices serves all its tokens.

    References
    ----------
    - :cite:t:`Shazeer2017`

    Examples
    --------
    Two experts of one unit each. A token goes to the expert whose row of the router it matches:

    >>> import numpy as np
    >>> from dlref.transformer import ExpertParams, mixture_of_experts
    >>> gate, up = np.array([[[1.0, 0]], [[0, 1.0]]]), np.array([[[10.0, 0]], [[0, 100.0]]])
    >>> params = ExpertParams(gate, up, np.ones((2, 2, 1)))
    >>> x = np.eye(2)
    >>> mixture_of_experts(x, np.eye(2), params, k=1, activation="reglu")
    array([[ 10.,  10.],
           [100., 100.]])
    """
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale, "activation": activation}
    options |= {"limit": limit, "shift": shift, "beta": beta}
    more = {"bias": router_bias, "correction": correction, "shared": shared}
    more["shared_gate"] = shared_gate
    dtype, [a], p, o = _mixture(x, weight, params, more, options)
    return rounded(mixture_forward(a, p, o)[0], dtype)


def mixture_of_experts_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    params: ExpertParams,
    *,
    k: int,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
    router_bias: npt.ArrayLike | None = None,
    activation: str = "swiglu",
    limit: float | None = None,
    shift: float = 0.0,
    beta: float = 1.0,
    shared: GatedFeedForwardParams | None = None,
    shared_gate: npt.ArrayLike | None = None,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a mixture of experts.

    Parameters
    ----------
    dout : array_like, shape (..., D)
        Cotangent :math:`\vec u` of the output.
    x, weight, params, k, score, correction, groups : as in `mixture_of_experts`
        The same.
    top_groups, normalize, scale, router_bias, activation : as in `mixture_of_experts`
        The same.
    limit, shift, beta, shared, shared_gate : as in `mixture_of_experts`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient of the tokens.
    dweight : ndarray, shape (n, D)
        Gradient of the router's weight.
    dparams : ExpertParams
        Gradients of the experts; 0 for one that no token went to.
    drouter_bias, dshared, dshared_gate : ndarray or tuple
        Gradients of these arguments. Only of those that are given.

    Notes
    -----
    A token's gradient goes to its experts, weighted, and to the router as far as it agrees with
    their outputs:

    .. math::

        \pdv{L}{N_e} = w_e\, \vec u, \qquad \pdv{L}{w_e} = \vec u \cdot N_e(\vec x) \quad (e \in C),

    from which :func:`gated_feed_forward_vjp` and :func:`top_k_router_vjp` go on; the gradient of
    `x` is the sum of theirs. An expert outside C gets nothing from this token, and nothing says
    whether it would have been better: that is left to noise, to corrections, and to
    :func:`load_balancing_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import ExpertParams, mixture_of_experts_vjp
    >>> params = ExpertParams(*np.ones((2, 2, 1, 2)), np.ones((2, 2, 1)))
    >>> u, x = np.ones((1, 2)), np.array([[1.0, 0.0]])
    >>> _, _, dparams = mixture_of_experts_vjp(u, x, np.eye(2), params, k=1)
    >>> np.any(dparams.w_down != 0, axis=(1, 2))
    array([ True, False])
    """
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale, "activation": activation}
    options |= {"limit": limit, "shift": shift, "beta": beta}
    more = {"bias": router_bias, "correction": correction, "shared": shared}
    more["shared_gate"] = shared_gate
    dtype, [u, a], p, o = _mixture(x, weight, params, more, options, dout=dout)
    check_shape("dout", u, a.shape)
    dx, dp = mixture_forward(a, p, o)[1](u)
    given = [g for g in (dp.router_bias, dp.shared, dp.shared_gate) if g is not None]
    return rounded((dx, dp.router, dp.experts, *given), dtype)


def mixture_of_experts_jvp(
    primals: Any,
    tangents: Any,
    *,
    k: int,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
    router_bias: npt.ArrayLike | None = None,
    activation: str = "swiglu",
    limit: float | None = None,
    shift: float = 0.0,
    beta: float = 1.0,
    shared: GatedFeedForwardParams | None = None,
    shared_gate: npt.ArrayLike | None = None,
    drouter_bias: npt.ArrayLike | None = None,
    dshared: GatedFeedForwardParams | None = None,
    dshared_gate: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a mixture of experts.

    Parameters
    ----------
    primals : tuple (x, weight, params)
        Tokens (..., D), the router's weight (n, D) and an :class:`ExpertParams`.
    tangents : tuple (dx, dweight, dparams)
        Directions in the same structure; None at any place is zero.
    k, score, correction, groups, top_groups, normalize : as in `mixture_of_experts`
        The same.
    scale, router_bias, activation, limit, shift, beta : as in `mixture_of_experts`
        The same.
    shared, shared_gate : as in `mixture_of_experts`
        Raises the same errors.
    drouter_bias, dshared, dshared_gate : array_like or tuple or None
        Tangents of these arguments; None is zero.

    Returns
    -------
    ndarray, shape (..., D)
        Tangent of the output.

    Notes
    -----
    The choice does not move, the weights and the networks do:

    .. math::

        \dot{\vec y} = \sum_{e \in C} \bigl( \dot w_e\, N_e(\vec x) + w_e\, \dot N_e \bigr) ,

    and a shared network adds its own tangent.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import ExpertParams, mixture_of_experts_jvp
    >>> params = ExpertParams(*np.ones((2, 2, 1, 2)), np.ones((2, 2, 1)))
    >>> moved = ExpertParams(None, None, np.array([[[0.0], [0]], [[1], [1]]]))
    >>> primals = np.array([[1.0, 0.0]]), np.eye(2), params
    >>> mixture_of_experts_jvp(primals, (None, None, moved), k=1)  # of an expert not chosen
    array([[0., 0.]])
    """
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale, "activation": activation}
    options |= {"limit": limit, "shift": shift, "beta": beta}
    x, weight, params = entries("primals", primals, 3).values()
    dx, dweight, dparams = entries("tangents", tangents, 3).values()
    for name, point, move in (
        ("drouter_bias", router_bias, drouter_bias),
        ("dshared", shared, dshared),
        ("dshared_gate", shared_gate, dshared_gate),
    ):
        if point is None and move is not None:
            check_constant(name, move)
    params = shaped_like(ExpertParams, "primals[2]", params)
    names = "x", "weight", "params", "router_bias", "shared", "shared_gate"
    points = x, weight, params, router_bias, shared, shared_gate
    moves = dx, dweight, dparams, drouter_bias, dshared, dshared_gate
    dtype, at, moved = as_tree_tangents(names, points, moves)
    more = {"bias": at[3], "correction": correction, "shared": at[4], "shared_gate": at[5]}
    _, [a], p, o = _mixture(at[0], at[1], at[2], more, options)
    dp = MixtureParams(moved[1], ExpertParams(*moved[2]), moved[3], None, moved[4], moved[5])
    return rounded(mixture_tangent(a, moved[0], p, dp, o)[1], dtype)
