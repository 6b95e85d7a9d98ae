"""Tests of KERPLE and FIRE."""

import tracemalloc

import numpy as np
import peers
import pytest

import dlref.positions as P


def kerple(torch, r1, r2, kind, T, S):
    d = (torch.arange(T)[:, None] - torch.arange(S)).clamp(min=0).double()
    if kind == "log":
        return -r1[:, None, None] * torch.log(1 + r2[:, None, None] * d)
    return -r1[:, None, None] * d ** r2[:, None, None]


@pytest.mark.parametrize("kind", ["log", "power"])
def test_kerple_against_pytorch(kind, rng):
    r1, r2 = rng.uniform(0.2, 2, size=(2, 4))
    f = lambda a, b: kerple(peers.torch, a, b, kind, 9, 11)  # noqa: E731
    sizes = {"T": 9, "S": 11}
    peers.assert_same("positions.kerple_bias", f, r1, r2, rng=rng, kind=kind, **sizes)


@pytest.mark.parametrize("kind", ["log", "power"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_kerple_of_a_cache_is_the_last_rows(kind, symmetric):
    options = {"kind": kind, "symmetric": symmetric}
    whole = P.kerple_bias([1.0, 2.0], [0.5, 1.5], 10, 10, **options)
    last = P.kerple_bias([1.0, 2.0], [0.5, 1.5], 3, 10, q_offset=7, **options)
    np.testing.assert_array_equal(last, whole[:, 7:])
    assert not np.signbit(whole[whole == 0]).any()


@pytest.mark.parametrize(("kind", "r2"), [("log", 3.0), ("power", 0.5), ("power", 2.0)])
def test_kerple_is_conditionally_positive_definite(kind, r2, rng):
    bias = P.kerple_bias(1.0, r2, 30, 30, kind=kind, symmetric=True)
    for _ in range(20):
        v = rng.normal(size=30)
        v -= v.mean()
        assert v @ bias @ v >= -1e-10


@pytest.mark.parametrize(
    ("kind", "r2", "definite"),
    [("log", 3.0, True), ("power", 0.5, True), ("power", 1.9, True), ("power", 2.0, False)],
)
def test_kerple_plus_a_constant_is_positive_definite_but_for_the_power_2(kind, r2, definite):
    bias = P.kerple_bias(1.0, r2, 6, 6, kind=kind, symmetric=True)
    for constant in (1e2, 1e3, 1e4, 1e5):
        assert (np.linalg.eigvalsh(bias + constant).min() > 0) == definite


def test_kerple_is_not_conditionally_positive_definite_above_the_power_2():
    bias = P.kerple_bias(1.0, 2.5, 3, 3, kind="power", symmetric=True)
    v = np.array([1.0, -2.0, 1.0])
    assert v @ bias @ v < 0


def fire(torch, T, S):
    def f(w1, b1, w2, b2, c, threshold):
        i, j = torch.arange(T).double()[:, None], torch.arange(S).double()
        least = torch.maximum(i, threshold)
        u = torch.log((c * (i - j)).abs() + 1) / torch.log((c * least).abs() + 1)
        hidden = torch.relu(u[..., None] * w1 + b1)
        return (hidden @ w2.T + b2).permute(2, 0, 1)

    return f


def test_fire_against_pytorch(rng):
    sizes, F, H = {"T": 12, "S": 9}, 32, 4
    parameters = [
        rng.normal(size=F), rng.normal(size=F), rng.normal(size=(H, F)), rng.normal(size=H),
        0.3, 5.5,
    ]  # fmt: skip
    f = fire(peers.torch, *sizes.values())
    peers.assert_same("positions.fire_bias", f, *parameters, rng=rng, tolerance=1e-14, **sizes)


def test_fire_of_earlier_keys_stays_in_the_trained_range():
    bias = P.fire_bias([1.0], [0.0], [[1.0]], [0.0], 0.1, 8.0, 400, 400)[0]
    seen = np.tril(bias)
    assert seen.max() == 1.0
    np.testing.assert_allclose(seen[8:, 0], 1.0, rtol=1e-15)
    short = P.fire_bias([1.0], [0.0], [[1.0]], [0.0], 0.1, 8.0, 8, 8)[0]
    for k in range(8):  # below the threshold it depends on the offset alone
        assert len(set(np.diagonal(short, -k).round(14))) == 1


def test_fire_holds_the_hidden_units_of_one_query(rng):
    T, S, F = 400, 500, 8
    parameters = [*(rng.normal(size=s) for s in ((F,), (F,), (2, F), (2,))), 1.0, 3.0]
    P.fire_bias(*parameters, T, S)
    peaks = []
    for _ in range(3):  # threads of pytest and coverage may allocate meanwhile
        tracemalloc.start()
        bias = P.fire_bias(*parameters, T, S)
        peaks.append(tracemalloc.get_traced_memory()[1] - bias.nbytes)
        tracemalloc.stop()
    assert min(peaks) < 8 * S * F * 8 < T * S * 8


def test_fire_without_hidden_units():
    bias = P.fire_bias([], [], np.zeros((2, 0)), [3.0, 4.0], 1.0, 2.0, 3, 5)
    np.testing.assert_array_equal(bias, np.broadcast_to([[[3.0]], [[4.0]]], (2, 3, 5)))


def test_fire_slope_where_the_threshold_is_a_position():
    parameters = [1.0], [0.0], [[1.0]], [0.0], 1.0
    rate = P.fire_bias_jvp((*parameters, 1.0), (None, None, None, None, None, 1.0), 2, 2)
    assert rate[0, 1, 0] < 0  # the maximum is taken to move with the threshold
    assert P.fire_bias_vjp(np.ones((1, 2, 2)), *parameters, 1.0, 2, 2)[-1] < 0


@pytest.mark.parametrize("name", ["r1", "r2"])
def test_kerple_errors(name):
    good = {"r1": np.ones(2), "r2": np.ones(2), "T": 2, "S": 2}
    with pytest.raises(ValueError, match=rf"^Argument '{name}' must be positive, not -1"):
        P.kerple_bias(**{**good, name: np.array([1.0, -1.0])})
    with pytest.raises(ValueError, match=r"^Argument 'r2' must have shape"):
        P.kerple_bias(**{**good, name: np.ones(3)})
    with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'log' or 'power'"):
        P.kerple_bias(**good, kind="exp")
    with pytest.raises(ValueError, match=r"^Argument 'T' must be at least 1, not 0"):
        P.kerple_bias(**{**good, "T": 0})


@pytest.mark.parametrize(
    ("position", "bad", "message"),
    [
        (0, np.ones((2, 2)), r"'w1' must have 1 axes"),
        (1, np.ones(4), r"'b1' must have shape \(3,\)"),
        (2, np.ones(3), r"'w2' must have 2 axes"),
        (2, np.ones((2, 4)), r"'w2' must have shape \(2, 3\)"),
        (3, np.ones(3), r"'b2' must have shape \(2,\)"),
        (4, np.ones(1), r"'c' must have shape \(\)"),
        (4, -1.0, r"'c' must be positive, not -1"),
        (5, 0.0, r"'threshold' must be positive, not 0"),
    ],
)
def test_fire_errors(position, bad, message):
    parameters = [np.ones(3), np.ones(3), np.ones((2, 3)), np.ones(2), 1.0, 1.0]
    parameters[position] = bad
    with pytest.raises(ValueError, match=f"^Argument {message}"):
        P.fire_bias(*parameters, 2, 2)
