"""Decoders that resemble GPT-2, written out in NumPy, and states that fit them."""

import math

import numpy as np

V, D, H, F, L = 23, 16, 4, 24, 20
E = D // H
#: kind -> configurations of small models.
MODELS = {
    "falcon": [
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "num_kv_heads": 2}
        | {"new_decoder_architecture": True, "ffn_hidden_size": F},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "bias": True}
        | {"new_decoder_architecture": True, "ffn_hidden_size": F, "activation": "relu"}
        | {"tie_word_embeddings": False},
        # Falcon 2: one norm for both parts; then the first models, 7B and one without a shared head
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "num_kv_heads": 2}
        | {"new_decoder_architecture": True, "ffn_hidden_size": F, "num_ln_in_parallel_attn": 1}
        | {"tie_word_embeddings": False},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "multi_query": True}
        | {"num_kv_heads": H, "ffn_hidden_size": F},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "bias": True}
        | {"parallel_attn": False, "multi_query": False, "ffn_hidden_size": F},
    ],
    "mpt": [
        {"d_model": D, "n_heads": H, "n_layers": 2},
        {"d_model": D, "n_heads": 3 if D % 3 == 0 else 2, "n_layers": 2}
        | {"attn_config": {"softmax_scale": 0.3}, "tie_word_embeddings": False},
        {"d_model": D, "n_heads": H, "n_layers": 2}
        | {"attn_config": {"alibi_bias_max": 16, "clip_qkv": 0.5}},
    ],
    "gpt_bigcode": [
        {"n_embd": D, "n_head": H, "n_layer": 2, "n_positions": L, "n_inner": F},
        {"n_embd": D, "n_head": H, "n_layer": 2, "n_positions": L, "n_inner": F}
        | {"multi_query": False, "scale_attn_weights": False, "tie_word_embeddings": False},
    ],
    "gpt_neo": [
        {"hidden_size": D, "num_heads": H, "num_layers": 4, "window_size": 3}
        | {"max_position_embeddings": L, "intermediate_size": F},
        {"hidden_size": D, "num_heads": H, "num_layers": 3, "window_size": 2}
        | {"max_position_embeddings": L, "intermediate_size": F}
        | {"attention_types": [[["local"], 2], [["global"], 1]]},
    ],
    "opt": [
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "word_embed_proj_dim": D},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "tie_word_embeddings": False},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "do_layer_norm_before": False},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "enable_bias": False},
        # 350M: narrow embeddings, and norms after the sums
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "word_embed_proj_dim": 6, "do_layer_norm_before": False},
        {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2, "ffn_dim": F}
        | {"max_position_embeddings": L, "word_embed_proj_dim": 6, "tie_word_embeddings": False},
    ],
}
CASES = [(kind, i) for kind, every in MODELS.items() for i in range(len(every))]
MLP = {"gpt_bigcode": ("mlp.c_fc", "mlp.c_proj"), "opt": ("fc1", "fc2")}
MLP["falcon"] = "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"
MLP["mpt"] = "ffn.up_proj", "ffn.down_proj"
MLP["gpt_neo"] = MLP["gpt_bigcode"]
NORMS = {"gpt_bigcode": ("ln_1", "ln_2"), "opt": ("self_attn_layer_norm", "final_layer_norm")}
NORMS["falcon"] = "ln_attn", "ln_mlp"
NORMS["mpt"] = "norm_1", "norm_2"
NORMS["gpt_neo"] = NORMS["gpt_bigcode"]
AROUND = {
    "gpt_bigcode": ("transformer.", "wte", "wpe", "h.", "ln_f"),
    "opt": ("model.decoder.", "embed_tokens", "embed_positions", "layers.", "final_layer_norm"),
}
AROUND["falcon"] = "transformer.", "word_embeddings", "", "h.", "ln_f"
AROUND["mpt"] = "transformer.", "wte", "", "blocks.", "norm_f"
AROUND["gpt_neo"] = AROUND["gpt_bigcode"]
PROJECTIONS = {
    "gpt_neo": ("attn.attention.{}_proj", "attn.attention.out_proj"),
    "opt": ("self_attn.{}_proj", "self_attn.out_proj"),
    "gpt_bigcode": ("attn.c_attn", "attn.c_proj"),
    "falcon": ("self_attention.query_key_value", "self_attention.dense"),
    "mpt": ("attn.Wqkv", "attn.out_proj"),
}


WITHOUT_BIASES = ("falcon", "mpt")


def settings_of(kind, i):
    return {"model_type": kind, "vocab_size": V} | MODELS[kind][i]


def layers_of(config):
    names = ("n_layer", "n_layers", "num_layers", "num_hidden_layers")
    return next(config[name] for name in names if name in config)


def norms_of(kind, config):
    """Return the names of a layer's norms, of which there may be one."""
    if kind != "falcon" or config.get("new_decoder_architecture"):
        one = config.get("num_ln_in_parallel_attn") == 1
        return ("input_layernorm",) if one else NORMS[kind]
    one = config.get("parallel_attn", True)
    return ("input_layernorm",) if one else ("input_layernorm", "post_attention_layernorm")


def groups_of(config):
    """Return the number of heads of keys of a Falcon."""
    if config.get("multi_query", True) and not config.get("new_decoder_architecture"):
        return 1
    return config.get("num_kv_heads", H)


def of_norms(kind):
    return ("weight",) if kind == "mpt" else ("weight", "bias")


def shapes_of(kind, i=0):
    """Return the shapes of the tensors of a model, by name."""
    config = settings_of(kind, i)
    base, tokens, places, layers, last = AROUND[kind]
    width = config.get("word_embed_proj_dim", D)
    shapes = {f"{base}{tokens}.weight": (V, width)}
    if width != D:
        shapes |= {f"{base}project_in.weight": (D, width), f"{base}project_out.weight": (width, D)}
    if places:
        shapes[f"{base}{places}.weight"] = (L + 2 * (kind == "opt"), D)
    inner, out = PROJECTIONS[kind]
    for n in range(layers_of(config)):
        name = f"{base}{layers}{n}."
        hidden = 4 * D if kind == "mpt" else F
        sizes = {out: (D, D), MLP[kind][0]: (hidden, D), MLP[kind][1]: (D, hidden)}
        if kind == "gpt_bigcode":
            sizes[inner] = (D + 2 * E if config.get("multi_query", True) else 3 * D, D)
        elif kind == "falcon":
            sizes[inner] = (D + 2 * groups_of(config) * E, D)
        elif kind == "mpt":
            sizes[inner] = (3 * D, D)
        else:
            sizes |= {inner.format(x): (D, D) for x in "qkv"}
        for part, shape in sizes.items():
            shapes[f"{name}{part}.weight"] = shape
            of_queries = kind == "gpt_neo" and part.endswith(("q_proj", "k_proj", "v_proj"))
            has_biases = config.get("bias", config.get("enable_bias", kind not in WITHOUT_BIASES))
            if not of_queries and has_biases:
                shapes[f"{name}{part}.bias"] = shape[:1]
        for norm in norms_of(kind, config):
            shapes |= {f"{name}{norm}.{x}": (D,) for x in of_norms(kind)}
    if config.get("do_layer_norm_before", True):
        shapes |= {f"{base}{last}.{x}": (D,) for x in of_norms(kind)}
    return shapes | (
        {} if config.get("tie_word_embeddings", True) else {"lm_head.weight": (V, width)}
    )


def run(kind, i, s, ids):
    """Return logits of one text."""
    config = settings_of(kind, i)
    base, tokens, places, layers, last = AROUND[kind]
    first = 2 if kind == "opt" else 0
    x = s[f"{base}{tokens}.weight"][ids] @ s.get(f"{base}project_in.weight", np.eye(D)).T
    if places:
        x = x + s[f"{base}{places}.weight"][first : first + len(ids)]

    def norm(x, name):
        centered = x - x.mean(-1, keepdims=True)
        root = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        return centered / root * s[f"{name}.weight"] + s.get(f"{name}.bias", 0)

    def dense(x, name):
        return x @ s[f"{name}.weight"].T + s.get(f"{name}.bias", 0)

    def activation(x):
        if kind == "opt" or config.get("activation") == "relu":
            return np.maximum(x, 0)
        if kind in ("falcon", "mpt"):
            return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    for n in range(layers_of(config)):
        name = f"{base}{layers}{n}."
        norms, (up, down) = [f"{name}{x}" for x in norms_of(kind, config)], MLP[kind]
        if not config.get("do_layer_norm_before", True):
            out = f"{name}{PROJECTIONS[kind][1]}"
            x = norm(x + dense(_averages(kind, config, n, x, name, dense), out), norms[0])
            x = norm(x + dense(activation(dense(x, f"{name}{up}")), f"{name}{down}"), norms[1])
            continue
        given = x
        x = x + dense(_averages(kind, config, n, norm(x, norms[0]), name, dense),
                      f"{name}{PROJECTIONS[kind][1]}")  # fmt: skip
        side_by_side = kind == "falcon" and config.get("parallel_attn", True)
        read = given if side_by_side else x
        x = x + dense(activation(dense(norm(read, norms[-1]), f"{name}{up}")), f"{name}{down}")
    x = norm(x, f"{base}{last}") if config.get("do_layer_norm_before", True) else x
    x = x @ s.get(f"{base}project_out.weight", np.eye(D)).T
    return x @ s.get("lm_head.weight", s[f"{base}{tokens}.weight"]).T


def _turned(x):
    """Return rows after the rotation of their halves."""
    angles = np.arange(len(x))[:, None] * 1e4 ** (-np.arange(0, E, 2) / E)
    a, b = np.split(x, 2, axis=1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


def _averages(kind, config, n, x, name, dense):
    """Return the averages of all heads of a layer, one head after the other."""
    inner = PROJECTIONS[kind][0]
    if kind == "gpt_bigcode":
        fused = dense(x, f"{name}{inner}")
        if config.get("multi_query", True):
            heads = [(fused[:, h * E : (h + 1) * E], fused[:, D : D + E], fused[:, D + E :])
                     for h in range(H)]  # fmt: skip
        else:
            heads = [np.split(fused[:, 3 * h * E : 3 * (h + 1) * E], 3, axis=1) for h in range(H)]
    elif kind == "falcon":
        groups = groups_of(config)
        own, rows = H // groups, dense(x, f"{name}{inner}").reshape(len(x), groups, -1, E)
        heads = [(_turned(rows[:, h // own, h % own]), _turned(rows[:, h // own, own]),
                  rows[:, h // own, own + 1]) for h in range(H)]  # fmt: skip
    elif kind == "mpt":
        n = config["n_heads"]
        bound = config.get("attn_config", {}).get("clip_qkv", np.inf)
        parts = np.split(dense(x, f"{name}{inner}").clip(-bound, bound), 3, axis=1)
        heads = list(zip(*(np.split(a, n, axis=1) for a in parts), strict=True))
    else:
        all_heads = [dense(x, name + inner.format(c)) for c in "qkv"]
        heads = [[a[:, h * E : (h + 1) * E] for a in all_heads] for h in range(H)]
    is_scaled = kind != "gpt_neo" and config.get("scale_attn_weights", True)
    periods = config.get("attention_types", [[["global", "local"], 2]])
    kinds = [one for period, count in periods for one in period * count]
    window = config["window_size"] if kind == "gpt_neo" and kinds[n] == "local" else len(x)
    averages = []
    for h, (q, k, v) in enumerate(heads):
        scores = q @ k.T / (math.sqrt(q.shape[1]) if is_scaled else 1)
        if kind == "mpt":
            given = config.get("attn_config", {})
            own, most = given.get("softmax_scale"), given.get("alibi_bias_max", 8)
            scores = q @ k.T * own if own else scores
            slope = 2.0 ** (-most * (h + 1) / len(heads))
            scores -= slope * np.maximum(np.subtract.outer(np.arange(len(x)), np.arange(len(x))), 0)
        for t in range(len(x)):
            for u in range(len(x)):
                if u > t or u <= t - window:
                    scores[t, u] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        averages.append(weights / weights.sum(-1, keepdims=True) @ v)
    return np.concatenate(averages, axis=1)
