"""Relatives of BERT, and T5 with its decoder: against the models written out in NumPy."""

import numpy as np
import pytest
from interop_models import (
    BERT,
    T5,
    D,
    F,
    H,
    L,
    T,
    V,
    attend,
    bert_shapes,
    causal,
    close,
    drawn,
    gelu_new,
    heads,
    normed,
    run_bert,
    run_t5,
    t5_shapes,
)

from dlref.check import trace
from dlref.interop import from_state_dict, to_state_dict
from dlref.normalization import layer_norm
from dlref.positions import t5_bias
from dlref.transformer import (
    EncoderDecoderParams,
    encoder,
    encoder_decoder_generate,
    encoder_decoder_model,
    encoder_decoder_weights,
)

ROBERTA = BERT | {"model_type": "roberta", "layer_norm_eps": 1e-12}
DISTILBERT = {
    "vocab_size": V, "dim": D, "hidden_dim": F, "n_layers": 1, "n_heads": H, "activation": "relu",
    "max_position_embeddings": L, "model_type": "distilbert",
}  # fmt: skip
#: Names of a BERT's layer in a DistilBERT.
RENAMED = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


@pytest.fixture
def ids(rng):
    return rng.integers(0, V, T)


def run(ids, params, options):
    """The three lines of BertParams."""
    x = params.embedding[ids] + params.positions[: len(ids)] + params.types[0]
    x = layer_norm(x, *params.norm, eps=options["eps"])
    return encoder(x, params.blocks, **options)


def assert_round_trip(params, kind, config, state):
    again = to_state_dict(params, kind, config)
    assert again.keys() == state.keys()
    for key, array in state.items():
        np.testing.assert_array_equal(again[key], array)


@pytest.mark.parametrize("padding", [None, 0, 4])
@pytest.mark.parametrize("pooler", [False, True])
def test_roberta_counts_from_its_padding_token(ids, padding, pooler):
    state = drawn(bert_shapes(pooler))
    first = 2 if padding is None else padding + 1
    settings = ROBERTA if padding is None else ROBERTA | {"pad_token_id": padding}
    table = state["embeddings.position_embeddings.weight"]
    state["embeddings.position_embeddings.weight"] = np.resize(table, (L + first, D)) + 1.0
    settings = settings | {"max_position_embeddings": L + first}
    params, options = from_state_dict(state, None, settings)
    rows = state["embeddings.position_embeddings.weight"][first:]
    plain = state | {"embeddings.position_embeddings.weight": rows}
    close(run(ids, params, options), run_bert(plain, ids, np.zeros(T, int)))
    assert_round_trip(params, "roberta", settings, state)


def test_roberta_with_the_name_of_its_base_and_a_head():
    named = {f"roberta.{name}": array for name, array in drawn(bert_shapes(pooler=False)).items()}
    state = named | {"lm_head.bias": np.ones(V), "classifier.dense.bias": np.ones(D)}
    params, _ = from_state_dict(state, "roberta", ROBERTA)
    assert params.pooler is None
    assert to_state_dict(params, "roberta", prefix="roberta.").keys() == named.keys()


def test_distilbert_has_no_sentences(ids):
    state = drawn(bert_shapes(pooler=False))
    state["embeddings.token_type_embeddings.weight"] *= 0
    renamed = {}
    for name, array in state.items():
        part, _, end = name.removeprefix("encoder.layer.0.").rpartition(".")
        if name.startswith("encoder."):
            name = f"transformer.layer.0.{RENAMED[part]}.{end}"  # noqa: PLW2901
        if "token_type" not in name:
            renamed[name] = array
    params, options = from_state_dict(renamed, None, DISTILBERT)
    np.testing.assert_array_equal(params.types, np.zeros((1, D)))
    close(run(ids, params, options), run_bert(state, ids, np.zeros(T, int)))
    assert_round_trip(params, "distilbert", None, renamed)
    heads = {"vocab_layer_norm.bias": np.ones(D), "pre_classifier.weight": np.ones((D, D))}
    based = {f"distilbert.{name}": array for name, array in renamed.items()}
    from_state_dict(based | heads, "distilbert", DISTILBERT)
    with pytest.raises(ValueError, match=r"'embeddings.LayerNorm.bias' is missing"):
        from_state_dict({"pooler.bias": np.ones(D)}, "distilbert", DISTILBERT)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("distilbert", DISTILBERT | {"n_heads": 3}, "'n_heads' must divide 8, not be 3"),
        ("roberta", ROBERTA | {"num_attention_heads": 3}, "'num_attention_heads' must divide 8"),
        ("roberta", ROBERTA | {"pad_token_id": -1}, "'config.pad_token_id' must be at least 0"),
        ("roberta", ROBERTA | {"is_decoder": True}, "'is_decoder' must be False, not True"),
        ("bert", ROBERTA, "'roberta', which has positions that count from the padding token"),
    ],
)
def test_errors_of_relatives_of_bert(kind, settings, words):
    with pytest.raises(ValueError, match=words):
        from_state_dict(drawn(bert_shapes()), kind, settings)


# T5 and mT5 with their decoders.


def whole_shapes(gated, K=6, decoders=2):
    shapes = t5_shapes(gated, K=K)
    for name, shape in list(shapes.items()):
        if name.startswith("encoder."):
            new = name.replace("encoder.", "decoder.").replace("layer.1.", "layer.2.")
            shapes[new] = shape
    last = "decoder.block.1."
    for name, shape in list(shapes.items()):
        if name.startswith(last):
            extra = {name.replace(last, f"decoder.block.{i}."): shape for i in range(2, decoders)}
            shapes |= extra
            shapes = {key: a for key, a in shapes.items() if key != name or decoders > 1}
    for i in range(decoders):
        name = f"decoder.block.{i}.layer.1."
        shapes |= {f"{name}EncDecAttention.{c}.weight": (K, D) for c in "qkv"}
        shapes |= {f"{name}EncDecAttention.o.weight": (D, K), f"{name}layer_norm.weight": (D,)}
    return shapes


def run_decoder(s, ids, memory, bias, gated, scale):
    def attention(y, z, name, bias):
        q = y @ s[f"{name}q.weight"].T
        k, v = (z @ s[f"{name}{c}.weight"].T for c in "kv")
        return attend(*(heads(a, H) for a in (q, k, v)), bias, 1.0) @ s[f"{name}o.weight"].T

    x = s["shared.weight"][ids]
    for i in range(sum(name.endswith("EncDecAttention.q.weight") for name in s)):
        name = f"decoder.block.{i}.layer."
        y = normed(x, 1e-6, s[f"{name}0.layer_norm.weight"])
        x = x + attention(y, y, f"{name}0.SelfAttention.", bias + causal(len(ids)))
        y = normed(x, 1e-6, s[f"{name}1.layer_norm.weight"])
        x = x + attention(y, memory, f"{name}1.EncDecAttention.", 0.0)
        y = normed(x, 1e-6, s[f"{name}2.layer_norm.weight"])
        name += "2.DenseReluDense."
        if gated:
            y = gelu_new(y @ s[f"{name}wi_0.weight"].T) * (y @ s[f"{name}wi_1.weight"].T)
        else:
            y = np.maximum(y @ s[f"{name}wi.weight"].T, 0)
        x = x + y @ s[f"{name}wo.weight"].T
    x = scale * normed(x, 1e-6, s["decoder.final_layer_norm.weight"])
    return x @ s.get("lm_head.weight", s["shared.weight"]).T


@pytest.mark.parametrize("own_head", [False, True])
@pytest.mark.parametrize(
    ("kind", "settings", "scaled"),
    [
        ("t5", {}, True),
        ("t5", {"tie_word_embeddings": False}, False),
        ("t5", {"scale_decoder_outputs": False, "tie_word_embeddings": True}, False),
        ("t5", {"feed_forward_proj": "gated-gelu"}, True),
        ("mt5", {}, False),
    ],
)
def test_the_whole_of_t5(rng, kind, settings, scaled, own_head):
    gated = kind == "mt5" or "feed_forward_proj" in settings
    state = drawn(whole_shapes(gated))
    stored = dict(state)
    if own_head:
        stored["lm_head.weight"] = state["lm_head.weight"] = rng.normal(size=(V, D)) + 1
    for name in ("encoder.embed_tokens", "decoder.embed_tokens"):
        stored[f"{name}.weight"] = state["shared.weight"]
    params, config = from_state_dict(stored, kind, T5 | settings)
    assert isinstance(params, EncoderDecoderParams)
    assert config.tied is not own_head
    source, target = rng.integers(0, V, T), rng.integers(0, V, 4)
    bias = t5_bias(params.source_positions, T, T)
    memory = run_t5(state, source, bias, gated)
    bias = t5_bias(params.positions, 4, 4, bidirectional=False)
    want = run_decoder(state, target, memory, bias, gated, D**-0.5 if scaled else 1.0)
    close(encoder_decoder_model(source, target, params, config), want)
    close(trace(encoder_decoder_model, source, target, params, config)["logits"], want)
    assert_round_trip(params, kind, config, state)
    text = encoder_decoder_generate(source, params, config, start=0, steps=3)
    logits = encoder_decoder_model(source, text[:-1], params, config)
    np.testing.assert_array_equal(text[1:], logits.argmax(-1))


@pytest.mark.parametrize("depth", [1, 3])
def test_halves_of_different_depth(rng, depth):
    """As in the small models of T5's authors, and in distilled ones."""
    settings = T5 | {"num_decoder_layers": depth}
    state = drawn(whole_shapes(False, decoders=depth))
    params, config = from_state_dict(state, "t5", settings)
    assert (config.num_layers, config.num_decoder_layers) == (2, depth)
    source, target = rng.integers(0, V, T), rng.integers(0, V, 4)
    memory = run_t5(state, source, t5_bias(params.source_positions, T, T), False)
    bias = t5_bias(params.positions, 4, 4, bidirectional=False)
    want = run_decoder(state, target, memory, bias, False, D**-0.5)
    close(encoder_decoder_model(source, target, params, config), want)
    close(trace(encoder_decoder_model, source, target, params, config)["logits"], want)
    assert_round_trip(params, "t5", config, state)
    text = encoder_decoder_generate(source, params, config, start=0, steps=3)
    logits = encoder_decoder_model(source, text[:-1], params, config)
    np.testing.assert_array_equal(text[1:], logits.argmax(-1))


def test_weights_of_the_cross_attention_are_not_scaled(rng):
    params, config = from_state_dict(drawn(whole_shapes(False)), "t5", T5)
    weights = encoder_decoder_weights(rng.integers(0, V, T), [1, 2], params, config)
    np.testing.assert_allclose(weights[0].sum(-1), 1, rtol=1e-14)
    assert (weights[1] > 0.9).any()


def test_a_stored_head_that_equals_the_embeddings_is_tied():
    state = drawn(whole_shapes(False))
    state["lm_head.weight"] = state["shared.weight"]
    params, config = from_state_dict(state, "t5", T5)
    assert config.tied
    assert params.head is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_decoder_layers": 3}, r"decoder.block.2.layer.0.SelfAttention.q.weight' is missing"),
        ({"relative_attention_max_distance": 20}, "'relative_attention_max_distance' must be 128"),
        ({"relative_attention_num_buckets": 8}, "'relative_attention_num_buckets' must be 32"),
        ({"model_type": "mt5"}, "'mt5', which has T5's pieces, and outputs that are not scaled"),
    ],
)
def test_errors_of_the_whole_of_t5(settings, words):
    with pytest.raises(ValueError, match=words):
        from_state_dict(drawn(whole_shapes(False)), "t5", T5 | settings)


def test_embeddings_that_are_not_one():
    state = drawn(whole_shapes(False))
    state["decoder.embed_tokens.weight"] = state["shared.weight"] + 1
    with pytest.raises(ValueError, match=r"'decoder.embed_tokens.weight' must equal 'shared"):
        from_state_dict(state, "t5", T5)
    state = drawn(whole_shapes(False)) | {"lm_head.weight": np.ones((V, D))}
    del state["shared.weight"]
    with pytest.raises(ValueError, match=r"'shared.weight' is missing"):
        from_state_dict(state, "t5", T5)


def test_a_configuration_that_is_not_of_t5():
    params, config = from_state_dict(drawn(whole_shapes(False)), "t5", T5)
    with pytest.raises(TypeError, match="'config' must be a LanguageModelConfig, not None"):
        to_state_dict(params, "t5")
    with pytest.raises(ValueError, match="Argument 'params' must be those of t5"):
        to_state_dict(params._replace(decoder=params.encoder), "t5", config)
