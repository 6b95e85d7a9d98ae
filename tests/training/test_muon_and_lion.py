"""Tests of Newton–Schulz, Muon and Lion."""

import numpy as np
import pytest

from dlref.training import (
    LionState,
    MuonState,
    lion_step,
    muon_step,
    newton_schulz,
)

CONVERGING = (15 / 8, -10 / 8, 3 / 8)


def with_values(rng, rows, columns, values):
    """Return a matrix with these singular values."""
    u = np.linalg.qr(rng.normal(size=(rows, rows)))[0][:, : len(values)]
    v = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:, : len(values)]
    return u @ np.diag(values) @ v.T, u, v


class TestNewtonSchulz:
    @pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3)])
    def test_singular_values_follow_the_polynomial(self, shape, rng):
        values = np.array([1.0, 0.3, 0.02])
        x, u, v = with_values(rng, *shape, values)
        s = values / np.linalg.norm(values)
        for steps in range(7):
            want = u @ np.diag(s) @ v.T
            np.testing.assert_allclose(
                newton_schulz(x, steps=steps), want, rtol=0, atol=1e-15 * 3.4445**steps
            )
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5

    def test_five_steps_bring_them_between_068_and_113(self):
        s = np.linspace(0.0052, 1, 20_001)
        for steps in (5, 6, 20):
            x = s.copy()
            for _ in range(steps):
                x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
            assert [x.min().round(2), x.max().round(2)] == [0.68, 1.13]
        s = 0.0051  # a smaller one is above it after five steps
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        assert s > 1.135

    @pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)])
    def test_the_polar_factor_is_the_limit(self, shape, rng):
        x = rng.normal(size=shape)
        u, _, vt = np.linalg.svd(x, full_matrices=False)
        got = newton_schulz(x, steps=40, coefficients=CONVERGING)
        np.testing.assert_allclose(got, u @ vt, rtol=0, atol=1e-13)

    def test_each_matrix_of_a_stack_by_itself(self, rng):
        x = rng.normal(size=(2, 3, 4, 5)) * np.array([1.0, 1e6, 1e-4])[:, None, None]
        got = newton_schulz(x)
        for i in np.ndindex(2, 3):
            np.testing.assert_allclose(got[i], newton_schulz(x[i]), rtol=1e-13, atol=1e-14)

    def test_the_size_cancels_also_where_its_square_overflows(self, rng):
        x = rng.normal(size=(3, 4))
        want = newton_schulz(x)
        for scale in (2.0**1000, 2.0**-20):
            np.testing.assert_allclose(newton_schulz(scale * x), want, rtol=1e-14)
        single = x.astype(np.float32)
        large = newton_schulz(np.float32(2.0**120) * single)
        assert large.dtype == np.float32
        np.testing.assert_allclose(large, newton_schulz(single), rtol=1e-5)

    def test_short_matrices_are_divided_by_eps(self):
        got = newton_schulz([[1e-8, 0.0], [0.0, 0.0]], steps=0)
        np.testing.assert_allclose(got, [[0.1, 0], [0, 0]])
        np.testing.assert_array_equal(newton_schulz(np.zeros((2, 3))), np.zeros((2, 3)))
        assert newton_schulz(np.zeros((0, 3))).shape == (0, 3)
        assert newton_schulz(np.zeros((2, 3, 0))).shape == (2, 3, 0)

    def test_pytorch(self, rng, monkeypatch):
        torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
        x = rng.normal(size=(5, 7))
        step = torch.optim._muon._zeropower_via_newtonschulz
        rounded = step(torch.tensor(x), (3.4445, -4.7750, 2.0315), 5, 1e-7).double().numpy()
        assert 1e-4 < np.abs(rounded - newton_schulz(x)).max() < 5e-2  # in bfloat16
        monkeypatch.setattr(torch.Tensor, "bfloat16", lambda t: t.clone())
        for matrix in (x, x.T.copy(), 1e-9 * x):
            want = step(torch.tensor(matrix), (3.4445, -4.7750, 2.0315), 5, 1e-7)
            np.testing.assert_allclose(newton_schulz(matrix), want.numpy(), rtol=0, atol=4e-15)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 2 axes"):
            newton_schulz(np.ones(3))
        with pytest.raises(TypeError, match=r"^Argument 'coefficients' must be a tuple of 3 numb"):
            newton_schulz(np.eye(2), coefficients=(1.0, 2.0))
        with pytest.raises(TypeError, match=r"^Argument 'coefficients\[1\]' must be a number"):
            newton_schulz(np.eye(2), coefficients=(1.0, None, 0.0))
        with pytest.raises(ValueError, match=r"^Argument 'eps' must be greater than 0"):
            newton_schulz(np.eye(2), eps=0)
        with pytest.raises(ValueError, match=r"^Argument 'steps' must be at least 0"):
            newton_schulz(np.eye(2), steps=-1)


class TestMuon:
    @pytest.mark.parametrize(
        ("options", "theirs"),
        [
            ({}, {}),
            ({"momentum": 0.5, "nesterov": False}, {"momentum": 0.5, "nesterov": False}),
            ({"weight_decay": 0.0, "steps": 3}, {"weight_decay": 0.0, "ns_steps": 3}),
            ({"adjust": "match_rms_adamw"}, {"adjust_lr_fn": "match_rms_adamw"}),
            (
                {"coefficients": CONVERGING, "eps": 0.3},
                {"ns_coefficients": CONVERGING, "eps": 0.3},
            ),
        ],
    )
    def test_pytorch(self, options, theirs, rng, monkeypatch):
        torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
        monkeypatch.setattr(torch.Tensor, "bfloat16", lambda t: t.clone())
        params, state = (rng.normal(size=(3, 2)), rng.normal(size=(3, 5))), None
        tensors = [torch.tensor(p, requires_grad=True) for p in params]
        optimizer = torch.optim.Muon(tensors, lr=0.1, **theirs)
        for rate in np.linspace(0.1, 0.01, 20):
            grads = tuple(rng.normal(size=p.shape) for p in params)
            params, state = muon_step(params, grads, state, learning_rate=rate, **options)
            for tensor, g in zip(tensors, grads, strict=True):
                tensor.grad = torch.tensor(g)
            optimizer.param_groups[0]["lr"] = float(rate)
            optimizer.step()
            for p, tensor in zip(params, tensors, strict=True):
                np.testing.assert_allclose(p, tensor.detach().numpy(), rtol=0, atol=1e-12)
        assert state.step == 20

    def test_the_buffer_of_jordan_takes_the_same_steps(self, rng):
        """His code adds the gradient with the factor 1; the size cancels in the step."""
        p = q = np.zeros((3, 4))
        buffer, state = np.zeros((3, 4)), None
        for g in rng.normal(size=(10, 3, 4)):
            buffer = 0.95 * buffer + g
            q = q - 0.1 * newton_schulz(g + 0.95 * buffer)
            p, state = muon_step(p, g, state, learning_rate=0.1, weight_decay=0)
            np.testing.assert_allclose(p, q, rtol=0, atol=1e-13)

    def test_the_root_mean_square_of_a_step(self, rng):
        for shape in ((64, 16), (16, 64), (32, 32)):
            options = {"coefficients": CONVERGING, "steps": 40, "weight_decay": 0}
            g, w = rng.normal(size=shape), np.zeros(shape)
            step, _ = muon_step(w, g, None, learning_rate=1, **options)
            want = max(1, shape[0] / shape[1]) / max(shape)
            assert np.mean(step**2) == pytest.approx(want, rel=1e-12)
            step, _ = muon_step(w, g, None, learning_rate=1, adjust="match_rms_adamw", **options)
            assert np.sqrt(np.mean(step**2)) == pytest.approx(0.2, rel=1e-12)

    def test_dtypes_and_structure(self):
        params = (np.ones((2, 3), np.float32), (None, np.ones((1, 2))))
        moved, state = muon_step(params, params, None, learning_rate=0.1)
        assert isinstance(state, MuonState)
        assert (state.mean[0].dtype, state.mean[1][0]) == (np.float32, None)
        assert (moved[0].dtype, moved[1][1].dtype) == (np.float32, np.float64)
        _, second = muon_step(moved, params, state, learning_rate=0.1)
        assert second.step == 2
        assert muon_step(np.zeros((3, 0)), np.zeros((3, 0)), None, learning_rate=1)[0].size == 0

    def test_errors(self):
        w = np.eye(2)
        with pytest.raises(ValueError, match=r"^Argument 'params' must hold matrices, with 2 axes"):
            muon_step((w, np.ones(2)), (w, np.ones(2)), None, learning_rate=1)
        with pytest.raises(ValueError, match=r"^Argument 'params' must hold matrices, with 2 axes"):
            muon_step(np.ones((4, 3, 2, 2)), np.ones((4, 3, 2, 2)), None, learning_rate=1)
        with pytest.raises(ValueError, match=r"^Argument 'adjust' must be 'original' or "):
            muon_step(w, w, None, learning_rate=1, adjust="none")
        with pytest.raises(ValueError, match=r"^Argument 'momentum' must be from 0 to 1"):
            muon_step(w, w, None, learning_rate=1, momentum=1.5)
        with pytest.raises(ValueError, match=r"^Argument 'grads' must have the structure"):
            muon_step((w,), (None,), None, learning_rate=1)
        _, state = muon_step(w, w, None, learning_rate=1)
        with pytest.raises(ValueError, match=r"^Argument 'state' must come from a step with these"):
            muon_step(np.eye(3), np.eye(3), state, learning_rate=1)
        with pytest.raises(TypeError, match=r"^Argument 'state' must be MuonState"):
            muon_step(w, w, (1, w, w), learning_rate=1)


class TestLion:
    def test_the_program_of_the_paper(self, rng):
        """Program 1 of Chen et al., line by line; the learning rate multiplies the decay too."""
        rate, decay = 0.1, 0.3
        w = p = rng.normal(size=(3, 2))
        m, state = np.zeros((3, 2)), None
        for g in rng.normal(size=(20, 3, 2)):
            update = np.sign((1 - 0.9) * g + 0.9 * m)
            m = (1 - 0.99) * g + 0.99 * m
            w = w - (update + w * decay) * rate
            p, state = lion_step(p, g, state, learning_rate=rate, weight_decay=decay)
            np.testing.assert_allclose(p, w, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(state.mean, m, rtol=1e-13, atol=1e-15)
        assert isinstance(state, LionState)
        assert state.step == 20

    def test_with_equal_betas_it_is_the_sign_of_the_mean(self, rng):
        p, state = np.zeros(5), None
        for g in rng.normal(size=(10, 5)):
            q, state = lion_step(p, g, state, learning_rate=0.5, betas=(0.9, 0.9))
            np.testing.assert_allclose(p - q, 0.5 * np.sign(state.mean))
            p = q

    @pytest.mark.parametrize("beta", [0, 0.75])
    def test_with_equal_betas_it_is_signum(self, rng, beta):
        """The sign of the momentum, which is the mean that Lion keeps; of the gradient, without."""
        w = p = rng.normal(size=5)
        m, state = np.zeros(5), None
        for g in rng.normal(size=(10, 5)):
            m = beta * m + (1 - beta) * g
            w = w - 0.25 * np.sign(m)
            p, state = lion_step(p, g, state, learning_rate=0.25, betas=(beta, beta))
            np.testing.assert_allclose(p, w, rtol=0, atol=4e-15)

    def test_weights_stay_within_the_bound(self, rng):
        p, state = rng.uniform(-4, 4, 50), None
        for _ in range(200):
            g = rng.normal(size=50) * 10.0 ** rng.uniform(-9, 9)
            p, state = lion_step(p, g, state, learning_rate=0.5, weight_decay=0.25)
            assert np.abs(p).max() <= 4

    def test_dtype(self):
        p, state = lion_step(np.ones(3, np.float32), [1.0, 0.0, -1.0], None, learning_rate=0.5)
        np.testing.assert_array_equal(p, np.array([0.5, 1, 1.5], np.float32), strict=True)
        assert state.mean.dtype == np.float32

    def test_errors(self):
        with pytest.raises(TypeError, match=r"^Argument 'betas' must be a tuple of 2 numbers"):
            lion_step(1.0, 1.0, None, learning_rate=1, betas=0.9)
        with pytest.raises(ValueError, match=r"^Argument 'betas\[1\]' must be less than 1"):
            lion_step(1.0, 1.0, None, learning_rate=1, betas=(0.9, 1.0))
        with pytest.raises(ValueError, match=r"^Argument 'weight_decay' must be at least 0"):
            lion_step(1.0, 1.0, None, learning_rate=1, weight_decay=-1)
