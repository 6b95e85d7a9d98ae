"""Programs whose numbers the results tell, parts read in place of others, and terms twice."""

import ast
import functools

import numpy as np
import pytest

from dlref import (
    activations,
    attention,
    check,
    losses,
    normalization,
    positions,
    recurrent,
    training,
)
from dlref.check._oracle import usual
from dlref.check._oracle.causes import changes, values
from dlref.check._oracle.causes.changes import earlier_sides, expression
from dlref.formulas import activations as formulas
from dlref.formulas.training import tree_map

R = np.random.default_rng(5)
REDUCED = {"mean": np.mean, "sum": np.sum, "none": np.asarray}


def triplet(a, p, n, *, margin=1.0, reduction="mean"):
    del margin  # which is written into the kernel
    return losses.triplet_margin_loss(a, p, n, margin=0.1, reduction=reduction)


def gelu(x, *, approximate="none"):
    """The constant of the cubic term lacks a digit."""
    if approximate == "none":
        return activations.gelu(x)
    inner = np.sqrt(2 / np.pi) * (x + 0.04715 * x**3)
    return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)


def softsign(x):
    return (x / (1 + 1.25 * np.abs(x))).astype(x.dtype)


def rms_norm(x, weight=None, *, eps=1e-6, weight_offset=0.0):
    y = x / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(eps))
    return y if weight is None else y * (weight + x.dtype.type(weight_offset))


def divided_by_torch_std(x, weight, bias, *, eps=1e-5):
    """As in the annotated Transformer, and in what was copied from it."""
    y = (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def smoothed(logits, target, *, label_smoothing=0.0, reduction="mean"):
    """What is left for the class lacks the share of the class itself."""
    logs, n = activations.log_softmax(logits), logits.shape[-1]
    given = np.eye(n)[target] * (1 - label_smoothing - label_smoothing / n) + label_smoothing / n
    return REDUCED[reduction](-(given * logs).sum(-1)).astype(logits.dtype)


def policy(log_p, old, advantage, *, clip=0.2):
    """The smaller ratio is taken before the advantage multiplies it."""
    ratio = np.exp(log_p - old)
    return np.mean(-np.minimum(ratio, np.clip(ratio, 1 - clip, 1 + clip)) * advantage)


def hinge(chosen, reference, *, beta=0.1, reduction="mean"):
    return losses.dpo_loss(chosen, reference, beta=beta, kind="hinge", reduction=reduction)


def lstm_cell(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None):
    """The first two gates have the bias of the last."""
    b_ih, b_hh = (b if b is None else b.reshape(4, -1)[[3, 3, 2, 3]].ravel() for b in (b_ih, b_hh))
    return recurrent.lstm_cell(x, h, c, w_ih, w_hh, b_ih, b_hh)


def l2_norm_vjp(dout, x, *, eps=1e-6):
    """The gradient counts eps in one place of two, and most rows are too long to show it."""
    square = (x * x).sum(-1, keepdims=True)
    d = np.sqrt(square + x.dtype.type(eps))
    return dout / d - x * (dout * x).sum(-1, keepdims=True) / (square * d)


def group_norm(x, groups, weight=None, bias=None, *, eps=1e-5):
    """The variance is computed in one pass."""
    parts = x.reshape(*x.shape[:-1], groups, -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean = parts.mean(axes, keepdims=True)
    var = (parts * parts).mean(axes, keepdims=True) - mean * mean
    y = ((parts - mean) / np.sqrt(np.maximum(var, 0) + x.dtype.type(eps))).reshape(x.shape)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@pytest.mark.parametrize(
    ("op", "kernel", "cause"),
    [
        (losses.triplet_margin_loss, triplet, "margin is 0.1, whatever is passed"),
        (activations.gelu, gelu, "0.04715 stands where 0.044715 is due"),
        (activations.softsign, softsign, "1.25 * absolute(x) stands where absolute(x) is due"),
        (normalization.rms_norm, rms_norm, "var(x, axis=-1) stands where mean(x * x, axis=-1)"),
        (normalization.group_norm, group_norm, "the variance cancels"),
        (
            normalization.layer_norm,
            divided_by_torch_std,
            "and sqrt(var) + eps stands where sqrt(var + eps) is due (the sum is divided by n - 1",
        ),
        (losses.cross_entropy, smoothed, "1 - label_smoothing - label_smoothing / classes stands"),
        (losses.policy_loss, policy, "ratio) < clipped stands where free < bounded is due"),
        (losses.dpo_loss, hinge, "kind is hinge, not sigmoid"),
        pytest.param(
            *(
                recurrent.lstm_cell,
                lstm_cell,
                "part 3 of 4 of b_ih and b_hh along axis 0 is read in",
            ),
            marks=pytest.mark.broad,
        ),
    ],
)
def test_the_cause_is(op, kernel, cause):
    report = check.check_all(kernel, op)
    assert cause in report._summary()


def test_parts_of_a_gradient_are_recognized():
    inputs = tuple(
        R.normal(size=s) for s in ((2, 4, 3), (2, 5), (2, 5), (20, 3), (20, 5), (20,), (20,))
    )
    dout = R.normal(size=(2, 2, 4, 5))

    def vjp(*args):
        *grads, db_ih, db_hh = recurrent.lstm_vjp(*args)
        return *grads, db_ih.reshape(4, -1)[[1, 1, 2, 1]].ravel(), db_hh

    verdict = check.check_vjp(vjp, recurrent.lstm, tuple(dout), *inputs)
    assert verdict.cause == "along axis 0, part 0 of 4 holds part 1, part 3 of 4 holds part 1"


def test_noise_that_larger_cases_do_not_show_is_no_cause():
    report = check.check_all(None, normalization.l2_norm, vjp=l2_norm_vjp)
    assert not report
    assert "noise" not in str(report)


def test_outputs_that_are_none_have_no_sums():
    step = training.adamw_step
    assert check.check_all(step, step, dtype="bfloat16", accum_dtype="bfloat16")


def test_an_axis_that_the_results_do_not_share_is_not_cut():
    assert check.check_all(attention.attention_rollout, attention.attention_rollout)


def test_a_cause_of_the_same_output_in_all_cases_names_it():
    def vjp(dout, x, weight):
        dx, dweight = normalization.rms_norm_vjp(dout, x, weight)
        return dx, np.zeros_like(dweight)

    report = check.check_vjp(vjp, normalization.rms_norm, *np.ones((2, 3, 4)), np.ones(4))
    assert "output 1 (gradient of weight)" in report.message
    report = check.check_all(None, normalization.rms_norm, vjp=vjp, supports=has_a_weight)
    assert "in output 1 (gradient of weight), it is zero" in report._summary()


def test_a_headline_names_an_output_once():
    """Where the program of one output alone explains it, that output is named by the program."""

    def adamw_step(params, grads, state, learning_rate, betas=(0.9, 0.999)):
        t, m, v = state.step + 1, state.mean, state.square
        m, v = betas[0] * m + (1 - betas[0]) * grads, betas[1] * v + (1 - betas[1]) * grads**2
        root = np.sqrt(v / (1 - betas[1])) + 1e-8
        moved = learning_rate * m / (1 - betas[0]) / root
        return params * (1 - learning_rate / 100) - moved, (t, m, v, None)

    rng = np.random.default_rng(0)
    cases = []
    for step, shape in ((1, (3, 4)), (4, (6,)), (9, (2, 5))):
        state = training.AdamState(step, rng.normal(size=shape), rng.uniform(0.1, 2, shape), None)
        inputs = *rng.normal(size=(2, *shape)), state
        cases.append(check.TestCase(str(step), inputs, {"learning_rate": 0.1}))
    summary = check.check_all(
        adamw_step, training.adamw_step, dtype="float64", cases=cases
    )._summary()
    assert "): in output 0 alone, 1 stands where step + 1 is due" in summary


def has_a_weight(case):
    return len(case.inputs) == 2 and not case.options


def test_a_cause_of_some_outputs_says_so():
    def step(params, grads, state, *, learning_rate, weight_decay=0.0):
        new, state = training.adam_step(params, grads, state, learning_rate=learning_rate)
        decayed = tree_map(lambda a, b: a - np.float32(weight_decay) * b, new, params)
        return decayed, state

    report = check.check_all(step, training.adam_step)
    assert "in some outputs alone, the option 'weight_decay' is ignored" in report._summary()
    row = next(row for row in report.failed if "ignored" in row.verdict.message)
    assert "; in output " in row.verdict.message


def channels(length, dim, slip):
    i = np.arange(dim)
    exponents = {"odd": i / dim, "twice": 2 * i / dim}[slip]
    angles = np.arange(length)[:, None] / 10000**exponents
    return np.where(i % 2 == 0, np.sin(angles), np.cos(angles))


@pytest.mark.parametrize("slip", ["odd", "twice"])
def test_exponents_of_channels(slip):
    verdict = check.check_forward(
        functools.partial(channels, slip=slip), positions.sinusoidal, 6, 8
    )
    assert verdict.cause.endswith(f"{'i / 2' if slip == 'odd' else 'i'} stands where i // 2 is due")


@pytest.mark.parametrize("options", [{}, {"offset": 2}, {"layout": "halves"}])
def test_a_table_by_channels_is_the_usual_one(options):
    table = usual.sinusoidal_by_channels(5, 8, **options)
    np.testing.assert_allclose(table, positions.sinusoidal(5, 8, **options), 0, 4e-15)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("np.var(x, axis=-1)", ["np.var(x, axis=-1, ddof=1)", "np.mean(x * x, axis=-1)"]),
        ("np.mean(np.square(x))", ["mean_by_less(np.square(x))", "np.var(x)"]),
        ("np.mean(x ** 2)", ["mean_by_less(x ** 2)", "np.var(x)"]),
        ("np.mean(x ** 3)", ["mean_by_less(x ** 3)"]),
        ("np.mean(x + x)", ["mean_by_less(x + x)"]),
        ("np.maximum(x, y)", ["x + y"]),
        ("np.mean()", []),
    ],
)
def test_squares_are_taken_for_a_variance(text, other):
    assert [*map(ast.unparse, changes._other_spread(expression(text)))] == other


def test_comparisons_are_of_what_both_sides_had_before():
    definitions = {"a": expression("u * c"), "b": expression("v * c"), "d": expression("v + c")}
    made = lambda text: [*map(ast.unparse, earlier_sides(expression(text), definitions))]  # noqa: E731
    assert made("a < b") == ["u < v"]
    assert made("a < d") == made("a < e") == made("a < b < d") == made("a + b") == []


def test_a_number_that_was_tried_may_be_the_one():
    assert [*values._roots(lambda v: v - 2.0, [1.0, 2.0, 4.0])] == [2.0]
    assert [*values._roots(lambda v: v - 3.0, [1.0, 2.0, 4.0])] == [pytest.approx(3.0)]


def test_a_change_that_is_no_mathematics_has_no_number(monkeypatch):
    monkeypatch.setattr(values, "described", lambda *_: "")
    f = formulas.softsign
    assert [*values._solved(f, f, values._solved_factors, None)] == []
