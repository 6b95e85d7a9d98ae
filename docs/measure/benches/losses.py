"""Losses at the sizes of language models and of contrastive batches, next to PyTorch's formulas."""

import numpy as np

import dlref.losses as L

SIZES = {
    "cross_entropy": [(64, 32), (512, 32000)],
    "linear_cross_entropy": [(512, 256, 8000)],  # rows, inputs, classes
    "gaussian_kl": [(4096, 256)],
    "kl_estimate": [(64, 2048)],
    "distillation_loss": [(64, 32000)],
    "info_nce": [(512, 512)],
    "siglip_loss": [(512, 512)],
    "dpo_loss": [(2, 4096)],
    "policy_loss": [(64, 2048)],
    "multi_margin_loss": [(512, 1024)],
    "sigmoid_focal_loss": [(512, 1024)],
    "triplet_margin_loss": [(512, 1024)],
    "ctc_loss": [(16, 200, 32, 40)],  # sequences, steps, classes, letters
}
PAIRS = ["gaussian_kl", "kl_estimate", "distillation_loss", "dpo_loss"]
ALL_MOVE = {*PAIRS, "siglip_loss", "triplet_margin_loss"}  # PyTorch's gradient is of all arguments


def _arguments(name, shape, dtype):
    rng = np.random.default_rng(0)
    if name == "ctc_loss":
        N, _, C, S = shape
        x = rng.normal(size=shape[:3])
        x = x - np.log(np.exp(x).sum(-1, keepdims=True))
        return [x.astype(dtype), rng.integers(1, C, (N, S))]
    if name == "linear_cross_entropy":
        rows, inputs, classes = shape
        sizes = (rows, inputs), (classes, inputs)
        arrays = [rng.normal(size=size).astype(dtype) for size in sizes]
        return [*arrays, rng.integers(0, classes, rows)]
    count = 3 if name == "triplet_margin_loss" else 1 + (name in PAIRS)
    arrays = [rng.normal(size=shape).astype(dtype) / 2 for _ in range(count)]
    if name == "multi_margin_loss":
        return [*arrays, rng.integers(0, shape[1], shape[0])]
    if name == "sigmoid_focal_loss":
        return [*arrays, rng.integers(0, 2, shape).astype(dtype)]
    if name == "policy_loss":
        old = rng.normal(size=shape).astype(dtype) / 2
        return [*arrays, old, rng.normal(size=(shape[0], 1)).astype(dtype)]
    return [*arrays, np.dtype(dtype).type(-2.0)] if name == "siglip_loss" else arrays


def _of_logits(library, form, shape, dtype):
    """Return the call of cross-entropy, which bench.py makes for all libraries."""
    import bench  # noqa: PLC0415

    if form == "jvp":
        return None
    arguments = bench.inputs("cross_entropy", shape, dtype)
    return bench.CALLS[library]("losses", "cross_entropy", form, arguments)


def dlref_call(name, form, shape, dtype):
    if name == "cross_entropy":
        return _of_logits("dlref", form, shape, dtype)
    arguments = _arguments(name, shape, dtype)
    if form == "map":
        return lambda: getattr(L, name)(*arguments)
    one = np.dtype(dtype).type(1.0)
    return (lambda: getattr(L, f"{name}_vjp")(one, *arguments)) if form == "vjp" else None


def numpy_call(name, form, shape, dtype):
    return _of_logits("NumPy", form, shape, dtype) if name == "cross_entropy" else None


def jax_call(name, form, shape, dtype):
    return _of_logits("JAX", form, shape, dtype) if name == "cross_entropy" else None


def _formulas(torch):
    F = torch.nn.functional

    def policy(log_p, old, advantage):
        ratio = (log_p - old).exp()
        return -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()

    def siglip(s, bias):
        label = 2 * torch.eye(s.shape[0], dtype=s.dtype) - 1
        return -F.logsigmoid(label * (s + bias)).sum() / s.shape[0]

    def clip(s):
        target = torch.arange(s.shape[0])
        return (F.cross_entropy(s, target) + F.cross_entropy(s.t(), target)) / 2

    def ctc(x, target):
        N, T, S = *x.shape[:2], target.shape[1]
        sizes = torch.full((N,), T), torch.full((N,), S)
        return F.ctc_loss(x.transpose(0, 1), target, *sizes)

    def divergence(x, teacher):
        log_p, log_q = x.log_softmax(-1), teacher.log_softmax(-1)
        return F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)

    def preferences(p, ref):
        gain = p - ref
        return -F.logsigmoid(0.1 * (gain[0] - gain[1])).mean()

    def focal(x, target):
        p, cost = x.sigmoid(), F.binary_cross_entropy_with_logits(x, target, reduction="none")
        right = p * target + (1 - p) * (1 - target)
        return ((0.25 * target + 0.75 * (1 - target)) * cost * (1 - right) ** 2).mean()

    return {
        "multi_margin_loss": F.multi_margin_loss,
        "sigmoid_focal_loss": focal,
        "triplet_margin_loss": F.triplet_margin_loss,
        "policy_loss": policy,
        "siglip_loss": siglip,
        "info_nce": clip,
        "ctc_loss": ctc,
        "distillation_loss": divergence,
        "dpo_loss": preferences,
        "gaussian_kl": lambda m, s: 0.5 * (m * m + s.exp() - 1 - s).sum(-1).mean(),
        "kl_estimate": lambda p, ref: ((ref - p).expm1() - (ref - p)).mean(),
        "linear_cross_entropy": lambda x, w, target: F.cross_entropy(x @ w.T, target),
    }


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if name == "cross_entropy" or form == "jvp":
        return _of_logits("PyTorch", form, shape, dtype)
    torch.set_num_threads(2)
    f, arguments = _formulas(torch)[name], _arguments(name, shape, dtype)
    count = len(arguments) if name in ALL_MOVE else 1 + name.startswith("linear")
    tensors = [
        torch.tensor(a, requires_grad=form == "vjp" and k < count) for k, a in enumerate(arguments)
    ]
    if form == "map":
        return lambda: f(*tensors)
    return lambda: torch.autograd.grad(f(*tensors), tensors[:count])
