"""Losses and optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import flat
from ..calls import Call, is_float
from .common import chapter, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .common import Trial


def applied_twice(call: Call) -> Iterator[Trial]:
    """Yield losses of logits that are probabilities already."""
    if call.form == "forward":
        name = "softmax" if call.core is chapter("losses").cross_entropy else "sigmoid"
        f = getattr(chapter("activations"), name)
        words = f"{name} is applied twice: the logits are probabilities already"
        yield words, replaced(call, 0, f(call.inputs[0]))


def smoothed_where_ignored(call: Call) -> Iterator[Trial]:
    """Yield a gradient of the cross-entropy with smoothed labels in rows that are ignored."""
    share, (x, target) = call.settings["label_smoothing"], call.inputs
    if call.form != "vjp" or not share or target.dtype.kind not in "iu":
        return
    kept = (target != call.settings["ignore_index"])[..., None]
    mean = call.settings["reduction"] == "mean"
    if kept.all() or call.settings["weight"] is not None:
        return
    p = np.exp(x - x.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    dout = np.asarray(call.arguments[0])
    dout = dout[..., None] / (max(kept.sum(), 1) if mean else 1)
    (dx, *_) = flat(call.run())
    words = "rows that are ignored keep the gradient of their smoothed labels"
    yield words, [np.where(kept, dx, dout * share * (p - 1 / x.shape[-1]))]


def squared(call: Call) -> Iterator[Trial]:
    """Yield the square of each hinge."""
    if call.form == "forward":
        each = np.asarray(call.with_options(reduction="none").run()) ** 2
        how = call.settings["reduction"]
        out = each if how == "none" else (each.mean() if how == "mean" else each.sum())
        yield "the hinge is squared", [np.asarray(out)]


def decay_without_rate(call: Call) -> Iterator[Trial]:
    """Yield decoupled weight decay that the learning rate does not multiply."""
    rate, decay = call.settings["learning_rate"], call.settings["weight_decay"]
    if decay and rate:
        words = "the weight decay is not multiplied by the learning rate"
        yield words, call.with_options(weight_decay=decay / rate)


def perplexity(call: Call) -> Iterator[Trial]:
    """Yield functions of the loss."""
    if call.form == "forward":
        loss = np.asarray(call.run())
        yield "it is the exponential of the loss, a perplexity", [np.exp(loss)]
        yield "it is the root of the loss", [np.sqrt(abs(loss))]


def other_means(call: Call) -> Iterator[Trial]:
    """Yield a mean over all targets, where ignored ones or weights do not count so."""
    settings = call.settings
    if settings["reduction"] == "mean" and call.inputs[1].dtype.kind in "iu":
        target, weight = call.inputs[1], settings["weight"]
        seen = target != settings["ignore_index"]
        kept = int(seen.sum())
        if weight is not None and kept:
            mean = np.asarray(weight)[target[seen]].mean()
            words = "the mean divides by the number of targets, not by the sum of their weights"
            yield words, [part * mean for part in flat(call.run())]
        if 0 < kept < target.size:
            parts = [part * (kept / target.size) for part in flat(call.run())]
            yield "the mean counts the ignored targets", parts


def other_alignments(call: Call) -> Iterator[Trial]:
    """Yield losses of texts that are not aligned, with other means, blanks and gradients."""
    settings, (x, target) = call.settings, call.inputs
    if call.form == "vjp":
        (grad,) = flat(call.run())
        logits = grad - grad.sum(-1, keepdims=True) * np.exp(x)
        yield "it is the gradient of logits before a log-softmax, as PyTorch returns it", [logits]
    classes = x.shape[-1]
    if settings["blank"] != classes - 1:
        words = "the blank is the last class"
        yield words, call.with_options(blank=classes - 1)
    if settings["blank"] != 0:
        yield "the blank is class 0", call.with_options(blank=0)
    sizes = np.broadcast_to(target.shape[-1], target.shape[:-1])
    if settings["target_lengths"] is not None:
        sizes = np.asarray(settings["target_lengths"])
    if settings["reduction"] == "mean":
        yield from _other_means_of_texts(call, np.maximum(sizes, 1))
    if call.form == "forward":
        each = _without_blanks_between(x, target, sizes, settings)
        how = settings["reduction"]
        each = each / np.maximum(sizes, 1) if how == "mean" else each
        loss = each if how == "none" else (each.mean() if how == "mean" else each.sum())
        yield "equal letters need no blank between them", [np.asarray(loss)]


def _other_means_of_texts(call: Call, sizes: Any) -> Iterator[Trial]:
    words = (
        "the losses are not divided by the lengths of their texts",
        "the sum is divided by the number of all letters",
    )
    for text, factor in zip(words, (sizes, sizes.size * sizes / max(sizes.sum(), 1)), strict=True):
        if call.form == "vjp":
            yield text, [flat(call.run())[0] * np.asarray(factor)[..., None, None]]
        elif call.form == "forward":
            each = np.asarray(call.with_options(reduction="none").run()) / sizes
            yield text, [np.asarray(np.mean(each * factor))]


def _without_blanks_between(x: Any, target: Any, sizes: Any, settings: Any) -> Any:
    """Return the loss of each text if a path may go from any letter to the next."""
    steps = np.broadcast_to(x.shape[-2], sizes.shape)
    if settings["lengths"] is not None:
        steps = np.asarray(settings["lengths"])
    losses = np.empty(sizes.shape)
    for n in np.ndindex(*sizes.shape):
        labels = np.full(2 * sizes[n] + 1, settings["blank"])
        labels[1::2] = target[n][: sizes[n]]
        a = np.where(np.arange(labels.size) < 2, x[n][0, labels], -np.inf)
        for t in range(1, steps[n]):
            next_ = np.concatenate([[-np.inf], a])[:-1]
            after = np.concatenate([[-np.inf, -np.inf], a])[:-2]
            after[::2] = -np.inf
            a = x[n][t, labels] + np.logaddexp(np.logaddexp(a, next_), after)
        losses[n] = -np.logaddexp.reduce(a[-2:])
    return losses


#: How the kinds of a policy's loss differ.
AVERAGED = {
    "ppo": "the mean is over all tokens that count",
    "grpo": "the mean is over the tokens of each sequence, then over the sequences",
    "dr_grpo": "the sum is divided by the number of all places, also of masked ones",
    "gspo": "a sequence has one ratio, the geometric mean",
    "cispo": "the clipped ratio is a constant factor of the log-probability",
}


def other_clips(call: Call) -> Iterator[Trial]:
    """Yield losses of policies whose gradient stops elsewhere, and other means."""
    settings, (log_p, old, advantage) = call.settings, call.inputs
    kind = settings["kind"]
    stops = "the gradient does not stop where the ratio is clipped"
    words = "the ratio is not clipped" if call.form == "forward" or kind == "cispo" else stops
    yield words, call.with_options(clip=np.inf, clip_high=np.inf)
    if kind not in {"cispo", "gspo"}:
        high = settings["clip"] if settings["clip_high"] is None else settings["clip_high"]
        ratio = np.exp(log_p - old)
        clipped = np.clip(ratio, 1 - settings["clip"], 1 + high)
        both = call.with_inputs(old + np.log(clipped), old, advantage)
        outputs = flat(both.run())
        if call.form == "vjp":
            outputs = [np.where(ratio == clipped, out, 0.0) for out in outputs]
        words = "the ratio is clipped on both sides, whatever the sign of the advantage"
        if call.form != "jvp":
            yield words, outputs
        negative = call.with_inputs(log_p, old, -advantage)
        words = "the maximum of the two gains is taken, not the minimum"
        yield words, [-part for part in flat(negative.run())]
    for other, meaning in AVERAGED.items():
        if other != kind:
            yield f"{meaning}, as kind {other!r} has it", call.with_options(kind=other)


def uphill(call: Call) -> Iterator[Trial]:
    """Yield a step of an optimizer that goes up the slope."""
    if is_float(call.inputs[0]):
        new, *state = flat(call.run())
        yield "the step goes up the slope, not down", [2 * call.inputs[0] - new, *state]


def coupled(call: Call) -> Iterator[Trial]:
    """Yield AdamW as Adam."""
    yield "the weight decay is added to the gradient", _as(chapter("training").adam_step, call)


def decoupled(call: Call) -> Iterator[Trial]:
    """Yield Adam as AdamW."""
    step = chapter("training").adamw_step
    yield "the weight decay is decoupled from the gradient", _as(step, call)


def _as(step: Any, call: Call) -> Call:
    options = call.options | {"weight_decay": call.settings["weight_decay"]}
    return Call(step, call.form, call.arguments, options)


def uncorrected(call: Call) -> Iterator[Trial]:
    """Yield steps of Adam without the correction of its means, or with another divisor."""
    settings = call.settings
    if isinstance(call.inputs[0], tuple) or settings["amsgrad"]:
        return
    rate, decay = settings["learning_rate"], settings["weight_decay"]
    is_decoupled = call.core is chapter("training").adamw_step
    start = call.inputs[0] * (1 - rate * decay if is_decoupled else 1)
    _, (steps, mean, square, *rest) = call.run()
    bias = [1 - beta**steps for beta in settings["betas"]]
    root, m, eps = np.sqrt(square / bias[1]), mean / bias[0], settings["eps"]
    for words, direction in (
        ("the means are not corrected for their start at 0", mean / (np.sqrt(square) + eps)),
        (
            "the mean of the squares is not corrected for its start at 0",
            m / (np.sqrt(square) + eps),
        ),
        ("the mean is not corrected for its start at 0", mean / (root + eps)),
        ("eps is added inside the root", m / np.sqrt(square / bias[1] + eps)),
        (
            "eps is added before the correction of the means",
            m / ((np.sqrt(square) + eps) / bias[1] ** 0.5),
        ),
        ("the root is missing", m / (square / bias[1] + eps)),
    ):
        yield words, flat((start - rate * direction, steps, mean, square, *rest))
