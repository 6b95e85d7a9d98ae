"""State dicts: modules by hand, and PyTorch's own against dlref's functions."""

import os
import re

import numpy as np
import peers
import pytest

from dlref.attention import AttentionParams, multi_head_attention
from dlref.interop import (
    BatchNormParams,
    RecurrentParams,
    from_state_dict,
    read_state_dict,
    to_state_dict,
)
from dlref.neurons import LinearParams, linear
from dlref.normalization import batch_norm_inference, group_norm, layer_norm, rms_norm
from dlref.recurrent import bidirectional, gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from dlref.transformer import (
    EncoderBlockParams,
    FeedForwardParams,
    NormParams,
    decoder,
    decoder_block,
    encoder,
    encoder_block,
)

D, F, H, C = 4, 7, 2, 6


def attention(name="", bias=True):
    shapes = {"in_proj_weight": (3 * D, D), "out_proj.weight": (D, D)}
    if bias:
        shapes |= {"in_proj_bias": (3 * D,), "out_proj.bias": (D,)}
    return {name + key: shape for key, shape in shapes.items()}


def dense(name, *shape, bias=True):
    return {f"{name}weight": shape} | ({f"{name}bias": shape[:1]} if bias else {})


def block(name="", bias=True, cross=False):
    norms = ("norm1.", "norm2.", "norm3.") if cross else ("norm1.", "norm2.")
    shapes = attention(f"{name}self_attn.", bias)
    shapes |= attention(f"{name}multihead_attn.", bias) if cross else {}
    shapes |= dense(f"{name}linear1.", F, D, bias=bias) | dense(f"{name}linear2.", D, F, bias=bias)
    for norm in norms:
        shapes |= dense(name + norm, D, bias=bias)
    return shapes


def recurrent(gates, layers, suffixes=("",), bias=True):
    shapes = {}
    for i in range(layers):
        for s in suffixes:
            width = len(suffixes) * H if i else D
            shapes |= {f"weight_ih_l{i}{s}": (gates * H, width)}
            shapes |= {f"weight_hh_l{i}{s}": (gates * H, H)}
            if bias:
                shapes |= {f"bias_{x}_l{i}{s}": (gates * H,) for x in ("ih", "hh")}
    return shapes


def cell(gates, bias=True):
    shapes = {"weight_ih": (gates * H, D), "weight_hh": (gates * H, H)}
    return shapes | ({f"bias_{x}": (gates * H,) for x in ("ih", "hh")} if bias else {})


STATISTICS = {"running_mean": (C,), "running_var": (C,)}
BOTH = ("", "_reverse")
#: Names and shapes as PyTorch has them; test_names_are_those_of_pytorch holds them to it.
CASES = {
    "Linear": ("Linear", dense("", C, D)),
    "Linear without bias": ("Linear", dense("", C, D, bias=False)),
    "Embedding": ("Embedding", {"weight": (C, D)}),
    "LayerNorm": ("LayerNorm", dense("", D)),
    "LayerNorm without bias": ("LayerNorm", dense("", D, bias=False)),
    "GroupNorm": ("GroupNorm", dense("", C)),
    "RMSNorm": ("RMSNorm", {"weight": (D,)}),
    "BatchNorm": ("BatchNorm", STATISTICS | dense("", C)),
    "BatchNorm1d without affine": ("BatchNorm1d", STATISTICS),
    "RNN": ("RNN", recurrent(1, 1)),
    "RNN, both directions, 2 layers": ("RNN", recurrent(1, 2, BOTH)),
    "GRU, 3 layers, without bias": ("GRU", recurrent(3, 3, bias=False)),
    "LSTM, both directions": ("LSTM", recurrent(4, 1, BOTH)),
    "LSTM, both directions, 2 layers": ("LSTM", recurrent(4, 2, BOTH)),
    "RNNCell": ("RNNCell", cell(1)),
    "GRUCell": ("GRUCell", cell(3)),
    "LSTMCell without bias": ("LSTMCell", cell(4, bias=False)),
    "MultiheadAttention": ("MultiheadAttention", attention()),
    "MultiheadAttention without bias": ("MultiheadAttention", attention(bias=False)),
    "MultiheadAttention with kdim, vdim": (
        "MultiheadAttention",
        {f"{x}_proj_weight": (D, D if x == "q" else 3) for x in "qkv"}
        | {"in_proj_bias": (3 * D,)}
        | dense("out_proj.", D, D),
    ),
    "TransformerEncoderLayer": ("TransformerEncoderLayer", block()),
    "TransformerEncoderLayer without bias": ("TransformerEncoderLayer", block(bias=False)),
    "TransformerDecoderLayer": ("TransformerDecoderLayer", block(cross=True)),
    "TransformerEncoder": (
        "TransformerEncoder",
        block("layers.0.") | block("layers.1.") | dense("norm.", D),
    ),
    "TransformerDecoder": ("TransformerDecoder", block("layers.0.", cross=True)),
}


@pytest.fixture(params=CASES)
def case(request, rng):
    """Yield kind and a state dict of random numbers."""
    kind, shapes = CASES[request.param]
    return kind, {name: rng.normal(size=shape) for name, shape in shapes.items()}


def module(name):
    """Return PyTorch's module for one of the cases, in float64."""
    nn = peers.torch.nn
    layer = {"dim_feedforward": F, "batch_first": True}
    makers = {
        "Linear": lambda: nn.Linear(D, C),
        "Linear without bias": lambda: nn.Linear(D, C, bias=False),
        "Embedding": lambda: nn.Embedding(C, D),
        "LayerNorm": lambda: nn.LayerNorm(D),
        "LayerNorm without bias": lambda: nn.LayerNorm(D, bias=False),
        "GroupNorm": lambda: nn.GroupNorm(3, C),
        "RMSNorm": lambda: nn.RMSNorm(D, eps=1e-6),
        "BatchNorm": lambda: nn.BatchNorm1d(C),
        "BatchNorm1d without affine": lambda: nn.BatchNorm1d(C, affine=False),
        "RNN": lambda: nn.RNN(D, H),
        "RNN, both directions, 2 layers": lambda: nn.RNN(D, H, 2, bidirectional=True),
        "GRU, 3 layers, without bias": lambda: nn.GRU(D, H, 3, bias=False),
        "LSTM, both directions": lambda: nn.LSTM(D, H, bidirectional=True),
        "LSTM, both directions, 2 layers": lambda: nn.LSTM(D, H, 2, bidirectional=True),
        "RNNCell": lambda: nn.RNNCell(D, H),
        "GRUCell": lambda: nn.GRUCell(D, H),
        "LSTMCell without bias": lambda: nn.LSTMCell(D, H, bias=False),
        "MultiheadAttention": lambda: nn.MultiheadAttention(D, H),
        "MultiheadAttention without bias": lambda: nn.MultiheadAttention(D, H, bias=False),
        "MultiheadAttention with kdim, vdim": lambda: nn.MultiheadAttention(D, H, kdim=3, vdim=3),
        "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(D, H, **layer),
        "TransformerEncoderLayer without bias": lambda: nn.TransformerEncoderLayer(
            D, H, **layer, bias=False
        ),
        "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(D, H, **layer),
        "TransformerEncoder": lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(D, H, **layer),
            2,
            norm=nn.LayerNorm(D),
            enable_nested_tensor=False,
        ),
        "TransformerDecoder": lambda: nn.TransformerDecoder(
            nn.TransformerDecoderLayer(D, H, **layer), 1
        ),
    }
    return makers[name]().double().eval()


class TestRoundTrip:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("prefix", ["", "model.layer."])
    def test_same_names_and_bits(self, case, dtype, prefix):
        kind, state = case
        state = {prefix + name: array.astype(dtype) for name, array in state.items()}
        params = from_state_dict(state, kind, prefix=prefix)
        again = to_state_dict(params, kind, prefix=prefix)
        assert again.keys() == state.keys()
        for name, array in state.items():
            assert again[name].dtype == dtype
            np.testing.assert_array_equal(again[name], array)
            assert not np.shares_memory(again[name], array)

    def test_what_has_another_prefix_is_passed_over(self, case):
        kind, state = case
        want = to_state_dict(from_state_dict(state, kind), kind)
        state = {f"a.{name}": array for name, array in state.items()} | {"b.weight": "no array"}
        got = to_state_dict(from_state_dict(state, kind, prefix="a."), kind)
        assert got.keys() == want.keys()


class TestPlaces:
    """Where the numbers go, without PyTorch."""

    def test_structures(self):
        def of(name):
            kind, shapes = CASES[name]
            return from_state_dict({key: np.ones(shape) for key, shape in shapes.items()}, kind)

        assert type(of("Linear")) is LinearParams
        assert of("Linear without bias").bias is None
        assert of("Embedding").shape == (C, D)
        assert type(of("LayerNorm")) is type(of("RMSNorm")) is NormParams
        assert type(of("BatchNorm")) is BatchNormParams
        layers = of("LSTM, both directions, 2 layers")
        assert [len(layer) for layer in layers] == [2, 2]
        assert type(layers[1][1]) is RecurrentParams
        assert of("GRU, 3 layers, without bias")[2][0].b_ih is None
        blocks, norm = of("TransformerEncoder")
        assert [type(b) for b in blocks] == [EncoderBlockParams] * 2
        assert norm.bias.shape == (D,)
        assert of("TransformerDecoder")[1] is None
        assert of("TransformerEncoderLayer without bias").norm1.bias is None

    def test_stacked_projections(self):
        state = {"in_proj_weight": np.arange(12.0).reshape(6, 2), "out_proj.weight": np.eye(2)}
        params = from_state_dict(state, "MultiheadAttention")
        np.testing.assert_array_equal(params.w_q, [[0, 1], [2, 3]])
        np.testing.assert_array_equal(params.w_v, [[8, 9], [10, 11]])

    def test_directions_of_a_layer(self, rng):
        shapes = recurrent(4, 1, BOTH)
        state = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        [[forward, backward]] = from_state_dict(state, "LSTM")
        np.testing.assert_array_equal(forward.w_hh, state["weight_hh_l0"])
        np.testing.assert_array_equal(backward.b_ih, state["bias_ih_l0_reverse"])

    def test_statistics_come_in_the_order_of_arguments(self):
        state = {"running_mean": [1.0], "running_var": [4.0], "weight": [3.0], "bias": [2.0]}
        state["num_batches_tracked"] = 7
        params = from_state_dict(state, "BatchNorm2d")
        np.testing.assert_array_equal(batch_norm_inference([[5.0]], *params, eps=0), [[8.0]])


class TestErrors:
    def read(self, match, kind="Linear", state=None, error=ValueError, **options):
        state = {"weight": np.ones((2, 3)), "bias": np.ones(2)} if state is None else state
        with pytest.raises(error, match=match):
            from_state_dict(state, kind, **options)

    def test_all_problems_are_named_at_once(self, case):
        kind, state = case
        names = list(state)
        state["odd"] = np.ones(2)
        state[names[-1]] = np.ones((1, 1, 1))
        if len(names) > 2 and "bias" not in names[0]:
            del state[names[0]]
        with pytest.raises(ValueError, match=f"^Argument 'state' .* of {kind}: ") as error:
            from_state_dict(state, kind)
        words = str(error.value)
        assert "'odd' is not one of them" in words
        assert re.search(rf"{names[-1]!r} must have shape \(.* not \(1, 1, 1\)", words)
        assert (f"{names[0]!r} is missing" in words) == (names[0] not in state)

    def test_many_problems_are_counted(self):
        kind, shapes = CASES["TransformerDecoder"]
        state = {name: np.ones((1, 1, 1)) for name in shapes}
        self.read(r"; and \d+ more\.$", kind, state)

    def test_sizes(self):
        state = {"weight": np.ones((2, 3)), "bias": np.ones(3)}
        self.read(r"'bias' must have shape \(n_out,\) = \(2,\), not \(3,\)", state=state)
        state = {"in_proj_weight": np.ones((7, 2)), "out_proj.weight": np.ones((2, 2))}
        want = r"'in_proj_weight' must have shape \(3 D, D\) = \(6, 2\), not \(7, 2\)"
        self.read(want, "MultiheadAttention", state)

    def test_other_widths_of_keys_and_values(self):
        state = {f"{x}_proj_weight": np.ones((4, n)) for x, n in zip("qkv", (4, 3, 2), strict=True)}
        state["out_proj.weight"] = np.ones((4, 4))
        want = r"'v_proj_weight' must have shape \(D, D_kv\) = \(4, 3\), not \(4, 2\)"
        self.read(want, "MultiheadAttention", state)

    def test_the_last_norm_of_a_stack_has_a_bias_or_none(self):
        kind, shapes = CASES["TransformerEncoder"]
        state = {name: np.ones(shape) for name, shape in shapes.items()}
        plain = {name: array for name, array in state.items() if "bias" not in name}
        mixed = plain | {"norm.bias": state["norm.bias"]}
        rms = {name: array for name, array in state.items() if name != "norm.bias"}
        for some, biases in ((mixed, (False, True)), (rms, (True, False))):
            blocks, norm = params = from_state_dict(some, kind)
            has = [p is not None for p in (blocks[0].norm1.bias, norm.bias)]
            assert tuple(has) == biases
            assert to_state_dict(params, kind).keys() == some.keys()
        del mixed["norm.weight"]
        self.read("'norm.weight' is missing", kind, mixed)

    def test_tensors_without_counterpart(self):
        state = {name: np.ones((1, 1, 4)) for name in ("bias_k", "bias_v")}
        state |= {"in_proj_weight": np.ones((12, 4)), "out_proj.weight": np.ones((4, 4))}
        want = r"MultiheadAttention: 'bias_k' is not one of them; 'bias_v' is not one of them\.$"
        self.read(want, "MultiheadAttention", state)
        state = {name: np.ones(shape) for name, shape in recurrent(4, 1).items()}
        self.read("'weight_hr_l0' is not", "LSTM", state | {"weight_hr_l0": np.ones((1, 2))})

    def test_arguments(self):
        self.read(r"^Argument 'kind' must be .*'Linear'.* not 'Conv2d'", "Conv2d")
        self.read(r"^Argument 'state' must be a dictionary, not \[\]", state=[], error=TypeError)
        self.read(r"^Argument 'prefix' must be text, not 3", prefix=3, error=TypeError)
        self.read(r"begin with 'fc\.', not only 'weight', 'bias'\.$", prefix="fc.")
        self.read(r"must hold tensors, not none: a module without parameters has none", state={})
        self.read(r"must have names as keys, not 0", state={0: 1.0}, error=TypeError)
        state = {"weight": np.ones((2, 3), complex)}
        self.read(r"^Argument 'weight' must be integer, float16", state=state, error=TypeError)

    def write(self, match, params, kind="Linear"):
        with pytest.raises(ValueError, match=match):
            to_state_dict(params, kind)

    def test_wrong_parameters(self):
        self.write("'params' must be LinearParams, not tuple of 2", (np.ones((2, 3)), np.ones(2)))
        self.write("'params' must be LinearParams, not ndarray", np.ones(2))
        self.write(r"'params.weight' must be an array, not None", LinearParams(None))
        self.write(r"'bias' must have shape", LinearParams(np.ones((2, 3)), np.ones(3)))
        self.write("'params' must be a tuple of 1, not NoneType", None, "GRU")
        self.write("'params' must be AttentionParams, not NoneType", None, "MultiheadAttention")
        self.write("'params' must be a tuple of 2, not list of 2", [(), None], "TransformerEncoder")
        layer = RecurrentParams(np.ones((2, 2)), np.ones((2, 2)), np.ones(2))
        self.write("'params.0.0.b_hh' must be an array, not None", ((layer,),), "RNN")
        self.write("'params.bias' must be None", NormParams(np.ones(2), np.ones(2)), "RMSNorm")

    def test_heads_that_are_no_blocks_of_one_matrix(self):
        grouped = AttentionParams(
            np.ones((4, 4)), np.ones((2, 4)), np.ones((2, 4)), np.ones((4, 4))
        )
        self.write("'in_proj_weight' must be equal blocks, not", grouped, "MultiheadAttention")
        some = AttentionParams(*np.ones((4, 4, 4)), b_q=np.ones(4), b_o=np.ones(4))
        want = "'params.b_k' must be an array, not None; 'params.b_v' must be"
        self.write(want, some, "MultiheadAttention")
        not_there = AttentionParams(*np.ones((3, 4, 4)), w_o=None)
        self.write("'params.w_o' must be an array", not_there, "MultiheadAttention")

    def test_prefix_of_the_way_back(self):
        with pytest.raises(TypeError, match=r"^Argument 'prefix' must be text, not None"):
            to_state_dict(LinearParams(np.ones((2, 3))), "Linear", prefix=None)
        with pytest.raises(ValueError, match=r"^Argument 'kind' must be"):
            to_state_dict(LinearParams(np.ones((2, 3))), "linear")


# PyTorch as the oracle: 1e-12 in float64.


def run_recurrent(f, layers, x, states):
    """Run all layers, as the documentation of from_state_dict has it."""
    for layer in layers:
        if len(layer) == 2:
            x = bidirectional(f, x, *((*[None] * states, *params) for params in layer))
        else:
            x = f(x, *[None] * states, *layer[0])
        x = x[0] if isinstance(x, tuple) else x
    return x


USES = {  # the parameters, x (..., T, D) and memory y (..., S, D)
    "Linear": lambda p, x, y: linear(x, *p),
    "LayerNorm": lambda p, x, y: layer_norm(x, *p),
    "RMSNorm": lambda p, x, y: rms_norm(x, p.weight),
    "RNN": lambda p, x, y: run_recurrent(rnn, p, x, 1),
    "GRU": lambda p, x, y: run_recurrent(gru, p, x, 1),
    "LSTM": lambda p, x, y: run_recurrent(lstm, p, x, 2),
    "TransformerEncoderLayer": lambda p, x, y: encoder_block(x, p, num_heads=H, norm="layer"),
    "TransformerDecoderLayer": lambda p, x, y: decoder_block(x, y, p, num_heads=H, is_causal=False),
    "TransformerEncoder": lambda p, x, y: encoder(x, *p, num_heads=H),
    "TransformerDecoder": lambda p, x, y: decoder(x, y, *p, num_heads=H, is_causal=False),
}


def close(got, want):
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=0, atol=1e-12)


def filled(name, rng):
    """Return a module whose every tensor is random, the ones and zeros too."""
    kind, shapes = CASES[name]
    net = module(name)
    state = {key: rng.normal(size=shape) for key, shape in shapes.items()}
    if "running_var" in state:
        state["running_var"] **= 2
    again = to_state_dict(from_state_dict(state, kind), kind)
    net.load_state_dict({key: peers.torch.tensor(a) for key, a in again.items()})
    return net


def of_kinds(*kinds):
    return pytest.mark.parametrize("name", [n for n, (kind, _) in CASES.items() if kind in kinds])


class TestPyTorch:
    @pytest.mark.parametrize("name", CASES)
    def test_names_are_those_of_pytorch(self, name):
        state = module(name).state_dict()
        state.pop("num_batches_tracked", None)
        assert {key: tuple(t.shape) for key, t in state.items()} == CASES[name][1]

    @of_kinds(*USES)
    def test_same_outputs(self, name, rng):
        torch, kind = peers.torch, CASES[name][0]
        x, y = rng.normal(size=(2, 3, 5, D))
        net = filled(name, rng)
        arguments = [torch.tensor(x)]
        if kind.startswith("TransformerDecoder"):
            arguments.append(torch.tensor(y))
        if kind in ("RNN", "GRU", "LSTM"):
            net.batch_first = True
        want = net(*arguments)
        params = from_state_dict(net.state_dict(), kind)
        close(USES[kind](params, x, y), want[0] if isinstance(want, tuple) else want)

    @pytest.mark.parametrize(
        ("bias", "norm"),
        [
            (False, "LayerNorm"),
            (True, "LayerNorm without bias"),
            (False, "LayerNorm without bias"),
            (True, "RMSNorm"),  # after blocks without biases it could as well be the one before
        ],
    )
    def test_last_norms_of_stacks(self, bias, norm, rng):
        """Whether it has a bias does not depend on the blocks."""
        torch, nn = peers.torch, peers.torch.nn
        if norm == "RMSNorm":
            last, options = nn.RMSNorm(D, eps=1e-5), {}
        else:
            last, options = nn.LayerNorm(D, bias=norm == "LayerNorm"), {"norm": "layer"}
        block = nn.TransformerEncoderLayer(D, H, 3 * D, 0.0, bias=bias, batch_first=True)
        net = nn.TransformerEncoder(block, 2, last, enable_nested_tensor=False).double().eval()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(torch.tensor(rng.normal(size=tuple(p.shape))))
        x = rng.normal(size=(3, 5, D))
        params = from_state_dict(net.state_dict(), "TransformerEncoder")
        got = encoder(x, *params, num_heads=H, activation="relu", **options)
        close(got, net(torch.tensor(x)))

    @of_kinds("RNNCell", "GRUCell", "LSTMCell")
    def test_cells(self, name, rng):
        torch, kind, net = peers.torch, CASES[name][0], filled(name, rng)
        f, count = {"RNNCell": (rnn_cell, 1), "GRUCell": (gru_cell, 1)}.get(kind, (lstm_cell, 2))
        x, *states = rng.normal(size=(5, D)), *rng.normal(size=(count, 5, H))
        given = [torch.tensor(a) for a in states]
        want = net(torch.tensor(x), given[0] if count == 1 else tuple(given))
        got = f(x, *states, *from_state_dict(net.state_dict(), kind))
        for ours, theirs in zip(*((a if count == 2 else (a,)) for a in (got, want)), strict=True):
            close(ours, theirs)

    @of_kinds("MultiheadAttention")
    def test_attention(self, name, rng):
        torch, net = peers.torch, filled(name, rng)
        net.batch_first = True
        x, y = rng.normal(size=(3, 5, D)), rng.normal(size=(3, 4, net.kdim))
        params = from_state_dict(net.state_dict(), "MultiheadAttention")
        want = net(*map(torch.tensor, (x, y, y)), need_weights=False)[0]
        close(multi_head_attention(x, y, params, num_heads=H), want)

    @of_kinds("GroupNorm", "BatchNorm", "BatchNorm1d")
    def test_channels(self, name, rng):
        torch, kind, net = peers.torch, CASES[name][0], filled(name, rng)
        p = from_state_dict(net.state_dict(), kind)
        x = rng.normal(size=(3, 5, C))
        want = net(torch.tensor(x).movedim(-1, 1)).movedim(1, -1)
        close(group_norm(x, 3, *p) if kind == "GroupNorm" else batch_norm_inference(x, *p), want)

    @of_kinds("Embedding")
    def test_tokens(self, name, rng):
        net = filled(name, rng)
        table = from_state_dict(net.state_dict(), "Embedding")
        close(table[[1, 4]], net(peers.torch.tensor([1, 4])))


def test_tensors_of_pytorch_in_bfloat16(rng):
    torch = peers.torch
    net = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    params = from_state_dict(net.state_dict(), "Linear")
    assert params.weight.dtype.name == "bfloat16"
    want = net.weight.detach().float().numpy()
    np.testing.assert_array_equal(params.weight.astype(np.float32), want)
    assert to_state_dict(params, "Linear")["bias"].dtype.name == "bfloat16"


def test_feed_forward_is_the_pair_of_dense_layers():
    kind, shapes = CASES["TransformerEncoderLayer"]
    params = from_state_dict({key: np.ones(shape) for key, shape in shapes.items()}, kind)
    assert type(params.feed_forward) is FeedForwardParams


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("name", ["a.safetensors", "a.npz"])
def test_what_is_no_file_is_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero-{name}").symlink_to("/dev/zero")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match="the name of a file, not of"):
            read_state_dict(path)
