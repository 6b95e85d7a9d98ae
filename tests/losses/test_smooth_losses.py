"""Losses that are formulas of arrays: PyTorch, means over distributions, numerics, errors."""

import functools

import mpmath
import numpy as np
import pytest

from dlref.losses import (
    binary_cross_entropy,
    distillation_loss,
    distillation_loss_grad,
    distillation_loss_jvp,
    distillation_loss_vjp,
    dpo_loss,
    dpo_loss_grad,
    gaussian_kl,
    gaussian_kl_grad,
    gaussian_kl_vjp,
    kl_estimate,
    kl_estimate_grad,
    kl_estimate_vjp,
)

REDUCTIONS = ("mean", "sum", "none")


def reduced(x, reduction):
    return x if reduction == "none" else getattr(x, reduction)()


def compare(peers, name, f, inputs, rng, *, reduction, **options):
    """Compare a loss and its derivatives with the terms that PyTorch computes."""
    peers.assert_same(
        f"losses.{name}",
        lambda *x: reduced(f(*x), reduction),
        *inputs,
        rng=rng,
        reduction=reduction,
        tolerance=1e-14,
        **options,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
class TestPyTorch:
    def test_gaussian_kl(self, rng, reduction):
        peers = pytest.importorskip("peers")
        normal = peers.torch.distributions.Normal

        def f(mean, log_var):
            zero, one = peers.torch.zeros_like(mean), peers.torch.ones_like(mean)
            q = normal(mean, (log_var / 2).exp())
            return peers.torch.distributions.kl_divergence(q, normal(zero, one)).sum(-1)

        inputs = tuple(rng.normal(size=(2, 4, 3)))
        compare(peers, "gaussian_kl", f, inputs, rng, reduction=reduction)

    @pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
    def test_kl_estimate(self, rng, reduction, kind):
        peers = pytest.importorskip("peers")

        def f(p, ref):
            r = ref - p
            return {"k1": -r, "k2": r**2 / 2, "k3": r.expm1() - r}[kind]

        inputs = rng.normal(size=(2, 4, 3))
        compare(peers, "kl_estimate", f, inputs, rng, reduction=reduction, kind=kind)

    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_dpo(self, rng, reduction, smoothing):
        """The formula of TRL's DPOTrainer, loss_type "sigmoid"."""
        peers = pytest.importorskip("peers")
        logsigmoid = peers.torch.nn.functional.logsigmoid

        def f(p, ref):
            logits = (p[0] - p[1]) - (ref[0] - ref[1])
            right = -logsigmoid(0.3 * logits) * (1 - smoothing)
            return right - logsigmoid(-0.3 * logits) * smoothing

        options = {"beta": 0.3, "label_smoothing": smoothing}

        inputs = rng.normal(size=(2, 2, 5))
        compare(peers, "dpo_loss", f, inputs, rng, reduction=reduction, **options)

    @pytest.mark.parametrize("kind", ["hinge", "ipo"])
    def test_dpo_of_other_kinds(self, rng, reduction, kind):
        """The formulas of TRL's DPOTrainer, loss_type "hinge" and "ipo"."""
        peers = pytest.importorskip("peers")

        def f(p, ref):
            logits = (p[0] - p[1]) - (ref[0] - ref[1])
            if kind == "hinge":
                return peers.torch.relu(1 - 0.5 * logits)
            return (logits - 1 / (2 * 0.5)) ** 2

        options = {"beta": 0.5, "kind": kind}

        inputs = rng.normal(size=(2, 2, 9))
        compare(peers, "dpo_loss", f, inputs, rng, reduction=reduction, **options)


def test_simpo_is_a_margin_in_place_of_the_reference(rng):
    beta, gamma, p = 2.0, 0.7, rng.normal(size=(2, 5))
    odds = beta * p[0] - beta * p[1] - gamma
    margin = np.stack([np.full(5, gamma / beta), np.zeros(5)])
    want = np.mean(np.log1p(np.exp(-odds)))
    assert dpo_loss(p, margin, beta=beta) == pytest.approx(want, rel=1e-14)


class TestGaussian:
    def test_it_is_never_negative(self, rng):
        log_var = np.concatenate([rng.normal(size=500) * 1e-6, rng.normal(size=500)])
        assert np.all(gaussian_kl(np.zeros((1000, 1)), log_var[:, None], reduction="none") >= 0)

    def test_variances_near_one_keep_their_digits(self):
        got = gaussian_kl([0.0], [1e-6])
        np.testing.assert_allclose(got, 1e-12 / 4 + 1e-18 / 12, rtol=1e-4)

    def test_any_variance_keeps_its_digits(self, rng):
        """With expm1 alone it is off by 1.5e-7 of itself at 1e-9, and negative at 1e-16."""
        sizes = np.concatenate([[1e-9, 1e-16], 10.0 ** rng.uniform(-150, 0, 300), [5.0, 30.0]])
        log_var = np.concatenate([sizes, -sizes])
        got = gaussian_kl(np.zeros((len(log_var), 1)), log_var[:, None], reduction="none")
        with mpmath.workprec(1100):
            want = [float((mpmath.exp(s) - 1 - mpmath.mpf(s)) / 2) for s in log_var.tolist()]
        np.testing.assert_allclose(got, want, rtol=2e-15)

    def test_the_gradient_has_both(self, rng):
        mean, log_var = rng.normal(size=(2, 4, 3))
        for g, want in zip(
            gaussian_kl_grad(mean, log_var), gaussian_kl_vjp(1.0, mean, log_var), strict=True
        ):
            np.testing.assert_array_equal(g, want)

    def test_float32_is_rounded_once(self, rng):
        mean, log_var = rng.normal(size=(2, 4, 3)).astype(np.float32)
        for got, want in zip(
            gaussian_kl_grad(mean, log_var),
            gaussian_kl_grad(mean.astype(float), log_var.astype(float)),
            strict=True,
        ):
            np.testing.assert_array_equal(got, want.astype(np.float32))

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'mean' must have at least 1 axis"):
            gaussian_kl(1.0, 1.0)
        with pytest.raises(ValueError, match=r"^Argument 'log_var' must have shape \(2, 3\)"):
            gaussian_kl(np.ones((2, 3)), np.ones(3))
        with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum'"):
            gaussian_kl_grad([1.0], [1.0], reduction="none")


class TestEstimates:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_the_third_keeps_its_digits(self, dtype):
        """The two subtractions cancel near 0; beyond, e^rho may almost overflow, or vanish."""
        sizes = np.concatenate([np.geomspace(1e-150, 1e-3, 40), np.linspace(1e-3, 3, 400), [700]])
        rho = np.concatenate([-sizes, sizes]).astype(dtype)
        got = kl_estimate(np.zeros_like(rho), rho, reduction="none")
        with mpmath.workprec(1100):
            exact = [mpmath.expm1(x) - x for x in map(mpmath.mpf, rho.tolist())]
        want = np.array([float(x) for x in exact])
        with np.errstate(over="ignore"):
            rounded = want.astype(dtype)
        units = abs(got - want)[rounded < np.inf] / np.spacing(rounded[rounded < np.inf])
        assert units.max() <= (12 if dtype is np.float64 else 0.501)

    def test_beyond_all_bounds(self):
        """A token that one of the two finds impossible."""
        got = kl_estimate([0, -np.inf, -1e308, np.nan], [-np.inf, 0, 0, 0], reduction="none")
        np.testing.assert_array_equal(got, [np.inf, np.inf, np.inf, np.nan])
        slope = kl_estimate_vjp(np.ones(2), [0.0, -np.inf], [-np.inf, 0.0], reduction="none")
        np.testing.assert_array_equal(slope[0], [1.0, -np.inf])

    @pytest.fixture
    def logs(self, rng):
        return np.log(rng.dirichlet(np.ones(9), 2))

    def test_means(self, logs):
        log_p, log_ref = logs
        p = np.exp(log_p)
        want = p @ (log_p - log_ref)
        for kind in ("k1", "k3"):
            got = p @ kl_estimate(log_p, log_ref, kind=kind, reduction="none")
            np.testing.assert_allclose(got, want, rtol=1e-14)

    def test_mean_gradients(self, logs):
        """By the logits: k1 none, k2 of the divergence, k3 of the other one."""
        log_p, log_ref = logs
        p, ref = np.exp(log_p), np.exp(log_ref)
        want = {
            "k1": np.zeros(9),
            "k2": p * (log_p - log_ref - p @ (log_p - log_ref)),
            "k3": p - ref,
        }
        for kind, of_logits in want.items():
            slope = p * kl_estimate_grad(log_p, log_ref, kind=kind, reduction="sum")
            got = slope - slope.sum() * p
            np.testing.assert_allclose(got, of_logits, rtol=0, atol=1e-15)

    def test_the_third_varies_less_near_the_reference(self, rng):
        start, drift = rng.normal(size=(2, 50))
        logs = [x - np.log(np.exp(x).sum()) for x in (start + 0.1 * drift, start)]
        p = np.exp(logs[0])
        spread = [
            p @ k**2 - (p @ k) ** 2
            for k in (kl_estimate(*logs, kind=kind, reduction="none") for kind in ("k1", "k3"))
        ]
        assert spread[1] < 0.05 * spread[0]

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'k1', 'k2' or 'k3'"):
            kl_estimate([0.0], [0.0], kind="k4")
        with pytest.raises(ValueError, match=r"^Argument 'log_ref' must have shape \(2,\)"):
            kl_estimate([0.0, 1.0], [0.0])


def exact_distillation(kind, T, z, t):
    """Return the loss of a row and both gradients by their definitions, in 700 digits."""
    mp = mpmath.mp
    if kind == "reverse":
        value, dt, dz = exact_distillation("kl", T, t, z)
        return value, dz, dt
    with mp.workdps(700):
        T = mp.mpf(T)
        rows = [[mp.mpf(float(a)) / T for a in row] for row in (z, t)]
        p, q = ([mp.exp(a - max(row)) for a in row] for row in rows)
        p, q = ([a / sum(row) for a in row] for row in (p, q))
        log_p, log_q = (
            [a - max(row) - mp.log(sum(mp.exp(b - max(row)) for b in row)) for a in row]
            for row in rows
        )
        if kind == "kl":
            gaps = [b - a for a, b in zip(log_p, log_q, strict=True)]
            value = sum(a * gap for a, gap in zip(q, gaps, strict=True))
            dz = [T * (a - b) for a, b in zip(p, q, strict=True)]
            return T**2 * value, dz, [T * a * (g - value) for a, g in zip(q, gaps, strict=True)]
        total, grads = 0, []
        for one, other in ((p, q), (q, p)):
            pairs = zip(one, other, strict=True)
            gaps = [mp.log(2 * a / (a + b)) if a else mp.mpf(0) for a, b in pairs]
            value = sum(a * gap for a, gap in zip(one, gaps, strict=True))
            grads.append([T / 2 * a * (gap - value) for a, gap in zip(one, gaps, strict=True)])
            total += T**2 / 2 * value
        return total, *grads


def loss_and_gradients(z, t, dout=1.0, **options):
    return distillation_loss(z, t, **options), *distillation_loss_vjp(dout, z, t, **options)


def assert_exact(kind, T, z, t, tolerance):
    """Compare the loss of a row and its gradients with their definitions."""
    got = loss_and_gradients(z, t, temperature=T, kind=kind)
    for one, exact in zip(got, exact_distillation(kind, T, z, t), strict=True):
        due = np.array(exact, float)
        np.testing.assert_allclose(one, due, rtol=0, atol=tolerance * abs(due).max())


class TestTemperatures:
    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    @pytest.mark.parametrize("T", [1e-100, 15.0, 16.0, 1e5, 1e17, 1e100])
    def test_exact(self, rng, kind, T):
        assert_exact(kind, T, *np.round(rng.normal(size=(2, 5)), 3), 1e-14)

    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    @pytest.mark.parametrize("T", [1.0, 3.0, 10.0, 16.0, 17.0, 100.0, 1e5])
    def test_logits_that_hardly_differ(self, kind, T, rng):
        """Differences of 1e-9 at logits of 3 were lost to 1e-6 where T is no power of two."""
        rows = [[3 + 1e-9, 1.0, 2.0], *rng.normal(size=(3, 3)) * 3]
        others = [[3.0, 1.0, 2.0], *(np.array(rows[1:]) + 1e-9 * rng.normal(size=(3, 3)))]
        for z, t in zip(rows, others, strict=True):
            assert_exact(kind, T, z, t, 4e-15)

    @pytest.mark.parametrize(("kind", "share"), [("kl", 0.5), ("reverse", 0.5), ("jsd", 0.125)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_limit_is_a_variance(self, rng, kind, share, dtype):
        T = 1e100
        z, t, dz = rng.normal(size=(3, 4, 6)).astype(dtype)
        d = z.astype(float) - t
        got = distillation_loss(z, t, temperature=T, kind=kind, reduction="none")
        assert got.dtype == dtype
        tolerance = 2e-15 if dtype == np.float64 else 1e-7
        np.testing.assert_allclose(got, share * np.var(d, axis=-1), rtol=tolerance)
        slope = 2 * share * (d - d.mean(-1, keepdims=True)) / 6
        grads = distillation_loss_vjp(
            np.ones(4, dtype), z, t, temperature=T, kind=kind, reduction="none"
        )
        for grad, want in zip(grads, (slope, -slope), strict=True):
            np.testing.assert_allclose(grad, want, rtol=0, atol=tolerance)
        moved = distillation_loss_jvp(
            (z, t), (dz, None), temperature=T, kind=kind, reduction="none"
        )
        np.testing.assert_allclose(moved, (slope * dz).sum(-1), rtol=0, atol=10 * tolerance)

    @pytest.mark.parametrize("T", [0.0, 1e-101, 1e101, np.inf, np.nan])
    def test_of_others_the_square_may_overflow(self, T):
        with pytest.raises(ValueError, match="'temperature' must be from 1e-100 to 1e\\+100, not"):
            distillation_loss([0.0, 1.0], [1.0, 0.0], temperature=T)

    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    @pytest.mark.parametrize("T", [1e-100, 0.5, 2000.0, 1e100])
    def test_a_class_that_both_exclude_is_none(self, rng, kind, T):
        z, t = rng.normal(size=(2, 3, 5)) * 20
        options = {"temperature": T, "kind": kind, "reduction": "none"}
        want = loss_and_gradients(z, t, np.ones(3), **options)
        z, t = (np.insert(a, 2, -np.inf, axis=-1) for a in (z, t))
        got = loss_and_gradients(z, t, np.ones(3), **options)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-13)
        for one, other in zip(got[1:], want[1:], strict=True):
            np.testing.assert_allclose(one, np.insert(other, 2, 0.0, axis=-1), rtol=1e-12)
            assert np.isfinite(one).all()

    @pytest.mark.parametrize("T", [1e-100, 1.0, 1e100])
    def test_infinite_losses(self, T):
        z, t = np.array([[-np.inf, 0.0, 1.0]]), np.array([[2.0, 0.0, 1.0]])
        assert distillation_loss(z, t, temperature=T) == np.inf
        for nothing in (z * np.nan, np.full((1, 3), -np.inf)):
            assert np.isnan(distillation_loss(nothing, nothing, temperature=T))


class TestPreferences:
    def test_it_is_the_loss_of_a_logit(self, rng):
        p, ref = rng.normal(size=(2, 2, 6))
        z = 0.1 * ((p - ref)[0] - (p - ref)[1])
        got = dpo_loss(p, ref, label_smoothing=0.2)
        np.testing.assert_allclose(got, binary_cross_entropy(z, np.full(6, 0.8)), rtol=1e-14)

    def test_a_common_shift_changes_nothing(self, rng):
        p, ref = np.rint(64 * rng.normal(size=(2, 2, 6))) / 8
        np.testing.assert_array_equal(dpo_loss(p - 50, ref), dpo_loss(p, ref))

    def test_far_pairs_are_finite(self):
        assert dpo_loss([1e5, 0.0], [0.0, 0.0]) == 0
        assert dpo_loss([0.0, 1e5], [0.0, 0.0]) == 1e4
        np.testing.assert_allclose(dpo_loss_grad([0.0, 1e5], [0.0, 0.0]), [-0.1, 0.1])

    @pytest.mark.parametrize("smoothing", [0.0, 1.0])
    def test_a_label_without_a_share_adds_nothing(self, smoothing):
        for better in (0, 1):
            p = np.zeros(2)
            p[1 - better] = -np.inf
            loss = dpo_loss(p, np.zeros(2), label_smoothing=smoothing)
            assert loss == (0.0 if better == smoothing else np.inf)
        assert dpo_loss([-np.inf, 0.0], [0.0, 0.0], label_smoothing=0.5) == np.inf

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'log_p' must have shape \(2, 4\), not"):
            dpo_loss(np.ones((3, 4)), np.ones((3, 4)))
        with pytest.raises(ValueError, match=r"^Argument 'beta' must be greater than 0, not 0"):
            dpo_loss([1.0, 2.0], [1.0, 2.0], beta=0)
        with pytest.raises(ValueError, match=r"^Argument 'label_smoothing' must be from 0 to 1"):
            dpo_loss([1.0, 2.0], [1.0, 2.0], label_smoothing=1.5)
        with pytest.raises(ValueError, match=r"^Argument 'label_smoothing' must be 0 for the kind"):
            dpo_loss([1.0, 2.0], [1.0, 2.0], kind="ipo", label_smoothing=0.1)
        with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'sigmoid', 'hinge' or"):
            dpo_loss([1.0, 2.0], [1.0, 2.0], kind="kto")

    def test_the_kink_of_the_hinge_has_slope_0(self):
        kinks = np.array([[10.0, 10.0 - 1e-9, 10.0 + 1e-9], [0.0, 0.0, 0.0]])
        grad = dpo_loss_grad(kinks, np.zeros((2, 3)), kind="hinge", reduction="sum")
        np.testing.assert_array_equal(grad, [[0.0, -0.1, 0.0], [0.0, 0.1, 0.0]])


class TestDistillation:
    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_pytorch(self, rng, kind, reduction):
        peers = pytest.importorskip("peers")

        def f(z, t):
            log_p, log_q = (x.div(2.5).log_softmax(-1) for x in (z, t))
            p, q = log_p.exp(), log_q.exp()
            log_m = ((p + q) / 2).log()
            of_p = (p * (log_p - log_m)).sum(-1)
            return (
                2.5**2
                * {
                    "kl": (q * (log_q - log_p)).sum(-1),
                    "reverse": (p * (log_p - log_q)).sum(-1),
                    "jsd": 0.5 * (of_p + (q * (log_q - log_m)).sum(-1)),
                }[kind]
            )

        options = {"temperature": 2.5, "kind": kind}

        inputs = rng.normal(size=(2, 4, 5))
        compare(peers, "distillation_loss", f, inputs, rng, reduction=reduction, **options)

    @pytest.mark.parametrize("beta", [1e-9, 0.01, 0.3, 0.9, 0.999])
    @pytest.mark.parametrize("spread", [1.0, 30.0, 300.0])
    def test_any_weight_in_long_doubles(self, rng, beta, spread):
        z, t = (spread * rng.normal(size=(2, 6, 5))).astype(np.longdouble)
        log_p, log_q = (x - np.logaddexp.reduce(x, -1, keepdims=True) for x in (z, t))
        weight = np.longdouble(beta)
        log_m = np.logaddexp(log_p + np.log1p(-weight), log_q + np.log(weight))
        of_p = np.exp(log_p) * (log_p - log_m)
        terms = (1 - weight) * of_p + weight * np.exp(log_q) * (log_q - log_m)
        got = distillation_loss(z.astype(float), t.astype(float), kind="jsd", beta=beta)
        want = float(np.mean(terms.sum(-1)))
        assert got == pytest.approx(want, rel=max(4e-15, 1e-16 / beta))

    @pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 0.9, 1.0])
    def test_generalized_divergence(self, rng, beta):
        """The lines of TRL's `generalized_jsd_loss`, in its order of student and teacher."""
        peers = pytest.importorskip("peers")
        kl_div = functools.partial(
            peers.torch.nn.functional.kl_div, reduction="none", log_target=True
        )

        def f(z, t):
            log_p, log_q = z.div(1.5).log_softmax(-1), t.div(1.5).log_softmax(-1)
            if beta == 0:
                jsd = kl_div(log_p, log_q)
            elif beta == 1:
                jsd = kl_div(log_q, log_p)
            else:
                logs = [log_p + np.log1p(-beta), log_q + np.log(beta)]
                mixture = peers.torch.logsumexp(peers.torch.stack(logs), dim=0)
                jsd = beta * kl_div(mixture, log_q) + (1 - beta) * kl_div(mixture, log_p)
            return 1.5**2 * jsd.sum(-1)

        options = {"temperature": 1.5, "kind": "jsd", "beta": beta}

        inputs = rng.normal(size=(2, 4, 5))
        compare(peers, "distillation_loss", f, inputs, rng, reduction="mean", **options)

    def test_the_weight_is_of_the_teacher(self, rng):
        z, t = rng.normal(size=(2, 4, 5))
        for beta in (0.0, 0.2, 0.5, 1.0):
            there = distillation_loss(z, t, kind="jsd", beta=beta)
            back = distillation_loss(t, z, kind="jsd", beta=1 - beta)
            assert there == pytest.approx(back, rel=1e-14)

    def test_near_the_ends_it_is_a_share_of_their_kinds(self, rng):
        z, t = rng.normal(size=(2, 4, 5))
        for beta, kind in ((1e-7, "kl"), (1 - 1e-7, "reverse")):
            got = distillation_loss(z, t, kind="jsd", beta=beta) / 1e-7
            assert got == pytest.approx(distillation_loss(z, t, kind=kind), rel=1e-5)

    def test_beta_is_from_0_to_1(self):
        with pytest.raises(ValueError, match=r"^Argument 'beta' must be from 0 to 1, not 1.5"):
            distillation_loss([1.0, 2.0], [1.0, 2.0], beta=1.5)

    def test_kl_div_of_pytorch(self, rng):
        torch = pytest.importorskip("torch")
        z, t = rng.normal(size=(2, 4, 5))
        log_p = torch.tensor(z / 3).log_softmax(-1)
        q = torch.tensor(t / 3).softmax(-1)
        want = 9 * torch.nn.functional.kl_div(log_p, q, reduction="batchmean").item()
        assert distillation_loss(z, t, temperature=3.0) == pytest.approx(want, rel=1e-14)

    def test_the_gradient_keeps_its_size(self, rng):
        z, t = rng.normal(size=(2, 6))
        limit = (z - z.mean() - t + t.mean()) / 6
        got = distillation_loss_grad(z, t, temperature=1e5)
        np.testing.assert_allclose(got, limit, rtol=1e-4)

    def test_the_third_is_symmetric_and_bounded(self, rng):
        z, t = 100 * rng.normal(size=(2, 50, 6))
        one = distillation_loss(z, t, kind="jsd", reduction="none")
        other = distillation_loss(t, z, kind="jsd", reduction="none")
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)
        assert one.max() <= np.log(2) * (1 + 1e-15)

    def test_near_distributions_keep_digits(self, rng):
        """To second order all are half the variance of the difference, the third a quarter."""
        z, d = rng.normal(size=(2, 6))
        p = np.exp(z) / np.exp(z).sum()
        want = 0.5 * (p @ d**2 - (p @ d) ** 2) * 1e-10
        for kind, factor in (("kl", 1.0), ("reverse", 1.0), ("jsd", 0.25)):
            got = distillation_loss(z, z + 1e-5 * d, kind=kind)
            np.testing.assert_allclose(got, factor * want, rtol=1e-4)

    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    def test_far_logits_are_finite(self, kind):
        z, t = [1000.0, 0.0], [0.0, 1000.0]
        assert np.isfinite(distillation_loss(z, t, kind=kind))
        assert np.all(np.isfinite(distillation_loss_grad(z, t, kind=kind)))

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'kl', 'reverse' or 'jsd'"):
            distillation_loss([1.0], [1.0], kind="js")
        with pytest.raises(ValueError, match=r"^Argument 'temperature' must be from 1e-100 to"):
            distillation_loss([1.0], [1.0], temperature=0)
        with pytest.raises(ValueError, match=r"^Argument 'logits' must have at least 1 axis"):
            distillation_loss(1.0, 1.0)


@pytest.mark.parametrize("f", [distillation_loss, gaussian_kl, kl_estimate])
def test_no_rows_have_no_loss(f):
    x = np.zeros((0, 3))
    assert f(x, x, reduction="sum") == 0


def test_no_pairs_of_answers_have_no_loss():
    x = np.zeros((2, 0))
    assert np.isnan(dpo_loss(x, x))
    assert dpo_loss(x, x, reduction="sum") == 0
    assert dpo_loss_grad(x, x).shape == (2, 0)


@pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
def test_a_student_near_its_teacher_keeps_digits(kind, rng):
    """Of second order: half the variance of the difference, an eighth of it for the third kind."""
    z, d = rng.normal(size=(2, 50))
    p = np.exp(z) / np.exp(z).sum()
    size = 1e-5
    got = distillation_loss(z + size * d, z, kind=kind) / size**2
    variance = p @ d**2 - (p @ d) ** 2
    np.testing.assert_allclose(got, variance * (0.125 if kind == "jsd" else 0.5), rtol=1e-4)


@pytest.mark.parametrize("gap", [0.3, 0.35, 0.6, 0.99, 1.01, 1.1, 5.0, 40.0, 800.0])
@pytest.mark.parametrize("sign", [-1, 1])
def test_two_classes_of_any_distance(gap, sign):
    """Every branch of a term, against logarithms of sums in long doubles."""
    z = np.array([sign * gap, 0.0])
    log_p = z.astype(np.longdouble) - np.logaddexp(np.longdouble(z[0]), 0)
    want = 0.5 * np.sum(np.log(0.5) - log_p)
    np.testing.assert_allclose(distillation_loss(z, [0.0, 0.0]), float(want), rtol=2e-14)
