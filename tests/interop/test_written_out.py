"""Families of decoders written out in PyTorch, from their papers, on tensors by their names."""

import math

import numpy as np
import peers
import pytest
from decoders import T, V
from interop_states import state_of
from published import PUBLISHED, small

from dlref.interop import from_state_dict, to_state_dict
from dlref.transformer import language_model, language_model_vjp

#: What differs from LLaMA: names of norms before and behind sub-layers, and functions of the
#: number of a layer, of four, that say whether it has the window and a rotation.
BEFORE = ("input_layernorm", "post_attention_layernorm")
BEHIND = ("post_attention_layernorm", "post_feedforward_layernorm")
MODELS = {
    "kyutai/helium-1-2b": {"neighbors": True, "eps": 1e-8, "base": 20000.0},
    "baidu/ERNIE-4.5-0.3B-PT": {"neighbors": True, "eps": 1e-5, "base": 500000.0},
    "ByteDance-Seed/Seed-OSS-36B-Instruct": {"eps": 1e-6, "base": 1e7},
    "bigcode/starcoder2-3b": {
        "layer_norm": True, "eps": 1e-5, "base": 999999.4420358813, "window": lambda i: True,
        "plain": ("c_fc", "c_proj"), "activation": "gelu",
    },
    "nvidia/Minitron-4B-Base": {
        "layer_norm": True, "offset": 1.0, "eps": 1e-5, "base": 10000.0, "share": 0.5,
        "plain": ("up_proj", "down_proj"), "activation": "relu2",
    },
    "zai-org/glm-4-9b-hf": {
        "neighbors": True, "eps": 1.5625e-7, "base": 10000.0, "share": 0.5, "fused": True,
    },
    "zai-org/GLM-4-9B-0414": {
        "neighbors": True, "eps": 1e-5, "base": 10000.0, "share": 0.5, "fused": True,
        "behind": ("post_self_attn_layernorm", "post_mlp_layernorm"),
    },
    "LGAI-EXAONE/EXAONE-4.0-32B": {
        "before": (None, None), "behind": BEHIND, "eps": 1e-5, "base": 1e6, "each": "{}_norm",
        "window": lambda i: i < 3, "rotated": lambda i: i < 3, "entries": {"rope_scaling": None},
    },
    "tencent/Hunyuan-7B-Instruct": {
        "eps": 1e-5, "base": 10000.0 * 1000.0 ** (8 / 6), "norms_last": True,
        "each": "{}_layernorm",
    },
    "CohereForAI/c4ai-command-r7b-12-2024": {
        "neighbors": True, "layer_norm": True, "eps": 1e-5, "base": 50000.0, "factor": 0.25,
        "parallel": True, "window": lambda i: i < 3, "rotated": lambda i: i < 3,
    },
}  # fmt: skip


class WrittenOut:
    """A decoder, after its specification and its tensors."""

    def __init__(self, spec, state, config):
        self.spec, self.s, self.config = spec, state, config
        self.torch = peers.torch

    def norm(self, x, name):
        w, b = self.s[f"{name}.weight"] + self.spec.get("offset", 0), self.s.get(f"{name}.bias")
        if self.spec.get("layer_norm"):
            x = x - x.mean(-1, keepdim=True)
        y = w * x / ((x * x).mean(-1, keepdim=True) + self.spec["eps"]).sqrt()
        return y if b is None else y + b

    def dense(self, x, name):
        y, b = x @ self.s[f"{name}.weight"].T, self.s.get(f"{name}.bias")
        return y if b is None else y + b

    def rotate(self, x):
        """Turn pairs of x (T, H, E) as complex numbers."""
        torch, dim = self.torch, int(x.shape[-1] * self.spec.get("share", 1))
        turned, rest = x[..., :dim], x[..., dim:]
        if self.spec.get("neighbors"):
            a, b = turned[..., 0::2], turned[..., 1::2]
        else:
            a, b = turned[..., : dim // 2], turned[..., dim // 2 :]
        frequency = self.spec["base"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequency
        z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
        parts = torch.stack([z.real, z.imag], -1 if self.spec.get("neighbors") else -2)
        return torch.cat([parts.flatten(-2), rest], -1)

    def prepared(self, x, name, i):
        """Return queries or keys after norm and rotation."""
        x = x.unflatten(-1, (-1, self.config["head_dim"]))
        steps = [self.rotate] if self.spec.get("rotated", lambda i: True)(i) else []
        if "each" in self.spec:
            steps.insert(len(steps) if self.spec.get("norms_last") else 0,
                         lambda z: self.norm(z, name))  # fmt: skip
        for step in steps:
            x = step(x)
        return x

    def attention(self, x, name, i):
        torch, E = self.torch, self.config["head_dim"]
        q, k, v = (self.dense(x, f"{name}.{letter}_proj") for letter in "qkv")
        long = {"q": "query", "k": "key"} if self.spec.get("norms_last") else {"q": "q", "k": "k"}
        each = self.spec.get("each", "")
        q = self.prepared(q, f"{name}.{each.format(long['q'])}", i)
        k = self.prepared(k, f"{name}.{each.format(long['k'])}", i)
        v = v.unflatten(-1, (-1, E))
        k, v = (a.repeat_interleave(q.shape[1] // k.shape[1], 1) for a in (k, v))
        distance = torch.arange(len(x))[:, None] - torch.arange(len(x))
        seen = distance >= 0
        if self.spec.get("window", lambda i: False)(i):
            seen = seen & (distance < self.config["sliding_window"])
        scores = torch.einsum("qhe,khe->hqk", q, k) / math.sqrt(E)
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return self.dense(torch.einsum("hqk,khe->qhe", weights, v).flatten(1), f"{name}.o_proj")

    def network(self, x, name):
        F = self.torch.nn.functional
        if "plain" in self.spec:
            first, second = self.spec["plain"]
            h = self.dense(x, f"{name}.{first}")
            gelu = self.spec["activation"] == "gelu"
            h = F.gelu(h, approximate="tanh") if gelu else F.relu(h) ** 2
            return self.dense(h, f"{name}.{second}")
        if self.spec.get("fused"):
            gate, up = self.dense(x, f"{name}.gate_up_proj").chunk(2, -1)
        else:
            gate, up = (self.dense(x, f"{name}.{part}_proj") for part in ("gate", "up"))
        return self.dense(F.silu(gate) * up, f"{name}.down_proj")

    def logits(self, ids):
        x = self.s["model.embed_tokens.weight"][ids]
        places = self.spec.get("before", BEFORE), self.spec.get("behind", (None, None))
        for i in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{i}"
            parts = (
                lambda z, i=i, layer=layer: self.attention(z, f"{layer}.self_attn", i),
                lambda z, layer=layer: self.network(z, f"{layer}.mlp"),
            )
            if self.spec.get("parallel"):
                z = self.norm(x, f"{layer}.input_layernorm")
                x = x + parts[0](z) + parts[1](z)
                continue
            for part, before, behind in zip(parts, *places, strict=True):
                y = part(self.norm(x, f"{layer}.{before}") if before else x)
                x = x + (self.norm(y, f"{layer}.{behind}") if behind else y)
        head = self.s.get("lm_head.weight", self.s["model.embed_tokens.weight"])
        return self.spec.get("factor", 1.0) * self.norm(x, "model.norm") @ head.T


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_every_gradient(name, rng):
    torch, spec = peers.torch, MODELS[name]
    config = small(PUBLISHED[name]) | {"max_position_embeddings": 64} | spec.get("entries", {})
    state = state_of(config["model_type"], config, rng)
    params, own = from_state_dict(state, config=config)
    tensors = {key: torch.tensor(array, requires_grad=True) for key, array in state.items()}
    ids, u = rng.integers(3, V, T), rng.normal(size=(T, V))
    head_dim = {"head_dim": config.get("head_dim", 8)}
    want = WrittenOut(spec, tensors, config | head_dim).logits(torch.tensor(ids))
    want.backward(torch.tensor(u))
    want = want.detach().numpy()
    assert abs(language_model(ids, params, own) - want).max() <= 1e-12 * abs(want).max()
    grads = to_state_dict(language_model_vjp(u, ids, params, own), config["model_type"], own)
    assert grads.keys() == tensors.keys()
    for key, tensor in tensors.items():
        dwant = tensor.grad.numpy()
        np.testing.assert_allclose(grads[key], dwant, rtol=0, atol=1e-10 * abs(dwant).max() + 1e-12)
