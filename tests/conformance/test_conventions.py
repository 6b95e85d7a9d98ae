"""
The rows of the table of conventions, run: dlref's expression beside the library.

What cannot be installed here (Keras, TensorFlow, flash-attention, MLX, checkpoints) is
written out in NumPy from its documentation.
"""

import importlib.util
import warnings

import numpy as np
import peers
import pytest

import dlref
from dlref.formulas.activations import sigmoid, softmax
from dlref.formulas.normalization import layer_norm, rms_norm
from dlref.interop import conventions

T, S, E, H = 2, 5, 4, 2
JAX = 1e-7  # its softmax is computed in float32, whatever the inputs are
ROWS = {(row.topic, row.library.split(",")[0].split(" by ")[0]): row for row in conventions()}
NAMES = {
    name: getattr(getattr(dlref, chapter), name)
    for chapter in dlref.__all__
    if hasattr(getattr(dlref, chapter), "__all__")
    for name in getattr(dlref, chapter).__all__
}


def drawn():
    """Draw what the expressions and the libraries are given."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.normal(size=shape)

    d = {"T": T, "S": S, "past": 3, "np": np, "table": normal(32, H), "running": normal(E)}
    d |= {"q": normal(1, H, T, E), "k": normal(1, H, S, E), "v": normal(1, H, S, E)}
    d |= {"mask": np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 0]], bool)}
    d |= {"nothing": np.zeros((T, S), bool)}
    d |= {"x": normal(3, 6, E), "w": normal(E), "weight": normal(7, E)}
    d["kernel"] = d["weight"].T
    d |= {"w_ih": normal(4 * H, E), "w_hh": normal(4 * H, H), "b": normal(4 * H)}
    d |= {"w3_ih": normal(3 * H, E), "w3_hh": normal(3 * H, H)}
    d |= {"b3": normal(3 * H), "c3": normal(3 * H)}
    angles = normal(T, E // 2)
    d |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    lstm, gru = (d["w_ih"], d["w_hh"], d["b"]), (d["w3_ih"], d["w3_hh"], d["b3"], d["c3"])
    d |= {"onnx": blocks(lstm, "ifgo", "iofg"), "tensorflow": blocks(lstm, "ifgo", "igfo")}
    d |= {"keras": [a.T for a in lstm], "onnx3": blocks(gru, "rzn", "zrn")}
    d |= {"W": 3, "K": E, "sinks": normal(H), "w": normal(E), "g": normal(E)}
    d |= {"scores": normal(7, E), "labels": rng.integers(0, E, 7)}
    d["p"], d["other"] = softmax(normal(7, E)), softmax(normal(7, E))
    d |= {"log_p": np.log(d["other"]), "router": normal(8, E), "correction": normal(8)}
    d |= {"u": normal(1, H, T, E), "dlse": normal(1, H, T), "shares": rng.uniform(0.5, 2, E)}
    d["keras3"] = [a.T for a in blocks(gru, "rzn", "zrn")]
    return d


def blocks(arrays, source, target):
    """Put the blocks of the first axis, one for each letter, into another order."""
    order = [source.index(gate) for gate in target]
    return [np.concatenate([np.split(a, len(source))[i] for i in order]) for a in arrays]


# What the libraries do.


def attend(d, seen=None, *, softcap=None, bias=0.0, scale=E**-0.5):
    """Attend with axes (B, H, T, E), written out."""
    s = scale * d["q"] @ d["k"].swapaxes(-1, -2) + bias
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    return softmax(s if seen is None else np.where(seen, s, -np.inf)) @ d["v"]


def below(offset):
    """Return where j <= i + offset."""
    return np.arange(S) <= np.arange(T)[:, None] + offset


def with_torch(d, **options):
    torch = peers.torch
    tensors = (torch.tensor(d[name]) for name in "qkv")
    options = {k: torch.tensor(v) if np.ndim(v) else v for k, v in options.items()}
    return torch.nn.functional.scaled_dot_product_attention(*tensors, **options).numpy()


def with_jax(d, **options):
    jax = pytest.importorskip("jax", reason="see the dependency group 'peers'")
    with jax.enable_x64(True):
        arrays = (jax.numpy.asarray(d[name].swapaxes(1, 2)) for name in "qkv")
        return np.asarray(jax.nn.dot_product_attention(*arrays, **options))


def query_gradient(d):
    """Pull both outputs of attention back to the queries, written out."""
    p = softmax(E**-0.5 * d["q"] @ d["k"].swapaxes(-1, -2))
    dp = d["u"] @ d["v"].swapaxes(-1, -2)
    ds = p * (dp - np.sum(p * dp, -1, keepdims=True)) + d["dlse"][..., None] * p
    return E**-0.5 * ds @ d["k"]


def query_gradient_of_jax(d):
    """Pull the same cotangents back by JAX."""
    jax = pytest.importorskip("jax", reason="see the dependency group 'peers'")
    with jax.enable_x64(True):
        q, k, v, u, dlse = (
            jax.numpy.asarray(d[name].swapaxes(1, 2)) for name in ("q", "k", "v", "u", "dlse")
        )
        _, pull = jax.vjp(lambda q: jax.nn.dot_product_attention(q, k, v, return_residual=True), q)
        return np.asarray(pull((u, dlse))[0]).swapaxes(1, 2)


def run_lstm(x, w, u, b, order):
    """Run an LSTM with kernels (D, 4 H), gates in the given order."""
    h = c = np.zeros((len(x), H))
    out = []
    for t in range(x.shape[1]):
        z = dict(zip(order, np.split(x[:, t] @ w + h @ u + b, 4, axis=-1), strict=True))
        c = sigmoid(z["f"]) * c + sigmoid(z["i"]) * np.tanh(z["g"])
        h = sigmoid(z["o"]) * np.tanh(c)
        out.append(h)
    return np.stack(out, axis=1)


def run_gru(x, w, u, b, c, *, after):
    """Run a GRU with kernels (D, 3 H), gates z, r, h."""
    h = np.zeros((len(x), H))
    (wz, wr, wn), (uz, ur, un) = (np.split(a, 3, axis=-1) for a in (w, u))
    (bz, br, bn), (cz, cr, cn) = (np.split(a, 3) for a in (b, c))
    out = []
    for t in range(x.shape[1]):
        z, r = sigmoid(x[:, t] @ wz + h @ uz + bz + cz), sigmoid(x[:, t] @ wr + h @ ur + br + cr)
        old = r * (h @ un + cn) if after else (r * h) @ un + cn
        h = (1 - z) * np.tanh(x[:, t] @ wn + bn + old) + z * h
        out.append(h)
    return np.stack(out, axis=1)


def module(name, d, names, *sizes, **options):
    """Run a recurrent module of PyTorch with the given weights."""
    torch = peers.torch
    own = getattr(torch.nn, name)(*sizes, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for p, value in zip(own.parameters(), names, strict=True):
            p.copy_(torch.tensor(value))
        return own(torch.tensor(d["x"]))[0].numpy()


def functional(name, d, *args, **options):
    torch = peers.torch
    return getattr(torch.nn.functional, name)(torch.tensor(d["x"]), *args, **options).numpy()


def jax_nn(name, x, **options):
    jax = pytest.importorskip("jax", reason="see the dependency group 'peers'")
    with jax.enable_x64(True):
        return np.asarray(getattr(jax.nn, name)(jax.numpy.asarray(x), **options))


def running_by_torch(d):
    torch = peers.torch
    layer = torch.nn.BatchNorm1d(E, dtype=torch.float64)
    with torch.no_grad():
        layer.running_var.copy_(torch.tensor(d["running"]))
        layer(torch.tensor(d["x"][:, 0]))
    return layer.running_var.numpy()


def pairs(d, first, second):
    """Rotate the channels `first` with those of `second`."""
    out = np.empty_like(d["q"])
    a, b = d["q"][..., first], d["q"][..., second]
    out[..., first] = a * d["cos"] - b * d["sin"]
    out[..., second] = a * d["sin"] + b * d["cos"]
    return out


def t5(d):
    bias = d["table"][np.abs(np.arange(S) - np.arange(T)[:, None])]  # below 8: a bucket each
    ahead = d["table"][16 + np.abs(np.arange(S) - np.arange(T)[:, None])]
    later = np.arange(S) > np.arange(T)[:, None]
    return attend(d, bias=np.moveaxis(np.where(later[..., None], ahead, bias), -1, 0), scale=1.0)


def sinusoids(positions, width):
    angles = positions[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), width)


def tensor2tensor(positions, width):
    half = width // 2
    angles = positions[:, None] * np.exp(-np.log(1e4) / (half - 1) * np.arange(half))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def windowed(d, left, right):
    """Attend among the keys, to so many on the left and on the right."""
    offset = np.arange(S) - np.arange(S)[:, None]
    return attend(d | {"q": d["k"]}, (-left <= offset) & (offset <= right))


def with_sink(d, logits):
    """Attend with a logit more in each head, which has no value."""
    s = E**-0.5 * d["q"] @ d["k"].swapaxes(-1, -2)
    more = np.broadcast_to(logits[:, None, None], (*s.shape[:-1], 1))
    return softmax(np.concatenate([s, more], axis=-1))[..., :-1] @ d["v"]


def with_zeros(d):
    """Attend with a key and a value of zeros."""
    zeros = np.zeros((1, H, 1, E))
    return attend({n: np.concatenate([d[n], zeros], axis=2) for n in "kv"} | {"q": d["q"]})


def of_losses(name, d, *arguments, **options):
    torch = peers.torch
    tensors = (torch.tensor(d[argument]) for argument in arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's, of its own default
        return getattr(torch.nn.functional, name)(*tensors, **options).numpy()


def smoothed(d, true, others):
    target = np.full((7, E), others)
    target[np.arange(7), d["labels"]] = true
    return -np.mean(np.sum(target * np.log(softmax(d["scores"])), axis=-1))


def adam_of_torch(d):
    torch = peers.torch
    w = torch.nn.Parameter(torch.tensor(d["w"]))
    w.grad = torch.tensor(d["g"])
    torch.optim.Adam([w], lr=0.1, eps=0.01).step()
    return w.detach().numpy()


def adam_of_keras(d):
    """Its one line, with the rate corrected for both moments."""
    m, v = 0.1 * d["g"], 0.001 * d["g"] ** 2
    return d["w"] - 0.1 * np.sqrt(1 - 0.999) / (1 - 0.9) * m / (np.sqrt(v) + 0.01)


def amsgrad_of_torch(d):
    torch = peers.torch
    w = torch.nn.Parameter(torch.tensor(d["w"]))
    optimizer = torch.optim.Adam([w], lr=0.1, amsgrad=True)
    for factor in (2, 1):
        w.data = torch.tensor(d["w"])  # both steps begin at the same parameters
        w.grad = torch.tensor(factor * d["g"])
        optimizer.step()
    return w.detach().numpy()


def amsgrad_of_optax(d):
    """Its update: the larger of the two corrected moments stands under the root."""
    g = d["g"]
    m = (0.9 * 0.1 * 2 * g + 0.1 * g) / (1 - 0.9**2)
    first = 0.001 * (2 * g) ** 2 / (1 - 0.999)
    second = (0.999 * 0.001 * (2 * g) ** 2 + 0.001 * g**2) / (1 - 0.999**2)
    return d["w"] - 0.1 * m / (np.sqrt(np.maximum(first, second)) + 1e-8)


def with_z_loss(d, *, weighted):
    """Return the cross-entropy with weights of classes and a z-loss, from logarithms."""
    lse = np.log(np.sum(np.exp(d["scores"]), axis=-1))
    weights = d["shares"][d["labels"]]
    plain = np.sum(weights * (lse - d["scores"][np.arange(7), d["labels"]])) / weights.sum()
    return plain + 0.1 * np.sum(lse**2) / (weights.sum() if weighted else len(lse))


def kept_by_hugging_face(dtype, p=7 / 8):
    """Return how many tokens its TopPLogitsWarper keeps of 1/2, 1/4, 1/8 and 1/8."""
    torch = peers.torch
    logits = torch.log(torch.tensor([1 / 8, 1 / 8, 1 / 4, 1 / 2], dtype=dtype))
    return int((logits.softmax(-1).cumsum(-1) > 1 - p).sum())


def warmed_up(steps):
    return 0.5 * np.minimum(steps / 3, 1)


def routed(d, *, sigmoids=False, normalize=True):
    z = d["x"] @ d["router"].T
    scores = sigmoid(z) if sigmoids else softmax(z)
    chosen = np.argsort(scores + sigmoids * d["correction"], axis=-1)[..., -2:]
    weights = np.take_along_axis(scores, chosen, -1)
    return np.sort(weights / weights.sum(-1, keepdims=True) if normalize else weights)


#: By topic and first library: what it makes of the same inputs.
LIBRARIES = {
    ("Causal mask, T = 2, S = 5", "PyTorch"): lambda d: with_torch(d, is_causal=True),
    ("Causal mask, T = 2, S = 5", "ONNX with past keys"): lambda d: attend(d, below(3)),
    ("Causal mask, T = 2, S = 5", "flash-attention from 2.1"): lambda d: attend(d, below(S - T)),
    ("Row with every key masked", "PyTorch SDPA"): lambda d: with_torch(d, attn_mask=d["nothing"]),
    ("Boolean mask", "PyTorch SDPA"): lambda d: with_torch(d, attn_mask=d["mask"]),
    ("Boolean mask", "nn.MultiheadAttention"): lambda d: attend(d, d["mask"]),
    ("Axes of heads", "PyTorch"): with_torch,
    ("Axes of heads", "JAX"): with_jax,
    ("Axes of heads", "ONNX (3-D)"): lambda d: np.concatenate(list(attend(d)[0]), axis=-1)[None],
    ("Softcap", "ONNX"): lambda d: attend(d, d["mask"], softcap=0.5),
    ("Window of W tokens", "Mistral"): lambda d: windowed(d, 2, 0),
    ("Window of W tokens", "flash-attention"): lambda d: windowed(d, 3, 3),
    ("Query after a rolling cache", "dlref"): lambda d: attend(d | {"q": d["q"][..., :1, :]}),
    ("Sink", "gpt-oss"): lambda d: with_sink(d, d["sinks"]),
    ("Sink", "nn.MultiheadAttention with add_zero_attn"): with_zeros,
    ("Scores of float64 inputs", "PyTorch"): with_torch,
    ("Gradient of attention's log-sum-exp", "dlref"): query_gradient,
    ("Gradient of attention's log-sum-exp", "JAX with return_residual"): query_gradient_of_jax,
    ("KL divergence", "PyTorch with reduction='batchmean'"): lambda d: of_losses(
        "kl_div", d, "log_p", "p", reduction="batchmean"
    ),
    ("KL divergence", "PyTorch"): lambda d: of_losses("kl_div", d, "log_p", "p", reduction="mean"),
    ("KL divergence", "Keras"): lambda d: np.sum(d["p"] * np.log(d["p"] / d["other"]), axis=-1),
    ("Label smoothing by 0.1, K classes", "PyTorch"): lambda d: of_losses(
        "cross_entropy", d, "scores", "labels", label_smoothing=0.1
    ),
    ("Label smoothing by 0.1, K classes", "fairseq"): lambda d: smoothed(d, 0.9, 0.1 / (E - 1)),
    ("eps of Adam, first step", "PyTorch"): adam_of_torch,
    ("eps of Adam, first step", "TensorFlow"): adam_of_keras,
    ("Maximum of AMSGrad, second step", "PyTorch"): amsgrad_of_torch,
    ("z-loss with weights of classes", "dlref"): lambda d: with_z_loss(d, weighted=True),
    ("z-loss with weights of classes", "Liger"): lambda d: with_z_loss(d, weighted=False),
    ("Top p, a sum that is p exactly", "dlref"): lambda d: np.array([4, 2, 1, 0]) / 7,
    ("Warm-up of W steps", "Hugging Face"): lambda d: warmed_up(np.arange(6)),
    ("Warm-up of W steps", "the paper"): lambda d: warmed_up(np.arange(1, 7)),
    ("Weights of a router", "Mixtral"): routed,
    ("Weights of a router", "Switch"): lambda d: routed(d, normalize=False),
    ("Weights of a router", "gpt-oss"): routed,
    ("Weights of a router", "DeepSeek-V3"): lambda d: routed(d, sigmoids=True),
    ("LSTM gates", "PyTorch"): lambda d: module(
        "LSTM", d, (d["w_ih"], d["w_hh"], d["b"], 0 * d["b"]), E, H
    ),
    ("LSTM gates", "ONNX"): lambda d: run_lstm(d["x"], *(a.T for a in d["onnx"]), "iofg"),
    ("LSTM gates", "Keras"): lambda d: run_lstm(d["x"], *d["keras"], "ifgo"),
    ("LSTM gates", "TensorFlow's LSTMCell"): lambda d: run_lstm(
        d["x"], *(a.T for a in d["tensorflow"]), "igfo"
    ),
    ("GRU", "PyTorch"): lambda d: module(
        "GRU", d, (d["w3_ih"], d["w3_hh"], d["b3"], d["c3"]), E, H
    ),
    ("GRU", "ONNX"): lambda d: run_gru(d["x"], *(a.T for a in d["onnx3"]), after=False),
    ("GRU", "Keras"): lambda d: run_gru(d["x"], *d["keras3"], after=True),
    ("GELU", "PyTorch"): lambda d: functional("gelu", d),
    ("GELU", "JAX"): lambda d: jax_nn("gelu", d["x"]),
    ("eps of layer norm", "PyTorch"): lambda d: functional("layer_norm", d, (E,)),
    ("eps of layer norm", "Keras"): lambda d: layer_norm(d["x"], eps=1e-3),
    ("eps of RMS norm", "PyTorch"): lambda d: functional("rms_norm", d, (E,)),
    ("eps of RMS norm", "ONNX"): lambda d: rms_norm(d["x"], eps=1e-5),
    ("eps of RMS norm", "dlref"): lambda d: rms_norm(d["x"], eps=1e-6),
    ("RMS norm's weight", "Gemma"): lambda d: rms_norm(d["x"], eps=1e-6) * (1 + d["w"]),
    ("Momentum of batch norm", "ONNX"): lambda d: 0.9 * d["running"] + 0.1 * d["x"][:, 0].var(0),
    ("Momentum of batch norm", "PyTorch"): running_by_torch,
    ("Hard sigmoid", "ONNX"): lambda d: np.clip(0.2 * d["x"] + 0.5, 0, 1),
    ("Hard sigmoid", "PyTorch"): lambda d: functional("hardsigmoid", d),
    ("Hard sigmoid", "PyTorch's backward pass"): lambda d: peers.value_and_vjp(
        peers.torch.nn.functional.hardsigmoid, d["w"], dout=d["g"]
    )[1][0],
    ("Sinusoids", "the paper"): lambda d: sinusoids(np.arange(T), 8),
    ("Sinusoids", "tensor2tensor"): lambda d: tensor2tensor(np.arange(T), 8),
    ("Weights of a dense layer", "PyTorch"): lambda d: functional(
        "linear", d, peers.torch.tensor(d["weight"])
    ),
    ("Weights of a dense layer", "Keras"): lambda d: d["x"] @ d["kernel"],
    ("Rotated pairs", "the paper"): lambda d: pairs(d, np.s_[::2], np.s_[1::2]),
    ("Rotated pairs", "GPT-NeoX"): lambda d: pairs(d, np.s_[: E // 2], np.s_[E // 2 :]),
    ("ALiBi, 12 heads", "the official code"): lambda d: np.concatenate(
        [2.0 ** -np.arange(1, 9), 2.0 ** -np.arange(0.5, 4.5)]
    ),
    ("T5", "T5"): t5,
}


@pytest.mark.parametrize("row", ROWS, ids=" - ".join)
def test_row(row):
    code = ROWS[row].code
    if not code:
        assert row not in LIBRARIES
        return
    data = drawn()
    if row[0] == "Momentum of batch norm":
        data["x"] = data["x"][:, 0]
        want = LIBRARIES[row](drawn())
    else:
        want = LIBRARIES[row](data)
    got = eval(code, NAMES | data)
    tolerance = JAX if LIBRARIES[row] in (with_jax, query_gradient_of_jax) else 1e-14
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=tolerance)


def test_rows_are_told_apart():
    assert len(ROWS) == len(conventions())
    assert {*LIBRARIES} <= {*ROWS}


class TestRowsWithoutAWay:
    """What dlref does not do, or needs not do: seen in the libraries."""

    def test_masked_rows(self):
        d = drawn()
        with np.errstate(invalid="ignore"):
            assert np.isnan(attend(d, d["nothing"])).all()  # the pseudo-code
        if importlib.util.find_spec("jax"):
            out = with_jax(d, mask=d["nothing"])
            mean = np.broadcast_to(d["v"].mean(2)[:, None], out.shape)
            np.testing.assert_allclose(out, mean, rtol=0, atol=JAX)
        torch = peers.torch
        layer = torch.nn.MultiheadAttention(E, 1, batch_first=True, dtype=torch.float64).eval()
        x = torch.tensor(d["x"])
        blocked = torch.ones(6, 6, dtype=torch.bool)
        with torch.no_grad():
            assert torch.isnan(layer(x, x, x, attn_mask=blocked, need_weights=True)[0]).all()
            out = layer(x, x, x, attn_mask=blocked, need_weights=False)[0]
        assert (out == layer.out_proj.bias).all()  # attention of 0, then the last layer

    def test_keys_before_a_jax_mask(self):
        d = drawn()
        out = with_jax(d, is_causal=True)  # top left, as PyTorch
        np.testing.assert_allclose(out.swapaxes(1, 2), attend(d, below(0)), rtol=0, atol=JAX)

    def test_scores_of_jax_have_the_digits_of_float32(self):
        d = drawn()
        difference = np.max(np.abs(with_jax(d).swapaxes(1, 2) - attend(d)))
        assert 1e-10 < difference < JAX

    def test_the_maximum_of_amsgrad_in_optax(self):
        d = drawn()
        ours, theirs = d["w"] - amsgrad_of_torch(d), d["w"] - amsgrad_of_optax(d)
        larger, raw = 4, (4 * 0.999 + 1) / (1 + 0.999)  # of g squared, under the root
        np.testing.assert_allclose(ours / theirs, np.sqrt(larger / raw), rtol=1e-6)

    def test_top_p_of_hugging_face_depends_on_the_dtype(self):
        torch = peers.torch
        assert kept_by_hugging_face(torch.float32) == 3
        assert kept_by_hugging_face(torch.float64) == 4

    def test_slopes_by_the_rule_of_the_paper(self):
        rule = 2.0 ** (-8 / 12 * np.arange(1, 13))
        np.testing.assert_allclose(rule[:2], [0.63, 0.397], rtol=1e-3)
