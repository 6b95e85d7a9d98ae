"""Boolean masks."""

import numpy as np
import pytest

from dlref.attention import (
    block_mask,
    causal_mask,
    chunk_mask,
    document_mask,
    padding_mask,
    prefix_mask,
    scaled_dot_product_attention,
    tree_mask,
    window_mask,
)


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


class TestDocument:
    def test_packed_documents_are_attended_one_by_one(self, rng):
        q, k, v = rng.normal(size=(3, 1, 7, 4))
        mask = document_mask([0, 0, 0, 1, 1, 1, 1])
        out = scaled_dot_product_attention(q, k, v, mask=mask, is_causal=True)
        for part in (slice(0, 3), slice(3, 7)):
            few = (x[:, part] for x in (q, k, v))
            want = scaled_dot_product_attention(*few, is_causal=True)
            np.testing.assert_allclose(out[:, part], want, atol=1e-15)

    def test_batches_and_other_keys(self):
        got = document_mask([[0, 1], [2, 2]], [2, 0, 1])
        assert got.tolist() == [
            [[False, True, False], [False, False, True]],
            [[True, False, False], [True, False, False]],
        ]

    def test_errors(self):
        with pytest.raises(TypeError, match=r"^Argument 'ids' must be integer, not float64"):
            document_mask([0.5])
        with pytest.raises(ValueError, match=r"^Argument 'key_ids' must have at least 1 axis"):
            document_mask([0], 0)
        with pytest.raises(ValueError, match=r"^Argument 'key_ids' must have batch axes"):
            document_mask(np.zeros((2, 3), int), np.zeros((3, 3), int))


class TestPrefix:
    def test_between_causal_and_everything(self):
        np.testing.assert_array_equal(prefix_mask(4, 0), causal_mask(4))
        assert prefix_mask(4, 4).all()
        assert prefix_mask(0, 0).shape == (0, 0)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'prefix' must be at most 3, not 4"):
            prefix_mask(3, 4)


class TestChunk:
    def test_llama_4(self):
        masking = pytest.importorskip("transformers.masking_utils")
        seen = masking.chunked_overlay(3, np.zeros(1, int))
        want = [[bool(seen(0, 0, i, j)) and j <= i for j in range(8)] for i in range(8)]
        np.testing.assert_array_equal(chunk_mask(8, size=3), want)

    def test_one_large_chunk_is_causal(self):
        np.testing.assert_array_equal(
            chunk_mask(4, 6, size=9, q_offset=2), causal_mask(4, 6, q_offset=2)
        )
        np.testing.assert_array_equal(chunk_mask(4, size=1), np.eye(4, dtype=bool))

    def test_one_mask_for_each_offset(self):
        got = chunk_mask(2, 6, size=3, q_offset=[0, 3])
        assert got.shape == (2, 2, 6)
        np.testing.assert_array_equal(got[1, :, 3:], got[0, :, :3])

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
    def test_of_nothing(self, shape):
        assert chunk_mask(*shape, size=2).shape == shape

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'size' must be at least 1, not 0"):
            chunk_mask(3, size=0)


class TestTree:
    def test_a_chain_is_causal(self):
        np.testing.assert_array_equal(tree_mask([-1, 0, 1, 2]), causal_mask(4))

    def test_parents_may_come_later(self):
        mask = tree_mask([1, 2, -1])
        assert mask.tolist() == [[True] * 3, [False, True, True], [False, False, True]]

    def test_each_branch_is_a_sequence_of_its_own(self, rng):
        q, k, v = rng.normal(size=(3, 1, 5, 4))
        out = scaled_dot_product_attention(q, k, v, mask=tree_mask([-1, 0, 0, 1, 2]))
        for branch in ([0, 1, 3], [0, 2, 4]):
            few = (x[:, branch] for x in (q, k, v))
            want = scaled_dot_product_attention(*few, is_causal=True)
            np.testing.assert_allclose(out[:, branch], want, atol=1e-15)

    def test_of_nothing(self):
        assert tree_mask(np.zeros(0, int)).shape == (0, 0)

    @pytest.mark.parametrize("parents", [[0], [1, 0], [-1, 2, 3, 1]])
    def test_circles(self, parents):
        with pytest.raises(ValueError, match=r"^Argument 'parents' must be a tree, not have a"):
            tree_mask(parents)

    @pytest.mark.parametrize("parents", [[-2], [1], [-1, 5]])
    def test_out_of_range(self, parents):
        with pytest.raises(ValueError, match=r"^Argument 'parents' must hold integers from"):
            tree_mask(parents)

    def test_two_axes(self):
        with pytest.raises(ValueError, match=r"^Argument 'parents' must have 1 axes, not shape"):
            tree_mask([[-1]])


class TestBlock:
    def test_is_a_kronecker_product(self, rng):
        blocks = rng.random((2, 3, 4)) < 0.5
        want = np.kron(blocks, np.ones((5, 5), bool))
        np.testing.assert_array_equal(block_mask(blocks, size=5), want)

    def test_errors(self):
        with pytest.raises(TypeError, match=r"^Argument 'blocks' must be boolean"):
            block_mask([[1]], size=2)
        with pytest.raises(ValueError, match=r"^Argument 'blocks' must have at least 2 axes"):
            block_mask([True], size=2)
