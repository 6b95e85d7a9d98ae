"""Causes at inputs that they do not apply to: a verdict is given all the same."""

import types

import numpy as np

from dlref import check
from dlref.activations import softmax, softplus
from dlref.attention import scaled_dot_product_attention
from dlref.check._oracle import causes
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


def test_a_right_case_in_which_a_mistake_has_no_effect_does_not_refute_it():
    """With as many queries as keys, both ends of the mask are one."""

    def anchored_at_the_last_key(q, k, v, *, is_causal=False):
        T, S = q.shape[-2], k.shape[-2]
        mask = np.arange(S) <= np.arange(T)[:, None] + S - T if is_causal else None
        return scaled_dot_product_attention(q, k, v, mask=mask)

    longer = [[(2, T, 4), (2, S, 4), (2, S, 4)] for T, S in ((5, 5), (3, 7), (4, 9))]
    report = check.check_all(anchored_at_the_last_key, scaled_dot_product_attention, shapes=longer)
    cause = "the causal mask is anchored at the last key (bottom right)"
    assert cause in str(report).splitlines()[0]


def test_a_cause_that_nearly_holds_in_a_case_is_not_refuted(monkeypatch):
    """Four times the tolerance is granted, for a kernel may sum in another order."""
    monkeypatch.setattr(causes, "_trials", lambda _: [("eps is 1, not 0", [1.0])])
    granted = []

    def agrees(outputs, want, *, slack):
        granted.append((outputs, want, slack))
        return slack == 4

    case = types.SimpleNamespace(call=None, want=[0.0], off={0}, agrees=agrees)
    assert not causes.is_refuted("eps is 1, not 0", case)
    assert granted == [([1.0], [0.0], 4)]
    assert not causes.is_refuted("another cause", case)
    case.agrees = lambda *_, slack: slack == 1
    assert causes.is_refuted("eps is 1, not 0", case)
