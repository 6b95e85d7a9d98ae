"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import losses as m
from . import _draw as draw
from ._spec import Cases, MapSpec, Sample, call, pairwise, record

REDUCED = ("reduction",)
WEIGHTS = np.array([0.5, 2.0, 1.25])
FACTORS = np.linspace(0.5, 2.0, 7)
ANSWERS = np.arange(7) < np.array([[1], [7], [4], [2], [6], [3]])
FRIENDS = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
TOKENS = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], bool)


def reduced(*shapes: Any) -> list[Sample]:
    """Return calls for the mean, for the sum, and without a reduction."""
    return [call(*shapes), call(*shapes, reduction="sum"), call(*shapes, reduction="none")]


PAIRS = reduced((5, 7), (5, 7))
HARD = [PAIRS[0], call((130,), (130,)), *PAIRS[1:]]
ROWS = [
    call((5, 3), (5,)),
    call((2, 3, 3), (2, 3), reduction="none"),
    call((4, 3), (4,), reduction="sum", ignore_index=1),
    call((6, 3), (6,), weight=WEIGHTS, ignore_index=1),
    call((3,), ()),
]


def letters(rng: Any, shape: Any, first: Any) -> Any:
    """Draw classes other than the blank, which is the first."""
    return rng.integers(1, first[-1], shape)


def few(rng: Any, shape: Any, _first: Any) -> Any:
    """Draw one of the first three classes, where the weights say how many there are."""
    return rng.integers(0, 3, shape)


def elementwise(f: Any, *options: dict[str, Any], **known: Any) -> MapSpec:
    calls = [
        call((5,), (5,)),
        call((2, 3), (2, 3), reduction="sum"),
        call((3, 2), (3, 2), reduction="none"),
        call((), ()),
        *(Sample(((2, 3), (2, 3)), values) for values in options),
    ]
    every: dict[str, Any] = {"family": "losses", "hard": HARD, "needed": REDUCED}
    every["large"] = pairwise(2 * ((2, 3, 1025),), {"reduction": "sum"})
    every |= {"f": f, "calls": calls}
    return MapSpec(batched=False, of=(0,), is_loss=True, **(every | known))


def _cross_entropy(_: MapSpec, rng: Any, _size: Any) -> Cases:
    x, target = rng.normal(size=(6, 5)), np.array([0, 1, 2, 3, 4, 0])
    ignored = np.array([0, -100, 2, -100, 4, 0])
    yield "random", (x, target), {}
    yield "a sum", (x, target), {"reduction": "sum"}
    yield "no reduction", (x, target), {"reduction": "none"}
    yield "ignored targets", (x, ignored), {}
    yield "smoothed labels", (x, target), {"label_smoothing": 0.1}
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    yield "weights", (x, target), {"weight": weight}
    every = {"weight": weight, "label_smoothing": 0.1}
    yield "weights, ignored targets, smoothed labels", (x, ignored), every
    yield "ignored targets, no reduction", (x, ignored), {"reduction": "none"}
    none = np.full(6, -100)
    yield "all targets ignored, a sum", (x, none), {"reduction": "sum"}
    yield "all targets ignored, no reduction", (x, none), {"reduction": "none"}
    yield "an offset of 1e4", (np.round(x * 4) * 8 + 1e4, target), {}
    sure = np.where(np.arange(5) == target[:, None], 30.0, x)
    yield "sure and right", (sure, target), {}
    yield "sure and wrong", (sure, np.roll(target, 1)), {}
    late = rng.normal(size=(2, 1000))
    late[:, -3] += 200.0  # the maximum is in the last tile
    yield "the largest one in the last tile", (late, np.array([0, 997])), {}


def _sure_linear(known: MapSpec, rng: Any, _size: Any) -> Cases:
    _, weight, target, bias = known.inputs(rng, known.hard_samples[0].shapes)
    yield "sure and right", (2.0 * weight[target], weight, target, bias), {}


def _sure_pairs(_: MapSpec, rng: Any, _size: Any) -> Cases:
    yield "sure and right", (rng.normal(size=(6, 6)) + 12 * np.eye(6),), {}


def _near_log_probabilities(_: MapSpec, rng: Any, _size: Any) -> Cases:
    x = rng.uniform(-3.0, -0.1, (5, 7))
    yield "nearly equal", (x, np.minimum(x + 1e-2 * rng.normal(size=x.shape), 0.0)), {}
    sure = np.where(np.arange(7) % 3, 0.0, -30.0)[None]
    yield "sure, and nearly impossible", (sure, sure + np.linspace(-1.0, 0.0, 7)), {}


def _near(_: MapSpec, rng: Any, _size: Any) -> Cases:
    x = rng.normal(size=(5, 7))
    yield "nearly equal", (x, x + 1e-2 * rng.normal(size=x.shape)), {}


def _near_standard(_: MapSpec, rng: Any, _size: Any) -> Cases:
    yield "nearly standard", tuple(1e-2 * rng.normal(size=(2, 5, 7))), {}


def _ignored(known: MapSpec, rng: Any, _size: Any) -> Cases:
    log_probs, target = known.inputs(rng, ((6, 5), (6,)))
    yield "ignored targets", (log_probs, np.where(np.arange(6) % 3, target, -100)), {}
    yield "all targets ignored", (log_probs, np.full(6, -100)), {"reduction": "sum"}


RECORDS = [
    elementwise(m.squared_error), elementwise(m.absolute_error),
    elementwise(m.huber, {"delta": 0.5}, options=[call((5, 7), (5, 7), delta=0.5)]),
    elementwise(
        m.hinge, {"squared": True}, draw=(draw.normal, draw.signs),
        options=[call((5, 7), (5, 7), squared=True)],
    ),
    elementwise(
        m.binary_cross_entropy, {"weight": WEIGHTS, "pos_weight": 2.5},
        draw=(draw.normal, draw.unit), exponential=True,
        options=[call((5, 7), (5, 7), weight=FACTORS), call((5, 7), (5, 7), pos_weight=FACTORS)],
    ),
    elementwise(
        m.sigmoid_focal_loss, {"gamma": 1.5, "alpha": 0.75}, draw=(draw.normal, draw.unit),
        exponential=True,
        options=[call((5, 7), (5, 7), gamma=0.5), call((5, 7), (5, 7), alpha=-1)],
    ),
    record(
        m.cross_entropy,
        *ROWS, call((4, 11), (4,), label_smoothing=0.125),
        call((4, 3), (4,), label_smoothing=0.5, weight=WEIGHTS, z_loss=0.25),
        call((4, 9), (4, 9)),
        call((2, 3), (2, 3), label_smoothing=0.125, weight=WEIGHTS, z_loss=0.5),
        call((2, 2, 3), (2, 2, 3), reduction="none"),
        large=pairwise(
            ((2, 3, 1000), (2, 3)), {"label_smoothing": 0.1}, {"reduction": "sum"},
            {"weight": np.linspace(0.5, 2.0, 1000)}, {"z_loss": 0.1},
        ),
        draw=(draw.normal, draw.classes), batched=False, of=(0,), hard=(), more=_cross_entropy,
        options=[call((6, 5), (6,), ignore_index=1), call((6, 5), (6,), z_loss=0.1)],
        is_loss=True,
    ),
    record(
        m.linear_cross_entropy,
        call((4, 2), (3, 2), (4,), (3,)),
        call((2, 3, 2), (3, 2), (2, 3), None, reduction="none"),
        call((4, 2), (5, 2), (4,), (5,), ignore_index=1, reduction="sum"),
        call((4, 2), (5, 2), (4,), None, label_smoothing=0.25, chunk=3),
        call((2,), (3, 2), (), (3,), z_loss=0.5),
        draw=(draw.normal, draw.normal, few), constant=(2,), batched=False, is_loss=True,
        needed=REDUCED,
        hard=[
            call((6, 7), (5, 7), (6,), (5,)), call((6, 7), (5, 7), (6,), None, reduction="sum"),
            call((9, 7), (5, 7), (9,), (5,), reduction="none"),
        ],
        large=[call((2, 3, 129), (65, 129), (2, 3), (65,))],
        options=[
            call((9, 7), (5, 7), (9,), (5,), ignore_index=1),
            call((9, 7), (5, 7), (9,), (5,), label_smoothing=0.25),
            call((9, 7), (5, 7), (9,), (5,), z_loss=0.25),
        ],
        more=_sure_linear,
    ),
    record(
        m.multi_margin_loss,
        call((5, 3), (5,)), call((2, 3, 3), (2, 3), p=2, reduction="none"),
        call((6, 3), (6,), margin=0.5, weight=WEIGHTS, reduction="sum"), call((3,), ()),
        draw=(draw.normal, draw.classes), batched=False, of=(0,), is_loss=True, needed=REDUCED,
        hard=[call((130, 5), (130,)), *reduced((6, 5), (6,))],
        large=[call((2, 3, 1000), (2, 3))],
        options=[
            call((6, 5), (6,), p=2), call((6, 5), (6,), margin=3.0),
            call((6, 5), (6,), weight=np.linspace(0.5, 2.0, 5)),
        ],
    ),
    record(
        m.softmax_focal_loss,
        *ROWS, call((4, 3), (4,), gamma=0.5), call((4, 3), (4,), gamma=0.0, reduction="sum"),
        draw=(draw.normal, draw.classes), batched=False, of=(0,), is_loss=True,
        hard=[call((130, 5), (130,)), *reduced((6, 5), (6,))],
        large=pairwise(
            ((2, 3, 1000), (2, 3)), {"gamma": 0.5}, {"reduction": "sum"},
            {"weight": np.linspace(0.5, 2.0, 1000)},
        ),
        options=[
            call((6, 5), (6,), gamma=1.0), call((6, 5), (6,), ignore_index=1),
            call((6, 5), (6,), weight=np.linspace(0.5, 2.0, 5)),
        ],
        more=_ignored,
    ),
    record(
        m.sparsemax_loss,
        call((5, 3), (5,)), call((2, 3, 3), (2, 3), reduction="none"),
        call((6, 3), (6,), reduction="sum"), call((3,), ()),
        draw=(draw.normal, draw.classes), batched=False, of=(0,), is_loss=True, needed=REDUCED,
        hard=[call((130, 5), (130,)), *reduced((6, 5), (6,))],
        large=[call((2, 3, 1000), (2, 3))],
    ),
    MapSpec(
        f=m.nll, large=pairwise(((2, 3, 1000), (2, 3)), {"reduction": "sum"}), calls=ROWS,
        draw=(draw.log_distribution, draw.classes), batched=False, hard=reduced((6, 5), (6,)),
        more=_ignored, fixed=True,
        options=[
            call((6, 5), (6,), ignore_index=1), call((6, 5), (6,), weight=np.linspace(0.5, 2.0, 5)),
        ],
        is_loss=True,
    ),
    record(
        m.gaussian_kl,
        call((4, 3), (4, 3)), call((2, 3, 2), (2, 3, 2), reduction="none"),
        call((3, 2), (3, 2), reduction="sum"), call((5,), (5,)),
        batched=False, is_loss=True, hard=PAIRS, needed=REDUCED, more=_near_standard,
    ),
    MapSpec(
        f=m.kl_estimate, family="losses",
        calls=[
            call((5,), (5,)), call((2, 3), (2, 3), kind="k1", reduction="sum"),
            call((3, 2), (3, 2), kind="k2", reduction="none"), call((), ()),
        ],
        draw=2 * (draw.log_probability,), batched=False, of=(0,), is_loss=True, needed=REDUCED,
        hard=PAIRS,
        large=[call((85,), (85,)), call((2, 3, 65), (2, 3, 65))],
        options=[call((5, 7), (5, 7), kind="k1"), call((5, 7), (5, 7), kind="k2")],
        more=_near_log_probabilities,
    ),
    record(
        m.distillation_loss,
        call((4, 3), (4, 3)), call((2, 3, 2), (2, 3, 2), kind="reverse", reduction="none"),
        call((3, 2), (3, 2), kind="jsd", reduction="sum"), call((5,), (5,), temperature=2.0),
        call((4, 3), (4, 3), kind="jsd", beta=0.25), call((4, 3), (4, 3), kind="jsd", beta=0.0),
        call((4, 3), (4, 3), kind="jsd", beta=1.0),
        draw=2 * (draw.wide,), batched=False, of=(0,), is_loss=True, hard=PAIRS, needed=REDUCED,
        options=[
            call((5, 7), (5, 7), kind="reverse"), call((5, 7), (5, 7), kind="jsd"),
            call((5, 7), (5, 7), temperature=4.0), call((5, 7), (5, 7), kind="jsd", beta=0.1),
        ],
        more=_near,
    ),
    record(
        m.info_nce,
        call((4, 4)), call((2, 3, 3), symmetric=False, reduction="none"),
        call((3, 3), reduction="sum"), call((2, 2)), call((4, 4), positives=FRIENDS),
        call((2, 4, 4), positives=FRIENDS, symmetric=False, reduction="none"),
        batched=False, is_loss=True, needed=REDUCED, hard=reduced((6, 6)),
        options=[
            call((6, 6), symmetric=False), call((4, 4), positives=FRIENDS),
            call((4, 4), positives=FRIENDS, symmetric=False, reduction="sum"),
        ],
        more=_sure_pairs,
    ),
    record(
        m.triplet_margin_loss,
        call(*3 * [(5, 3)]), call(*3 * [(2, 3, 2)], p=3.0, reduction="none"),
        call(*3 * [(4, 3)], margin=2.0, swap=True, reduction="sum"), call(*3 * [(3,)]),
        batched=False, is_loss=True, needed=REDUCED,
        hard=[call(*3 * [(6, 7)]), call(*3 * [(6, 7)], reduction="sum")],
        options=[
            call(*3 * [(6, 7)], margin=3.0), call(*3 * [(6, 7)], p=1.0),
            call(*3 * [(6, 7)], eps=0.5), call(*3 * [(6, 7)], swap=True),
        ],
    ),
    record(
        m.siglip_loss,
        call((4, 4), ()), call((2, 3, 3), (), reduction="none"),
        call((3, 3), (), reduction="sum"), call((1, 1), ()),
        batched=False, is_loss=True, needed=REDUCED,
        hard=[call((6, 6), ()), call((6, 6), (), reduction="sum")],
    ),
    record(
        m.dpo_loss,
        call((2, 5), (2, 5)), call((2, 2, 3), (2, 2, 3), beta=0.5, reduction="none"),
        call((2, 3), (2, 3), label_smoothing=0.25, reduction="sum"), call((2,), (2,)),
        call((2, 9), (2, 9), beta=2.0, kind="hinge"), call((2, 4), (2, 4), beta=0.5, kind="ipo"),
        draw=2 * (draw.log_probability,), batched=False, of=(0,), is_loss=True, needed=REDUCED,
        hard=[call((2, 7), (2, 7)), call((2, 7), (2, 7), reduction="sum")],
        options=[
            call((2, 7), (2, 7), beta=2.0), call((2, 7), (2, 7), label_smoothing=0.3),
            call((2, 5), (2, 5), kind="hinge"), call((2, 5), (2, 5), kind="ipo"),
            call((2, 5), (2, 5), beta=2.0), call((2, 5), (2, 5), kind="ipo", reduction="sum"),
        ],
    ),
    record(
        m.kto_loss,
        call((5,), (5,), (5,)), call((2, 3), (2, 3), (2, 3), beta=0.5, kl=0.25, reduction="none"),
        call(
            (4,), (4,), (4,), desirable_weight=0.5, undesirable_weight=2.0, reduction="sum",
        ),
        call((), (), ()),
        draw=(draw.log_probability, draw.log_probability, draw.booleans), constant=(2,),
        batched=False, of=(0,), is_loss=True, needed=REDUCED,
        hard=[call((7,), (7,), (7,)), call((7,), (7,), (7,), reduction="sum")],
        large=[call((85,), (85,), (85,)), call(*3 * [(2, 3, 65)])],
        options=[
            call((7,), (7,), (7,), beta=2.0), call((7,), (7,), (7,), kl=5.0),
            call((7,), (7,), (7,), desirable_weight=3.0),
            call((7,), (7,), (7,), undesirable_weight=3.0),
        ],
    ),
    record(
        m.orpo_loss,
        call((2, 5)), call((2, 2, 3), beta=0.5, reduction="none"), call((2, 3), reduction="sum"),
        call((2,)),
        draw=(draw.log_probability,), batched=False, is_loss=True, needed=REDUCED,
        hard=[call((2, 7)), call((2, 7), reduction="sum")], options=[call((2, 7), beta=2.0)],
    ),
    record(
        m.policy_loss,
        call((3, 4), (3, 4), (3, 1)), call((3, 4), (3, 4), (3, 4), kind="grpo", mask=TOKENS),
        call((3, 4), (3, 4), (3, 4), mask=TOKENS),
        call((3, 4), (3, 4), (3, 4), kind="dr_grpo", mask=TOKENS),
        call((3, 4), (3, 4), (3, 1), kind="gspo", mask=TOKENS),
        call((3, 4), (3, 4), (3, 4), kind="cispo", mask=TOKENS),
        call((3, 4), (3, 4), (3, 4), level="sequence", mean="constant", delta=1.25, mask=TOKENS),
        call((3, 4), (3, 4), (3, 4), kind="cispo", level="sequence", mean="sequence", mask=TOKENS),
        call((2, 2), (2, 2), (2, 2), clip=0.1, clip_high=0.3), call((1, 1), (1, 1), (1, 1)),
        draw=2 * (draw.log_probability,), constant=(1, 2), batched=False, of=(0,), is_loss=True,
        needed=("kind",), hard=[
            call((6, 7), (6, 7), (6, 7)), call((6, 7), (6, 7), (6, 1)),
            *(call((6, 7), (6, 7), (6, 7), kind=k) for k in ("grpo", "dr_grpo", "gspo", "cispo")),
        ],
        large=[call((17, 129), (17, 129), (17, 1))],
        options=[
            call((6, 7), (6, 7), (6, 7), clip_high=2.0), call((6, 7), (6, 7), (6, 7), clip=0.4),
            call((6, 7), (6, 7), (6, 7), level="sequence"),
            call((6, 7), (6, 7), (6, 7), mask=ANSWERS, mean="sequence"),
            call((6, 7), (6, 7), (6, 7), mask=ANSWERS), call((6, 7), (6, 7), (6, 7), delta=1.25),
            call((6, 7), (6, 7), (6, 7), clip=0.1, clip_high=0.3, delta=1.5),
        ],
    ),
    record(
        m.ctc_loss,
        call((4, 3), (2,)), call((2, 4, 3), (2, 2), reduction="none"),
        call((2, 4, 3), (2, 2), lengths=np.array([4, 3]), target_lengths=np.array([2, 1])),
        call((4, 3), np.array([0, 1]), blank=2, reduction="sum"), call((2, 2), (0,)),
        draw=(draw.log_distribution, letters), constant=(1,), batched=False, is_loss=True,
        needed=REDUCED, fixed=True,
        hard=[
            call((2, 9, 5), (2, 4)), call((2, 9, 5), (2, 4), reduction="sum"),
            call((3, 9, 5), (3, 4), reduction="none"),
            call((1, 9, 5), np.array([[2, 2, 1, 1]]), reduction="sum"),
            call((2, 4, 5), np.array([[1, 2, 3], [2, 2, 2]])),  # the second has no path
            call((3, 4, 5), np.array([[1, 2], [2, 2], [3, 1]]), lengths=np.array([4, 2, 0])),
        ],
        large=[
            call((2, 67, 33), (2, 20)), call((2, 2, 30, 7), (2, 2, 9)),
            call(
                (2, 12, 5), np.array([[0, 1, 3, 4], [4, 0, 0, 1]]), blank=2, reduction="sum",
                lengths=np.array([12, 9]), target_lengths=np.array([4, 2]),
            ),
        ],
        options=[
            call((2, 9, 5), (2, 4), lengths=np.array([9, 8])),
            call((2, 9, 5), (2, 4), target_lengths=np.array([4, 2])),
            call((9, 5), np.array([0, 1, 3]), blank=2),
            call((2, 4, 5), np.array([[1, 2, 3], [2, 2, 2]]), zero_infinity=True),
            call(
                (2, 5, 4), np.array([[0, 1, 3], [1, 1, 1]]), blank=2, reduction="sum",
                zero_infinity=True, lengths=np.array([5, 4]), target_lengths=np.array([2, 3]),
            ),
        ],
    ),
    record(
        m.kl_divergence,
        call((4, 3), (4, 3)), call((2, 3), (2, 3), reduction="sum"),
        call((2, 2, 3), (2, 2, 3), reduction="none"), call((3,), (3,)),
        call((2, 3), (2, 3), elementwise=True),
        call((2, 2, 3), (2, 2, 3), elementwise=True, reduction="none"),
        large=pairwise(2 * ((2, 3, 1025),), {"reduction": "sum"}),
        draw=(draw.log_distribution, draw.distribution), batched=False, of=(0,), hard=PAIRS,
        options=[call((5, 7), (5, 7), elementwise=True)], fixed=True,
        is_loss=True,
    ),
    record(
        m.neuron_squared_error,
        call((5, 3), (5,), (3,), ()), call((1, 1), (1,), (1,), ()),
        call((2, 0), (2,), (0,), ()),
        hard=[call((5, 7), (5,), (7,), ())], batched=False, of=(2, 3), is_loss=True,
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "multi_margin_loss": [
        "torch.nn.functional.multi_margin_loss",
        "MultiMarginLoss",
        "multiclass_hinge_loss",
        "svm_loss",
        "multiclass_hinge",
    ],
    "sigmoid_focal_loss": ["focal_loss", "BinaryFocalCrossentropy"],
    "softmax_focal_loss": ["CategoricalFocalCrossentropy", "multiclass_focal_loss"],
    "sparsemax_loss": ["SparsemaxLoss", "fenchel_young_loss"],
    "triplet_margin_loss": ["torch.nn.functional.triplet_margin_loss", "TripletMarginLoss"],
    "absolute_error": ["torch.nn.functional.l1_loss", "mae", "mean_absolute_error"],
    "binary_cross_entropy": [
        "torch.nn.functional.binary_cross_entropy_with_logits",
        "bce",
        "bce_loss",
        "bce_with_logits",
        "sigmoid_cross_entropy",
        "sigmoid_binary_cross_entropy",
    ],
    "cross_entropy": [
        "torch.nn.functional.cross_entropy",
        "softmax_cross_entropy",
        "sparse_categorical_crossentropy",
        "CrossEntropyLoss",
        "multi_token_prediction: it is a sum of such losses, with targets that are shifted further",
        "mtp: it is a sum of such losses, with targets that are shifted further",
    ],
    "hinge": ["squared_hinge", "hinge_loss"],
    "huber": ["torch.nn.functional.huber_loss", "smooth_l1", "smooth_l1_loss"],
    "kl_divergence": ["torch.nn.functional.kl_div", "kl", "relative_entropy"],
    "linear_cross_entropy": [
        "torch.nn.functional.linear_cross_entropy",
        "fused_linear_cross_entropy",
    ],
    "nll": ["torch.nn.functional.nll_loss", "negative_log_likelihood"],
    "squared_error": ["torch.nn.functional.mse_loss", "mse", "mean_squared_error", "l2_loss"],
    "dpo_loss": [
        "dpo",
        "ipo",
        "ipo_loss",
        "slic",
        "LigerFusedLinearDPOLoss: it multiplies by the weights of the last layer first",
        "simpo: it has means over the tokens, and a margin in place of the reference",
    ],
    "kto_loss": [
        "kto",
        "LigerFusedLinearKTOLoss: it multiplies by the weights of the last layer first",
    ],
    "orpo_loss": [
        "orpo",
        "odds_ratio_loss",
        "LigerFusedLinearORPOLoss: it multiplies by the weights of the last layer first",
    ],
    "policy_loss": [
        "ppo",
        "grpo",
        "gspo",
        "dapo",
        "dr_grpo",
        "cispo",
        "LigerFusedLinearGRPOLoss: it multiplies by the weights of the last layer first",
    ],
    "distillation_loss": [
        "jsd",
        "jsd_loss",
        "generalized_jsd",
        "generalized_jsd_loss",
        "LigerFusedLinearJSD: it multiplies by the weights of the last layer first",
    ],
    "info_nce": ["supcon", "SupConLoss", "nt_xent", "NTXentLoss"],
    "ctc_loss": ["torch.nn.functional.ctc_loss", "connectionist_temporal_classification"],
}
