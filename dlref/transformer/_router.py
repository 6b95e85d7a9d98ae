r"""The choice of experts for each token, and losses that keep it balanced."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_integers,
    as_number,
    check_flags,
    check_ndim,
    check_pattern,
    check_range,
    check_shape,
    choice,
    entries,
    present,
    result,
)
from .._core.pytree import displayed
from .._math.dense import affine, affine_jvp, affine_vjp
from ..activations import logsumexp, sigmoid, softmax

SCORES = ("softmax", "sigmoid", "softmax_of_top")
TINY = 1e-20  # so that sigmoids that are all 0 have weights


@displayed
class Routing(NamedTuple):
    r"""
    The experts of each token, and the weights of their outputs.

    Parameters
    ----------
    experts : ndarray of int64, shape (..., k)
        Numbers of the experts of each token, by falling score.
    weights : ndarray, shape (..., k)
        Factors of their outputs.
    scores : ndarray, shape (..., n)
        Scores of all experts: probabilities, or sigmoids.

    See Also
    --------
    top_k_router : Makes it.

    Notes
    -----
    The numbers are a choice and have no gradient; weights and scores have one.

    Examples
    --------
    >>> from dlref.transformer import Routing
    >>> Routing._fields
    ('experts', 'weights', 'scores')
    """

    experts: npt.NDArray[np.int64]
    weights: FloatArray
    scores: FloatArray


class Router(NamedTuple):
    """Options of a router, checked."""

    k: int
    score: str = "softmax"
    groups: int = 1
    top_groups: int = 1
    normalize: bool = True
    scale: float = 1.0


def as_router(
    count: int,
    *,
    k: int,
    score: str = "softmax",
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
) -> Router:
    """Check the options of a router of so many experts."""
    choice("score", score, SCORES)
    check_flags(normalize=normalize)
    G = as_integer("groups", groups, least=1)
    if count % G:
        msg = f"Argument 'groups' must divide the number of experts = {count}, not {G}."
        raise ValueError(msg)
    top = as_integer("top_groups", top_groups, least=1, most=G)
    K = as_integer("k", k, least=1, most=count // G * top)
    whole = bool(normalize) or score == "softmax_of_top"
    return Router(K, score, G, top, whole, as_number("scale", scale))


# Private functions compute in the dtype they are given and check nothing.


@np.errstate(all="ignore")
def route(z: FloatArray, correction: FloatArray | None, r: Router) -> Routing:
    """Choose experts by their logits (..., n)."""
    scores = np.asarray(sigmoid(z) if r.score == "sigmoid" else softmax(z))
    chosen_by = scores if correction is None else scores + correction
    if r.groups > 1:
        chosen_by = _within_groups(chosen_by, r)
    experts = np.argsort(-chosen_by, axis=-1, kind="stable")[..., : r.k]
    return Routing(experts, _weights(np.take_along_axis(scores, experts, -1), r), scores)


def _within_groups(chosen_by: FloatArray, r: Router) -> FloatArray:
    """Return -inf for experts outside the best groups."""
    grouped = chosen_by.reshape(*chosen_by.shape[:-1], r.groups, -1)
    count = min(2 if r.score == "sigmoid" else 1, grouped.shape[-1])
    best = np.sort(grouped, axis=-1)[..., -count:].sum(-1)
    keep = np.argsort(-best, axis=-1, kind="stable")[..., : r.top_groups]
    mask = np.zeros(best.shape, bool)
    np.put_along_axis(mask, keep, values=True, axis=-1)
    return np.where(mask[..., None], grouped, -np.inf).reshape(chosen_by.shape)


def _weights(chosen: FloatArray, r: Router) -> FloatArray:
    scale = chosen.dtype.type(r.scale)
    if r.normalize:
        chosen = chosen / (chosen.sum(-1, keepdims=True) + chosen.dtype.type(TINY))
    return np.asarray(scale * chosen)


@np.errstate(all="ignore")
def route_vjp(
    dweights: FloatArray | None, dscores: FloatArray | None, at: Routing, r: Router
) -> FloatArray:
    """Return the gradient of the logits."""
    ds = np.zeros_like(at.scores) if dscores is None else dscores.copy()
    if dweights is not None:
        chosen = np.take_along_axis(at.scores, at.experts, -1)
        du = at.scores.dtype.type(r.scale) * dweights
        if r.normalize:
            total = chosen.sum(-1, keepdims=True) + chosen.dtype.type(TINY)
            du = (du - (du * chosen).sum(-1, keepdims=True) / total) / total
        here = np.take_along_axis(ds, at.experts, -1) + du
        np.put_along_axis(ds, at.experts, here, -1)
    return _score_derivative(ds, at.scores, r)


@np.errstate(all="ignore")
def route_jvp(dz: FloatArray, at: Routing, r: Router) -> tuple[FloatArray, FloatArray]:
    """Return the tangents of weights and scores."""
    ds = _score_derivative(dz, at.scores, r)
    chosen, du = (np.take_along_axis(a, at.experts, -1) for a in (at.scores, ds))
    if r.normalize:
        total = chosen.sum(-1, keepdims=True) + chosen.dtype.type(TINY)
        du = (du - chosen * du.sum(-1, keepdims=True) / total) / total
    return at.scores.dtype.type(r.scale) * du, ds


def _score_derivative(v: FloatArray, s: FloatArray, r: Router) -> FloatArray:
    """Multiply by the Jacobian of the scores by the logits, which is symmetric."""
    if r.score == "sigmoid":
        return np.asarray(v * s * (1 - s))
    return np.asarray(s * (v - (s * v).sum(-1, keepdims=True)))


def check_router(
    prefix: str, x: FloatArray, weight: FloatArray, bias: FloatArray | None, correction: Any
) -> None:
    """Raise unless the arrays of a router fit."""
    check_ndim(f"{prefix}x", x, 1)
    check_pattern(f"{prefix}weight", weight, ("n", x.shape[-1]))
    for name, array in (("bias", bias), ("correction", correction)):
        if array is not None:
            check_shape(name, array, weight.shape[:1])


def _arguments(
    arrays: dict[str, Any], correction: Any, **options: Any
) -> tuple[Any, dict[str, FloatArray], FloatArray | None, Router]:
    given = present(arrays | {"correction": correction})
    dtype, floats = as_floats(given, work=np.float32)
    named = dict(zip(given, floats, strict=True))
    prefix = "primals." if "primals.x" in named else ""
    fixed = named.pop("correction", None)
    x, weight = named[f"{prefix}x"], named[f"{prefix}weight"]
    check_router(prefix, x, weight, named.get("bias"), fixed)
    return dtype, named, fixed, as_router(len(weight), **options)


def top_k_router(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    k: int,
    bias: npt.ArrayLike | None = None,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
) -> Routing:
    r"""
    Choose the k best of n experts for each token.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Tokens.
    weight : array_like, shape (n, D)
        One direction for each expert.
    k : int
        Number of experts of a token.
    bias : array_like or None, shape (n,)
        Biases of the logits.
    score : {"softmax", "sigmoid", "softmax_of_top"}
        Function from logits to scores. The last is a softmax over the logits of the chosen
        experts alone (gpt-oss), which are the probabilities of the first, normalized.
    correction : array_like or None, shape (n,)
        Added to the scores for the choice, not for the weights (DeepSeek-V3).
    groups : int, default 1
        Number of groups of experts, a divisor of n.
    top_groups : int, default 1
        Number of groups among whose experts a token chooses: those with the largest sum of their
        two best scores ("sigmoid"), or with the best one; the correction counts.
    normalize : bool, default True
        Whether the weights of a token are divided by their sum; "softmax_of_top" always is.
    scale : float, default 1.0
        Factor of the weights.

    Returns
    -------
    Routing
        Numbers and weights (..., k) of the chosen experts, and the scores (..., n) of all.

    Raises
    ------
    TypeError
        If an array is not real or an option has the wrong type.
    ValueError
        If a shape does not fit, or an option is out of range or unknown.

    See Also
    --------
    mixture_of_experts : Sends the tokens there.
    top_k_router_vjp : Which gradients flow through the choice.
    load_balancing_loss : Keeps experts from being forgotten.

    Notes
    -----
    With the logits :math:`\vec z = \mat W \vec x + \vec b`, the scores s, and the set C of the k
    experts with the largest :math:`s_e + c_e`, where c is the correction,

    .. math::

        s_e = \frac{e^{z_e}}{\sum_f e^{z_f}} \quad \text{or} \quad s_e = \sigma(z_e), \qquad
        w_e = m\, \frac{s_e}{\sum_{f \in C} s_f} \quad (e \in C) ,

    with the factor m of `scale`; without `normalize` the denominator is 1. Normalized probabilities
    do not depend on the experts that were not chosen: :math:`w_e = m\, e^{z_e} / \sum_{f \in C}
    e^{z_f}`. So the routers of Mixtral and gpt-oss are the same, while Qwen3-MoE and OLMoE have
    an option that keeps the probabilities as they are: then the output shrinks if the
    router is unsure.

    Ports mistake normalized weights for plain ones, apply the softmax after the choice to
    *probabilities*, add the correction to the weights, too, or choose in 16 bits, where ties and
    near ties go to other experts than in 32.

    References
    ----------
    - :cite:t:`Shazeer2017`; :cite:t:`DeepSeekV3`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import top_k_router
    >>> logits = np.log([[0.5, 0.1, 0.4]])
    >>> routing = top_k_router(logits, np.eye(3), k=2)
    >>> routing.experts, routing.weights.round(3)
    (array([[0, 2]]), array([[0.556, 0.444]]))
    >>> top_k_router(logits, np.eye(3), k=2, normalize=False).weights
    array([[0.5, 0.4]])

    A correction changes the choice and no weight:

    >>> routing = top_k_router(logits, np.eye(3), k=1, correction=[0, 1, 0], normalize=False)
    >>> routing.experts, routing.weights
    (array([[1]]), array([[0.1]]))
    """
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale}
    arrays = {"x": x, "weight": weight, "bias": bias}
    dtype, a, fixed, r = _arguments(arrays, correction, **options)
    routing = route(affine(a["x"], a["weight"], a.get("bias")), fixed, r)
    return Routing(routing.experts, result(routing.weights, dtype), result(routing.scores, dtype))


def top_k_router_vjp(
    dout: tuple[None, npt.ArrayLike | None, npt.ArrayLike | None],
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    k: int,
    bias: npt.ArrayLike | None = None,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a router.

    Parameters
    ----------
    dout : tuple (None, dweights, dscores)
        Cotangents of the weights (..., k) and of the scores (..., n); None is zero.
    x, weight, k, bias, score, correction, groups, top_groups : as in `top_k_router`
        The same.
    normalize, scale : as in `top_k_router`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., D)
        Gradient of the tokens.
    dweight : ndarray, shape (n, D)
        Gradient of the weight.
    dbias : ndarray, shape (n,)
        Gradient of the bias. Only if it is given.

    Notes
    -----
    The choice C is constant but for ties, so nothing flows through it, and the correction,
    which only chooses, has no gradient: it is moved by a rule of its own, by the load. Let u be the
    cotangents of the weights, v the cotangents of the scores, and
    :math:`S = \sum_{f \in C} s_f`. The gradient of the scores is

    .. math::

        g_e = v_e + [\, e \in C \,]\, \frac{m}{S} \Bigl( u_e - \sum_{f \in C} u_f\,
            \frac{s_f}{S} \Bigr) ,

    and the gradient of the logits

    .. math::

        \pdv{L}{z_e} = s_e \Bigl( g_e - \sum_f s_f g_f \Bigr) \quad \text{(softmax)}, \qquad
        \pdv{L}{z_e} = s_e (1 - s_e)\, g_e \quad \text{(sigmoid)} .

    Without `normalize` the weight is :math:`m s_e`, and :math:`m u_e` stands in place of all after
    the bracket. With normalized probabilities an expert that was not chosen gets no gradient from
    the weights; with k = 1 no expert does, as the weight is always m: such a router learns from its
    scores alone.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import top_k_router_vjp
    >>> logits = np.log([[0.5, 0.1, 0.4]])
    >>> top_k_router_vjp((None, [[1.0]], None), logits, np.eye(3), k=1)[0]
    array([[0., 0., 0.]])
    >>> dx, _ = top_k_router_vjp((None, [[1.0]], None), logits, np.eye(3), k=1, normalize=False)
    >>> dx
    array([[ 0.25, -0.05, -0.2 ]])
    """
    _, dweights, dscores = entries("dout", dout, 3).values()
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale}
    arrays = {"x": x, "weight": weight, "bias": bias}
    more = {"dout[1]": dweights, "dout[2]": dscores}
    dtype, a, fixed, r = _arguments(arrays | more, correction, **options)
    at = route(affine(a["x"], a["weight"], a.get("bias")), fixed, r)
    for name, like in (("dout[1]", at.weights), ("dout[2]", at.scores)):
        if name in a:
            check_shape(name, a[name], like.shape)
    dz = route_vjp(a.get("dout[1]"), a.get("dout[2]"), at, r)
    grads = affine_vjp(dz, a["x"], a["weight"], a.get("bias"))
    return tuple(result(g, dtype) for g in grads if g is not None)


def top_k_router_jvp(
    primals: Any,
    tangents: Any,
    *,
    k: int,
    bias: npt.ArrayLike | None = None,
    dbias: npt.ArrayLike | None = None,
    score: str = "softmax",
    correction: npt.ArrayLike | None = None,
    groups: int = 1,
    top_groups: int = 1,
    normalize: bool = True,
    scale: float = 1.0,
) -> tuple[None, FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of a router.

    Parameters
    ----------
    primals : tuple (x, weight)
        Tokens (..., D) and the weight (n, D).
    tangents : tuple (dx, dweight)
        Directions; None is zero.
    k, bias : as in `top_k_router`
        The same.
    dbias : array_like or None, shape (n,)
        Tangent of the bias; None is zero.
    score, correction, groups, top_groups, normalize, scale : as in `top_k_router`
        Raises the same errors.

    Returns
    -------
    tuple (None, dweights, dscores)
        Tangents of weights and scores; the numbers of the experts have none.

    Notes
    -----
    With :math:`\dot{\vec z} = \dot{\mat W} \vec x + \mat W \dot{\vec x} + \dot{\vec b}`, and S for
    the sum of the scores of the chosen experts,

    .. math::

        \dot s_e = s_e \Bigl( \dot z_e - \sum_f s_f \dot z_f \Bigr) \quad \text{or} \quad
        \dot s_e = s_e (1 - s_e)\, \dot z_e, \qquad
        \dot w_e = \frac{m}{S} \Bigl( \dot s_e - \frac{s_e}{S} \sum_{f \in C} \dot s_f \Bigr) .

    Without `normalize` the last is :math:`m \dot s_e`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import top_k_router_jvp
    >>> logits = np.log([[0.5, 0.1, 0.4]])
    >>> top_k_router_jvp((logits, np.eye(3)), ([[1.0, 0, 0]], None), k=1, normalize=False)[1]
    array([[0.25]])
    """
    x, weight = entries("primals", primals, 2).values()
    dx, dweight = entries("tangents", tangents, 2).values()
    options = {"k": k, "score": score, "groups": groups, "top_groups": top_groups}
    options |= {"normalize": normalize, "scale": scale}
    arrays = {"primals.x": x, "primals.weight": weight, "bias": bias}
    moved = {"tangents[0]": dx, "tangents[1]": dweight, "dbias": dbias}
    dtype, a, fixed, r = _arguments(arrays | moved, correction, **options)
    point = a["primals.x"], a["primals.weight"], a.get("bias")
    for name, like in zip(moved, point, strict=True):
        if name in a and like is not None:
            check_shape(name, a[name], like.shape)
    at = route(affine(*point), fixed, r)
    dz = affine_jvp(point, (a.get("tangents[0]"), a.get("tangents[1]"), a.get("dbias")))
    dweights, dscores = route_jvp(dz, at, r)
    return None, result(dweights, dtype), result(dscores, dtype)


def load_balancing_loss(
    scores: npt.ArrayLike, experts: npt.ArrayLike, *, shares: str = "tokens"
) -> FloatArray:
    r"""
    Loss that pushes a router towards experts with equally many tokens.

    Parameters
    ----------
    scores : array_like, shape (..., n)
        Probabilities of the experts for each token.
    experts : array_like of int, shape (..., k)
        Numbers of the experts that each token was sent to.
    shares : {"tokens", "choices"}
        Whether an expert's share is of the N tokens, so that all shares sum to k, or of the N k
        choices, so that they sum to 1.

    Returns
    -------
    floating-point scalar
        Loss; k, or 1 for the shares of choices, if tokens or probabilities are spread evenly, NaN
        without tokens.

    Raises
    ------
    TypeError
        If `scores` is not real or `experts` does not hold integers.
    ValueError
        If the shapes do not fit, a number is not from 0 to n − 1, or `shares` is not known.

    See Also
    --------
    top_k_router : Makes both.
    router_z_loss : Keeps the logits small.

    Notes
    -----
    For N tokens, with the share :math:`f_e` of tokens that expert e gets,

    .. math::

        L = n \sum_e f_e P_e , \qquad f_e = \frac1N \sum_t [\, e \in C_t \,], \qquad
        P_e = \frac1N \sum_t s_{te} .

    The shares sum to k, the probabilities to 1, so that L is k if either is even. That is not the
    least value: L is less where an expert gets many tokens, each by a narrow margin. Only P has a
    gradient: the more tokens an expert has, the more its probabilities are pushed down. The shares
    sum to k as in Hugging Face's Transformers; the Switch Transformer has one expert a token,
    and Megatron divides by k, which is ``shares="choices"``.

    References
    ----------
    - :cite:t:`Fedus2022`

    Examples
    --------
    >>> from dlref.transformer import load_balancing_loss
    >>> float(load_balancing_loss([[0.5, 0.5], [0.5, 0.5]], [[0], [1]]))
    1.0
    >>> float(load_balancing_loss([[1.0, 0.0], [1.0, 0.0]], [[0], [0]]))
    2.0

    Two experts for each token, evenly spread:

    >>> for shares in ("tokens", "choices"):
    ...     print(load_balancing_loss([[0.5, 0.5]], [[0, 1]], shares=shares))
    2.0
    1.0

    One token is sure of its expert, the other three are less so; the loss is below 1:

    >>> unsure = [0.375, 0.625]
    >>> float(load_balancing_loss([[1.0, 0.0], unsure, unsure, unsure], [[0], [1], [1], [1]]))
    0.96875
    """
    dtype, s, f = _shares(scores, experts, shares)
    with np.errstate(all="ignore"):
        mean = s.sum(tuple(range(s.ndim - 1))) / math.prod(s.shape[:-1])
        return result(np.asarray(s.shape[-1] * np.sum(f * mean)), dtype)


def _shares(
    scores: npt.ArrayLike, experts: npt.ArrayLike, shares: str
) -> tuple[Any, FloatArray, FloatArray]:
    """Return dtype, scores in float64 and the share of tokens, or of choices, of each expert."""
    dtype, [s] = as_floats({"scores": scores})
    chosen = as_integers("experts", experts)
    check_ndim("scores", s, 1)
    check_pattern("experts", chosen, (*s.shape[:-1], "k"))
    check_range("experts", chosen, s.shape[-1])
    counts = np.bincount(chosen.ravel(), minlength=s.shape[-1])
    choice("shares", shares, ("tokens", "choices"))
    tokens = s.size // max(s.shape[-1], 1)
    return dtype, s, counts / max(tokens if shares == "tokens" else chosen.size, 1)


def load_balancing_loss_grad(
    scores: npt.ArrayLike, experts: npt.ArrayLike, *, shares: str = "tokens"
) -> FloatArray:
    r"""
    Gradient of the balancing loss with respect to the scores.

    Parameters
    ----------
    scores, experts, shares : as in `load_balancing_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `scores`
        Gradient.

    Notes
    -----
    The shares are counts, and constant; each token has the same gradient:

    .. math:: \pdv{L}{s_{te}} = \frac{n}{N} f_e .

    Examples
    --------
    >>> from dlref.transformer import load_balancing_loss_grad
    >>> load_balancing_loss_grad([[0.5, 0.5], [0.5, 0.5]], [[0], [0]])
    array([[1., 0.],
           [1., 0.]])
    """
    dtype, s, f = _shares(scores, experts, shares)
    tokens = max(s.size // max(s.shape[-1], 1), 1)
    return result(np.broadcast_to(s.shape[-1] * f / tokens, s.shape).copy(), dtype)


def router_z_loss(logits: npt.ArrayLike) -> FloatArray:
    r"""
    Mean of the squared log-sum-exp of a router's logits.

    Parameters
    ----------
    logits : array_like, shape (..., n)
        Logits of the experts for each token.

    Returns
    -------
    floating-point scalar
        Loss; NaN without tokens.

    Raises
    ------
    TypeError
        If `logits` is not real.
    ValueError
        If `logits` is a scalar.

    See Also
    --------
    load_balancing_loss : The other loss of a router.

    Notes
    -----
    .. math:: L = \frac1N \sum_t \Bigl( \log \sum_e e^{z_{te}} \Bigr)^2

    over N tokens. A softmax does not see a number that is added to all logits, so nothing else
    keeps them from drifting to where 16 bits round them.

    References
    ----------
    - :cite:t:`Zoph2022`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import router_z_loss
    >>> float(router_z_loss([[3.0]])), float(router_z_loss([[0.0, 0.0]]) / np.log(2) ** 2)
    (9.0, 1.0)
    """
    dtype, [z] = as_floats({"logits": logits})
    check_ndim("logits", z, 1)
    with np.errstate(all="ignore"):
        squares = np.square(logsumexp(z, axis=-1))
        return result(np.asarray(np.sum(squares) / squares.size), dtype)


def router_z_loss_grad(logits: npt.ArrayLike) -> FloatArray:
    r"""
    Gradient of the z-loss with respect to the logits.

    Parameters
    ----------
    logits : as in `router_z_loss`
        Raises the same errors.

    Returns
    -------
    ndarray, shape of `logits`
        Gradient.

    Notes
    -----
    The derivative of the log-sum-exp is the softmax p:

    .. math:: \pdv{L}{z_{te}} = \frac2N\, p_{te} \log \sum_f e^{z_{tf}} .

    Examples
    --------
    >>> from dlref.transformer import router_z_loss_grad
    >>> router_z_loss_grad([[3.0]])
    array([[6.]])
    """
    dtype, [z] = as_floats({"logits": logits})
    check_ndim("logits", z, 1)
    sums = np.asarray(logsumexp(z, axis=-1))[..., None]
    with np.errstate(all="ignore"):
        return result(2 * sums * np.asarray(softmax(z)) / max(sums.size, 1), dtype)
