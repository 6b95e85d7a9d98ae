"""Losses of preferences without pairs or without a reference: TRL's lines, edges, errors."""

import numpy as np
import pytest

from dlref.losses import (
    kto_loss,
    kto_loss_grad,
    kto_loss_jvp,
    orpo_loss,
    orpo_loss_grad,
    orpo_loss_jvp,
)

REDUCTIONS = ("mean", "sum", "none")


def reduced(x, reduction):
    return x if reduction == "none" else getattr(x, reduction)()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_kto_of_trl(reduction, rng):
    """The losses of `kto_loss` of KTOTrainer, which takes the two kinds one after the other."""
    peers = pytest.importorskip("peers")
    p, ref = 5 * rng.normal(size=(2, 8))
    good = np.arange(8) % 3 > 0

    def f(p, ref):
        where = peers.torch.tensor(good)
        chosen, rejected = ((p - ref)[mask] for mask in (where, ~where))
        chosen_losses = 1 - peers.torch.sigmoid(0.3 * (chosen - 0.7))
        rejected_losses = 1 - peers.torch.sigmoid(0.3 * (0.7 - rejected))
        losses = peers.torch.zeros_like(p)
        losses[where], losses[~where] = 1.5 * chosen_losses, 0.5 * rejected_losses
        return reduced(losses, reduction)

    options = {"beta": 0.3, "kl": 0.7, "desirable_weight": 1.5, "undesirable_weight": 0.5}
    options["reduction"] = reduction
    peers.assert_same("losses.kto_loss", f, p, ref, constants=(good,), rng=rng, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_orpo_of_trl(reduction, rng):
    """The lines of `odds_ratio_loss` of ORPOTrainer, with a cross-entropy for each answer."""
    peers = pytest.importorskip("peers")
    log_p = -rng.uniform(0.1, 3, size=(2, 6))  # the formula loses digits nearer to 0

    def f(log_p):
        policy_chosen_logps, policy_rejected_logps = log_p
        log_odds = (policy_chosen_logps - policy_rejected_logps) - (
            peers.torch.log1p(-peers.torch.exp(policy_chosen_logps))
            - peers.torch.log1p(-peers.torch.exp(policy_rejected_logps))
        )
        ratio = peers.torch.nn.functional.logsigmoid(log_odds)
        return reduced(-policy_chosen_logps - 0.3 * ratio, reduction)

    peers.assert_same("losses.orpo_loss", f, log_p, rng=rng, beta=0.3, reduction=reduction)


def test_orpo_keeps_its_digits_at_both_ends():
    """Against long doubles: probabilities near 1, and far below the smallest float."""
    for pair in ([-1e-12, -1e-9], [-1e-20, -2.0], [-800.0, -3.0], [-2.0, -900.0]):
        log_p = np.array(pair, np.longdouble)
        odds = log_p - np.log(-np.expm1(log_p))
        want = -log_p[0] + np.logaddexp(np.longdouble(0), odds[1] - odds[0])
        got = orpo_loss(np.array(pair), beta=1.0)
        np.testing.assert_allclose(got, float(want), rtol=4e-15)


def test_the_gradients_of_orpo_do_not_cancel(rng):
    grad = orpo_loss_grad(-rng.exponential(size=(2, 50)), reduction="sum")
    assert np.all(grad[0] <= -1)
    assert np.all(grad[1] > 0)
    np.testing.assert_array_equal(orpo_loss_grad([[-1.0], [-2.0]], beta=0.0), [[-1], [0]])


def test_kto_is_bounded_and_symmetric(rng):
    p, ref = 50 * rng.normal(size=(2, 9))
    good = np.ones(9, bool)
    loss = kto_loss(p, ref, good, kl=3.0, reduction="none")
    np.testing.assert_allclose(loss + kto_loss(p, ref, ~good, kl=3.0, reduction="none"), 1)
    np.testing.assert_array_equal(
        kto_loss_grad(p, ref, good, kl=3.0), -kto_loss_grad(p, ref, ~good, kl=3.0)
    )
    assert kto_loss([np.inf, -np.inf], [0.0, 0.0], [True, False]) == 0


def test_answers_that_are_all_missing():
    nothing = np.zeros(0)
    assert np.isnan(kto_loss(nothing, nothing, np.zeros(0, bool)))
    assert kto_loss(nothing, nothing, np.zeros(0, bool), reduction="sum") == 0
    assert np.isnan(orpo_loss(np.zeros((2, 0))))


def test_a_direction_of_one_input(rng):
    p, ref, v = rng.normal(size=(3, 5))
    good = np.arange(5) > 1
    there = kto_loss_jvp((p, ref, good), (v, None, None))
    assert there == pytest.approx(-kto_loss_jvp((p, ref, good), (None, v, None)), rel=1e-14)
    assert there == pytest.approx(kto_loss_grad(p, ref, good) @ v, rel=1e-14)
    assert kto_loss_jvp((p, ref, good), (v, v, None)) == pytest.approx(0, abs=1e-15)
    log_p, dlog_p = -abs(rng.normal(size=(2, 5))), rng.normal(size=(2, 5))
    want = np.sum(orpo_loss_grad(log_p) * dlog_p)
    assert orpo_loss_jvp(log_p, dlog_p) == pytest.approx(want, rel=1e-14)
    assert orpo_loss_jvp(log_p, None) == 0


def test_errors():
    two = np.zeros(2)
    with pytest.raises(TypeError, match=r"^Argument 'desirable' must be boolean"):
        kto_loss(two, two, two)
    with pytest.raises(ValueError, match=r"^Argument 'log_ref' must have shape \(2,\)"):
        kto_loss(two, np.zeros(3), [True, False])
    with pytest.raises(ValueError, match=r"^Argument 'desirable' must have shape \(2,\)"):
        kto_loss(two, two, [True])
    with pytest.raises(ValueError, match=r"^Argument 'kl' must be at least 0"):
        kto_loss(two, two, [True, False], kl=-1.0)
    for name in ("desirable_weight", "undesirable_weight"):
        with pytest.raises(ValueError, match=rf"^Argument '{name}' must be at least 0"):
            kto_loss(two, two, [True, False], **{name: -1.0})
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[2\]' must be None"):
        kto_loss_jvp((two, two, [True, False]), (two, two, two))
    with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum', not"):
        kto_loss_grad(two, two, [True, False], reduction="none")
    with pytest.raises(ValueError, match=r"^Argument 'log_p' must have shape \(2, 4\), not"):
        orpo_loss(-np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"^Argument 'beta' must be at least 0, not -1"):
        orpo_loss([-1.0, -2.0], beta=-1.0)
    with pytest.raises(ValueError, match=r"^Argument 'primals' must have shape"):
        orpo_loss_jvp(-np.ones((3, 4)), None)
