"""Mistakes of public reports that were looked up after the set unfamiliar had been tried."""

import numpy as np

from dlref import activations as act
from dlref import losses, quantization, recurrent, training, transformer

from .kernels import Wrong, cases, refuse, softmax
from .losses import log_softmax
from .november import reduced

R = np.random.default_rng(89)


def hard_sigmoid_backward(dout, x, alpha=1 / 6, beta=0.5, slip=""):
    """The slope of the line, between 0 and 1 alone."""
    line = alpha * x + beta
    inside = (line > 0) & (line < 1) if slip != "everywhere" else np.ones(x.shape, bool)
    return (dout * np.where(inside, alpha, 0)).astype(x.dtype)


def hard_swish_backward(dout, x, slip=""):
    """The product rule of x and relu6(x + 3) / 6."""
    at = dout if slip == "of the cotangent" else x
    inside = (x >= -3) & (x <= 3) if slip == "closed" else (x > -3) & (x < 3)
    if slip == "of the cotangent":
        slope = (np.clip(at + 3, 0, 6) + np.where(inside, dout, 0) * at) / 6
        return slope.astype(x.dtype)
    if slip == "closed":
        slope = np.where(inside, x / 3 + 0.5, x > 3)
    else:
        slope = (np.clip(x + 3, 0, 6) + np.where(inside, x, 0)) / 6
    return (dout * slope).astype(x.dtype)


def dpo_loss(log_p, log_ref, beta=0.1, kind="sigmoid", reduction="mean", slip=""):
    """The loss of the margin of both rewards."""
    if slip == "kind not passed":
        kind = "sigmoid"
    chosen, rejected = log_p - log_ref
    z = beta * (chosen - rejected)
    if kind == "hinge":
        terms = np.maximum(0, 1 - z)
    elif kind == "ipo":
        terms = (chosen - rejected - 1 / (2 * beta)) ** 2
    else:
        terms = np.logaddexp(0, -z)
    return reduced(terms, reduction).astype(log_p.dtype)


def scan_with_one_b(x, delta, a, b, c, slip=""):
    """States without the factor b, which is the same in all steps and is put in at the end."""
    if not (b == b[..., :1, :]).all():
        refuse("b that changes")
    h = np.zeros((*x.shape[:-2], x.shape[-1], a.shape[-1]))
    out = []
    for t in range(x.shape[-2]):
        step = delta[..., t, :, None]
        h = np.exp(step * a) * h + step * x[..., t, :, None]
        out.append((h * (b * c)[..., t, None, :]).sum(-1))
    last = h if slip == "state without b" else h * b[..., 0, None, :]
    return np.stack(out, -2), last


def scan_in_two_sweeps(x, delta, a, b, c, slip=""):
    """A scan by a tree: each half passes its factor and its sum on."""
    step = delta[..., None]
    factors = np.moveaxis(np.exp(step * a), -3, 0)
    terms = np.moveaxis(step * b[..., None, :] * x[..., None], -3, 0)

    def total(s, d):
        kept, made = s[0], d[0]
        for factor, term in zip(s[1:], d[1:], strict=True):
            kept, made = kept * factor, factor * made + term
        return kept, made

    def down(s, d, before):
        if len(s) == 1:
            return [s[0] * before[1] + d[0]]
        half = len(s) // 2
        left_s, left_d = total(s[:half], d[:half])
        if slip == "operands exchanged":
            passed = before[0] * left_d + before[1]
        else:
            passed = left_s * before[1] + left_d
        after = before[0] * left_s, passed
        return [*down(s[:half], d[:half], before), *down(s[half:], d[half:], after)]

    ones = np.ones_like(terms[0])
    states = down(factors, terms, (ones, 0 * ones))
    every = np.stack(states, -3)
    return (every * c[..., None, :]).sum(-1), states[-1]


def next_token(z, temperature=1.0, min_p=None, slip=""):
    """The temperature, then tokens whose share of the best one's is large enough."""
    if temperature == 0:
        refuse("temperature 0")
    p = softmax(z if slip == "before the temperature" else z / temperature)
    kept = p >= (min_p or 0.0) * p.max(-1, keepdims=True)
    return softmax(np.where(kept, z / temperature, -np.inf)).astype(z.dtype)


def fake_quantize(x, scale, zero_point=0, bits=8, slip=""):
    """Integers within their range, and back."""
    if slip == "no zero point":
        zero_point = 0
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    q = np.clip(np.rint(x / scale) + zero_point, low, high)
    return np.asarray(scale * (q - zero_point), x.dtype)


def cross_entropy(logits, target, label_smoothing=0.0, reduction="mean", slip=""):
    """The cross-entropy of a label that is shared with all classes."""
    n = logits.shape[-1]
    one_hot = np.arange(n) == target[..., None]
    others = n - 1 if slip == "shared by n - 1" else n
    q = (1 - label_smoothing) * one_hot + label_smoothing / others
    return reduced(-(q * log_softmax(logits)).sum(-1), reduction).astype(logits.dtype)


def muon(w, grads, state, learning_rate, momentum=0.95, weight_decay=0.1, slip=""):
    """A blend of gradients, whose singular values are brought near 1."""
    step, mean = (0, 0 * w) if state is None else state
    if slip == "decay of the gradient":
        grads, weight_decay = grads + weight_decay * w, 0.0
    mean = momentum * mean + (1 - momentum) * grads
    x = momentum * mean + (1 - momentum) * grads
    x = x / max(np.sqrt((x * x).sum()), 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    rows, columns = w.shape
    move = learning_rate * max(1, rows / columns) ** 0.5 * x
    return (1 - learning_rate * weight_decay) * w - move, (step + 1, mean)


def kinks():
    x = np.array([[-5.0, -3.0, -1.0, 0.5], [3.0, 2.0, 7.0, -3.0], [3.0, -2.0, 1.0, 4.0]])
    return cases(*(((x + 0.0 * k,), {}) for k in range(3)))


def pairs_of(*kinds):
    return cases(*(((-R.uniform(5, 30, (2, 6)), -R.uniform(5, 30, (2, 6))),
                    {"kind": kind, "reduction": "none"}) for kind in kinds))  # fmt: skip


def scans(*lengths, is_constant=False):
    def case(T, D, N):
        x, b, c = R.normal(size=(T, D)), R.normal(size=(T, N)), R.normal(size=(T, N))
        b = np.repeat(b[:1], T, 0) if is_constant else b
        return (x, R.uniform(0.1, 1, (T, D)), -R.uniform(0.3, 2, (D, N)), b, c), {}

    return cases(*(case(T, 3, 4) for T in lengths))


def tokens(*options):
    return cases(*(((2 * R.normal(size=(3, 12)),), o) for o in options))


def smoothed(*shares):
    return cases(*(((R.normal(size=(6, 5 + i)), R.integers(0, 5, 6)), {"label_smoothing": s})
                   for i, s in enumerate(shares)))  # fmt: skip


def steps():
    def case(shape, rate, decay, step):
        state = (step, R.normal(size=shape)) if step else None
        options = {"learning_rate": rate, "weight_decay": decay}
        return (R.normal(size=shape), R.normal(size=shape), state), options

    return cases(case((4, 3), 0.1, 0.3, 0), case((3, 5), 0.05, 0.2, 2), case((4, 4), 0.2, 0.1, 3))


NEXT, SCAN = transformer.next_token_probabilities, recurrent.selective_scan
UNMET = [
    Wrong("tenstorrent/tt-metal#6534", act.hard_sigmoid, "vjp", hard_sigmoid_backward,
        "everywhere", "The flat parts have the slope of the line, too.",
        (r"\balpha\b|slope|inside|line|\b[01] stands where x",)),
    Wrong("tensorflow/swift-apis#743", act.hard_swish, "vjp", hard_swish_backward,
        "of the cotangent", "The slope is computed from the cotangent, in place of x.",
        (r"dout",)),
    Wrong("pytorch/pytorch#147801", act.hard_swish, "vjp", hard_swish_backward, "closed",
        "Both kinks have the slope of the middle.", (r"<|>|kink|branches meet",), kinks()),
    Wrong("modelscope/ms-swift#10167", losses.dpo_loss, "forward", dpo_loss, "kind not passed",
        "The kind of the loss is ignored.", (r"kind",), pairs_of("sigmoid", "hinge", "ipo")),
    Wrong("state-spaces/mamba#371", SCAN, "forward", scan_with_one_b, "state without b",
        "The last state is returned without the factor b.", (r"\bb\b",),
        scans(5, 7, 6, is_constant=True)),
    Wrong("state-spaces/mamba#716", SCAN, "forward", scan_in_two_sweeps, "operands exchanged",
        "On the way down, the operands of the sum are exchanged.", (r"exchang|order|operand",),
        scans(4, 8, 8)),
    Wrong("vllm-project/vllm-metal#728", NEXT, "forward", next_token, "before the temperature",
        "min_p is compared with probabilities before the temperature.", (r"temperature",),
        tokens({"temperature": 0.5, "min_p": 0.2}, {"temperature": 2.0, "min_p": 0.1},
               {"temperature": 1.5, "min_p": 0.3})),
    Wrong("microsoft/Olive#623", quantization.fake_quantize, "forward", fake_quantize,
        "no zero point", "The zero point is 0, whatever is passed.", (r"zero_point|\bz\b",),
        cases(*(((R.normal(size=(4, 9)), s), {"zero_point": z})
                for s, z in ((0.01, 60), (0.02, -71), (0.015, 80))))),
    Wrong("pytorch/pytorch#7455", losses.cross_entropy, "forward", cross_entropy,
        "shared by n - 1", "Each class, also the right one, has smoothing / (n - 1).",
        (r"n - 1|- 1|classes|smoothing",), smoothed(0.1, 0.2, 0.3)),
    Wrong("tinygrad/tinygrad#11414", training.muon_step, "forward", muon,
        "decay of the gradient", "The decay is added to the gradient.", (r"decay",), steps()),
]  # fmt: skip
