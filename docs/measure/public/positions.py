"""Rotations, their frequencies, and biases by distance."""

import numpy as np

from dlref import positions as pos

from .kernels import Wrong, cases, refuse


def apply_rope(x, cos, sin, interleaved=True, slip=""):
    """x cos + rotated x sin, with tables that are repeated for both channels of a pair."""
    half = x.shape[-1] // 2
    if slip == "other pairing":
        interleaved = True
    if cos.shape[-1] != half:
        refuse("a part of the channels")
    for _ in range(2 if slip == "twice" else 1):
        if interleaved and slip != "halves with repeated angles":
            turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        else:
            turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
        c, s = (np.repeat(a, 2, -1) if interleaved else np.concatenate([a, a], -1)
                for a in (cos, sin))  # fmt: skip
        x = (x * c + turned * s).astype(x.dtype)
    return x


def yarn(theta, base, scaling, slip):
    """Fast pairs stay, slow ones are divided by the factor."""
    s, L = scaling["factor"], scaling["original_max_position_embeddings"]
    d = 2 * len(theta)
    low, high = (
        d / 2 * np.log(L / (2 * np.pi * turns)) / np.log(base)
        for turns in (scaling.get("beta_fast", 32), scaling.get("beta_slow", 1))
    )
    low, high = max(np.floor(low), 0), np.ceil(high)
    high = min(high, d // 2 - 1 if slip == "clamp at half the width" else d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / max(high - low, 0.001), 0, 1)
    slow = theta / s
    if slip == "factor under the power":
        slow = (s * base) ** (-np.arange(0, d, 2) / d)
    return theta * (1 - ramp) + slow * ramp


def llama3(theta, scaling, slip=""):
    """Frequencies by the number of turns in the length of training."""
    s, L = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling.get("low_freq_factor", 1), scaling.get("high_freq_factor", 4)
    ramp = np.clip((L * theta / (2 * np.pi) - low) / (high - low), 0, 1)
    if slip == "steps":
        ramp = np.round(ramp)
    return theta * ((1 - ramp) / s + ramp)


def rope_frequencies(dim, base=10000.0, scaling=None, slip=""):
    """Frequencies, as they are or scaled by yarn or llama3."""
    if slip == "base ignored":
        base = 10000.0
    theta = base ** (-np.arange(0, dim, 2) / dim)
    if scaling is None:
        return theta
    if scaling["rope_type"] == "yarn" and slip != "llama3 for all":
        return yarn(theta, base, scaling, slip)
    return llama3(theta, scaling, slip)


def sinusoidal(length, dim, base=10000.0, slip=""):
    """Sines of even channels, cosines of odd ones."""
    angles = np.repeat(base ** (-np.arange(0, dim, 2) / dim), 2) * np.arange(length)[:, None]
    out = np.zeros((length, dim))
    if slip == "rows":
        out[::2], out[1::2] = np.sin(angles[::2]), np.cos(angles[1::2])
    else:
        out[:, ::2], out[:, 1::2] = np.sin(angles[:, ::2]), np.cos(angles[:, 1::2])
    return out


def alibi_bias(slopes, T, S, q_offset=0, symmetric=False, slip=""):
    """Minus a slope times the distance, 0 for keys after the query unless it is symmetric."""
    i, j = np.arange(T)[:, None] + q_offset, np.arange(S)
    d = np.abs(i - j) if symmetric else np.maximum(i - j, 0)
    place = np.broadcast_to(-j, d.shape) if slip == "slope times the key" else d
    return (-slopes[..., None, None] * place).astype(slopes.dtype)


def scaled(kind, **options):
    return {"rope_type": kind, **options}


LONG = scaled("yarn", factor=8.0, original_max_position_embeddings=4096)
LONGER = scaled("yarn", factor=4.0, original_max_position_embeddings=131072)
LLAMA = scaled("llama3", factor=8.0, original_max_position_embeddings=8192,
               low_freq_factor=1.0, high_freq_factor=4.0)  # fmt: skip
FREQUENCIES, ROPE = pos.rope_frequencies, pos.apply_rope
YARN = cases(((64,), {"scaling": LONG}), ((128,), {"scaling": LONG, "base": 1e6}),
             ((64,), {}))  # fmt: skip
GIVEN = [
    Wrong("C", FREQUENCIES, "forward", rope_frequencies, "steps",
        "Between slow and fast pairs the frequencies jump: there is no ramp.",
        (r"ramp|step|jump|interpolat|smooth|round|rint|g > |where\(g",),
        cases(((64,), {"scaling": LLAMA}), ((128,), {"scaling": LLAMA, "base": 5e5}))),
    Wrong("D", pos.alibi_bias, "forward", alibi_bias, "slope times the key",
        "The bias is slope times the key's place (Falcon), not minus slope times the distance.",
        (r"distance", r"(place|position|index|number) of (the )?key", r"slope.*\bj\b",
         r"i - j|\bquery\b|arange\(S\)|offset")),
]  # fmt: skip
FRESH = [
    Wrong("NVIDIA-NeMo/Automodel#2825", FREQUENCIES, "forward", rope_frequencies, "llama3 for all",
        "The rule of llama3 stands for yarn.",
        (r"llama3",), YARN),
    Wrong("NVIDIA/TensorRT-LLM#16378", ROPE, "forward", apply_rope, "twice",
        "The rotation is applied twice.",
        (r"twice|two times|doubled?|again", r"2(\.0)? \* (theta|angle)")),
    Wrong("NVIDIA/TensorRT-LLM#16378", ROPE, "forward", apply_rope, "other pairing",
        "Channels are paired as neighbors where halves are due.",
        (r"interleaved", r"pair|neighbo|halves")),
    Wrong("apache/tvm#18576", FREQUENCIES, "forward", rope_frequencies, "factor under the power",
        "The factor stands under the power, with the base: (s base)^(-2i/d), not base^(-2i/d) / s.",
        (r"(factor|\bs\b).*(power|base|expon)", r"(power|expon|base).*(factor|\bs\b)",
         r"ntk"), YARN),
    Wrong("huggingface/candle#3746", FREQUENCIES, "forward", rope_frequencies, "base ignored",
        "The base is 10,000, whatever is given.",
        (r"base",), YARN),
    Wrong("raiyanyahya/how-to-train-your-gpt#6", ROPE, "forward", apply_rope,
        "halves with repeated angles",
        "Halves are paired, while the angles are repeated for neighbors.",
        (r"pair|half|halves|neighbo|interleav",)),
    Wrong("keras-team/keras-hub#2981", FREQUENCIES, "forward", rope_frequencies,
        "clamp at half the width",
        "The upper end of the ramp is limited to d / 2 - 1, not to d - 1.",
        (r"high|d // 2 - 1|d / 2 - 1|0\.5 \* d - 1|upper|clamp|limit|ramp",),
        cases(((64,), {"scaling": LONGER}), ((128,), {"scaling": LONGER}))),
    Wrong("gmongaras/Diffusion_models_from_scratch#10", pos.sinusoidal, "forward", sinusoidal,
        "rows",
        "Sines and cosines alternate from row to row, not from channel to channel.",
        (r"rows?|token|axis|position.*(even|odd|alternat)|time",),
        cases(((12, 8), {}), ((7, 6), {}))),
]  # fmt: skip
