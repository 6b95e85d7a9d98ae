"""Orders of gates, as permutations and against the libraries themselves."""

import itertools

import numpy as np
import pytest

from dlref.interop import convert_gates
from dlref.recurrent import gru, lstm

LIBRARIES = ["torch", "onnx", "keras", "tensorflow"]
NAMES = {  # what each library calls its blocks, from top to bottom
    "lstm": {
        "torch": ["input", "forget", "cell", "output"],
        "onnx": ["input", "output", "forget", "cell"],
        "keras": ["input", "forget", "cell", "output"],
        "tensorflow": ["input", "cell", "forget", "output"],
    },
    "gru": {
        "torch": ["reset", "update", "new"],
        "onnx": ["update", "reset", "new"],
        "keras": ["update", "reset", "new"],
        "tensorflow": ["reset", "update", "new"],
    },
}


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(("source", "target"), list(itertools.product(LIBRARIES, LIBRARIES)))
class TestOrders:
    def test_blocks_go_where_the_names_say(self, cell, source, target):
        names, size = NAMES[cell][source], 3
        w = np.repeat(np.arange(len(names)), size)[:, None] * 10 + np.arange(2)
        got = convert_gates(w, source, target, cell=cell)
        for k, name in enumerate(NAMES[cell][target]):
            block = got[k * size : (k + 1) * size]
            np.testing.assert_array_equal(block, names.index(name) * 10 + np.tile([0, 1], (3, 1)))

    def test_there_and_back(self, rng, cell, source, target):
        w = rng.normal(size=(12, 2))
        there = convert_gates(w, source, target, cell=cell)
        assert not np.shares_memory(there, w)
        np.testing.assert_array_equal(convert_gates(there, target, source, cell=cell), w)


@pytest.mark.parametrize(("cell", "after"), [("lstm", False), ("gru", False), ("gru", True)])
def test_against_the_reference_of_onnx(rng, cell, after):
    """Random weights: with the constant ones of the published cases all orders agree."""
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    T, B, D, H, gates = 4, 2, 3, 5, 4 if cell == "lstm" else 3
    shapes = [(T, B, D), (gates * H, D), (gates * H, H), (gates * H,), (gates * H,)]
    x, w, r, wb, rb = (rng.normal(size=s).astype(np.float32) for s in shapes)
    parts = {
        "X": x,
        "W": convert_gates(w, "torch", "onnx", cell=cell)[None],
        "R": convert_gates(r, "torch", "onnx", cell=cell)[None],
        "B": np.concatenate([convert_gates(b, "torch", "onnx", cell=cell) for b in (wb, rb)])[None],
    }
    extra = {"linear_before_reset": int(after)} if cell == "gru" else {}
    node = onnx.helper.make_node(cell.upper(), list(parts), ["Y"], hidden_size=H, **extra)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        cell,
        [value(name, onnx.TensorProto.FLOAT, a.shape) for name, a in parts.items()],
        [value("Y", onnx.TensorProto.FLOAT, (T, 1, B, H))],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])
    [want] = evaluator(model).run(None, parts)
    x = x.swapaxes(0, 1)
    if cell == "lstm":
        got = lstm(x, None, None, w, r, wb, rb)[0]
    else:
        got = gru(x, None, w, r, wb, rb, reset_after=after)
    np.testing.assert_allclose(got.swapaxes(0, 1), want[:, 0], rtol=1e-5, atol=1e-6)


class TestTypes:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_dtype_stays(self, dtype):
        assert convert_gates(np.ones(3, dtype), "torch", "keras", cell="gru").dtype == dtype

    def test_integers_become_float64(self):
        assert convert_gates([1, 2, 3], "torch", "keras", cell="gru").dtype == np.float64

    def test_no_numbers(self):
        with pytest.raises(TypeError, match="'w' must be integer, float16"):
            convert_gates(["a", "b", "c"], "torch", "keras", cell="gru")


class TestErrors:
    @pytest.mark.parametrize("name", ["source", "target"])
    def test_library(self, name):
        names = {"source": "torch", "target": "torch"} | {name: "jax"}
        with pytest.raises(ValueError, match=f"'{name}' must be 'torch', 'onnx', 'keras' or"):
            convert_gates(np.ones(4), **names, cell="lstm")

    def test_cell(self):
        with pytest.raises(ValueError, match="'cell' must be 'lstm' or 'gru', not 'rnn'"):
            convert_gates(np.ones(4), "torch", "onnx", cell="rnn")

    @pytest.mark.parametrize("shape", [(), (6, 4)])
    def test_shape(self, shape):
        with pytest.raises(ValueError, match=r"'w' must have shape \(4 H, ...\), not"):
            convert_gates(np.ones(shape), "torch", "onnx", cell="lstm")
