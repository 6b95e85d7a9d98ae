"""Blocks: the formulas, PyTorch's layers with all their gradients, and what masks do."""

import dataclasses
import inspect

import numpy as np
import peers
import pytest
import trees

from dlref._core.pytree import declared
from dlref.attention import AttentionParams
from dlref.formulas import transformer as formulas
from dlref.formulas.positions import rope_tables
from dlref.transformer import (
    BlockOptions,
    DecoderBlockParams,
    EncoderBlockParams,
    EncoderDecoderParams,
    FeedForwardParams,
    GatedDeltaParams,
    GatedFeedForwardParams,
    NormParams,
    decoder_block,
    decoder_block_jvp,
    decoder_block_vjp,
    decoder_vjp,
    dropout_mask,
    encoder,
    encoder_block,
    encoder_block_jvp,
    encoder_block_vjp,
    encoder_jvp,
    encoder_vjp,
)
from dlref.transformer._structure import norm_fields, sublayer_fields

DROPPED = np.array([[2.0, 0, 0], [0, 2, 1], [2, 0, 0.5]])
ROPE = rope_tables(np.arange(3), np.array([0.7]))
WIDE = rope_tables(np.arange(3), np.array([0.7, 0.2]))


@pytest.fixture(scope="module", autouse=True)
def drawing_here(drawing):
    globals()["Draw"] = drawing


def encoding(shape=(2, 3), options=None, **kind):
    def problem(rng):
        params = Draw(rng).encoder_block(**kind)  # noqa: F821
        return (rng.normal(size=(*shape, 4)), params), (), {"num_heads": 2, **(options or {})}

    return problem


def decoding(shape=(2, 3), S=5, options=None, **kind):
    def problem(rng):
        params = Draw(rng).decoder_block(**kind)  # noqa: F821
        x, memory = rng.normal(size=(*shape, 4)), rng.normal(size=(*shape[:-1], S, 3))
        return (x, memory, params), (), {"num_heads": 2, **(options or {})}

    return problem


class TestEncoderBlock(trees.Contract):
    maps = encoder_block, encoder_block_vjp, encoder_block_jvp, formulas.encoder_block
    problems = [  # noqa: RUF012
        encoding(biases=False, options={"norm_first": True, "activation": "gelu"}),
        encoding(),
        encoding(options={"norm_first": True, "is_causal": True, "activation": "tanh"}),
        encoding(rms=True, gated=True, Hk=1, options={"num_kv_heads": 1, "activation": "silu"}),
        encoding(shape=(3,), options={"mask": np.tri(3, dtype=bool)[::-1, ::-1], "eps": 0.1}),
        encoding(options={"rope": ROPE, "norm_first": True}),
        encoding(options={"dropout": (np.array([2.0, 0, 2, 0]), None), "norm": "layer"}),
        encoding(options={"dropout": (None, np.array([2.0, 0, 2, 0])), "norm_first": True}),
        encoding(options={"bias": np.linspace(-1, 1, 18).reshape(2, 3, 3)}),
        encoding(options={"attention_dropout": DROPPED, "is_causal": True}),
    ]


def modern(norms, options=None, **kind):
    """Blocks whose norms stand where the names say, with attention of 2025."""

    def problem(rng):
        draw = Draw(rng)  # noqa: F821
        params = draw.encoder_block(rms=True, gated=True)._replace(
            attention=draw.rich_attention(4, 2, 1, 4, **kind)
        )
        fields = ("norm1", "norm2", "output_norm1", "output_norm2")
        params = params._replace(**{n: draw.norm(4, False) if n in norms else None for n in fields})
        kwargs = {"num_heads": 2, "num_kv_heads": 1, "is_causal": True, "norm_first": True}
        kwargs |= {"activation": "silu", "rope": WIDE}
        return (rng.normal(size=(2, 3, 4)), params), (), kwargs | (options or {})

    return problem


class TestModernBlock(trees.Contract):
    maps = encoder_block, encoder_block_vjp, encoder_block_jvp, formulas.encoder_block
    problems = [  # noqa: RUF012
        modern(["norm1", "norm2"]),
        modern(["output_norm1", "output_norm2"], together=True),
        modern(["norm1", "norm2", "output_norm1", "output_norm2"], {"norm_offset": 1.0}),
        modern([], {"residual_scale": 0.3, "scale": 0.7}),
        modern(["norm1", "norm2"], {"parallel": True, "residual_scale": 0.5}),
        modern(["norm1"], {"parallel": True, "softcap": 2.0}),
        modern([], {"parallel": True, "dropout": (np.array([2.0, 0, 2, 0]), None)}),
        modern(["norm1", "norm2", "output_norm1"], {"norm_after_rope": True, "eps": 0.1}),
        modern(["norm1", "norm2"], {"inner_eps": 0.3}),
        modern(["norm1", "norm2"], {"clip_qkv": 0.4}),
        modern(["norm1"], {"parallel": True, "clip_qkv": 0.4, "norm_after_rope": True}),
        modern(["norm1", "norm2", "output_norm2"], {"norm_first": False, "norm_offset": 0.5}),
        modern(["norm1", "norm2", "output_norm1"], {"norm": "layer", "norm_offset": 0.5}),
    ]


class TestPlacesOfNorms:
    def test_without_norms_a_block_is_two_sums(self, rng, draw):
        params, x = draw.encoder_block()._replace(norm1=None, norm2=None), rng.normal(size=(3, 4))
        before, after = (encoder_block(x, params, num_heads=2, norm_first=f) for f in (True, False))
        np.testing.assert_array_equal(before, after)

    def test_one_norm_for_both_is_the_same_norm_twice(self, rng, draw):
        params, x, u = draw.encoder_block(), *rng.normal(size=(2, 3, 4))
        o = BlockOptions(num_heads=2, norm_first=True, parallel=True)
        one, two = params._replace(norm2=None), params._replace(norm2=params.norm1)
        np.testing.assert_array_equal(encoder_block(x, one, o), encoder_block(x, two, o))
        dx, shared = encoder_block_vjp(u, x, one, o)
        dy, apart = encoder_block_vjp(u, x, two, o)
        np.testing.assert_array_equal(dx, dy)
        assert shared.norm2 is None
        want = apart.norm1.weight + apart.norm2.weight
        np.testing.assert_allclose(shared.norm1.weight, want, rtol=1e-13)

    def test_layer_norms_by_one_plus_their_weights(self, rng, draw):
        """The offset is added to the weights, beside a bias, and not in the gradient."""
        params, x, u = draw.encoder_block(), *rng.normal(size=(2, 3, 4))
        moved = {n: getattr(params, n) for n in ("norm1", "norm2")}
        moved = {n: norm._replace(weight=norm.weight + 1) for n, norm in moved.items()}
        want = encoder_block(x, params._replace(**moved), num_heads=2)
        got = encoder_block(x, params, num_heads=2, norm_offset=1.0)
        np.testing.assert_array_equal(got, want)
        _, grads = encoder_block_vjp(u, x, params._replace(**moved), num_heads=2)
        trees.assert_close(
            encoder_block_vjp(u, x, params, num_heads=2, norm_offset=1.0)[1], grads, 0
        )

    def test_errors(self, rng, draw):
        x, params = rng.normal(size=(3, 4)), draw.encoder_block()
        with pytest.raises(ValueError, match=r"'parallel' must be False unless norm_first is True"):
            encoder_block(x, params, num_heads=2, parallel=True)
        with pytest.raises(ValueError, match=r"'params.norm1.bias' must be None where norm is"):
            encoder_block(x, params, num_heads=2, norm="rms", norm_offset=1.0)
        with pytest.raises(ValueError, match=r"'clip_qkv' must be greater than 0, not -1"):
            encoder_block(x, params, num_heads=2, clip_qkv=-1.0)
        options, memory = {"num_heads": 2, "parallel": True, "norm_first": True}, np.ones((2, 3))
        with pytest.raises(ValueError, match=r"'parallel' must be False for a decoder block"):
            decoder_block(x, memory, draw.decoder_block(), **options)


class TestDecoderBlock(trees.Contract):
    maps = decoder_block, decoder_block_vjp, decoder_block_jvp, formulas.decoder_block
    problems = [  # noqa: RUF012
        decoding(biases=False, options={"norm_first": True, "activation": "gelu"}),
        decoding(),
        decoding(shape=(4,), S=2, options={"is_causal": False, "norm_first": True}),
        decoding(rms=True, gated=True, Hk=1, options={"num_kv_heads": 1, "activation": "silu"}),
        decoding(options={"memory_mask": np.arange(5) % 2 == 0}),
        decoding(options={"attention_dropout": DROPPED[:1], "norm_first": True}),
        decoding(options={"cross_scale": 1.0}),
        decoding(options={"clip_qkv": 0.4, "norm_first": True}),
        decoding(options={"bias": np.linspace(-1, 1, 9).reshape(3, 3), "norm_first": True}),
        decoding(options={"dropout": (None, np.full(4, 0.5), np.full((3, 1), 1.5))}),
    ]


# PyTorch: its own layers.


def as_encoder(layer):
    return EncoderBlockParams(
        as_attention(layer.self_attn), as_norm(layer.norm1), as_network(layer), as_norm(layer.norm2)
    )


def as_decoder(layer):
    own, cross = as_attention(layer.self_attn), as_attention(layer.multihead_attn)
    norms = [as_norm(n) for n in (layer.norm1, layer.norm2, layer.norm3)]
    return DecoderBlockParams(own, norms[0], cross, norms[1], as_network(layer), norms[2])


def as_attention(a):
    weights, biases = a.in_proj_weight.chunk(3), a.in_proj_bias.chunk(3)
    return AttentionParams(*weights, a.out_proj.weight, *biases, a.out_proj.bias)


def as_norm(n):
    return NormParams(n.weight, n.bias)


def as_network(layer):
    one, two = layer.linear1, layer.linear2
    return FeedForwardParams(one.weight, one.bias, two.weight, two.bias)


def torch_layer(kind, norm_first, activation):
    torch = peers.torch
    torch.manual_seed(1)
    layer = getattr(torch.nn, kind)(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return layer


def tensors(tree):
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in tensors(entry)]
    return [tree]


def numbers(tree):
    if isinstance(tree, tuple):
        return type(tree)(*(numbers(entry) for entry in tree))
    return None if tree is None else tree.detach().numpy()


def check_gradients(layer, convert, inputs, out, u, ours):
    """Compare the gradients for inputs and all parameters, 1e-13 of the largest."""
    torch = peers.torch
    parameters = list(layer.parameters())
    found = torch.autograd.grad(out, [*inputs, *parameters], torch.tensor(u))
    for parameter, grad in zip(parameters, found[len(inputs) :], strict=True):
        parameter.data = grad  # so that `convert` sorts the gradients, too
    want = (*(g.numpy() for g in found[: len(inputs)]), numbers(convert(layer)))
    trees.assert_close(ours, want, 1e-13)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
class TestAgainstPyTorch:
    @pytest.mark.parametrize("masked", ["nothing", "causal", "padding"])
    def test_encoder_layer(self, rng, norm_first, activation, masked):
        torch = peers.torch
        layer = torch_layer("TransformerEncoderLayer", norm_first, activation)
        params = trees.mapped(np.copy, numbers(as_encoder(layer)))
        x, u = rng.normal(size=(2, 2, 7, 12))
        keep = np.arange(7) < np.array([[4], [7]])
        moving = torch.tensor(x, requires_grad=True)
        blocked = torch.ones(7, 7, dtype=torch.bool).triu(1)  # True = may not be seen, there
        out = layer(
            moving,
            src_mask=blocked if masked == "causal" else None,
            src_key_padding_mask=torch.tensor(~keep) if masked == "padding" else None,
        )
        options = {"num_heads": 3, "norm_first": norm_first, "activation": activation}
        options |= {"is_causal": True} if masked == "causal" else {}
        options |= {"mask": keep[:, None, None, :]} if masked == "padding" else {}
        got = encoder_block(x, params, **options)
        trees.assert_close(got, out.detach().numpy(), 1e-13)
        ours = encoder_block_vjp(u, x, params, **options)
        check_gradients(layer, as_encoder, [moving], out, u, ours)

    def test_decoder_layer(self, rng, norm_first, activation):
        torch = peers.torch
        layer = torch_layer("TransformerDecoderLayer", norm_first, activation)
        params = trees.mapped(np.copy, numbers(as_decoder(layer)))
        x, u, memory = *rng.normal(size=(2, 2, 7, 12)), rng.normal(size=(2, 5, 12))
        keep = np.arange(5) < np.array([[5], [2]])
        moving = [torch.tensor(a, requires_grad=True) for a in (x, memory)]
        out = layer(
            *moving,
            tgt_mask=torch.ones(7, 7, dtype=torch.bool).triu(1),
            memory_key_padding_mask=torch.tensor(~keep),
        )
        options = {"num_heads": 3, "norm_first": norm_first, "activation": activation}
        options["memory_mask"] = keep[:, None, None, :]
        trees.assert_close(decoder_block(x, memory, params, **options), out.detach().numpy(), 1e-13)
        ours = decoder_block_vjp(u, x, memory, params, **options)
        check_gradients(layer, as_decoder, moving, out, u, ours)


class TestOrder:
    def test_without_mask_a_block_is_equivariant(self, rng, draw):
        params, x = draw.encoder_block(), rng.normal(size=(6, 4))
        order = rng.permutation(6)
        got = encoder_block(x[order], params, num_heads=2)
        np.testing.assert_allclose(got, encoder_block(x, params, num_heads=2)[order], atol=1e-13)

    def test_with_a_causal_mask_it_is_not(self, rng, draw):
        params, x = draw.encoder_block(), rng.normal(size=(6, 4))
        got = encoder_block(x[::-1], params, num_heads=2, is_causal=True)[::-1]
        assert np.max(abs(got - encoder_block(x, params, num_heads=2, is_causal=True))) > 0.01

    def test_dbias_is_the_sum_over_what_shares_it(self, rng, draw):
        params, x, u = draw.encoder_block(), rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
        full = np.zeros((2, 2, 3, 3))
        shared = encoder_block_vjp(u, x, params, num_heads=2, bias=np.zeros((3, 3)))[2]
        single = encoder_block_vjp(u, x, params, num_heads=2, bias=full)[2]
        np.testing.assert_allclose(shared, single.sum((0, 1)), atol=1e-13)

    def test_dbias_of_a_decoder_block(self, rng, draw):
        params, x = draw.decoder_block(), rng.normal(size=(3, 4))
        memory, u, h = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), 1e-6
        move = rng.normal(size=(2, 3, 3))
        dbias = decoder_block_vjp(u, x, memory, params, num_heads=2, bias=0 * move)[3]
        ends = [
            np.sum(u * decoder_block(x, memory, params, num_heads=2, bias=s * h * move))
            for s in (1, -1)
        ]
        assert np.sum(dbias * move) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-8)

    def test_tangent_of_the_bias(self, rng, draw):
        params, memory = draw.decoder_block(), rng.normal(size=(2, 3))
        x, move, u = rng.normal(size=(3, 4)), rng.normal(size=(2, 3, 3)), rng.normal(size=(3, 4))
        options = {"num_heads": 2, "bias": rng.normal(size=(2, 3, 3))}
        still = (None, None)
        moved = decoder_block_jvp((x, memory, params), (None, *still), dbias=move, **options)
        dbias = decoder_block_vjp(u, x, memory, params, **options)[3]
        assert np.sum(u * moved) == pytest.approx(np.sum(dbias * move), rel=1e-12)
        with pytest.raises(ValueError, match=r"'dbias' must be None, as it belongs"):
            decoder_block_jvp((x, memory, params), (None, *still), num_heads=2, dbias=move)


FIELDS = {field.name for field in dataclasses.fields(BlockOptions)}


class TestOptions:
    @pytest.mark.parametrize(
        "f", [encoder_block, encoder_block_vjp, encoder, encoder_vjp, decoder_block, decoder_vjp]
    )
    def test_no_field_is_an_argument_too(self, f):
        parameters = inspect.signature(f).parameters
        assert not FIELDS & {*parameters}
        assert {"options", "keywords"} <= {*parameters}

    def test_the_object_and_its_fields_are_the_same(self, rng, draw):
        params, x = draw.encoder_block(), rng.normal(size=(3, 4))
        o = BlockOptions(num_heads=2, norm_first=True, activation="gelu", is_causal=True)
        kwargs = {"num_heads": 2, "norm_first": True, "activation": "gelu", "is_causal": True}
        want = encoder_block(x, params, **kwargs)
        np.testing.assert_array_equal(encoder_block(x, params, o), want)
        np.testing.assert_array_equal(encoder_block(x, params, options=o), want)
        other = dataclasses.replace(o, is_causal=False, eps=0.1)
        np.testing.assert_array_equal(
            encoder_block(x, params, other, is_causal=True, eps=1e-5), want
        )
        dx, dparams = encoder_block_vjp(x, x, params, o)
        trees.assert_close(encoder_vjp(x, x, (params,), None, o), (dx, (dparams,)), 0)
        moved = encoder_block_jvp((x, params), (x, None), o)
        np.testing.assert_array_equal(moved, encoder_block_jvp((x, params), (x, None), **kwargs))

    def test_each_block_may_have_its_own(self, rng):
        draw = Draw(rng)  # noqa: F821
        blocks, x, u = [draw.encoder_block() for _ in range(2)], *rng.normal(size=(2, 3, 4))
        kinds = (
            BlockOptions(num_heads=2, rope=ROPE, norm_first=True),
            BlockOptions(num_heads=1, is_causal=True, window=(1, 0), activation="tanh"),
        )
        y = [x]
        for p, o in zip(blocks, kinds, strict=True):
            y.append(encoder_block(y[-1], p, o))
        np.testing.assert_array_equal(encoder(x, tuple(blocks), None, kinds), y[-1])
        du, second = encoder_block_vjp(u, y[1], blocks[1], kinds[1])
        dx, first = encoder_block_vjp(du, x, blocks[0], kinds[0])
        got = encoder_vjp(u, x, tuple(blocks), None, kinds)
        trees.assert_close(got, (dx, (first, second)), 0)
        moved = encoder_jvp((x, tuple(blocks)), (u, None), kinds)
        assert np.sum(moved * u) == pytest.approx(np.sum(dx * u), rel=1e-12)

    def test_a_decoder_is_causal_and_an_encoder_is_not(self, rng, draw):
        x, memory = rng.normal(size=(3, 4)), rng.normal(size=(2, 3))
        o = BlockOptions(num_heads=2)
        own, both = draw.encoder_block(), draw.decoder_block()
        np.testing.assert_array_equal(
            encoder_block(x, own, o), encoder_block(x, own, o, is_causal=False)
        )
        np.testing.assert_array_equal(
            decoder_block(x, memory, both, o), decoder_block(x, memory, both, o, is_causal=True)
        )

    def test_errors(self, rng, draw):
        x, params = rng.normal(size=(3, 4)), draw.encoder_block()
        with pytest.raises(TypeError, match=r"'num_head'. Did you mean 'num_heads'\?"):
            encoder_block(x, params, num_head=2)
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'xyz'\.$"):
            encoder_block(x, params, num_heads=2, xyz=1)
        with pytest.raises(TypeError, match=r"'options' must be BlockOptions, or 'num_heads'"):
            encoder_block(x, params)
        with pytest.raises(TypeError, match=r"'options' must be BlockOptions or None, not 2"):
            encoder_block(x, params, 2)
        with pytest.raises(TypeError, match="positional"):
            BlockOptions(2)
        o = BlockOptions(num_heads=2)
        with pytest.raises(ValueError, match=r"'options' must be .* tuple of 1, one for each"):
            encoder(x, (params,), None, (o, o))
        with pytest.raises(dataclasses.FrozenInstanceError):
            o.num_heads = 3
        for bad in ({"norm": "none"}, {"eps": -1}, {"activation": "x"}, {"num_kv_heads": 3}):
            with pytest.raises(ValueError, match=next(iter(bad))):
                BlockOptions(**{"num_heads": 2} | bad)


class TestPairs:
    def test_rotation_of_halves(self, rng, draw):
        # channels in another order are rotated in pairs of another kind
        params, x = draw.encoder_block(), rng.normal(size=(3, 4))
        wide = params.attention
        wide = wide._replace(w_q=rng.normal(size=(8, 4)), w_k=rng.normal(size=(8, 4)))
        wide = wide._replace(b_q=rng.normal(size=8), b_k=rng.normal(size=8))
        halves = np.array([0, 2, 1, 3, 4, 6, 5, 7])
        turned = wide._replace(
            w_q=wide.w_q[halves], w_k=wide.w_k[halves], b_q=wide.b_q[halves], b_k=wide.b_k[halves]
        )
        tables = rope_tables(np.arange(3), [1.0, 0.1])
        want, got = (
            encoder_block(
                x, params._replace(attention=p), num_heads=2, rope=tables, rope_interleaved=pairs
            )
            for p, pairs in ((wide, True), (turned, False))
        )
        np.testing.assert_allclose(got, want, rtol=1e-13)


class TestDropout:
    def test_of_everything_leaves_the_shortcut(self, rng, draw):
        params, x = draw.encoder_block(), rng.normal(size=(3, 4))
        nothing = np.zeros((3, 4))
        got = encoder_block(x, params, num_heads=2, norm_first=True, dropout=(nothing, nothing))
        np.testing.assert_array_equal(got, x)

    @pytest.mark.parametrize("rate", [0.0, 0.25, 0.9])
    def test_keeps_the_mean(self, rate):
        factors = dropout_mask(np.random.default_rng(0), (400, 500), rate=rate)
        assert factors.mean() == pytest.approx(1.0, abs=0.02)
        assert np.mean(factors == 0) == pytest.approx(rate, abs=0.005)

    def test_all_and_types(self, rng):
        assert not dropout_mask(rng, 5, rate=1, dtype=np.float32).any()
        assert dropout_mask(rng, (2, 3), rate=0.5, dtype=np.float32).dtype == np.float32
        assert dropout_mask(rng, (2, 3), rate=0.5, dtype=int).dtype == np.float64  # as everywhere
        with pytest.raises(TypeError, match="'dtype' must be integer, float16"):
            dropout_mask(rng, (2, 3), rate=0.5, dtype=complex)

    def test_errors(self, rng, draw):
        with pytest.raises(ValueError, match=r"'rate' must be from 0 to 1, not 2"):
            dropout_mask(rng, 3, rate=2)
        with pytest.raises(TypeError, match=r"'rng' must be a numpy.random.Generator"):
            dropout_mask(0, 3, rate=0.5)
        x, params = rng.normal(size=(3, 4)), draw.encoder_block()
        with pytest.raises(
            ValueError, match=r"'dropout' must be a tuple of 2 arrays or None, not 1 "
        ):
            encoder_block(x, params, num_heads=2, dropout=(None,))
        with pytest.raises(
            ValueError, match=r"'dropout' must be a tuple of 2 arrays or None, not 0.5"
        ):
            encoder_block(x, params, num_heads=2, dropout=0.5)
        with pytest.raises(ValueError, match=r"'dropout\[1\]' must have batch axes"):
            encoder_block(x, params, num_heads=2, dropout=(None, np.ones(5)))


def test_fields_are_what_their_types_say():
    norms = {"norm1", "norm2", "output_norm1", "output_norm2"}
    assert set(norm_fields(EncoderBlockParams)) == norms
    assert sublayer_fields(EncoderBlockParams) == ("attention", "feed_forward")
    assert norm_fields(DecoderBlockParams) == ("norm1", "norm2", "norm3")
    assert norm_fields(EncoderDecoderParams) == ("encoder_norm", "norm")
    assert norm_fields(GatedDeltaParams) == norm_fields(AttentionParams) == ()  # they have weights
    kinds = {field: options.kinds[0] for field, options in declared(EncoderBlockParams).items()}
    assert kinds["attention"] is AttentionParams  # what a plain tuple is taken for
    assert kinds["feed_forward"] is FeedForwardParams
    for kind, optional in {
        FeedForwardParams: {"b1", "b2"},
        NormParams: {"weight", "bias"},
        EncoderBlockParams: norms,
        DecoderBlockParams: set(),
    }.items():
        assert {field for field, options in declared(kind).items() if options.none} == optional


class TestErrors:
    @pytest.fixture
    def x(self, rng):
        return rng.normal(size=(3, 4))

    def test_heads(self, x, draw):
        with pytest.raises(ValueError, match=r"'num_kv_heads' must divide num_heads = 2, not 3"):
            encoder_block(x, draw.encoder_block(), num_heads=2, num_kv_heads=3)
        with pytest.raises(
            ValueError, match=r"'params.attention.w_q' must have .* multiple of 3, not 4"
        ):
            encoder_block(x, draw.encoder_block(), num_heads=3)

    @pytest.mark.parametrize(
        ("field", "key"),
        [("attention", "w_o"), ("attention", "b_k"), ("norm1", "weight"), ("feed_forward", "w2")],
    )
    def test_shape_names_the_parameter(self, x, draw, field, key):
        params = draw.encoder_block()
        part = getattr(params, field)
        wrong = np.ones((7,) * np.ndim(getattr(part, key)))
        params = params._replace(**{field: part._replace(**{key: wrong})})
        with pytest.raises(ValueError, match=rf"'params.{field}.{key}' must have shape"):
            encoder_block(x, params, num_heads=2)

    def test_axes(self, draw):
        with pytest.raises(ValueError, match=r"'x' must have at least 2 axes"):
            encoder_block(np.ones(4), draw.encoder_block(), num_heads=2)
        with pytest.raises(ValueError, match=r"'memory' must have at least 2 axes"):
            decoder_block(np.ones((3, 4)), np.ones(4), draw.decoder_block(), num_heads=2)
        params = draw.encoder_block()
        flat = params._replace(attention=params.attention._replace(w_q=np.ones(4)))
        with pytest.raises(ValueError, match=r"'params.attention.w_q' must have shape \(H E, 4\)"):
            encoder_block(np.ones((3, 4)), flat, num_heads=2)

    def test_structure(self, x, draw):
        params = draw.encoder_block()
        with pytest.raises(TypeError, match=r"'params' must be EncoderBlockParams\(attention, "):
            encoder_block(x, params[:3], num_heads=2)
        with pytest.raises(TypeError, match=r"'params.norm1' must be NormParams\(weight, bias\)"):
            encoder_block(x, params._replace(norm1=np.ones(4)), num_heads=2)

    def test_a_tuple_of_three_is_no_network(self, x, draw):
        """It may be a plain network without b2, or a gated one: the caller says which."""
        params = draw.encoder_block()
        with pytest.raises(
            TypeError, match=r"'params.feed_forward' must be FeedForwardParams.*b2 is missing"
        ):
            encoder_block(x, params._replace(feed_forward=params.feed_forward[:3]), num_heads=2)
        gated = GatedFeedForwardParams(*np.ones((2, 8, 4)), np.ones((4, 8)))
        params = params._replace(feed_forward=gated)
        assert encoder_block(x, params, num_heads=2, activation="silu").shape == (3, 4)
        with pytest.raises(TypeError, match=r"three matrices is GatedFeedForwardParams\(w_gate, "):
            encoder_block(x, params._replace(feed_forward=tuple(gated[:3])), num_heads=2)

    def test_rms_norm_has_no_bias(self, x, draw):
        with pytest.raises(
            ValueError, match=r"'params.norm1.bias' must be None where norm is 'rms'"
        ):
            encoder_block(x, draw.encoder_block(), num_heads=2, norm="rms")

    def test_options(self, x, draw):
        with pytest.raises(ValueError, match=r"'norm' must be 'layer' or 'rms', not 'batch'"):
            encoder_block(x, draw.encoder_block(), num_heads=2, norm="batch")
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'masks'"):
            encoder_block(x, draw.encoder_block(), num_heads=2, masks=None)

    def test_plain_tuples_are_fine(self, x, draw):
        params = draw.encoder_block()
        bare = tuple(tuple(part) for part in params[:4])
        got = encoder_block(x, bare, num_heads=2)
        np.testing.assert_array_equal(got, encoder_block(x, params, num_heads=2))

    def test_empty_batch(self, draw):
        assert encoder_block(np.ones((0, 3, 4)), draw.encoder_block(), num_heads=2).shape == (
            0,
            3,
            4,
        )
