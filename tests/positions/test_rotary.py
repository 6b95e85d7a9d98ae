"""Tests of dlref.positions._rotary and of the circle below it."""

import time
from fractions import Fraction

import exact
import ml_dtypes
import numpy as np
import pytest
from mpmath import mp, mpf

import dlref.positions as P
from dlref._core.jit import COMPILED
from dlref.positions._kernels.circle import circles

BASE = 10000.0


def frequencies(pairs):
    return BASE ** (-np.arange(pairs) / pairs)


def exact_circles(positions, f):
    with mp.workdps(60):
        angles = [mpf(float(p)) * mpf(float(w)) for p in positions for w in f]
        return [mp.cos(a) for a in angles], [mp.sin(a) for a in angles]


class TestCircle:
    """The tables against 60 digits."""

    @pytest.mark.parametrize(
        ("most", "bound"), [(100, 0.8), (10**6, 0.8), (2**31, 0.8), (2**43, 4.0)]
    )
    def test_accuracy(self, most, bound, rng):
        count = 300 if COMPILED else 10
        positions = np.array([0, 1, most, -most, *rng.integers(-most, most, count)], float)
        f = frequencies(16)
        for got, want in zip(circles(positions, f), exact_circles(positions, f), strict=True):
            assert exact.ulp_errors(got.ravel(), want).max() <= bound

    def test_float32_tables_at_a_million(self, rng):
        positions, f = 1_000_000 - rng.integers(0, 1000, 40), frequencies(32)
        tables = P.rope_tables(positions, f)
        for got, want in zip(tables, exact_circles(positions, f), strict=True):
            narrow = got.astype(np.float32).ravel()
            assert exact.ulp_errors(narrow, want).max() <= 0.501

    def test_float32_rows_by_the_addition_theorem(self, rng):
        count = 70 if COMPILED else 3
        f = np.array([2.0, 1.0, 0.01, 1e-7, 0.0], np.float32)
        many = [*range(-count, count), *rng.integers(0, 2**20, count), 0.5, 31.5]
        positions = np.array(many, np.float32)
        tables = P.rope_tables(positions, f)
        for got, want in zip(tables, exact_circles(positions, f), strict=True):
            assert got.dtype == np.float32
            assert exact.ulp_errors(got.ravel(), want).max() <= 0.501
        order = rng.permutation(len(positions))
        for got, want in zip(P.rope_tables(positions[order], f), tables, strict=True):
            np.testing.assert_array_equal(got, want[order])

    def test_float32_near_zero(self):
        p, turns = np.meshgrid(np.arange(100.0, 3000.0), np.arange(20.0))  # angles close to k pi
        f = (np.pi * (turns + p // 3) / p).astype(np.float32)
        best = np.argsort(abs(np.sin(p * f)), axis=None)[: 60 if COMPILED else 8]
        p, f = p.ravel()[best].astype(np.float32), f.ravel()[best]
        sines = np.diag(P.rope_tables(p, f)[1])
        assert (abs(sines) < 1e-6).all()
        want = [exact_circles([a], [b])[1][0] for a, b in zip(p, f, strict=True)]
        assert exact.ulp_errors(sines, want).max() <= 0.501

    def test_multiples_of_a_quarter(self):
        cos, sin = P.rope_tables([0.0, -0.0], [1.0, -2.0])
        np.testing.assert_array_equal(cos, 1)
        np.testing.assert_array_equal(sin, 0)

    @pytest.mark.parametrize(("dim", "loss"), [(64, 0.04), (128, 0.06)])
    def test_what_a_float32_angle_loses_at_a_million(self, dim, loss):
        p, f = np.arange(998_000, 1_000_001), P.rope_frequencies(dim)
        angle = np.multiply.outer(p.astype(np.float32), f.astype(np.float32))
        for table, rounded in zip(P.rope_tables(p, f), (np.cos, np.sin), strict=True):
            assert abs(rounded(angle.astype(float)) - table).max() == pytest.approx(loss, rel=0.05)

    def test_angles_up_to_two_to_the_49_turns(self):
        for table in P.rope_tables([3.5e15, -3.5e15, 3.6e15], [1.0]):
            assert np.isnan(table[:, 0]).tolist() == [False, False, True]

    @pytest.mark.parametrize("p", [np.nan, np.inf, -np.inf, 1e17, 1e300])
    def test_what_has_no_angle_is_nan(self, p):
        for dtype in (np.float32, np.float64):
            with np.errstate(over="ignore"):
                positions, f = np.array([p, 1.0], dtype), np.ones(1, dtype)
            for table in P.rope_tables(positions, f):
                assert np.isnan(table[:, 0]).tolist() == [True, False]

    def test_late_positions_are_a_part_of_the_table(self):
        f = frequencies(4)
        for whole, late in zip(
            P.rope_tables(np.arange(50), f), P.rope_tables(np.arange(40, 50), f), strict=True
        ):
            np.testing.assert_array_equal(whole[40:], late)

    def test_factor(self):
        f = frequencies(4)
        for table, scaled in zip(
            P.rope_tables([3, 5], f), P.rope_tables([3, 5], f, attention_factor=1.5), strict=True
        ):
            np.testing.assert_array_equal(1.5 * table, scaled)


class TestForms:
    """The complex, the matrix and the pairwise form are one map."""

    def test_complex(self, rng, assert_close):
        x, p, f = rng.normal(size=(2, 5, 8)), np.arange(7, 12), frequencies(4)
        z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * np.multiply.outer(p, f))
        want = np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
        assert_close(P.apply_rope(x, *P.rope_tables(p, f)), want)

    def test_matrix(self, rng, assert_close):
        x, p, f = rng.normal(size=(2, 5, 8)), np.arange(7, 12), frequencies(4)
        want = np.einsum("tij,btj->bti", P.rope_matrix(p, f), x)
        assert_close(P.apply_rope(x, *P.rope_tables(p, f)), want)

    @pytest.mark.parametrize("m", [0, 3, 1000])
    def test_positions_add_where_rotations_multiply(self, m, assert_close):
        f = frequencies(4)
        assert_close(P.rope_matrix(m, f) @ P.rope_matrix(9, f), P.rope_matrix(m + 9, f))
        assert_close(P.rope_matrix(m, f).T @ P.rope_matrix(m, f), np.eye(8))

    @pytest.mark.parametrize("rotary_dim", [0, 4, 8])
    def test_halves_are_a_permutation_of_neighbours(self, rotary_dim, rng):
        x, tables = (
            rng.normal(size=(3, 5, 8)),
            P.rope_tables(np.arange(5), frequencies(rotary_dim // 2)),
        )
        perm = np.r_[P.rope_permutation(rotary_dim), rotary_dim:8]
        neighbors = P.apply_rope(x, *tables, rotary_dim=rotary_dim)
        halves = P.apply_rope(x[..., perm], *tables, interleaved=False, rotary_dim=rotary_dim)
        np.testing.assert_array_equal(halves, neighbors[..., perm])

    @pytest.mark.parametrize("interleaved", [True, False])
    @pytest.mark.parametrize("rotary_dim", [0, 4, 8, None])
    def test_last_channels(self, interleaved, rotary_dim, rng):
        torch = pytest.importorskip("torch")
        x, u, R = *rng.normal(size=(2, 3, 5, 8)), 8 if rotary_dim is None else rotary_dim
        tables = P.rope_tables(np.arange(5), frequencies(R // 2))
        cos, sin = (torch.tensor(table) for table in tables)
        leaf = torch.tensor(x, requires_grad=True)
        kept, turned = leaf[..., : 8 - R], leaf[..., 8 - R :]
        split = turned.unflatten(-1, (-1, 2) if interleaved else (2, -1))
        a, b = split.unbind(-1 if interleaved else -2)
        pair = torch.stack([a * cos - b * sin, a * sin + b * cos], -1 if interleaved else -2)
        want = torch.cat([kept, pair.flatten(-2)], -1)
        want.backward(torch.tensor(u))
        options = {"interleaved": interleaved, "rotary_dim": rotary_dim, "rotary_last": True}
        got = P.apply_rope(x, *tables, **options)
        np.testing.assert_allclose(got, want.detach(), rtol=0, atol=4e-15)
        grad = P.apply_rope_vjp(u, x, *tables, **options)
        np.testing.assert_allclose(grad, leaf.grad, rtol=0, atol=4e-15)
        pushed = P.apply_rope_jvp((x, *tables), (u, None, None), **options)
        np.testing.assert_array_equal(pushed, P.apply_rope(u, *tables, **options))

    @pytest.mark.parametrize("dim", [0, 2, 8, 14])
    def test_permutation(self, dim):
        want = [*range(0, dim, 2), *range(1, dim, 2)]
        assert P.rope_permutation(dim).tolist() == want


class TestRotation:
    @pytest.mark.parametrize("interleaved", [True, False])
    def test_lengths_are_kept_and_position_zero_is_the_identity(self, interleaved, rng):
        x, f = rng.normal(size=(6, 32)), frequencies(16)
        y = P.apply_rope(x, *P.rope_tables(np.arange(6), f), interleaved=interleaved)
        np.testing.assert_allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1))
        np.testing.assert_array_equal(y[0], x[0])
        assert np.all(y[1:] != x[1:])

    @pytest.mark.parametrize("interleaved", [True, False])
    def test_vjp_turns_back(self, interleaved, rng, assert_close):
        x, tables = rng.normal(size=(6, 32)), P.rope_tables(np.arange(6), frequencies(16))
        y = P.apply_rope(x, *tables, interleaved=interleaved)
        assert_close(P.apply_rope_vjp(y, x, *tables, interleaved=interleaved), x)

    def test_the_factor_squares(self, rng, assert_close):
        x = rng.normal(size=(6, 32))
        tables = P.rope_tables(np.arange(6), frequencies(16), attention_factor=2.0)
        assert_close(P.apply_rope_vjp(P.apply_rope(x, *tables), x, *tables), 4 * x)

    def test_positions_of_each_sequence(self, rng):
        x, f = rng.normal(size=(2, 3, 4, 8)), frequencies(4)
        positions = np.array([[0, 1, 2, 3], [0, 0, 5, 6]])
        together = P.apply_rope(x, *(t[:, None] for t in P.rope_tables(positions, f)))
        for got, one, p in zip(together, x, positions, strict=True):
            np.testing.assert_array_equal(got, P.apply_rope(one, *P.rope_tables(p, f)))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
    def test_the_tables_do_not_widen_the_result(self, dtype):
        tables = P.rope_tables([1, 2], [1.0, 0.1])
        x = np.ones((2, 4), dtype)
        assert P.apply_rope(x, *tables).dtype == dtype
        assert P.apply_rope_vjp(x, x, *tables).dtype == dtype
        assert P.apply_rope_jvp((x, *tables), (x, None, None)).dtype == dtype

    def test_large_input_in_two_threads(self, rng):
        x, tables = rng.normal(size=(3, 700, 128)), P.rope_tables(np.arange(700), frequencies(64))
        for interleaved in (True, False):
            got = P.apply_rope(x, *tables, interleaved=interleaved)
            want = P.apply_rope(x[2, 600:], *(t[600:] for t in tables), interleaved=interleaved)
            np.testing.assert_array_equal(got[2, 600:], want)


def test_error_is_below_two_roundings_of_the_length_and_not_below_one_and_a_half(rng):
    count = 20_000
    x, phi = rng.normal(size=(count, 2)), rng.uniform(0, 7, count)
    c, s = np.cos(phi), np.sin(phi)
    got = P.apply_rope(x, c[:, None], s[:, None])
    worst = 0.0
    for a, b, c_, s_, y in zip(x[:, 0], x[:, 1], c, s, got[:, 0], strict=True):
        error = Fraction(float(y)) - (Fraction(a) * Fraction(c_) - Fraction(b) * Fraction(s_))
        worst = max(worst, abs(float(error)) / np.hypot(a, b))
    assert 1.5 * 2.0**-53 < worst <= 2 * 2.0**-53


class TestScore:
    @pytest.mark.parametrize("interleaved", [True, False])
    @pytest.mark.parametrize("start", [0, 1000, 100_000])
    def test_depends_on_the_offset_only(self, start, interleaved, rng):
        q, k = rng.normal(size=(2, 64))
        q, k, f = q / np.linalg.norm(q), k / np.linalg.norm(k), frequencies(32)
        offsets = np.arange(-10, 11)
        turned = [
            P.apply_rope(v, *P.rope_tables(p, f), interleaved=interleaved)
            for v, p in ((q[None], [start]), (np.tile(k, (21, 1)), start + offsets))
        ]
        want = turned[1] @ turned[0][0]
        got = P.rope_score(q, k, offsets, f, interleaved=interleaved)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)

    def test_even_for_equal_vectors_only(self, rng):
        q, k, f, r = *rng.normal(size=(2, 8)), frequencies(4), np.arange(1, 11)
        np.testing.assert_allclose(P.rope_score(q, q, r, f), P.rope_score(q, q, -r, f))
        assert abs(P.rope_score(q, k, r, f) - P.rope_score(q, k, -r, f)).min() > 1e-3

    def test_a_fifth_of_the_energy_is_odd(self, rng):
        q, k = rng.normal(size=(2, 4000, 1, 8))
        r = np.arange(1, 11)
        there, back = (P.rope_score(q, k, s * r, frequencies(4)) for s in (1, -1))
        odd = ((there - back) ** 2).sum() / (((there - back) ** 2 + (there + back) ** 2).sum())
        assert 0.15 < odd < 0.25

    def test_no_decay_for_independent_vectors(self, rng):
        q, k = rng.normal(size=(2, 20000, 1, 8))
        scores = P.rope_score(q, k, [0, 1, 10, 100, 10_000], frequencies(4))
        rms = np.sqrt((scores**2).mean(0) / 8)
        np.testing.assert_allclose(rms, 1, atol=0.03)

    def test_decay_of_the_mean_for_equal_vectors(self):
        f = frequencies(64)
        mean = 2 * np.cos(np.multiply.outer([0, 1, 5, 100, 1000, 10_000], f)).sum(-1) / 128
        np.testing.assert_allclose(mean, [1.0, 0.97, 0.74, 0.48, 0.16, -0.03], atol=0.006)
        ones = np.tile([1.0, 0.0], 64)
        got = P.rope_score(ones, ones, [0, 1, 5, 100, 1000, 10_000], f) / 64
        np.testing.assert_allclose(got, mean, atol=1e-14)


@pytest.mark.parametrize("interleaved", [True, False])
def test_pytorch(interleaved, rng):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    angles = np.multiply.outer(np.arange(100, 110), frequencies(8))

    def turned(t):
        phase = torch.polar(torch.ones(angles.shape, dtype=torch.float64), torch.tensor(angles))
        if interleaved:
            z = torch.view_as_complex(t.reshape(*t.shape[:-1], 8, 2))
            return torch.view_as_real(z * phase).flatten(-2)
        z = torch.complex(t[..., :8], t[..., 8:]) * phase
        return torch.cat([z.real, z.imag], -1)

    x, tables = rng.normal(size=(3, 10, 16)), (np.cos(angles), np.sin(angles))
    peers.assert_same(
        "positions.apply_rope", turned, x, constants=tables, rng=rng, interleaved=interleaved
    )


class TestErrors:
    X, T = np.ones((3, 6)), np.ones((3, 3))

    @pytest.mark.parametrize(
        ("rotary_dim", "words"),
        [
            (5, "'rotary_dim' must be even, not 5"),
            (8, "'rotary_dim' must be at most 6, not 8"),
            (-2, "'rotary_dim' must be at least 0, not -2"),
        ],
    )
    def test_rotary_dim(self, rotary_dim, words):
        with pytest.raises(ValueError, match=rf"^Argument {words}\.$"):
            P.apply_rope(self.X, self.T, self.T, rotary_dim=rotary_dim)

    def test_rotary_dim_must_be_an_integer(self):
        with pytest.raises(TypeError, match=r"^Argument 'rotary_dim' must be an integer, not 4\.0"):
            P.apply_rope(self.X, self.T, self.T, rotary_dim=4.0)

    def test_rotary_last_must_be_a_bool(self):
        with pytest.raises(TypeError, match=r"^Argument 'rotary_last' must be True or False"):
            P.apply_rope(self.X, self.T, self.T, rotary_last=1)

    def test_odd_width(self):
        words = r"^Argument 'x' must have an even number of channels, not shape \(3, 5\)\.$"
        with pytest.raises(ValueError, match=words):
            P.apply_rope(np.ones((3, 5)), self.T, self.T)

    def test_scalars(self):
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
            P.apply_rope(1.0, self.T, self.T)
        with pytest.raises(ValueError, match=r"^Argument 'cos' must have at least 1 axis"):
            P.apply_rope(self.X, 1.0, self.T)
        for q, k in ((1.0, [1.0, 2.0]), ([1.0, 2.0], 1.0)):
            with pytest.raises(ValueError, match=r"^Argument '[qk]' must have at least 1 axis"):
                P.rope_score(q, k, 0, [1.0])

    def test_tables_of_other_shapes(self):
        with pytest.raises(ValueError, match=r"^Argument 'cos' must have shape \(3, 3\), not"):
            P.apply_rope(self.X, np.ones((3, 6)), np.ones((3, 6)))
        with pytest.raises(ValueError, match=r"^Argument 'sin' must have shape \(3, 3\), not"):
            P.apply_rope(self.X, self.T, np.ones((2, 3)))
        words = r"^Argument 'cos' must have batch axes that broadcast to \(3,\), not \(4,\)\.$"
        with pytest.raises(ValueError, match=words):
            P.apply_rope(self.X, np.ones((4, 3)), np.ones((4, 3)))
        with pytest.raises(ValueError, match=r"^Argument 'cos' must have batch axes"):
            P.apply_rope(self.X, np.ones((2, 3, 3)), np.ones((2, 3, 3)))

    def test_a_table_has_no_tangent(self):
        words = r"^Argument 'tangents\[2\]' must be None, as it belongs to a constant, not an array"
        with pytest.raises(ValueError, match=words):
            P.apply_rope_jvp((self.X, self.T, self.T), (self.X, None, self.T))

    def test_frequencies_have_one_axis(self):
        for f in (P.rope_angles, P.rope_tables, P.rope_matrix):
            with pytest.raises(ValueError, match=r"^Argument 'frequencies' must have shape \(2,\)"):
                f([1, 2], np.ones((1, 2)))

    def test_positions_of_wrong_dtype(self):
        words = r"^Argument 'positions' must be integer, float16, bfloat16, float32 or float64, not"
        with pytest.raises(TypeError, match=words):
            P.rope_tables(np.ones(2, complex), [1.0])
        with pytest.raises(TypeError, match=words):
            P.rope_angles(["a"], [1.0])

    def test_score_of_other_shapes(self):
        for q, k in ((np.ones(4), np.ones(2)), (np.ones(2), np.ones(4))):
            with pytest.raises(ValueError, match=r"^Argument '[qk]' must have shape \(2,\), not"):
                P.rope_score(q, k, 0, [1.0])
        with pytest.raises(ValueError, match=r"^Argument 'k' must have batch axes that broadcast"):
            P.rope_score(np.ones((2, 2)), np.ones((3, 2)), 0, [1.0])
        words = r"^Argument 'offset' must have batch axes that broadcast with \(3,\), not \(2,\)"
        with pytest.raises(ValueError, match=words):
            P.rope_score(np.ones((3, 2)), np.ones(2), [0, 1], [1.0])

    @pytest.mark.parametrize("dim", [3, -2])
    def test_permutation(self, dim):
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be"):
            P.rope_permutation(dim)


class TestOnlyOrthogonalMaps:
    """One linear map of queries and keys whose scores depend on the offset alone."""

    @staticmethod
    def varies(for_q, for_k):
        """Say whether the score of an offset depends on the position of the query."""
        q, k = np.random.default_rng(0).normal(size=(2, 2))
        power = np.linalg.matrix_power
        scores = [(power(for_q, m) @ q) @ (power(for_k, m + 3) @ k) for m in range(5)]
        return bool(np.ptp(scores) > 1e-3)

    def test_rotations_and_reflections_do(self):
        rotation = P.rope_matrix(1, [0.5])
        assert not self.varies(rotation, rotation)
        assert not self.varies(np.diag([1.0, -1.0]), np.diag([1.0, -1.0]))

    def test_others_do_not(self):
        rotation = P.rope_matrix(1, [0.5])
        for other in (1.1 * rotation, np.array([[1.0, 1.0], [0.0, 1.0]])):
            assert self.varies(other, other)

    def test_two_maps_need_not_be_rotations(self):
        rotation = P.rope_matrix(1, [0.5])
        assert not self.varies(rotation / 1.1, rotation * 1.1)


@pytest.mark.skipif(not COMPILED, reason="of 200 000 scores")
def test_how_near_a_score_comes_to_that_at_zero_depends_on_the_vector(rng):
    f, late = P.rope_frequencies(64), np.arange(1000, 200_000)

    def again(q):
        return P.rope_score(q, q, late, f).max() / (q @ q)

    assert again(np.ones(64)) < 0.5
    assert again(np.eye(64)[0]) > 0.9999
    assert all(again(q) > 0.5 for q in rng.normal(size=(3, 64)))


def test_score_has_a_period_where_frequencies_are_rational():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 8))
    f, r, period = P.rope_frequencies(8), np.linspace(0, 50, 101), 2000 * np.pi
    here = P.rope_score(q, k, r, f)
    np.testing.assert_allclose(P.rope_score(q, k, r + period, f), here, atol=1e-10)
    for shorter in (period / 2, period / 5, period / 10):
        assert abs(P.rope_score(q, k, r + shorter, f) - here).max() > 0.1


@pytest.mark.skipif(not COMPILED, reason="times of compiled code")
def test_tables_cost_less_than_the_rotation_of_eight_heads():
    """docs/questions.rst says so: computed once, they serve all heads."""
    positions, f, x = np.arange(2048), P.rope_frequencies(64), np.ones((8, 2048, 64))
    tables = P.rope_tables(positions, f)

    def shortest(function, *arguments):
        times = []
        for _ in range(15):
            start = time.perf_counter()
            function(*arguments)
            times.append(time.perf_counter() - start)
        return min(times)

    of_tables = shortest(P.rope_tables, positions, f)
    assert of_tables < shortest(P.apply_rope, x, *tables)


def test_sinusoids_are_shifted_by_the_transpose():
    for shift in (1, -3, 1000):
        rotation = P.rope_matrix(shift, P.rope_frequencies(16))
        np.testing.assert_allclose(P.sinusoidal_shift(shift, 16), rotation.T, atol=1e-12)
        assert abs(P.sinusoidal_shift(shift, 16) - rotation).max() > 0.1


@pytest.mark.parametrize(("factor", "even"), [(1.0, True), (-2.5, True), (None, False)])
def test_which_scores_have_no_odd_part(rng, factor, even):
    """Equal vectors, and others: a multiple is enough."""
    q, k = rng.normal(size=(2, 64))
    k = k if factor is None else factor * q
    r, theta = np.arange(1, 61), P.rope_frequencies(64)
    odd = P.rope_score(q, k, r, theta) - P.rope_score(q, k, -r, theta)
    assert (abs(odd).max() < 1e-11) == even
