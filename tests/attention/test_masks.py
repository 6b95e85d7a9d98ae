"""Boolean masks."""

import numpy as np
import pytest

from dlref.attention import causal_mask, padding_mask, window_mask


class TestCausal:
    @pytest.mark.parametrize(("T", "S", "offset"), [(4, 4, 0), (2, 5, 3), (3, 2, 0), (3, 5, -2)])
    def test_is_the_inequality(self, T, S, offset):
        want = [[j <= i + offset for j in range(S)] for i in range(T)]
        assert causal_mask(T, S, q_offset=offset).tolist() == want

    def test_is_square_without_a_number_of_keys(self):
        np.testing.assert_array_equal(causal_mask(3), np.tri(3, dtype=bool))

    def test_one_mask_for_each_offset(self):
        got = causal_mask(2, 4, q_offset=[0, 2])
        assert got.shape == (2, 2, 4)
        np.testing.assert_array_equal(got[1], causal_mask(2, 4, q_offset=2))

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
    def test_of_nothing(self, shape):
        assert causal_mask(*shape).shape == shape


class TestWindow:
    @pytest.mark.parametrize(("left", "right"), [(1, 2), (0, 0), (None, 1), (2, -1), (None, None)])
    def test_counts_to_each_side(self, left, right):
        low = 99 if left in (None, -1) else left
        high = 99 if right in (None, -1) else right
        want = [[-low <= j - i - 1 <= high for j in range(5)] for i in range(4)]
        assert window_mask(4, 5, left=left, right=right, q_offset=1).tolist() == want

    def test_causal_is_a_window(self):
        got = window_mask(3, 5, left=None, right=0, q_offset=2)
        np.testing.assert_array_equal(got, causal_mask(3, 5, q_offset=2))


class TestPadding:
    def test_is_true_up_to_the_length(self):
        got = padding_mask([[0, 1], [2, 3]], 3)
        assert got.shape == (2, 2, 1, 1, 3)
        assert got[..., 0, 0, :].sum(-1).tolist() == [[0, 1], [2, 3]]
        assert got[1, 0, 0, 0].tolist() == [True, True, False]

    @pytest.mark.parametrize("bad", [-1, 4])
    def test_lengths_out_of_range(self, bad):
        with pytest.raises(
            ValueError, match=f"'lengths' must hold integers from 0 to 3, not {bad}"
        ):
            padding_mask([0, bad], 3)


class TestErrors:
    def test_types(self):
        with pytest.raises(TypeError, match=r"'T' must be an integer, not 2\.5"):
            causal_mask(2.5)
        with pytest.raises(TypeError, match="'lengths' must be integer, not float64"):
            padding_mask([1.0], 3)
        with pytest.raises(TypeError, match="'q_offset' must be integer, not float64"):
            causal_mask(2, q_offset=0.5)

    def test_ranges(self):
        with pytest.raises(ValueError, match="'S' must be at least 0, not -1"):
            window_mask(2, -1, left=1, right=1)
        with pytest.raises(ValueError, match="'left' must be at least -1, not -2"):
            window_mask(2, 2, left=-2, right=1)
        with pytest.raises(TypeError, match=r"'right' must be an integer, not 0\.5"):
            window_mask(2, 2, left=2, right=0.5)
        with pytest.raises(ValueError, match=r"s 'q_offset', 'T' and 'S' must make fewer than 2"):
            causal_mask(2**40)
        with pytest.raises(ValueError, match="s 'lengths' and 'S' must make fewer than 2"):
            padding_mask([1], 2**62)

    def test_offsets_as_far_as_there_are(self):
        for offset, all_seen in ((2**63 - 1, True), (-(2**63), False)):
            assert np.all(causal_mask(3, q_offset=offset) == all_seen)
