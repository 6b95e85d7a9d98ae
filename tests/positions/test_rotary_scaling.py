"""Tests of dlref.positions._rotary_scaling."""

import numpy as np
import pytest
from mpmath import mp, mpf

import dlref.positions as P

LENGTH = "original_max_position_embeddings"
YARN = {"type": "yarn", "factor": 10.0, LENGTH: 2048, "beta_fast": 32, "beta_slow": 1}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    LENGTH: 8192,
}
LONGROPE = {"type": "longrope", "short_factor": [1, 2], "long_factor": [3.0, 8.0], LENGTH: 4096}
PLAIN = P.rope_frequencies(128)


@pytest.mark.parametrize("factor", [None, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_proportional(share, factor):
    options = {"rope_type": "proportional", "partial_rotary_factor": share, "factor": factor}
    turning = int(share * 128 / 2)
    want = [PLAIN[i] / (factor or 1.0) if i < turning else 0.0 for i in range(64)]
    np.testing.assert_array_equal(P.rope_frequencies(128, scaling=options), want)


def test_a_unit_in_the_last_place_moves_fast_pairs_most():
    moved = 1e6 * (np.nextafter(PLAIN, 2) - PLAIN)[1:]
    assert 1e-10 < moved.max() < 1.2e-10
    assert moved.min() < 1e-13


@pytest.mark.parametrize("base", [10_000, 500_000.0, 1e6, 1.5])
@pytest.mark.parametrize("dim", [2, 64, 96, 128, 1000])
def test_powers_are_rounded_once(dim, base):
    got = P.rope_frequencies(dim, base=base)
    with mp.workdps(60):
        want = [float(mpf(base) ** (-mpf(2 * i) / dim)) for i in range(dim // 2)]
    assert got.tolist() == want


@pytest.mark.parametrize("scaling", [None, {"type": "default"}, {"rope_type": "default"}])
def test_plain(scaling):
    np.testing.assert_array_equal(P.rope_frequencies(128, scaling=scaling), PLAIN)
    assert P.rope_attention_factor(scaling) == 1.0


class TestLiterals:
    """Numbers that Transformers' own tests expect, for width 128, base 10 000 and L = 2048."""

    def test_dynamic(self):
        scaling = {"type": "dynamic", "factor": 10.0, LENGTH: 2048}
        got = P.rope_frequencies(128, scaling=scaling, seq_len=16384)
        want = [1.0920e-05, 8.8374e-06, 7.1522e-06, 5.7883e-06, 4.6845e-06, 3.7912e-06]
        np.testing.assert_allclose(got[-10:-4], want, rtol=5e-5)
        np.testing.assert_allclose(got[-1], 1.6265e-06, rtol=5e-5)

    def test_yarn(self):
        got = P.rope_frequencies(128, scaling=YARN)
        want = [1.0000e-01, 8.3479e-02, 6.9590e-02, 5.7925e-02, 4.8136e-02, 3.9931e-02, 3.3061e-02]
        np.testing.assert_allclose(got[16:23], want, rtol=5e-5)
        np.testing.assert_allclose(
            got[38:42], [8.7713e-04, 6.2810e-04, 4.3007e-04, 2.7384e-04], 5e-5
        )
        np.testing.assert_array_equal(got[:17], PLAIN[:17])
        np.testing.assert_allclose(got[41:], PLAIN[41:] / 10, rtol=1e-15)

    def test_llama3(self):
        scaling = {**LLAMA3, "factor": 10.0, LENGTH: 2048}
        got = P.rope_frequencies(128, scaling=scaling)
        want = [1.0730e-02, 7.7785e-03, 5.6009e-03, 3.9991e-03, 2.8248e-03]
        np.testing.assert_allclose(got[31:36], want, rtol=5e-5)
        np.testing.assert_allclose(
            got[36:41], [1.9675e-03, 1.3449e-03, 8.9549e-04, 5.7363e-04, 3.4539e-04], 5e-5
        )
        np.testing.assert_array_equal(got[:31], PLAIN[:31])


class TestWavelengths:
    def test_linear(self):
        got = P.rope_frequencies(128, scaling={"type": "linear", "factor": 4})
        np.testing.assert_array_equal(got, PLAIN / 4)

    @pytest.mark.parametrize("factor", [1.0, 2.0, 8.0])
    def test_ntk_keeps_the_first_and_scales_the_last(self, factor):
        got = P.rope_frequencies(128, scaling={"type": "ntk", "factor": factor})
        assert got[0] == 1.0
        np.testing.assert_allclose(got[-1], PLAIN[-1] / factor, rtol=1e-15)
        base = 10000.0 * factor ** (128 / 126)
        np.testing.assert_allclose(got, P.rope_frequencies(128, base=base), rtol=1e-13)

    @pytest.mark.parametrize("length", [None, 0, 1, 4096])
    def test_dynamic_waits_for_long_texts(self, length):
        scaling = {"type": "dynamic", "factor": 2.0, LENGTH: 4096}
        np.testing.assert_array_equal(
            P.rope_frequencies(128, scaling=scaling, seq_len=length), PLAIN
        )

    def test_dynamic_is_ntk_with_a_growing_factor(self):
        scaling = {"type": "dynamic", "factor": 2.0, LENGTH: 4096}
        got = P.rope_frequencies(128, scaling=scaling, seq_len=3 * 4096)
        want = P.rope_frequencies(128, scaling={"type": "ntk", "factor": 5.0})
        np.testing.assert_array_equal(got, want)

    def test_yarn_without_rounding(self):
        got = P.rope_frequencies(128, scaling={**YARN, "truncate": False})
        kept = np.flatnonzero(got == PLAIN)
        index = lambda turns: 64 * np.log(2048 / (2 * np.pi * turns)) / np.log(10000.0)  # noqa: E731
        assert kept.max() == int(index(32))
        scaled = np.flatnonzero(np.isclose(got, PLAIN / 10, rtol=1e-12))
        assert scaled.min() == int(np.ceil(index(1)))

    def test_yarn_with_an_empty_ramp(self):
        same = {**YARN, "beta_fast": 1.0, "truncate": False}
        got = P.rope_frequencies(128, scaling=same) / PLAIN
        assert set(np.round(got, 12)) == {1.0, 0.1}

    def test_llama3_of_the_published_model(self):
        theta = P.rope_frequencies(128, base=500_000.0)
        got = P.rope_frequencies(128, base=500_000.0, scaling=LLAMA3)
        wavelength = 2 * np.pi / theta
        np.testing.assert_array_equal(got[wavelength < 2048], theta[wavelength < 2048])
        np.testing.assert_allclose(got[wavelength > 8192], theta[wavelength > 8192] / 8, rtol=1e-15)
        between = (wavelength > 2048) & (wavelength < 8192)
        assert between.sum() == 6
        assert np.all((got < theta) & (got > theta / 8) == between)

    @pytest.mark.parametrize(
        ("length", "factors"), [(None, [1, 2]), (4096, [1, 2]), (4097, [3, 8])]
    )
    def test_longrope(self, length, factors):
        got = P.rope_frequencies(4, scaling=LONGROPE, seq_len=length)
        np.testing.assert_array_equal(got, P.rope_frequencies(4) / np.array(factors))

    def test_pairs_that_saw_a_part_of_their_circle(self):
        wavelength = 2 * np.pi / PLAIN
        assert np.sum(wavelength > 4096) == 18
        assert wavelength.max() == pytest.approx(54410, abs=1)

    def test_missing_means_none(self):
        got = P.rope_frequencies(128, scaling={**YARN, "mscale": None, "attention_factor": None})
        np.testing.assert_array_equal(got, P.rope_frequencies(128, scaling=YARN))


class TestAttentionFactor:
    def test_yarn(self):
        assert P.rope_attention_factor(YARN) == 0.1 * np.log(10.0) + 1
        assert P.rope_attention_factor({**YARN, "factor": 1}) == 1.0
        assert P.rope_attention_factor({**YARN, "attention_factor": 0.5}) == 0.5

    def test_yarn_with_mscale(self):
        deepseek = {**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}
        assert P.rope_attention_factor(deepseek) == 1.0
        got = P.rope_attention_factor({**deepseek, "mscale_all_dim": 0.5})
        assert got == pytest.approx((0.1 * np.log(40) + 1) / (0.05 * np.log(40) + 1), rel=1e-15)
        zero = P.rope_attention_factor({**deepseek, "mscale_all_dim": 0})
        assert zero == 0.1 * np.log(40.0) + 1

    def test_longrope(self):
        assert P.rope_attention_factor(LONGROPE) == 1.0
        want = np.sqrt(1 + np.log(32.0) / np.log(4096.0))
        assert P.rope_attention_factor({**LONGROPE, "factor": 32}) == pytest.approx(want, rel=1e-15)
        phi3 = P.rope_attention_factor(LONGROPE, max_position_embeddings=131072)
        assert phi3 == pytest.approx(1.1902380714, abs=1e-10)
        assert P.rope_attention_factor(LONGROPE, max_position_embeddings=10) == 1.0

    @pytest.mark.parametrize("kind", ["linear", "ntk"])
    def test_others(self, kind):
        assert P.rope_attention_factor({"type": kind, "factor": 4}) == 1.0


STEEP = {**LLAMA3, "low_freq_factor": 4, "high_freq_factor": 1}
UNSURE = {**YARN, "truncate": "no"}


class TestErrors:
    @pytest.mark.parametrize("dim", [3, 0, -2])
    def test_dim(self, dim):
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be"):
            P.rope_frequencies(dim)

    @pytest.mark.parametrize("base", [1.0, 0.0, -3.0, np.nan])
    def test_base(self, base):
        with pytest.raises(ValueError, match=r"^Argument 'base' must be greater than 1, not"):
            P.rope_frequencies(4, base=base)

    @pytest.mark.parametrize(
        "scaling", [{}, {"type": "su"}, {"type": ["a"]}, {"type": "ntk", "rope_type": "yarn"}]
    )
    def test_unknown_type(self, scaling):
        words = r"^Argument \"scaling\['type'\]\" must be 'default', .* or 'proportional', not"
        with pytest.raises(ValueError, match=words):
            P.rope_frequencies(4, scaling=scaling)

    @pytest.mark.parametrize(
        ("scaling", "words", "dim"),
        [
            (
                {"type": "linear", "factor": 2, 3: 1, "x": 2},
                "'scaling' must have only 'factor', not 3",
                4,
            ),
            (
                {"type": "linear", "factor": 2, "beta": 1},
                r"'scaling' must have only 'factor', not 'beta'\.$",
                4,
            ),
            (
                {"type": "default", "factor": 2},
                r"'scaling' must have no parameters, not 'factor'\.$",
                4,
            ),
            (
                {"type": "yarn"},
                r"'scaling' must have 'factor' and '.*embeddings', not only \[\]\.$",
                4,
            ),
            ({"type": "ntk", "factor": 2}, r"'dim' must be at least 4, not 2\.$", 2),
            (STEEP, r".*high_freq_factor'\]\" must be greater than 4, not 1", 4),
            (LONGROPE, r".*short_factor'\]\" must have shape \(4,\), not \(2,\)", 8),
        ],
    )
    def test_of_value(self, scaling, words, dim):
        with pytest.raises(ValueError, match=f"^Argument {words}"):
            P.rope_frequencies(dim, scaling=scaling)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"scaling": "linear"}, "'scaling' must be a dictionary, not"),
            ({"scaling": 4}, "'scaling' must be a dictionary, not"),
            ({"scaling": ["linear"]}, "'scaling' must be a dictionary, not"),
            ({"scaling": UNSURE}, r"\"scaling\['truncate'\]\" must be True or False, not 'no'\.$"),
            ({"scaling": {"type": "linear", "factor": "two"}}, r".*must be a number, not 'two'\.$"),
            ({"scaling": {**YARN, LENGTH: 4096.0}}, r".*must be an integer, not 4096\.0\.$"),
            ({"seq_len": 1.5}, r"'seq_len' must be an integer"),
        ],
    )
    def test_of_type(self, options, words):
        with pytest.raises(TypeError, match=f"^Argument {words}"):
            P.rope_frequencies(4, **options)

    @pytest.mark.parametrize(
        "scaling",
        [
            {"type": "linear", "rope_type": "linear", "factor": 4.0},
            {"rope_type": "linear", "factor": 4.0, LENGTH: 4096},
            {"rope_type": "linear", "factor": 4.0, "finetuned": True, LENGTH: None},
        ],
    )
    def test_what_published_configurations_carry(self, scaling):
        np.testing.assert_array_equal(P.rope_frequencies(128, scaling=scaling), PLAIN / 4)
        assert P.rope_attention_factor(scaling) == 1.0

    def test_yarn_says_that_it_was_tuned(self):
        want = P.rope_frequencies(128, scaling=YARN)
        got = P.rope_frequencies(128, scaling={**YARN, "finetuned": True})
        np.testing.assert_array_equal(got, want)

    def test_a_training_of_one_token(self):
        scaling = {**LONGROPE, LENGTH: 1, "factor": 2.0}
        with pytest.raises(ValueError, match=r"embeddings'\]\" must be at least 2, not 1\.$"):
            P.rope_attention_factor(scaling)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"factor": 0.5}, "must be at least 1, not 0.5"),
            ({"beta_slow": 0}, "must be greater than 0, not 0"),
            ({"mscale": -1}, "must be at least 0, not -1"),
            ({LENGTH: 0}, "must be at least 1, not 0"),
        ],
    )
    def test_parameters_out_of_range(self, change, words):
        (name,) = change
        with pytest.raises(ValueError, match=rf"^Argument \"scaling\['{name}'\]\" {words}\.$"):
            P.rope_frequencies(4, scaling={**YARN, **change})


def test_the_square_of_longrope_is_a_ratio_of_logarithms():
    factor = P.rope_attention_factor(LONGROPE, max_position_embeddings=8 * 4096)
    assert factor**2 == pytest.approx(np.log(8 * 4096) / np.log(4096), rel=1e-14)
    assert factor != pytest.approx(np.log(8 * 4096) / np.log(4096), rel=0.04)
