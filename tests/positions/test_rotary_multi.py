"""Rotations with several coordinates, against the modules of Qwen."""

import numpy as np
import pytest

from dlref.positions import apply_rope, rope_frequencies, rope_tables, rope_tables_multi

PLACES = np.random.default_rng(0).integers(0, 50, (3, 2, 7))  # as the modules take them


def test_the_module_of_qwen2_vl():
    torch = pytest.importorskip("torch")
    source = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    sections, f = [2, 3, 3], rope_frequencies(16)
    q, k = np.random.default_rng(1).normal(size=(2, 2, 4, 7, 16))
    angles = torch.tensor(PLACES[..., None] * np.concatenate([f, f]))
    cos, sin = (
        torch.cat([m[i % 3] for i, m in enumerate(t.split(2 * sections, dim=-1))], dim=-1)
        for t in (angles.cos(), angles.sin())
    )
    want = source.apply_rotary_pos_emb(torch.tensor(q), torch.tensor(k), cos, sin)
    tables = rope_tables_multi(np.moveaxis(PLACES, 0, 1), f, sections=sections)
    tables = [t[:, None] for t in tables]
    for x, y in zip((q, k), want, strict=True):
        got = apply_rope(x, *tables, interleaved=False)
        np.testing.assert_allclose(got, y.numpy(), rtol=0, atol=2e-14)


def test_the_module_of_qwen3_vl():
    torch = pytest.importorskip("torch")
    source = pytest.importorskip("transformers.models.qwen3_vl.modeling_qwen3_vl")
    config = source.Qwen3VLTextConfig(hidden_size=64, num_attention_heads=4, head_dim=16)
    module = source.Qwen3VLTextRotaryEmbedding(config)
    module.mrope_section = [3, 3, 2]
    cos, sin = module(torch.zeros(1), torch.tensor(PLACES))
    f = module.inv_freq.numpy().astype(float)
    places = np.moveaxis(PLACES, 0, 1)
    tables = rope_tables_multi(places, f, sections=[3, 3, 2], interleaved=True)
    for got, want in zip(tables, (cos, sin), strict=True):
        # the module's angles are float32, up to 50
        np.testing.assert_allclose(got, want.numpy()[..., :8], rtol=0, atol=50 * 6e-8 + 6e-8)


@pytest.mark.parametrize("interleaved", [False, True])
def test_equal_coordinates_are_one(interleaved):
    f, p = rope_frequencies(14), np.arange(9.0)
    got = rope_tables_multi(
        np.tile(p, (3, 1)), f, sections=(3, 2, 2), interleaved=interleaved, attention_factor=1.2
    )
    np.testing.assert_array_equal(got, rope_tables(p, f, attention_factor=1.2))


def test_each_coordinate_turns_as_many_pairs_as_its_section():
    f = np.ones(7)
    for interleaved in (False, True):
        for a, count in enumerate((4, 2, 1)):
            place = np.zeros((3, 1))
            place[a] = 0.5
            _, sin = rope_tables_multi(place, f, sections=(4, 2, 1), interleaved=interleaved)
            assert np.count_nonzero(sin) == count


def test_errors():
    p, f = np.zeros((3, 4)), np.ones(4)
    with pytest.raises(
        ValueError, match=r"^Argument 'sections' must have the sum 4, .* \[1, 1, 1\]"
    ):
        rope_tables_multi(p, f, sections=(1, 1, 1))
    with pytest.raises(ValueError, match=r"^Argument 'sections' must have the sum 0, .* \[\]"):
        rope_tables_multi(p, f[:0], sections=())
    with pytest.raises(TypeError, match=r"^Argument 'sections' must be a tuple"):
        rope_tables_multi(p, f, sections=4)
    with pytest.raises(ValueError, match=r"^Argument 'sections\[0\]' must be at least 0"):
        rope_tables_multi(p, f, sections=(-1, 5))
    with pytest.raises(ValueError, match=r"^Argument 'positions' must have shape \(2, 4\)"):
        rope_tables_multi(p, f, sections=(2, 2))
    with pytest.raises(ValueError, match=r"^Argument 'positions' must have at least 2 axes"):
        rope_tables_multi(p[0], f, sections=(4,))
    with pytest.raises(TypeError, match=r"^Argument 'interleaved' must be True or False"):
        rope_tables_multi(p, f, sections=(2, 1, 1), interleaved=1)
