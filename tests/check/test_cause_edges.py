"""Causes at inputs that they do not apply to: a verdict is given all the same."""

import numpy as np

from dlref import check
from dlref.activations import softmax, softplus
from dlref.attention import scaled_dot_product_attention
from dlref.positions import apply_rope
from dlref.recurrent import lstm_cell
from dlref.training import sgd_step


def nothing_known(f):
    return lambda *args, **options: f(*args, **options) * 1.37 + 0.11


def test_of_a_rotation_at_one_position(rng):
    x, angles = rng.normal(size=(1, 4)), rng.normal(size=(1, 2))
    assert not check.check_forward(
        nothing_known(apply_rope), apply_rope, x, np.cos(angles), np.sin(angles)
    )


def test_of_the_tangent_of_a_rotation(rng):
    x, angles = rng.normal(size=(3, 4)), np.outer(np.arange(3), [1.0, 0.1])
    primals = x, np.cos(angles), np.sin(angles)
    tangents = rng.normal(size=x.shape), None, None
    assert not check.check_jvp(lambda p, t: p[0] * 1.7 + 1, apply_rope, primals, tangents)


def test_of_the_tangent_of_softplus(rng):
    x, v = rng.normal(size=(2, 5))
    assert not check.check_jvp(lambda p, t: t * 1.7 + 1, softplus, x, v)


def test_of_a_cell_without_biases(rng):
    x, h, c = rng.normal(size=(3, 2, 3))
    weights = rng.normal(size=(2, 12, 3))
    assert not check.check_forward(
        lambda *args: (args[1] * 1.3 + 1, args[2] * 0.7 - 1), lstm_cell, x, h, c, *weights
    )


def test_of_exponentials_of_integers_and_of_scores(rng):
    nothing = lambda x: np.full(np.shape(x), np.nan)  # noqa: E731
    assert not check.check_forward(nothing, softmax, np.array([[1, 2, 3]]))
    q, k, v = rng.normal(size=(3, 1, 4, 2))
    assert not check.check_forward(
        lambda q, k, v: np.full(v.shape, np.nan), scaled_dot_product_attention, q, k, v
    )


def test_of_an_optimizer_of_trees(rng):
    params, grads = (rng.normal(size=3), rng.normal(size=2)), (rng.normal(size=3), np.ones(2))

    def wrong(params, grads, state=None, *, learning_rate):
        new, state = sgd_step(params, grads, state, learning_rate=learning_rate)
        return tuple(1.3 * p + 0.2 for p in new), state

    assert not check.check_forward(wrong, sgd_step, params, grads, None, learning_rate=0.1)
