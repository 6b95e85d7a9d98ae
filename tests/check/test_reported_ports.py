"""Mistakes of ports that people reported, planted in weights, options or functions."""

import dataclasses
import math

import numpy as np
import pytest
from check.test_changed_models import in_all_blocks, in_turn
from check.test_pieces import traced
from check.test_traces import V, filled

from dlref.check import first_difference, trace
from dlref.formulas.activations import sigmoid, softmax
from dlref.positions import rope_frequencies, rope_tables
from dlref.transformer import LanguageModelConfig, language_model

T = 12
ATTENTION, NETWORK = ("attention",), ("feed_forward",)
WEIGHTS = "blocks.0.attention.weights"


# Rows whose pairs of channels are in another order.


def as_neighbors(w, heads):
    """Bring rows of each head, in halves, in pairs of neighbors, as converters do."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def in_halves(w, heads):
    return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def model_of_heads(**changes):
    """Return a model whose heads are wide enough to tell all orders apart, and a text."""
    options = {"positions": "rope", "norm": "rms", "activation": "swiglu", "head_dim": 24}
    config = LanguageModelConfig(V, 32, 4, 2, **options | changes)
    return filled(config), config, np.random.default_rng(5).integers(0, V, T)


ORDERS = ("neighbors", "in halves"), ("halves", "as neighbors")
REORDERED = {
    "keys by the heads of queries": (
        ("w_k", "b_k"), 4,
        "the rows of w_k are reordered from {} to pairs {} as if there were 4 heads, not 2",
    ),
    "queries by the heads of keys": (
        ("w_q", "b_q"), 2,
        "the rows of w_q are reordered from {} to pairs {} as if there were 2 heads, not 4",
    ),
    "values, too": (("w_v", "b_v"), None, "the rows of w_v are reordered from {} to pairs {}, too"),
    "keys alone": (
        ("w_k", "b_k"), None, "w_k: pairs of channels are {1}, but {2} in w_q, as they are rotated",
    ),
    "queries alone": (
        ("w_q", "b_q"), None, "w_q: pairs of channels are {1}, but {2} in w_k, as they are rotated",
    ),
    "biases alone": (
        ("b_q", "b_k"), None,
        "b_q and b_k: pairs of channels are {1}, but {2} in the weights, as they are rotated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("to_halves", [True, False])
@pytest.mark.parametrize("name", REORDERED)
def test_rows_that_a_loader_brings_in_another_order(name, to_halves, interleaved):
    names, count, cause = REORDERED[name]
    params, config, ids = model_of_heads(blocks={"rope_interleaved": interleaved})
    there, back = (in_halves, as_neighbors) if to_halves else (as_neighbors, in_halves)

    def change(a):
        reordered = {}
        for n in names:
            w, heads = getattr(a, n), 4 if n[-1] == "q" else 2
            if count is None:
                reordered[n] = there(w, heads)
            elif to_halves == interleaved:  # the file has the order of the weights here
                reordered[n] = back(there(w, count), heads)
            else:
                reordered[n] = there(back(w, heads), count)
        return a._replace(**reordered)

    right = trace(language_model, ids, params, config)
    port = trace(language_model, ids, in_all_blocks(params, ATTENTION, change), config)
    seen = {n: a for n, a in port.items() if not n.endswith((".q", ".k", ".v", "_rotated"))}
    before, after = ORDERS[0 if to_halves else 1]
    other = ORDERS[1 if to_halves else 0][1]
    text = cause.format(before, after, other)
    found = first_difference(right, seen)
    assert text in found.cause.split(", or ")
    assert found.then is None


def test_values_of_odd_width_have_no_pairs():
    params, config, ids = model_of_heads()
    narrow = in_all_blocks(params, ATTENTION, lambda a: a._replace(
        w_v=a.w_v[:10], b_v=a.b_v[:10], w_o=a.w_o[:, :20]))  # fmt: skip
    right = trace(language_model, ids, narrow, config)
    causes = [cause for cause, _ in right.mistakes["blocks.0.out"]()]
    assert any(cause.startswith("the rows of w_k are reordered") for cause in causes)
    assert not any("w_v are reordered" in cause for cause in causes)


# Rotations.


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 40}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12}
YARN |= {"beta_fast": 4.0, "beta_slow": 0.25}


def rotated(scaling, **changes):
    """Return a trace and its tokens, of a model with such a rotation."""
    params, config, ids = model_of_heads(rope_scaling=scaling, **changes)
    return trace(language_model, ids, params, config)


def said_of(right, frequencies, factor=1.0):
    """Return what is said of a port of the first block whose rotation has other frequencies."""
    options, run = right.parts["blocks.0.out"]
    tables = rope_tables(np.arange(T), np.asarray(frequencies), attention_factor=factor)
    port = run(options | {"rope": tables})
    return first_difference(right, {WEIGHTS: port[WEIGHTS]}).cause


def blended(blend, share=lambda s: s, by="turns"):
    """Return LLaMA 3's frequencies as a loop over pairs, as its own code has them."""
    s, low, high, length = 8.0, 1.0, 4.0, 40
    found = []
    for f in rope_frequencies(24):
        wavelength = 2 * math.pi / f
        if wavelength < length / high:
            found.append(f)
        elif wavelength > length / low:
            found.append(f / s)
        elif by == "turns":
            found.append(blend(f, s, share((length / wavelength - low) / (high - low))))
        else:
            most, least = length / low, length / high
            found.append(blend(f, s, share((most - wavelength) / (most - least))))
    return found


def of_frequencies(f, s, kept):
    return kept * f + (1 - kept) * f / s


def of_wavelengths(f, s, kept):
    return 1 / (kept / f + (1 - kept) * s / f)


BLENDS = {
    "wavelengths are blended instead of frequencies": blended(of_wavelengths),
    "the blending weights are exchanged": blended(of_frequencies, lambda k: 1 - k),
    "wavelengths are blended instead of frequencies, "
    "and the blending weights are exchanged": blended(of_wavelengths, lambda k: 1 - k),
    "frequencies are kept instead of blended": blended(lambda f, s, kept: f),
    "frequencies are divided instead of blended": blended(lambda f, s, kept: f / s),
    "the blending weights follow the wavelength, not the frequency": (
        blended(of_frequencies, by="wavelength")
    ),
    "the blending weights follow the wavelength, not the frequency, and are exchanged": (
        blended(of_frequencies, lambda k: 1 - k, by="wavelength")
    ),
}


@pytest.mark.parametrize("message", BLENDS)
def test_another_blend_of_frequencies(message):
    right = rotated(LLAMA3)
    assert said_of(right, BLENDS[message]) == f"{message} in the scaling of the rotation"


def test_the_loop_is_llama3():
    np.testing.assert_allclose(blended(of_frequencies), rope_frequencies(24, scaling=LLAMA3))


def test_a_ramp_of_yarn_that_is_turned_around():
    right, plain = rotated(YARN), rope_frequencies(24)
    exchanged = plain + plain / 4 - rope_frequencies(24, scaling=YARN)
    message = "frequencies that are kept and divided are exchanged in the scaling of the rotation"
    assert said_of(right, exchanged, 0.1 * math.log(4) + 1) == message


@pytest.mark.parametrize(
    "changes",
    [{"factor": 5.0}, {"low_freq_factor": 0.5}, {"high_freq_factor": 7.0},
     {"original_max_position_embeddings": 64}],
)  # fmt: skip
def test_another_option_of_a_scaling(changes):
    right, [(name, value)] = rotated(LLAMA3), changes.items()
    cause = said_of(right, rope_frequencies(24, scaling=LLAMA3 | changes))
    message = f"the option {name} of the rotation's scaling is {value:.4g} instead of "
    assert f"{message}{LLAMA3[name]:.4g}" in cause.split(", or ")


MSCALES = {"mscale": 0.5, "mscale_all_dim": 0.2}


@pytest.mark.parametrize("name", ["attention_factor", "mscale"])
def test_an_option_of_a_scaling_that_is_ignored(name):
    given = {"attention_factor": 0.9} if name == "attention_factor" else MSCALES
    scaling = YARN | given
    frequencies = rope_frequencies(24, scaling=YARN)
    cause = said_of(rotated(scaling), frequencies, 0.1 * math.log(4) + 1)
    assert f"the option {name} of the rotation's scaling is ignored" in cause.split(", or ")


def test_another_attention_factor():
    right = rotated(YARN, rope_dim=12)
    cause = said_of(right, rope_frequencies(12, scaling=YARN), 1.3)
    usual = 0.1 * math.log(4) + 1
    message = "the option attention_factor of the rotation's scaling is 1.3 instead of "
    assert cause == f"{message}{usual:.4g}"


def test_frequencies_of_all_channels_where_some_are_rotated():
    right = rotated(None, rope_dim=12)
    message = "the frequencies are the first ones of 24 channels, not the ones of 12"
    assert message in said_of(right, rope_frequencies(24)[:6]).split(", or ")


def test_pairs_that_are_halves_of_a_head():
    """Frequencies that are padded with zeros turn a channel together with a wrong one."""
    params, config, ids = model_of_heads(rope_dim=12, blocks={"rope_interleaved": False})
    right = trace(language_model, ids, params, config)
    angles = np.arange(T)[:, None] * np.concatenate([rope_frequencies(12), np.zeros(6)])

    def turned(x):
        first, second = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    q, k = (turned(right[f"blocks.0.attention.{name}"]) for name in "qk")
    scores = q @ np.repeat(k, 2, axis=0).swapaxes(-1, -2) / 24**0.5
    scores[:, np.triu(np.ones((T, T)), 1) == 1] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    message = "the pairs of channels are halves of a head, not of its rotated channels"
    assert first_difference(right, {WEIGHTS: weights}).cause == message


@pytest.mark.parametrize(
    ("changes", "which"),
    [
        ({"base": 300.0}, "the base of the rotation"),
        ({"scaling": YARN}, "the scaling of the rotation"),
        ({"dim": 12}, "the number of rotated channels"),
    ],
)
def test_one_setting_of_the_rotation_of_another_block(changes, which):
    """As where the scaling of Gemma 3's full attention reaches its windows, too."""
    other = {"rope": {"base": 300.0, "scaling": YARN, "dim": 12}}
    right = rotated(None, blocks=({"window": (3, 0)}, other))
    width = changes.get("dim", 24)
    frequencies = rope_frequencies(width, **{n: v for n, v in changes.items() if n != "dim"})
    cause = said_of(right, frequencies, 0.1 * math.log(4) + 1 if "scaling" in changes else 1.0)
    assert f"the block has {which} of block 1" in cause.split(", or ")


def test_a_scaling_without_a_factor():
    factors = {"short_factor": np.linspace(1, 2, 12), "long_factor": np.linspace(2, 3, 12)}
    scaling = {"rope_type": "longrope", "original_max_position_embeddings": 40} | factors
    right = rotated(scaling)
    assert said_of(right, rope_frequencies(24)) == "the scaling of the rotation is missing"
    assert said_of(right, rope_frequencies(24, scaling=scaling), 1.2) != ""


# Scores and sinks.


def test_scores_that_are_capped_before_their_scale():
    _, _, own, right = traced("gemma2")
    scale, cap = own.blocks[1]["scale"], own.blocks[1]["softcap"]
    q, k = (right[f"blocks.1.attention.{name}_rotated"] for name in "qk")
    products = q @ np.repeat(k, 2, axis=-3).swapaxes(-1, -2)
    scores = scale * cap * np.tanh(products / cap)
    scores[..., np.triu(np.ones(scores.shape[-2:]), 1) == 1] = -np.inf
    found = first_difference(right, {"blocks.1.attention.scores": scores})
    message = "the scores are capped before they are multiplied by their scale"
    assert message in found.cause.split(", or ")


SINKS = {
    "the sinks are multiplied by 0.3536, like scores": lambda sink: sink * 8**-0.5,
    "the sinks are divided by 0.3536, too": lambda sink: sink * 8**0.5,
    "the sinks are 0: the sums of the weights have 1 more below": lambda sink: 0 * sink,
    "the sinks have the opposite sign": lambda sink: -sink,
    "the sinks go from key head to key head first, not through the queries of one": (
        lambda sink: sink[[0, 2, 1, 3]]
    ),
}


@pytest.mark.parametrize("message", SINKS)
def test_other_sinks(message):
    _, params, _, right = traced("gpt_oss")
    scores = right["blocks.0.attention.scores"]
    sink = SINKS[message](params.blocks[0].attention.sink)[:, None, None]
    weights = np.exp(scores) / (np.exp(scores).sum(-1, keepdims=True) + np.exp(sink))
    assert first_difference(right, {WEIGHTS: weights}).cause == message


# Experts.


def largest(scores, k, of=None):
    chosen = np.argsort(-scores, axis=-1)[..., :k]
    return np.take_along_axis(scores if of is None else of, chosen, axis=-1)


def normalized(weights):
    return weights / weights.sum(-1, keepdims=True)


ROUTERS = {
    "the experts' weights are the router's logits, not their scores": (
        "qwen3_moe", 0, lambda logits, c: largest(logits, 2),
    ),
    "the router's scores are computed by sigmoid, "
    "and the weights are normalized to the sum 1": (
        "qwen3_moe", 0, lambda logits, c: normalized(largest(sigmoid(logits), 2)),
    ),
    "the router's scores are computed by softmax, and the weights are not normalized": (
        "minimax_m2", 0, lambda logits, c: largest(softmax(logits) + c, 2, softmax(logits)),
    ),
    "the correction is added to the router's logits, not to their scores": (
        "minimax_m2", 0, lambda logits, c: normalized(largest(sigmoid(logits + c), 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", ROUTERS)
def test_other_weights_of_experts(message):
    kind, variant, weigh = ROUTERS[message]
    _, params, _, right = traced(kind, variant)
    weights = weigh(right["blocks.0.feed_forward.router"], params.blocks[0].feed_forward.correction)
    found = first_difference(right, {"blocks.0.feed_forward.weights": weights})
    assert message in found.cause.split(", or ")


def test_weights_that_are_neither_normalized_nor_scaled():
    ids, params, own, _ = traced("minimax_m2")
    blocks = own.blocks | {"router": own.blocks["router"] | {"scale": 2.5}}
    right = trace(language_model, ids, params, dataclasses.replace(own, blocks=blocks))
    scores = sigmoid(right["blocks.0.feed_forward.router"])
    weights = largest(scores + params.blocks[0].feed_forward.correction, 2, scores)
    found = first_difference(right, {"blocks.0.feed_forward.weights": weights})
    message = "the weights of the experts are neither normalized nor multiplied by the scale"
    assert found.cause == message


@pytest.mark.parametrize("factor", [2.5, 0.4, 0.7])
def test_another_factor_of_a_shared_expert(factor):
    ids, params, own, right = traced("deepseek_v3", 2)

    def change(shared):
        return shared._replace(w_down=shared.w_down * factor)

    changed = in_all_blocks(params, ("feed_forward", "shared"), change)
    port = trace(language_model, ids, changed, own)
    found = first_difference(right, port)
    done = {2.5: "multiplied by 2.5, too", 0.4: "divided by 2.5", 0.7: "multiplied by 0.7"}[factor]
    assert (found.cause, found.then) == (f"the output of the shared expert is {done}", None)


# Norms, sums and embeddings.


def rms(x, weight, eps):
    return x * weight / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def test_a_weight_before_the_mean_square():
    _, params, own, right = traced("granite")
    x, weight = right["embedding"], params.blocks[0].norm1.weight
    port = {"blocks.0.norm1": rms(x * weight, 1, own.eps)}
    last = right["blocks.2.out"] * params.norm.weight
    message = "inputs of the norms are multiplied by the weight before their mean square"
    assert first_difference(right, port).cause == message
    assert first_difference(right, {"norm": rms(last, 1, own.eps)}).cause == message


def test_norms_of_queries_over_parts_of_the_heads():
    _, params, own, right = traced("olmo2")
    q, w = right["blocks.0.attention.q"][0], params.blocks[0].attention.q_norm
    rows = q.swapaxes(0, 1).reshape(len(q[0]), -1)
    parts = rms(rows.reshape(len(rows), 2, -1), 1, own.eps).reshape(rows.shape) * w
    port = parts.reshape(1, len(rows), *q.shape[::2]).swapaxes(1, 2)
    found = first_difference(right, {"blocks.0.attention.q_normed": port})
    assert found.cause == "the norms of queries and keys go over 2 parts of the heads one by one"


@pytest.mark.parametrize("both", [True, False])
def test_epsilon_of_norms_of_outputs(both):
    _, params, _, right = traced("gemma2")
    weight = 1 + params.blocks[0].output_norm1.weight
    first = rms(right["blocks.0.attention.out"], weight, 0.01)
    x = right["embedding"] + first
    port = {"blocks.0.output_norm1": first, "blocks.0.sum1": x}
    if both:
        run = right.parts["blocks.0.out"][1]
        options = right.parts["blocks.0.out"][0]
        port = run(options | {"eps_of": dict.fromkeys(("output_norm1", "output_norm2"), 0.01)})
        np.testing.assert_allclose(port["blocks.0.output_norm1"], first)
    message = "eps of output_norm1 is 0.01 instead of 1e-06"
    if both:
        message = "eps of the norms of the sub-layers' outputs is 0.01 instead of 1e-06"
    assert message in first_difference(right, port).cause.split(", or ")


@pytest.mark.parametrize("which", ["first", "second"])
def test_one_sum_that_takes_a_normalized_input(which):
    _, _, _, right = traced("qwen3")
    one, two = {"first": (1, "attention"), "second": (2, "feed_forward")}[which]
    total = right[f"blocks.0.norm{one}"] + right[f"blocks.0.{two}.out"]
    found = first_difference(right, {f"blocks.0.sum{one}": total})
    said = {"first": "the attention", "second": "its sub-layer"}[which]
    message = f"the {which} sum takes the normalized input of {said}, not the input itself"
    assert message in found.cause.split(", or ")


@pytest.mark.parametrize(
    ("factor", "done"),
    [
        (32.0, "the root of D twice"),
        (5.65625, "the root of D rounded to bfloat16 or float16, 5.65625"),
    ],
)
def test_another_factor_of_embeddings(factor, done):
    ids, params, _, right = traced("gemma")
    port = {"embedding": params.embedding[ids] * factor}
    assert first_difference(right, port).cause == f"the embeddings are multiplied by {done}"


@pytest.mark.parametrize(("scale", "names"), [(40**0.5, ("bfloat16", "float16")), (8.0, ())])
def test_factors_that_16_bits_tell_apart(scale, names):
    ids, params, own, _ = traced("gemma")
    own = dataclasses.replace(own, embedding_scale=scale, scale_embeddings=None)
    causes = dict(trace(language_model, ids, params, own).mistakes["embedding"]())
    found = {c.split("rounded to ")[1].split(",")[0] for c in causes if "rounded" in c}
    assert found == {*names}


# Matrices that several processors have.


def test_rows_of_processors_are_read_as_parts():
    ids, params, own, right = traced("gemma")

    def change(network):
        gate, up = np.split(in_turn([network.w_gate, network.w_up], 4), 2)
        return network._replace(w_gate=gate, w_up=up)

    port = trace(language_model, ids, in_all_blocks(params, ("feed_forward",), change), own)
    found = first_difference(right, port)
    message = "gate_up is read in two parts, not as 4 processors have their rows"
    assert (found.cause, found.then) == (message, None)
