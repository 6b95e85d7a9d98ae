"""GPT-2, LLaMA, BERT and T5 written out in NumPy, on tensors by their names, and small states."""

import numpy as np

from dlref.formulas.activations import silu, softmax

V, D, H, F, L, T = 11, 8, 2, 12, 10, 7
E = D // H


# The models as their authors' code has them, on tensors by their names.


def normed(x, eps, weight, bias=None):
    """Layer norm, or RMS norm if there is no bias."""
    x = x if bias is None else x - x.mean(-1, keepdims=True)
    y = weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return y if bias is None else y + bias


def heads(x, n):
    return x.reshape(len(x), n, -1).swapaxes(0, 1)


def attend(q, k, v, bias, scale):
    """Attend with (H, T, E); grouped heads repeat keys and values."""
    k, v = (np.repeat(a, len(q) // len(a), axis=0) for a in (k, v))
    out = softmax(scale * q @ k.swapaxes(1, 2) + bias) @ v
    return out.swapaxes(0, 1).reshape(q.shape[1], -1)


def causal(n):
    return np.triu(np.full((n, n), -np.inf), 1)


def gelu_new(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def run_gpt2(s, ids, layers=2):
    def conv(x, name):
        return x @ s[f"{name}.weight"] + s[f"{name}.bias"]

    def norm(x, name):
        return normed(x, 1e-5, s[f"{name}.weight"], s[f"{name}.bias"])

    x = s["transformer.wte.weight"][ids] + s["transformer.wpe.weight"][: len(ids)]
    for i in range(layers):
        name = f"transformer.h.{i}."
        qkv = np.split(conv(norm(x, f"{name}ln_1"), f"{name}attn.c_attn"), 3, axis=-1)
        y = attend(*(heads(a, H) for a in qkv), causal(len(ids)), E**-0.5)
        x = x + conv(y, f"{name}attn.c_proj")
        y = gelu_new(conv(norm(x, f"{name}ln_2"), f"{name}mlp.c_fc"))
        x = x + conv(y, f"{name}mlp.c_proj")
    return norm(x, "transformer.ln_f") @ s.get("lm_head.weight", s["transformer.wte.weight"]).T


def rotate_half(x):
    return np.concatenate([-x[..., E // 2 :], x[..., : E // 2]], axis=-1)


def run_llama(s, ids, layers=2, kv=1, theta=10000.0, divisor=1.0):
    angles = np.outer(np.arange(len(ids)), theta ** (-np.arange(0, E, 2) / E) / divisor)
    angles = np.concatenate([angles, angles], axis=-1)

    def rotated(x):
        return x * np.cos(angles) + rotate_half(x) * np.sin(angles)

    def dense(x, name):
        return x @ s[f"{name}.weight"].T + s.get(f"{name}.bias", 0.0)

    x = s["model.embed_tokens.weight"][ids]
    for i in range(layers):
        name = f"model.layers.{i}."
        y = normed(x, 1e-6, s[f"{name}input_layernorm.weight"])
        q, k, v = (dense(y, f"{name}self_attn.{c}_proj") for c in "qkv")
        q, k, v = rotated(heads(q, H)), rotated(heads(k, kv)), heads(v, kv)
        y = attend(q, k, v, causal(len(ids)), E**-0.5)
        x = x + dense(y, f"{name}self_attn.o_proj")
        y = normed(x, 1e-6, s[f"{name}post_attention_layernorm.weight"])
        y = silu(dense(y, f"{name}mlp.gate_proj")) * dense(y, f"{name}mlp.up_proj")
        x = x + dense(y, f"{name}mlp.down_proj")
    head = s.get("lm_head.weight", s["model.embed_tokens.weight"])
    return normed(x, 1e-6, s["model.norm.weight"]) @ head.T


def run_bert(s, ids, types, layers=1):
    def dense(x, name):
        return x @ s[f"{name}.weight"].T + s[f"{name}.bias"]

    def norm(x, name):
        return normed(x, 1e-12, s[f"{name}.weight"], s[f"{name}.bias"])

    tables = [s[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type")]
    x = tables[0][ids] + tables[1][: len(ids)] + tables[2][types]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers):
        name = f"encoder.layer.{i}."
        parts = (dense(x, f"{name}attention.self.{n}") for n in ("query", "key", "value"))
        y = attend(*(heads(a, H) for a in parts), 0.0, E**-0.5)
        y = dense(y, f"{name}attention.output.dense")
        x = norm(x + y, f"{name}attention.output.LayerNorm")
        y = np.maximum(dense(x, f"{name}intermediate.dense"), 0)
        x = norm(x + dense(y, f"{name}output.dense"), f"{name}output.LayerNorm")
    return x


def run_t5(s, ids, bias, gated, layers=2):
    x = s["shared.weight"][ids]
    for i in range(layers):
        name = f"encoder.block.{i}.layer."
        y = normed(x, 1e-6, s[f"{name}0.layer_norm.weight"])
        q, k, v = (heads(y @ s[f"{name}0.SelfAttention.{c}.weight"].T, H) for c in "qkv")
        x = x + attend(q, k, v, bias, 1.0) @ s[f"{name}0.SelfAttention.o.weight"].T
        y = normed(x, 1e-6, s[f"{name}1.layer_norm.weight"])
        name += "1.DenseReluDense."
        if gated:
            y = gelu_new(y @ s[f"{name}wi_0.weight"].T) * (y @ s[f"{name}wi_1.weight"].T)
        else:
            y = np.maximum(y @ s[f"{name}wi.weight"].T, 0)
        x = x + y @ s[f"{name}wo.weight"].T
    return normed(x, 1e-6, s["encoder.final_layer_norm.weight"])


# Their tensors.


def gpt2_shapes(layers=2):
    both = {"ln_1": (D,), "attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "ln_2": (D,)}
    both |= {"mlp.c_fc": (D, F), "mlp.c_proj": (F, D)}
    shapes = {"transformer.wte.weight": (V, D), "transformer.wpe.weight": (L, D)}
    for i in range(layers):
        for name, shape in both.items():
            shapes[f"transformer.h.{i}.{name}.weight"] = shape
            shapes[f"transformer.h.{i}.{name}.bias"] = shape[-1:]
    return shapes | {"transformer.ln_f.weight": (D,), "transformer.ln_f.bias": (D,)}


def llama_shapes(layers=2, kv=1, bias=False):
    K = kv * E
    both = {"q_proj": (D, D), "k_proj": (K, D), "v_proj": (K, D), "o_proj": (D, D)}
    shapes = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,)}
    for i in range(layers):
        name = f"model.layers.{i}."
        for part, shape in both.items():
            shapes[f"{name}self_attn.{part}.weight"] = shape
            if bias:
                shapes[f"{name}self_attn.{part}.bias"] = shape[:1]
        shapes |= {f"{name}mlp.{x}_proj.weight": (F, D) for x in ("gate", "up")}
        shapes |= {f"{name}mlp.down_proj.weight": (D, F)}
        shapes |= {f"{name}{x}_layernorm.weight": (D,) for x in ("input", "post_attention")}
    return shapes


def bert_shapes(pooler=True):
    layer = "encoder.layer.0."
    tables = {"word": V, "position": L, "token_type": 2}
    shapes = {f"embeddings.{x}_embeddings.weight": (n, D) for x, n in tables.items()}
    dense = {f"{layer}attention.self.{x}": (D, D) for x in ("query", "key", "value")}
    dense |= {f"{layer}attention.output.dense": (D, D), f"{layer}intermediate.dense": (F, D)}
    dense |= {f"{layer}output.dense": (D, F)} | ({"pooler.dense": (D, D)} if pooler else {})
    norms = ("embeddings.", f"{layer}attention.output.", f"{layer}output.")
    for name, shape in (dense | {f"{x}LayerNorm": (D,) for x in norms}).items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def t5_shapes(gated, layers=2, K=6):
    shapes = {"shared.weight": (V, D), "encoder.final_layer_norm.weight": (D,)}
    for i in range(layers):
        name = f"encoder.block.{i}.layer."
        shapes |= {f"{name}0.SelfAttention.{c}.weight": (K, D) for c in "qkv"}
        shapes |= {f"{name}0.SelfAttention.o.weight": (D, K)}
        first = ("wi_0", "wi_1") if gated else ("wi",)
        shapes |= {f"{name}1.DenseReluDense.{x}.weight": (F, D) for x in first}
        shapes |= {f"{name}1.DenseReluDense.wo.weight": (D, F)}
        shapes |= {f"{name}{k}.layer_norm.weight": (D,) for k in (0, 1)}
    name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return shapes | {name: (32, H)}


HEAD = {"lm_head.weight": (V, D)}
GPT2 = {"vocab_size": V, "n_embd": D, "n_head": H, "n_layer": 2, "n_positions": L, "n_inner": F}
LLAMA = {
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": 2,
    "num_attention_heads": H,
    "num_key_value_heads": 1,
}
BERT = {
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": 1,
    "num_attention_heads": H,
    "max_position_embeddings": L,
    "hidden_act": "relu",
}
T5 = {"vocab_size": V, "d_model": D, "d_kv": 3, "d_ff": F, "num_layers": 2, "num_heads": H}


def drawn(shapes):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
