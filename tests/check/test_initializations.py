"""Initializations that draw from the same generator, with the mistakes that people make."""

import numpy as np
import pytest

from dlref import check, propagation

SHAPES = {"matrix": (20, 50), "kernel": (6, 4, 3, 5), "square": (16, 16)}


def normal(variance):
    """Return an initialization of a variance that depends on the fans."""

    def init(rng, shape, **options):
        field = int(np.prod(shape[2:]))
        return (
            rng.normal(size=shape) * variance(shape[1] * field, shape[0] * field, **options) ** 0.5
        )

    return init


def uniform(bound):
    def init(rng, shape, **options):
        field = int(np.prod(shape[2:]))
        b = bound(shape[1] * field, shape[0] * field, **options)
        return rng.uniform(-b, b, shape)

    return init


def from_zero(rng, shape):
    return rng.uniform(0, (6 / np.prod(shape[1:])) ** 0.5, shape)


def unsigned(rng, shape, gain=1.0):
    n_in = int(np.prod(shape[1:]))
    rows = max(shape[0], n_in), min(shape[0], n_in)
    q, _ = np.linalg.qr(rng.normal(size=rows))
    return gain * (q if shape[0] >= n_in else q.T).reshape(shape)


HE, GLOROT = propagation.he_normal, propagation.glorot_normal
ROWS = [
    (HE, normal(lambda _, n: 2 / n), "matrix", {}, "fan_out stands where fan_in is due"),
    (HE, normal(lambda n, _: 1 / n), "matrix", {}, "the factor 2 of the ReLU is missing"),
    (HE, normal(lambda n, m: 4 / (n + m)), "matrix", {}, "the mean of fan_in and fan_out stands"),
    (HE, normal(lambda n, _: 2 * 15 / n), "kernel", {}, "the size of the kernel is not counted"),
    (HE, normal(lambda n, _: 4 / n**2), "matrix", {}, "the variance stands where the standard"),
    (
        HE, normal(lambda n, _, negative_slope: 2 / n / (1 + negative_slope)), "matrix",
        {"negative_slope": 0.25}, "the slope is not squared",
    ),
    (
        HE, normal(lambda n, _, negative_slope: 2 / n), "matrix", {"negative_slope": 0.25},
        "the option 'negative_slope' is ignored",
    ),
    (propagation.lecun_normal, normal(lambda _, n: 1 / n), "matrix", {}, "fan_out stands where"),
    (GLOROT, normal(lambda n, _: 1 / n), "matrix", {}, "fan_in stands where the mean"),
    (GLOROT, normal(lambda _, n: 1 / n), "kernel", {}, "fan_out stands where the mean"),
    (GLOROT, normal(lambda n, m: 1 / (n + m)), "square", {}, "the sum of fan_in and"),
    (
        propagation.he_uniform, uniform(lambda n, _: (2 / n) ** 0.5), "matrix", {},
        "the standard deviation stands where the bound is due",
    ),
    (propagation.he_uniform, from_zero, "matrix", {}, "the interval begins at 0"),
    (
        propagation.glorot_uniform, uniform(lambda n, _: (3 / n) ** 0.5), "kernel", {},
        "fan_in stands where the mean",
    ),
    (propagation.orthogonal, unsigned, "square", {}, "q stands where q * where("),
    (propagation.orthogonal, unsigned, "matrix", {"gain": 2.0}, "q stands where q * where("),
    (propagation.orthogonal, unsigned, "kernel", {}, "q stands where q * where("),
]  # fmt: skip


@pytest.mark.parametrize(("op", "candidate", "shape", "options", "message"), ROWS)
def test_a_mistake_is_named(op, candidate, shape, options, message):
    rng = np.random.default_rng(3)
    verdict = check.check_forward(candidate, op, rng, SHAPES[shape], **options)
    assert not verdict
    assert message in verdict.cause


def test_mistakes_that_lead_to_the_same_numbers_are_both_named():
    rng = np.random.default_rng(3)
    candidate = normal(lambda _, n: 2 / n)
    message = "fan_out stands where fan_in is due, or the factor 2 of the ReLU is missing"
    assert check.check_forward(candidate, HE, rng, (40, 20)).cause == message


@pytest.mark.parametrize("op", [HE, GLOROT, propagation.he_uniform, propagation.orthogonal])
def test_right_ones_pass_and_random_ones_have_no_cause(op):
    rng = np.random.default_rng(3)
    assert check.check_forward(op, op, rng, (20, 50))
    other = check.check_forward(lambda rng, shape: np.roll(op(rng, shape), 7), op, rng, (20, 50))
    assert not other
    assert other.cause == ""


def test_a_gain_of_zero_has_no_other_variances():
    wrong = check.check_forward(
        lambda rng, shape, gain: rng.normal(size=shape),
        GLOROT,
        np.random.default_rng(0),
        (3, 4),
        gain=0.0,
    )
    assert not wrong
    assert "stands where" not in wrong.cause


def test_a_number_near_0_has_the_rounding_of_the_range():
    """Of a uniform draw, -b + 2 b u, both terms are rounded where they nearly cancel."""
    cases = [
        check.TestCase(f"seed {seed}", (np.random.default_rng(seed), (40, 50 + seed)), {})
        for seed in range(12)
    ]

    def by_roots(rng, shape, gain=1.0):
        b = gain * np.sqrt(6.0) / np.sqrt(sum(shape))  # another rounding of the range
        return rng.uniform(-b, b, shape)

    assert check.check_all(by_roots, propagation.glorot_uniform, cases=cases)
    wide = [check.TestCase("one", (np.random.default_rng(1), (40, 60)), {})]

    def cut(rng, shape, gain=1.0):
        return by_roots(rng, shape, gain) * (1 + 2.0**-46)

    assert not check.check_all(cut, propagation.glorot_uniform, cases=wide)
