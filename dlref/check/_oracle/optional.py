"""
Calls that tell an option, for all options of all functions: what `check_all` adds to hard inputs.

Each differs from the call without the option, so that a kernel that ignores it is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...transformer import (
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
)
from .calls import changed
from .examples import HEADS, TABLE, block, cell_of, decoders, dense_layers, model, sequence, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .examples import Case, Shapes

X = ((5, 7),)
PAIR = ((5, 7), (5, 7))
CLASSES = ((6, 5), (6,))
NORM = (*X, (7,), (7,))
RNN = ((2, 5, 3), (2, 4), (4, 3), (4, 4), (4,), (4,))
GRU = ((2, 5, 3), (2, 4), (12, 3), (12, 4), (12,), (12,))
LSTM = ((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))
LSTM_CELL = ((2, 3), *LSTM[1:])
PEEPHOLES = np.linspace(-1.0, 1.0, 12)
SHORTER = np.array([5, 2])
FACTORS = np.linspace(0.5, 2.0, 7)
OF_CLASSES = np.linspace(0.5, 2.0, 5)
QKV = ((2, 5, 8), (2, 7, 8), (2, 7, 6))
MULTIPLICATIVE = ((2, 5, 7), (2, 6, 3), (2, 6, 4), (7, 3))


def _scores(t: int, s: int) -> dict[str, Any]:
    """Return a value for each option of T x S scores of two heads."""
    grid = np.add.outer(np.arange(t), 2 * np.arange(s))
    return {
        "mask": grid % 3 != 1,
        "bias": np.cos(grid),
        "window": (2, 1),
        "scale": 0.25,
        "softcap": 0.5,
        "sink": np.array([1.0, -1.0]),
        "dropout": 2.0 * (grid % 2),
    }


def _told(shapes: Shapes, *, without: tuple[str, ...] = ()) -> list[tuple[Shapes, dict[str, Any]]]:
    """Return calls of attention with one option each."""
    told = _scores(shapes[0][-2], shapes[1][-2])
    some = [{key: value} for key, value in told.items() if key not in without]
    return [(shapes, one) for one in (*some, {"is_causal": True, "q_offset": 2})]


#: Shapes and options, in the form of `examples.ARRAYS`.
ARRAYS: dict[str, list[tuple[Shapes, dict[str, Any]]]] = {
    "celu": [(X, {"alpha": 0.75})],
    "elu": [(X, {"alpha": 0.75})],
    "hard_sigmoid": [(X, {"alpha": 0.25}), (X, {"beta": 0.75})],
    "hardmax": [(X, {"axis": 0})],
    "leaky_relu": [(X, {"negative_slope": 0.25})],
    "logsumexp_hessian": [(X, {"axis": 0})],
    "silu": [(X, {"beta": 0.75})],
    "swiglu": [(PAIR, {"beta": 0.75})],
    "thresholded_relu": [(X, {"alpha": 0.75})],
    "neuron": [(((5, 7), (7,), ()), {"activation": "tanh"})],
    "binary_cross_entropy": [(PAIR, {"weight": FACTORS}), (PAIR, {"pos_weight": FACTORS})],
    "cross_entropy": [(CLASSES, {"ignore_index": 1}), (CLASSES, {"z_loss": 0.1})],
    "nll": [(CLASSES, {"ignore_index": 1}), (CLASSES, {"weight": OF_CLASSES})],
    "huber": [(PAIR, {"delta": 0.5})],
    "layer_norm": [(NORM, {"eps": 0.5})],
    "rms_norm": [(NORM[:2], {"eps": 0.5})],
    "batch_norm": [(NORM, {"eps": 0.5})],
    "batch_norm_inference": [((*NORM[:1], (7,), (7,), (7,), (7,)), {"eps": 0.5})],
    "instance_norm": [(((3, 5, 7), (7,), (7,)), {"eps": 0.5})],
    "group_norm": [(((3, 7, 6), 3, (6,), (6,)), {"eps": 0.5})],
    "rnn": [(RNN, {"activation": "relu"}), (RNN, {"reverse": True}), (RNN, {"lengths": SHORTER})],
    "rnn_cell": [(((2, 3), *RNN[1:]), {"activation": "relu"})],
    "gru": [(GRU, {"lengths": SHORTER})],
    "lstm": [(LSTM, {"lengths": SHORTER}), (LSTM, {"w_p": PEEPHOLES})],
    "lstm_cell": [(LSTM_CELL, {"w_p": PEEPHOLES})],
    "lstm_gates": [(LSTM, {"lengths": SHORTER}), (LSTM, {"reverse": True}),
                   (LSTM, {"w_p": PEEPHOLES})],
    "apply_rope": [(((2, 3, 5, 8), (5, 2), (5, 2)), {"rotary_dim": 4})],
    "apply_rope_axial": [(((5, 8), (5, 2, 2), (5, 2, 2)), {"interleaved": False})],
    "apply_xpos": [(((5, 8), (5, 2), (5, 2), (5, 2)), {"rotary_dim": 4})],
    "kerple_bias": [(((4,), (4,)), {**TABLE, "symmetric": True}),
                    (((4,), (4,)), {**TABLE, "q_offset": 2})],
    "t5_bias": [(((32, 4),), {"T": 5, "S": 90, "max_distance": 16}),
                (((32, 4),), {**TABLE, "q_offset": 2})],
    "xpos_scales": [(((7,), 8), {"gamma": 0.2}), (((7,), 8), {"scale_base": 64.0})],
    "attention_scores": _told(QKV[:2], without=("sink", "dropout")),
    "attention_weights": _told(QKV[:2], without=("dropout",)),
    "scaled_dot_product_attention": _told(QKV),
    "multiplicative_attention": _told(MULTIPLICATIVE),
    "linear_attention": [(((5, 4), (7, 4), (7, 3)), {"normalize": False})],
    "transpose_heads": [(((2, 5, 8), "onnx_3d", "dlref"), {"num_heads": 2})],
    "next_token_probabilities": [(((5, 37),), {"top_k": 5}), (((5, 37),), {"top_p": 0.6})],
}  # fmt: skip

#: Options of optimizers.
STEPS: dict[str, Any] = {
    "alpha": 0.5,
    "amsgrad": True,
    "betas": (0.5, 0.75),
    "centered": True,
    "dampening": 0.5,
    "eps": 0.5,
    "initial_accumulator_value": 0.5,
    "lr_decay": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.5,
}


def steps(op: Callable[..., Any], names: list[str], rng: Any) -> Iterator[Case]:
    """Yield a second step, with a smaller gradient, for each option of an optimizer."""
    params, grads = tree(rng), tree(rng)
    smaller = changed(lambda a: a / 8, grads)
    for key in (key for key in STEPS if key in names):
        told = {"learning_rate": 0.1, key: STEPS[key]}
        if key == "dampening":
            told["momentum"] = 0.5
        _, state = op(params, grads, None, **told)
        state = None if key == "initial_accumulator_value" else state  # which holds it from then on
        yield words(key), (params, smaller, state), told


def words(key: str) -> str:
    """Return the name of the case that tells an option."""
    return f"the option {key!r}"


def _rotations() -> dict[str, Any]:
    angles = np.outer(np.arange(5), [1.0, 0.1])
    return {"rope": (np.cos(angles), np.sin(angles))}


def _multi_head_attention(rng: Any) -> Iterator[Case]:
    p, x = block(rng).attention, sequence(rng)
    for key, value in _scores(5, 7).items():
        yield words(key), (x, sequence(rng, 7), p), {**HEADS, key: value}
    yield words("q_offset"), (x, x, p), {**HEADS, "is_causal": True, "q_offset": 2}
    yield from _rotated((x, x, p))
    weight = np.linspace(0.5, 2.0, len(p.w_q) // HEADS["num_heads"])
    normed = x, x, p._replace(q_norm=weight, k_norm=weight[::-1].copy())
    for key, value in {"norm_eps": 0.5, "norm_offset": 1.0, "norm_after_rope": True}.items():
        yield words(key), normed, {**HEADS, **_rotations(), key: value}


def _rotated(inputs: Any) -> Iterator[Case]:
    told = {**HEADS, **_rotations()}
    yield words("rope"), inputs, told
    yield words("rope_interleaved"), inputs, {**told, "rope_interleaved": False}


#: Factors of two sub-layers, the first of which drops every other channel.
DROPPED = (2.0 * (np.arange(8) % 2), np.linspace(0.5, 2.0, 8))
OF_HEADS = np.array([2.0, 0.5]).reshape(2, 1, 1)


def _of_blocks(
    inputs: Callable[..., tuple[Any, ...]], told: dict[str, Any], *, is_causal: bool = False
) -> Iterator[Case]:
    """Yield the options of blocks; `inputs` takes changes of the configuration."""
    scores = _scores(5, 5)
    for key in ("mask", "bias", "window", "scale", "softcap"):
        yield words(key), inputs(), {**HEADS, key: scores[key]}
    for key, value in {**told, "eps": 0.5, "is_causal": not is_causal}.items():
        yield words(key), inputs(), {**HEADS, key: value}
    yield words("q_offset"), inputs(), {**HEADS, "is_causal": True, "q_offset": 2}
    yield from _rotated(inputs())
    yield words("num_kv_heads"), inputs(kv_heads=1), {**HEADS, "num_kv_heads": 1}
    yield words("norm"), inputs(norm="rms"), {**HEADS, "norm": "layer"}


def _encoder_block(rng: Any) -> Iterator[Case]:
    told = {"dropout": DROPPED, "attention_dropout": OF_HEADS}
    yield from _of_blocks(lambda **changes: (sequence(rng), block(rng, **changes)), told)


def _encoder(rng: Any) -> Iterator[Case]:
    def inputs(**changes: Any) -> tuple[Any, ...]:
        p, _ = model(rng, init_language_model, layers=2, **changes)
        return sequence(rng), p.blocks, p.norm

    told = {"dropout": (DROPPED, None), "attention_dropout": (None, OF_HEADS)}
    yield from _of_blocks(inputs, told)


OF_THREE = (*DROPPED, DROPPED[0])


def _decoder_block(rng: Any) -> Iterator[Case]:
    def inputs(**changes: Any) -> tuple[Any, ...]:
        return sequence(rng), sequence(rng, 7), decoders(rng, **changes)[0]

    told = {"dropout": OF_THREE, "attention_dropout": OF_HEADS, **_of_memory()}
    yield from _of_blocks(inputs, told, is_causal=True)


def _decoder(rng: Any) -> Iterator[Case]:
    def inputs(**changes: Any) -> tuple[Any, ...]:
        return sequence(rng), sequence(rng, 7), decoders(rng, layers=2, **changes)

    told = {"dropout": (OF_THREE, None), "attention_dropout": (None, OF_HEADS), **_of_memory()}
    yield from _of_blocks(inputs, told, is_causal=True)


def _of_memory() -> dict[str, Any]:
    return {"memory_mask": _scores(5, 7)["mask"]}


#: Dropout at the three places of a model of one block, and of one with two stacks.
OF_MODEL = {
    "dropout": (DROPPED,),
    "attention_dropout": (OF_HEADS,),
    "embedding_dropout": DROPPED[0],
}
OF_STACKS = {
    "dropout": ((DROPPED,), (OF_THREE,)),
    "attention_dropout": ((OF_HEADS,), None),
    "embedding_dropout": (None, DROPPED[0]),
}


def _of_models(init: Callable[..., Any], *more: Any) -> Callable[[Any], Iterator[Case]]:
    """Return what yields the options of a language model or a classifier."""

    def cases(rng: Any) -> Iterator[Case]:
        params, config = model(rng, init, *more)
        tokens = rng.integers(0, 11, (2, 5))
        for key, value in OF_MODEL.items():
            yield words(key), (tokens, params), {"config": config, key: value}

    return cases


def _language_model_loss(rng: Any) -> Iterator[Case]:
    yield from (cases := [*_of_models(init_language_model)(rng)])
    _, inputs, told = cases[0]
    targets = np.array([[0, 3, -100, 10, 2], [-100, 1, 1, 5, -100]])
    yield words("targets"), inputs, {"config": told["config"], "targets": targets}


def _classifier_loss(rng: Any) -> Iterator[Case]:
    for what, (tokens, params), told in _of_models(init_sequence_classifier, 3)(rng):
        yield what, (tokens, np.array([2, 0]), params), told


def _encoder_decoder(rng: Any) -> Iterator[Case]:
    params, config = model(rng, init_encoder_decoder_model)
    tokens = rng.integers(0, 11, (2, 5)), rng.integers(0, 11, (2, 4))
    for key, value in OF_STACKS.items():
        yield words(key), (*tokens, params), {"config": config, key: value}


def _encoder_decoder_loss(rng: Any) -> Iterator[Case]:
    yield from (cases := [*_encoder_decoder(rng)])
    _, inputs, told = cases[0]
    targets = np.array([[0, 3, -100, 10], [-100, 1, 1, 5]])
    yield words("targets"), inputs, {"config": told["config"], "targets": targets}


def _mlp(rng: Any, *, before: tuple[Any, ...] = (), after: tuple[Any, ...] = ()) -> Iterator[Case]:
    inputs = (*before, sequence(rng), *after, dense_layers(rng))
    yield words("dropout"), inputs, {"dropout": (np.linspace(0.0, 2.0, 12),)}


def _mlp_deltas(rng: Any) -> Iterator[Case]:
    yield from _mlp(rng, before=(rng.normal(size=(2, 5, 3)),))


def _mlp_loss(rng: Any) -> Iterator[Case]:
    yield from _mlp(rng, after=(rng.integers(0, 3, (2, 5)),))
    inputs = sequence(rng), rng.normal(size=(2, 5, 3)), dense_layers(rng)
    yield words("loss"), inputs, {"loss": "squared_error"}


def _vector_to_sequence(rng: Any) -> Iterator[Case]:
    inputs = "rnn", rng.normal(size=(2, 8)), cell_of(rng, 1)
    yield words("feed"), inputs, {"steps": 5, "feed": "first"}


def _cosine_schedule(_: Any) -> Iterator[Case]:
    yield words("floor"), (np.arange(12),), {"peak": 1.0, "steps": 9, "floor": 0.1}


TREES: dict[str, Callable[[Any], Iterator[Case]]] = {
    "multi_head_attention": _multi_head_attention,
    "encoder_block": _encoder_block,
    "encoder": _encoder,
    "decoder_block": _decoder_block,
    "decoder": _decoder,
    "language_model": _of_models(init_language_model),
    "language_model_loss": _language_model_loss,
    "sequence_classifier": _of_models(init_sequence_classifier, 3),
    "sequence_classifier_loss": _classifier_loss,
    "encoder_decoder_model": _encoder_decoder,
    "encoder_decoder_model_loss": _encoder_decoder_loss,
    "mlp": _mlp,
    "mlp_deltas": _mlp_deltas,
    "mlp_loss": _mlp_loss,
    "vector_to_sequence": _vector_to_sequence,
    "cosine_schedule": _cosine_schedule,
}
