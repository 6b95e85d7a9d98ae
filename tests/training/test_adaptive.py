"""Tests of optimizers with a step size for each parameter."""

import re

import numpy as np
import pytest

from dlref.training import (
    AdagradState,
    AdamState,
    NAdamState,
    RMSpropState,
    adagrad_step,
    adam_step,
    adamw_step,
    momentum_step,
    nadam_step,
    nesterov_step,
    rmsprop_step,
    sgd_step,
)

STEPS = [adagrad_step, rmsprop_step, adam_step, adamw_step, nadam_step]


def squares(state):
    """Return the slot that holds a sum or a mean of squares."""
    return getattr(state, "square", state[1])


def arrays_of(state):
    """Return the slots that an option asks for; the rest is None, or a number."""
    return [slot for slot in state[1:] if isinstance(slot, np.ndarray)]


@pytest.mark.parametrize(
    ("name", "step", "options"),
    [
        ("Adagrad", adagrad_step, {}),
        ("Adagrad", adagrad_step, {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-3}),
        ("Adagrad", adagrad_step, {"initial_accumulator_value": 0.5}),
        ("RMSprop", rmsprop_step, {}),
        ("RMSprop", rmsprop_step, {"alpha": 0.9, "weight_decay": 0.1, "eps": 1e-3}),
        ("RMSprop", rmsprop_step, {"momentum": 0.5}),
        ("RMSprop", rmsprop_step, {"centered": True, "momentum": 0.5, "eps": 1e-3}),
        ("Adam", adam_step, {}),
        ("Adam", adam_step, {"betas": (0.5, 0.9), "weight_decay": 0.1, "eps": 1e-3}),
        ("Adam", adam_step, {"amsgrad": True, "betas": (0.9, 0.5)}),
        ("AdamW", adamw_step, {}),
        ("AdamW", adamw_step, {"betas": (0.5, 0.9), "weight_decay": 0.5, "eps": 1e-3}),
        ("AdamW", adamw_step, {"amsgrad": True, "betas": (0.9, 0.5)}),
        ("NAdam", nadam_step, {}),
        ("NAdam", nadam_step, {"betas": (0.5, 0.9), "momentum_decay": 0.5, "eps": 1e-3}),
        ("NAdam", nadam_step, {"weight_decay": 0.1}),
        ("NAdam", nadam_step, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ],
)
def test_pytorch(name, step, options, compare_with_pytorch):
    compare_with_pytorch(name, step, options, options)


def ends_of(step, grads, scales, **options):
    """Return the parameters after steps with gradients of each scale, and the last state."""
    ends = []
    for scale in scales:
        p, state = np.zeros(grads.shape[1:], grads.dtype), None
        for g in grads:
            p, state = step(p, scale * g, state, learning_rate=0.1, eps=0, **options)
        ends.append(p)
    return *ends, state


@pytest.mark.parametrize("step", STEPS)
def test_the_scale_of_the_gradient_cancels(step, rng):
    options = {} if step is not adamw_step else {"weight_decay": 0}
    first, second, _ = ends_of(step, rng.normal(size=(20, 3)), (1.0, 1e6), **options)
    np.testing.assert_allclose(first, second, rtol=1e-12)


def test_adamw_is_the_algorithm_of_the_paper(rng):
    """Algorithm 2 of Loshchilov and Hutter: one schedule for both parts, alpha for one only."""
    alpha, decay, betas, eps = 0.1, 0.02, (0.9, 0.99), 1e-8
    theta = p = rng.normal(size=3)
    m, v, state = np.zeros(3), np.zeros(3), None
    for t, eta in enumerate((1.0, 0.5, 0.25), start=1):
        g = rng.normal(size=3)
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        ratio = m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        theta = theta - eta * (alpha * ratio + decay * theta)
        options = {"betas": betas, "eps": eps, "weight_decay": decay / alpha}
        p, state = adamw_step(p, g, state, learning_rate=eta * alpha, **options)
    np.testing.assert_allclose(p, theta, rtol=1e-12)


@pytest.mark.parametrize(
    ("step", "options", "longest", "before", "after"),
    [
        (adagrad_step, {}, 1.0, 0.014, 0.139),  # grows with the gradient
        (rmsprop_step, {"alpha": 0.9}, 3.162, 0.814, 2.967),
        (adam_step, {"betas": (0.9, 0.9)}, 1.0, 0.852, 0.576),
    ],
)
def test_steps_under_a_gradient_that_comes_and_goes(step, options, longest, before, after):
    p, state, lengths = 0.0, None, []
    for g in np.repeat([1.0, 0.1, 1.0], 50):
        q, state = step(p, g, state, learning_rate=1, **options)
        lengths.append(p - q)
        p = q
    assert max(lengths) == pytest.approx(longest, abs=5e-4)
    assert lengths[99:101] == pytest.approx([before, after], abs=5e-4)


def test_a_rare_gradient_takes_a_longer_step_of_adam():
    p, state = 0.0, None
    for _ in range(20_000):
        p, state = adam_step(p, 0.0, state, learning_rate=1.0)
    p, _ = adam_step(p, 1.0, state, learning_rate=1.0)
    assert p == pytest.approx(-0.1 / np.sqrt(0.001), rel=1e-6)
    assert f"{-p:.1f}" == "3.2"


def test_without_decay_adam_and_adamw_agree(rng):
    p, g = rng.normal(size=3), rng.normal(size=3)
    one, _ = adam_step(p, g, None, learning_rate=0.1)
    other, _ = adamw_step(p, g, None, learning_rate=0.1, weight_decay=0)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (adagrad_step, AdagradState),
        (rmsprop_step, RMSpropState),
        (adam_step, AdamState),
        (adamw_step, AdamState),
        (nadam_step, NAdamState),
    ],
)
def test_states_have_the_structure_of_the_parameters(step, kind):
    params = (np.ones(2, np.float32), (None, np.ones((1, 3))))
    moved, state = step(params, params, None, learning_rate=0.1)
    assert isinstance(state, kind)
    slots = [slot for slot in state[1:] if isinstance(slot, tuple)]
    assert slots
    for slot in slots:
        assert slot[0].dtype == np.float32
        assert slot[1][0] is None
        assert slot[1][1].shape == (1, 3)
    assert moved[0].dtype == np.float32
    np.testing.assert_array_equal(params[0], 1)  # not written to
    again, second = step(moved, params, state, learning_rate=0.1)
    assert second.step == 2
    assert again[1][0] is None


@pytest.mark.parametrize("step", STEPS)
def test_errors(step):
    with pytest.raises(ValueError, match="'learning_rate' must be at least 0"):
        step(1.0, 1.0, None, learning_rate=-1)
    with pytest.raises(ValueError, match="'eps' must be at least 0"):
        step(1.0, 1.0, None, learning_rate=1, eps=-1)
    with pytest.raises(TypeError, match="'weight_decay' must be a number, not None"):
        step(1.0, 1.0, None, learning_rate=1, weight_decay=None)
    with pytest.raises(ValueError, match="'grads' must have the structure of 'params'"):
        step((1.0, 2.0), (1.0,), None, learning_rate=1)
    _, state = step(np.ones(2), np.ones(2), None, learning_rate=1)
    with pytest.raises(ValueError, match="'state' must come from a step with these"):
        step(np.ones(3), np.ones(3), state, learning_rate=1)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (sgd_step, "SGDState(step)"),
        (momentum_step, "MomentumState(step, velocity)"),
        (nesterov_step, "MomentumState(step, velocity)"),
        (adagrad_step, "AdagradState(step, total)"),
        (rmsprop_step, "RMSpropState(step, square, mean, velocity)"),
        (adam_step, "AdamState(step, mean, square, largest)"),
        (adamw_step, "AdamState(step, mean, square, largest)"),
    ],
)
def test_states_of_others_are_errors(step, kind):
    p = g = np.ones(2)
    others = [sgd_step, momentum_step, adagrad_step, rmsprop_step, adam_step]
    states = [other(p, g, None, learning_rate=1)[1] for other in others]
    wrong = [state for state in states if type(state).__name__ != kind.partition("(")[0]]
    assert len(wrong) == len(states) - 1
    for state in [*wrong, 3, (), (1,) * 5, [0, None]]:
        message = f"Argument 'state' must be {kind} or None, not {type(state).__name__}."
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            step(p, g, state, learning_rate=1)


def test_a_state_may_be_a_plain_tuple():
    p, state = adam_step(np.ones(2), np.ones(2), None, learning_rate=1)
    (again, one), (same, two) = (adam_step(p, p, s, learning_rate=1) for s in (state, tuple(state)))
    np.testing.assert_array_equal(again, same)
    assert isinstance(two, AdamState)
    assert one.step == two.step == 2


def test_errors_of_single_options():
    with pytest.raises(ValueError, match="'alpha' must be from 0 to 1, not 2"):
        rmsprop_step(1.0, 1.0, None, learning_rate=1, alpha=2)
    for step in (adam_step, adamw_step):
        with pytest.raises(TypeError, match=r"'betas' must be a tuple of 2 numbers, not 0\.9"):
            step(1.0, 1.0, None, learning_rate=1, betas=0.9)
        with pytest.raises(ValueError, match=r"'betas\[1\]' must be less than 1, not 1"):
            step(1.0, 1.0, None, learning_rate=1, betas=(0.9, 1.0))
        with pytest.raises(ValueError, match=r"'betas\[0\]' must be at least 0, not -0\.1"):
            step(1.0, 1.0, None, learning_rate=1, betas=(-0.1, 0.9))


def test_weight_decay_of_adam_is_part_of_the_gradient(rng):
    p, g = rng.normal(size=(2, 5))
    got, _ = adam_step(p, g, None, learning_rate=0.1, weight_decay=0.25)
    want, _ = adam_step(p, g + 0.25 * p, None, learning_rate=0.1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("gradient", [0.1, 1.1])  # NaN from steps 3227 and 3144 on, unclamped
def test_centered_rmsprop_of_a_steady_gradient_stays_finite(gradient):
    p, state = np.zeros(1), None
    for _ in range(4000):
        p, state = rmsprop_step(p, [gradient], state, learning_rate=1e-12, centered=True)
        assert np.isfinite(p).all()
    assert state.square - state.mean**2 < 1e-12


@pytest.mark.parametrize("centered", [False, True])
def test_options_of_a_later_step_begin_with_empty_slots(centered):
    p, g = np.ones(2), np.full(2, 0.5)
    _, plain = rmsprop_step(p, g, None, learning_rate=0.1)
    assert plain.mean is None
    assert plain.velocity is None
    _, state = rmsprop_step(p, g, plain, learning_rate=0.1, centered=centered, momentum=0.5)
    np.testing.assert_allclose(
        state.velocity,
        0.5 / np.sqrt(state.square - (0.0 if state.mean is None else state.mean**2)),
        rtol=1e-6,
    )
    _, first = adam_step(p, g, None, learning_rate=0.1)
    assert first.largest is None
    _, second = adam_step(p, g, first, learning_rate=0.1, amsgrad=True)
    np.testing.assert_array_equal(second.largest, second.square)


@pytest.mark.parametrize("step", [*STEPS, momentum_step, nesterov_step, sgd_step])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_is_aliased(step, dtype):
    """Neither with the parameters, the gradients and the old state, nor among the results."""
    all_options = {
        rmsprop_step: {"centered": True, "momentum": 0.5},
        adam_step: {"amsgrad": True},
        adamw_step: {"amsgrad": True},
    }
    for options in ({}, all_options.get(step, {})):
        arrays = [np.ones(4, dtype) for _ in range(2)]
        _, state = step(*arrays, None, learning_rate=0.1, **options)
        before = [*arrays, *arrays_of(state)]
        kept = [a.copy() for a in before]
        p, state = step(*arrays, state, learning_rate=0.1, **options)
        after = [p, *arrays_of(state)]
        for i, a in enumerate(after):
            assert not any(np.shares_memory(a, b) for b in before)
            assert not any(np.shares_memory(a, b) for b in after[i + 1 :])
        for a, b in zip(before, kept, strict=True):
            np.testing.assert_array_equal(a, b)


def test_infinite_parameters_stay_infinite_without_decay():
    p, _ = adam_step([np.inf], [1.0], None, learning_rate=0.1)
    assert p == np.inf


OPTIONS = [
    (adagrad_step, {}),
    (rmsprop_step, {}),
    (rmsprop_step, {"momentum": 0.5, "alpha": 0.75}),
    (rmsprop_step, {"centered": True}),
    (adam_step, {}),
    (adam_step, {"amsgrad": True}),
    (adamw_step, {"weight_decay": 0}),
    (adamw_step, {"weight_decay": 0, "amsgrad": True}),
]


class TestRange:
    """Steps that are representable although the squares of the gradients are not."""

    @pytest.mark.parametrize(("step", "options"), OPTIONS)
    @pytest.mark.parametrize(
        ("dtype", "scale", "rtol"),
        [
            (np.float64, 2.0**530, 1e-12),
            (np.float64, 2.0**-530, 1e-12),
            (np.float32, 2.0**83, 1e-4),
            (np.float32, 2.0**-80, 1e-4),
        ],
    )
    def test_the_scale_of_the_gradient_cancels(self, step, options, dtype, scale, rtol, rng):
        grads = rng.normal(size=(20, 50)).astype(dtype)
        first, second, state = ends_of(step, grads, (dtype(1), dtype(scale)), **options)
        assert np.all(squares(state) < 0)
        np.testing.assert_allclose(second, first, rtol=rtol, atol=rtol)

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e160), (np.float32, 1e25)])
    def test_the_first_step(self, step, dtype, size):
        options = {adamw_step: {"weight_decay": 0}, nadam_step: {"betas": (0.0, 0.999)}}
        options = options.get(step, {})
        g = np.array([size, -size, 1.0, 0.0], dtype)
        p, state = step(np.zeros(4, dtype), g, None, learning_rate=0.5, **options)
        length = 5.0 if step is rmsprop_step else 0.5
        np.testing.assert_allclose(p, [-length, length, -length, 0], rtol=1e-5)
        square = squares(state)
        assert square[0] == square[1] < 0 < square[2]
        share = {adagrad_step: 1.0, rmsprop_step: 0.01}.get(step, 0.001)
        np.testing.assert_allclose(-square[0], np.sqrt(share) * size, rtol=1e-5)

    def test_a_state_returns_to_squares(self):
        p, state = rmsprop_step(0.0, 1e160, None, learning_rate=1, alpha=0.0625)
        assert state.square < 0
        for _ in range(20):  # the root falls to a quarter each time
            p, state = rmsprop_step(p, 0.0, state, learning_rate=1, alpha=0.0625)
        assert float(state.square) == pytest.approx((1e160 * np.sqrt(0.9375) / 4**20) ** 2)

    @pytest.mark.parametrize("step", STEPS)
    def test_infinite_and_nan_gradients_stay_so(self, step):
        p, state = step(np.zeros(2), np.array([np.inf, np.nan]), None, learning_rate=1)
        assert np.isnan(p).all()
        square = squares(state)
        assert np.isposinf(square[0])
        assert np.isnan(square[1])
