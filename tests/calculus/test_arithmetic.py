"""Tests of the arithmetic operations."""

import numpy as np
import pytest

from dlref import calculus

W, X = np.array([2.0, 3, 4]), np.array([5.0, 6, 7])
SHAPES = [((3,), (3,)), ((3,), ()), ((4, 1, 3), (2, 1)), ((1,), (5,))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("stem", "torch_name"),
    [("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "div")],
)
def test_pytorch(stem, torch_name, shapes, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    f = getattr(peers.torch, torch_name)
    w, x = (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape) for shape in shapes)
    peers.assert_same(f"calculus.{stem}", f, w, x, rng=rng)
    assert_close(getattr(calculus, f"{stem}_jacobian")(w, x), peers.jacobians(f, w, x))


class TestPrintedValues:
    """The vectors w = (2, 3, 4), x = (5, 6, 7) of the checklist, rows A1 to A6."""

    @pytest.mark.parametrize(
        ("stem", "by_w", "by_x"),
        [
            ("add", [1, 1, 1], [1, 1, 1]),
            ("subtract", [1, 1, 1], [-1, -1, -1]),
            ("multiply", [5, 6, 7], [2, 3, 4]),
            (
                "divide",
                [0.2, 0.16666667, 0.14285714],
                [-0.08, -0.08333333, -0.08163265],
            ),
        ],
    )
    def test_jacobians_are_diagonal(self, stem, by_w, by_x):
        jacobians = getattr(calculus, f"{stem}_jacobian")(W, X)
        for jac, diagonal in zip(jacobians, (by_w, by_x), strict=True):
            np.testing.assert_allclose(jac, np.diag(diagonal), rtol=0, atol=5e-9)
            assert not np.signbit(jac[~np.eye(3, dtype=bool)]).any()

    @pytest.mark.parametrize("z", [5.0, [5.0]])
    def test_scalar_expansion(self, z):
        x = np.array([1.0, 2, 3])
        column = (3, *np.shape(z))
        J_x, J_z = calculus.add_jacobian(x, z)
        np.testing.assert_array_equal(J_x, np.eye(3))
        np.testing.assert_array_equal(J_z, np.ones(column))
        J_x, J_z = calculus.multiply_jacobian(x, z)
        np.testing.assert_array_equal(J_x, 5 * np.eye(3))
        np.testing.assert_array_equal(J_z, x.reshape(column))


class TestEdges:
    def test_sums_over_a_batch_are_accumulated_in_float64(self):
        # 2**24 + 1 is no float32: added up in float32, one by one, the sum would stick
        _, dz = calculus.add_vjp(
            np.array([2.0**24, 1, 1, 1], np.float32), np.zeros(4, np.float32), np.float32(0)
        )
        assert dz == 2.0**24 + 4  # 2**24 + 3, rounded to even

    def test_quotient_neither_overflows_nor_vanishes_on_the_way(self):
        for size in (1e-170, 1e170):
            _, dx = calculus.divide_vjp(1.0, size, size)
            np.testing.assert_allclose(dx, -1 / size, rtol=1e-15)

    def test_division_by_zero_is_ieee(self):
        J_w, J_x = calculus.divide_jacobian([1.0, 0.0], [0.0, 0.0])
        np.testing.assert_array_equal(J_w.diagonal(), [np.inf, np.inf])
        np.testing.assert_array_equal(J_x.diagonal(), [-np.inf, np.nan])

    def test_quotient_is_rounded_once_in_float32(self):
        w, x = np.float32(1.1), np.float32(3.3)
        _, dx = calculus.divide_vjp(np.float32(1), w, x)
        assert dx == np.float32(-np.float64(w) / np.float64(x) ** 2)


class TestErrors:
    @pytest.mark.parametrize("stem", ["add", "subtract", "multiply", "divide"])
    def test_shapes_that_do_not_broadcast(self, stem):
        words = r"must have shapes that broadcast, not \(2,\) and \(3,\)\.$"
        for form, arguments in (("jacobian", ()), ("vjp", (np.ones(2),))):
            f = getattr(calculus, f"{stem}_{form}")
            with pytest.raises(ValueError, match=r"^Arguments 'w' and 'x' " + words):
                f(*arguments, np.ones(2), np.ones(3))
        with pytest.raises(
            ValueError, match=r"^Arguments 'primals\[0\]' and 'primals\[1\]' " + words
        ):
            getattr(calculus, f"{stem}_jvp")((np.ones(2), np.ones(3)), (None, None))
