"""Kernels of PyTorch, whose backward pass is its own."""

import torch
from torch.nn import functional as F

from dlref import attention as att
from dlref import losses
from dlref import normalization as norm

from .kernels import Wrong, refuse

TORCH = {"framework": "torch"}


def features(x):
    """elu + 1, which does not cancel where x is far below 0."""
    return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))


def linear_attention(q, k, v, is_causal=False, normalize=True, slip=""):
    """The divisor is formed from a sum of keys, as in fla."""
    a, b = features(q), features(k)
    weights = a @ b.transpose(-1, -2)
    weights = weights.tril() if is_causal else weights
    if not normalize:
        return weights @ v
    keys = b.detach() if slip == "keys detached" else b
    if is_causal:
        total = (a @ keys.transpose(-1, -2)).tril().sum(-1, keepdim=True)
    else:
        total = (a * keys.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return weights @ v / torch.where(total == 0, 1, total)


def batch_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """Batch norm by its own statistics."""
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    var = (x - mean).square().mean(axes)
    if slip == "statistics detached":
        mean, var = mean.detach(), var.detach()
    y = (x - mean) * torch.rsqrt(var + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def policy_loss(log_p, old, advantage, clip=0.2, clip_high=None, slip=""):
    """PPO's loss as the larger of two losses."""
    ratio = torch.exp(log_p - old)
    bounded = torch.clamp(ratio, 1 - clip, 1 + (clip if clip_high is None else clip_high))
    if slip == "smaller loss":
        return torch.min(-ratio * advantage, -bounded * advantage).mean()
    return torch.max(-ratio * advantage, -bounded * advantage).mean()


def smoothed(x, target, label_smoothing=0.0, slip=""):
    """Cross-entropy of classes with smoothed labels."""
    if target.ndim == x.ndim or bool((target < 0).any()):
        refuse("probabilities, or ignored rows")
    logs = F.log_softmax(x, dim=-1)
    picked = -logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    eps, count = label_smoothing, x.shape[-1]
    share = (1 - eps) / count if slip == "kept mass" and eps else eps / count
    return ((1 - eps) * picked - share * logs.sum(-1)).mean()


GIVEN = [
    Wrong("C", norm.batch_norm, "autograd", batch_norm, "statistics detached",
        "Mean and variance are detached: they count as constants.",
        (r"(statistics|mean|variance).*(constant|not differentiated|ignored|evaluation|detach)",
         r"constant.*(statistics|mean|var)", r"\bg stands where g - mean_g"), TORCH),
    Wrong("D", losses.policy_loss, "autograd", policy_loss, "smaller loss",
        "The smaller of two losses is taken, not the larger.",
        (r"max.*min|min.*max", r"larger|smaller", r"free.*>.*bounded|<.*bounded"), TORCH),
]  # fmt: skip
FRESH = [
    Wrong("fla-org/flash-linear-attention#875", att.linear_attention, "autograd",
        linear_attention, "keys detached",
        "The keys in the divisor are cut from the graph: their gradient lacks its term.",
        (r"(divisor|normali\w+|dz|denominator).*(constant|missing|lacks|ignored|0|detach)",
         r"(lacks|without|missing).*(dz|divisor|normali|denominator)", r"dweights",
         r"gradient of k.*stands where g @ v\.mT \+ dz"), TORCH),
    Wrong("paiml/aprender#2199", losses.cross_entropy, "autograd", smoothed, "kept mass",
        "The mass of each class is (1 - eps) / C, in place of eps / C.",
        (r"1 - label_smoothing", r"label_smoothing.*1 -",
         r"smooth\w+.*(mass|share|other classes)"), TORCH),
]  # fmt: skip
