"""Encoder and decoder together: the formula, PyTorch's model, and what may see what."""

import numpy as np
import peers
import pytest
import trees

from dlref.formulas import transformer as formulas
from dlref.losses import cross_entropy
from dlref.positions import sinusoidal
from dlref.transformer import (
    LanguageModelConfig,
    encoder_decoder_generate,
    encoder_decoder_model,
    encoder_decoder_model_jvp,
    encoder_decoder_model_loss,
    encoder_decoder_model_loss_grad,
    encoder_decoder_model_loss_value_and_grad,
    encoder_decoder_model_vjp,
    encoder_decoder_weights,
    init_encoder_decoder_model,
)

SCHEMES = ["learned", "sinusoidal", "rope", "alibi", "t5", "none"]

SOME, FEATURES = np.array([2.0, 0, 1]), np.array([0.0, 2, 2, 0, 1, 2, 0, 2])  # of dropout


def translating(batch=(2,), S=4, T=3, lengths=None, drops=None, **fields):
    config = LanguageModelConfig(
        **{"vocab_size": 7, "d_model": 8, "num_heads": 2, "length": 6, "num_layers": 1, **fields}
    )
    options = dict(drops or {})
    if lengths is not None:
        options["lengths"] = np.array(lengths)

    def problem(rng):
        params = trees.drawn(rng, init_encoder_decoder_model(rng, config), 0.2)
        texts = rng.integers(0, 7, (*batch, S)), rng.integers(0, 7, (*batch, T))
        return (*texts, params), (config,), options

    return problem


class TestModel(trees.Contract):
    maps = (
        encoder_decoder_model,
        encoder_decoder_model_vjp,
        encoder_decoder_model_jvp,
        formulas.encoder_decoder_model,
    )
    problems = [  # noqa: RUF012
        translating(biases=False),
        *(translating(positions=scheme) for scheme in SCHEMES),
        translating(lengths=[1, 4], num_layers=2, tied=False),
        translating(batch=(), norm_first=False, norm="rms", activation="swiglu", biases=False),
        translating(num_layers=0, T=1, scale_embeddings=True),
        translating(num_layers=1, num_decoder_layers=2, lengths=[1, 4]),
        translating(num_layers=2, num_decoder_layers=0),
        translating(drops={"embedding_dropout": (FEATURES, SOME[:, None])}, tied=False),
        translating(drops={"attention_dropout": ((np.append(SOME, 2),), None)}, positions="t5"),
        translating(
            drops={
                "dropout": (((FEATURES, None),), ((None, FEATURES, SOME[:, None]),)),
                "attention_dropout": (None, (SOME,)),
                "embedding_dropout": (None, FEATURES),
            },
            positions="rope",
        ),
    ]


def test_pytorch(rng):
    """torch.nn.Transformer, post-norm: but for the norms at the ends of its stacks."""
    torch = peers.torch
    config = LanguageModelConfig(
        7, 8, 2, num_layers=2, positions="sinusoidal", activation="relu", norm_first=False
    )
    params = trees.drawn(rng, init_encoder_decoder_model(rng, config), 0.2)
    source, target = rng.integers(0, 7, (3, 5)), rng.integers(0, 7, (3, 4))
    model = torch.nn.Transformer(8, 2, 2, 2, 32, 0.0, batch_first=True, dtype=torch.float64)
    model.encoder.norm = model.decoder.norm = None
    with torch.no_grad():
        for layer, block in zip(model.encoder.layers, params.encoder, strict=True):
            fill(layer.self_attn, block.attention)
            fill_rest(layer, block, (block.norm1, block.norm2))
        for layer, block in zip(model.decoder.layers, params.decoder, strict=True):
            fill(layer.self_attn, block.self_attention)
            fill(layer.multihead_attn, block.cross_attention)
            fill_rest(layer, block, (block.norm1, block.norm2, block.norm3))
    table = sinusoidal(5, 8)
    x, y = (
        torch.tensor(params.embedding[t] * np.sqrt(8) + table[: t.shape[-1]])
        for t in (source, target)
    )
    ahead = torch.ones(4, 4, dtype=torch.bool).triu(1)
    want = model(x, y, tgt_mask=ahead).detach().numpy() @ params.embedding.T
    trees.assert_close(encoder_decoder_model(source, target, params, config), want, 1e-13)


def fill(layer, a):
    torch = peers.torch
    layer.in_proj_weight.copy_(torch.tensor(np.concatenate([a.w_q, a.w_k, a.w_v])))
    layer.in_proj_bias.copy_(torch.tensor(np.concatenate([a.b_q, a.b_k, a.b_v])))
    layer.out_proj.weight.copy_(torch.tensor(a.w_o))
    layer.out_proj.bias.copy_(torch.tensor(a.b_o))


def fill_rest(layer, block, norms):
    torch = peers.torch
    n = block.feed_forward
    pairs = [(layer.linear1, (n.w1, n.b1)), (layer.linear2, (n.w2, n.b2))]
    pairs += [(getattr(layer, f"norm{k}"), norm) for k, norm in enumerate(norms, 1)]
    for module, arrays in pairs:
        module.weight.copy_(torch.tensor(arrays[0]))
        module.bias.copy_(torch.tensor(arrays[1]))


def test_loss_is_of_next_tokens(rng):
    (source, target, params), (config,), _ = translating()(rng)
    logits = encoder_decoder_model(source, target, params, config)
    want = float(cross_entropy(logits[:, :-1], target[:, 1:]))
    loss = encoder_decoder_model_loss(source, target, params, config)
    assert loss == pytest.approx(want, rel=1e-14)
    value, grads = encoder_decoder_model_loss_value_and_grad(source, target, params, config)
    assert value == loss
    trees.assert_close(grads, encoder_decoder_model_loss_grad(source, target, params, config), 0)
    targets = np.full(target.shape, -100)
    targets[1, 2] = 3
    loss = encoder_decoder_model_loss(source, target, params, config, targets=targets)
    assert loss == pytest.approx(float(cross_entropy(logits[1, 2], 3)), rel=1e-14)


def test_a_decoder_sees_the_past_and_all_of_the_source(rng):
    (source, target, params), (config,), _ = translating()(rng)
    before = encoder_decoder_model(source, target, params, config)
    for place in range(4):
        changed = source.copy()
        changed[:, place] = (changed[:, place] + 1) % 7
        after = encoder_decoder_model(changed, target, params, config)
        assert np.all(np.any(after != before, axis=-1))
    changed = target.copy()
    changed[:, 1] = (changed[:, 1] + 1) % 7
    after = encoder_decoder_model(source, changed, params, config)
    np.testing.assert_array_equal(after[:, 0], before[:, 0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_padding_does_not_matter(rng, scheme):
    (source, target, params), (config,), _ = translating(positions=scheme)(rng)
    short = encoder_decoder_model(source[:, :2], target, params, config)
    padded = encoder_decoder_model(source, target, params, config, lengths=[2, 2])
    np.testing.assert_allclose(padded, short, atol=1e-13)


class TestGenerate:
    @pytest.mark.parametrize("scheme", SCHEMES)
    @pytest.mark.parametrize("lengths", [None, [2, 1]])
    def test_is_greedy(self, rng, scheme, lengths):
        (source, _, params), (config,), _ = translating(length=9, positions=scheme)(rng)
        got = encoder_decoder_generate(source, params, config, start=2, steps=5, lengths=lengths)
        assert got.shape == (2, 6)
        assert np.all(got[:, 0] == 2)
        logits = encoder_decoder_model(source, got[:, :-1], params, config, lengths=lengths)
        np.testing.assert_array_equal(got[:, 1:], logits.argmax(-1))

    def test_stops(self, rng):
        (source, _, params), (config,), _ = translating(length=9)(rng)
        free = encoder_decoder_generate(source, params, config, start=2, steps=5)
        stop = int(free[0, 2])
        got = encoder_decoder_generate(source, params, config, start=2, steps=5, stop=stop)
        assert np.all(got[0, 2:] == stop)

    def test_errors(self, rng):
        (source, _, params), (config,), _ = translating()(rng)
        for name in ("start", "stop"):
            options = {"start": 0, "stop": 0, name: 7}
            with pytest.raises(
                ValueError, match=rf"'{name}' must hold integers from 0 to 6, not 7"
            ):
                encoder_decoder_generate(source, params, config, steps=1, **options)


@pytest.mark.parametrize("norm_first", [True, False])
def test_weights_explain_the_cross_attention(rng, norm_first):
    """If all but one position of the source are hidden, all weight is on it."""
    (source, target, params), (config,), _ = translating(num_layers=2, norm_first=norm_first)(rng)
    free = encoder_decoder_weights(source, target, params, config)
    assert [w.shape for w in free] == [(2, 2, 3, 4)] * 2
    np.testing.assert_allclose(np.sum(free, axis=-1), 1, rtol=1e-14)
    for weights in encoder_decoder_weights(source, target, params, config, lengths=[1, 1]):
        np.testing.assert_allclose(weights[..., 0], 1)


class TestErrors:
    @pytest.mark.parametrize("name", ["dropout", "attention_dropout", "embedding_dropout"])
    def test_dropout(self, rng, name):
        (source, target, params), (config,), _ = translating()(rng)
        with pytest.raises(ValueError, match=rf"'{name}' must be a tuple of 2 entries, for"):
            encoder_decoder_model(source, target, params, config, **{name: (None,)})

    def test_all_forms_drop_the_same(self, rng):
        (source, target, params), (config,), _ = translating()(rng)
        factors = {
            "embedding_dropout": (FEATURES, None),
            "attention_dropout": (None, (SOME[:2],)),
            "dropout": (((FEATURES, None),), None),
        }
        arguments = (source, target, params, config)
        value, grads = encoder_decoder_model_loss_value_and_grad(*arguments, **factors)
        assert value == encoder_decoder_model_loss(*arguments, **factors)
        assert value != encoder_decoder_model_loss(*arguments)
        trees.assert_close(encoder_decoder_model_loss_grad(*arguments, **factors), grads, 0)

    def test_texts(self, rng):
        (source, target, params), (config,), _ = translating()(rng)
        with pytest.raises(ValueError, match=r"'source' must hold integers from 0 to 6, not 7"):
            encoder_decoder_model(source * 0 + 7, target, params, config)
        with pytest.raises(ValueError, match=r"'target' must have shape \(2, 3\), not \(1, 3\)"):
            encoder_decoder_model(source, target[:1], params, config)
        with pytest.raises(ValueError, match=r"'target' must have at least 2 positions"):
            encoder_decoder_model_loss(source, target[:, :1], params, config)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"encoder": ()}, "'params.encoder' must be a tuple of num_layers = 1, not 0"),
            ({"decoder": None}, "'params.decoder' must be a tuple of num_layers = 1, not NoneType"),
            ({"head": np.ones((7, 7))}, r"'params.head' must have shape \(7, 8\)"),
            ({"source_positions": np.ones((6, 7))}, r"'params.source_positions' must have shape"),
            ({"encoder_norm": (np.ones(7),)}, r"'params.encoder_norm.weight' must have shape"),
        ],
    )
    def test_parameters(self, rng, change, message):
        (source, target, params), (config,), _ = translating()(rng)
        with pytest.raises(ValueError, match=message):
            encoder_decoder_model(source, target, params._replace(**change), config)

    def test_arguments(self, rng):
        (source, target, params), (config,), _ = translating()(rng)
        with pytest.raises(TypeError, match=r"'primals' must be a tuple of 3 entries"):
            encoder_decoder_model_jvp((source, params), (None, None), config)
        with pytest.raises(TypeError, match=r"'tangents' must be a tuple of 3 entries"):
            encoder_decoder_model_jvp((source, target, params), (None, None), config)


@pytest.mark.parametrize(
    "loss", [encoder_decoder_model_loss, encoder_decoder_model_loss_value_and_grad]
)
def test_predicted_tokens_out_of_range_are_named(rng, loss):
    config = LanguageModelConfig(9, 8, 2)
    params = init_encoder_decoder_model(rng, config)
    with pytest.raises(ValueError, match="'target' must hold integers from 0 to 8, not 9"):
        loss([1], [1, 9], params, config)
    with pytest.raises(ValueError, match="'targets' must hold integers from 0 to 8, not 9"):
        loss([1], [1, 2], params, config, targets=[9, -100])
