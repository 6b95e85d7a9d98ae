r"""Inputs to test with: random ones that are valid, and hard ones."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import as_generator, check_callable, float_dtype, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["HardCase", "hard_inputs", "random_inputs"]


def _log_distribution(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    x = rng.normal(size=shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _distribution(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.exp(_log_distribution(rng, shape))


def _positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.5, 2.0, shape)


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.0, 1.0, shape)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.choice([-1.0, 1.0], shape)


#: Arguments that are no normal numbers: of a function, or of any (an empty name).
DRAWN: dict[tuple[str, str], Any] = {
    ("kl_divergence", "log_p"): _log_distribution,
    ("kl_divergence", "q"): _distribution,
    ("nll", "log_probs"): _log_distribution,
    ("binary_cross_entropy", "target"): _unit,
    ("hinge", "target"): _signs,
    ("recurrent_linear_attention", "decay"): _unit,
    ("recurrent_linear_attention", "beta"): _unit,
    ("kerple_bias", "r1"): _positive,
    ("kerple_bias", "r2"): _positive,
    ("alibi_bias", "slopes"): _positive,
    ("", "var"): _positive,
    ("attention_entropy", "weights"): _distribution,
    ("attention_distance", "weights"): _distribution,
    ("attention_rollout", "weights"): _distribution,
    ("attention_shares", "weights"): _distribution,
}
#: Arguments that count rows or columns of the first one: its axis.
COUNTS = {
    ("cross_entropy", "target"): -1,
    ("nll", "target"): -1,
    ("learned_positions", "positions"): 0,
}


def _parameters(op: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(op).parameters)
    except (TypeError, ValueError):
        return []


def _draw(
    op: Callable[..., Any], shapes: Sequence[Any], kind: np.dtype[Any], rng: np.random.Generator
) -> tuple[Any, ...]:
    own, names = getattr(op, "__name__", ""), _parameters(op)
    drawn: list[Any] = []
    angles = None
    for i, shape in enumerate(shapes):
        name = names[i] if i < len(names) else ""
        if not isinstance(shape, tuple | list):
            drawn.append(shape)
        elif (own, name) in COUNTS:
            drawn.append(rng.integers(0, shapes[0][COUNTS[own, name]], shape))
        elif name in ("cos", "sin"):
            angles = rng.uniform(0, 2 * np.pi, shape) if angles is None else angles
            drawn.append(getattr(np, name)(angles).astype(kind))
        else:
            draw = DRAWN.get((own, name)) or DRAWN.get(("", name))
            values = draw(rng, tuple(shape)) if draw else rng.normal(size=shape)
            drawn.append(np.asarray(values).astype(kind))
    return tuple(drawn)


def random_inputs(
    op: Callable[..., Any],
    shapes: Sequence[Any],
    dtype: npt.DTypeLike,
    rng: np.random.Generator,
) -> tuple[Any, ...]:
    r"""
    Draw inputs for a function, rounded to a dtype before anything is computed from them.

    Parameters
    ----------
    op : callable
        The function of dlref they are for; it is called once, so that shapes that do not fit are
        noticed here.
    shapes : sequence of tuple of int
        The shape of each input. What is not a tuple is handed on: a number of groups, None for an
        input that is left out, an array.
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    rng : numpy.random.Generator
        Source of the numbers.

    Returns
    -------
    tuple of ndarray
        Standard normal numbers of these shapes; distributions, classes, variances, signs, cosines
        and sines where `op` wants these.

    Raises
    ------
    TypeError
        If the dtype is another, or `rng` is not a generator.
    ValueError
        If `op` refuses inputs of these shapes.

    See Also
    --------
    check_forward : What they are for.
    hard_inputs : Inputs at which kernels break.

    Notes
    -----
    A test that rounds its inputs *after* it has computed the reference from the unrounded ones
    measures the rounding of the inputs, and blames it on the kernel. In float16 that alone is
    as large as the error of a good kernel, so that the sum of both is blamed on the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import random_inputs
    >>> from dlref.neurons import linear
    >>> x, w = random_inputs(linear, [(4, 3), (2, 3)], np.float16, np.random.default_rng(0))
    >>> x.shape, w.dtype
    ((4, 3), dtype('float16'))

    The second input of the cross-entropy holds classes, that of the divergence probabilities:

    >>> from dlref.losses import cross_entropy, kl_divergence
    >>> rng = np.random.default_rng(0)
    >>> random_inputs(cross_entropy, [(4, 3), (4,)], np.float32, rng)[1].dtype.kind
    'i'
    >>> float(random_inputs(kl_divergence, [(4, 3)] * 2, np.float64, rng)[1].sum().round(9))
    4.0
    """
    kind = float_dtype("dtype", dtype)
    rng = as_generator("rng", rng)
    inputs = _draw(op, shapes, kind, rng)
    op(*inputs)
    return inputs


class HardCase(NamedTuple):
    """
    Inputs at which kernels break, with the options they belong to.

    Parameters
    ----------
    name : str
        What is hard about them.
    inputs : tuple of ndarray
        The inputs.
    options : dict
        Keyword arguments.

    See Also
    --------
    hard_inputs : What yields them.

    Notes
    -----
    The inputs are valid: the exact result has no NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax
    >>> from dlref.check import HardCase
    >>> case = HardCase("ties along columns", (np.zeros((2, 4)),), {"axis": 0})
    >>> float(softmax(*case.inputs, **case.options)[0, 0])
    0.5
    """

    name: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]


#: Shapes of the inputs of functions of several, for the cases that any function has.
SHAPES: dict[str, list[tuple[Any, ...]]] = {
    "linear": [((5, 7), (7, 7), (7,)), ((1, 130), (3, 130), None), ((2, 0, 4), (3, 4), (3,))],
    "neuron": [((5, 7), (7,), ())],
    "neuron_squared_error": [((5, 7), (5,), (7,), ())],
    "prelu": [((5, 7), (7,))],
    "nll": [((6, 5), (6,))],
    "batch_norm": [((8, 5), (5,), (5,)), ((4, 3, 6), (6,), (6,))],
    "batch_norm_inference": [((8, 5), (5,), (5,), (5,), (5,))],
    "instance_norm": [((3, 5, 7), (7,), (7,))],
    "group_norm": [((3, 7, 6), 3, (6,), (6,)), ((3, 7, 6), 6, None, None)],
    "layer_norm": [((5, 7), (7,), (7,)), ((3, 130), None, None)],
    "rms_norm": [((5, 7), (7,)), ((3, 130), None)],
    "rnn": [((2, 5, 3), (2, 4), (4, 3), (4, 4), (4,), (4,))],
    "gru": [((2, 5, 3), (2, 4), (12, 3), (12, 4), (12,), (12,))],
    "lstm": [((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))],
    "gru_cell": [((2, 3), (2, 4), (12, 3), (12, 4), (12,), (12,))],
    "lstm_cell": [((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))],
    "rnn_cell": [((2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,))],
    "apply_rope": [((2, 3, 5, 8), (5, 4), (5, 4))],
}
SHAPES |= {name: [((5, 7), (5, 7))] for name in ("glu", "geglu", "reglu", "swiglu")}
SHAPES |= {
    name: [((5, 7), (5, 7)), ((130,), (130,))]
    for name in ("absolute_error", "binary_cross_entropy", "hinge", "huber", "squared_error")
}
SHAPES |= {"kl_divergence": [((5, 7), (5, 7))]}
#: Options that change what a function computes.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "gelu": [{"approximate": "tanh"}],
    "softmax": [{"axis": 0}],
    "log_softmax": [{"axis": 0}],
    "logsumexp": [{"axis": 0}],
    "gru": [{"reset_after": False}, {"reverse": True}],
    "gru_cell": [{"reset_after": False}],
    "lstm": [{"reverse": True}],
    "apply_rope": [{"interleaved": False}],
    "rms_norm": [{"weight_offset": 1.0}],
}
OPTIONS |= {
    name: [{"reduction": "sum"}, {"reduction": "none"}]
    for name in ("absolute_error", "binary_cross_entropy", "huber", "squared_error")
}
ROWS = frozenset({"softmax", "log_softmax", "logsumexp"})
NORMS = frozenset({"layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"})


def _elementwise(rng: np.random.Generator, size: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "zeros of both signs", (np.array([0.0, -0.0, 1.0, -1.0]),)
    yield "tiny", (np.array([1e-5, -1e-5, 2.0**-14, -(2.0**-14)]),)
    yield "tails", (np.linspace(-30.0, 30.0, 61),)
    yield "huge", (np.array([1e4, -1e4, size / 4, -size / 4]),)
    yield "a length that is no multiple of a tile", (rng.normal(size=(3, 37)),)
    yield "no elements", (np.empty((0, 3)),)


def _rows(rng: np.random.Generator, size: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    x = rng.normal(size=(4, 37))
    yield "ties", (np.repeat(x[:, :1], 8, 1),)
    yield "large", (100.0 * x,)
    yield "an offset of 1e4", (x + 1e4,)
    yield "an offset of -1e4", (x - 1e4,)
    yield "one that is far ahead", (np.where(np.arange(37) == 5, 80.0, x),)
    masked = x.copy()
    masked[0, ::2] = masked[1, 1:] = -np.inf
    yield "some of -inf", (masked,)
    yield "one element per row", (x[:, :1],)
    yield "a length that is no multiple of a tile", (rng.normal(size=(3, 131)),)


def _norms(op: Any, rng: np.random.Generator, kind: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    x, *rest = _draw(op, SHAPES[op.__name__][0], kind, rng)
    x = x.astype(np.float64)
    yield "a small variance", (x * 1e-2, *rest)
    yield "a variance near eps", (x * 3e-3, *rest)
    yield "a mean of 100", (x + 100.0, *rest)
    if op.__name__ != "batch_norm":
        sizes = 10.0 ** np.linspace(-2, 2, len(x)).reshape(-1, *[1] * (x.ndim - 1))
        yield "rows of different sizes", (x * sizes, *rest)
    if op.__name__ != "rms_norm":
        yield "no variance", (np.ones_like(x), *rest)


def _attention(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    def qkv(t: int, s: int, *, heads: int = 2, keys: int = 2) -> tuple[Any, ...]:
        return (
            rng.normal(size=(2, heads, t, 8)),
            rng.normal(size=(2, keys, s, 8)),
            rng.normal(size=(2, keys, s, 6)),
        )

    mask = rng.random((5, 7)) < 0.6
    mask[:, 0] = True
    yield "as many queries as keys", qkv(6, 6), {}
    yield "causal", qkv(6, 6), {"is_causal": True}
    yield "fewer queries than keys, causal", qkv(3, 7), {"is_causal": True}
    yield "a cache before the queries", qkv(3, 7), {"is_causal": True, "q_offset": 4}
    yield "a mask", qkv(5, 7), {"mask": mask}
    mask = mask.copy()
    mask[2] = False
    yield "a row that sees no key", qkv(5, 7), {"mask": mask}
    yield "one key", qkv(5, 1), {}
    yield "one query", qkv(1, 7), {}
    yield "grouped heads", qkv(5, 7, heads=4), {}
    yield "a bias", qkv(5, 7), {"bias": rng.normal(size=(2, 5, 7))}
    yield "a scale", qkv(5, 7), {"scale": 0.1}
    yield "a soft cap", qkv(5, 7), {"softcap": 2.0}
    q, k, v = qkv(5, 7)
    yield "large scores", (20.0 * q, k, v), {}
    yield "a length that is no multiple of a tile", qkv(33, 67), {}


def _cross_entropy(
    rng: np.random.Generator,
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    x, target = rng.normal(size=(6, 5)), np.array([0, 1, 2, 3, 4, 0])
    yield "random", (x, target), {}
    yield "a sum", (x, target), {"reduction": "sum"}
    yield "no reduction", (x, target), {"reduction": "none"}
    yield "ignored targets", (x, np.array([0, -100, 2, -100, 4, 0])), {}
    yield "smoothed labels", (x, target), {"label_smoothing": 0.1}
    yield "weights", (x, target), {"weight": np.array([1.0, 2.0, 0.5, 1.0, 3.0])}
    yield "an offset of 1e4", (np.round(x * 4) * 8 + 1e4, target), {}
    sure = np.where(np.arange(5) == target[:, None], 30.0, x)
    yield "sure and right", (sure, target), {}
    yield "sure and wrong", (sure, np.roll(target, 1)), {}


def _cases(op: Any, kind: Any) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    name, rng = op.__name__, np.random.default_rng(0)
    size = 6e4 if kind.name == "float16" else 1e6
    if name in ("scaled_dot_product_attention", "attention_weights"):
        for what, inputs, options in _attention(rng):
            yield what, inputs if name[0] == "s" else inputs[:2], options
    elif name == "cross_entropy":
        yield from _cross_entropy(rng)
    elif name in SHAPES:
        for shapes in SHAPES[name]:
            words = " and ".join(str(s) for s in shapes if isinstance(s, tuple))
            yield f"shapes {words}", _draw(op, shapes, kind, rng), {}
        for options in OPTIONS.get(name, []):
            yield str(options), _draw(op, SHAPES[name][0], kind, rng), options
        if name in NORMS:
            for what, inputs in _norms(op, rng, kind):
                yield what, inputs, {}
    else:
        rows = name in ROWS
        yield "random", (rng.normal(size=(5, 7)),), {}
        for options in OPTIONS.get(name, []):
            yield str(options), (rng.normal(size=(5, 7)),), options
        for what, inputs in (_rows if rows else _elementwise)(rng, size):
            yield what, inputs, {}
    if name in ("linear", *NORMS, *ROWS):
        first, *rest = _draw(op, SHAPES.get(name, [((5, 7),)])[0], kind, rng)
        strided = np.repeat(first, 2, axis=0)[::2]
        yield "memory with gaps", (strided, *rest), {}


def hard_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[HardCase]:
    r"""
    Named inputs at which kernels of a function are known to break.

    Parameters
    ----------
    op : callable
        A function of dlref: an activation, a softmax, a linear layer, a loss, a normalization, a
        recurrent layer, rotary positions, or attention.
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.

    Returns
    -------
    iterator of HardCase
        Name, inputs and options of each.

    Raises
    ------
    TypeError
        If the dtype is another, or nothing is known of the inputs of `op`.

    See Also
    --------
    check_all : Runs a candidate over them.
    random_inputs : Inputs of given shapes.

    Notes
    -----
    Standard normal numbers do not tell an epsilon of :math:`10^{-6}` from one of :math:`10^{-5}`,
    a softmax with the maximum subtracted from one without, or causal masks anchored at either end
    of the keys. These do. The same call yields the same numbers.

    Examples
    --------
    >>> from dlref.activations import softmax
    >>> from dlref.check import hard_inputs
    >>> [case.name for case in hard_inputs(softmax, "float32")][2:7]
    ['ties', 'large', 'an offset of 1e4', 'an offset of -1e4', 'one that is far ahead']
    """
    check_callable("op", op)
    kind = float_dtype("dtype", dtype)
    name = getattr(op, "__name__", "")
    known = {*SHAPES, "cross_entropy", "scaled_dot_product_attention", "attention_weights"}
    arrays = [p for p in inspect.signature(op).parameters.values() if p.kind != p.KEYWORD_ONLY]
    if name not in known and [p.name for p in arrays] != ["x"]:
        msg = f"Argument 'op' must be a function whose inputs are known here, not {shown(op)}."
        raise TypeError(msg)
    return _rounded(op, kind)


def _rounded(op: Callable[..., Any], kind: np.dtype[Any]) -> Iterator[HardCase]:
    for what, inputs, options in _cases(op, kind):
        yield HardCase(
            what,
            tuple(_as(a, kind) for a in inputs),
            {key: _as(value, kind) for key, value in options.items()},
        )


def _as(value: Any, kind: np.dtype[Any]) -> Any:
    """Round an array of floats, and keep all else: gaps in memory too."""
    if not isinstance(value, np.ndarray) or value.dtype == kind or value.dtype.kind in "biu":
        return value
    return value.astype(kind)
