"""Tests of dlref.check._derivatives."""

import contextlib
import sys
import types

import numpy as np
import peers
import pytest

from dlref import check, losses, neurons
from dlref.check import _derivatives, adjoint_gap, check_gradients, numerical_jacobian


@pytest.mark.parametrize(
    ("method", "bound"), [("central", 1e-9), ("ridders", 1e-11), ("complex", 1e-15)]
)
def test_a_jacobian_known_in_closed_form(method, bound, rng):
    A, x = rng.normal(size=(3, 2, 4)), rng.normal(size=4)
    f = lambda x: np.tanh(A @ x)  # noqa: E731
    want = (1 - np.tanh(A @ x) ** 2)[..., None] * A
    got = numerical_jacobian(f, x, method=method)
    assert got.shape == (3, 2, 4)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * 10)


def test_shapes():
    assert numerical_jacobian(np.sum, np.ones((2, 3))).shape == (2, 3)
    assert numerical_jacobian(lambda x: x, np.ones(())).shape == ()
    assert numerical_jacobian(lambda x: x, np.ones((2, 0))).shape == (2, 0, 2, 0)


def test_large_points_have_steps_of_their_size():
    got = numerical_jacobian(np.sqrt, 1e12)
    np.testing.assert_allclose(got, 0.5e-6, rtol=1e-10)


def test_the_complex_step_of_what_is_not_analytic_is_refused():
    for f in (np.abs, lambda x: (x * np.conj(x)).real, lambda x: np.real(x) ** 2):
        with pytest.raises(
            ValueError, match=r"^Argument 'f' must be analytic for the method 'comp"
        ):
            numerical_jacobian(f, np.array([1.0, -2.0]), method="complex")
    assert numerical_jacobian(np.exp, np.zeros(0), method="complex").shape == (0, 0)


def test_adjoint_gap_with_constants_and_several_inputs(rng):
    x, classes = rng.normal(size=(4, 5)), np.array([0, 1, 2, 3])
    assert (
        adjoint_gap(losses.cross_entropy_jvp, losses.cross_entropy_vjp, (x, classes), rng) < 1e-15
    )
    point = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), None
    assert adjoint_gap(neurons.linear_jvp, neurons.linear_vjp, point, rng) < 1e-15
    wrong = lambda dout, x, w, b: (dout @ w, 2 * dout.T @ x)  # noqa: E731
    assert adjoint_gap(neurons.linear_jvp, wrong, point, rng) > 1e-3
    with pytest.raises(ValueError, match="'f_vjp' must return 2 gradients"):
        adjoint_gap(neurons.linear_jvp, lambda u, *_: u, point, rng)


def test_adjoint_gap_of_several_outputs_and_nested_inputs(rng):
    jvp = lambda primals, tangents: (tangents[0] + tangents[1][0], tangents[1][0])  # noqa: E731
    vjp = lambda dout, x, pair: (dout[0], (dout[0] + dout[1],))  # noqa: E731
    assert adjoint_gap(jvp, vjp, (np.ones(3), (np.ones(3),)), rng) < 1e-15
    wrong = lambda dout, x, pair: (dout[0], (dout[1],))  # noqa: E731
    assert adjoint_gap(jvp, wrong, (np.ones(3), (np.ones(3),)), rng) > 1e-3


def test_adjoint_gap_of_nothing_is_zero(rng):
    zero = lambda *_: np.zeros(2)  # noqa: E731
    assert adjoint_gap(zero, zero, np.ones(2), rng) == 0


class TestCheckGradients:
    @staticmethod
    def f(x, w, n):
        return np.tanh(x @ w) * n, x * x

    @staticmethod
    def vjp(dout, x, w, n, bug=0.0):
        g = dout[0] * n * (1 - np.tanh(x @ w) ** 2)
        return g @ w.T + dout[1] * 2 * x, x.T @ g * (1 + bug)

    @pytest.mark.parametrize("fast", [False, True])
    @pytest.mark.parametrize("method", ["ridders", "complex"])
    @pytest.mark.parametrize("order", [1, 2])
    def test_right_and_wrong(self, fast, method, order, rng):
        point = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), 3
        options = {"fast": fast, "method": method, "order": order}
        good = check_gradients(self.f, self.vjp, *point, **options)
        assert good
        assert "all gradients are right" in str(good)
        assert np.isnan(good.gaps[2])
        wrong = lambda *a: list(self.vjp(*a, bug=1e-3))  # noqa: E731
        bad = check_gradients(self.f, wrong, *point, **options)
        assert not bad
        assert bad.gaps[0] < 1e-7 < bad.gaps[1]
        assert "the gradient of input 1 is off" in str(bad)
        assert check_gradients(self.f, wrong, *point, rtol=1e-2, **{**options, "order": 1})

    def test_the_second_order_finds_what_is_no_gradient(self, rng):
        x = rng.normal(size=3)
        curl = lambda u, x: u * np.roll(x, 1)  # noqa: E731
        got = check_gradients(lambda x: x * 0, curl, x, order=2, rng=rng)
        assert got.second > 0.01
        assert "the second order is off" in str(got)

    def test_shapes_and_infinities(self, rng):
        x = rng.normal(size=(2, 3))
        assert check_gradients(np.sin, lambda u, x: (u * np.cos(x))[0], x).gaps == (np.inf,)
        assert check_gradients(np.sin, lambda u, x: u * np.inf, x).gaps == (np.inf,)
        assert check_gradients(np.sin, lambda u, x: (None,), x).gaps == (np.inf,)
        for fast in (False, True):
            check = check_gradients(np.sin, lambda u, x: u * np.nan, x, fast=fast)
            assert not check
            assert "the gradient of input 0 is off by inf" in str(check)
        zero = lambda *a: np.zeros(2)  # noqa: E731
        assert check_gradients(zero, zero, np.ones(2), fast=True, order=2)
        assert check_gradients(lambda x: zero(), zero, np.ones(2), order=2).gaps == (0.0,)

    def test_the_second_order_of_gradients_of_another_shape(self, rng):
        check = check_gradients(np.sin, lambda u, x: np.ones((2, 3)), rng.normal(size=3), order=2)
        assert not check
        assert check.gaps == (np.inf,)
        assert check.second == np.inf

    def test_errors(self, rng):
        x = rng.normal(size=3)
        for no_array in ("abc", {"x": x}, len):
            with pytest.raises(TypeError, match=r"^Argument 'vjp' must return arrays of floats"):
                check_gradients(np.sin, lambda u, x, what=no_array: what, x)
        with pytest.raises(ValueError, match=r"^Argument 'vjp' must return 1 gradients, .* not 2"):
            check_gradients(np.sin, lambda u, x: (x, x), x)
        with pytest.raises(ValueError, match=r"^Argument 'f' must be analytic"):
            check_gradients(np.abs, lambda u, x: u * np.sign(x), x, method="complex")
        in_place = lambda u, x: np.multiply(u, np.cos(x), out=u)  # noqa: E731
        with pytest.raises(ValueError, match=r"^Argument 'vjp' must not write to"):
            check_gradients(np.sin, in_place, x)
        with pytest.raises(ValueError, match=r"^Argument 'f' must not write to"):
            check_gradients(lambda x: np.sin(x, out=x), lambda u, x: u * np.cos(x), x)
        with pytest.raises(ValueError, match=r"^Argument 'order'"):
            check_gradients(np.sin, np.cos, x, order=3)
        with pytest.raises(TypeError, match=r"^Argument 'rng'"):
            check_gradients(np.sin, np.cos, x, rng=3)


def test_errors(rng):
    with pytest.raises(ValueError, match=r"^Argument 'method' must be 'ridders', 'complex' or"):
        numerical_jacobian(np.sin, 1.0, method="forward")
    with pytest.raises(TypeError, match=r"^Argument 'rng' must be a numpy.random.Generator"):
        adjoint_gap(None, None, 1.0, 7)


def test_in_a_notebook_a_check_is_a_table():
    wrong = lambda u, x: 2 * u * np.cos(x)  # noqa: E731
    check = check_gradients(np.sin, wrong, np.ones(3))
    html = check._repr_html_()
    assert "the gradient of input 0 is off by" in html
    assert html.count("<tr><td>") == len(check.gaps) + 1
    second = check._replace(second=0.5)._repr_html_()
    assert "<td>the second order</td><td>0.5</td>" in second


def two(x):
    return np.sin(x), np.cos(x)


def two_vjp(dout, x):
    u, v = dout
    return (0.0 if u is None else u * np.cos(x)) - (0.0 if v is None else v * np.sin(x))


def test_missing_upstream_gradients_are_zeros():
    x = np.linspace(0.1, 1.0, 4)
    right = check.check_gradients(two, two_vjp, x, undefined=True)
    assert right
    assert right.undefined == 0.0

    def ones(dout, x):
        return two_vjp(tuple(np.ones_like(x) if u is None else u for u in dout), x)

    wrong = check.check_gradients(two, ones, x, undefined=True)
    assert str(wrong).startswith("the gradient where an upstream gradient is None is off by")
    assert "upstream gradient is None" in wrong._repr_html_()
    of_one_output = lambda u, x: None if u is None else u * np.cos(x)  # noqa: E731
    assert check.check_gradients(np.sin, of_one_output, x, undefined=True)
    few = lambda u, x: () if u is None else u * np.cos(x)  # noqa: E731
    assert not check.check_gradients(np.sin, few, x, undefined=True)


def test_batched_gradients_need_a_framework():
    for options in ({"batched": True}, {"vjp": "autograd"}):
        vjp = options.pop("vjp", lambda u, x: u)
        with pytest.raises(ValueError, match="framework"):
            check.check_gradients(lambda x: x, vjp, np.ones(2), **options)
    with pytest.raises(ValueError, match="vjp"):
        check.check_gradients(lambda x: x, "numeric", np.ones(2))


class Vmapped(types.ModuleType):
    """As much of torch.func and jax as the test of stacked gradients uses."""

    def vmap(self, f):
        return lambda stacked: self.each(f, stacked)

    def each(self, f, stacked):
        if isinstance(stacked, tuple):
            return np.stack([f(parts) for parts in zip(*stacked, strict=True)])
        return np.stack([f(part) for part in stacked])


@pytest.mark.parametrize("kind", ["torch", "jax"])
def test_stacked_upstream_gradients(monkeypatch, kind):
    module = Vmapped(kind)
    module.func = module
    monkeypatch.setitem(sys.modules, kind, module)
    monkeypatch.setattr(_derivatives, "framework_of", lambda *_: kind)
    monkeypatch.setattr(_derivatives, "calling", lambda _: contextlib.nullcontext())

    def handed(values, _):
        return [tuple(map(np.copy, a)) if isinstance(a, tuple) else np.copy(a) for a in values]

    monkeypatch.setattr(_derivatives, "handed", handed)
    x = np.linspace(0.1, 1.0, 4)
    assert check.check_gradients(np.sin, lambda u, x: u * np.cos(x), x, batched=True).batched == 0
    assert check.check_gradients(two, two_vjp, x, batched=True)
    seen = []

    def first(u, x):
        """Keep the upstream gradient of the first call."""
        seen.append(u)
        return seen[len(seen) // 6 * 4] * np.cos(x)

    wrong = check.check_gradients(np.sin, first, x, batched=True)
    assert "stacked upstream gradients" in str(wrong)


def test_gradients_by_torch():
    torch = peers.torch
    x = np.linspace(-1.0, 1.0, 5)
    options = {"framework": "torch", "order": 2, "batched": True, "undefined": True}
    silu = torch.nn.functional.silu
    assert check.check_gradients(silu, "autograd", x, framework="torch", order=2)

    def right(u, x):
        s = torch.sigmoid(x)
        return (0 if u is None else u) * s * (1 + x * (1 - s))

    assert check.check_gradients(silu, right, x, **options)

    def stateful(u, x):
        return right(u, x) * (1 if u is None or u.ndim == 1 else 2) + (u is None)

    assert "is None is off" in str(check.check_gradients(silu, stateful, x, **options))


def test_gradients_by_jax():
    jax = pytest.importorskip("jax")
    x = np.linspace(-1.0, 1.0, 5)
    options = {"framework": "jax", "order": 2, "batched": True}
    right = lambda u, x: jax.vjp(jax.nn.silu, x)[1](u)[0]  # noqa: E731
    assert check.check_gradients(jax.nn.silu, right, x, **options)
    assert check.check_gradients(jax.nn.silu, "autograd", x, **options)
