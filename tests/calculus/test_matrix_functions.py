"""Tests of trace, inverse and log-determinant."""

import numpy as np
import pytest
from mpmath import mp

from dlref import calculus


@pytest.fixture(params=[(3, 3), (2, 4, 4), (1, 1)], ids=str)
def a(request, rng):
    shape = request.param
    return 3 * np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, shape)


@pytest.mark.parametrize(
    ("stem", "torch_f"),
    [
        ("inverse", lambda torch: torch.linalg.inv),
        ("logdet", lambda torch: lambda a: torch.linalg.slogdet(a)[1]),
        ("trace", lambda torch: lambda a: torch.einsum("...ii->...", a)),
    ],
)
def test_pytorch(stem, torch_f, a, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    peers.assert_same(f"calculus.{stem}", torch_f(peers.torch), a, rng=rng)


def test_solve_of_pytorch(a, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    b = rng.normal(size=(*a.shape[:-1], 2))
    peers.assert_same("calculus.solve", peers.torch.linalg.solve, a, b, rng=rng)
    if a.ndim == 2:
        peers.assert_same("calculus.solve", peers.torch.linalg.solve, a, b[:, 0], rng=rng)


def test_solve_of_the_identity_is_the_inverse(a, rng):
    u, e = rng.normal(size=a.shape), np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    da, _ = calculus.solve_vjp(u, a, e)
    np.testing.assert_allclose(da, calculus.inverse_vjp(u, a), rtol=1e-12, atol=1e-14)


def test_solve_of_a_badly_conditioned_matrix(rng):
    """The error is proportional to the condition number, where an inverse squares it."""
    left, right = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    a = left * np.geomspace(1, 1e-8, 6) @ right
    b, u = rng.normal(size=(2, 6))
    da, db = calculus.solve_vjp(u, a, b)
    with mp.workdps(60):
        exact = mp.matrix(a.tolist())
        y, g = exact**-1 * mp.matrix(b), exact.T**-1 * mp.matrix(u)
        for got, want in ((db[:, None], g), (da, -g * y.T)):
            assert mp.norm(mp.matrix(got.tolist()) - want) < 1e-7 * mp.norm(want)


@pytest.mark.parametrize("shape", [(2,), (3, 3, 1), (2, 3), ()])
def test_right_hand_sides_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"^Argument 'b' must have shape \(3, k\), not"):
        calculus.solve_vjp(np.ones(shape), np.eye(3), np.ones(shape))
    with pytest.raises(ValueError, match=r"^Argument 'primals\[1\]' must have shape \(3, k\), not"):
        calculus.solve_jvp((np.eye(3), np.ones(shape)), (None, None))


def test_inverse_jacobian_of_pytorch(rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    a = 3 * np.eye(3) + rng.uniform(-0.5, 0.5, (3, 3))
    assert_close((calculus.inverse_jacobian(a),), peers.jacobians(peers.torch.linalg.inv, a))


def test_logdet_of_a_negative_determinant():
    a = np.array([[0.0, 2.0], [1.0, 0.0]])  # det = -a12 a21, so the slopes are 1 / a12, 1 / a21
    np.testing.assert_array_equal(calculus.logdet_grad(a), [[0, 0.5], [1, 0]])


def test_trace_reads_the_diagonal_only():
    grad = calculus.trace_vjp(np.inf, np.zeros((2, 2)))
    np.testing.assert_array_equal(grad, [[np.inf, 0], [0, np.inf]])


@pytest.mark.parametrize(
    "call",
    [
        lambda a: calculus.inverse_vjp(np.ones(a.shape), a),
        calculus.inverse_jacobian,
        calculus.logdet_grad,
        lambda a: calculus.logdet_vjp(np.ones(a.shape[:-2]), a),
        lambda a: calculus.solve_vjp(np.ones(a.shape), a, np.ones(a.shape)),
    ],
)
class TestErrors:
    def test_singular(self, call):
        with pytest.raises(np.linalg.LinAlgError, match=r"^Argument 'a' must be invertible, not"):
            call(np.ones((2, 2)))

    @pytest.mark.parametrize("shape", [(3,), (2, 3)])
    def test_not_square(self, call, shape):
        with pytest.raises(
            ValueError, match=r"^Argument 'a' must have shape \(\.\.\., n, n\), not"
        ):
            call(np.ones(shape))


def test_singular_in_forward_mode():
    with pytest.raises(np.linalg.LinAlgError, match=r"^Argument 'primals' must be invertible"):
        calculus.inverse_jvp(np.zeros((2, 2)), None)
    with pytest.raises(np.linalg.LinAlgError, match=r"^Argument 'primals\[0\]' must be invertible"):
        calculus.solve_jvp((np.zeros((2, 2)), np.ones(2)), (None, None))


def test_error_of_the_inverse_grows_with_the_condition_number(rng):
    """The relative error of the vjp is proportional to it, not to its square."""
    left, right = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    errors = []
    for kappa in (1e2, 1e5, 1e8):
        s = np.geomspace(1, 1 / kappa, 6)
        u = rng.normal(size=(6, 6))
        got = calculus.inverse_vjp(u, left * s @ right)
        a = mp.matrix((left * s @ right).tolist())
        with mp.workdps(60):
            y = (a**-1).T
            want = -y * mp.matrix(u.tolist()) * y
            errors.append(float(mp.norm(mp.matrix(got.tolist()) - want) / mp.norm(want)) / kappa)
    assert max(errors) < 1e-15


def test_a_trace_that_overflows_does_not_warn():
    assert calculus.trace_jvp(np.eye(2), np.full((2, 2), 1e308)) == np.inf
