"""Inputs are what a map is for: logarithms of decays are negative, probabilities at most 1."""

import numpy as np
import pytest
from chapters import RECORDS

from dlref import attention as att
from dlref import check, convolution, losses
from dlref._records import _draw, spec_of
from dlref.check._inputs import shaped_inputs

BOUNDED = [
    record
    for record in RECORDS
    if not (record.why_not or isinstance(record.f, np.ufunc))
    and any(draw in _draw.DOMAINS for draw in record.draw)
]


def cases(record):
    """Yield the cases of a map: its own, of given shapes, and drawn at random."""
    yield from check.hard_inputs(record.f, "float64", every_option=True)
    shapes, options = next(sample for sample in record.hard_samples if sample.shapes)
    if not options and not any(isinstance(shape, int) for shape in shapes):
        yield from shaped_inputs(record.f, "float64", [shapes])
        inputs = check.random_inputs(record.f, shapes, "float64", np.random.default_rng(0))
        yield check.TestCase("random", inputs, {})


@pytest.mark.parametrize("record", BOUNDED, ids=lambda record: record.name)
def test_inputs_stay_in_their_domain(record):
    for name, inputs, _ in cases(record):
        for draw, a in zip(record.draw, inputs, strict=False):
            if draw in _draw.DOMAINS and np.asarray(a).dtype.kind == "f":
                low, high = _draw.DOMAINS[draw]
                assert np.all(a >= low), name
                assert np.all(a <= high), name


def test_what_is_bounded():
    names = {record.name for record in BOUNDED}
    assert {"recurrent_linear_attention", "forgetting_bias", "kl_estimate", "dpo_loss"} <= names
    assert {"policy_loss", "ctc_loss", "nll", "kl_divergence", "attention_rollout"} <= names


def test_a_linear_attention_stays_of_moderate_size():
    shapes = [(64, 64), (64, 64), (64, 64), (64, 1), (64,), None]
    for case in shaped_inputs(att.recurrent_linear_attention, "float64", [shapes]):
        out, state = att.recurrent_linear_attention(*case.inputs)
        assert max(abs(out).max(), abs(state).max()) < 1e4


# Kernels that passed.


def right_but(change):
    """Return linear attention whose decay and rate are changed."""

    def f(q, k, v, decay, beta, state, scale=1.0):
        return att.recurrent_linear_attention(q, k, v, *change(decay, beta), state, scale=scale)

    return f


@pytest.mark.parametrize(
    "change",
    [
        lambda g, b: (g if g is None or g.shape[-1] > 1 else 0 * g, b),  # a decay per head
        lambda g, b: (g, None if g is None else b),  # beta alone
        pytest.param(  # both
            lambda g, b: (None if b is not None and g is not None else g, b),
            marks=pytest.mark.broad,
        ),
    ],
)
def test_models_of_linear_attention_have_cases(change):
    assert not check.check_all(right_but(change), att.recurrent_linear_attention)


def test_a_decay_that_is_clipped_at_one_is_right():
    clipped = right_but(lambda g, b: (g if g is None else np.minimum(g, 0), b))
    report = check.check_all(clipped, att.recurrent_linear_attention)
    assert report, str(report)


def test_a_text_without_a_path_has_a_case():
    def zero(*inputs, **options):
        out = losses.ctc_loss(*inputs, **options)
        return np.where(np.isinf(out), 0, out).astype(np.asarray(out).dtype)

    assert check.check_all(zero, losses.ctc_loss).failed


@pytest.mark.parametrize("f", [losses.cross_entropy, losses.nll])
def test_targets_that_are_all_ignored_have_a_case(f):
    def one(x, target, reduction="mean"):
        none = reduction == "sum" and np.all(target == -100)
        return x.dtype.type(1) if none else f(x, target, reduction=reduction)

    failed = check.check_all(one, f).failed
    assert [row.case for row in failed if "all targets ignored" in row.case]


def test_a_piece_shorter_than_the_state_has_a_case():
    def longer(x, w, b, state):
        out, last = convolution.causal_conv(x, w, b, state)
        short = state is not None and x.shape[-2] < w.shape[-1] - 1
        return out, np.zeros_like(last) if short else last

    assert check.check_all(longer, convolution.causal_conv).failed


def test_sizes_of_latent_attention_differ():
    for case in check.hard_inputs(att.latent_attention, "float64"):
        p = case.inputs[1]
        heads, width = 2, case.inputs[0].shape[-1]
        latent = len(p.kv_norm)
        rotated = len(p.w_dkv) - latent
        nope = len(p.w_uk) // heads
        sizes = [heads, width, latent, rotated, nope, len(p.w_uv) // heads]
        assert len({*sizes}) == len(sizes), sizes


def test_groups_of_three():
    heads = [
        (case.inputs[0].shape[-3], case.inputs[1].shape[-3])
        for case in check.hard_inputs(att.scaled_dot_product_attention, "float64")
        if np.ndim(case.inputs[0]) > 3
    ]
    assert (6, 2) in heads
    groups = [sample.options.get("groups") for sample in spec_of(convolution.conv)[0].large_samples]
    assert 3 in groups
