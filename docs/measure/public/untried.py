"""Mistakes of ten public reports that were looked up after the set unseen had been tried."""

import numpy as np

from dlref import attention as att
from dlref import calculus, losses, training
from dlref import normalization as norm
from dlref import positions as pos

from .kernels import Wrong, cases, refuse, softmax
from .losses import log_softmax
from .november import reduced

R = np.random.default_rng(77)


def cross_entropy(logits, target, reduction="mean", slip=""):
    """-log p of the class, for rows of logits."""
    rows = -np.take_along_axis(log_softmax(logits), target[..., None], -1)[..., 0]
    if slip == "divided by 100" and reduction == "mean":
        return np.asarray(rows.sum() / 100, logits.dtype)
    return reduced(rows, reduction).astype(logits.dtype)


def cross_entropy_backward(dout, logits, target, reduction="mean", slip=""):
    """Probabilities less 1 for the class."""
    classes = np.arange(logits.shape[-1]) == target[..., None]
    count = target.size if reduction == "mean" and slip != "not divided" else 1
    u = np.asarray(dout)[..., None] / count
    return (u * (softmax(logits) - classes)).astype(logits.dtype)


def sinusoidal(length, dim, base=10_000.0, slip=""):
    """Sines and cosines of geometric frequencies, in turn."""
    angles = np.arange(length)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    if slip == "side by side":
        return np.concatenate([np.sin(angles), np.cos(angles)], -1)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, dim)


def gaussian_kl(mean, log_var, reduction="mean", slip=""):
    """KL(N(mean, var) || N(0, 1)), summed along the last axis."""
    var = np.exp(log_var / 2 if slip == "deviation" else log_var)
    terms = (mean**2 + var - 1 - log_var).sum(-1) / 2
    return reduced(-terms if slip == "sign" else terms, reduction).astype(mean.dtype)


def matmul_backward(dout, a, b, slip=""):
    """Products of the cotangent and of the other factor."""
    if a.ndim < 2 or a.shape[:-2] != b.shape[:-2]:
        refuse("vectors, broadcasts")
    u = a @ b if slip == "of the output" else dout
    return u @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ u


def attention(q, k, v, mask=None, is_causal=False, window=None, slip=""):
    """Scores that a mask, the order or a window lets pass."""
    s = (q @ np.swapaxes(k, -1, -2)) * q.shape[-1] ** -0.5
    ahead = np.arange(s.shape[-1]) - np.arange(s.shape[-2])[:, None]
    allowed = np.ones(s.shape[-2:], bool) if mask is None else mask
    if is_causal and (mask is not None or slip != "order needs a mask"):
        allowed = allowed & (ahead <= 0)
    if window is not None:
        left, right = window
        allowed = allowed & (ahead >= -left)
        if slip != "left end alone":
            allowed = allowed & (ahead <= right)
    return (softmax(np.where(allowed, s, -np.inf)) @ v).astype(q.dtype)


def group_norm_backward(dout, x, groups, weight, bias, eps=1e-5, slip=""):
    """Channels in groups of neighbors."""
    n, channels = len(x), x.shape[-1]
    size = channels // groups
    rows = x.reshape(n, -1, groups, size)
    mean, var = rows.mean((1, 3)), rows.var((1, 3))
    own = np.arange(channels) // size
    other = np.arange(channels) % groups if slip == "group by the remainder" else own
    flat = x.reshape(n, -1, channels)
    u = dout.reshape(flat.shape)
    rstd = 1 / np.sqrt(var + eps)

    def normalized(of):
        return (flat - mean[:, None, of]) * rstd[:, None, of]

    dweight, dbias = (u * normalized(other)).sum((0, 1)), u.sum((0, 1))
    y, g = (a.reshape(rows.shape) for a in (normalized(own), u * weight))
    dx = g - g.mean((1, 3), keepdims=True) - y * (g * y).mean((1, 3), keepdims=True)
    dx = (dx.reshape(flat.shape) * rstd[:, None, own]).reshape(x.shape)
    return tuple(a.astype(x.dtype) for a in (dx, dweight, dbias))


def cosine_schedule(step, peak, steps, warmup=0, floor=0.0, slip=""):
    """Half a cosine from the peak to the floor."""
    if warmup:
        refuse("warmup")
    t = np.minimum(np.asarray(step), steps)
    shares = (1 + np.cos(np.pi * np.arange(steps + 1) / steps)) / 2
    if slip == "of the last step":  # the product of all shares so far
        shares = np.cumprod(shares)
    return floor + (peak - floor) * shares[t]


def of_queries(**options):
    def case(T, S):
        q, k, v = (R.normal(size=(2, n, 6)) for n in (T, S, S))
        return (q, k, v), options

    return cases(case(5, 7), case(6, 6), case(8, 5))


def of_orders():
    """Return queries with the order, without and with a mask."""

    def case(T, is_masked):
        q, k, v = (R.normal(size=(2, T, 6)) for _ in "qkv")
        mask = {"mask": np.tri(T, k=2, dtype=bool)} if is_masked else {}
        return (q, k, v), {"is_causal": True, **mask}

    return cases(case(5, False), case(6, True), case(7, False))


def of_groups():
    def case(n, T, groups, channels):
        x = R.normal(size=(n, T, channels))
        return (x, groups, R.normal(size=channels), R.normal(size=channels)), {}

    return cases(case(2, 5, 2, 6), case(3, 4, 3, 12), case(2, 7, 2, 8))


def of_classes(options):
    return cases(*(((R.normal(size=(rows, n)), R.integers(0, n, rows)), options)
                   for rows, n in ((5, 7), (9, 4), (6, 11))))  # fmt: skip


CE, KL, SDPA = losses.cross_entropy, losses.gaussian_kl, att.scaled_dot_product_attention
UNTRIED = [
    Wrong("victorlempitsky/Mate#2", CE, "vjp", cross_entropy_backward, "not divided",
        "The gradient is not divided by the number of rows.",
        (r"multiplied|mean|divided|count|size",), of_classes({})),
    Wrong("rinuboney/ladder#5", CE, "forward", cross_entropy, "divided by 100",
        "The sum is divided by 100, whatever the number of rows.", (r"100|0\.01",),
        of_classes({})),
    Wrong("tensorops/TransformerX#115", pos.sinusoidal, "forward", sinusoidal, "side by side",
        "Sines and cosines are side by side, not in turn.",
        (r"interleaved|concat|halves|side|stack|reshape|order|even",),
        cases(*((shape, {}) for shape in ((5, 8), (7, 6), (9, 12))))),
    Wrong("DaehanKim/vgae_pytorch#2", KL, "forward", gaussian_kl, "deviation",
        "The deviation stands for the variance.", (r"exp\(|log_var|sqrt|0\.5|half|var",)),
    Wrong("AntixK/PyTorch-VAE#68", KL, "forward", gaussian_kl, "sign", "The sign is reversed.",
        (r"sign|-",)),
    Wrong("Shubham-cyber-prog/100-Days-Of-Web-Development-ECWoC26#1378", calculus.matmul_vjp,
        "forward", matmul_backward, "of the output", "The product stands for the cotangent.",
        (r"a @ b|matmul|output|product",)),
    Wrong("facebookresearch/xformers#103", SDPA, "forward", attention, "order needs a mask",
        "Without a mask the order is ignored.", (r"causal",), of_orders()),
    Wrong("jax-ml/jax#39576", SDPA, "forward", attention, "left end alone",
        "The right end of the window is ignored.", (r"window|right|future",),
        of_queries(window=(2, 0))),
    Wrong("tenstorrent/tt-metal#56202", norm.group_norm, "vjp", group_norm_backward,
        "group by the remainder",
        "The gradient of the weight reads the statistics of another group.",
        (r"group|channel|part|order",), of_groups()),
    Wrong("bethgelab/foolbox#595", training.cosine_schedule, "forward", cosine_schedule,
        "of the last step", "Each step takes its share of the last rate, not of the peak.",
        (r"cumprod|product|last|previous",),
        cases(*(((np.arange(n + 3),), {"peak": p, "steps": n, "floor": f})
                for n, p, f in ((8, 1.0, 0.1), (10, 0.5, 0.0))))),
]  # fmt: skip
