"""Bounds of large results are measured at some places of an axis, where the results allow it."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from dlref import activations, attention, calculus, check, losses, normalization, recurrent
from dlref.check._oracle import bounds as measured
from dlref.check._oracle import formulas
from dlref.check._oracle import sampled_bounds as sampled
from dlref.check._oracle.calls import ReferenceCall

SDPA, SDPA_VJP = attention.scaled_dot_product_attention, attention.scaled_dot_product_attention_vjp
DTYPES = ("float32", ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    """Take calls for large that have 500 numbers, of which 100 are enough."""
    monkeypatch.setattr(sampled, "LARGE", 500)
    monkeypatch.setattr(sampled, "ENOUGH", 100)
    monkeypatch.setattr(measured, "FOR_THREADS", 100)


@pytest.fixture
def parts(monkeypatch):
    """Return the calls whose bounds are measured."""
    calls = []
    bounds = sampled.bounds

    def noted(call, *rest):
        calls.append(call)
        return bounds(call, *rest)

    monkeypatch.setattr(sampled, "bounds", noted)
    return calls


def split_of(op, form, *arguments, **options):
    call = ReferenceCall(op, form, arguments, options)
    out = call.run()
    return sampled.split_of(call, list(out) if isinstance(out, tuple) else [out])


def drawn(rng, *shapes, dtype="float64"):
    return tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)


def test_heads_and_groups_of_heads(rng):
    q, k, v, dout = drawn(rng, *[(1, 8, 9, 5)] * 4)
    assert (split := split_of(SDPA, "forward", q, k, v)).axis == 1
    assert split.groups == 8
    assert split_of(SDPA, "vjp", dout, q, k, v, is_causal=True).groups == 8
    few = k[:, :4], v[:, :4]
    assert split_of(SDPA, "forward", q, *few).groups == 4
    sink, bias = drawn(rng, (8,), (8, 9, 9))
    assert split_of(SDPA, "forward", q, k, v, sink=sink).groups == 8
    assert split_of(SDPA, "forward", q, k, v, bias=bias) is None  # no array has all axes


def test_rows_of_losses_and_sums_over_rows(rng):
    x, rows = rng.normal(size=(24, 50)), rng.integers(0, 50, 24)
    assert not split_of(losses.cross_entropy, "forward", x, rows, reduction="none").is_mean
    assert split_of(losses.cross_entropy, "vjp", 1.0, x, rows).is_mean
    assert split_of(losses.cross_entropy, "forward", x, rows) is None  # one number
    ignored = np.full(24, -100)
    assert split_of(losses.cross_entropy, "vjp", 1.0, x, ignored) is None  # 0: both would do
    w, b = drawn(rng, (50,), (50,))
    assert split_of(normalization.layer_norm, "forward", x, w, b).groups == 24
    assert split_of(normalization.layer_norm, "vjp", x, x, w, b) is None
    assert split_of(activations.softmax, "forward", x, axis=0).axis == 1
    assert split_of(activations.softmax, "forward", x[:4]) is None  # not large


def test_steps_of_time_depend_on_each_other(rng):
    x = rng.normal(size=(2, 30, 12))
    weights = drawn(rng, (4, 12), (4, 4), (4,), (4,))
    assert split_of(recurrent.rnn, "forward", x, None, *weights).axis == 0
    assert split_of(recurrent.rnn, "forward", x[:1].repeat(2, 1), None, *weights) is None
    assert split_of(calculus.cumsum, "forward", x[0].repeat(2, 1), axis=0).axis == 1
    assert split_of(calculus.cumsum, "forward", x[0, :, :1].repeat(30, 0), axis=0) is None


def test_places_that_depend_on_others_have_the_bounds_of_the_whole(rng):
    def doubled(x):
        return np.concatenate([x[:5], x[5:6] + x[6:7], x[6:]])

    x = rng.normal(size=(24, 50))
    call = ReferenceCall(doubled, "forward", (x,), {})
    want, kinds, limits = [call.run()], [np.dtype(np.float32)], measured.Limits()
    assert (split := sampled.split_of(call, want)).groups == 50
    split = sampled.Split(0, 24, 24, 2)  # seen to be independent at 0, 12 and 23
    off = want[0].copy()
    off[5] += 1
    (limit,), _ = sampled.sampled_bounds(split, call, want, kinds, limits, [off], 1)
    assert np.array_equal(limit, measured.bounds(call, want, kinds, limits)[0][0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_kernels_pass(rng, dtype, parts):
    q, k, v, dout = drawn(rng, *[(2, 8, 9, 5)] * 4, dtype=dtype)
    assert check.check_forward(SDPA, SDPA, q, k, v).ok
    assert [np.shape(call.arguments[0]) for call in parts] == [(2, 1, 9, 5)]
    assert check.check_vjp(SDPA_VJP, SDPA, dout, q, k, v, is_causal=True).ok
    x, rows = rng.normal(size=(24, 50)).astype(dtype), rng.integers(0, 50, 24)
    vjp = losses.cross_entropy_vjp
    assert check.check_vjp(vjp, losses.cross_entropy, np.asarray(1, dtype), x, rows).ok
    assert [len(np.atleast_1d(call.arguments[-1])) for call in parts[1:]] == [2, 2]


@pytest.mark.parametrize("head", [0, 3, 7])
def test_a_head_that_is_slightly_off_is_measured(rng, head, parts):
    q, k, v = drawn(rng, *[(1, 8, 9, 5)] * 3, dtype="float32")

    def candidate(q, k, v):
        out = SDPA(q, k, v)
        out[:, head, 4] *= 1 + 1e-4
        return out

    verdict = check.check_forward(candidate, SDPA, q, k, v)
    assert not verdict.ok
    assert np.array_equal(parts[0].arguments[0][:, 0], q[:, head].astype(np.float64))
    assert verdict.outputs[0].num_wrong == 5
    assert verdict.outputs[0].at[1:3] == (head, 4)


def test_bounds_are_as_measured_and_elsewhere_in_proportion(rng):
    q, k, v = drawn(rng, *[(1, 8, 9, 5)] * 3)
    q[:, 2] *= 30
    call = ReferenceCall(SDPA, "forward", (q, k, v), {})
    want, kinds, limits = [call.run()], [np.dtype(np.float32)], measured.Limits()
    split = sampled.split_of(call, want)
    off = want[0].copy()
    off[0, 5, 1] *= 1.01
    (limit,), (moves,) = sampled.sampled_bounds(split, call, want, kinds, limits, [off], 1)
    part = split.call_at(call, [5])
    (own,), _ = measured.bounds(part, split.results_at(want, [5]), kinds, limits)
    assert np.array_equal(limit[:, 5:6], own)
    (whole,), _ = measured.bounds(call, want, kinds, limits)
    assert moves.shape == limit.shape
    assert (limit > 0).all()
    assert np.median(limit / whole) < 30


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_farthest(rng, wrong):
    q, k, v = drawn(rng, *[(1, 8, 9, 5)] * 3, dtype="float32")

    def candidate(q, k, v):
        out = SDPA(q, k, v)
        out[:, 6, 0, 0] = wrong
        out[:, 2] += 1e-3
        return out

    verdict = check.check_forward(candidate, SDPA, q, k, v)
    assert verdict.outputs[0].num_wrong == 46


def test_results_of_another_shape_or_kind(rng):
    q, k, v = drawn(rng, *[(1, 8, 9, 5)] * 3, dtype="float32")
    assert "shape" in str(check.check_forward(lambda *a: SDPA(*a)[:, :7], SDPA, q, k, v))
    assert not check.check_forward(lambda *a: SDPA(*a) > 0, SDPA, q, k, v).ok


def test_the_error_of_the_plain_formula_is_that_of_a_part(rng):
    q, k, v = drawn(rng, *[(1, 8, 9, 5)] * 3, dtype="float32")
    (output,) = check.check_forward(SDPA, SDPA, q, k, v).outputs
    assert 0 < output.baseline < 1e-6


def test_parts_whose_shapes_do_not_fit(rng, monkeypatch):
    call = ReferenceCall(SDPA, "forward", drawn(rng, *[(1, 8, 9, 5)] * 3), {})
    want = [call.run()]

    def refused(_):
        raise ValueError

    monkeypatch.setattr(ReferenceCall, "run", refused)
    assert sampled.split_of(call, want) is None


def test_a_large_product_is_not_cut(rng, monkeypatch):
    a, b = drawn(rng, (2, 30, 40), (40, 50))
    cut = formulas.product(a, b)
    monkeypatch.setattr(formulas, "FOR_THREADS", 1000)
    assert np.array_equal(formulas.product(a, b), a @ b)
    np.testing.assert_allclose(cut, a @ b, 1e-12)


def test_huge_calls_have_a_third_of_the_draws(monkeypatch, rng):
    x = rng.normal(size=(3, 4))
    call = ReferenceCall(activations.softmax, "forward", (x,), {})
    assert len([*measured._neighbours(call, 0.1)]) == 6
    monkeypatch.setattr(measured, "HUGE", 12)
    assert len([*measured._neighbours(call, 0.1)]) == 2


def test_threads_change_nothing(monkeypatch, rng):
    x = rng.normal(size=(30, 40))
    call = ReferenceCall(activations.softmax, "forward", (x,), {})
    arguments = [call.run()], [np.dtype(np.float32)], measured.Limits()
    (limit,), _ = measured.bounds(call, *arguments)
    monkeypatch.setattr(measured, "FOR_THREADS", 10**9)
    (alone,), _ = measured.bounds(call, *arguments)
    assert np.array_equal(limit, alone)


def test_a_huge_gradient_has_few_copies(monkeypatch, rng):
    """Of the gradient of a vocabulary's weights, 32,000 x 1024, each takes a quarter of a GB."""
    monkeypatch.setattr(measured, "HUGE", 2**10)
    x, w = (rng.normal(size=(n, 64)).astype("f") for n in (16, 2000))
    given = np.float32(1.0), x, w, np.arange(16)
    assert check.check_vjp(losses.linear_cross_entropy_vjp, losses.linear_cross_entropy, *given)
    tracemalloc.start()
    try:
        check.check_vjp(losses.linear_cross_entropy_vjp, losses.linear_cross_entropy, *given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 18 * w.size * 8
