"""Steps of optimizers, and schedules."""

import numpy as np

from dlref import training
from dlref.formulas.training import tree_leaves, tree_map

from .kernels import Wrong, cases

R = np.random.default_rng(53)


def adamw_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, slip=""
):
    """AdamW, one array after the other."""
    b1, b2 = betas
    zeros = tree_map(np.zeros_like, params)
    step, mean, square = (0, zeros, zeros) if state is None else state[:3]
    t = step + 1
    wd = learning_rate * weight_decay
    given = grads
    if slip == "decay in the gradient":
        given = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, given)
    square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, square, given)

    def moved(p, m, v):
        kept = p if slip in ("decay of the new parameters", "decay in the gradient") else p - wd * p
        new = kept - learning_rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        late = "decay of the new parameters", "decay before and after"
        new = new - wd * new if slip in late else new
        return np.asarray(new, np.asarray(p).dtype)

    return tree_map(moved, params, mean, square), (t, mean, square, None)


def adam_step(
    params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, slip=""
):
    """Adam, with the decay as part of the gradient."""
    b1, b2 = betas
    zeros = tree_map(np.zeros_like, params)
    step, mean, square = (0, zeros, zeros) if state is None else state[:3]
    t = step + 1
    decoupled = slip == "decoupled decay"
    if not decoupled:
        grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, grads)
    square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, square, grads)
    root = np.sqrt(1 - b2**t)

    def moved(p, m, v):
        if slip == "eps before the correction":
            direction = m / (1 - b1**t) * root / (np.sqrt(v) + eps)
        else:
            direction = m / (1 - b1**t) / (np.sqrt(v) / root + eps)
        kept = p - learning_rate * weight_decay * p if decoupled else p
        return np.asarray(kept - learning_rate * direction, np.asarray(p).dtype)

    return tree_map(moved, params, mean, square), (t, mean, square, None)


def lion_step(params, grads, state, learning_rate, betas=(0.9, 0.99), weight_decay=0.0, slip=""):
    """Lion: the sign of one mean, with decoupled decay."""
    b1, b2 = betas
    step, mean = (0, tree_map(np.zeros_like, params)) if state is None else state
    if slip == "coupled decay":
        grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
        weight_decay = 0.0
    kept = 1 - learning_rate * weight_decay

    def moved(p, m, g):
        new = kept * p - learning_rate * np.sign(b1 * m + (1 - b1) * g)
        return np.asarray(new, np.asarray(p).dtype)

    new = tree_map(moved, params, mean, grads)
    return new, (step + 1, tree_map(lambda m, g: b2 * m + (1 - b2) * g, mean, grads))


def cosine_schedule(step, peak, steps, warmup=0, floor=0.0, slip=""):
    """Up in a line, then half a cosine."""
    t = np.asarray(step)
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    if slip == "decay from the first step":
        done = np.clip(t / steps, 0, 1)
    if slip == "maximum with the floor":
        falling = np.maximum(peak * (1 + np.cos(np.pi * done)) / 2, floor)
    else:
        falling = floor + (peak - floor) * (1 + np.cos(np.pi * done)) / 2
    return np.where(t < warmup, peak * t / max(warmup, 1), falling)


def warmup_schedule(step, peak, warmup, slip=""):
    """Up in a line, then constant."""
    t = np.asarray(step)
    share = t / max(warmup, 1)
    if slip == "from a hundredth":
        share = 0.01 * (1 - share) + share
    return np.where(t < warmup, peak * share, peak)


def clip_by_norm(grads, max_norm, slip=""):
    """One factor for all arrays."""

    def clipped(g, norm):
        return (g * min(1, max_norm / norm)).astype(g.dtype)

    def one(g):
        return clipped(g, np.sqrt((g * g).sum()))

    if slip == "each array":
        return tree_map(one, grads)
    if slip == "each array, then all":
        grads = tree_map(one, grads)
    norm = np.sqrt(sum((g * g).sum() for g in tree_leaves(grads)))
    return tree_map(lambda g: clipped(g, norm), grads)


TREE, GRADS = (tuple(R.normal(size=s) for s in ((3, 4), (3,))) for _ in "pg")
SMALL = tuple(1e-3 * g for g in GRADS)


def two_steps(op, **options):
    """Return cases of a first and of a second step."""
    _, state = op(TREE, SMALL, None, **options)
    return cases(((TREE, GRADS, None), options), ((TREE, GRADS, state), options))


def decayed(op):
    return two_steps(op, learning_rate=0.1, weight_decay=0.5)


CLIPPED = cases(
    ((TREE, 0.5), {}), ((tuple(R.normal(size=s) * f for s, f in ((5, 1), ((2, 3), 9))), 2.0), {})
)
STEPS = np.arange(0, 100, 7)
GIVEN = [
    Wrong("C", training.lion_step, "forward", lion_step, "coupled decay",
        "The decay is added to the gradient, under the sign, not taken from the parameters.",
        (r"(decay|weight_decay).*(gradient|coupled|sign|L2)", r"g \+ weight_decay|with_decay"),
        decayed(training.lion_step)),
    Wrong("D", training.adamw_step, "forward", adamw_step, "decay before and after",
        "The decay is applied twice, before and after the step.",
        (r"decay.*(twice|before and after|2)", r"twice.*decay", r"2.*decay"),
        decayed(training.adamw_step)),
    Wrong("D", training.cosine_schedule, "forward", cosine_schedule, "maximum with the floor",
        "max(rate, floor) stands for a cosine that ends at the floor.",
        (r"max", r"floor.*(clip|limit|bound|peak)", r"peak - floor"),
        cases(((STEPS,), {"peak": 1.0, "steps": 90, "floor": 0.25}))),
]  # fmt: skip
FRESH = [
    Wrong("aiqm/torchani#261", training.adam_step, "forward", adam_step,
        "eps before the correction",
        "eps is added before the bias correction: it is scaled by its root.",
        (r"eps.*(before|correct|scaled|hat|uncorrected)", r"sqrt\((v|square)\) \+ eps"),
        two_steps(training.adam_step, learning_rate=0.1, eps=0.125)),
    Wrong("huggingface/transformers#14539", training.adamw_step, "forward", adamw_step,
        "decay of the new parameters",
        "The decay is taken of the new parameters, after the step.",
        (r"decay.*(after|new|updated|moved)", r"(after|new|updated).*decay"),
        decayed(training.adamw_step)),
    Wrong("flagos-ai/FlagGems#4989", training.adam_step, "forward", adam_step, "decoupled decay",
        "The decay is AdamW's, decoupled from the gradient.",
        (r"decoupl", r"AdamW", r"decay.*(not|no part).*gradient", r"1 - learning_rate"),
        decayed(training.adam_step)),
    Wrong("nntrainer/nntrainer#3527", training.adamw_step, "forward", adamw_step,
        "decay in the gradient",
        "The decay is Adam's, a part of the gradient.",
        (r"decay.*(gradient|coupled|L2|means)", r"Adam's|\bas in Adam\b|adam_step",
         r"g \+ weight_decay", r"with_decay"),
        decayed(training.adamw_step)),
    Wrong("facebookresearch/fairchem#1967", training.cosine_schedule, "forward", cosine_schedule,
        "decay from the first step",
        "The cosine counts from step 0, not from the end of the warm-up.",
        (r"warm-?up", r"t / steps", r"(cosine|count).*(step 0|first step|start|from 0)"),
        cases(((STEPS,), {"peak": 1.0, "steps": 90, "warmup": 20}))),
    Wrong("michuanhaohao/reid-strong-baseline#44", training.warmup_schedule, "forward",
        warmup_schedule, "from a hundredth",
        "The warm-up begins at a hundredth of the peak: 0.01 + 0.99 t / warmup.",
        (r"0\.01|0\.99|hundredth|1 %", r"(begin|start)\w*.*(not 0|above 0|peak)", r"offset"),
        cases(((STEPS,), {"peak": 1.0, "warmup": 50}))),
    Wrong("carpedm20/MemN2N-tensorflow#19", training.clip_by_norm, "forward", clip_by_norm,
        "each array",
        "Each array is clipped by its own norm.",
        (r"each (array|parameter|leaf|part)|own norm|separate|per (array|parameter)",
         r"(one|joint|global|common) (norm|factor)|not (of )?all"), CLIPPED),
    Wrong("google/automl#910", training.clip_by_norm, "forward", clip_by_norm,
        "each array, then all",
        "Each array is clipped by its own norm before all are clipped together.",
        (r"each (array|parameter|leaf|part)|own norm|separate|twice|per (array|parameter)",),
        CLIPPED),
]  # fmt: skip
