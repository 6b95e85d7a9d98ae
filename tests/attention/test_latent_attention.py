"""Latent attention: PyTorch, the module of DeepSeek-V3, absorption, the cache."""

import numpy as np
import pytest

from dlref.attention import (
    KVCache,
    LatentAttentionParams,
    latent_attention,
    latent_attention_jvp,
    latent_attention_vjp,
)
from dlref.positions import rope_frequencies, rope_tables

H, N, R, V, QUERIES, LATENT, D = 2, 3, 4, 5, 6, 3, 7
FIELDS = LatentAttentionParams._fields


def weights(rng, low=True):
    shapes = (
        (QUERIES, D), (QUERIES,), (H * (N + R), QUERIES if low else D), (LATENT + R, D), (LATENT,),
        (H * N, LATENT), (H * V, LATENT), (D + 1, H * V),
    )  # fmt: skip
    some = [rng.normal(size=shape) for shape in shapes]
    return LatentAttentionParams(*(some if low else [None, None, *some[2:]]))


def with_tables(T, start=0, **options):
    tables = rope_tables(np.arange(start, start + T), rope_frequencies(R))
    return {"num_heads": H, "rope": tables, **options}


def reference(torch, T, interleaved, causal, low):
    """Write latent attention as its paper does, for autograd."""
    cos, sin = (torch.tensor(t) for t in with_tables(T)["rope"])

    def turned(x):
        if interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def rms(x, w):
        return w * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    def f(x, *p):
        w_dq, q_norm, w_uq, w_dkv, kv_norm, w_uk, w_uv, w_o = p if low else (None, None, *p)
        rows = rms(x @ w_dq.T, q_norm) if low else x
        q = (rows @ w_uq.T).unflatten(-1, (H, N + R)).transpose(-2, -3)
        q = torch.cat([q[..., :N], turned(q[..., N:])], -1)
        down = x @ w_dkv.T
        c, t = rms(down[..., :LATENT], kv_norm), turned(down[..., LATENT:])
        k = (c @ w_uk.T).unflatten(-1, (H, N)).transpose(-2, -3)
        k = torch.cat([k, t[..., None, :, :].expand(*k.shape[:-1], R)], -1)
        v = (c @ w_uv.T).unflatten(-1, (H, V)).transpose(-2, -3)
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return o.transpose(-2, -3).flatten(-2) @ w_o.T

    return f


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize(("interleaved", "causal"), [(True, True), (False, False)])
def test_pytorch(rng, low, interleaved, causal):
    peers = pytest.importorskip("peers")
    T, p = 5, weights(rng, low)
    x, u = rng.normal(size=(2, T, D)), rng.normal(size=(2, T, D + 1))
    options = with_tables(T, rope_interleaved=interleaved, is_causal=causal)
    given = [w for w in p if w is not None]
    f = reference(peers.torch, T, interleaved, causal, low)
    value, grads = peers.value_and_vjp(f, x, *given, dout=u)
    for absorbed in (False, True):
        got = latent_attention(x, p, absorbed=absorbed, **options)
        np.testing.assert_allclose(got, value, rtol=0, atol=2e-14 * abs(value).max())
    dx, dparams = latent_attention_vjp(u, x, p, **options)
    found = [dx, *(g for g in dparams if g is not None)]
    for got, want in zip(found, grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-14 * abs(want).max())
    moves = [rng.normal(size=a.shape) for a in (x, *given)]
    want = peers.jvp(f, (x, *given), tuple(moves))
    dp = LatentAttentionParams(*([] if low else [None, None]), *moves[1:])
    got = latent_attention_jvp((x, p), (moves[0], dp), **options)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-14 * abs(want).max())


@pytest.mark.parametrize("low", [True, False])
def test_the_vjp_is_the_adjoint_of_the_jvp(rng, low):
    x, p, u = rng.normal(size=(2, 4, D)), weights(rng, low), rng.normal(size=(2, 4, D + 1))
    options = with_tables(4, mask=rng.random((4, 4)) < 0.7, scale=0.3, eps=0.2)
    dx = rng.normal(size=x.shape)
    dp = LatentAttentionParams(*(w if w is None else rng.normal(size=w.shape) for w in p))
    pushed = latent_attention_jvp((x, p), (dx, dp), **options)
    pulled, grads = latent_attention_vjp(u, x, p, **options)
    pairs = [(pulled, dx), *((g, d) for g, d in zip(grads, dp, strict=True) if d is not None)]
    left, right = np.sum(u * pushed), sum(np.sum(a * b) for a, b in pairs)
    scale = sum(np.sum(abs(a * b)) for a, b in pairs)
    assert abs(left - right) <= 4e-15 * scale


@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("sizes", [(6,), (1,) * 6, (2, 3, 1)])
def test_a_cache_of_latents(rng, sizes, absorbed):
    x, p = rng.normal(size=(2, 6, D)), weights(rng)
    cache, start, parts = KVCache.empty((2,), 1, R, LATENT, dtype=np.float64), 0, []
    for n in sizes:
        options = with_tables(n, start, absorbed=absorbed, cache=cache)
        parts.append(latent_attention(x[:, start : start + n], p, **options))
        start += n
    want = latent_attention(x, p, **with_tables(6))
    np.testing.assert_allclose(np.concatenate(parts, axis=1), want, rtol=0, atol=1e-13)
    assert cache.keys.shape == (2, 1, 6, R)
    assert cache.values.shape == (2, 1, 6, LATENT)


def test_without_a_rotation(rng):
    p = weights(rng)
    still = p._replace(w_uq=p.w_uq[: H * N], w_dkv=p.w_dkv[:LATENT])
    x = rng.normal(size=(3, D))
    y, z = (latent_attention(x, still, num_heads=H, absorbed=a) for a in (False, True))
    np.testing.assert_allclose(y, z, rtol=0, atol=1e-13)
    turned = with_tables(3)["rope"][0][:, :0]
    same = latent_attention(x, still, num_heads=H, rope=(turned, turned))
    np.testing.assert_array_equal(same, y)


def test_the_module_of_deepseek(rng):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as source  # noqa: PLC0415

    config = source.DeepseekV3Config(
        hidden_size=D + 1, num_attention_heads=H, num_key_value_heads=H, q_lora_rank=QUERIES,
        kv_lora_rank=LATENT, qk_nope_head_dim=N, qk_rope_head_dim=R, v_head_dim=V,
        attn_implementation="eager", vocab_size=9, intermediate_size=4, num_hidden_layers=1,
    )  # fmt: skip
    module = source.DeepseekV3Attention(config, 0).double().eval()
    state = {n: torch.tensor(rng.normal(size=p.shape)) for n, p in module.named_parameters()}
    module.load_state_dict(state)
    rows = state["kv_b_proj.weight"].numpy().reshape(H, N + V, LATENT)
    names = "q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm"
    p = LatentAttentionParams(
        *(state[f"{name}.weight"].numpy() for name in names),
        rows[:, :N].reshape(-1, LATENT),
        rows[:, N:].reshape(-1, LATENT),
        state["o_proj.weight"].numpy(),
    )
    x = rng.normal(size=(2, 5, D + 1))
    options = with_tables(5)
    tables = [torch.tensor(np.concatenate([t, t], -1)[None]) for t in options["rope"]]
    hidden = torch.full((5, 5), -np.inf, dtype=torch.float64).triu(1)[None, None]
    with torch.no_grad():
        want = module(torch.tensor(x), tuple(tables), hidden)[0].numpy()
    near = 1e-6 * abs(want).max()  # the softmax and the norms of the module are float32
    np.testing.assert_allclose(latent_attention(x, p, **options), want, rtol=0, atol=near)


def test_float32_stays_float32(rng):
    x, p = rng.normal(size=(2, 4, D)), weights(rng)
    single = [a.astype(np.float32) for a in (x, *p)]
    p32 = LatentAttentionParams(*single[1:])
    wide = LatentAttentionParams(*(a.astype(np.float64) for a in single[1:]))
    want = latent_attention(single[0].astype(np.float64), wide, **with_tables(4))
    for absorbed in (False, True):
        got = latent_attention(single[0], p32, absorbed=absorbed, **with_tables(4))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=0, atol=64 * 2e-7 * abs(want).max())


def test_errors(rng):
    x, p = rng.normal(size=(3, D)), weights(rng)
    for change, error, words in (
        ({"q_norm": None}, TypeError, "'params.q_norm' must be given where params.w_dq is"),
        ({"w_dq": None}, TypeError, "'params.w_dq' must be given where params.q_norm is"),
        ({"w_uk": None}, TypeError, "'params.w_uk' must be an array, not None"),
        ({"w_dq": p.w_dq.T}, ValueError, r"'params.w_dq' must have shape \(Rq, 7\)"),
        ({"q_norm": np.ones(2)}, ValueError, r"'params.q_norm' must have shape \(6,\)"),
        ({"kv_norm": np.ones(9)}, ValueError, r"'params.w_dkv' must have shape \(Rkv \+ R, 7\)"),
        ({"w_uk": p.w_uk[1:]}, ValueError, "'params.w_uk' must have a number of rows that"),
        ({"w_uq": p.w_uq[1:]}, ValueError, r"'params.w_uq' must have shape \(14, 6\)"),
        ({"w_o": p.w_o[:, 1:]}, ValueError, r"'params.w_o' must have shape \(D_out, 10\)"),
    ):
        with pytest.raises(error, match=f"^Argument {words}"):
            latent_attention(x, p._replace(**change), num_heads=H)
    narrow = rope_tables(np.arange(3), [1.0])
    with pytest.raises(ValueError, match=r"^Argument 'rope' must have tables of R / 2 = 2 columns"):
        latent_attention(x, p, num_heads=H, rope=narrow)
    with pytest.raises(TypeError, match=r"^Argument 'cache' must be a KVCache or None"):
        latent_attention(x, p, num_heads=H, cache={})
    cache = KVCache.empty((), 1, R, LATENT, dtype=np.float64)
    with pytest.raises(ValueError, match=r"^Argument 'mask' must broadcast to"):
        latent_attention(x, p, num_heads=H, cache=cache, mask=np.ones((9, 9), bool))
    assert len(cache) == 0
    with pytest.raises(ValueError, match=r"^Argument 'params' must be a tuple of 8 arrays"):
        latent_attention(x, p[:4], num_heads=H)
    with pytest.raises(ValueError, match=r"^Argument 'dout' must have shape \(3, 8\)"):
        latent_attention_vjp(x, x, p, num_heads=H)
    straight = weights(rng, low=False)
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\].w_dq' must be None"):
        latent_attention_jvp((x, straight), (None, p), num_heads=H)
    moves = LatentAttentionParams(*7 * [None], np.ones(3))
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\].w_o' must have shape"):
        latent_attention_jvp((x, p), (None, moves), num_heads=H)
