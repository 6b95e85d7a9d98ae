"""Losses and optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import map_floats, tree_leaves
from ..calls import ReferenceCall
from .common import Trials, chapter, probabilities, reduced

if TYPE_CHECKING:
    from collections.abc import Callable


def smoothed_where_ignored(call: ReferenceCall) -> Trials:
    """Yield a cross-entropy and its gradient with smoothed labels in rows that are ignored."""
    share, (x, target) = call.settings["label_smoothing"], call.inputs
    if call.form == "jvp" or not share or target.dtype.kind not in "iu":
        return
    kept = (target != call.settings["ignore_index"])[..., None]
    mean = call.settings["reduction"] == "mean"
    if kept.all() or call.settings["weight"] is not None:
        return
    p = probabilities(x)
    if call.form == "forward":
        more = -share * np.log(p).mean(-1) * ~kept[..., 0]
        message = "the smoothed labels of rows that are ignored are counted"
        if call.settings["reduction"] == "none":
            yield message, [call.run() + more]
            return
        for count in (kept.sum(), kept.size) if mean else (1,):
            yield message, [call.run() + more.sum() / max(count, 1)]
        if mean:  # each part has a mean of its own
            every = -np.log(p).mean(-1).mean()
            seen = -(np.log(p).mean(-1) * kept[..., 0]).sum() / max(kept.sum(), 1)
            yield message, [call.run() + share * (every - seen)]
        return
    dout = np.asarray(call.arguments[0])
    dout = dout[..., None] / (max(kept.sum(), 1) if mean else 1)
    (dx, *_) = tree_leaves(call.run())
    message = "rows that are ignored keep the gradient of their smoothed labels"
    yield message, [np.where(kept, dx, dout * share * (p - 1 / x.shape[-1]))]


def other_means(call: ReferenceCall) -> Trials:
    """Yield a mean over all targets, where ignored ones or weights do not count so."""
    settings = call.settings
    if settings["reduction"] == "mean" and call.inputs[1].dtype.kind in "iu":
        target, weight = call.inputs[1], settings["weight"]
        seen = target != settings["ignore_index"]
        kept = int(seen.sum())
        if weight is not None and kept:
            mean = np.asarray(weight)[target[seen]].mean()
            message = "the mean divides by the number of targets, not by the sum of their weights"
            yield message, [part * mean for part in tree_leaves(call.run())]
        if 0 < kept < target.size:
            parts = [part * (kept / target.size) for part in tree_leaves(call.run())]
            yield "the mean counts the ignored targets", parts


def other_z_losses(call: ReferenceCall) -> Trials:
    """Yield the z-loss of a weighted loss as others define it."""
    if call.settings["weight"] is None or not call.settings["z_loss"]:
        return
    alone = call.with_options(weight=None)
    parts = (call.with_options(z_loss=0.0), alone, alone.with_options(z_loss=0.0))
    terms = zip(*(tree_leaves(part.run()) for part in parts), strict=True)
    message = "a convention: the z-loss is divided by the number of targets, not by their weights"
    yield message, [own + with_z - without for own, with_z, without in terms]


def other_alignments(call: ReferenceCall) -> Trials:
    """Yield losses of texts that are not aligned, with other means, blanks and gradients."""
    settings, (x, target) = call.settings, call.inputs
    if call.form == "vjp":
        (grad,) = tree_leaves(call.run())
        logits = grad - grad.sum(-1, keepdims=True) * np.exp(x)
        yield "it is the gradient of logits before a log-softmax, as PyTorch returns it", [logits]
    classes = x.shape[-1]
    if settings["blank"] != classes - 1:
        message = "the blank is the last class"
        yield message, call.with_options(blank=classes - 1)
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
        yield "equal letters need no blank between them", [reduced(each, how)]


def _other_means_of_texts(call: ReferenceCall, sizes: Any) -> Trials:
    messages = (
        "the losses are not divided by the lengths of their texts",
        "the sum is divided by the number of all letters",
    )
    if call.form == "jvp":
        return
    factors = sizes, sizes.size * sizes / max(sizes.sum(), 1)
    for text, factor in zip(messages, factors, strict=True):
        if call.form == "vjp":
            yield text, [tree_leaves(call.run())[0] * np.asarray(factor)[..., None, None]]
        else:
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


def other_clips(call: ReferenceCall) -> Trials:
    """Yield losses of policies whose gradient stops elsewhere."""
    settings, (log_p, old, advantage) = call.settings, call.inputs
    kind = settings["kind"]
    stops = "the gradient does not stop where the ratio is clipped"
    message = "the ratio is not clipped" if call.form == "forward" or kind == "cispo" else stops
    yield message, call.with_options(clip=np.inf, clip_high=np.inf)
    if kind not in {"cispo", "gspo"} and call.form != "jvp":
        high = settings["clip"] if settings["clip_high"] is None else settings["clip_high"]
        ratio = np.exp(log_p - old)
        clipped = np.clip(ratio, 1 - settings["clip"], 1 + high)
        both = call.with_inputs(old + np.log(clipped), old, advantage)
        outputs = tree_leaves(both.run())
        if call.form == "vjp":
            outputs = [np.where(ratio == clipped, out, 0.0) for out in outputs]
        message = "the ratio is clipped on both sides, whatever the sign of the advantage"
        yield message, outputs
        negative = call.with_inputs(log_p, old, -advantage)
        message = "the maximum of the two gains is taken, not the minimum"
        yield message, [-part for part in tree_leaves(negative.run())]


def decoupled_decay(call: ReferenceCall) -> Trials:
    """Yield Adam as AdamW."""
    options = call.options | {"weight_decay": call.settings["weight_decay"]}
    adamw = ReferenceCall(chapter("training").adamw_step, call.form, call.arguments, options)
    yield "the weight decay is decoupled from the gradient", adamw


def uncorrected(call: ReferenceCall) -> Trials:
    """Yield steps of Adam without the correction of both means, or with it at another place."""
    settings = call.settings
    rate, eps = settings["learning_rate"], settings["eps"]
    is_decoupled = call.core is chapter("training").adamw_step
    start = 1 - rate * settings["weight_decay"] if is_decoupled else 1.0
    _, (steps, mean, square, largest) = call.run()
    b, c = (1 - beta**steps for beta in settings["betas"])
    d, e = (1 - beta ** (steps + 1) for beta in settings["betas"])
    params, means, squares = (tree_leaves(a) for a in (call.inputs[0], mean, square))
    rest = [steps, *means, *squares]

    def moved(rule: Callable[[Any, Any], Any], squares: list[Any]) -> list[Any]:
        parts = zip(params, means, squares, strict=True)
        return [start * p - rate * rule(m, v) for p, m, v in parts]

    kept = tree_leaves(largest)
    for message, rule in (
        ("the means are not corrected for their start at 0", lambda m, v: m / (v**0.5 + eps)),
        (
            "eps is added before the correction of the means",
            lambda m, v: m / b / ((v**0.5 + eps) / c**0.5),
        ),
        (
            "the means are corrected as if a step later",
            lambda m, v: m / d / ((v / e) ** 0.5 + eps),
        ),
    ):
        yield message, [*moved(rule, kept if settings["amsgrad"] else squares), *rest, *kept]
    if settings["amsgrad"]:
        older = getattr(call.inputs[2], "largest", None)
        before = [0.0] * len(params) if older is None else tree_leaves(older)
        most = [np.maximum(a, v / c) for a, v in zip(before, squares, strict=True)]
        message = "the squares are corrected before their maximum is taken, not after"
        yield message, [*moved(lambda m, v: m / b / (v**0.5 + eps), most), *rest, *most]


def other_momentum(call: ReferenceCall) -> Trials:
    """Yield momentum with the look-ahead of Nesterov, or without, and one dampened at once."""
    t, settings = chapter("training"), call.settings
    ahead = call.core is t.nesterov_step
    message = "it is plain momentum, without Nesterov's look-ahead"
    if call.inputs[2] is None:  # alike in a first step
        message += f", or momentum is 0.0, not {settings['momentum']}"
    message = message if ahead else "it looks ahead, as Nesterov's momentum does"
    other = t.momentum_step if ahead else t.nesterov_step
    options = {key: value for key, value in call.options.items() if key != "dampening"}
    yield message, ReferenceCall(other, call.form, call.arguments, options)
    params, grads, state = call.inputs
    if not (settings["weight_decay"] or settings.get("dampening")):
        rate, share = settings["learning_rate"], 1 - settings["momentum"]
        of_mean = call.with_inputs(params, map_floats(lambda g: share * g, grads), state)
        yield "the gradient has the factor 1 - momentum, as in a running mean", of_mean
        scaled = call.with_inputs(params, map_floats(lambda g: rate * g, grads), state)
        message = "the velocity is the step: the learning rate is in it, and not applied to it"
        yield message, scaled.with_options(learning_rate=1.0)


def summed_gradients(call: ReferenceCall) -> Trials:
    """Yield a Muon whose velocity is a sum."""
    params, grads, state = call.inputs
    momentum, message = call.settings["momentum"], "the gradient lacks the factor 1 - momentum"
    if state is None and momentum:  # alike in a first step
        message += f", or momentum is 0.0, not {momentum}"
    if momentum < 1:
        larger = map_floats(lambda g: g / (1 - momentum), grads)
        yield message, call.with_inputs(params, larger, state)


def other_steps(call: ReferenceCall) -> Trials:
    step = np.asarray(call.inputs[0])
    yield "the schedule is a step ahead: its steps begin at 0, not 1", call.with_inputs(step + 1)
    yield "the schedule is a step behind", call.with_inputs(np.maximum(step - 1, 0))


def other_nuclei(call: ReferenceCall) -> Trials:
    """Yield nuclei, and choices of the best k, with a token more or less."""
    mass, k = call.settings["top_p"], call.settings["top_k"]
    for by, message in ((1, "one token more than top_k is"), (-1, "one token less than top_k is")):
        if k is not None and k + by > 0:
            yield f"{message} kept", call.with_options(top_k=k + by)
    if mass is None:
        return
    p = np.asarray(call.with_options(top_p=None).run())
    order = np.argsort(-p, axis=-1, kind="stable")
    sorted_p = np.take_along_axis(p, order, -1)
    before = np.cumsum(sorted_p, -1) - sorted_p
    for message, kept in (
        ("a token beyond the mass of top_p is kept", np.roll(before, 1, -1) < mass),
        ("the probabilities that are left are not divided by their sum", before < mass),
    ):
        kept[..., 0] = True
        out = np.zeros_like(p)
        np.put_along_axis(out, order, np.where(kept, sorted_p, 0.0), -1)
        yield message, [out if "not divided" in message else out / out.sum(-1, keepdims=True)]


def overwritten(call: ReferenceCall) -> Trials:
    if call.form != "vjp":
        return
    dout, table, ids = call.arguments
    padding, scale = (call.settings.get(key) for key in ("padding_id", "scale"))
    rows = np.reshape(dout, (-1, table.shape[-1])) * (1.0 if scale is None else scale)
    for which, way in (("last", slice(None)), ("first", slice(None, None, -1))):
        out = np.zeros(table.shape)
        out[np.ravel(ids)[way]] = rows[way]
        out[padding if padding is not None else slice(0)] = 0.0
        yield f"rows of repeated ids are overwritten, not added: the {which} one is left", [out]
