"""Losses and their gradients."""

import numpy as np

from dlref import losses

from .kernels import Wrong, cases, refuse, softmax

R = np.random.default_rng(52)


def reduced(terms, reduction, count=None):
    """Mean, sum or all of the terms."""
    if reduction == "none":
        return terms
    total = terms.sum()
    return total / terms.dtype.type(count or terms.size) if reduction == "mean" else total


def log_softmax(x):
    """Logarithms of probabilities."""
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def of_classes(x, target):
    """Refuse target probabilities, which these kernels do not take."""
    if target.ndim == x.ndim:
        refuse("target probabilities")
    return np.maximum(target, 0)


def cross_entropy(
    x, target, ignore_index=-100, label_smoothing=0.0, reduction="mean", slip=""
):  # fmt: skip
    """The loss of classes, with smoothed labels and ignored rows."""
    counts = target != ignore_index
    c = np.where(counts, of_classes(x, target), 0)
    logs = log_softmax(x)
    V = x.shape[-1]
    eps = x.dtype.type(label_smoothing)
    hard = -np.take_along_axis(logs, c[..., None], -1)[..., 0]
    per_class = eps / V
    if slip == "kept mass":
        per_class = (1 - eps) / V if label_smoothing else eps
    rows = (1 - eps) * hard - per_class * logs.sum(-1)
    kept = ~counts if slip == "ignored rows kept" else counts
    rows = np.where(kept, rows, 0).astype(x.dtype)
    count = rows.size if slip == "mean over all rows" else counts.sum()
    if count == 0 and slip != "0 for no rows" and reduction == "mean":
        return x.dtype.type(np.nan)
    return reduced(rows, reduction, count)


def cross_entropy_backward(
    dout, x, target, ignore_index=-100, label_smoothing=0.0, reduction="mean", slip=""
):  # fmt: skip
    """p - q, times the upstream gradient of each row."""
    counts = target != ignore_index
    c = np.where(counts, of_classes(x, target), 0)
    V = x.shape[-1]
    eps = x.dtype.type(label_smoothing)
    q = np.where(np.arange(V) == c[..., None], 1 - eps, 0) + eps / V
    slopes = np.where(counts[..., None], softmax(x) - q, 0)
    if reduction == "mean" or slip == "divided without a mean":
        slopes = slopes / x.dtype.type(max(counts.sum(), 1))
    return (np.asarray(dout)[..., None] * slopes).astype(x.dtype)


def soft_cross_entropy_backward(dout, x, target, reduction="mean", slip=""):
    """The gradients of logits and target weights that need not sum to 1."""
    if target.ndim < x.ndim:
        refuse("classes")
    total = 1 if slip == "weights sum to one" else target.sum(-1, keepdims=True)
    slopes = total * softmax(x) - target
    dtarget = -log_softmax(x)
    count = x[..., 0].size if reduction == "mean" else 1
    u = np.asarray(dout)[..., None] / x.dtype.type(count)
    return (u * slopes).astype(x.dtype), (u * dtarget).astype(x.dtype)


def binary_cross_entropy(x, target, pos_weight=None, reduction="mean", slip=""):
    """-w y log p - (1 - y) log(1 - p), of logits."""
    softplus = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    w = 1 if pos_weight is None else pos_weight
    sign = -1 if slip == "sign of the second term" else 1
    return reduced(w * target * (softplus - x) + sign * (1 - target) * softplus, reduction)


def distillation_loss(x, teacher, temperature=1.0, reduction="mean", slip=""):
    """KL(teacher || student) of softened probabilities, times the squared temperature."""
    T = x.dtype.type(temperature)
    a, b = log_softmax(x / T), log_softmax(teacher / T)
    terms = (np.exp(b) * (b - a)) * T * T
    if slip == "mean over elements" and reduction == "mean":
        return terms.mean()
    return reduced(terms.sum(-1), reduction)


def info_nce(s, symmetric=True, reduction="mean", slip=""):
    """Cross-entropy of the rows and of the columns."""
    if s.ndim > 2:
        refuse("batches")
    rows = -np.diagonal(log_softmax(s))
    if symmetric and slip != "rows alone":
        rows = (rows - np.diagonal(log_softmax(s.T))) / 2
    return reduced(np.array(rows), reduction)


def dpo_loss(log_p, log_ref, beta=0.1, reduction="mean", slip=""):
    """-log sigmoid(beta (gain of the chosen - gain of the rejected))."""
    gain = log_p - log_ref
    beta = log_p.dtype.type(beta)
    z = beta * (gain[0] - gain[1])
    if slip == "hinge":
        terms = np.maximum(1 - z, 0)
    elif slip == "ipo":
        terms = (gain[0] - gain[1] - 1 / (2 * beta)) ** 2
    else:
        terms = np.maximum(-z, 0) + np.log1p(np.exp(-np.abs(z)))
        terms = -terms if slip == "no minus" else terms
    return reduced(terms, reduction)


def policy_loss(log_p, old, advantage, clip=0.2, clip_high=None, mask=None, slip=""):
    """PPO's loss, the mean over the tokens that count."""
    mask = np.ones(log_p.shape, bool) if mask is None else mask
    ratio = np.exp(log_p - old)
    low, high = 1 - clip, 1 + (clip if clip_high is None else clip_high)
    free, bounded = ratio * advantage, np.clip(ratio, low, high) * advantage
    if slip == "clip of the product":
        bounded = np.clip(free, low, high)
    gain = np.minimum(free, bounded)
    if slip == "max for negative advantages":
        gain = np.where(advantage < 0, np.maximum(free, bounded), gain)
    gain = np.where(mask, gain, 0)
    if slip == "mean of each sample":
        value = (gain.sum(1) / np.maximum(mask.sum(1), 1)).mean()
    elif slip == "divided by the samples":
        value = gain.sum() / len(gain)
    elif slip == "mean of means":  # of micro-batches of two samples
        parts = [slice(i, i + 2) for i in range(0, len(gain), 2)]
        value = np.mean([gain[part].sum() / max(mask[part].sum(), 1) for part in parts])
    else:
        value = gain.sum() / mask.sum()
    return (-value).astype(log_p.dtype)


def ctc_alphas(x, text, blank, *, skip_equal=False):
    """Logarithms of the forward probabilities, by step and place."""
    places = np.full(2 * len(text) + 1, blank)
    places[1::2] = text
    S = len(places)
    skips = np.zeros(S, bool)
    skips[2:] = (places[2:] != blank) & ((places[2:] != places[:-2]) | skip_equal)
    alpha = np.where(np.arange(S) < 2, x[0, places], -np.inf)
    rows = [alpha]
    for scores in x[1:]:
        one = np.concatenate([[-np.inf], alpha[:-1]])
        two = np.where(skips, np.concatenate([[-np.inf] * 2, alpha[:-2]])[:S], -np.inf)
        alpha = scores[places] + np.logaddexp(np.logaddexp(alpha, one), two)
        rows.append(alpha)
    return places, np.array(rows)


def ctc_lengths(log_probs, targets, lengths, target_lengths):
    """Steps and letters of each sequence."""
    batch = log_probs.shape[:-2]
    steps = np.broadcast_to(log_probs.shape[-2] if lengths is None else lengths, batch)
    letters = targets.shape[-1] if target_lengths is None else target_lengths
    return steps, np.broadcast_to(letters, batch)


def ctc_loss(
    log_probs, targets, blank=0, lengths=None, target_lengths=None, reduction="mean", slip=""
):  # fmt: skip
    """-log of the sum over all paths, in float64."""
    steps, letters = ctc_lengths(log_probs, targets, lengths, target_lengths)
    losses = np.zeros(steps.shape)
    with np.errstate(all="ignore"):
        for n in np.ndindex(steps.shape):
            x, text = log_probs[n][: steps[n]].astype(float), targets[n][: letters[n]]
            if len(x) == 0:
                losses[n] = np.inf if len(text) else 0
            else:
                skip_equal = slip == "equal letters skipped"
                _, alpha = ctc_alphas(x, text, blank, skip_equal=skip_equal)
                losses[n] = -np.logaddexp.reduce(alpha[-1, -2:])
            if slip == "zero infinity" and np.isinf(losses[n]):
                losses[n] = 0
            if reduction == "mean":
                losses[n] /= max(letters[n], 1)
    return reduced(losses, reduction).astype(log_probs.dtype)


def ctc_loss_backward(
    dout, log_probs, targets, blank=0, lengths=None, target_lengths=None, reduction="mean", slip=""
):  # fmt: skip
    """Minus the probability of each class at each step, given the text."""
    steps, letters = ctc_lengths(log_probs, targets, lengths, target_lengths)
    u = np.broadcast_to(dout, steps.shape).astype(float)
    if slip == "upstream ignored":
        u = np.ones(steps.shape)
    if reduction == "mean":
        u = u / steps.size / np.maximum(letters, 1)
    grad = np.zeros(log_probs.shape)
    with np.errstate(all="ignore"):
        for n in np.ndindex(steps.shape):
            x, text = log_probs[n][: steps[n]].astype(float), targets[n][: letters[n]]
            if len(x) == 0:
                continue
            places, alpha = ctc_alphas(x, text, blank)
            _, back = ctc_alphas(x[::-1], text[::-1], blank)
            total = np.logaddexp.reduce(alpha[-1, -2:])
            share = np.exp(alpha + back[::-1, ::-1] - x[:, places] - total)
            np.add.at(grad[n][: steps[n]].T, places, -share.T)
            if slip == "of the logits":
                grad[n][: steps[n]] += np.exp(x)
    return (u[..., None, None] * grad).astype(log_probs.dtype)


def kl_estimate(log_p, log_ref, kind="k3", reduction="mean", slip=""):
    """Three estimates of the divergence from the reference."""
    d = log_ref - log_p
    if slip == "exchanged":
        d = -d
    return reduced({"k1": -d, "k2": d * d / 2, "k3": np.expm1(d) - d}[kind], reduction)


LOGITS = R.normal(size=(6, 11))
CLASSES = np.array([0, -100, 2, 3, -100, 1])
PREFERENCES = -np.abs(R.normal(size=(2, 8))), -np.abs(R.normal(size=(2, 8)))
TEXTS = np.array([[1, 1, 2], [2, 2, 2]]), np.array([[1, 2, 1], [3, 1, 2]])
FRAMES = log_softmax(R.normal(size=(2, 4, 4)))
MASK = np.arange(9) < np.array([9, 4, 7, 2, 8, 5])[:, None]
SAMPLES = cases(
    *(
        ((-np.abs(R.normal(size=(6, 9))), -np.abs(R.normal(size=(6, 9))), R.normal(size=s)), o)
        for s, o in (((6, 1), {"mask": MASK}), ((6, 9), {"mask": MASK[::-1].copy()}))
    )
)
WEIGHTS = np.abs(R.normal(size=(6, 11)))
CE = losses.cross_entropy
NO_ROWS = cases(
    ((LOGITS, np.full(6, -100)), {}), ((LOGITS[:1], np.array([3])), {}), ((LOGITS, CLASSES), {})
)
GIVEN = [
    Wrong("B", CE, "forward", cross_entropy, "0 for no rows",
        "The mean is 0, not NaN, where all rows are ignored.",
        (r"(all|every|no) rows?", r"nan", r"ignored"), NO_ROWS),
    Wrong("D", losses.info_nce, "forward", info_nce, "rows alone",
        "The loss of the columns is missing: one of two directions.",
        (r"column", r"symmetric.*(ignored|False)", r"direction", r"(rows|one axis) alone",
         r"axis=-1\) stands")),
    Wrong("D", losses.dpo_loss, "forward", dpo_loss, "hinge",
        "The hinge loss of the margin stands for the logistic loss.",
        (r"hinge", r"relu\(1(\.0)? - z\)", r"softplus.*relu|relu.*softplus", r"max\(.*1 -",
         r"maximum\(0, 1"),
        cases((PREFERENCES, {}), (PREFERENCES, {"beta": 0.5}))),
    Wrong("D", losses.dpo_loss, "forward", dpo_loss, "ipo",
        "IPO's square stands for the logistic loss.",
        (r"\bipo\b", r"square", r"\*\* 2"),
        cases((PREFERENCES, {}), (PREFERENCES, {"beta": 0.5}))),
    Wrong("D", losses.policy_loss, "forward", policy_loss, "max for negative advantages",
        "Where the advantage is negative, the larger of the two gains is taken, not the smaller.",
        (r"max.*min|min.*max", r"larger|smaller", r"negative advantage", r"free.*>.*bounded",
         r"ratio\) < clipped stands")),
    Wrong("C", losses.ctc_loss, "forward", ctc_loss, "equal letters skipped",
        "Between two equal letters the blank may be skipped.",
        (r"(equal|same|repeat\w+|double).*(letter|label|blank|skip|symbol|class)",
         r"(skip|blank).*(equal|same|repeat)", r"may_skip")),
    Wrong("B", losses.ctc_loss, "forward", ctc_loss, "zero infinity",
        "A text that has no path gets 0, not infinity, as with zero_infinity.",
        (r"(no path|infeasible|impossible|inf)", r"zero_infinity"),
        cases(((FRAMES, TEXTS[0]), {"reduction": "none"}), ((FRAMES, TEXTS[1]), {}))),
]  # fmt: skip
FRESH = [
    Wrong("ROCm/TransformerEngine#336", CE, "forward", cross_entropy, "mean over all rows",
        "The mean divides by all rows, ignored ones as well.",
        (r"(divi\w+|mean|count\w*).*(all|ignored|every|number of|rows)",
         r"ignored rows.*(count|divi)", r"counts")),
    Wrong("ROCm/TransformerEngine#336", CE, "vjp", cross_entropy_backward,
        "divided without a mean",
        "Without a reduction the gradient is divided by the number of rows nevertheless.",
        (r"reduction.*(ignored|mean)", r"divi\w+.*(rows|count|mean|number)",
         r"1 / \d|/ (divisor|n)",
         r"times 0\.\d+")),
    Wrong("paiml/aprender#2199", CE, "forward", cross_entropy, "kept mass",
        "The mass of each class is (1 - eps) / C, in place of eps / C.",
        (r"1 - label_smoothing", r"label_smoothing.*1 -",
         r"smooth\w+.*(mass|share|other classes)")),
    Wrong("awslabs/sockeye#200", CE, "forward", cross_entropy, "ignored rows kept",
        "The mask of ignored rows is inverted: they alone count.",
        (r"(mask|ignore\w*).*(invert|negat|not|opposite)", r"target == ignore_index",
         r"ignored rows (alone|count|only)", r"invert")),
    Wrong("kvark/meganeura#102", CE, "vjp", soft_cross_entropy_backward, "weights sum to one",
        "The gradient is softmax - target, right if target weights sum to 1 alone.",
        (r"sum\w* to 1", r"\btotal\b|sum\(q", r"sum of (the )?(target|weights)",
         r"softmax\(logits\) - (q|target)", r"\bpull\b"),
        cases(((LOGITS, WEIGHTS), {}), ((LOGITS[:4], 2 * WEIGHTS[:4]), {"reduction": "sum"}))),
    Wrong("rasbt/machine-learning-book#239", losses.binary_cross_entropy, "forward",
        binary_cross_entropy, "sign of the second term",
        "The second term has the wrong sign: -y log p + (1 - y) log(1 - p).",
        (r"sign", r"- \(1(\.0)? - target\)", r"-.*(stands|for|where).*\+",
         r"minus.*plus|subtracted")),
    Wrong("haitongli/knowledge-distillation-pytorch#48", losses.distillation_loss, "forward",
        distillation_loss, "mean over elements",
        "The mean runs over all elements, not over the rows: it is divided by the classes as well.",
        (r"(mean|divi\w+).*(element|class|column|features|width)", r"class\w*.*(mean|divi)",
         r"batchmean", r"number of (classes|columns|elements)", r"divided by axis 1")),
    Wrong("HanlardResearch/Hetero-RL#6", losses.policy_loss, "forward", policy_loss,
        "clip of the product",
        "The product of ratio and advantage is clipped, not the ratio.",
        (r"clip\w*.*(advantage|product|free)", r"(advantage|free).*clip",
         r"limit_ratio\(.*advantage")),
    Wrong("sherjilozair/ctc#2", losses.ctc_loss, "vjp", ctc_loss_backward, "upstream ignored",
        "The upstream gradient is ignored.",
        (r"dout.*(ignored|1|not used|missing)", r"upstream.*(ignored|1|not used|missing)")),
    Wrong("pytorch/pytorch#52241", losses.ctc_loss, "vjp", ctc_loss_backward, "of the logits",
        "exp(log_probs) is added: it is the gradient of logits before a log-softmax.",
        (r"exp\(.*(log_probs|x)", r"logits", r"softmax", r"probabilities are added")),
    Wrong("linkedin/Liger-Kernel#484", losses.dpo_loss, "forward", dpo_loss, "no minus",
        "The minus before the logarithm is missing.",
        (r"sign|minus|negat|times -1|-1(\.0)? \*",)),
    Wrong("PrimeIntellect-ai/prime-rl#102", losses.policy_loss, "forward", policy_loss,
        "mean of each sample",
        "Tokens are averaged within each sample first, and then the samples.",
        (r"(sample|sequence|row)s?.*(mean|averag|first|each)", r"grpo", r"lengths",
         r"(mean|averag).*(sample|sequence|row)"), SAMPLES),
    Wrong("PrimeIntellect-ai/prime-rl#2034", losses.policy_loss, "forward", policy_loss,
        "divided by the samples",
        "The sum is divided by the number of samples, not of tokens.",
        (r"(divi\w+|mean).*(sample|sequence|row|number|batch|len)", r"len\(mask\)"), SAMPLES),
    Wrong("NovaSky-AI/SkyRL#925", losses.policy_loss, "forward", policy_loss, "mean of means",
        "Means of micro-batches are averaged, whatever the number of their tokens.",
        (r"mean of (the )?means|micro-?batch|means? of (parts|blocks|pairs|two)|block",), SAMPLES),
]  # fmt: skip
