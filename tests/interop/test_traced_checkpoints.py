"""Layers of checkpoints that stay in their files: the same steps, and only what they need."""

import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
from decoders import FAMILIES, V
from interop_models import HEAD, LLAMA, D, drawn, gpt2_shapes, llama_shapes
from interop_states import configured, state_of

from dlref.check import first_difference, trace
from dlref.check._tracing import fused
from dlref.interop import (
    _on_demand,
    _safetensors,
    from_state_dict,
    read_state_dict,
    trace_checkpoint,
)
from dlref.transformer import language_model

CASES = [(kind, every[0]) for kind, (_, every) in FAMILIES.items()]
IDS = np.array([[1, 2, 3, 1], [4, 2, 0, 1]])
SETTINGS = LLAMA | {"model_type": "llama"}


@pytest.fixture
def shards(tmp_path):
    """Return a function that writes a file for each layer, one for the rest, and the index."""
    save = pytest.importorskip("safetensors.numpy").save_file

    def write(state, settings):
        files = {}
        for name, array in state.items():
            number = next((part for part in name.split(".") if part.isdigit()), "outside")
            file = number if number == "outside" else f"layer-{number}"
            files.setdefault(f"{file}.safetensors", {})[name] = array
        for name, tensors in files.items():
            save({n: np.ascontiguousarray(a) for n, a in tensors.items()}, tmp_path / name)
        places = {name: file for file, tensors in files.items() for name in tensors}
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": places}))
        (tmp_path / "config.json").write_text(json.dumps(settings))
        return tmp_path

    return write


@pytest.fixture
def in_pieces(monkeypatch):
    """Make small matrices stay in their files, some rows of which are read at a time."""
    monkeypatch.setattr(_on_demand, "FEWEST", 1)
    monkeypatch.setattr(_on_demand, "AT_ONCE", 500)


def assert_same(got, want):
    assert [*got] == [*want]
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("kind", "settings"), CASES, ids=[kind for kind, _ in CASES])
def test_steps_are_those_of_the_loaded_model(kind, settings, rng, shards, in_pieces):
    config = configured(kind, settings)
    state = state_of(kind, config, rng)
    folder = shards(state, config)
    want = trace(language_model, IDS % V, *from_state_dict(state, config=config))
    assert_same(trace_checkpoint(folder, IDS % V), want)


def test_gpt2(shards, in_pieces):
    state = drawn(gpt2_shapes())
    config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "vocab_size": 11}
    config |= {"n_positions": 10, "n_inner": 12}
    folder = shards(state, config)
    want = trace(language_model, IDS, *from_state_dict(state, config=config))
    assert_same(trace_checkpoint(folder, IDS), want)
    assert read_state_dict(folder / "model.safetensors.index.json").keys() == state.keys()


def test_the_options_of_another_block(shards, rng):
    """The first block of the port has no window, and the wave lengths of the second one."""
    config = configured("gemma3_text", dict(CASES)["gemma3_text"])
    state, tokens = state_of("gemma3_text", config, rng), rng.integers(0, V, 8)
    params, own = from_state_dict(state, config=config)
    port = dataclasses.replace(own, blocks=(own.blocks[1], *own.blocks[1:]))
    steps = trace(language_model, tokens, params, port)
    index = shards(state, config) / "model.safetensors.index.json"
    got = trace_checkpoint(index, tokens, layers=[0], given=steps)
    found = first_difference(got, steps)
    assert found.name.startswith("blocks.0.attention")
    assert "the block has the options of block 1" in found.cause


def test_a_tensor_that_is_missing_is_named(shards):
    state = drawn(llama_shapes(layers=1) | HEAD)
    del state["model.layers.0.mlp.down_proj.weight"]
    folder = shards(state, SETTINGS | {"num_hidden_layers": 1})
    with pytest.raises(ValueError, match=r"'model\.layers\.0\.mlp\.down_proj\.weight' is missing"):
        trace_checkpoint(folder, IDS, layers=[0])


def test_a_matrix_on_demand_is_an_array(shards, in_pieces, monkeypatch):
    state, tables = drawn(llama_shapes(layers=1) | HEAD), []
    with monkeypatch.context() as patch:
        rows_of = _on_demand.OnDemand.rows_of
        patch.setattr(_on_demand.OnDemand, "rows_of", lambda *a: tables.append(a[0]) or rows_of(*a))
        trace_checkpoint(shards(state, SETTINGS | {"num_hidden_layers": 1}), IDS, layers=[0])
    table, want = tables[0], state["model.embed_tokens.weight"]
    np.testing.assert_array_equal(table[2], want[2])
    np.testing.assert_array_equal(table.rows_of([2, 1]), want[[2, 1]])
    table.apart = False  # as a matrix that is fused with another one
    np.testing.assert_array_equal(table.rows_of([2, 1]), want[[2, 1]])
    assert len(fused._Rows([table], np.arange(3))) == 3


class TestLlama:
    @pytest.fixture
    def state(self):
        return drawn(llama_shapes(layers=3) | HEAD)

    @pytest.fixture
    def folder(self, state, shards, in_pieces):
        return shards(state, SETTINGS | {"num_hidden_layers": 3})

    @pytest.fixture
    def model(self, state):
        return from_state_dict(state, config=SETTINGS | {"num_hidden_layers": 3})

    def test_a_layer_needs_its_file_alone(self, folder, model):
        steps = trace(language_model, IDS, *model)
        for path in folder.glob("*.safetensors"):
            if path.name != "layer-1.safetensors":
                path.unlink()
        got = trace_checkpoint(folder, IDS, layers=[1], given=steps)
        want = {n: a for n, a in steps.items() if n.startswith("blocks.1.") or n == "blocks.0.out"}
        assert_same(got, want)
        assert first_difference(got, steps) is None
        assert not any(np.shares_memory(a, b) for a in got.values() for b in steps.values())
        with pytest.raises(FileNotFoundError):
            trace_checkpoint(folder, IDS, layers=[2], given=steps)
        with pytest.raises(FileNotFoundError):
            trace_checkpoint(folder, IDS, layers=[1])

    def test_only_the_rows_of_the_tokens_are_read(self, folder, monkeypatch):
        read, fromfile = [], np.fromfile

        def counted(path, dtype, count, offset):
            read.append((path.rpartition("/")[2], count))
            return fromfile(path, dtype, count, offset=offset)

        monkeypatch.setattr(_safetensors.np, "fromfile", counted)
        trace_checkpoint(folder, [4, 2, 4], layers=[0])
        assert [count for name, count in read if name == "outside.safetensors"] == [D, D]
        assert {name for name, _ in read} == {"outside.safetensors", "layer-0.safetensors"}

    def test_layers_that_are_not_wanted_run_without_a_trace(self, folder, model):
        steps, seen = trace(language_model, IDS, *model), []
        got = trace_checkpoint(folder, IDS, layers=[2], progress=lambda x: seen.extend(x) or x)
        assert seen == [0, 1, 2]
        outside = ("blocks.0", "blocks.1", "embedding")
        assert_same(got, {n: a for n, a in steps.items() if not n.startswith(outside)})
        assert first_difference(got, steps) is None

    def test_causes(self, folder, model):
        params, config = model
        for change, step, cause in (
            ({"activation": "geglu"}, "hidden", "the activation is gelu"),
            ({"eps": 1e-3}, "norm1", "eps is 0.001 instead of 1e-06"),
        ):
            port = trace(language_model, IDS, params, dataclasses.replace(config, **change))
            found = first_difference(trace_checkpoint(folder, IDS, layers=[1], given=port), port)
            assert found.name.endswith(step)
            assert found.name.startswith("blocks.1.")
            assert cause in found.cause

    def test_other_names_are_errors(self, folder, model):
        steps = dict(trace(language_model, IDS, *model))
        got = trace_checkpoint(folder, IDS, layers=[1], given=steps)
        for name in ("blocks.1.attention.query", "end"):
            with pytest.raises(ValueError, match="names of the trace"):
                first_difference(got, steps | {name: steps["logits"]})

    def test_errors(self, folder, model, tmp_path):
        steps = dict(trace(language_model, IDS, *model))
        for options, message in (
            ({"layers": [3]}, "'layers' must hold integers from 0 to 2, not 3"),
            ({"given": {"blocks.0.out": np.ones(D)}}, r"given\['blocks.0.out'\]"),
            ({"config": {"model_type": "bert"}}, "'config.model_type' must be 'gpt2', 'llama'"),
            ({"config": SETTINGS | {"hidden_size": 16}}, "must hold the tensors of llama"),
        ):
            with pytest.raises(ValueError, match=message):
                trace_checkpoint(folder, IDS, **options)
        with pytest.raises(TypeError, match="'path' must be the name of a folder or a file"):
            trace_checkpoint(3, IDS)
        with pytest.raises(TypeError, match="'progress' must be a function"):
            trace_checkpoint(folder, IDS, progress=3)
        with pytest.raises(ValueError, match="'tokens' must hold integers from 0 to 10, not 11"):
            trace_checkpoint(folder, [11])
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises(ValueError, match=r"must be a folder with model\.safetensors\.index"):
            trace_checkpoint(empty, IDS)
        (folder / "layer-1.safetensors").write_bytes(b"damaged")
        with pytest.raises(ValueError, match=r"'path' must be a file of tensors, not .*layer-1"):
            trace_checkpoint(folder, IDS, layers=[1], given=steps)


@pytest.mark.parametrize("shard", ["../a.safetensors", "/a", "", "..", 3, "b/c"])
def test_an_index_leads_to_no_other_folder(shard, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(ValueError, match="is not the name of a file beside it"):
        read_state_dict(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": 3}', "{"])
def test_a_damaged_index(text, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="'path' must be a file of tensors"):
        read_state_dict(path)


def test_an_index_with_a_tensor_that_its_file_lacks(tmp_path):
    pytest.importorskip("safetensors.numpy").save_file(
        {"a": np.ones(2)}, tmp_path / "a.safetensors"
    )
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"b": "a.safetensors"}}))
    with pytest.raises(ValueError, match="it has no tensor 'b', which its index says"):
        read_state_dict(path)


def test_memory_is_far_less_than_a_layer(shards, monkeypatch):
    """Of 59 MB of a layer no more than a fifth is in memory, whatever is found."""
    monkeypatch.setattr(_on_demand, "AT_ONCE", 2**20)
    D, F = 1024, 3584
    config = SETTINGS | {"hidden_size": D, "intermediate_size": F, "num_attention_heads": 8}
    config |= {"num_key_value_heads": 2, "num_hidden_layers": 4}
    start = "model.layers.2."
    K = 2 * D // 8
    shapes = {f"self_attn.{x}_proj": n for x, n in {"q": D, "k": K, "v": K, "o": D}.items()}
    shapes |= {"mlp.gate_proj": F, "mlp.up_proj": F}
    rng = np.random.default_rng(0)
    state = {
        f"{start}{name}.weight": rng.normal(0, 0.03, (n, D)).astype(np.float32)
        for name, n in shapes.items()
    }
    state[f"{start}mlp.down_proj.weight"] = rng.normal(0, 0.03, (D, F)).astype(np.float32)
    for name in ("input", "post_attention"):
        state[f"{start}{name}_layernorm.weight"] = np.ones(D, np.float32)
    size = sum(a.nbytes for a in state.values())
    assert size > 50e6
    folder = shards(state, config)
    del state
    given = {"blocks.1.out": rng.normal(size=(3, D)).astype(np.float32)}
    trace_checkpoint(folder, [1, 2, 3], layers=[2], given=given)  # loads what is loaded late
    tracemalloc.start()
    try:
        steps = trace_checkpoint(folder, [1, 2, 3], layers=[2], given=given)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < size / 5
    port = {"blocks.2.feed_forward.gate": steps["blocks.2.feed_forward.up"]}
    port["blocks.2.feed_forward.up"] = steps["blocks.2.feed_forward.gate"]
    port["blocks.2.norm2"] = steps["blocks.2.norm2"]
    assert first_difference(steps, port).cause == "w_gate and w_up are exchanged"
