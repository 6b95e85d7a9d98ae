"""Checkpoints by the name of their file: the same parameters, and memory for no more than those."""

import tracemalloc

import numpy as np
import pytest
import trees
from interop_models import HEAD, LLAMA, drawn, llama_shapes

from dlref.interop import _safetensors, _tensors, from_state_dict, read_state_dict


@pytest.fixture
def save():
    return pytest.importorskip("safetensors.numpy").save_file


def large(width=1024, layers=6):
    """Return a LLaMA of some 100 MB, and its configuration."""
    shapes = {"model.embed_tokens.weight": (2048, width), "model.norm.weight": (width,)}
    for i in range(layers):
        name = f"model.layers.{i}."
        shapes |= {f"{name}self_attn.{x}_proj.weight": (width, width) for x in "qkvo"}
        shapes |= {f"{name}mlp.{x}_proj.weight": (0, width) for x in ("gate", "up")}
        shapes |= {f"{name}mlp.down_proj.weight": (width, 0)}
        shapes |= {f"{name}{x}_layernorm.weight": (width,) for x in ("input", "post_attention")}
    config = {
        "vocab_size": 2048, "hidden_size": width, "intermediate_size": 1, "num_attention_heads": 16,
        "num_hidden_layers": layers, "tie_word_embeddings": True, "model_type": "llama",
    }  # fmt: skip
    shapes = {k: tuple(n or 1 for n in shape) for k, shape in shapes.items()}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}, config


def test_memory_is_that_of_the_parameters(tmp_path, save):
    state, config = large()
    size, path = sum(a.nbytes for a in state.values()), tmp_path / "model.safetensors"
    save(state, path)
    del state
    assert size > 100e6
    tracemalloc.start()
    try:
        params, _ = from_state_dict(path, "llama", config)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert params.embedding.nbytes < size
    assert most < 1.2 * size


def test_a_path_is_read_as_its_dictionary(tmp_path, save):
    state = drawn(llama_shapes() | HEAD)
    save(state, tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", **state)
    want, config = from_state_dict(state, "llama", LLAMA)
    for path in (tmp_path / "a.safetensors", str(tmp_path / "a.safetensors"), tmp_path / "a.npz"):
        found, own = from_state_dict(path, "llama", LLAMA)
        assert own == config
        trees.assert_close(found, want, 0)
        found.embedding[:] = 0.0  # its own memory, which can be written to
    trees.assert_close(from_state_dict(tmp_path / "a.safetensors", "llama", LLAMA)[0], want, 0)
    prefixed = {f"net.{name}": array for name, array in state.items()}
    save(prefixed, tmp_path / "b.safetensors")
    found, _ = from_state_dict(tmp_path / "b.safetensors", "llama", LLAMA, prefix="net.")
    trees.assert_close(found, want, 0)
    assert read_state_dict(tmp_path / "b.safetensors").keys() == prefixed.keys()


def test_parameters_never_share_the_memory_of_a_dictionary():
    state = drawn(llama_shapes() | HEAD)
    params, _ = from_state_dict(state, "llama", LLAMA)
    for array in trees.leaves(params):
        assert not any(np.shares_memory(array, other) for other in state.values())


def test_errors_name_the_file(tmp_path, save):
    with pytest.raises(FileNotFoundError):
        from_state_dict(tmp_path / "no.safetensors", "llama", LLAMA)
    with pytest.raises(ValueError, match="'path' must end with"):
        from_state_dict("model.bin", "llama", LLAMA)
    state = drawn(llama_shapes())
    save(state, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"'lm_head\.weight' is missing"):
        from_state_dict(tmp_path / "a.safetensors", "llama", LLAMA)


def test_a_tensor_of_a_file_is_taken_as_it_is_read(tmp_path):
    """Without a copy, unless its axes were exchanged or it is a part."""
    np.arange(12.0).tofile(tmp_path / "x")
    entry = _safetensors.Entry(np.dtype("f8"), (4, 3), 0)
    tensor = _safetensors.InFile(str(tmp_path / "x"), entry)
    whole = np.asarray(tensor)
    np.testing.assert_array_equal(whole, np.arange(12.0).reshape(4, 3))
    assert np.shares_memory(_tensors._own(tensor, whole, whole[:]), whole)
    for other in (whole.T, whole[:2]):
        own = _tensors._own(tensor, whole, other)
        assert own.flags.c_contiguous
        assert not np.shares_memory(own, whole)
    assert not np.shares_memory(_tensors._own(whole, whole, whole), whole)


def test_two_entries_of_one_tensor_share_no_memory(tmp_path):
    header = b'{"w":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'
    data = len(header).to_bytes(8, "little") + header + np.ones(2).tobytes()
    (tmp_path / "a.safetensors").write_bytes(data)
    state = _safetensors.tensors_of(str(tmp_path / "a.safetensors"))
    first, second = _tensors.read((_tensors.Tensor("w", "D"),) * 2, state, "two")
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, second)
