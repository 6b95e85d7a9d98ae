"""Scaled dot-product attention against PyTorch, itself, and its edges."""

import itertools
import math
import tracemalloc

import numpy as np
import peers
import pytest

from dlref import attention
from dlref._core.jit import COMPILED
from dlref.activations import logsumexp, softmax
from dlref.attention import (
    attention_scores,
    attention_scores_jvp,
    attention_scores_vjp,
    attention_weights,
    attention_weights_jvp,
    attention_weights_vjp,
    causal_mask,
    padding_mask,
    repeat_kv,
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
    window_mask,
)
from dlref.attention._kernels import flash

B, H, Hk, T, S, E, V = 2, 4, 2, 5, 6, 4, 3
NAMES = "mask", "bias", "is_causal", "q_offset", "window", "softcap", "sink"
OPTIONS = [
    dict(zip(NAMES, chosen, strict=True))
    for chosen in itertools.product(
        (False, True), (False, True), (False, True), (0, 2), (None, (3, 1)), (None, 2.0),
        (False, True),
    )
]  # fmt: skip


def name_of(options):
    return "-".join(str(value) for value in options.values())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    arrays = {
        "q": rng.normal(size=(B, H, T, E)),
        "k": rng.normal(size=(B, Hk, S, E)),
        "v": rng.normal(size=(B, Hk, S, V)),
        "bias": rng.normal(size=(H, T, S)),
        "sink": rng.normal(size=H),
        "mask": rng.random((B, 1, T, S)) > 0.3,
        "dout": rng.normal(size=(B, H, T, V)),
        "dlse": rng.normal(size=(B, H, T)),
    }
    arrays["mask"][0, 0, 3] = False  # a row that sees nothing
    return arrays


@pytest.fixture(params=OPTIONS, ids=name_of)
def given(request, data):
    return {
        name: (data[name] if value else None) if name in ("mask", "bias", "sink") else value
        for name, value in request.param.items()
    }


def seen(options):
    """Return the mask that all options together make."""
    left, right = options["window"] or (None, None)
    out = window_mask(T, S, left=left, right=right, q_offset=options["q_offset"])
    if options["is_causal"]:
        out = out & causal_mask(T, S, q_offset=options["q_offset"])
    return out if options["mask"] is None else out & options["mask"]


def by_torch(options):
    """Return a function of q, k, v, bias, sink that gives the output and the log-sum-exp."""
    torch = peers.torch
    visible = torch.tensor(seen(options))

    def f(q, k, v, *rest):
        rest = list(rest)
        k, v = (x.repeat_interleave(H // Hk, -3) for x in (k, v))
        s = q @ k.transpose(-1, -2) / E**0.5
        if options["softcap"]:
            s = options["softcap"] * torch.tanh(s / options["softcap"])
        if options["bias"] is not None:
            s = s + rest.pop(0)
        s = s.masked_fill(~visible, -torch.inf)
        if rest:
            s = torch.cat([s, rest[0][:, None, None].expand(*s.shape[:-1], 1)], -1)
        lse = torch.logsumexp(s, -1)
        empty = torch.isneginf(lse)
        p = torch.exp(s - torch.where(empty, 0.0, lse)[..., None])
        return p[..., :S] @ v, torch.where(empty, 0.0, lse)

    return f


def operands(data, options):
    extra = [options[name] for name in ("bias", "sink") if options[name] is not None]
    return [data["q"], data["k"], data["v"], *extra]


class TestAgainstPyTorch:
    def test_value_lse_and_all_gradients(self, data, given, assert_close):
        f, moving = by_torch(given), operands(data, given)
        u, lam = data["dout"], data["dlse"]
        torch = peers.torch

        def loss(*xs):
            out, lse = f(*xs)
            return (out * torch.tensor(u)).sum() + (lse * torch.tensor(lam)).sum()

        out, lse = f(*map(torch.tensor, moving))
        got, got_lse = scaled_dot_product_attention(*moving[:3], **given, return_lse=True)
        assert_close(got, out.numpy())
        empty = got_lse == -np.inf
        assert_close(np.where(empty, 0, got_lse), lse.numpy())
        _, want = peers.value_and_vjp(loss, *moving)
        lam = np.where(empty, 0, lam)
        grads = scaled_dot_product_attention_vjp(u, *moving[:3], dlse=lam, **given)
        assert len(grads) == len(want)
        for g, w in zip(grads[:4], want[:4], strict=True):
            assert_close(g, w, scale=max(abs(w).max(), 1.0))
        for g, w in zip(grads[4:], want[4:], strict=True):
            assert_close(g, w, scale=abs(u).sum() / H)  # the sum of what meets in a sink

    def test_jvp_is_adjoint(self, data, given):
        rng, moving = np.random.default_rng(1), operands(data, given)
        tangents = [rng.normal(size=x.shape) for x in moving]
        names = [f"d{name}" for name in ("bias", "sink") if given[name] is not None]
        more = dict(zip(names, tangents[3:], strict=True))
        out, lse = scaled_dot_product_attention_jvp(
            moving[:3], tangents[:3], **more, **given, return_lse=True
        )
        grads = scaled_dot_product_attention_vjp(
            data["dout"], *moving[:3], dlse=data["dlse"], **given
        )
        forwards = (out * data["dout"]).sum() + (lse * data["dlse"]).sum()
        terms = [g * t for g, t in zip(grads, tangents, strict=True)]
        backwards = sum(term.sum() for term in terms)
        scale = sum(abs(term).sum() for term in terms)
        assert abs(forwards - backwards) <= 4e-15 * scale

    def test_weights_and_scores(self, data, given, assert_close):
        q, k, v = data["q"], data["k"], data["v"]
        out, lse, p = scaled_dot_product_attention(
            q, k, v, **given, return_lse=True, return_weights=True
        )
        assert_close(attention_weights(q, k, **given), p)
        assert_close(p @ repeat_kv(v, H // Hk), out)
        plain = {name: value for name, value in given.items() if name != "sink"}
        scores = attention_scores(q, k, **plain)
        np.testing.assert_array_equal(scores == -np.inf, np.broadcast_to(~seen(given), p.shape))
        if given["sink"] is None:
            assert_close(logsumexp(scores), lse)
            rows = lse > -np.inf
            assert_close(softmax(scores[rows]), p[rows])


class TestDense:
    """Scores and weights, whose gradients go through another code than those of the output."""

    @pytest.mark.parametrize("options", OPTIONS[::7], ids=name_of)
    def test_adjointness_and_the_product_rule(self, data, options, assert_close):
        given = {
            name: (data[name] if value else None) if name in ("mask", "bias", "sink") else value
            for name, value in options.items()
        }
        rng, (q, k, v, *extra) = np.random.default_rng(2), operands(data, given)
        moves = [rng.normal(size=x.shape) for x in (q, k, v, *extra)]
        names = [f"d{name}" for name in ("bias", "sink") if given[name] is not None]
        more = dict(zip(names, moves[3:], strict=True))
        out, dp = scaled_dot_product_attention_jvp(
            (q, k, v), moves[:3], **more, **given, return_weights=True
        )
        p = attention_weights(q, k, **given)
        n = H // Hk
        assert_close(
            dp @ repeat_kv(v, n) + p @ repeat_kv(moves[2], n), out, scale=abs(out).max() + 1
        )
        assert_close(attention_weights_jvp((q, k), moves[:2], **more, **given), dp)
        u = rng.normal(size=p.shape)
        grads = attention_weights_vjp(u, q, k, **given)
        tangents = [*moves[:2], *moves[3:]]
        terms = [g * t for g, t in zip(grads, tangents, strict=True)]
        scale = sum(abs(term).sum() for term in terms)
        assert abs((u * dp).sum() - sum(t.sum() for t in terms)) <= 4e-15 * scale
        given.pop("sink")
        more.pop("dsink", None)
        ds = attention_scores_jvp((q, k), moves[:2], **more, **given)
        grads = attention_scores_vjp(u, q, k, **given)
        terms = [g * t for g, t in zip(grads, tangents, strict=False)]
        scale = sum(abs(term).sum() for term in terms)
        assert abs((u * ds).sum() - sum(t.sum() for t in terms)) <= 4e-15 * scale


@pytest.fixture
def tiles(monkeypatch):
    def choose(queries, keys):
        monkeypatch.setattr(flash, "QUERIES", queries)
        monkeypatch.setattr(flash, "KEYS", keys)

    return choose


class TestTiles:
    @pytest.mark.parametrize("size", [(1, 1), (2, 3), (4, 2), (3, 100)])
    @pytest.mark.parametrize("options", OPTIONS[5::11], ids=name_of)
    def test_of_any_size_give_the_same(self, data, options, size, tiles, assert_close):
        given = {
            name: (data[name] if value else None) if name in ("mask", "bias", "sink") else value
            for name, value in options.items()
        }
        q, k, v, u = (data[name] for name in ("q", "k", "v", "dout"))
        calls = [
            lambda: scaled_dot_product_attention(
                q, k, v, **given, return_lse=True, return_weights=True
            ),
            lambda: scaled_dot_product_attention_vjp(u, q, k, v, **given),
            lambda: scaled_dot_product_attention_jvp(
                (q, k, v), (k.repeat(2, 1)[..., :T, :], k, v), **given, return_lse=True
            ),
        ]
        for call in calls:
            tiles(64, 64)
            want = call()
            tiles(*size)
            for g, w in zip(call(), want, strict=True):
                np.testing.assert_allclose(g, w, rtol=0, atol=4e-15 * abs(u).sum() / H)

    @pytest.mark.parametrize("shape", [(), (1,), (T, 1), (1, S), (H, 1, S), (B, 1, 1, 1)])
    def test_gradient_of_a_bias_of_any_shape(self, data, shape, tiles, assert_close):
        tiles(3, 2)
        rng = np.random.default_rng(3)
        bias = rng.normal(size=shape)
        q, k, v, u = (data[name] for name in ("q", "k", "v", "dout"))
        whole = np.broadcast_to(bias, (B, H, T, S))
        want = scaled_dot_product_attention_vjp(u, q, k, v, bias=whole)[3]
        axes = tuple(axis for axis, n in enumerate(((1,) * (4 - len(shape))) + shape) if n == 1)
        got = scaled_dot_product_attention_vjp(u, q, k, v, bias=bias)[3]
        assert_close(got, want.sum(axes).reshape(shape), scale=abs(want).sum())
        dbias = rng.normal(size=shape)
        moved = scaled_dot_product_attention_jvp(
            (q, k, v), (None, None, None), bias=bias, dbias=dbias
        )
        assert abs((moved * u).sum() - (got * dbias).sum()) < 4e-15 * abs(want).sum()

    def test_hidden_tiles_are_not_visited(self, data, tiles):
        tiles(2, 2)
        q = data["q"][:, :Hk]
        k, v = data["k"].copy(), data["v"].copy()
        k[..., T:, :] = v[..., T:, :] = np.nan  # beyond what the last query sees
        got = scaled_dot_product_attention(q, k, v, is_causal=True)
        want = scaled_dot_product_attention(q, k[..., :T, :], v[..., :T, :], is_causal=True)
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=4e-16)  # sums in another order


@pytest.mark.skipif(not COMPILED, reason="minutes if interpreted")
class TestMemory:
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_grows_with_the_length_not_its_square(self, is_causal):
        def all_three(length):
            q = np.ones((1, 4, length, 8), np.float32)
            scaled_dot_product_attention(q, q, q, is_causal=is_causal)
            scaled_dot_product_attention_vjp(q, q, q, q, is_causal=is_causal)
            scaled_dot_product_attention_jvp((q, q, q), (q, q, q), is_causal=is_causal)

        length = 1024  # a matrix of scores would have 16 MB
        all_three(length)  # compiles, which takes memory, too; for threads by itself
        tracemalloc.start()
        all_three(length)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        tiles = 2 * 2 * 4 * flash.QUERIES * flash.KEYS
        assert peak < 16 * 4 * length * 8 * 4 + 2 * tiles  # some arrays like q, and tiles

    def test_is_that_of_the_output_of_scaled_queries_and_of_tiles(self, set_num_threads):
        q = np.ones((1, 8, 4096, 64), np.float32)
        set_num_threads(1)
        scaled_dot_product_attention(*3 * [q[..., :256, :]])  # compiles
        tracemalloc.start()
        out = scaled_dot_product_attention(q, q, q, window=(64, 0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0 < peak - 2 * out.nbytes < 1.6e6  # as the docstring says

    @pytest.mark.parametrize(("heads", "parts"), [(8, 0), (1, 8)])
    def test_of_the_vjp_has_the_gradient_of_few_heads_in_parts(self, heads, parts, set_num_threads):
        q = np.ones((1, heads, 4096, 64), np.float32)
        set_num_threads(1)
        scaled_dot_product_attention_vjp(*4 * [q[..., :256, :]])  # compiles
        tracemalloc.start()
        gradients = scaled_dot_product_attention_vjp(q, q, q, q, window=(64, 0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        arrays = len(gradients) + 2 + parts  # the output and the scaled queries
        assert 0 < peak - arrays * q.nbytes < 4e6

    def test_a_long_sequence_fits_in_300_megabytes(self):
        resource = pytest.importorskip("resource", reason="not on Windows")
        q = np.zeros((1, 8, 16384, 64), np.float32)
        scaled_dot_product_attention(*3 * [q[..., :16, :]])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        scaled_dot_product_attention(q, q, q, window=(64, 0))  # the same arrays, fewer tiles
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert used < 300


class TestMasked:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("by", ["mask", "bias"])
    def test_nan_behind_a_mask_stays_there(self, data, dtype, by, assert_close):
        seen = padding_mask([4, 6], S)
        hidden = {"mask": seen} if by == "mask" else {"bias": np.where(seen, dtype(0), -np.inf)}
        q, k, v, u = (data[name].astype(dtype) for name in ("q", "k", "v", "dout"))
        tangents = q, k, v
        want = scaled_dot_product_attention(q, k, v, return_lse=True, **hidden)
        grads = scaled_dot_product_attention_vjp(u, q, k, v, **hidden)
        moved = scaled_dot_product_attention_jvp((q, k, v), tangents, **hidden)
        k, v = k.copy(), v.copy()
        k[0, :, 4:], v[0, :, 4:] = np.nan, np.inf
        got = scaled_dot_product_attention(q, k, v, return_lse=True, **hidden)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, dtype=dtype)
        for g, w in zip(scaled_dot_product_attention_vjp(u, q, k, v, **hidden), grads, strict=True):
            assert_close(g, w, dtype=dtype, scale=10 * abs(w).max())
        got = scaled_dot_product_attention_jvp((q, k, v), tangents, **hidden)
        assert_close(got, moved, dtype=dtype, scale=10 * abs(moved).max())
        assert np.all(grads[1][0, :, 4:] == 0)
        assert np.all(grads[2][0, :, 4:] == 0)
        p = attention_weights(q, k, **hidden)
        assert np.isfinite(p).all()
        for dense in (
            attention_weights_vjp(np.ones_like(p), q, k, **hidden),
            attention_scores_vjp(np.ones_like(p), q, k, **hidden),
            [attention_weights_jvp((q, k), (q, k), **hidden)],
        ):
            assert all(np.isfinite(g).all() for g in dense)

    @pytest.mark.skipif(not COMPILED, reason="of a long row")
    def test_row_totals_are_those_of_float64(self, rng):
        # of 2^17 weights; the bias brings their log-sum-exp to 0, where float32 is finest
        k, q = (rng.normal(size=(n, 4)).astype(np.float32) for n in (2**17, 30))
        bias = np.full((1, 1), -17 * math.log(2), np.float32)
        lse = scaled_dot_product_attention(q / 8, k, k, bias=bias, return_lse=True)[1]
        scores = q.astype(np.float64) @ k.T.astype(np.float64) / 16
        want = np.log(np.exp(scores + float(bias[0, 0])).sum(-1))
        assert np.max(abs(lse - want)) < 1e-7

    @pytest.mark.parametrize(
        "options",
        [
            {"mask": np.zeros((T, S), bool)},
            {"bias": np.full((T, S), -np.inf)},
            {"is_causal": True, "q_offset": -T},
            {"window": (0, 0), "q_offset": S},
        ],
        ids=["mask", "bias", "causal", "window"],
    )
    def test_rows_that_see_nothing(self, data, options):
        q, k, v, u = (data[name] for name in ("q", "k", "v", "dout"))
        out, lse, p = scaled_dot_product_attention(
            q, k, v, **options, return_lse=True, return_weights=True
        )
        assert np.all(out == 0)
        assert np.all(lse == -np.inf)
        assert np.all(p == 0)
        for grad in scaled_dot_product_attention_vjp(u, q, k, v, **options):
            assert np.all(grad == 0)
        moved = scaled_dot_product_attention_jvp(
            (q, k, v), (q, k, v), **options, return_lse=True, return_weights=True
        )
        assert all(np.all(m == 0) for m in moved)

    def test_a_sink_alone_takes_all(self, data):
        q, k, v, sink = (data[name] for name in ("q", "k", "v", "sink"))
        mask = np.zeros((1, 1), bool)
        out, lse = scaled_dot_product_attention(q, k, v, mask=mask, sink=sink, return_lse=True)
        assert np.all(out == 0)
        np.testing.assert_allclose(lse, np.broadcast_to(sink[:, None], lse.shape), rtol=1e-15)
        *_, dsink = scaled_dot_product_attention_vjp(
            0 * data["dout"], q, k, v, dlse=np.ones((B, H, T)), mask=mask, sink=sink
        )
        np.testing.assert_allclose(dsink, B * T)
        _, moved = scaled_dot_product_attention_jvp(
            (q, k, v), (q, k, v), dsink=2 * sink, mask=mask, sink=sink, return_lse=True
        )
        np.testing.assert_allclose(moved, np.broadcast_to(2 * sink[:, None], lse.shape))

    def test_a_sink_of_minus_infinity_is_none(self, data, assert_close):
        q, k, v, u = (data[name] for name in ("q", "k", "v", "dout"))
        sink = np.full(H, -np.inf)
        want = scaled_dot_product_attention_vjp(u, q, k, v)
        *got, dsink = scaled_dot_product_attention_vjp(u, q, k, v, sink=sink)
        assert_close(tuple(got), want)
        assert np.all(dsink == 0)

    def test_a_finite_number_is_no_mask(self):
        scores, v = np.array([[0.0, 1.0, 2.0]]), np.eye(3)
        hidden = np.full((1, 3), -1e9)
        for dtype, want in ((np.float32, [1 / 3] * 3), (np.float64, softmax(scores)[0])):
            out = scaled_dot_product_attention(
                scores.astype(dtype), v.astype(dtype), v.astype(dtype), scale=1.0,
                bias=hidden.astype(dtype),
            )[0]  # fmt: skip
            np.testing.assert_allclose(out, want, rtol=1e-6)
        assert (
            float(np.finfo(np.float16).min) > -1e9
        )  # and in half precision there is no such number


class TestFloat32:
    @pytest.mark.parametrize("width", [8, 64])
    @pytest.mark.parametrize("spread", [1.0, 5.0])
    def test_is_within_64_units(self, rng, width, spread, assert_close):
        length = 300 if COMPILED else 20
        q, k, v, u = (rng.normal(size=(2, length, width)).astype(np.float32) for _ in range(4))
        q = spread * q
        wide = [x.astype(np.float64) for x in (q, k, v)]
        got = scaled_dot_product_attention(q, k, v, is_causal=True, return_lse=True)
        want = scaled_dot_product_attention(*wide, is_causal=True, return_lse=True)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, dtype=np.float32)
        got = scaled_dot_product_attention_vjp(u, q, k, v, is_causal=True)
        want = scaled_dot_product_attention_vjp(u, *wide, is_causal=True)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, dtype=np.float32)
        got = scaled_dot_product_attention_jvp((q, k, v), (u, k, q), is_causal=True)
        want = scaled_dot_product_attention_jvp(wide, (u, k, q), is_causal=True)
        assert_close(got, want, dtype=np.float32)

    def test_exponential(self):
        x = -np.concatenate([np.linspace(0, 90, 5001), [np.inf, 1e30]]).astype(np.float32)
        got = np.array([flash.rescaled_single(each) for each in x])
        want = np.exp(x.astype(np.float64))
        normal, tiny = x > -87.3, np.finfo(np.float32).tiny
        error = abs(got[normal] - want[normal]) / np.spacing(want[normal].astype(np.float32))
        assert error.max() < 1.0
        assert np.all(abs(got - want)[~normal] <= tiny)
        assert np.all(got[x < -87.7] == 0)
        assert np.isnan(flash.rescaled_single(np.float32(np.nan)))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_large_scores_overflow_nothing(self, dtype):
        q = np.array([[1e4]], dtype)
        k = np.array([[1e4], [1.0001e4]], dtype)
        out, lse = scaled_dot_product_attention(q, k, k, scale=1.0, return_lse=True)
        assert out[0, 0] == k[1, 0]
        assert lse[0] == dtype(1e4) * k[1, 0]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_negative_and_nan_scores(self, dtype):
        q = np.array([[-3.0]], dtype)
        k = np.array([[1.0], [2.0], [4.0]], dtype)
        out = scaled_dot_product_attention(q, k, k, scale=1.0)
        want = softmax(np.array([[-3.0, -6.0, -12.0]])) @ k
        np.testing.assert_allclose(out, want, rtol=1e-6)
        for bad in (np.nan, -np.nan):
            k[1] = bad
            assert np.isnan(scaled_dot_product_attention(q, k, k)).all()


class TestSymmetry:
    def test_a_permutation_of_tokens_permutes_the_outputs(self, rng, assert_close):
        x, order = rng.normal(size=(6, 4)), rng.permutation(6)
        P = attention_weights(x, x)
        assert_close(attention_weights(x[order], x[order]), P[order][:, order])
        out = scaled_dot_product_attention(x, x, x)
        moved = scaled_dot_product_attention(x[order], x[order], x[order])
        assert_close(moved, out[order])
        assert abs(moved - out).max() > 0.1  # equivariant, not invariant
        assert_close(moved.mean(0), out.mean(0), scale=1.0)  # a pooled output is

    def test_permuted_keys_change_nothing(self, rng, assert_close):
        q, k, v = (rng.normal(size=(5, 4)) for _ in range(3))
        order = rng.permutation(5)
        want = scaled_dot_product_attention(q, k, v)
        assert_close(scaled_dot_product_attention(q, k[order], v[order]), want)

    def test_a_mask_breaks_it(self, rng):
        x, order = rng.normal(size=(6, 4)), [1, 0, 2, 3, 4, 5]
        out = scaled_dot_product_attention(x, x, x, is_causal=True)
        x = x[order]
        moved = scaled_dot_product_attention(x, x, x, is_causal=True)
        assert abs(moved - out[order]).max() > 0.01

    def test_variance_of_the_scores(self):
        rng = np.random.default_rng(0)
        for width in (16, 256):
            q, k = rng.normal(size=(2, 200, width))
            assert np.var(attention_scores(q, k)) == pytest.approx(1, rel=0.05)
            assert np.var(attention_scores(q, k, scale=1.0)) == pytest.approx(width, rel=0.05)


class TestShapes:
    def test_nothing_at_all(self):
        for shape_q, shape_k, shape_v in [
            ((0, 2, 3, 4), (0, 1, 5, 4), (0, 1, 5, 6)),
            ((2, 0, 4), (2, 3, 4), (2, 3, 5)),
            ((2, 3, 4), (2, 0, 4), (2, 0, 5)),
            ((3, 0), (4, 0), (4, 2)),
            ((3, 2), (4, 2), (4, 0)),
            ((0, 3, 2), (0, 4, 2), (0, 4, 1)),
        ]:
            q, k, v = np.ones(shape_q), np.ones(shape_k), np.ones(shape_v)
            out, lse, p = scaled_dot_product_attention(
                q, k, v, return_lse=True, return_weights=True
            )
            assert out.shape == (*q.shape[:-1], v.shape[-1])
            assert lse.shape == q.shape[:-1]
            assert p.shape == (*q.shape[:-1], k.shape[-2])
            grads = scaled_dot_product_attention_vjp(out, q, k, v)
            assert [g.shape for g in grads] == [x.shape for x in (q, k, v)]
            moved = scaled_dot_product_attention_jvp((q, k, v), (q, k, v))
            assert moved.shape == out.shape
            assert [g.shape for g in attention_weights_vjp(p, q, k)] == [q.shape, k.shape]
            assert attention_weights_jvp((q, k), (q, k)).shape == p.shape

    def test_keys_without_width_match_alike(self):
        out = scaled_dot_product_attention(np.ones((1, 0)), np.ones((2, 0)), [[1.0], [3.0]])
        assert out.tolist() == [[2.0]]


class TestErrors:
    def test_shapes(self):
        q, k, v = np.ones((2, 4, 3, 5)), np.ones((2, 2, 6, 5)), np.ones((2, 2, 6, 7))
        f = scaled_dot_product_attention
        for arguments, words in [
            ((q, k[..., :4], v), r"'k' must have shape \(2, Hk, S, 5\), not \(2, 2, 6, 4\)"),
            ((q, k[:1], v), r"'k' must have shape \(2, Hk, S, 5\), not \(1, 2, 6, 5\)"),
            ((q, k, v[:, :, :5]), r"'v' must have shape \(2, 2, 6, V\), not \(2, 2, 5, 7\)"),
            ((q, k, v[:, :1]), r"'v' must have shape \(2, 2, 6, V\), not \(2, 1, 6, 7\)"),
            ((q[:, :3], k, v), "'q' must have a number of heads that is a multiple of 2, not 3"),
            ((q[0, 0, 0], k, v), r"'q' must have at least 2 axes, not shape \(5,\)"),
            ((q, k[0], v), r"'k' must have shape \(2, Hk, S, 5\), not \(2, 6, 5\)"),
        ]:
            with pytest.raises(ValueError, match=words):
                f(*arguments)
        grad = scaled_dot_product_attention_vjp
        with pytest.raises(ValueError, match=r"'dout' must have shape \(2, 4, 3, 7\), not"):
            grad(q, q, k, v)
        with pytest.raises(ValueError, match=r"'dlse' must have shape \(2, 4, 3\), not"):
            grad(np.ones((2, 4, 3, 7)), q, k, v, dlse=q)

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"mask": np.ones((3, 6))}, TypeError, "'mask' must be boolean .True = attend., not"),
            ({"bias": np.ones((3, 6), bool)}, TypeError, "'bias' must be real, not bool"),
            (
                {"mask": np.ones((3, 5), bool)},
                ValueError,
                r"'mask' must broadcast to \(..., H, T, S\) = \(4, 3, 6\), not have shape \(3, 5\)",
            ),
            ({"bias": np.ones((2, 1, 3, 6))}, ValueError, "'bias' must broadcast to"),
            ({"sink": np.ones(3)}, ValueError, r"'sink' must have shape \(4,\), not \(3,\)"),
            ({"softcap": 0.0}, ValueError, "'softcap' must be greater than 0, not 0"),
            ({"scale": "x"}, TypeError, "'scale' must be a number"),
            ({"q_offset": 0.5}, TypeError, "'q_offset' must be an integer"),
            ({"window": 3}, TypeError, "'window' must be a pair .left, right. or None, not 3"),
            ({"window": (1, 2, 3)}, TypeError, "'window' must be a pair"),
            ({"window": (-2, 0)}, ValueError, "'window' must be at least -1, not -2"),
            ({"window": (0.5, 0)}, TypeError, r"'window' must be an integer, not 0\.5"),
            ({"window": np.ones((2, 2))}, TypeError, r"'window' must be a pair .*\]\]\)\.$"),
            ({"is_causal": np.ones(2, bool)}, TypeError, "'is_causal' must be True or False, not"),
            ({"return_lse": "yes"}, TypeError, "'return_lse' must be True or False, not 'yes'"),
            ({"q_offset": 2**63}, ValueError, "'q_offset' must be at most 536870912, not"),
            ({"scale": 10**400}, ValueError, "'scale' must be a float64 number, not 1000"),
            ({"is_causal": "yes"}, TypeError, "'is_causal' must be True or False, not 'yes'"),
            ({"is_causal": 1}, TypeError, "'is_causal' must be True or False, not 1"),
        ],
    )
    def test_options(self, options, error, words):
        q, k, v = np.ones((4, 3, 5)), np.ones((2, 6, 5)), np.ones((2, 6, 7))
        with pytest.raises(error, match=words):
            scaled_dot_product_attention(q, k, v, **options)

    def test_copies_that_no_memory_holds(self):
        for n in (2**62, 2**60):
            with pytest.raises(ValueError, match=r"^Arguments 'n' and 'x' must make fewer than 2"):
                repeat_kv(np.ones((1, 2, 3)), n)
        with pytest.raises(ValueError, match=rf"^Argument 'n' must be at most {2**63 - 1}, not"):
            repeat_kv(np.ones((1, 2, 3)), np.uint64(2**63))

    @pytest.mark.parametrize("f", [attention_scores_jvp, attention_weights_jvp])
    def test_an_infinite_scale_does_not_warn(self, f):
        q = np.zeros((3, 5))
        assert np.isnan(f((q, q), (q, q), scale=np.inf)).all()

    def test_tangents_of_what_is_not_there(self):
        q = np.ones((2, 3, 4))
        for name in ("dbias", "dsink"):
            with pytest.raises(ValueError, match=f"'{name}' must be None, as it belongs to a con"):
                scaled_dot_product_attention_jvp((q, q, q), (q, q, q), **{name: np.ones(2)})
        with pytest.raises(ValueError, match=r"'dbias' must have shape \(3, 3\), not \(3,\)"):
            scaled_dot_product_attention_jvp(
                (q, q, q), (q, q, q), bias=np.ones((3, 3)), dbias=np.ones(3)
            )


class TestFrameworks:
    """What PyTorch does by its own conventions, and how to say it here."""

    def test_causal_begins_at_the_first_key(self, rng, assert_close):
        q, k, v = rng.normal(size=(1, 2, 4)), rng.normal(size=(1, 5, 4)), rng.normal(size=(1, 5, 3))
        torch = peers.torch
        f = torch.nn.functional.scaled_dot_product_attention
        want = f(*map(torch.tensor, (q, k, v)), is_causal=True).numpy()
        assert_close(scaled_dot_product_attention(q, k, v, is_causal=True), want)

    def test_a_row_without_keys_is_zero(self, rng):
        torch, x = peers.torch, rng.normal(size=(1, 3, 4))
        f = torch.nn.functional.scaled_dot_product_attention
        nothing = np.zeros((3, 3), bool)
        theirs = f(*3 * [torch.tensor(x)], attn_mask=torch.tensor(nothing)).numpy()
        assert np.all(theirs == 0)
        assert np.all(scaled_dot_product_attention(x, x, x, mask=nothing) == 0)

    def test_a_mask_of_multihead_attention_blocks(self, rng, assert_close):
        torch, x = peers.torch, rng.normal(size=(3, 4))
        layer = torch.nn.MultiheadAttention(4, 1, bias=False, dtype=torch.float64)
        eye = torch.eye(4, dtype=torch.float64)
        blocked = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 1]], bool)
        with torch.no_grad():
            layer.in_proj_weight.copy_(torch.cat([eye, eye, eye]))
            layer.out_proj.weight.copy_(eye)
            want, _ = layer(*3 * [torch.tensor(x)], attn_mask=torch.tensor(blocked))
        assert_close(scaled_dot_product_attention(x, x, x, mask=~blocked), want.numpy())

    @pytest.mark.parametrize("is_causal", [False, True])
    def test_grouped_heads(self, rng, assert_close, is_causal):
        torch = peers.torch
        q, k, v = (rng.normal(size=(2, heads, 5, 4)) for heads in (6, 2, 2))
        f = torch.nn.functional.scaled_dot_product_attention
        want = f(*map(torch.tensor, (q, k, v)), is_causal=is_causal, enable_gqa=True).numpy()
        assert_close(scaled_dot_product_attention(q, k, v, is_causal=is_causal), want)


class TestDropout:
    OPTIONS = {"is_causal": True, "q_offset": 40, "softcap": 3.0}  # noqa: RUF012

    @pytest.fixture
    def large(self, rng):
        """Return operands of more than one tile, and factors."""
        q, u = (rng.normal(size=(2, 4, 530, 5)) for _ in range(2))
        k, v = (rng.normal(size=(2, 2, 570, 5)) for _ in range(2))
        return u, q, k, v, 1.25 * (rng.random((2, 4, 530, 570)) < 0.8)

    def weighted(self, q, k, factors):
        return attention_weights(q, k, **self.OPTIONS) * factors

    @pytest.mark.skipif(not COMPILED, reason="of many tiles")
    def test_forward_and_reverse_over_tiles(self, large, assert_close):
        u, q, k, v, factors = large
        options = {**self.OPTIONS, "dropout": factors}
        p = self.weighted(q, k, factors)
        wide = repeat_kv(v, 2)
        assert_close(scaled_dot_product_attention(q, k, v, **options), p @ wide)
        dq, dk, dv = scaled_dot_product_attention_vjp(u, q, k, v, **options)
        dp = factors * (u @ wide.swapaxes(-1, -2))
        want = attention_weights_vjp(dp, q, k, **self.OPTIONS)
        assert_close(dq, want[0])
        assert_close(dk, want[1])
        each = p.swapaxes(-1, -2) @ u
        assert_close(dv, each.reshape(2, 2, 2, 570, 5).sum(2))

    @pytest.mark.skipif(not COMPILED, reason="of many tiles")
    def test_forward_mode_over_tiles(self, large, rng, assert_close):
        u, q, k, v, factors = large
        options = {**self.OPTIONS, "dropout": factors}
        tangents = tuple(rng.normal(size=x.shape) for x in (q, k, v))
        moved = scaled_dot_product_attention_jvp((q, k, v), tangents, **options)
        grads = scaled_dot_product_attention_vjp(u, q, k, v, **options)
        pulled = sum(np.sum(g * t) for g, t in zip(grads, tangents, strict=True))
        assert np.sum(u * moved) == pytest.approx(pulled, rel=1e-11)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_against_pytorch(self, data, dtype, assert_close):
        torch = peers.torch
        q, k, v, u = (data[name].astype(dtype) for name in ("q", "k", "v", "dout"))
        factors = np.array([2.0, 0, 1, 2, 0, 0.5])
        tensors = [torch.tensor(x.astype(float), requires_grad=True) for x in (q, k, v)]
        a, b, c = (tensors[0], *(t.repeat_interleave(2, 1) for t in tensors[1:]))
        p = torch.softmax(a @ b.mT / E**0.5, -1) * torch.tensor(factors)
        out = p @ c
        assert_close(
            scaled_dot_product_attention(q, k, v, dropout=factors),
            out.detach().numpy(),
            dtype=dtype,
        )
        want = torch.autograd.grad(out, tensors, torch.tensor(u.astype(float)))
        got = scaled_dot_product_attention_vjp(u, q, k, v, dropout=factors)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == dtype
            assert_close(g, w.numpy(), dtype=dtype)

    def test_of_nothing_is_nothing_and_of_what_is_not_finite_stays_apart(self, data):
        q, k, v = (data[name] for name in ("q", "k", "v"))
        assert not scaled_dot_product_attention(q, k, v, dropout=np.zeros(S)).any()
        v = v.copy()
        v[:, :, 2] = np.inf
        dropped = scaled_dot_product_attention(q, k, v, dropout=np.arange(S) != 2)
        assert np.isfinite(dropped).all()

    def test_log_sum_exp_and_weights_are_those_without(self, data):
        q, k, v = (data[name] for name in ("q", "k", "v"))
        kwargs = {"return_lse": True, "return_weights": True}
        got = scaled_dot_product_attention(q, k, v, dropout=np.arange(S), **kwargs)
        want = scaled_dot_product_attention(q, k, v, **kwargs)
        for g, w in zip(got[1:], want[1:], strict=True):
            np.testing.assert_array_equal(g, w)

    def test_errors(self, data):
        q, k, v = (data[name] for name in ("q", "k", "v"))
        with pytest.raises(ValueError, match="'dropout' must broadcast to"):
            scaled_dot_product_attention(q, k, v, dropout=np.ones(S + 1))
        with pytest.raises(TypeError, match="'dropout' must be"):
            scaled_dot_product_attention(q, k, v, dropout=np.ones(S, complex))


@pytest.mark.parametrize("keys", [10, 1000])
def test_large_values_in_float32(keys):
    q, k = np.ones((2, 4), np.float32), np.ones((keys, 4), np.float32)
    v = np.full((keys, 3), 1e36, np.float32)  # whose sum overflows, and whose mean does not
    out = scaled_dot_product_attention(q, k, v)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, np.float32(1e36), rtol=64 * 2.0**-23)  # of a sum of 1000


@pytest.mark.parametrize("f", ["scaled_dot_product_attention_vjp", "attention_weights_vjp"])
def test_the_sink_of_a_single_head_without_an_axis_of_heads(f, rng, assert_close):
    q, k, v = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 3))
    inputs = (q, k, v) if "product" in f else (q, k)
    dout = rng.normal(size=(3, 3) if "product" in f else (3, 4))
    vjp = getattr(attention, f)
    got = vjp(dout, *inputs, sink=np.array([0.5]))
    want = vjp(dout[None], *(a[None] for a in inputs), sink=np.array([0.5]))
    assert_close(got, (*(g[0] for g in want[:-1]), want[-1]))
