r"""Inputs to test with: random ones that are valid, and hard ones."""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import as_bool, as_generator, check_callable, float_dtype, shown
from .._core.pytree import rebuilt
from ._oracle import examples, optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ._oracle.examples import Case

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


def _invertible(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return 3.0 * np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, shape)


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
    ("apply_xpos", "scales"): _positive,
    ("fire_bias", "c"): _positive,
    ("fire_bias", "threshold"): _positive,
    ("inverse", "a"): _invertible,
    ("logdet", "a"): _invertible,
    ("power", "w"): _positive,
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
    return _drawn(getattr(op, "__name__", ""), _parameters(op), shapes, kind, rng)


def _drawn(
    own: str,
    names: list[str],
    shapes: Sequence[Any],
    kind: np.dtype[Any],
    rng: np.random.Generator,
) -> tuple[Any, ...]:
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
    for name in (
        "absolute_error",
        "binary_cross_entropy",
        "hinge",
        "huber",
        "kl_divergence",
        "nll",
        "squared_error",
    )
}
ROWS = frozenset({"softmax", "log_softmax", "logsumexp"})
ATTENTION = ("scaled_dot_product_attention", "attention_weights", "attention_scores")
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
    bias = 2.0 * rng.normal(size=(5, 7))
    yield "a soft cap before a bias", qkv(5, 7), {"softcap": 2.0, "bias": bias}
    causal = {"is_causal": True, "q_offset": 2}
    yield "a soft cap before a causal mask", qkv(5, 7), {"softcap": 2.0, **causal}
    masked = {"mask": mask, "bias": bias, **causal}
    yield "mask, bias, causal, grouped heads", qkv(5, 7, heads=4), masked
    q, k, v = qkv(5, 7)
    yield "large scores", (20.0 * q, k, v), {}
    yield "a length that is no multiple of a tile", qkv(33, 67), {}


def _cross_entropy(
    rng: np.random.Generator,
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    x, target = rng.normal(size=(6, 5)), np.array([0, 1, 2, 3, 4, 0])
    ignored = np.array([0, -100, 2, -100, 4, 0])
    yield "random", (x, target), {}
    yield "a sum", (x, target), {"reduction": "sum"}
    yield "no reduction", (x, target), {"reduction": "none"}
    yield "ignored targets", (x, ignored), {}
    yield "smoothed labels", (x, target), {"label_smoothing": 0.1}
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    yield "weights", (x, target), {"weight": weight}
    every = {"weight": weight, "label_smoothing": 0.1}
    yield "weights, ignored targets, smoothed labels", (x, ignored), every
    yield "ignored targets, no reduction", (x, ignored), {"reduction": "none"}
    yield "an offset of 1e4", (np.round(x * 4) * 8 + 1e4, target), {}
    sure = np.where(np.arange(5) == target[:, None], 30.0, x)
    yield "sure and right", (sure, target), {}
    yield "sure and wrong", (sure, np.roll(target, 1)), {}


def _of_shapes(op: Any, name: str, kind: Any, rng: np.random.Generator) -> Iterator[Case]:
    """Yield the cases of a function of several arrays."""
    for shapes in SHAPES[name]:
        yield f"shapes {_listed(shapes)}", _draw(op, shapes, kind, rng), {}
    for options in OPTIONS.get(name, []):
        yield str(options), _draw(op, SHAPES[name][0], kind, rng), options
    if name == "nll":
        log_probs, target = _draw(op, SHAPES[name][0], kind, rng)
        yield "ignored targets", (log_probs, np.where(np.arange(6) % 3, target, -100)), {}
    if name in NORMS:
        for what, inputs in _norms(op, rng, kind):
            yield what, inputs, {}


def _own_cases(op: Any, kind: Any) -> Iterator[Case]:
    """Yield the cases of a function that has some of its own."""
    name, rng = op.__name__, np.random.default_rng(0)
    if name in ATTENTION:
        for what, inputs, options in _attention(rng):
            yield what, inputs if name == ATTENTION[0] else inputs[:2], options
    elif name == "cross_entropy":
        yield from _cross_entropy(rng)
    elif name in SHAPES:
        yield from _of_shapes(op, name, kind, rng)
    else:
        yield "random", (rng.normal(size=(5, 7)),), {}
        for options in OPTIONS.get(name, []):
            yield str(options), (rng.normal(size=(5, 7)),), options
        for what, inputs in (_rows if name in ROWS else _elementwise)(rng, _huge(kind)):
            yield what, inputs, {}
    if name in ("linear", *NORMS, *ROWS):
        first, *rest = _draw(op, SHAPES.get(name, [((5, 7),)])[0], kind, rng)
        strided = np.repeat(first, 2, axis=0)[::2]
        yield "memory with gaps", (strided, *rest), {}


def _huge(kind: np.dtype[Any]) -> float:
    return 6e4 if kind.name == "float16" else 1e6


def _listed(shapes: Any) -> str:
    return " and ".join(str(s) for s in shapes if isinstance(s, tuple))


def _general_cases(op: Any, name: str, suffix: str, kind: Any) -> Iterator[Case]:
    """Yield calls that are known to be valid, and the first with other numbers."""
    cases = _known_calls(op, name, kind)
    first = next(cases)
    more = examples.varied(name, first, _huge(kind))
    given = {case[0]: examples.in_form(op, name, suffix, case) for case in (first, *cases, *more)}
    yield from given.values()


def _known_calls(op: Any, name: str, kind: Any) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    if name.endswith("_step"):
        yield from examples.steps(op, rng)
    elif name in examples.TREES:
        yield from examples.TREES[name](rng)
    elif name in examples.ARRAYS:
        for shapes, told in examples.ARRAYS[name]:
            words = f"shapes {_listed(shapes)}" + (f", {told}" if told else "")
            yield words, _arrays_of(op, name, shapes, kind, rng), told
    else:
        yield from _own_cases(examples.map_of(op, name), kind)


def _arrays_of(op: Any, name: str, shapes: Any, kind: Any, rng: Any) -> tuple[Any, ...]:
    names = [one for one in _parameters(examples.described(op, name)) if one != "dout"]
    return _drawn(name, names, shapes, kind, rng)


def _calls_with_options(op: Any, name: str, kind: Any) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    if name.endswith("_step"):
        yield from optional.steps(op, _parameters(op), rng)
    elif name in optional.TREES:
        yield from optional.TREES[name](rng)
    for shapes, told in optional.ARRAYS.get(name, []):
        yield optional.words([*told][-1]), _arrays_of(op, name, shapes, kind, rng), told


def _has_own(op: Any, name: str) -> bool:
    """Return whether there are cases for a function itself, or it takes x alone."""
    if name in {*NORMS, *ATTENTION, "linear", "cross_entropy"}:
        return True
    return name not in {*SHAPES, *examples.ARRAYS, *examples.TREES} and _takes_x(op, name)


def _takes_x(op: Any, name: str) -> bool:
    f = op if name == op.__name__ else examples.map_of(op, name)
    if f is None:
        return False
    arrays = [p for p in inspect.signature(f).parameters.values() if p.kind != p.KEYWORD_ONLY]
    return [p.name for p in arrays] == ["x"]


def _is_known(op: Any, name: str) -> bool:
    listed = {*SHAPES, *examples.ARRAYS, *examples.TREES}
    step = name.removesuffix("_step") in examples.STEPS and name.endswith("_step")
    return name in listed or step or _has_own(op, name)


def hard_inputs(
    op: Callable[..., Any], dtype: npt.DTypeLike, *, every_option: bool = False
) -> Iterator[HardCase]:
    r"""
    Named inputs at which kernels of a function are known to break.

    Parameters
    ----------
    op : callable
        A function of dlref that takes arrays of floats, or parameters in nested tuples: a map, a
        block or a model, or a form of one (``_vjp``, ``_jvp``, ``_grad`` and so on).
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    every_option : bool, default False
        Whether to append calls with one option each, so that every option is told by some case.

    Returns
    -------
    iterator of HardCase
        Name, inputs and options of each.

    Raises
    ------
    TypeError
        If the dtype is another, `every_option` is not a bool, or nothing is known of the inputs of
        `op`: it draws random numbers, takes a function, returns tokens, or is not of dlref.

    See Also
    --------
    check_all : Runs a candidate over them.
    random_inputs : Inputs of given shapes.

    Notes
    -----
    Standard normal numbers do not tell an epsilon of :math:`10^{-6}` from one of :math:`10^{-5}`,
    a softmax with the maximum subtracted from one without, or causal masks anchored at either end
    of the keys. These do. The same call yields the same numbers.

    A function without cases of its own is called at a few shapes and options, then with a first
    array that is tiny, huge, far from zero, zero of both signs, or constant along its rows. A case
    is left out where `op` refuses it or its exact result has NaN. Configurations of models are
    among the options. With `every_option` each further option has a call whose result changes if
    it is ignored, but for those that return more or are called or written to (``return_lse``,
    ``callback``, ``cache``).

    Examples
    --------
    >>> from dlref.activations import softmax
    >>> from dlref.check import hard_inputs
    >>> [case.name for case in hard_inputs(softmax, "float32")][2:7]
    ['ties', 'large', 'an offset of 1e4', 'an offset of -1e4', 'one that is far ahead']

    >>> from dlref.activations import silu
    >>> [*hard_inputs(silu, "float32", every_option=True)][-1].options
    {'beta': 0.75}
    """
    kind = float_dtype("dtype", dtype)
    name, suffix = _base_of(op)
    cases = _cases(op, name, suffix, kind)
    if as_bool("every_option", every_option):
        cases = itertools.chain(cases, option_inputs(op, dtype))
    return cases


def option_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[HardCase]:
    """Return what `hard_inputs` appends for `every_option`."""
    kind = float_dtype("dtype", dtype)
    name, suffix = _base_of(op)
    cases = _calls_with_options(op, name, kind)
    return (_rounded(examples.in_form(op, name, suffix, case), kind) for case in cases)


def _base_of(op: Any) -> tuple[str, str]:
    """Return the name of the map whose inputs are known, and the suffix of the form."""
    check_callable("op", op)
    name, suffix = examples.base_of(op, functools.partial(_is_known, op))
    if not name:
        msg = (
            "Argument 'op' must be a function whose inputs are known here, not "
            f"{shown(op)}: {examples.why_not(op)}."
        )
        raise TypeError(msg)
    return name, suffix


def _cases(op: Any, name: str, suffix: str, kind: Any) -> Iterator[HardCase]:
    if suffix or not _has_own(op, name):
        cases = (_rounded(case, kind) for case in _general_cases(op, name, suffix, kind))
        return (case for case in cases if examples.is_valid(op, case))
    return (_rounded(case, kind) for case in _own_cases(op, kind))


def _rounded(case: Case, kind: np.dtype[Any]) -> HardCase:
    what, inputs, options = case
    told = {key: _as(value, kind) for key, value in options.items()}
    return HardCase(what, _as(inputs, kind), told)


def _as(value: Any, kind: np.dtype[Any]) -> Any:
    """Round arrays of floats, within tuples, and keep all else: gaps in memory too."""
    if isinstance(value, tuple):
        return rebuilt(value, [_as(part, kind) for part in value])
    if not isinstance(value, np.ndarray) or value.dtype == kind or value.dtype.kind in "biu":
        return value
    return value.astype(kind)
