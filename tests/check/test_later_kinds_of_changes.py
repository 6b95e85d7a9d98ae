"""Kinds of changed programs that reports of November 2026 led to, and what is not claimed."""

import ast

import numpy as np
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import calculus, check, losses, training
from dlref import normalization as norm
from dlref.check._oracle import usual
from dlref.check._oracle.causes import changes
from dlref.check._oracle.causes.heuristics import Pair, undefined
from dlref.formulas import activations
from dlref.formulas import losses as loss_formulas
from dlref.formulas.activations import softplus

R = np.random.default_rng(111)
SDPA = att.scaled_dot_product_attention
X, GATE, U = R.normal(size=(3, 4, 6))
LABELS = R.integers(0, 2, (4, 6)) * 1.0
HEADS = tuple(R.normal(size=s) for s in ((2, 1, 4), (2, 9, 4), (2, 9, 3)))
QUERIES = tuple(R.normal(size=s) for s in ((2, 5, 4), (2, 9, 4), (2, 9, 3)))


def rows(a):
    return a.mean(-1, keepdims=True)


def focal(x, y, *, alpha=0.25, gamma=2.0, slip):
    """Return the mean of a term for the positives and one for the negatives, with a mistake."""
    p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    a, b = alpha, alpha if slip == "alpha" else 1 - alpha
    focus = gamma * q if slip == "product" else q**gamma
    other = q**gamma if slip == "class" else p**gamma
    return np.mean(a * y * focus * softplus(-x) + b * (1 - y) * other * softplus(x))


def rms_vjp(u, x, w, *, eps=1e-6):
    """Return gradients whose second term is multiplied by the weight twice."""
    rho = np.sqrt(rows(x * x) + eps)
    g, y = w * u, x / rho
    return (g - w * y * rows(g * y)) / rho, np.sum(u * y, axis=0)


def selu(x):
    return np.where(x > 0, activations.SELU_ALPHA * x, act.selu(x))


def mish_vjp(u, x):
    """Return the gradient without exp(3 x) in the numerator."""
    e = np.exp(x)
    omega = 4 * (x + 1) + 4 * e**2 + e * (4 * x + 6)
    return u * e * omega / (2 * e + e**2 + 2) ** 2


def smoothed(x, y, *, label_smoothing=0.0):
    """Return the cross-entropy whose label keeps 1 - eps / C."""
    logs, n = act.log_softmax(x), x.shape[-1]
    q = (1 - label_smoothing / n) * (np.arange(n) == y[..., None]) + label_smoothing / n
    return -(q * logs).sum(-1).mean()


def gaussian_kl(mean, log_var):
    return np.sum(mean**2 + np.exp(log_var) - log_var / 2 - 0.5, axis=-1).mean()


def no_window_for_one(q, k, v, *, q_offset=0, window=None):
    return SDPA(q, k, v, q_offset=q_offset, window=None if q.shape[-2] == 1 else window)


def labels(**options):
    return [((R.normal(size=(4, 6)), LABELS), options) for _ in range(2)]


def vjp_cases(*shapes, **options):
    return [(tuple(R.normal(size=s) for s in shapes), options) for _ in range(2)]


FOCAL, CE = losses.sigmoid_focal_loss, losses.cross_entropy
KINDS = {
    "a complement": (FOCAL, "forward", lambda *a, **o: focal(*a, slip="alpha", **o),
                     labels(alpha=0.3), "alpha stands where 1 - alpha is due"),
    "a product for a power": (FOCAL, "forward", lambda *a, **o: focal(*a, slip="product", **o),
                              labels(gamma=3.0), "q * gamma stands where q ** gamma is due"),
    "the other class": (FOCAL, "forward", lambda *a, **o: focal(*a, slip="class", **o),
                        labels(gamma=3.0), "q stands where p is due"),
    "a factor twice": (norm.rms_norm, "vjp", rms_vjp, vjp_cases((4, 6), (6,)),
                       "x_hat * mean(g * x_hat, axis=-1) * (weight + weight_offset) stands"),
    "another constant": (act.selu, "forward", selu, vjp_cases((4, 6)),
                         "SELU_ALPHA stands where SELU_SCALE is due"),
    "a term of a series": (act.mish, "vjp", mish_vjp, vjp_cases((4, 6)),
                           "4 * (x + 1) + 4 * e ** 2 stands where"),
    "over a size": (CE, "forward", smoothed,
                    [((R.normal(size=(5, 7)), R.integers(0, 7, 5)), {"label_smoothing": 0.2})
                     for _ in range(2)],
                    "label_smoothing / logits.shape[-1] stands where label_smoothing is due"),
    "without parentheses": (losses.gaussian_kl, "forward", gaussian_kl,
                            vjp_cases((4, 6), (4, 6)), "(mean ** 2 + var)"),
    "minus before a complement": (act.gumbel_softmax, "forward",
                                  lambda x, noise: act.softmax(x - noise),
                                  vjp_cases((4, 6), (4, 6)), "-noise stands where noise is due"),
    "an option ignored for one query": (SDPA, "forward", no_window_for_one,
                                        [(HEADS, {"q_offset": 8, "window": (3, 0)}),
                                         (QUERIES, {"window": (3, 0)})],
                                        "the option 'window' is ignored, where q_offset is given"),
}  # fmt: skip


def report_on(kind):
    op, form, wrong, inputs, _ = KINDS[kind]
    cases = [check.TestCase(f"case {n}", *one) for n, one in enumerate(inputs)]
    forward, backward = (wrong, None) if form == "forward" else (None, wrong)
    return check.check_all(forward, op, vjp=backward, cases=cases, dtype="float64")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_change_is_named(kind):
    report = report_on(kind)
    assert report.failed
    assert all(KINDS[kind][-1] in row.verdict.cause for row in report.failed), report


def test_spellings_of_textbooks_are_the_formulas():
    for options in ({}, {"alpha": -1.0}, {"gamma": 0.5, "reduction": "sum"}):
        got = usual.focal_loss_of_both_classes(X, LABELS, **options)
        want = loss_formulas.sigmoid_focal_loss(X, LABELS, **options)
        np.testing.assert_allclose(got, want, rtol=1e-13)
    pairs = (
        (usual.selu_in_two_parts(X), activations.selu(X)),
        (usual.mish_deriv_by_exponentials(X), activations.mish_deriv(X)),
        (usual.gaussian_kl_by_variances(X, GATE), loss_formulas.gaussian_kl(X, GATE)),
    )
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_sums_lose_their_parentheses_at_each_sign():
    node = changes.expression("(a - b + c) / n")
    some = [ast.unparse(other) for other in changes._without_parentheses(node)]
    assert some == [
        *("(a - b) / n + c", "a - b + c / n"),
        *("a / n - b + c", "a - b / n + c / n"),
    ]


def test_no_integer_stands_for_a_mask():
    call = changes.expression("window_mask(T, S)")
    assert [*changes.usual_changes(call, {"T", "S"})] == []
    assert [ast.unparse(a) for a in changes.usual_changes(call, set())] == ["T"]


def test_the_moments_of_a_first_step_are_no_cause():
    """Moments without the factors 1 - beta are the gradients in the first step alone."""

    def step(p, g, state, *, learning_rate):
        t, mean, square, _ = (0, 0 * p, 0 * p, None) if state is None else state
        mean, square = 0.9 * mean + g, 0.999 * square + g * g
        root = np.sqrt(square / (1 - 0.999 ** (t + 1))) + 1e-8
        new = p - learning_rate * mean / (1 - 0.9 ** (t + 1)) / root
        return new, (t + 1, mean, square, None)

    options = {"learning_rate": 0.1}
    _, state = training.adam_step(X, U, None, **options)
    cases = [
        check.TestCase("the first step", (X, U, None), options),
        check.TestCase("the second step", (X, GATE, state), options),
    ]
    report = check.check_all(step, training.adam_step, cases=cases, dtype="float64")
    assert len(report.failed) == 2
    assert not any("unchanged" in cause for cause in report.causes)


def test_nan_where_an_input_is_0(rng):
    base, x = rng.normal(size=4) ** 2, np.array([1.0, 2.0, 3.0, 4.0])
    base[1] = 0.0

    def power_vjp(u, w, x):
        with np.errstate(all="ignore"):
            return u * x * w ** (x - 1), u * w**x * np.log(w)

    inputs = rng.normal(size=4), base, x
    verdict = check.check_forward(power_vjp, calculus.power_vjp, *inputs)
    assert verdict.cause == "a division by zero or 0 times infinity inside, wherever w is 0"
    assert undefined(Pair(*([None] * 2), x, x, 0.0, x.dtype)) == ""
