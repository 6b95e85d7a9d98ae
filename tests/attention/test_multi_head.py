"""Multi-head attention: projections, heads, rotation and the cache."""

import numpy as np
import peers
import pytest

from dlref.attention import (
    AttentionParams,
    KVCache,
    multi_head_attention,
    multi_head_attention_jvp,
    multi_head_attention_vjp,
    repeat_kv,
    scaled_dot_product_attention,
)
from dlref.formulas import attention as formulas
from dlref.positions import (
    alibi_bias,
    alibi_slopes,
    apply_rope,
    learned_positions,
    rope_tables,
    sinusoidal,
    t5_bias,
)

B, T, S, D, D_KV, D_OUT = 2, 4, 5, 6, 7, 8
H, Hk, E, V = 4, 2, 4, 3


def draw(rng, biases=True, width=(D, D_KV)):
    shapes = [(H * E, width[0]), (Hk * E, width[1]), (Hk * V, width[1]), (D_OUT, H * V)]
    weights = [rng.normal(size=shape) for shape in shapes]
    return AttentionParams(
        *weights, *(rng.normal(size=w.shape[0]) if biases else None for w in weights)
    )


def whole(rng, together=False, width=(D, D_KV)):
    """Parameters with norms, of each head, of all together or by rows, a gate and sinks."""
    sizes = (H * E, Hk * E) if together else (E, E)
    sizes = ((H, E), (Hk, E)) if together == "rows" else sizes
    return draw(rng, width=width)._replace(
        q_norm=1 + 0.3 * rng.normal(size=sizes[0]),
        k_norm=1 + 0.3 * rng.normal(size=sizes[1]),
        w_gate=rng.normal(size=(H * V, width[0])) / 2,
        b_gate=rng.normal(size=H * V),
        sink=rng.normal(size=H),
    )


def flat(*values):
    """List the arrays of nested tuples."""
    return [
        array
        for value in values
        for array in (flat(*value) if isinstance(value, tuple) else [value])
        if array is not None
    ]


def tangent_like(rng, value):
    if isinstance(value, AttentionParams):
        return AttentionParams(*(tangent_like(rng, each) for each in value))
    return None if value is None else rng.normal(size=np.shape(value))


class TestAgainstPyTorch:
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_value_and_gradients(self, rng, assert_close, is_causal):
        torch = peers.torch
        layer = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
        w, b = rng.normal(size=(24, 8)), rng.normal(size=24)
        w_o, b_o = rng.normal(size=(8, 8)), rng.normal(size=8)
        x, y, u = rng.normal(size=(B, T, 8)), rng.normal(size=(B, S, 8)), rng.normal(size=(B, T, 8))
        blocked = torch.ones(T, S, dtype=torch.bool).triu(1) if is_causal else None

        def f(x, y, w, b, w_o, b_o):
            names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
            values = dict(zip(names, (w, b, w_o, b_o), strict=True))
            options = {"attn_mask": blocked, "need_weights": False}
            return torch.func.functional_call(layer, values, (x, y, y), options)[0]

        value, grads = peers.value_and_vjp(f, x, y, w, b, w_o, b_o, dout=u)
        params = AttentionParams(*np.split(w, 3), w_o, *np.split(b, 3), b_o)
        options = {"num_heads": 2, "is_causal": is_causal}
        assert_close(multi_head_attention(x, y, params, **options), value)
        dx, dy, d = multi_head_attention_vjp(u, x, y, params, **options)
        got = (dx, dy, np.concatenate(d[:3]), np.concatenate(d[4:7]), d.w_o, d.b_o)
        for g, want in zip(got, grads, strict=True):
            assert_close(g, want)


CASES = {
    "plain": {},
    "causal": {"is_causal": True, "q_offset": 1},
    "bias and sink": {"bias": np.linspace(-1, 1, H * T * S).reshape(H, T, S), "sink": np.ones(H)},
    "all": {"softcap": 3.0, "window": (2, 1), "mask": np.arange(S) != 2, "scale": 0.3},
}


class TestDerivatives:
    @pytest.mark.parametrize("options", CASES.values(), ids=CASES)
    @pytest.mark.parametrize("biases", [False, True])
    @pytest.mark.parametrize("rotated", [False, True])
    def test_vjp_jvp_and_differences_agree(self, rng, options, biases, rotated):
        params = draw(rng, biases)
        keys = T if rotated else S
        x, y = rng.normal(size=(B, T, D)), rng.normal(size=(B, keys, D_KV))
        u = rng.normal(size=(B, T, D_OUT))
        options = {"num_heads": H, "num_kv_heads": Hk, **options}
        if rotated:
            options["rope"] = rope_tables(np.arange(T), [1.0])  # half of the channels
            options["rope_interleaved"] = False
            if "bias" in options:
                options["bias"] = options["bias"][..., :keys]
            if "mask" in options:
                options["mask"] = options["mask"][:keys]
        primals = x, y, params
        tangents = tuple(tangent_like(rng, each) for each in primals)
        varied = [name for name in ("bias", "sink") if name in options]
        more = {name: rng.normal(size=options[name].shape) for name in varied}
        moved = multi_head_attention_jvp(
            primals, tangents, **{f"d{n}": v for n, v in more.items()}, **options
        )
        grads = multi_head_attention_vjp(u, *primals, **options)
        terms = [
            g * t for g, t in zip(flat(*grads), [*flat(*tangents), *more.values()], strict=True)
        ]
        scale = sum(abs(term).sum() for term in terms)
        assert abs((u * moved).sum() - sum(term.sum() for term in terms)) <= 4e-15 * scale

        def at(h):
            x, y, *params = [
                p + h * t for p, t in zip(flat(*primals), flat(*tangents), strict=True)
            ]
            params = AttentionParams(*params)
            there = {n: options[n] + h * v for n, v in more.items()}
            return multi_head_attention(x, y, params, **{**options, **there})

        h = 1e-3  # Richardson: the error is of the order h^4
        slopes = [(at(s) - at(-s)) / (2 * s) for s in (h, h / 2)]
        want = (4 * slopes[1] - slopes[0]) / 3
        np.testing.assert_allclose(moved, want, rtol=0, atol=1e-7 * abs(want).max())

    def test_missing_tangents_are_zero(self, rng):
        params, x, y = draw(rng), rng.normal(size=(T, D)), rng.normal(size=(S, D_KV))
        options = {"num_heads": H, "num_kv_heads": Hk}
        dx = rng.normal(size=x.shape)
        zeros = AttentionParams(*(np.zeros_like(p) for p in params[:8]))
        want = multi_head_attention_jvp((x, y, params), (dx, 0 * y, zeros), **options)
        got = multi_head_attention_jvp((x, y, params), (dx, None, None), **options)
        np.testing.assert_array_equal(got, want)

    def test_extra_results(self, rng, assert_close):
        params, x, y = draw(rng), rng.normal(size=(B, T, D)), rng.normal(size=(B, S, D_KV))
        options = {"num_heads": H, "num_kv_heads": Hk, "return_lse": True, "return_weights": True}
        out, lse, p = multi_head_attention(x, y, params, **options)
        assert lse.shape == (B, H, T)
        assert_close(p.sum(-1), np.ones((B, H, T)))
        moves = (x, y, None)
        moved, dlse, dp = multi_head_attention_jvp((x, y, params), moves, **options)
        assert moved.shape == out.shape
        assert dlse.shape == lse.shape
        assert abs(dp.sum(-1)).max() < 1e-13

    def test_the_bias_of_keys_shifts_whole_rows(self, rng):
        params, x, y = draw(rng), rng.normal(size=(T, D)), rng.normal(size=(S, D_KV))
        *_, d = multi_head_attention_vjp(
            np.ones((T, D_OUT)), x, y, params, num_heads=H, num_kv_heads=Hk
        )
        assert abs(d.b_k).max() < 1e-13 * abs(d.b_q).max()


def torch_attention(x, y, params, rope, *, after, offset, eps, mask, bound=np.inf):
    """Attention of PyTorch with norms, bounds, a gate and sinks, as transformers writes it."""
    torch = peers.torch
    w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, q_norm, k_norm, w_gate, b_gate, sink = params

    def norm(z, w):
        if w.ndim == 2:  # layer norms of heads
            n = torch.nn.functional.layer_norm(z, z.shape[-1:], eps=eps)
            return n * (offset + w)[:, None]
        n = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps)
        return n * (offset + w)

    def turn(z):
        z = z.clamp(-bound, bound)
        cos, sin = (torch.tensor(table) for table in rope)
        a, b = z[..., 0::2], z[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def prepared(z, w, heads):
        of_all = w.ndim == 1 and len(w) > E
        z = norm(z, w) if of_all and not after else z
        z = z.unflatten(-1, (heads, E)).transpose(-2, -3)
        if of_all:
            z = turn(z)
            return _norm_together(z, w) if after else z
        return norm(turn(z), w) if after else turn(norm(z, w))

    def _norm_together(z, w):
        merged = norm(z.transpose(-2, -3).flatten(-2), w)
        return merged.unflatten(-1, (z.shape[-3], E)).transpose(-2, -3)

    q, k = prepared(x @ w_q.T + b_q, q_norm, H), prepared(y @ w_k.T + b_k, k_norm, Hk)
    v = (y @ w_v.T + b_v).clamp(-bound, bound).unflatten(-1, (Hk, V)).transpose(-2, -3)
    k, v = (a.repeat_interleave(H // Hk, -3) for a in (k, v))
    scores = (q @ k.transpose(-1, -2) / E**0.5).masked_fill(~torch.tensor(mask), -torch.inf)
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    merged = (weights @ v).transpose(-2, -3).flatten(-2)
    return (merged * torch.sigmoid(x @ w_gate.T + b_gate)) @ w_o.T + b_o


class TestNormsGateAndSinks:
    @pytest.mark.parametrize("bound", [None, 0.8])
    @pytest.mark.parametrize("together", [False, True, "rows"])
    @pytest.mark.parametrize(("after", "offset"), [(False, 0.0), (True, 0.0), (False, 1.0)])
    def test_value_and_gradients_of_pytorch(
        self, rng, assert_close, together, after, offset, bound
    ):
        params = whole(rng, together)
        x, y, u = (rng.normal(size=(B, T, n)) for n in (D, D_KV, D_OUT))
        rope, mask = rope_tables(np.arange(T), [1.0, 0.3]), np.tri(T, dtype=bool)
        kwargs = {"after": after, "offset": offset, "eps": 0.01, "mask": mask}
        kwargs["bound"] = bound or np.inf

        def f(x, y, *params):
            return torch_attention(x, y, params, rope, **kwargs)

        value, grads = peers.value_and_vjp(f, x, y, *params, dout=u)
        options = {"num_heads": H, "num_kv_heads": Hk, "rope": rope, "is_causal": True}
        options |= {"norm_eps": 0.01, "norm_offset": offset, "norm_after_rope": after}
        options["clip_qkv"] = bound
        assert_close(multi_head_attention(x, y, params, **options), value)
        dx, dy, dparams = multi_head_attention_vjp(u, x, y, params, **options)
        for got, want in zip((dx, dy, *dparams), grads, strict=True):
            assert_close(got, want, tolerance=2e-14)

    @pytest.mark.parametrize("bound", [None, 0.8])
    @pytest.mark.parametrize("together", [False, True, "rows"])
    @pytest.mark.parametrize("after", [False, True])
    def test_forward_mode_is_the_adjoint(self, rng, together, after, bound):
        params = whole(rng, together)
        primals = rng.normal(size=(T, D)), rng.normal(size=(T, D_KV)), params
        tangents, u = (
            tuple(tangent_like(rng, each) for each in primals),
            rng.normal(size=(T, D_OUT)),
        )
        options = {"num_heads": H, "num_kv_heads": Hk, "norm_after_rope": after}
        options |= {"rope": rope_tables(np.arange(T), [1.0]), "clip_qkv": bound}
        moved = multi_head_attention_jvp(primals, tangents, **options)
        grads = multi_head_attention_vjp(u, *primals, **options)
        terms = [g * t for g, t in zip(flat(*grads), flat(*tangents), strict=True)]
        scale = sum(abs(term).sum() for term in terms)
        assert abs((u * moved).sum() - sum(term.sum() for term in terms)) <= 4e-15 * scale
        for field in ("q_norm", "k_norm", "w_gate", "b_gate", "sink"):  # each one alone
            alone = AttentionParams(*8 * [None])._replace(**{field: getattr(tangents[2], field)})
            moved = multi_head_attention_jvp(primals, (None, None, alone), **options)
            want = np.sum(getattr(grads[2], field) * getattr(alone, field))
            assert np.sum(u * moved) == pytest.approx(want, rel=1e-11)

    def test_the_formula(self, rng, assert_close):
        for together, after in ((False, True), (True, False), ("rows", True)):
            params, x = whole(rng, together, (D, D)), rng.normal(size=(T, D))
            rope = rope_tables(np.arange(T), [1.0, 0.2])
            options = {"num_heads": H, "num_kv_heads": Hk, "rope": rope, "norm_after_rope": after}
            want = formulas.multi_head_attention(x, x, params, **options)
            assert_close(multi_head_attention(x, x, params, **options), want)

    def test_the_order_of_norm_and_rotation(self, rng):
        params, x = whole(rng), rng.normal(size=(T, D_KV))
        params = params._replace(w_q=rng.normal(size=(H * E, D_KV)), w_gate=None, b_gate=None)
        options = {"num_heads": H, "num_kv_heads": Hk, "rope": rope_tables(np.arange(T), [1.0])}
        alike = params._replace(q_norm=np.full(E, 0.7), k_norm=np.full(E, 1.3))
        for p, same in ((alike, True), (params, False)):
            y, z = (
                multi_head_attention(x, x, p, norm_after_rope=after, **options)
                for after in (False, True)
            )
            assert np.allclose(y, z, rtol=1e-12) == same

    def test_sinks_are_those_of_the_option(self, rng):
        params, x, y = whole(rng), rng.normal(size=(T, D)), rng.normal(size=(S, D_KV))
        u, options = rng.normal(size=(T, D_OUT)), {"num_heads": H, "num_kv_heads": Hk}
        without = params._replace(sink=None)
        np.testing.assert_array_equal(
            multi_head_attention(x, y, params, **options),
            multi_head_attention(x, y, without, sink=params.sink, **options),
        )
        *_, dparams = multi_head_attention_vjp(u, x, y, params, **options)
        *_, dsink = multi_head_attention_vjp(u, x, y, without, sink=params.sink, **options)
        np.testing.assert_array_equal(dparams.sink, dsink)

    @pytest.mark.parametrize("bound", [{}, {"clip_qkv": 0.6}])
    def test_decoding_with_a_cache_is_one_pass(self, rng, assert_close, bound):
        params, x = whole(rng, width=(D, D)), rng.normal(size=(T, D))
        options = {"num_heads": H, "num_kv_heads": Hk, "is_causal": True, **bound}
        cache, parts = KVCache.empty((), Hk, E, V, dtype=np.float64), []
        for t in range(T):
            part, rope = x[t : t + 1], rope_tables(np.arange(t, t + 1), [1.0])
            parts.append(
                multi_head_attention(part, part, params, rope=rope, cache=cache, **options)
            )
        rope = rope_tables(np.arange(T), [1.0])
        want = multi_head_attention(x, x, params, rope=rope, **options)
        assert_close(np.concatenate(parts), want)
        assert not bound or abs(cache.values).max() == 0.6

    @pytest.mark.parametrize(
        ("drawn", "bound"), [(whole, {}), (lambda rng: draw(rng)[:8], {"clip_qkv": 0.7})]
    )
    def test_float32(self, rng, drawn, bound):
        arrays = drawn(rng)
        params = AttentionParams(*(p.astype(np.float32) for p in arrays))
        x, y = rng.normal(size=(T, D)).astype("f4"), rng.normal(size=(S, D_KV)).astype("f4")
        options = {"num_heads": H, "num_kv_heads": Hk, **bound}
        got = multi_head_attention(x, y, params, **options)
        wide = AttentionParams(*(p.astype(np.float64) for p in params[: len(arrays)]))
        want = multi_head_attention(x.astype(float), y.astype(float), wide, **options)
        assert got.dtype == np.float32
        assert abs(got - want).max() <= 64 * 2**-24 * abs(want).max()
        *_, dparams = multi_head_attention_vjp(got, x, y, params, **options)
        assert {p.dtype for p in dparams[: len(arrays)]} == {np.dtype(np.float32)}

    def test_errors(self, rng):
        params, x, y = whole(rng), rng.normal(size=(T, D)), rng.normal(size=(S, D_KV))

        def attend(kwargs=None, **changes):
            options = {"num_heads": H, "num_kv_heads": Hk} | (kwargs or {})
            return multi_head_attention(x, y, params._replace(**changes), **options)

        with pytest.raises(ValueError, match=r"'params.q_norm' must have shape \(E,\) = \(4,\)"):
            attend(q_norm=np.ones(5))
        with pytest.raises(ValueError, match=r"'params.k_norm' must have shape \(E,\) = \(4,\)"):
            attend(k_norm=np.ones(H * E))
        with pytest.raises(ValueError, match=r"'params.k_norm' must have shape \(E,\) = \(4,\)"):
            attend(k_norm=np.ones((H, E)))
        with pytest.raises(ValueError, match=r"'params.w_gate' must have shape \(12, 6\)"):
            attend(w_gate=np.ones((12, 7)))
        with pytest.raises(ValueError, match=r"'params.b_gate' must have shape \(12,\)"):
            attend(b_gate=np.ones(3))
        with pytest.raises(ValueError, match=r"'params.b_gate' must be None where w_gate is None"):
            attend(w_gate=None)
        with pytest.raises(ValueError, match=r"'params.sink' must have shape \(4,\)"):
            attend(sink=np.ones(3))
        with pytest.raises(ValueError, match=r"'sink' must be None where params.sink is given"):
            attend({"sink": np.ones(H)})
        with pytest.raises(ValueError, match=r"'norm_eps' must be"):
            attend({"norm_eps": -1.0})
        with pytest.raises(ValueError, match=r"'clip_qkv' must be greater than 0, not 0"):
            attend({"clip_qkv": 0})
        with pytest.raises(TypeError, match=r"'clip_qkv' must be"):
            attend({"clip_qkv": "8"})
        with pytest.raises(TypeError, match=r"'norm_after_rope' must be"):
            attend({"norm_after_rope": 1})
        with pytest.raises(ValueError, match=r"'params' must be .* 8 to 13 arrays, not of 7"):
            multi_head_attention(x, y, params[:7], num_heads=H)


class TestBounds:
    """Queries, keys and values of DBRX and OLMo, which their bounds keep small."""

    def test_bounds_that_nothing_reaches_change_nothing(self, rng):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(T, D))
        options = {"num_heads": H, "num_kv_heads": Hk}
        plain = multi_head_attention(x, x, params, **options)
        for bound in (1e3, 1e300):
            bounded = multi_head_attention(x, x, params, clip_qkv=bound, **options)
            np.testing.assert_array_equal(bounded, plain)

    def test_beyond_the_bounds_only_the_last_layer_learns(self, rng):
        """All numbers are at a bound then: the averages are 0.5 or between -0.5 and 0.5."""
        params, x = draw(rng, width=(D, D)), 1e6 * rng.normal(size=(T, D))
        options = {"num_heads": H, "num_kv_heads": Hk, "clip_qkv": 0.5}
        u = rng.normal(size=(T, D_OUT))
        dx_q, dx_kv, dparams = multi_head_attention_vjp(u, x, x, params, **options)
        assert not dx_q.any()
        assert not dx_kv.any()
        assert [name for name, d in dparams._asdict().items() if d is not None and d.any()] == [
            "w_o", "b_o",
        ]  # fmt: skip
        assert abs(dparams.w_o).max() <= T * 0.5 * abs(u).sum(0).max()

    def test_a_number_at_the_bound_has_a_gradient(self):
        one = np.ones((1, 1))
        params = AttentionParams(one, one, one, one)
        grads = [
            multi_head_attention_vjp(one, one, x * one, params, num_heads=1, clip_qkv=2.0)[1]
            for x in (-2.5, -2.0, 2.0, 2.5)
        ]
        assert [float(g[0, 0]) for g in grads] == [0.0, 1.0, 1.0, 0.0]


class TestHeads:
    def test_output_is_a_sum_over_heads(self, rng, assert_close):
        params, x = draw(rng, biases=False, width=(D, D)), rng.normal(size=(T, D))
        _, weights = multi_head_attention(
            x, x, params, num_heads=H, num_kv_heads=Hk, return_weights=True
        )
        total = 0.0
        for h in range(H):
            read = params.w_v[V * (h // 2) : V * (h // 2 + 1)]
            write = params.w_o[:, V * h : V * (h + 1)]
            total = total + weights[h] @ x @ (write @ read).T
        got = multi_head_attention(x, x, params, num_heads=H, num_kv_heads=Hk)
        assert_close(got, total)

    def test_dtype_of_all_together(self, rng):
        params = AttentionParams(*(p.astype(np.float32) for p in draw(rng)[:8]))
        x, y = rng.normal(size=(T, D)).astype(np.float16), rng.normal(size=(S, D_KV))
        options = {"num_heads": H, "num_kv_heads": Hk}
        assert multi_head_attention(x, y, params, **options).dtype == np.float64
        y = y.astype(np.float16)
        assert multi_head_attention(x, y, params, **options).dtype == np.float32

    def test_tables_of_their_own_for_each_sequence(self, rng, assert_close):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(B, T, D))
        places = np.array([np.arange(T), 7 + np.arange(T)])
        options = {"num_heads": H, "num_kv_heads": Hk}
        got = multi_head_attention(x, x, params, rope=rope_tables(places, [1.0, 0.1]), **options)
        for b in range(B):
            tables = rope_tables(places[b], [1.0, 0.1])
            want = multi_head_attention(x[b], x[b], params, rope=tables, **options)
            assert_close(got[b], want)

    def test_rotation_knows_differences_of_positions_only(self, rng, assert_close):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(T, D))
        near, far = (rope_tables(start + np.arange(T), [1.0, 0.1]) for start in (0, 1000))
        options = {"num_heads": H, "num_kv_heads": Hk}
        want = multi_head_attention(x, x, params, rope=near, **options)
        assert_close(multi_head_attention(x, x, params, rope=far, **options), want, tolerance=1e-13)


class TestPermutation:
    """Equivariance holds without positions, and every scheme breaks it."""

    ORDER = (2, 0, 3, 1)

    def moved(self, rng, scheme):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(T, D))
        options = {"num_heads": H, "num_kv_heads": Hk}

        def f(x):
            more, added = POSITIONS[scheme](0, T, T)
            x = x + added
            return multi_head_attention(x, x, params, **options, **more)

        return abs(f(x[list(self.ORDER)]) - f(x)[list(self.ORDER)]).max() / abs(f(x)).max()

    def test_without_positions(self, rng):
        assert self.moved(rng, "none") < 1e-14

    @pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "rotary", "alibi", "t5"])
    def test_with_them(self, rng, scheme):
        assert self.moved(rng, scheme) > 0.01


TABLE = np.random.default_rng(9).normal(size=(20, D))
BUCKETS = np.random.default_rng(8).normal(size=(32, H))

#: scheme -> function of (first position, tokens, keys) that gives options, and what is added
POSITIONS = {
    "none": lambda start, T, S: ({}, 0.0),
    "sinusoidal": lambda start, T, S: ({}, sinusoidal(T, D, offset=start)),
    "learned": lambda start, T, S: ({}, learned_positions(TABLE, start + np.arange(T))),
    "rotary": lambda start, T, S: (
        {"rope": rope_tables(start + np.arange(T), [1.0, 0.1])},
        0.0,
    ),
    "alibi": lambda start, T, S: (
        {"bias": alibi_bias(alibi_slopes(H), T, S, q_offset=start)},
        0.0,
    ),
    "t5": lambda start, T, S: ({"bias": t5_bias(BUCKETS, T, S, q_offset=start)}, 0.0),
}


class TestCache:
    @pytest.mark.parametrize("chunks", [(1,) * 7, (3, 4), (2, 1, 4), (7,)])
    @pytest.mark.parametrize("scheme", POSITIONS)
    def test_decoding_in_chunks_is_one_pass(self, rng, assert_close, scheme, chunks):
        total = sum(chunks)
        params, x = draw(rng, width=(D, D)), rng.normal(size=(B, total, D))
        options = {"num_heads": H, "num_kv_heads": Hk, "is_causal": True}
        more, added = POSITIONS[scheme](0, total, total)
        want = multi_head_attention(x + added, x + added, params, **options, **more)
        cache, parts, start = KVCache.empty((B,), Hk, E, V, dtype=np.float64), [], 0
        for size in chunks:
            more, added = POSITIONS[scheme](start, size, start + size)
            part = x[:, start : start + size] + added
            parts.append(multi_head_attention(part, part, params, cache=cache, **options, **more))
            start += size
        assert len(cache) == total
        assert_close(np.concatenate(parts, axis=1), want)

    def test_an_offset_of_ones_own_has_precedence(self, rng):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(1, D))
        cache = KVCache(rng.normal(size=(Hk, 3, E)), rng.normal(size=(Hk, 3, V)))
        options = {"num_heads": H, "num_kv_heads": Hk, "is_causal": True, "return_weights": True}
        _, p = multi_head_attention(x, x, params, cache=cache, q_offset=1, **options)
        assert np.all(p[..., 2:] == 0)

    def test_texts_are_reordered(self, rng):
        k, v = rng.normal(size=(3, Hk, 2, E)), rng.normal(size=(3, Hk, 2, V))
        cache = KVCache(k, v)
        cache.reorder([2, 0, 0])
        np.testing.assert_array_equal(cache.keys, k[[2, 0, 0]])
        np.testing.assert_array_equal(cache.values, v[[2, 0, 0]])
        assert cache.append(k, v)[0].shape == (3, Hk, 4, E)
        with pytest.raises(ValueError, match=r"'texts' must hold integers from 0 to 2, not 3"):
            cache.reorder([3])

    def test_grows_and_keeps(self, rng):
        cache = KVCache.empty((), 1, 2, capacity=3)
        assert cache.keys.shape == (1, 0, 2)
        k = rng.normal(size=(1, 9, 2)).astype(np.float32)
        for t in range(9):
            keys, values = cache.append(k[:, t : t + 1], -k[:, t : t + 1])
            np.testing.assert_array_equal(keys, k[:, : t + 1])
            np.testing.assert_array_equal(values, -k[:, : t + 1])
        assert keys.dtype == np.float32
        assert not keys.flags.writeable
        assert cache._keys.shape[-2] == 12  # 3, 6, 12: few copies

    def test_copies_what_it_begins_with(self):
        k = np.zeros((1, 2, 3))
        cache = KVCache(k, k)
        k[:] = 1
        assert np.all(cache.keys == 0)

    def test_forgotten_writes_are_not_survived(self, rng):
        """A cache that nobody wrote to answers with nothing: zeros would be attended to."""
        q, cache = rng.normal(size=(1, 2, 4)), KVCache.empty((), 1, 4, dtype=np.float64)
        out = scaled_dot_product_attention(q, cache.keys, cache.values)
        assert np.all(out == 0)
        k, v = cache.append(q, q)
        assert np.all(abs(scaled_dot_product_attention(q, k, v)) > 0)

    @pytest.mark.parametrize("bad", [1j, "1", np.datetime64("2026-11-27"), None])
    def test_appended_values_must_be_real_numbers(self, bad):
        cache = KVCache.empty((), 1, 1)
        with pytest.raises(TypeError, match="Argument 'k' must be"):
            cache.append(np.full((1, 1, 1), bad), np.ones((1, 1, 1)))
        assert len(cache) == 0

    def test_a_number_beyond_the_dtype_of_the_cache(self):
        keys, values = KVCache.empty((), 1, 1).append([[[1e300]]], [[[1]]])
        assert (float(keys[0, 0, 0]), float(values[0, 0, 0])) == (np.inf, 1.0)

    def test_errors(self):
        cache = KVCache.empty((2,), 1, 3, 4)
        with pytest.raises(
            ValueError, match=r"'k' must have shape \(2, 1, T, 3\), not \(1, 1, 1, 3\)"
        ):
            cache.append(np.ones((1, 1, 1, 3)), np.ones((1, 1, 1, 4)))
        with pytest.raises(ValueError, match=r"'v' must have shape \(2, 1, 5, 4\), not"):
            cache.append(np.ones((2, 1, 5, 3)), np.ones((2, 1, 5, 3)))
        with pytest.raises(ValueError, match="'num_kv_heads' must be at least 1, not 0"):
            KVCache.empty((), 0, 3)
        with pytest.raises(TypeError, match="'dtype' must be integer, float16"):
            KVCache.empty((), 1, 3, dtype=complex)
        with pytest.raises(ValueError, match=r"'values' must have shape \(1, 2, V\), not"):
            KVCache(np.ones((1, 2, 3)), np.ones((1, 3, 3)))


class TestRotaryModels:
    """What a stub that returns its arguments would miss."""

    def test_scores_turn(self, rng, assert_close):
        params, x = draw(rng, biases=False, width=(D, D)), rng.normal(size=(T, D))
        tables = rope_tables(np.arange(T), [1.0, 0.1])
        options = {"num_heads": H, "num_kv_heads": Hk}
        got = multi_head_attention(x, x, params, rope=tables, **options)
        q = (x @ params.w_q.T).reshape(T, H, E).swapaxes(0, 1)
        k = (x @ params.w_k.T).reshape(T, Hk, E).swapaxes(0, 1)
        v = (x @ params.w_v.T).reshape(T, Hk, V).swapaxes(0, 1)
        q, k = apply_rope(q, *tables), apply_rope(k, *tables)
        heads = scaled_dot_product_attention(q, repeat_kv(k, 2), repeat_kv(v, 2))
        assert_close(got, heads.swapaxes(0, 1).reshape(T, H * V) @ params.w_o.T)

    def test_a_causal_layer_does_not_look_ahead(self, rng):
        params, x = draw(rng, width=(D, D)), rng.normal(size=(T, D))
        options = {"num_heads": H, "num_kv_heads": Hk}
        moved = x.copy()
        moved[-1] += 1
        for is_causal in (True, False):
            got = multi_head_attention(moved, moved, params, is_causal=is_causal, **options)
            was = multi_head_attention(x, x, params, is_causal=is_causal, **options)
            assert np.array_equal(got[:-1], was[:-1]) == is_causal


class TestErrors:
    @pytest.mark.parametrize(
        ("field", "shape", "words"),
        [
            ("w_q", (H * E, D + 1), r"'params.w_q' must have shape \(H E, 6\), not \(16, 7\)"),
            ("w_q", (H * E + 1, D), "'params.w_q' must have a number of rows that is a multiple"),
            ("w_k", (Hk * E + 2, D_KV), r"'params.w_k' must have shape \(8, 7\), not \(10, 7\)"),
            ("w_v", (Hk * V, D), r"'params.w_v' must have shape \(Hk E, 7\), not \(6, 6\)"),
            ("w_o", (D_OUT, H), r"'params.w_o' must have shape \(D_out, 12\), not \(8, 4\)"),
            ("b_q", (3,), r"'params.b_q' must have shape \(16,\), not \(3,\)"),
        ],
    )
    def test_shapes_of_parameters(self, rng, field, shape, words):
        params = draw(rng)._replace(**{field: np.ones(shape)})
        with pytest.raises(ValueError, match=words):
            multi_head_attention(
                np.ones((T, D)), np.ones((S, D_KV)), params, num_heads=H, num_kv_heads=Hk
            )

    def test_other_arguments(self, rng):
        params, x, y = draw(rng), np.ones((T, D)), np.ones((S, D_KV))
        for arguments, options, error, words in [
            (
                (x, y, params),
                {"num_heads": 3, "num_kv_heads": 2},
                ValueError,
                "'num_kv_heads' must",
            ),
            ((x, y, params), {"num_heads": 0}, ValueError, "'num_heads' must be at least 1"),
            ((x, y, params[:3]), {"num_heads": H}, ValueError, "'params' must be a tuple of 8"),
            (
                (x, y, params._replace(w_v=None)),
                {"num_heads": H},
                TypeError,
                "'params.w_v' must be",
            ),
            ((x, y[None], params), {"num_heads": H}, ValueError, "'x_kv' must have shape"),
            (
                (x, y, params),
                {"num_heads": H, "num_kv_heads": Hk, "rope": rope_tables([0, 1], [1.0])},
                ValueError,
                r"'x_kv' must have shape \(4, D_kv\), not \(5, 7\)",
            ),
        ]:
            with pytest.raises(error, match=words):
                multi_head_attention(*arguments, **options)

    def test_shapes_of_derivatives(self, rng):
        params, x, y = draw(rng, biases=False), np.ones((T, D)), np.ones((S, D_KV))
        options = {"num_heads": H, "num_kv_heads": Hk}
        with pytest.raises(ValueError, match=r"'dout' must have shape \(4, 8\), not \(4, 6\)"):
            multi_head_attention_vjp(x, x, y, params, **options)
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must have shape \(5, 7\), not"):
            multi_head_attention_jvp((x, y, params), (x, x, None), **options)
        moves = AttentionParams(*8 * [None])._replace(b_q=np.ones(H * E))
        with pytest.raises(ValueError, match=r"'tangents\[2\].b_q' must be None, as it belongs"):
            multi_head_attention_jvp((x, y, params), (x, None, moves), **options)


def test_a_cache_of_another_kind_is_refused(rng):
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 4, 4))
    with pytest.raises(TypeError, match="'cache' must be a KVCache or None, not "):
        multi_head_attention(x, x, AttentionParams(*w), num_heads=2, cache=(x, x))


@pytest.mark.parametrize(
    "wrong",
    [{"mask": np.ones((4, 4), bool)}, {"scale": "1"}, {"is_causal": 3}, {"window": 3}],
    ids=lambda option: next(iter(option)),
)
def test_a_call_that_is_refused_leaves_the_cache_as_it_was(rng, wrong):
    x, params = rng.normal(size=(5, 4)), AttentionParams(*rng.normal(size=(4, 4, 4)))
    cache = KVCache.empty((), 2, 2, dtype=np.float64, window=3)
    first = multi_head_attention(x[:2], x[:2], params, num_heads=2, is_causal=True, cache=cache)
    kept = cache.keys.copy()
    with pytest.raises((TypeError, ValueError)):
        multi_head_attention(x[2:], x[2:], params, num_heads=2, cache=cache, **wrong)
    assert cache.total == len(cache) == 2
    np.testing.assert_array_equal(cache.keys, kept)
    rest = multi_head_attention(x[2:], x[2:], params, num_heads=2, is_causal=True, cache=cache)
    want = multi_head_attention(x, x, params, num_heads=2, is_causal=True)
    np.testing.assert_allclose(np.concatenate([first, rest]), want, rtol=0, atol=4e-14)
    assert (cache.total, len(cache)) == (5, 3)


def test_a_cache_of_another_shape_is_refused(rng):
    x, params = rng.normal(size=(5, 4)), AttentionParams(*rng.normal(size=(4, 4, 4)))
    for shape, words in (((4, 2), "keys"), ((2, 3), "keys"), ((2, 2, 1), "values")):
        cache = KVCache.empty((), *shape)
        want = rf"^Argument 'cache.{words}' must have shape \(2, S, 2\), not"
        with pytest.raises(ValueError, match=want):
            multi_head_attention(x, x, params, num_heads=2, cache=cache)
        assert len(cache) == 0


@pytest.mark.parametrize("option", ["none", "rotation", "bounds", "softcap", "sink"])
def test_what_gives_the_key_bias_a_gradient(rng, option):
    params, x = draw(rng, width=(D, D)), rng.normal(size=(2, T, D))
    options = {
        "none": {},
        "rotation": {"rope": rope_tables(np.arange(T), np.array([1.0, 0.1]))},
        "bounds": {"clip_qkv": 0.5},
        "softcap": {"softcap": 2.0},
        "sink": {"sink": np.zeros(H)},
    }[option]
    u = rng.normal(size=(2, T, D_OUT))
    dparams = multi_head_attention_vjp(u, x, x, params, num_heads=H, num_kv_heads=Hk, **options)[2]
    size = abs(dparams.b_k).max()
    assert (size < 1e-13) if option == "none" else (size > 1e-2)
