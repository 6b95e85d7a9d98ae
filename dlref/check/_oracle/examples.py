"""
A valid call of every function of dlref that has arrays of floats, for `hard_inputs`.

A function of arrays needs their shapes, one of nested parameters a builder. The forms of a map
(``_vjp``, ``_grad`` and so on) get their inputs from it.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.pytree import flat, rebuilt
from ...neurons import LinearParams
from ...transformer import (
    LanguageModelConfig,
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
)
from .calls import changed, is_float, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Case = tuple[str, tuple[Any, ...], dict[str, Any]]

FORMS = ("_value_and_grad", "_jacobian", "_hessian", "_grad", "_deriv2", "_deriv", "_vjp", "_jvp")
PAIRS = [((5, 7), (5, 7)), ((5, 1), (3, 1, 7)), ((5, 7), ())]
TABLE = {"T": 5, "S": 7}

Shapes = tuple[Any, ...]
#: Shapes of arrays and options; what is not a tuple is handed on.
ARRAYS: dict[str, list[tuple[Shapes, dict[str, Any]]]] = {
    "additive_attention": [
        (((5, 7), (6, 3), (6, 4), (5, 7), (5, 3), (5,)), {}),
        (((33, 7), (1, 3), (1, 4), (5, 7), (5, 3), (5,)), {}),
        (((5, 7), (6, 3), (6, 4), (5, 7), (5, 3), (5,)), {"mask": np.arange(6) != 1}),
    ],
    "multiplicative_attention": [
        (((2, 5, 7), (2, 6, 3), (2, 6, 4), (7, 3)), {}),
        (((2, 33, 7), (2, 67, 3), (2, 67, 4), (7, 3)), {"scale": 0.5}),
        (((2, 6, 7), (2, 6, 3), (2, 6, 4), (7, 3)), {"is_causal": True}),
    ],
    "linear_attention": [
        (((5, 4), (7, 4), (7, 3)), {}),
        (((67, 4), (67, 4), (67, 3)), {"is_causal": True}),
        (((5, 4), (7, 4), (7, 3)), {"feature_map": "exp"}),
    ],
    "recurrent_linear_attention": [
        (((5, 4), (5, 4), (5, 3), None, None, None), {}),
        (((33, 4), (33, 4), (33, 3), (33, 4), (33,), (4, 3)), {"scale": 0.5}),
    ],
    "repeat_kv": [(((3, 5, 4), 2), {}), (((2, 1, 5, 4), 3), {})],
    "attention_entropy": [(((5, 7),), {}), (((2, 3, 33, 67),), {})],
    "attention_distance": [(((5, 7),), {}), (((5, 7),), {"q_offset": 2})],
    "attention_shares": [(((5, 7),), {}), (((5, 7),), {"q_offset": -1})],
    "attention_rollout": [(((2, 2, 5, 5),), {}), (((3, 2, 7, 7),), {"residual": 0.25})],
    "matmul": [(((5, 7), (7, 3)), {}), (((7,), (7, 3)), {}), (((2, 1, 3, 131), (5, 131, 2)), {})],
    "dot": [(((7,), (7,)), {}), (((3, 131), (3, 131)), {})],
    "scaled_sum": [(((7,), ()), {}), (((5, 7), (1,)), {})],
    "quadratic_form": [(((7,), (7, 7)), {}), (((3, 5), (3, 5, 5)), {})],
    "trace": [(((5, 5),), {}), (((2, 7, 7),), {})],
    "inverse": [(((5, 5),), {}), (((2, 7, 7),), {})],
    "logdet": [(((5, 5),), {}), (((2, 7, 7),), {})],
    "chain_rule": [(((2, 3), (3, 5), (5, 1)), {}), (((5, 2, 3), (3, 131)), {})],
    "gradient_magnitude": [(((5,), 3), {}), (((5, 7), 2), {"activation_slope": -0.5})],
    "batch_norm_update": [(((7,), (7,)), {"momentum": 0.25})],
    "alibi_bias": [(((4,),), TABLE), (((4,),), {**TABLE, "symmetric": True, "q_offset": 3})],
    "apply_rope_axial": [(((5, 8), (5, 2, 2), (5, 2, 2)), {})],
    "apply_xpos": [(((5, 8), (5, 4), (5, 4), (5, 4)), {}),
                   (((5, 8), (5, 4), (5, 4), (5, 4)), {"inverse": True, "interleaved": False})],
    "cope": [(((5, 4), (5, 5), (7, 4)), {})],
    "fire_bias": [(((6,), (6,), (2, 6), (2,), (), ()), TABLE),
                  (((6,), (6,), (2, 6), (2,), (), ()), {**TABLE, "q_offset": 9})],
    "kerple_bias": [(((4,), (4,)), TABLE), (((4,), (4,)), {**TABLE, "kind": "power"})],
    "relative_bias": [(((4, 11),), TABLE)],
    "t5_bias": [(((32, 4),), TABLE), (((8, 4),), {**TABLE, "bidirectional": False})],
    "rope_angles": [(((7,), (4,)), {}), (((2, 67), (3,)), {})],
    "rope_matrix": [(((7,), (3,)), {}), (((), (1,)), {})],
    "rope_tables": [(((7,), (4,)), {}), (((67,), (3,)), {"attention_factor": 1.25})],
    "rope_score": [(((5, 8), (5, 8), 2, (4,)), {}),
                   (((8,), (8,), -1, (4,)), {"interleaved": False})],
    "shaw_scores": [(((5, 4), (7, 4)), {})],
    "transformer_xl_scores": [(((5, 4), (7, 4), (11, 4), (4,), (4,)), {})],
    "xpos_scales": [(((7,), 8), {})],
    "to_half_split": [(((5, 8),), {}), (((2, 33, 6),), {})],
    "to_interleaved": [(((5, 8),), {}), (((2, 33, 6),), {})],
    "transpose_heads": [(((2, 3, 5, 4), "torch", "flash"), {})],
    "convert_gates": [(((12, 5), "torch", "onnx"), {"cell": "gru"}),
                      (((16, 5), "torch", "keras"), {"cell": "lstm"})],
    "next_token_probabilities": [(((5, 37),), {}), (((5, 37),), {"temperature": 0.5})],
    "fit_neuron": [(((7, 3), (7,), (3,), ()), {"learning_rate": 0.1, "epochs": 3})],
    "clip_by_norm": [(((5, 7), 0.5), {}), (((5, 7), 1e3), {})],
    "clip_by_value": [(((5, 7), 0.5), {})],
    "tree_unravel": [(((35,), (5, 7)), {})],
    "learned_positions": [(((6, 4), (5,)), {}), (((131, 3), (2, 67)), {})],
    "rnn_state": [(((2, 5, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)), {})],
    "lstm_gates": [(((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,)), {})],
}  # fmt: skip
ARRAYS |= {
    name: [(shapes, {}) for shapes in PAIRS]
    for name in ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum")
}
ARRAYS |= {
    name: [(((5, 7),), {}), (((5, 7),), {"axis": 0}), (((131,),), {}), (((2, 3, 5),), {"axis": 1})]
    for name in ("sum", "mean", "prod", "max", "norm")
}
#: Maps that NumPy has, with the names that their derivatives have here.
OF_NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("add", "subtract", "multiply", "divide", "power")},
    **{name: getattr(np, name) for name in ("maximum", "minimum", "matmul")},
    **{name: getattr(np, name) for name in ("sum", "mean", "prod", "max")},
    "norm": np.linalg.norm,
    "inverse": np.linalg.inv,
    "dot": lambda w, x: (w * x).sum(-1),
    "logdet": lambda a: np.linalg.slogdet(a)[1],
    "quadratic_form": lambda x, a: np.einsum("...i,...ij,...j", x, a, x),
    "scaled_sum": lambda x, z: np.sum(x * z),
    "trace": lambda a: np.trace(a, axis1=-2, axis2=-1),
}
#: Functions whose inputs lose their meaning if the first one is scaled or shifted.
BOUND = frozenset({
    "attention_entropy", "attention_distance", "attention_shares", "attention_rollout", "power",
    "inverse", "logdet", "alibi_bias", "kerple_bias", "rope_angles", "rope_matrix", "rope_tables",
    "fire_bias", "xpos_scales", "fit_neuron", "nll", "kl_divergence",
})  # fmt: skip
STEPS = ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw")


# Functions of nested parameters.


def model(rng: Any, init: Callable[..., Any], *more: Any, **changes: Any) -> tuple[Any, Any]:
    """Return parameters, none of them zero or one, and their configuration."""
    told = {"layers": 1, "hidden": 12, "length": 40} | changes
    config = LanguageModelConfig(11, 8, 2, **told)
    params = init(rng, config, *more)
    return changed(lambda a: a + rng.normal(size=a.shape) / 4, params), config


def block(rng: Any, **changes: Any) -> Any:
    return model(rng, init_language_model, **changes)[0].blocks[0]


def decoders(rng: Any, **changes: Any) -> Any:
    return model(rng, init_encoder_decoder_model, **changes)[0].decoder


def sequence(rng: Any, length: int = 5) -> Any:
    return rng.normal(size=(2, length, 8))


def _blind(rows: int, columns: int) -> Any:
    """Return a mask with a row that sees nothing."""
    mask = np.add.outer(np.arange(rows), np.arange(columns)) % 3 != 1
    mask[1] = False
    return mask


HEADS = {"num_heads": 2}


def _multi_head_attention(rng: Any) -> Iterator[Case]:
    p = block(rng).attention
    yield "fewer queries than keys", (sequence(rng), sequence(rng, 7), p), HEADS
    yield "one key", (sequence(rng), sequence(rng, 1), p), HEADS
    yield "causal", (sequence(rng), sequence(rng), p), {**HEADS, "is_causal": True}
    yield (
        "a row that sees no key",
        (sequence(rng), sequence(rng, 7), p),
        {**HEADS, "mask": _blind(5, 7)},
    )
    grouped = block(rng, kv_heads=1).attention
    yield "grouped heads", (sequence(rng), sequence(rng, 7), grouped), {**HEADS, "num_kv_heads": 1}
    yield "a length that is no multiple of a tile", (sequence(rng, 33), sequence(rng, 67), p), HEADS


def _feed_forward(rng: Any) -> Iterator[Case]:
    p = block(rng).feed_forward
    yield "random", (sequence(rng), p), {}
    yield "{'activation': 'gelu'}", (sequence(rng), p), {"activation": "gelu"}
    yield "a length that is no multiple of a tile", (sequence(rng, 67), p), {}


def _gated_feed_forward(rng: Any) -> Iterator[Case]:
    p = block(rng, activation="swiglu").feed_forward
    yield "random", (sequence(rng), p), {}
    yield "{'activation': 'gelu'}", (sequence(rng), p), {"activation": "gelu"}
    yield "a length that is no multiple of a tile", (sequence(rng, 67), p), {}


def _of_blocks(inputs: Callable[[int], tuple[Any, ...]], rms: Any) -> Iterator[Case]:
    yield "norms after the sums", inputs(5), HEADS
    yield "norms before the parts", inputs(5), {**HEADS, "norm_first": True}
    yield "causal", inputs(5), {**HEADS, "is_causal": True}
    yield "a row that sees no key", inputs(5), {**HEADS, "mask": _blind(5, 5)}
    yield "one position", inputs(1), HEADS
    yield "a length that is no multiple of a tile", inputs(33), {**HEADS, "activation": "gelu"}
    if rms is not None:
        yield "root mean squares and gates", rms, {**HEADS, "activation": "silu", "norm": "rms"}


def _encoder_block(rng: Any) -> Iterator[Case]:
    p, rms = block(rng), block(rng, norm="rms", activation="swiglu")
    yield from _of_blocks(lambda length: (sequence(rng, length), p), (sequence(rng), rms))


def _encoder(rng: Any) -> Iterator[Case]:
    p = model(rng, init_language_model, layers=2)[0]
    yield from _of_blocks(lambda length: (sequence(rng, length), p.blocks, p.norm), None)


def _decoder_block(rng: Any) -> Iterator[Case]:
    p = decoders(rng)[0]
    yield from _of_blocks(lambda length: (sequence(rng, length), sequence(rng, 7), p), None)


def _decoder(rng: Any) -> Iterator[Case]:
    p = decoders(rng, layers=2)
    yield from _of_blocks(lambda length: (sequence(rng, length), sequence(rng, 7), p), None)


def _language_model(rng: Any) -> Iterator[Case]:
    tokens = rng.integers(0, 11, (2, 5))
    for what, changes in (
        ("learned positions", {}),
        ("sinusoidal positions", {"positions": "sinusoidal"}),
        ("ALiBi", {"positions": "alibi"}),
        ("T5's biases", {"positions": "t5"}),
        ("norms after the sums", {"norm_first": False}),
        ("grouped heads, rotations, gates", {
            "positions": "rope", "norm": "rms", "activation": "swiglu", "kv_heads": 1,
            "tied": False, "biases": False,
        }),
    ):  # fmt: skip
        params, config = model(rng, init_language_model, **changes)
        yield what, (tokens, params), {"config": config}
    yield "one token", (tokens[:, :1], params), {"config": config}
    longer = rng.integers(0, 11, (1, 33))
    yield "a length that is no multiple of a tile", (longer, params), {"config": config}


def _classifier(rng: Any, *after: Any) -> Iterator[Case]:
    tokens = rng.integers(0, 11, (2, 5))
    params, config = model(rng, init_sequence_classifier, 3)
    yield "whole rows", (tokens, *after, params), {"config": config}
    lengths = {"config": config, "lengths": np.array([5, 1])}
    yield "shorter rows", (tokens, *after, params), lengths


def _classifier_loss(rng: Any) -> Iterator[Case]:
    yield from _classifier(rng, np.array([2, 0]))


def _encoder_decoder(rng: Any) -> Iterator[Case]:
    source, target = rng.integers(0, 11, (2, 5)), rng.integers(0, 11, (2, 4))
    params, config = model(rng, init_encoder_decoder_model)
    yield "whole rows", (source, target, params), {"config": config}
    lengths = {"config": config, "lengths": np.array([5, 1])}
    yield "shorter rows", (source, target, params), lengths


def dense_layers(rng: Any) -> Any:
    sizes = ((12, 8), (3, 12))
    return tuple(LinearParams(rng.normal(size=s) / 2, rng.normal(size=s[0])) for s in sizes)


def _mlp(rng: Any, *after: Any, before: tuple[Any, ...] = ()) -> Iterator[Case]:
    for activation in ("relu", "tanh", "gelu"):
        inputs = (*before, sequence(rng), *after, dense_layers(rng))
        yield f"{{'activation': {activation!r}}}", inputs, {"activation": activation}


def _mlp_deltas(rng: Any) -> Iterator[Case]:
    yield from _mlp(rng, before=(rng.normal(size=(2, 5, 3)),))


def _mlp_loss(rng: Any) -> Iterator[Case]:
    yield from _mlp(rng, rng.integers(0, 3, (2, 5)))


def cell_of(rng: Any, gates: int) -> Any:
    shapes = ((2, 4), (4 * gates, 8), (4 * gates, 4), (4 * gates,), (4 * gates,))
    return tuple(rng.normal(size=shape) / 2 for shape in shapes)


def _bidirectional(rng: Any) -> Iterator[Case]:
    yield "rnn", ("rnn", sequence(rng), cell_of(rng, 1), cell_of(rng, 1)), {}
    yield "gru", ("gru", sequence(rng), cell_of(rng, 3), cell_of(rng, 3)), {}


def _sequences(rng: Any, first: Any = None, **options: Any) -> Iterator[Case]:
    first = sequence(rng) if first is None else first
    out = rng.normal(size=(6, 4)), rng.normal(size=6)
    yield "rnn", ("rnn", first, cell_of(rng, 1), *out), options
    yield "gru, without another layer", ("gru", first, cell_of(rng, 3)), options


def _vector_to_sequence(rng: Any) -> Iterator[Case]:
    yield from _sequences(rng, sequence(rng)[:, 0], steps=5)


def _recurrent_pair(rng: Any) -> Iterator[Case]:
    out = rng.normal(size=(6, 4)), rng.normal(size=6)
    cell = cell_of(rng, 1)
    yield "rnn", ("rnn", sequence(rng), sequence(rng, 7), cell, cell[1:], *out), {}


def tree(rng: Any) -> Any:
    return rng.normal(size=(3, 4)), (rng.normal(size=3), rng.normal(size=()))


def steps(op: Callable[..., Any], rng: Any) -> Iterator[Case]:
    """Yield two steps of an optimizer."""
    params, grads = tree(rng), tree(rng)
    yield "the first step", (params, grads, None), {"learning_rate": 0.1}
    _, state = op(params, grads, None, learning_rate=0.1)
    yield "the second step", (params, grads, state), {"learning_rate": 0.1}


def _schedule(**told: Any) -> Callable[..., Iterator[Case]]:
    return lambda _: iter([("steps", (np.arange(12),), {"peak": 1.0, **told})])


TREES: dict[str, Callable[..., Iterator[Case]]] = {
    "multi_head_attention": _multi_head_attention,
    "feed_forward": _feed_forward,
    "gated_feed_forward": _gated_feed_forward,
    "encoder_block": _encoder_block,
    "decoder_block": _decoder_block,
    "encoder": _encoder,
    "decoder": _decoder,
    "language_model": _language_model,
    "language_model_loss": _language_model,
    "sequence_classifier": _classifier,
    "sequence_classifier_loss": _classifier_loss,
    "encoder_decoder_model": _encoder_decoder,
    "encoder_decoder_model_loss": _encoder_decoder,
    "encoder_decoder_weights": _encoder_decoder,
    "language_model_trace": _language_model,
    "cosine_schedule": _schedule(steps=9, warmup=2),
    "inverse_sqrt_schedule": _schedule(warmup=3),
    "warmup_schedule": _schedule(warmup=3),
    "mlp": _mlp,
    "mlp_deltas": _mlp_deltas,
    "mlp_loss": _mlp_loss,
    "bidirectional": _bidirectional,
    "sequence_to_sequence": _sequences,
    "sequence_to_vector": _sequences,
    "vector_to_sequence": _vector_to_sequence,
    "encoder_decoder": _recurrent_pair,
    "tree_ravel": lambda rng: iter([("a tree", (tree(rng),), {})]),
}


# Harder ones from them.


def _varied(x: Any, size: float) -> Iterator[tuple[str, Any]]:
    yield "tiny", x * 2.0**-10
    yield "huge", x * size / 64
    yield "an offset of 1e4", x + 1e4
    yield "zeros of both signs", np.copysign(0.0, x)
    yield "ties", np.repeat(x[..., :1], x.shape[-1], -1)


def _first_replaced(inputs: Any, value: Any) -> Any:
    """Put a value in the place of the first array of floats."""
    rest = iter([value])

    def replaced(entry: Any) -> Any:
        return next(rest, entry)

    return changed(replaced, inputs)


def varied(name: str, case: Case, size: float) -> Iterator[Case]:
    """Yield a case with another first array: tiny, huge, far from zero, zero, equal."""
    _, inputs, options = case
    if name in BOUND:
        return
    first = next((a for a in flat(inputs) if is_float(a) and np.ndim(a)), None)
    if first is None:
        return
    for what, value in _varied(np.asarray(first, np.float64), size):
        yield what, _first_replaced(inputs, value), options


# Forms of a map.


def base_of(op: Any, known: Callable[[str], bool]) -> tuple[str, str]:
    """Return the name of the map whose inputs a function takes, and the suffix of the form."""
    name = getattr(op, "__name__", "")
    forms = [(name.removesuffix(suffix), suffix) for suffix in FORMS if name.endswith(suffix)]
    listed = [pair for pair in forms if pair[0] in ARRAYS]  # max_grad takes more than any f(x)
    pairs = [*listed, (name, ""), *forms]
    return next((pair for pair in pairs if known(pair[0])), ("", ""))


def map_of(op: Any, name: str) -> Any:
    """Return the map of a form: of the same module, or of NumPy."""
    own = getattr(sys.modules.get(op.__module__), name, None)
    return OF_NUMPY.get(name) if own is None else own


def described(op: Any, name: str) -> Any:
    """Return the function whose parameters are those of the map, after dout."""
    module = sys.modules[op.__module__]
    return getattr(module, name, None) or getattr(module, f"{name}_vjp", op)


def drawn_like(value: Any, rng: Any) -> Any:
    """Return random numbers in the shape and dtype of a result; None for what is no float."""
    if isinstance(value, tuple):
        return rebuilt(value, [drawn_like(part, rng) for part in value])
    if not is_float(value):
        return None
    return rng.normal(size=np.shape(value)).astype(np.asarray(value).dtype)


def along(op: Any, inputs: tuple[Any, ...], rng: Any) -> tuple[Any, Any]:
    """Return a point and a direction as a jvp takes them."""
    names = [*inspect.signature(op).parameters]
    names = names if op.__name__.startswith("apply_") else []
    tangents = tuple(
        None if name in ("cos", "sin", "scales") else drawn_like(value, rng)
        for name, value in itertools.zip_longest(names[: len(inputs)], inputs)
    )
    return (inputs, tangents) if len(inputs) > 1 else (inputs[0], tangents[0])


def in_form(op: Any, name: str, suffix: str, case: Case) -> Case:
    """Return the inputs of a form from those of the map."""
    what, inputs, options = case
    rng = np.random.default_rng(1)
    if suffix == "_vjp":
        with np.errstate(all="ignore"):
            out = map_of(op, name)(*inputs, **options)
        return what, (drawn_like(out, rng), *inputs), options
    if suffix == "_jvp":
        before = [a for a in inputs if isinstance(a, str)]
        point = inputs[len(before) :]
        return what, (*before, *along(described(op, name), point, rng)), options
    return case


def is_valid(op: Any, case: Case) -> bool:
    """Return whether a function takes a case, and has an exact result there."""
    _, inputs, options = case
    try:
        with np.errstate(all="ignore"):
            out = op(*widened(inputs), **options)
    except (TypeError, ValueError):
        return False
    return not any(np.isnan(part).any() for part in flat(out) if is_float(part))


def why_not(op: Any) -> str:
    """Say why nothing is known of the inputs of a function."""
    names = [p.name for p in inspect.signature(op).parameters.values()]
    if "rng" in names:
        return "it draws random numbers"
    if {"f", "value_and_grad", "candidate", "op", "model"} & {*names}:
        return "it takes a function"
    if "partials" in names:
        return "it takes lists"
    if {"prompt", "start"} & {*names}:
        return "its result is tokens, not numbers"
    return "it is no function of dlref that takes arrays of floats"
