"""Traces of models, and mistakes planted in a port that is written out in NumPy."""

import dataclasses
import pathlib
import re

import numpy as np
import peers
import pytest

from dlref.activations import gelu, silu
from dlref.attention import AttentionParams
from dlref.check import TraceDifference, first_difference, trace
from dlref.formulas import transformer as formulas
from dlref.formulas.activations import softmax
from dlref.neurons import mlp
from dlref.positions import rope_frequencies, rope_tables
from dlref.transformer import (
    DecoderBlockParams,
    EncoderBlockParams,
    FeedForwardParams,
    LanguageModelConfig,
    NormParams,
    decoder,
    decoder_block,
    encoder,
    encoder_block,
    encoder_decoder_model,
    encoder_decoder_weights,
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
    language_model,
    language_model_trace,
    sequence_classifier,
)

V, D, H, T = 13, 32, 4, 6
E = D // H
CONFIGS = {
    "gpt2": LanguageModelConfig(V, D, H, activation="gelu_tanh"),
    "llama": LanguageModelConfig(
        V, D, H, 2, positions="rope", norm="rms", activation="swiglu", tied=False, biases=False
    ),
    "scaled rotation": LanguageModelConfig(
        V, D, H, 1, positions="rope", rope_scaling={"type": "linear", "factor": 2.0}
    ),
    "2017": LanguageModelConfig(
        V, D, H, positions="sinusoidal", activation="relu", norm_first=False
    ),
    "alibi": LanguageModelConfig(V, D, H, positions="alibi", activation="geglu"),
    "t5": LanguageModelConfig(V, D, H, positions="t5", norm="rms", tied=False),
    "nothing": LanguageModelConfig(V, D, H, positions="none", num_layers=1),
}


def filled(config, init=init_language_model):
    """Return parameters none of which is zero or one."""
    rng = np.random.default_rng(0)
    params = init(rng, config)

    def moved(tree):
        if isinstance(tree, tuple):
            parts = [moved(part) for part in tree]
            return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
        return None if tree is None else tree + rng.normal(0, 0.3, tree.shape)

    return moved(params)


@pytest.fixture(params=CONFIGS)
def model(request, rng):
    config = CONFIGS[request.param]
    return rng.integers(0, V, (2, T)), filled(config), config


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


class TestTrace:
    def test_ends_where_the_model_does(self, model):
        steps = trace(language_model, *model)
        close(steps["logits"], language_model(*model))
        assert list(steps)[-1] == "logits"

    def test_stream_and_weights(self, model):
        steps, want = trace(language_model, *model), language_model_trace(*model)
        first = "positioned" if "positioned" in steps else "embedding"
        names = [first, *(f"blocks.{i}.out" for i in range(model[2].num_layers))]
        for name, array in zip(names, want.residual, strict=True):
            close(steps[name], array)
        for i, array in enumerate(want.weights):
            close(steps[f"blocks.{i}.attention.weights"], array)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_dtypes(self, dtype, rng):
        config = CONFIGS["llama"]
        params = init_language_model(rng, config, dtype=dtype)
        steps = trace(language_model, np.arange(5), params, config)
        assert {a.dtype for a in steps.values()} == {np.dtype(dtype)}

    def test_float16_is_computed_in_float32(self, rng):
        config = CONFIGS["llama"]
        params = init_language_model(rng, config, dtype=np.float16)
        steps = trace(language_model, np.arange(5), params, config)
        assert {a.dtype for a in steps.values()} == {np.dtype(np.float32)}
        want = language_model(np.arange(5), params, config)
        np.testing.assert_array_equal(steps["logits"].astype(np.float16), want)

    def test_parameters_of_pytorch(self, rng):
        config, torch = CONFIGS["gpt2"], peers.torch
        params = filled(config)

        def tensors(tree):
            if isinstance(tree, tuple):
                parts = [tensors(part) for part in tree]
                return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
            return None if tree is None else torch.tensor(tree, requires_grad=True)

        want = trace(language_model, np.arange(5), params, config)
        got = trace(language_model, torch.arange(5), tensors(params), config)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)

    def test_options_of_blocks_and_stacks(self, rng):
        params, x = filled(CONFIGS["gpt2"]), rng.normal(size=(2, T, D))
        options = {"num_heads": H, "norm_first": True, "scale": 0.7, "softcap": 2.0, "eps": 0.1}
        options |= {"mask": np.tri(T, dtype=bool), "bias": rng.normal(size=(H, T, T))}
        options |= {"window": (3, 3), "rope": rope_tables(np.arange(T), rope_frequencies(E))}
        steps = trace(encoder_block, x, params.blocks[0], **options)
        close(steps["out"], encoder_block(x, params.blocks[0], **options))
        steps = trace(encoder, x, params.blocks, params.norm, **options)
        close(steps["norm"], encoder(x, params.blocks, params.norm, **options))
        assert list(trace(encoder, x, params.blocks, **options))[-1] == "blocks.1.out"

    def test_errors(self, rng):
        with pytest.raises(
            TypeError,
            match=r"^Argument 'model' must be one of .*_model, sequence_classifier, mlp, not",
        ):
            trace(np.sin, 1.0)
        params = filled(CONFIGS["gpt2"])
        factors = (np.ones((T, D)), None)
        with pytest.raises(ValueError, match=r"^Argument 'dropout' must be None: a trace"):
            trace(encoder_block, np.ones((T, D)), params.blocks[0], num_heads=H, dropout=factors)
        block = params.blocks[0][:3]
        for model, what, name in (
            (encoder_block, block, "params"),
            (encoder, [block], r"params\[0\]"),
        ):
            with pytest.raises(
                TypeError, match=rf"^Argument '{name}' must be EncoderBlockParams\("
            ):
                trace(model, np.ones((T, D)), what, num_heads=H)
        with pytest.raises(ValueError, match="multiple of 3, not 32"):
            trace(encoder_block, np.ones((T, D)), params.blocks[0], num_heads=3)


# A port in plain NumPy, with mistakes that can be switched on.


def turned(x, halves=False, sign=1, base=10000.0, start=0):
    angles = np.outer(sign * np.arange(T) + start, base ** (-np.arange(0, E, 2) / E))
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = (x[..., : E // 2], x[..., E // 2 :]) if halves else (x[..., ::2], x[..., 1::2])
    parts = [a * cos - b * sin, b * cos + a * sin]
    if halves:
        return np.concatenate(parts, axis=-1)
    return np.stack(parts, axis=-1).reshape(x.shape)


def to_halves(w, heads):
    order = np.r_[0:E:2, 1:E:2]
    return np.concatenate([w[h * E : (h + 1) * E][order] for h in range(heads)])


class Port:
    """A causal block: norms first, with rotation and grouped heads, SwiGLU or GELU."""

    def __init__(self, p, bug="", keys=H, stored="neighbors"):
        self.p, self.bug, self.keys, self.stored, self.seen = p, bug, keys, stored, {}

    def normed(self, x, p):
        rms = (p.bias is None) != (self.bug == "norm")
        x = x if rms else x - x.mean(-1, keepdims=True)
        eps = 1e-12 if self.bug == "eps" else 1e-5
        weight = p.weight + 1 if self.bug == "gemma" else p.weight
        n = {"n - 1": D - 1, "sum": 1}.get(self.bug, D)
        y = weight * x / np.sqrt((x**2).sum(-1, keepdims=True) / n + eps)
        return y if p.bias is None or self.bug == "norm bias" else y + p.bias

    def heads(self, x, w, b, count):
        y = x @ w.T + (0 if b is None or self.bug == "bias" else b)
        if self.bug == "cut":
            return y.reshape(count, T, E)
        if self.bug == "through":
            return y.reshape(T, E, count).transpose(2, 0, 1)
        return y.reshape(T, count, E).swapaxes(0, 1)

    def attend(self, x, p):
        w_q, w_k = p.w_q, p.w_k
        if self.stored == "halves":
            w_q, w_k = to_halves(w_q, H), to_halves(w_k, self.keys)
        b = [None] * 3 if p.b_q is None else list(p[4:7])
        if self.stored == "halves" and b[0] is not None:
            b[:2] = to_halves(b[0], H), to_halves(b[1], self.keys)
        w = self.fused(w_q, w_k, p.w_v)
        b = self.fused(*b) if b[0] is not None else b
        q, k, v = (self.heads(x, *a) for a in zip(w, b, (H, self.keys, self.keys), strict=True))
        k, v = (v, k) if self.bug == "exchanged" else (k, v)
        q, v = (v, q) if self.bug == "queries" else (q, v)
        q = 2 * q if self.bug == "double" else q
        self.seen |= {"attention.q": q, "attention.k": k, "attention.v": v}
        if self.bug != "unrotated":
            halves = (self.stored == "halves") != (self.bug == "pairs")
            options = {"backwards": {"sign": -1}, "base": {"base": 5e5}, "late": {"start": 1}}
            options["from the end"] = {"sign": -1, "start": T - 1}
            options["between"] = {"base": 1e5}
            q, unturned = turned(q, halves, **options.get(self.bug, {})), k
            k = unturned if self.bug == "keys" else turned(k, halves, **options.get(self.bug, {}))
            v = turned(v, halves) if self.bug == "values" else v
        self.seen |= {"attention.q_rotated": q, "attention.k_rotated": k}
        n = H // self.keys
        k, v = (
            np.tile(a, (n, 1, 1)) if self.bug == "tiled" else np.repeat(a, n, 0) for a in (k, v)
        )
        scales = {"scale": 1.0, "root": D**-0.5, "times": E**0.5}
        s = q @ k.swapaxes(1, 2) * scales.get(self.bug, E**-0.5)
        shift = {"blind": 0, "peeks": 2, "mask": T}.get(self.bug, 1)
        s = np.where(np.triu(np.ones((T, T), bool), shift), -np.inf, s)
        if self.bug == "blind":
            s[:, 0, 0] = 0.0  # a row has to see something
        over = softmax(s.swapaxes(1, 2)).swapaxes(1, 2) if self.bug == "axis" else softmax(s)
        y = (over @ v).swapaxes(0, 1).reshape(T, D)
        y = (over @ v).reshape(T, D) if self.bug == "merge" else y
        self.seen["attention.weights"] = over
        return y @ (p.w_o if self.bug == "transposed" else p.w_o.T) + (
            0 if p.b_o is None else p.b_o
        )

    def fused(self, q, k, v):
        """Write three projections below each other in one order, and read them in another."""
        if self.bug == "by heads":
            rows = np.concatenate([q, k, v])
            cut = [rows[3 * h * E : 3 * (h + 1) * E] for h in range(H)]
            return [np.concatenate([a[i * E : (i + 1) * E] for a in cut]) for i in range(3)]
        if self.bug == "by thirds":
            heads = [a[h * E : (h + 1) * E] for h in range(H) for a in (q, k, v)]
            return np.split(np.concatenate(heads), 3)
        return q, k, v

    def network(self, x, p):
        if hasattr(p, "w_gate"):
            gate, up = x @ p.w_gate.T, x @ p.w_up.T
            if self.bug == "gate":
                gate, up = up, gate
            hidden = silu(gate) * up
            return hidden, hidden @ p.w_down.T
        approximate = "none" if self.bug == "activation" else "tanh"
        hidden = gelu(x @ p.w1.T + p.b1, approximate=approximate)
        return hidden, hidden @ p.w2.T + p.b2

    def __call__(self, x):
        p = self.p
        if self.bug == "post":
            x = self.seen["sum1"] = x + self.attend(x, p.attention)
            x = self.normed(x, p.norm1)
            return self.seen | {"out": self.normed(x + self.network(x, p.feed_forward)[1], p.norm2)}
        given, raw = x, self.bug == "raw"
        norm1, norm2 = (p.norm2, p.norm1) if self.bug == "norms" else (p.norm1, p.norm2)
        z = self.seen["norm1"] = self.normed(x, norm1)
        y = self.seen["attention.out"] = self.attend(x if raw else z, p.attention)
        x = self.seen["sum1"] = y + {"left 1": 0, "normed": z}.get(self.bug, x)
        z = self.normed(given if self.bug == "parallel" else x, norm2)
        self.seen["norm2"] = z
        hidden, y = self.network(x if raw else z, p.feed_forward)
        x = y + {"left 2": 0, "normed": z}.get(self.bug, x)
        return self.seen | {"feed_forward.hidden": hidden, "feed_forward.out": y, "out": x}


def problem(name):
    """Return input, parameters of a block, its options, and the number of key heads."""
    config = CONFIGS[name]
    x = np.random.default_rng(1).normal(size=(T, D))
    tables = rope_tables(np.arange(T), rope_frequencies(E))
    options = {
        "num_heads": H,
        "num_kv_heads": config.num_kv_heads,
        "norm_first": True,
        "rope": tables,
    }
    activation = {"swiglu": "silu"}.get(config.activation, config.activation)
    options |= {"is_causal": True, "activation": activation, "norm": config.norm}
    return x, filled(config).blocks[0], options, config.num_kv_heads


BUGS = {
    "pairs": ("attention.q_rotated", "channels are rotated as halves, while the weights have"),
    "unrotated": ("attention.q_rotated", "queries and keys are not rotated"),
    "backwards": ("attention.q_rotated", "the rotation goes backwards"),
    "base": ("attention.q_rotated", "the base of the rotation is 500000"),
    "late": ("attention.q_rotated", "positions begin at 1, which changes no score"),
    "from the end": ("attention.q_rotated", "positions are counted from the end"),
    "exchanged": ("attention.k", "keys and values are exchanged"),
    "through": ("attention.q", "the rows of the projections go from head to head first"),
    "gemma": ("norm1", "the weight of norm1"),
    "double": ("attention.q", "it is multiplied by 2"),
    "scale": ("attention.weights", "the scores are not scaled"),
    "mask": ("attention.weights", "the causal mask is missing"),
    "peeks": ("attention.weights", "the causal mask shows one token too many"),
    "transposed": ("attention.out", "attention.w_o is transposed"),
    "eps": ("norm1", "eps is 1e-12 instead of 1e-05"),
    "post": ("attention.q", "the norms come after the sums"),
    "raw": ("attention.q", "the sub-layers read their inputs before the norms"),
    "n - 1": ("norm1", "the sum of squares is divided by n - 1 instead of n in norm1 and norm2"),
    "sum": ("norm1", "the sum of squares is divided by 1 instead of n in norm1 and norm2"),
    "norms": ("norm1", "norm1 and norm2 are exchanged"),
    "cut": ("attention.q", "projections are cut into heads by a reshape that mixes"),
    "merge": ("attention.out", "heads are joined by a reshape that mixes"),
    "axis": ("attention.weights", "the softmax goes over the queries instead of the keys"),
    "keys": ("attention.k_rotated", "keys are not rotated"),
    "values": ("attention.out", "values are rotated, too"),
    "between": ("attention.q_rotated", "the base of the rotation is 100000"),
    "root": ("attention.weights", "the scores are divided by the root of H E instead of E"),
    "times": ("attention.weights", "the scores are multiplied by the root of E"),
    "left 1": ("sum1", "the first sum leaves out the input of the block"),
    "left 2": ("out", "the second sum leaves out what the first one gave"),
    "normed": ("sum1", "the sums take the normalized input of a sub-layer"),
    "parallel": ("norm2", "all sub-layers read the input of the block"),
}
LAYER = BUGS | {
    "norm": ("norm1", "the normalization is that of rms norm"),
    "activation": ("feed_forward.hidden", "the activation is gelu"),
    "norm bias": ("norm1", "the bias of norm1 and norm2 is missing"),
    "by heads": ("attention.q", "a fused projection is read head by head, as (H, 3, E)"),
    "by thirds": ("attention.q", "a fused projection is read in three parts, not head by head"),
    "queries": ("attention.q", "queries and values are exchanged"),
    "bias": ("attention.q", "the biases of queries, keys and values in attention are missing"),
}
RMS = BUGS | {
    "gate": ("feed_forward.hidden", "w_gate and w_up are exchanged"),
    "tiled": ("attention.weights", "query head h uses key head h mod Hk"),
}
PLANTED = [("gpt2", bug, *said) for bug, said in LAYER.items()]
PLANTED += [("llama", bug, *said) for bug, said in RMS.items()]


class TestFirstDifference:
    @pytest.mark.parametrize("name", ["gpt2", "llama"])
    @pytest.mark.parametrize("stored", ["neighbors", "halves"])
    def test_a_right_port(self, name, stored):
        x, p, options, keys = problem(name)
        steps = trace(encoder_block, x, p, **options)
        assert first_difference(steps, Port(p, keys=keys, stored=stored)(x)) is None

    @pytest.mark.parametrize(("name", "bug", "where", "why"), PLANTED)
    def test_planted_mistakes(self, name, bug, where, why):
        x, p, options, keys = problem(name)
        steps = trace(encoder_block, x, p, **options)
        difference = first_difference(steps, Port(p, bug, keys)(x))
        assert difference.name == where
        assert difference.cause.startswith(why)
        assert difference.then is None
        assert where not in difference.agreed
        assert difference.num_wrong > 0

    def test_halves_rotated_as_neighbours(self):
        x, p, options, keys = problem("llama")
        steps = trace(encoder_block, x, p, **options)
        difference = first_difference(steps, Port(p, "pairs", keys, "halves")(x))
        assert difference.name == "attention.q_rotated"
        assert difference.cause == (
            "neighboring channels are rotated together, while the weights have pairs in halves"
        )
        assert difference.notes == ("attention.q, attention.k: pairs of channels in halves",)
        want = r"^attention.q_rotated differs in \d+ of 192 elements: at .*; neighboring channels"
        assert re.match(want, str(difference))

    def test_later_steps_only(self):
        """With the output alone, the cause is still found, as it is the only one."""
        for name, bug, _, why in PLANTED:
            if bug in ("eps", "double"):
                continue  # too small to be seen through the block in every case; no known mistake
            x, p, options, keys = problem(name)
            steps = trace(encoder_block, x, p, **options)
            difference = first_difference(steps, {"out": Port(p, bug, keys)(x)["out"]})
            if bug == "late":
                assert difference is None
                continue
            assert difference.name == "out"
            same_scores = {"from the end": "the rotation goes backwards"}
            assert difference.cause.startswith(same_scores.get(bug, why)) or bug == "pairs"
            assert difference.agreed == ()

    def test_a_weight_of_the_norm_that_is_left_out(self):
        x, p, options, _ = problem("llama")
        right = trace(encoder_block, x, p, **options)
        plain = {name: getattr(p, name)._replace(weight=np.ones(D)) for name in ("norm1", "norm2")}
        wrong = trace(encoder_block, x, p._replace(**plain), **options)
        for other in (wrong, {"out": wrong["out"]}):
            cause = first_difference(right, other).cause
            assert cause == "the weight of norm1 and norm2 is missing"
        difference = first_difference(right, {"norm1": wrong["norm1"]})
        both_missing = "the weight of norm1 and norm2 is missing"  # the same numbers here
        assert difference.cause == f"the weight of norm1 is missing, or {both_missing}"
        once = trace(encoder_block, x, p._replace(norm1=plain["norm1"]), **options)
        assert first_difference(right, once).cause == "the weight of norm1 is missing"

    def test_one_position_tells_nothing_of_the_next(self):
        x, p, options, _ = problem("llama")
        options["rope"] = tuple(table[:1] for table in options["rope"])
        steps = trace(encoder_block, x[:1], p, **options)
        other = {"attention.q_rotated": steps["attention.q_rotated"] + 1}
        assert not first_difference(steps, other).cause

    def test_several_weights_at_once(self):
        x, p, options, _ = problem("gpt2")
        right = trace(encoder_block, x, p, **options)
        a = p.attention
        turned = {name: getattr(a, name).T for name in ("w_q", "w_k", "w_v", "w_o")}
        for names, message in (
            (("w_q", "w_k", "w_v"), "the weights of queries, keys and values in attention are"),
            (tuple(turned), "all weights of attention are"),
        ):
            changed = a._replace(**{name: turned[name] for name in names})
            wrong = trace(encoder_block, x, p._replace(attention=changed), **options)
            for other in (wrong, {"out": wrong["out"]}):
                assert first_difference(right, other).cause == f"{message} transposed"
        plain = p.attention._replace(b_q=None, b_k=None, b_v=None, b_o=None)
        wrong = trace(encoder_block, x, p._replace(attention=plain), **options)
        assert first_difference(right, wrong).cause == "all biases of attention are missing"

    def test_fused_projections_without_biases(self):
        _, p, options, _ = problem("llama")
        a, x = (
            filled(CONFIGS["gpt2"]).blocks[0].attention,
            np.random.default_rng(1).normal(size=(T, D)),
        )
        p = p._replace(attention=AttentionParams(a.w_q, a.w_k, a.w_v, a.w_o))
        options["num_kv_heads"] = H
        right = trace(encoder_block, x, p, **options)
        assert first_difference(right, Port(p)(x)) is None
        difference = first_difference(right, Port(p, "by heads")(x))
        assert difference.name == "attention.q"
        assert difference.cause.startswith("a fused projection is read head by head")

    def test_parameters_of_another_block(self):
        config = dataclasses.replace(CONFIGS["gpt2"], num_layers=4)
        params, ids = filled(config), np.arange(T)
        right = trace(language_model, ids, params, config)
        for order, name, j in (((0, 0, 0, 0), 1, 0), ((3, 2, 1, 0), 0, 3), ((0, 1, 3, 3), 2, 3)):
            blocks = tuple(params.blocks[i] for i in order)
            wrong = trace(language_model, ids, params._replace(blocks=blocks), config)
            difference = first_difference(right, wrong)
            assert difference.name == f"blocks.{name}.norm1"
            assert difference.cause == f"the block has the parameters of block {j}"

    def test_blocks_of_other_shapes_are_not_taken_for_each_other(self):
        params, x = filled(CONFIGS["nothing"]), np.random.default_rng(1).normal(size=(T, D))
        block = params.blocks[0]
        network = FeedForwardParams(*(a[: 2 * D] for a in block.feed_forward[:2]), None, None)
        network = network._replace(w2=block.feed_forward.w2[:, : 2 * D], b2=block.feed_forward.b2)
        blocks = block, block._replace(feed_forward=network)
        right = trace(encoder, x, blocks, num_heads=H)
        difference = first_difference(right, {"blocks.1.out": right["blocks.1.out"] + 1.0})
        assert (difference.name, difference.cause) == ("blocks.1.out", "")

    def test_missing_bias(self):
        x, p, options, _ = problem("gpt2")
        attention = p.attention._replace(b_k=None, b_v=None)
        steps = trace(encoder_block, x, p._replace(attention=attention), **options)
        difference = first_difference(steps, Port(p._replace(attention=attention), "bias")(x))
        assert (difference.name, difference.cause) == ("attention.q", "attention.b_q is missing")

    def test_a_mistake_that_nobody_knows(self, rng):
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        other = {"norm1": steps["norm1"], "sum1": steps["sum1"].copy()}
        other["sum1"][2, 3] = np.nan
        difference = first_difference(steps, other)
        assert difference[:5] == ("sum1", "", 1, T * D, (2, 3))
        assert np.isnan(difference.got)
        assert difference.agreed == ("norm1",)
        assert "1 before it agree" in str(difference)

    def test_layouts_of_heads(self):
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        v = steps["attention.v"]
        other = {"attention.v": v.swapaxes(0, 1), "attention.q": steps["attention.q"]}
        assert first_difference(steps, other) is None
        assert first_difference(steps, {"attention.v": v.swapaxes(0, 1).reshape(T, D)}) is None
        wrong = {**other, "sum1": steps["sum1"] + 1}
        difference = first_difference(steps, wrong)
        assert difference.notes == ("attention.v: heads after the time axis",)

    def test_a_batch_of_one(self):
        x, p, options, keys = problem("llama")
        steps = trace(encoder_block, x, p, **options)
        port = {name: a[None] for name, a in Port(p, keys=keys)(x).items()}
        q = port["attention.q"]
        port["attention.q"] = q.swapaxes(1, 2)
        port["attention.v"] = port["attention.v"].swapaxes(1, 2).reshape(1, T, -1)
        assert first_difference(steps, port) is None
        wrong = {"attention.q": port["attention.q"], "out": port["out"] + 1.0}
        difference = first_difference(steps, wrong)
        assert difference.notes == (
            "attention.q: heads after the time axis, an axis of length 1 first",
        )
        assert (difference.name, difference.num_wrong, len(difference.at)) == ("out", T * D, 2)
        difference = first_difference(steps, {"out": np.stack([steps["out"]] * 2)})
        assert difference.cause == "it has shape (2, 6, 32) instead of (6, 32)"
        wrong = {name: a[None] for name, a in Port(p, "pairs", keys)(x).items()}
        assert first_difference(steps, wrong).cause.startswith("channels are rotated as halves")

    def test_masked_scores(self):
        """Large negative numbers, or none at all where the weights are right."""
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        open_ = trace(encoder_block, x, p, **options | {"is_causal": False})
        scores, weights = steps["attention.scores"], steps["attention.weights"]
        for low in (-1e4, np.finfo(np.float32).min):
            finite = np.where(np.isinf(scores), low, scores)
            other = {"attention.scores": finite, "out": steps["out"] + 1.0}
            note = "attention.scores: masked scores are finite"
            assert first_difference(steps, {"attention.scores": finite}) is None
            assert first_difference(steps, other).notes == (note,)
        before = {"attention.scores": open_["attention.scores"], "attention.weights": weights}
        assert first_difference(steps, before) is None
        difference = first_difference(
            steps, before | {"attention.averages": open_["attention.averages"]}
        )
        assert difference.notes == ("attention.scores: scores are those before the mask",)
        assert difference.agreed == ("attention.weights",)
        for missing in ({}, {"attention.weights": open_["attention.weights"]}):
            difference = first_difference(
                steps, {"attention.scores": open_["attention.scores"]} | missing
            )
            assert (difference.name, difference.cause) == (
                "attention.scores",
                "the causal mask is missing",
            )
        doubled = {"attention.scores": 2 * open_["attention.scores"], "attention.weights": weights}
        assert first_difference(steps, doubled).name == "attention.scores"
        fewer = {"attention.scores": scores[:, :3], "attention.weights": weights}
        assert first_difference(steps, fewer).num_wrong == 0

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("wide", [None, np.float32, np.float64])
    def test_16_bits(self, dtype, wide):
        """Roundings are allowed, mistakes are not; nor are they in a wider dtype."""
        narrow = dtype if dtype == "float16" else pytest.importorskip("ml_dtypes").bfloat16
        config, ids = CONFIGS["gpt2"], np.arange(T)
        params = filled(config)
        right = trace(language_model, ids, params, config)

        def rounded(steps):
            cast = {name: a.astype(narrow) for name, a in steps.items()}
            return cast if wide is None else {name: a.astype(wide) for name, a in cast.items()}

        assert first_difference(right, rounded(right)) is None
        post = dataclasses.replace(config, norm_first=False)
        wrong = rounded(trace(language_model, ids, params, post))
        assert first_difference(right, wrong).name == "blocks.0.norm1"
        for other in (wrong, {"blocks.0.out": wrong["blocks.0.out"]}):
            assert first_difference(right, other).cause == "the norms come after the sums"
        for factor in (0.0, -1.0):
            difference = first_difference(right, rounded({"logits": factor * right["logits"]}))
            assert difference.name == "logits"
        x, p, options, _ = problem("llama")
        right = trace(encoder_block, x, p, **options)
        wrong = trace(encoder_block, x, p, **options | {"is_causal": False})
        assert first_difference(right, rounded({"out": right["out"]})) is None
        difference = first_difference(right, rounded({"out": wrong["out"]}))
        assert difference.cause == "the causal mask is missing"

    def test_what_follows_16_bits_is_allowed_as_much(self, rng):
        a, b = rng.normal(size=(2, 3, 64))
        right, near = {"a": a, "b": b, "c": a}, {"b": b * 1.01, "c": a * 1.01}
        assert first_difference(right, near).name == "b"
        assert first_difference(right, {"a": a.astype(np.float16)} | near) is None
        assert first_difference({"b": b, "a": a}, {"b": b * 1.01, "a": a.astype(np.float16)})

    def test_numbers_that_are_narrow_on_both_sides_are_compared_as_they_are(self):
        a = np.array([[1.0, 2.0, 3.0]])
        assert first_difference({"a": a}, {"a": a + 2.0**-6}).name == "a"

    def test_a_few_round_numbers_are_not_narrow(self):
        round_ = np.arange(1.0, 16.0)
        assert first_difference({"a": 1.01 * round_}, {"a": round_}).name == "a"
        round_ = np.arange(1.0, 17.0)
        assert first_difference({"a": 1.01 * round_}, {"a": round_}) is None

    def test_an_activation_of_the_other_half(self):
        """Where the gate agrees, the two halves are not exchanged."""
        x, p, options, _ = problem("llama")
        steps = trace(encoder_block, x, p, **options)
        gate, up = (steps[f"feed_forward.{name}"] for name in ("gate", "up"))
        other = {"feed_forward.gate": gate, "feed_forward.hidden": gate * silu(up)}
        difference = first_difference(steps, other)
        assert difference.cause == "the activation is that of up instead of gate"

    def test_gelu_by_a_sigmoid(self):
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        inner = steps["feed_forward.inner"]
        other = {"feed_forward.hidden": inner / (1 + np.exp(-1.702 * inner))}
        difference = first_difference(steps, other)
        assert difference.cause == "the activation is GELU by a sigmoid, x sigmoid(1.702 x)"

    def test_dropout_that_is_on(self, rng):
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        kept = rng.random(steps["feed_forward.hidden"].shape) < 0.8
        other = {"feed_forward.hidden": steps["feed_forward.hidden"] * kept / 0.8}
        want = "some elements are zero and the others multiplied by 1.25, as by dropout"
        assert first_difference(steps, other).cause == want
        assert first_difference({"a": [1.0, 2.0]}, {"a": [0.0, 2.0]}).cause == ""
        weights = {"attention.weights": steps["attention.weights"][:, :3]}
        assert "dropout" not in first_difference(steps, weights).cause

    def test_factors(self):
        """None near 1, which would be roundings, and none of numbers that overflow."""
        a = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
        near = a * np.float32(1.0003)
        assert first_difference({"a": a}, {"a": near}).cause == ""
        assert first_difference({"a": a}, {"a": 1.5 * a}).cause == "it is multiplied by 1.5"
        assert first_difference({"a": a}, {"a": a.astype(np.float64) * 1e300}).cause == ""

    def test_biases_of_scores(self, rng):
        params, x = filled(CONFIGS["gpt2"]), rng.normal(size=(T, D))
        bias = rng.normal(size=(H, T, T))
        options = {"num_heads": H, "bias": bias}
        right = trace(encoder, x, params.blocks, **options)
        for changed, cause in (
            (bias.swapaxes(1, 2), "the bias has queries and keys exchanged"),
            (bias * E**-0.5, "the bias is multiplied by 0.3536, like scores"),
        ):
            wrong = trace(encoder, x, params.blocks, **options | {"bias": changed})
            assert first_difference(right, wrong).cause == cause
        unscaled = options | {"scale": 1.0}  # as in T5
        right = trace(encoder, x, params.blocks, **unscaled)
        wrong = trace(encoder, x, params.blocks, **unscaled | {"bias": bias * E**-0.5})
        assert first_difference(right, wrong).cause == cause
        unscaled = options | {"scale": 1.0, "bias": bias[:, :1]}
        right = trace(encoder, x, params.blocks, **unscaled)
        wrong = {"blocks.0.attention.scores": right["blocks.0.attention.scores"] + 1.0}
        assert first_difference(right, wrong).cause == ""

    def test_scalings_of_the_rotation(self):
        ids = np.arange(T)
        yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}
        for scaling in ({"type": "linear", "factor": 2.0}, yarn):
            config = dataclasses.replace(CONFIGS["scaled rotation"], rope_scaling=scaling)
            params = filled(config)
            right = trace(language_model, ids, params, config)
            plain = dataclasses.replace(config, rope_scaling=None)
            difference = first_difference(right, trace(language_model, ids, params, plain))
            assert difference.name == "blocks.0.attention.q_rotated"
            assert difference.cause == "the scaling of the rotation is missing"
        whole = {"attention_factor": 1.0}
        plain = dataclasses.replace(config, rope_scaling=yarn | whole)
        difference = first_difference(right, trace(language_model, ids, params, plain))
        assert difference.cause == "the rotation's attention factor of 1.139 is missing"

    def test_shapes(self):
        x, p, options, _ = problem("gpt2")
        steps = trace(encoder_block, x, p, **options)
        difference = first_difference(steps, {"norm1": np.ones((T, 2))})
        assert difference.cause == "it has shape (6, 2) instead of (6, 32)"
        assert str(difference).startswith("norm1 has another shape; it has")
        assert "nothing was before it" in str(difference)

    def test_options_of_an_encoder(self, rng):
        params, x = filled(CONFIGS["gpt2"]), rng.normal(size=(T, D))
        options = {"num_heads": H, "scale": 1.0, "bias": rng.normal(size=(H, T, T))}
        options |= {"mask": rng.random((T, T)) < 0.8, "norm_first": True}
        options |= {"rope": rope_tables(np.arange(T), rope_frequencies(E))}
        options |= {"rope_interleaved": False}
        right = trace(encoder, x, params.blocks, params.norm, **options)
        for change, why in (
            ({"scale": None}, "the scores are divided by the root of E"),
            ({"bias": None}, "the option bias is missing"),
            ({"mask": None}, "the option mask is missing"),
            ({"is_causal": True}, "there is a causal mask"),
            ({"rope_interleaved": True}, "channels are rotated as neighbors, while"),
            ({"scale": 1 / E}, "the scores are scaled by 1/E"),
        ):
            other = trace(encoder, x, params.blocks, params.norm, **options | change)
            difference = first_difference(right, other)
            assert difference.cause.startswith(why)
        post = trace(encoder, x, params.blocks, params.norm, **options | {"norm_first": False})
        difference = first_difference(post, {"blocks.0.out": right["blocks.0.out"]})
        assert difference.cause == "the norms come before the sub-layers"

    def test_tolerance(self, rng):
        params = init_language_model(rng, CONFIGS["gpt2"])
        right = trace(language_model, np.arange(T), params, CONFIGS["gpt2"])
        narrow = init_language_model(np.random.default_rng(0), CONFIGS["gpt2"], dtype=np.float32)
        port = trace(language_model, np.arange(T), narrow, CONFIGS["gpt2"])
        assert first_difference(right, port) is None
        assert first_difference(right, port, rtol=1e-12).name == "embedding"
        with pytest.raises(ValueError, match=r"^Argument 'rtol' must be"):
            first_difference(right, port, rtol=-1)

    def test_ends_of_a_model(self):
        config = CONFIGS["gpt2"]
        params, ids = filled(config), np.arange(T)
        right = trace(language_model, ids, params, config)
        for start in (1, 2):
            late = right["embedding"] + params.positions[start : T + start]
            difference = first_difference(right, {"positioned": late})
            assert difference.cause == f"positions begin at {start}"
        back = right["embedding"] + params.positions[T - 1 :: -1]
        difference = first_difference(right, {"positioned": back})
        assert difference.cause == "positions are counted from the end"
        difference = first_difference(right, {"positioned": right["embedding"]})
        assert difference.cause == "the positions are missing"
        difference = first_difference(right, {"norm": right["norm"] - params.norm.bias})
        assert difference.cause == "the bias of the last norm is missing"
        difference = first_difference(right, {"embedding": right["embedding"] * D**0.5})
        assert difference.cause == "the embeddings are multiplied by the root of D"
        scaled = CONFIGS["2017"]
        right = trace(language_model, ids, filled(scaled), scaled)
        difference = first_difference(right, {"embedding": filled(scaled).embedding[ids]})
        assert difference.cause == "the embeddings are not multiplied by the root of D"
        own = CONFIGS["llama"]
        params = filled(own)
        right = trace(language_model, ids, params, own)
        difference = first_difference(right, {"logits": right["norm"] @ params.embedding.T})
        assert difference.cause == "the head is the matrix of embeddings"
        difference = first_difference(right, {"logits": right["blocks.1.out"] @ params.head.T})
        assert difference.cause == "the last norm is missing"
        difference = first_difference(right, {"norm": right["blocks.1.out"]})
        assert difference.cause == "the last norm is missing"
        x = right["blocks.1.out"]
        y = params.norm.weight * x / np.sqrt((x**2).sum(-1, keepdims=True) / (D - 1) + 1e-5)
        difference = first_difference(right, {"norm": y})
        want = "the sum of squares is divided by n - 1 instead of n in the last norm"
        assert difference.cause == want
        p = softmax(right["logits"])
        difference = first_difference(right, {"logits": p})
        assert difference.cause == "they are probabilities, after a softmax"
        difference = first_difference(right, {"logits": np.log(p)})
        assert difference.cause == "they are logarithms of probabilities"
        difference = first_difference(right, {"logits": -3 * right["logits"]})
        assert difference.cause == "it is multiplied by -3"
        x = right["blocks.1.out"]
        x = params.norm.weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        difference = first_difference(right, {"norm": x})
        said = "eps is 1e-12 instead of 1e-05", "eps is 0 instead of 1e-05"
        assert difference.cause == ", or ".join(said)

    def test_nothing_that_is_known(self):
        """In every part: a difference that no mistake leads to."""
        config = CONFIGS["nothing"]
        params, ids = filled(config), np.arange(T)
        right = trace(language_model, ids, params, config)
        for name in ("embedding", "blocks.0.attention.k", "blocks.0.out", "norm", "logits"):
            difference = first_difference(right, {name: right[name] + 1.0})
            assert (difference.name, difference.cause) == (name, "")

    def test_plain_dictionaries_and_other_arrays(self):
        assert first_difference({"a": [1, 2]}, {"a": [1, 2]}) is None
        difference = first_difference({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]})
        want = ("a", "", 1, 2, (1,), 2.5, 2.0, (), ())
        assert difference == TraceDifference(*want)
        ml_dtypes = pytest.importorskip("ml_dtypes")
        near = np.array([1.0, 2.0], ml_dtypes.bfloat16)
        assert first_difference({"a": np.array([1.0, 2.001])}, {"a": near}) is None

    def test_errors(self):
        with pytest.raises(TypeError, match=r"^Argument 'other' must be a dictionary"):
            first_difference({"a": 1.0}, [1.0])
        with pytest.raises(ValueError, match=r"have names of the trace \('a', ...\), not 'b'"):
            first_difference({"a": 1.0}, {"b": 1.0})
        with pytest.raises(ValueError, match=r"not none\.$"):
            first_difference({"a": 1.0}, {})
        for value in ("x", None, {}, 1j, np.array(["2020"], "M8[D]"), len):
            with pytest.raises(
                TypeError, match=r"^Argument \"other\['a'\]\" must be integer, float"
            ):
                first_difference({"a": 1.0}, {"a": value})
        assert first_difference({"a": 1.5}, {"a": np.longdouble(1.5)}) is None


def test_pytorch_leaves_no_path(rng):
    """A block of PyTorch's, by its hooks."""
    torch = peers.torch
    layer = torch.nn.TransformerEncoderLayer(D, H, 20, batch_first=True, dtype=torch.float64)
    seen = {}
    layer.linear1.register_forward_hook(lambda *a: seen.update({"feed_forward.inner": a[2]}))
    layer.norm1.register_forward_hook(lambda *a: seen.update({"norm1": a[2]}))
    x = rng.normal(size=(2, T, D))
    layer.train()  # in evaluation mode a fused kernel calls no hooks
    for module in layer.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    layer.self_attn.dropout = 0.0
    seen["out"] = layer(torch.tensor(x))
    s = {name: t.numpy() for name, t in layer.state_dict().items()}
    stacked = np.split(s["self_attn.in_proj_weight"], 3), np.split(s["self_attn.in_proj_bias"], 3)
    p = EncoderBlockParams(
        AttentionParams(
            *stacked[0], s["self_attn.out_proj.weight"], *stacked[1], s["self_attn.out_proj.bias"]
        ),
        NormParams(s["norm1.weight"], s["norm1.bias"]),
        FeedForwardParams(
            s["linear1.weight"], s["linear1.bias"], s["linear2.weight"], s["linear2.bias"]
        ),
        NormParams(s["norm2.weight"], s["norm2.bias"]),
    )
    assert first_difference(trace(encoder_block, x, p, num_heads=H), seen) is None
    difference = first_difference(trace(encoder_block, x, p, num_heads=H, norm_first=True), seen)
    assert difference.name == "norm1"


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_decoder_of_pytorch_leaves_no_path(norm_first, rng):
    """Its hooks see all norms, both attentions and the network."""
    torch = peers.torch
    layer = torch.nn.TransformerDecoderLayer(
        D, H, 20, 0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    seen = {}

    def keep(module, name, pick=lambda out: out):
        module.register_forward_hook(lambda *a: seen.update({name: pick(a[2]).detach().clone()}))

    for i in (1, 2, 3):
        keep(getattr(layer, f"norm{i}"), f"norm{i}")
    keep(layer.self_attn, "self_attention.out", lambda out: out[0])
    keep(layer.multihead_attn, "cross_attention.out", lambda out: out[0])
    keep(layer.linear1, "feed_forward.inner")
    keep(layer.linear2, "feed_forward.out")
    with torch.no_grad():
        for w in layer.parameters():
            w.add_(torch.tensor(rng.normal(0, 0.1, w.shape)))
    x, memory = (torch.tensor(rng.normal(size=(2, n, D))) for n in (T, S))
    hidden = torch.nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    seen["out"] = layer(x, memory, tgt_mask=hidden)
    s = {name: t.numpy() for name, t in layer.state_dict().items()}

    def attention(name):
        w, b = (np.split(s[f"{name}.in_proj_{kind}"], 3) for kind in ("weight", "bias"))
        last, bias = (s[f"{name}.out_proj.{kind}"] for kind in ("weight", "bias"))
        return AttentionParams(*w, last, *b, bias)

    norms = [NormParams(s[f"norm{i}.weight"], s[f"norm{i}.bias"]) for i in (1, 2, 3)]
    network = (s[f"linear{i}.{kind}"] for i in (1, 2) for kind in ("weight", "bias"))
    own, cross = attention("self_attn"), attention("multihead_attn")
    p = DecoderBlockParams(own, norms[0], cross, norms[1], FeedForwardParams(*network), norms[2])
    given = x.numpy(), memory.numpy(), p
    steps = trace(decoder_block, *given, num_heads=H, norm_first=norm_first)
    assert len(seen) == 8
    assert first_difference(steps, seen) is None
    later = torch.tensor(~np.tri(T, S, dtype=bool))
    for masks, cause in (
        ({}, "the causal mask is missing"),
        (
            {"tgt_mask": hidden, "memory_mask": later},
            "in the cross-attention, there is a causal mask",
        ),
    ):
        difference = first_difference(steps, {"out": layer(x, memory, **masks)})
        assert difference.cause == cause


def test_in_a_notebook_a_difference_is_a_table():
    difference = first_difference(
        {"a": np.ones(2), "b": np.ones(2)}, {"a": np.ones(2), "b": np.array([1.0, 3.0])}
    )
    assert repr(difference) == str(difference)
    html = difference._repr_html_()
    assert "<td>differs first</td><td>b</td>" in html
    assert "<td>1 of 2</td>" in html
    assert "(1,): 3 instead of 1" in html
    assert "<td>agree before it</td><td>a</td>" in html
    shape = first_difference({"a": np.ones(2)}, {"a": np.ones(3)})._repr_html_()
    assert "<td>another shape</td>" in shape
    assert "<td>layout</td><td>x</td>" in difference._replace(notes=("x",))._repr_html_()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi", "t5", "none"])
def test_a_classifier(positions, rng):
    config = LanguageModelConfig(V, D, H, positions=positions)
    params = init_sequence_classifier(rng, config, 3)
    tokens = rng.integers(0, V, (2, T))
    for options in ({}, {"lengths": np.array([T, 2])}):
        steps = trace(sequence_classifier, tokens, params, config, **options)
        close(steps["logits"], sequence_classifier(tokens, params, config, **options))
    port = trace(sequence_classifier, tokens, params, config)
    difference = first_difference(
        steps, {"blocks.0.attention.weights": port["blocks.0.attention.weights"]}
    )
    assert difference.cause == "the option mask is missing"


def test_the_head_of_a_classifier(rng):
    config = LanguageModelConfig(V, D, H)
    params = init_sequence_classifier(rng, config, 3)
    params = params._replace(b_head=rng.normal(size=3))
    given = rng.integers(0, V, T), params, config
    steps = trace(sequence_classifier, *given)
    without = trace(sequence_classifier, given[0], params._replace(b_head=None), config)
    assert first_difference(steps, without).cause == "b_head is missing"
    other = {"logits": steps["logits"] ** 2}
    assert first_difference(without, other).cause == ""
    coarse = dataclasses.replace(config, eps=1e-3)
    both = trace(sequence_classifier, given[0], params._replace(b_head=None), coarse)
    difference = first_difference(steps, both)
    assert difference.cause == "eps is 0.001 instead of 1e-05"
    assert (difference.then.name, difference.then.cause) == ("logits", "b_head is missing")
    with pytest.raises(ValueError, match=r"^Argument 'dropout' must be None: a trace"):
        trace(sequence_classifier, *given, dropout=tuple((None, None) for _ in range(2)))


def test_a_perceptron(rng):
    layers = [
        (rng.normal(size=(n, m)), b) for n, m, b in ((5, 5, rng.normal(size=5)), (3, 5, None))
    ]
    x = rng.normal(size=(4, 5))
    steps = trace(mlp, x, layers, activation="tanh")
    assert list(steps) == ["layers.0.inner", "layers.0.out", "layers.1.inner", "layers.1.out"]
    close(steps["layers.1.out"], mlp(x, tuple(layers), activation="tanh"))
    (w, b), last = layers
    for wrong, options, message in (
        ([(w.T, b), last], "tanh", "the weight is transposed"),
        ([(w, None), last], "tanh", "the bias is missing"),
        (layers, "relu", "the activation is relu"),
    ):
        assert first_difference(steps, trace(mlp, x, wrong, activation=options)).cause == message
    other = {"layers.1.inner": steps["layers.1.inner"] ** 2}
    assert first_difference(steps, other).cause == ""
    with pytest.raises(ValueError, match=r"^Argument 'dropout' must be None: a trace"):
        trace(mlp, x, layers, dropout=(np.ones(5),))


SELF = ["norm1", "self_attention.q", "self_attention.k", "self_attention.v"]
SELF += ["self_attention.scores", "self_attention.weights", "self_attention.averages"]
SELF += ["self_attention.out", "sum1"]
CROSS = ["norm2", "cross_attention.q", "cross_attention.k", "cross_attention.v"]
CROSS += ["cross_attention.scores", "cross_attention.weights", "cross_attention.averages"]
CROSS += ["cross_attention.out", "sum2"]
NETWORK = ["feed_forward.inner", "feed_forward.hidden", "feed_forward.out"]
S = 5


def both(config):
    """Return parameters of an encoder and a decoder, none of which is zero or one."""
    return filled(config, init_encoder_decoder_model)


def near(got, want, bound=4e-15):
    """Be as near as that, relative to the largest entry."""
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * np.abs(want).max())


class TestDecoders:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_a_model_ends_where_it_does(self, name, rng):
        """With parameters as they are drawn, and with large ones, which make scores of 20."""
        config = CONFIGS[name]
        texts = rng.integers(0, V, (2, S)), rng.integers(0, V, (2, T))
        drawn = init_encoder_decoder_model(rng, config), 4e-15
        for params, bound in (drawn, (both(config), 2e-14)):
            for options in ({}, {"lengths": np.array([S, 2])}, {"lengths": np.array([0, 1])}):
                steps = trace(encoder_decoder_model, *texts, params, config, **options)
                want = encoder_decoder_model(*texts, params, config, **options)
                near(steps["logits"], want, bound)
                assert list(steps)[-1] == "logits"

    def test_weights(self, rng):
        config = CONFIGS["llama"]
        params = both(config)
        texts = rng.integers(0, V, (2, S)), rng.integers(0, V, (2, T))
        steps = trace(encoder_decoder_model, *texts, params, config)
        for i, want in enumerate(encoder_decoder_weights(*texts, params, config)):
            close(steps[f"decoder.blocks.{i}.cross_attention.weights"], want)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_dtypes(self, dtype, rng):
        config = CONFIGS["llama"]
        params = init_encoder_decoder_model(rng, config, dtype=dtype)
        given = np.arange(S), np.arange(T), params, config
        steps = trace(encoder_decoder_model, *given)
        assert {a.dtype for a in steps.values()} == {np.dtype(np.float32)}
        want = encoder_decoder_model(*given).astype(np.float64)
        bound = 4 * np.finfo(dtype).eps * np.abs(want).max()
        np.testing.assert_allclose(steps["logits"], want, rtol=0, atol=bound)

    def test_the_table_of_models(self):
        """The page on checks says of every model how its trace ends."""
        page = (pathlib.Path(__file__).parents[2] / "docs/reference/check.rst").read_text()
        rows = re.findall(r"^   \* - :func:`~dlref\.\w+\.(\w+)`$", page, re.MULTILINE)
        with pytest.raises(TypeError) as caught:
            trace(np.sin, 1.0)
        names = str(caught.value).split("functions ")[1].split(", not")[0]
        assert rows == names.split(", ")

    def test_names(self):
        config = LanguageModelConfig(V, D, H, num_layers=1)
        steps = trace(encoder_decoder_model, [1, 2], [3], both(config), config)
        block = [*SELF, *CROSS, "norm3", *NETWORK, "sum3", "out"]
        first = [f"encoder.{name}" for name in ("embedding", "positioned")]
        first += [f"encoder.blocks.0.{name}" for name in SELF if "self" not in name]
        names = list(steps)
        assert names[:2] == first[:2]
        assert set(first) < set(names)
        start = names.index("decoder.embedding")
        assert names[start - 1] == "encoder.norm"
        want = ["decoder.embedding", "decoder.positioned"]
        want += [f"decoder.blocks.0.{name}" for name in block]
        assert names[start:] == [*want, "decoder.norm", "logits"]

    @pytest.mark.parametrize("norm_first", [True, False])
    def test_options_of_blocks_and_stacks(self, norm_first, rng):
        params = both(CONFIGS["gpt2"])
        x, memory = rng.normal(size=(2, T, D)), rng.normal(size=(2, S, D))
        options = {"num_heads": H, "norm_first": norm_first, "scale": 0.7, "softcap": 2.0}
        options |= {"mask": np.tri(T, dtype=bool), "bias": rng.normal(size=(H, T, T)), "eps": 0.1}
        options |= {"window": (3, 3), "rope": rope_tables(np.arange(T), rope_frequencies(E))}
        options |= {"memory_mask": rng.random((T, S)) < 0.7}
        given = x, memory, params.decoder[0]
        steps = trace(decoder_block, *given, **options)
        near(steps["out"], decoder_block(*given, **options))
        assert list(steps)[-2:] == ["sum3" if norm_first else "norm3", "out"]
        given = x, memory, params.decoder, params.norm
        near(trace(decoder, *given, **options)["norm"], decoder(*given, **options))
        assert list(trace(decoder, *given[:3], **options))[-1] == "blocks.1.out"

    def test_memory_of_another_width(self, rng):
        """Then the decoder cannot have read itself, nor are values as wide as keys."""
        p = both(CONFIGS["gpt2"]).decoder[0]
        x, memory = rng.normal(size=(T, D)), rng.normal(size=(S, 7))
        arrays = {"w_k": (D, 7), "w_v": (3 * H, 7), "b_v": (3 * H,), "w_o": (D, 3 * H)}
        changed = {name: rng.normal(size=shape) for name, shape in arrays.items()}
        p = p._replace(cross_attention=p.cross_attention._replace(**changed))
        steps = trace(decoder_block, x, memory, p, num_heads=H)
        near(steps["out"], decoder_block(x, memory, p, num_heads=H))
        other = {"cross_attention.weights": steps["cross_attention.weights"] ** 2}
        assert first_difference(steps, other).cause == ""

    @pytest.mark.parametrize(("here", "there"), [(T, 0), (0, S), (1, 1)])
    def test_short_texts(self, here, there, rng):
        p = both(CONFIGS["gpt2"]).decoder[0]
        x, memory = rng.normal(size=(here, D)), rng.normal(size=(there, D))
        steps = trace(decoder_block, x, memory, p, num_heads=H)
        want = decoder_block(x, memory, p, num_heads=H)
        np.testing.assert_allclose(steps["out"], want, rtol=0, atol=2e-14)

    def test_plain_tuples_and_those_of_the_formulas(self, rng):
        params, x = both(CONFIGS["gpt2"]), rng.normal(size=(T, D))
        block = params.decoder[0]
        plain = tuple(map(tuple, block))
        twin = formulas.DecoderBlockParams(*block)._replace(norm1=formulas.NormParams(*block.norm1))
        exchanged = block._replace(norm1=block.norm3, norm3=block.norm1)
        wrong = trace(decoder_block, x, x, exchanged, num_heads=H)
        cause = first_difference(trace(decoder_block, x, x, block, num_heads=H), wrong).cause
        for other in (plain, twin):
            steps = trace(decoder_block, x, x, other, num_heads=H)
            close(steps["out"], decoder_block(x, x, block, num_heads=H))
            close(trace(decoder, x, x, [other], num_heads=H)["blocks.0.out"], steps["out"])
            assert first_difference(steps, wrong).cause == cause != ""

    def test_errors(self, rng):
        params, x = both(CONFIGS["gpt2"]), rng.normal(size=(T, D))
        block = params.decoder[0]
        for model, what, name in (
            (decoder_block, block[:2], "params"),
            (decoder, [block[:2]], r"params\[0\]"),
        ):
            with pytest.raises(
                TypeError, match=rf"^Argument '{name}' must be DecoderBlockParams\("
            ):
                trace(model, x, x, what, num_heads=H)
        config = CONFIGS["gpt2"]
        for half, kind in (("encoder", "Encoder"), ("decoder", "Decoder")):
            blocks = tuple(b[:2] for b in getattr(params, half))
            given = [1, 2], [3], params._replace(**{half: blocks}), config
            match = rf"^Argument 'params.{half}\[0\]' must be {kind}BlockParams\("
            with pytest.raises(TypeError, match=match):
                trace(encoder_decoder_model, *given)
        with pytest.raises(ValueError, match=r"^Argument 'dropout' must be None: a trace"):
            trace(decoder_block, x, x, params.decoder[0], num_heads=H, dropout=(None,) * 3)
        for name in ("dropout", "attention_dropout", "embedding_dropout"):
            given = [1, 2], [3], params, CONFIGS["gpt2"]
            with pytest.raises(ValueError, match=rf"^Argument '{name}' must be None: a trace"):
                trace(encoder_decoder_model, *given, **{name: (None, None)})


class DecoderPort(Port):
    """A decoder block in plain NumPy: norms first, no rotation; a bug of the cross-attention."""

    def read(self, z, memory, p):
        source = z if self.bug == "itself" else memory
        n = len(source)
        w_k, w_v = (p.w_v, p.w_k) if self.bug == "exchanged" else (p.w_k, p.w_v)
        b_k, b_v = (p.b_v, p.b_k) if self.bug == "exchanged" else (p.b_k, p.b_v)
        q = self.split(z, p.w_q.T if self.bug == "w_q" else p.w_q, p.b_q)
        k = self.split(source, w_k, None if self.bug == "b_k" else b_k)
        v = self.split(source, w_v, None if self.bug == "b_v" else b_v)
        s = q @ k.swapaxes(1, 2) * (1 if self.bug == "scale" else E**-0.5)
        if self.bug == "causal":
            s = np.where(np.tri(T, n, dtype=bool), s, -np.inf)
        weights = softmax(s if self.bug in ("itself", "mask") else np.where(SEEN, s, -np.inf))
        y = (weights @ v).swapaxes(0, 1).reshape(T, D)
        names = "q", "k", "v", "weights"
        steps = dict(zip(names, (q, k, v, weights), strict=True))
        self.seen |= {f"cross_attention.{name}": a for name, a in steps.items()}
        return y @ (p.w_o if self.bug == "w_o" else p.w_o.T) + p.b_o

    def split(self, x, w, b):
        y = x @ w.T + (0 if b is None else b)
        return y.reshape(len(x), H, E).swapaxes(0, 1)

    def network(self, x, p):
        return None, gelu(x @ p.w1.T + p.b1, approximate="tanh") @ p.w2.T + p.b2

    def __call__(self, x, memory):
        p, bug, self.bug = self.p, self.bug, "unrotated"
        x = x + self.attend(self.normed(x, p.norm1), p.self_attention)
        self.seen, self.bug = {"sum1": x}, bug
        z = self.seen["norm2"] = self.normed(x, p.norm2)
        x = self.seen["sum2"] = x + self.read(z, memory, p.cross_attention)
        return self.seen | {"out": x + self.network(self.normed(x, p.norm3), p.feed_forward)[1]}


SEEN = np.arange(S) < 4
READING = {
    "itself": ("k", "the cross-attention reads the decoder itself instead of the memory"),
    "exchanged": ("k", "keys and values of the cross-attention are exchanged"),
    "scale": ("weights", "in the cross-attention, the scores are not scaled"),
    "mask": ("weights", "in the cross-attention, the option memory_mask is missing"),
    "causal": ("weights", "in the cross-attention, there is a causal mask"),
    "w_q": ("q", "cross_attention.w_q is transposed"),
    "b_v": ("v", "cross_attention.b_v is missing"),
}


def reading():
    """Return input, memory and parameters of a decoder block, and its options."""
    rng = np.random.default_rng(1)
    given = rng.normal(size=(T, D)), rng.normal(size=(S, D)), both(CONFIGS["gpt2"]).decoder[0]
    options = {"num_heads": H, "norm_first": True, "activation": "gelu_tanh", "memory_mask": SEEN}
    return given, options


class TestCrossAttention:
    def test_a_right_port(self):
        given, options = reading()
        steps = trace(decoder_block, *given, **options)
        assert first_difference(steps, DecoderPort(given[2])(*given[:2])) is None

    @pytest.mark.parametrize("bug", READING)
    def test_planted_mistakes(self, bug):
        (where, why), (given, options) = READING[bug], reading()
        steps = trace(decoder_block, *given, **options)
        port = DecoderPort(given[2], bug)(*given[:2])
        difference = first_difference(steps, port)
        assert difference.name == f"cross_attention.{where}"
        assert difference.cause == why
        assert difference.agreed[0] == "sum1"
        difference = first_difference(steps, {"out": port["out"]})
        assert (difference.name, difference.cause) == ("out", why)

    def test_the_bias_of_keys(self):
        """It adds one number to all scores of a row: only the keys show that it is missing."""
        given, options = reading()
        steps = trace(decoder_block, *given, **options)
        port = DecoderPort(given[2], "b_k")(*given[:2])
        difference = first_difference(steps, port)
        assert difference.name == "cross_attention.k"
        assert difference.cause == "cross_attention.b_k is missing"
        assert first_difference(steps, {"out": port["out"]}) is None

    def test_the_last_projection(self):
        given, options = reading()
        steps = trace(decoder_block, *given, **options)
        difference = first_difference(steps, DecoderPort(given[2], "w_o")(*given[:2]))
        assert (difference.name, difference.cause) == ("sum2", "cross_attention.w_o is transposed")

    def test_layouts(self):
        """Queries that nothing rotates have no pairs that may be kept as halves."""
        given, options = reading()
        steps = trace(decoder_block, *given, **options)
        q = steps["cross_attention.q"]
        assert first_difference(steps, {"cross_attention.q": q.swapaxes(0, 1)}) is None
        halves = {"cross_attention.q": q[..., np.r_[0:E:2, 1:E:2]]}
        assert first_difference(steps, halves).name == "cross_attention.q"

    def test_in_a_model(self, rng):
        """A mistake in the second block's cross-attention, in a model with grouped heads."""
        config = CONFIGS["llama"]
        config = dataclasses.replace(config, num_kv_heads=2, num_layers=2)
        params = both(config)
        texts = rng.integers(0, V, S), rng.integers(0, V, T)
        right = trace(encoder_decoder_model, *texts, params, config)
        a = params.decoder[1].cross_attention
        for wrong, name, cause in (
            (a._replace(w_q=a.w_q.T), "q", "cross_attention.w_q is transposed"),
            (
                a._replace(w_k=a.w_v, w_v=a.w_k),
                "k",
                "keys and values of the cross-attention are exchanged",
            ),
        ):
            block = params.decoder[1]._replace(cross_attention=wrong)
            changed = params._replace(decoder=(params.decoder[0], block))
            difference = first_difference(
                right, trace(encoder_decoder_model, *texts, changed, config)
            )
            assert difference.name == f"decoder.blocks.1.cross_attention.{name}"
            assert difference.cause == cause
        k = right["decoder.blocks.1.cross_attention.k"]
        q, count = right["decoder.blocks.1.cross_attention.q"], H // 2
        tiled = softmax(q @ np.tile(k, (count, 1, 1)).swapaxes(1, 2) * E**-0.5)
        difference = first_difference(right, {"decoder.blocks.1.cross_attention.weights": tiled})
        assert difference.cause.startswith(
            "in the cross-attention, query head h uses key head h mod Hk"
        )

    def test_the_ends_of_a_model(self, rng):
        config = CONFIGS["gpt2"]
        params = both(config)
        texts = rng.integers(0, V, S), rng.integers(0, V, T)
        right = trace(encoder_decoder_model, *texts, params, config)
        for half, table, n in (
            ("encoder", params.source_positions, S),
            ("decoder", params.positions, T),
        ):
            late = right[f"{half}.embedding"] + table[1 : n + 1]
            difference = first_difference(right, {f"{half}.positioned": late})
            assert difference.cause == "positions begin at 1"
            difference = first_difference(right, {f"{half}.norm": right[f"{half}.norm"] + 1.0})
            assert difference.cause == ""


@pytest.mark.parametrize(
    ("model", "init", "texts", "kind"),
    [
        (language_model, init_language_model, 1, "LanguageModelParams"),
        (encoder_decoder_model, init_encoder_decoder_model, 2, "EncoderDecoderParams"),
        (
            sequence_classifier,
            lambda rng, config: init_sequence_classifier(rng, config, 3),
            1,
            "SequenceClassifierParams",
        ),
    ],
)
def test_plain_tuples(model, init, texts, kind, rng):
    """Those of a whole model are refused; a norm may be one, as in the model."""
    config = CONFIGS["gpt2"]
    params, given = init(rng, config), [[1, 2]] * texts
    with pytest.raises(TypeError, match=rf"^Argument 'params' must be {kind}, a named tuple"):
        trace(model, *given, tuple(params), config)
    plain = params._replace(norm=tuple(params.norm))
    close(trace(model, *given, plain, config)["logits"], model(*given, params, config))


def test_a_trace_whose_numbers_are_of_16_bits(rng):
    """The other is held to its own dtype: the numbers may be the same ones by nature."""
    a = rng.normal(size=64).astype(np.float16)
    assert first_difference({"a": a}, {"a": a.astype(float)}) is None
    near = a.astype(float) * (1 + 2.0**-7)
    assert first_difference({"a": a}, {"a": near}) is None
    assert first_difference({"a": a}, {"a": 2 * near}).name == "a"
    exact = a.astype(np.float32)
    assert first_difference({"a": exact}, {"a": exact * np.float32(1 + 2.0**-7)}).name == "a"
