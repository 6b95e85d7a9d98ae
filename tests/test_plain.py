"""The plain NumPy of the pages gives what the compiled functions give."""

import ast
import builtins
import importlib
import inspect
import symtable
from pathlib import Path
from types import SimpleNamespace

import naive
import numpy as np
import plain
import pytest
from cases import SPECS, Problem, applicable
from transcripts import DERIVATIVE, Transcripts

import dlref
from dlref import (
    activations,
    attention,
    calculus,
    convolution,
    losses,
    neurons,
    normalization,
    positions,
    propagation,
    quantization,
    recurrent,
    training,
    transformer,
)

RNG = np.random.default_rng(7)
FUNCTIONS = {n: f for n, f in vars(plain).items() if inspect.getmodule(f) is plain}
CHECKED = {}


def normal(*shape):
    return RNG.normal(size=shape)


def checks(*names):
    """Mark a test as that of some transcriptions."""

    def mark(test):
        for name in names:
            CHECKED[name] = test
        return test

    return mark


def test_every_transcription_is_compared():
    assert FUNCTIONS.keys() - CHECKED.keys() == set()
    for name, test in CHECKED.items():
        source = ast.walk(ast.parse(inspect.getsource(test)))
        used = {node.attr for node in source if isinstance(node, ast.Attribute)}
        assert name in used | ELEMENTARY.keys(), name


def displayed():
    """Return the pages' transcriptions, and for each topic the functions that it shows."""
    topics = [
        SimpleNamespace(chapter=path.parent.name, name=path.stem[1:], names=module.__all__)
        for path in Path(dlref.__file__).parent.glob("*/_*.py")
        if not path.name.startswith("__") and not path.parent.name.startswith("_")
        for module in [importlib.import_module(f"dlref.{path.parent.name}.{path.stem}")]
        if getattr(module, "__all__", None)
    ]
    transcripts = Transcripts(topics)
    return transcripts, {
        f"{key} {f.name}": f for key, shown in transcripts.shown.items() for f in shown
    }


TRANSCRIPTS, DISPLAYED = displayed()


def run_alone(function):
    """Run a displayed block where only NumPy is known; return its function."""
    code = TRANSCRIPTS.code(function)
    assert "globals()" not in code
    space = {"np": np, "__name__": "pasted"}
    exec(compile(code, function.name, "exec"), space)
    table = symtable.symtable(code, function.name, "exec")
    missing = set().union(*map(transcribed_names, table.get_children())) - space.keys()
    assert missing - vars(builtins).keys() == set()
    return space[function.name]


def transcribed_names(scope):
    found = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    return found.union(*map(transcribed_names, scope.get_children()))


@pytest.mark.parametrize("name", DISPLAYED)
def test_a_displayed_block_runs_when_pasted(name):
    run_alone(DISPLAYED[name])


@pytest.mark.parametrize("name", [n for n, f in DISPLAYED.items() if f.name in FUNCTIONS])
def test_and_gives_what_dlref_gives(name, monkeypatch):
    """The tests of this file, called with the displayed code."""
    function = DISPLAYED[name]
    if TRANSCRIPTS.module[function] is not TRANSCRIPTS.module[TRANSCRIPTS.plain["gpt"]]:
        pytest.skip("an oracle of tests/naive.py, which the next test calls")
    alone = run_alone(function)
    monkeypatch.setattr(plain, function.name, alone)
    monkeypatch.setitem(FUNCTIONS, function.name, alone)
    test = CHECKED[function.name]
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and test is not test_elementary:
            for value in mark.args[1]:
                test(*value) if "," in mark.args[0] else test(value)
            return
    if test is test_elementary:
        test(function.name)
    else:
        test()


#: The functions of tests/naive.py that pages show: oracles, and backward passes.
OF_NAIVE = {
    f"{key}.{f.name}": f
    for key, shown in TRANSCRIPTS.shown.items()
    for f in shown
    if TRANSCRIPTS.module[f] is not TRANSCRIPTS.module[TRANSCRIPTS.plain["gpt"]]
}
BACKWARD = [name for name in OF_NAIVE if DERIVATIVE.search(name)]
ORACLES = {name: f for name, f in OF_NAIVE.items() if name not in BACKWARD}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_backward_pass_is_what_dlref_gives(name):
    """With the inputs of the first call in the record of its map; the displayed code, too."""
    (chapter, _, function), code = name.split("."), OF_NAIVE[name]
    key, form = f"{chapter}.{DERIVATIVE.sub('', function)}", DERIVATIVE.search(function)[1]
    whole = getattr(getattr(dlref, chapter), function)
    for seed in range(3):
        problem = Problem(key, SPECS[key].calls[0], seed=seed)
        arguments, options = problem.arguments(form), applicable(f"{chapter}.{function}", problem)
        want = whole(*arguments, **options)
        for f in (getattr(naive, function), run_alone(code)):
            close(f(*arguments, **options), want)


@pytest.mark.parametrize("name", ORACLES)
def test_a_displayed_oracle_can_be_called(name):
    """With the inputs of the first call in the record of its map."""
    chapter, function = name.partition(".")[0], ORACLES[name]
    spec = SPECS.get(f"{chapter}.{function.name}")
    alone = run_alone(function)
    if spec is None:
        return  # it takes trees, states or generators
    call = spec.calls[0]
    options = dict(call.options)
    if "activation" in options:
        options["activation"] = getattr(naive, options["activation"])
    got = alone(*spec.inputs(np.random.default_rng(0), call.shapes), **options)
    want = getattr(naive, function.name)
    close(got, want(*spec.inputs(np.random.default_rng(0), call.shapes), **call.options))


def test_transcriptions_are_short():
    """3 to 12 lines, but the loops, and a whole model in 60."""
    lines, shown = {}, {f.name for name, f in OF_NAIVE.items() if name in BACKWARD}
    for module in (naive, plain):
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (module is plain or node.name in shown):
                lines[node.name] = node.end_lineno - node.lineno
                assert ast.get_docstring(node), node.name
    assert lines.pop("gpt") <= 60
    assert max(lines.values()) <= 19, max(lines, key=lines.get)


def close(got, want, tolerance=1e-12):
    """Compare numbers, or tuples of them as far as both go."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            close(a, b, tolerance)
    else:
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


ROWS = normal(4, 5)
#: vjp and gradients: the module, the inputs after the cotangent, the cotangent.
ELEMENTARY = {
    "softmax_vjp": (activations, (ROWS,), normal(4, 5)),
    "neuron_vjp": (neurons, (np.ones(3), normal(3) ** 2, 0.5), 1.7),
    "cross_entropy_grad": (losses, (ROWS, np.array([0, 4, 2, 2])), None),
    "linear_cross_entropy_grad": (
        losses,
        (normal(5, 3), normal(4, 3), np.array([0, 3, 1, 1, 2])),
        None,
    ),
    "layer_norm_vjp": (normalization, (ROWS, normal(5), normal(5)), normal(4, 5)),
    "rms_norm_vjp": (normalization, (ROWS, normal(5)), normal(4, 5)),
    "batch_norm_vjp": (normalization, (ROWS, normal(5), normal(5)), normal(4, 5)),
}


@checks(*ELEMENTARY)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary(name):
    module, inputs, u = ELEMENTARY[name]
    arguments = inputs if u is None else (u, *inputs)
    close(FUNCTIONS[name](*arguments), getattr(module, name)(*arguments))


@checks("nvfp4")
def test_blocks():
    x = normal(4, 64)
    x[0], x[1, :31], x[1, 31] = 0.0, 0.0, 1e-5  # blocks of zeros, and one below all scales
    for t in (1.0, 0.01):
        codes = quantization.quantize_blocks(x, format="nvfp4", tensor_scale=t)
        told = {"format": "nvfp4", "tensor_scale": t, "dtype": np.float64}
        close(plain.nvfp4(x, t), quantization.dequantize_blocks(*codes, **told))


@checks("ctc_trellis", "ctc_loss_grad")
def test_texts_that_are_not_aligned():
    x = np.log(naive.softmax(normal(9, 4)))
    for letters in ([1, 2, 3], [1, 1, 3], []):
        text = np.array(letters, int)
        want = losses.ctc_loss(x, text, reduction="sum")
        loss, grad = plain.ctc_loss_grad(x, text)
        close(loss, want)
        close(grad, losses.ctc_loss_grad(x, text, reduction="sum"))
        close(-np.logaddexp.reduce(plain.ctc_trellis(x, text)[1][-1, -2:]), want)


def test_the_gradient_at_a_dead_neuron_is_zero():
    inputs = np.ones(3), -np.ones(3), 0.5
    close(plain.neuron_vjp(1.7, *inputs), neurons.neuron_vjp(1.7, *inputs))
    close(plain.neuron_vjp(1.7, *inputs)[0], np.zeros(3))


@checks("softmax_shifted", "cross_entropy_of_classes")
def test_shifted_rows_do_not_overflow():
    target = np.array([0, 4, 2, 2])
    for x in (ROWS, 1000 + 1000 * ROWS):
        close(plain.softmax_shifted(x), activations.softmax(x))
        close(plain.cross_entropy_of_classes(x, target), losses.cross_entropy(x, target))


@checks("layer_norm", "rms_norm", "batch_norm")
def test_norms():
    weight, bias = normal(5), normal(5)
    close(plain.layer_norm(ROWS, weight, bias), normalization.layer_norm(ROWS, weight, bias))
    close(plain.rms_norm(ROWS, weight), normalization.rms_norm(ROWS, weight))
    close(plain.batch_norm(ROWS, weight, bias), normalization.batch_norm(ROWS, weight, bias))


@checks("chain_cost")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_cost_of_a_chain(mode):
    shapes = [(2, 5), (5, 7), (7, 3), (3, 4)]
    assert plain.chain_cost(shapes, mode) == calculus.chain_cost(shapes, mode=mode)[0]


@checks("mlp_vjp", "mlp_loss_grad")
def test_perceptron():
    params = tuple((normal(m, n), normal(m)) for n, m in [(5, 6), (6, 7), (7, 3)])
    u, target = normal(4, 3), np.array([0, 2, 1, 1])
    close(plain.mlp_vjp(u, ROWS, params), neurons.mlp_vjp(u, ROWS, params))
    close(plain.mlp_loss_grad(ROWS, target, params), training.mlp_loss_grad(ROWS, target, params))


@checks(
    "sgd_step", "momentum_step", "nesterov_step", "adagrad_step", "rmsprop_step", "adam_step",
    "adamw_step", "lion_step",
)  # fmt: skip
def test_steps_of_optimizers():
    pairs = [
        (lambda x, g, t: (plain.sgd_step(x, g, 0.1),), training.sgd_step, 0),
        (lambda x, g, t, v: plain.momentum_step(x, g, v, 0.1), training.momentum_step, 1),
        (lambda x, g, t, v: plain.nesterov_step(x, g, v, 0.1), training.nesterov_step, 1),
        (lambda x, g, t, s: plain.adagrad_step(x, g, s, 0.1), training.adagrad_step, 1),
        (lambda x, g, t, s: plain.rmsprop_step(x, g, s, 0.1), training.rmsprop_step, 1),
        (lambda x, g, t, m, v: plain.adam_step(x, g, m, v, t, 0.1), training.adam_step, 2),
        (lambda x, g, t, m, v: plain.adamw_step(x, g, m, v, t, 0.1), training.adamw_step, 2),
        (lambda x, g, t, m: plain.lion_step(x, g, m, 0.1), training.lion_step, 1),
    ]
    for ours, theirs, slots in pairs:
        x, state, memory = normal(5), None, slots * [np.zeros(5)]
        y = x
        for t in range(1, 6):
            g = normal(5)
            x, *memory = ours(x, g, t, *memory)
            y, state = theirs(y, g, state, learning_rate=0.1)
            close(x, y)


@checks("newton_schulz", "muon_step")
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_muon(shape):
    x, state, m = normal(*shape), None, np.zeros(shape)
    close(plain.newton_schulz(x), training.newton_schulz(x))
    close(plain.newton_schulz(m), training.newton_schulz(m))
    y = x
    for _ in range(5):
        g = normal(*shape)
        x, m = plain.muon_step(x, g, m, 0.1)
        y, state = training.muon_step(y, g, state, learning_rate=0.1)
        close(x, y)


@checks("diffusion_target")
def test_targets():
    x, noise, alpha, sigma = normal(3, 4), normal(3, 4), normal(3, 1), normal(3, 1)
    kinds = ("noise", "data", "velocity", "flow")
    got = plain.diffusion_target(x, noise, alpha, sigma)[1:]
    close(got, [training.diffusion_target(x, noise, alpha, sigma, kind=k) for k in kinds])


@checks("gradient_descent")
def test_descent():
    f = lambda x: (np.sum(x * x), 2 * x)  # noqa: E731
    got, losses_ = plain.gradient_descent(f, ROWS, 0.1, 5)
    want, values = training.gradient_descent(f, ROWS, learning_rate=0.1, steps=5)
    close(got, want)
    close(losses_, list(values[:5]))


@checks("clip_by_norm", "clip_by_value")
@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clipping(limit):
    grads = [normal(3), normal(2, 2)]
    close(plain.clip_by_norm(grads, limit), list(training.clip_by_norm(tuple(grads), limit)))
    close(plain.clip_by_value(grads, limit), list(training.clip_by_value(tuple(grads), limit)))


@checks("warmup_schedule", "cosine_schedule", "inverse_sqrt_schedule")
def test_schedules():
    t = np.arange(1.0, 30.0)
    options = {"peak": 0.3, "warmup": 5}
    close(plain.warmup_schedule(t, **options), training.warmup_schedule(t, **options))
    close(plain.inverse_sqrt_schedule(t, **options), training.inverse_sqrt_schedule(t, **options))
    options["steps"] = 20
    close(plain.cosine_schedule(t, **options), training.cosine_schedule(t, **options))


@checks("fit_neuron")
def test_a_trained_neuron():
    X, w = normal(8, 3), normal(3)
    y = np.maximum(X @ w, 0)
    got = plain.fit_neuron(X, y, np.ones(3), 0.5, 0.05, 4)
    want = training.fit_neuron(X, y, np.ones(3), 0.5, learning_rate=0.05, epochs=4)
    close(got, (want.w, want.b))


@checks("minibatches")
def test_minibatches():
    x, y = np.arange(10.0), np.arange(10)
    got = list(plain.minibatches(np.random.default_rng(0), x, y, 4))
    want = list(training.minibatches(np.random.default_rng(0), x, y, batch_size=4))
    close(got, want)


@checks("tree_ravel", "tree_unravel")
def test_trees():
    arrays = (normal(2, 3), normal(4), normal(1, 1))
    vector = plain.tree_ravel(arrays)
    close(vector, training.tree_ravel(arrays))
    close(plain.tree_unravel(vector, arrays), list(training.tree_unravel(vector, arrays)))


@checks("glorot_uniform", "he_normal", "lecun_normal", "orthogonal", "forward_moments")
def test_initialization():
    def make(f, *arguments):
        return f(np.random.default_rng(3), *arguments)

    close(make(plain.glorot_uniform, 4, 6), make(propagation.glorot_uniform, (4, 6)))
    close(make(plain.he_normal, 4, 6), make(propagation.he_normal, (4, 6)))
    close(make(plain.lecun_normal, 4, 6), make(propagation.lecun_normal, (4, 6)))
    close(make(plain.orthogonal, 5), make(propagation.orthogonal, (5, 5)))
    widths = [400, 400, 400]
    got = plain.forward_moments(np.random.default_rng(3), widths)
    want = propagation.signal_propagation(widths, rng=np.random.default_rng(3))
    np.testing.assert_allclose(got, want.forward_predicted, rtol=0.2)


def weights(gates, size, inputs, biases):
    shapes = [(gates * size, inputs), (gates * size, size), *biases * [(gates * size,)]]
    return [normal(*shape) / 2 for shape in shapes]


@checks("conv", "conv_vjp")
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 3}, {"padding": 1, "dilation": 2}]
)
def test_convolution(options):
    x, w = normal(3, 9), normal(2, 3, 3)
    y = convolution.conv(x, w, **options)
    close(plain.conv(x, w, **options), y)
    u = normal(*y.shape)
    close(plain.conv_vjp(u, x, w, **options), convolution.conv_vjp(u, x, w, **options))


@checks("conv_transpose", "conv_transpose_vjp")
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"stride": 3}])
def test_transposed_convolution(options):
    x, w = normal(3, 5), normal(3, 2, 4)
    y = convolution.conv_transpose(x, w, **options)
    close(plain.conv_transpose(x, w, **options), y)
    u = normal(*y.shape)
    want = convolution.conv_transpose_vjp(u, x, w, **options)
    close(plain.conv_transpose_vjp(u, x, w, **options), want)


@checks("max_pool", "max_pool_vjp", "mean_pool", "mean_pool_vjp")
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pooling(stride):
    x, options = normal(7, 8), {"size": (3, 2), "stride": stride}
    y = convolution.max_pool(x, **options)
    u = normal(*y.shape)
    close(plain.max_pool(x, **options)[0], y)
    close(plain.max_pool_vjp(u, x, **options), convolution.max_pool_vjp(u, x, **options))
    close(plain.mean_pool(x, **options), convolution.mean_pool(x, **options))
    close(plain.mean_pool_vjp(u, x, **options), convolution.mean_pool_vjp(u, x, **options))


@checks("causal_conv", "causal_conv_vjp")
@pytest.mark.parametrize("steps", [1, 6])
def test_causal_convolution(steps):
    inputs = normal(steps, 3), normal(3, 4), None, normal(3, 3)
    x, w, _, state = inputs
    close(plain.causal_conv(x, w, state), convolution.causal_conv(*inputs))
    u, v = normal(steps, 3), normal(3, 3)
    want = convolution.causal_conv_vjp((u, v), *inputs)
    close(plain.causal_conv_vjp(u, v, x, w, state), want)


@checks("embedding_vjp", "lora_linear_vjp")
def test_layers_of_language_models():
    table, ids, u = normal(5, 3), np.array([4, 0, 4, 1]), normal(4, 3)
    close(plain.embedding_vjp(u, table, ids), neurons.embedding_vjp(u, table, ids))
    inputs = normal(4, 5), normal(3, 5), normal(2, 5), normal(3, 2)
    want = neurons.lora_linear_vjp(u, *inputs, scale=0.5)
    close(plain.lora_linear_vjp(u, *inputs, 0.5), want)


@checks("rnn", "rnn_vjp")
def test_rnn():
    x, h, u = normal(5, 3), normal(4), normal(5, 4)
    w = weights(1, 4, 3, 1)
    close(plain.rnn(x, h, *w), recurrent.rnn(x, h, *w))
    close(plain.rnn_vjp(u, x, h, *w), recurrent.rnn_vjp(u, x, h, *w))


@checks("lstm_cell", "lstm", "lstm_vjp")
def test_lstm():
    x, h, c, u = normal(5, 3), normal(4), normal(4), normal(5, 4)
    w = weights(4, 4, 3, 1)
    close(plain.lstm_cell(x[0], h, c, *w)[:2], recurrent.lstm_cell(x[0], h, c, *w))
    close(plain.lstm(x, h, c, *w), recurrent.lstm(x, h, c, *w))
    close(plain.lstm_vjp(u, x, h, c, *w), recurrent.lstm_vjp((u, None), x, h, c, *w))


@checks("gru_cell", "gru_cell_reset_before", "gru", "gru_vjp")
def test_gru():
    x, h, u = normal(5, 3), normal(4), normal(5, 4)
    w = weights(3, 4, 3, 2)
    close(plain.gru_cell(x[0], h, *w)[0], recurrent.gru_cell(x[0], h, *w))
    before = recurrent.gru_cell(x[0], h, *w, reset_after=False)
    close(plain.gru_cell_reset_before(x[0], h, *w), before)
    close(plain.gru(x, h, *w), recurrent.gru(x, h, *w))
    close(plain.gru_vjp(u, x, h, *w), recurrent.gru_vjp(u, x, h, *w))


@checks("bidirectional", "sequence_to_vector")
def test_sequences():
    x, w_out, b_out = normal(5, 3), normal(2, 4), normal(2)
    one, other = ((normal(4), *weights(1, 4, 3, 1)) for _ in range(2))
    want = recurrent.bidirectional(recurrent.rnn, x, one, other)
    close(plain.bidirectional(x, one, other), want)
    want = recurrent.sequence_to_vector(recurrent.rnn, x, one, w_out, b_out)
    close(plain.sequence_to_vector(x, one, w_out, b_out), want)


@checks("selective_scan_doubling", "selective_scan_vjp")
@pytest.mark.parametrize("steps", [1, 6, 8])
def test_selective_scan(steps):
    x, delta, u = normal(steps, 3), RNG.random((steps, 3)), normal(steps, 3)
    inputs = x, delta, -RNG.random((3, 2)), normal(steps, 2), normal(steps, 2)
    close(plain.selective_scan_doubling(*inputs), recurrent.selective_scan(*inputs)[0])
    want = recurrent.selective_scan_vjp((u, np.zeros((3, 2))), *inputs)
    close(plain.selective_scan_vjp(u, *inputs), want)


@checks("sinusoidal", "alibi_slopes")
def test_positions():
    close(plain.sinusoidal(7, 6), positions.sinusoidal(7, 6))
    close(plain.alibi_slopes(8), positions.alibi_slopes(8))


@checks("rope_interleaved", "rope_half_split", "rope_vjp")
def test_rotations():
    x, theta = normal(5, 8), plain.rope_frequencies(8)
    tables = positions.rope_tables(np.arange(5), theta)
    halves = {"interleaved": False}
    close(plain.rope_interleaved(x, theta), positions.apply_rope(x, *tables))
    close(plain.rope_half_split(x, theta), positions.apply_rope(x, *tables, **halves))
    close(plain.rope_vjp(x, theta), positions.apply_rope_vjp(x, x, *tables, **halves))


@checks("rope_frequencies", "linear_scaling", "ntk_scaling")
def test_frequencies():
    close(plain.rope_frequencies(16, 500.0), positions.rope_frequencies(16, base=500.0))
    for kind, f in (("linear", plain.linear_scaling), ("ntk", plain.ntk_scaling)):
        want = positions.rope_frequencies(16, scaling={"type": kind, "factor": 4.0})
        close(f(16, 4.0), want)


@checks("causal_mask", "window_mask", "padding_mask")
def test_masks():
    close(plain.causal_mask(2, 5, 3), attention.causal_mask(2, 5, q_offset=3))
    want = attention.window_mask(4, 6, left=1, right=2, q_offset=2)
    close(plain.window_mask(4, 6, 1, 2, 2), want)
    lengths = np.array([2, 0, 3])
    close(plain.padding_mask(lengths, 3), attention.padding_mask(lengths, 3))


Q, K, V = normal(3, 4), normal(5, 4), normal(5, 2)


@checks("attention", "masked_attention", "attention_vjp")
def test_attention():
    u, mask = normal(3, 2), np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], bool)
    close(plain.attention(Q, K, V), attention.scaled_dot_product_attention(Q, K, V))
    want = attention.scaled_dot_product_attention(Q, K, V, mask=mask)
    close(plain.masked_attention(Q, K, V, mask), want)
    assert not plain.masked_attention(Q, K, V, mask)[1].any()
    close(plain.attention_vjp(u, Q, K, V), attention.scaled_dot_product_attention_vjp(u, Q, K, V))


@checks("flash_attention", "flash_attention_vjp")
@pytest.mark.parametrize("tile", [1, 2, 5, 8])
def test_tiles(tile):
    u = normal(3, 2)
    out, lse = plain.flash_attention(100 * Q, K, V, tile)
    want = attention.scaled_dot_product_attention(100 * Q, K, V, return_lse=True)
    close((out, lse[:, 0]), want, 1e-11)
    want = attention.scaled_dot_product_attention_vjp(u, Q, K, V)
    close(plain.flash_attention_vjp(u, Q, K, V, tile), want)


@checks("latent_attention", "rms_norm_of_latent")
def test_latent_attention():
    x, shapes = normal(5, 8), ((6, 8), (6,), (8, 6), (3, 8), (3,), (8, 3), (10, 3), (8, 10))
    weights = [normal(*shape) for shape in shapes]
    params = attention.LatentAttentionParams(*weights)
    want = attention.latent_attention(x, params, num_heads=2)
    close(plain.latent_attention(x, *weights, 2), want)
    latent = x @ weights[3].T
    want = normalization.rms_norm(latent, weights[4])
    close(plain.rms_norm_of_latent(latent, weights[4]), want)


@checks("multi_head_attention", "encoder_block", "encoder", "feed_forward", "gated_feed_forward")
def test_layers():
    x = normal(5, 8)
    w = [normal(8, 8) for _ in range(4)]
    params = attention.AttentionParams(*w)
    want = attention.multi_head_attention(x, x, params, num_heads=2)
    close(plain.multi_head_attention(x, *w, 2), want)
    network = normal(12, 8), normal(12), normal(8, 12), normal(8)
    close(plain.feed_forward(x, *network), transformer.feed_forward(x, network))
    gated = normal(12, 8), normal(12, 8), normal(8, 12)
    close(plain.gated_feed_forward(x, *gated), transformer.gated_feed_forward(x, gated))
    norm = normal(8), normal(8)
    theirs = transformer.EncoderBlockParams(
        params,
        transformer.NormParams(*norm),
        transformer.FeedForwardParams(*network),
        transformer.NormParams(*norm),
    )
    options = {"num_heads": 2, "norm_first": True}
    ours = w, norm, network, norm
    close(plain.encoder_block(x, ours, 2), transformer.encoder_block(x, theirs, **options))
    want = transformer.encoder(x, (theirs, theirs), **options)
    close(plain.encoder(x, [ours, ours], 2), want, 1e-11)


@checks("gpt", "greedy", "parameter_count")
def test_a_whole_gpt():
    config = transformer.LanguageModelConfig(
        vocabulary=11, width=8, heads=2, layers=3, hidden=20, length=9, activation="gelu_tanh"
    )
    params = transformer.init_language_model(np.random.default_rng(5), config)
    params = training.tree_map(lambda a: a + 0.1 * RNG.normal(size=a.shape), params)
    tokens = np.array([3, 1, 10, 1, 0])
    close(plain.gpt(tokens, params, 2), transformer.language_model(tokens, params, config))
    text = plain.greedy(lambda t: plain.gpt(t, params, 2), list(tokens), 4)
    want = transformer.generate(tokens, params, config, steps=4, temperature=0.0)
    assert text[-4:] == list(want[-4:])
    count = plain.parameter_count(D=8, layers=3, width=20, vocabulary=11, context=9)
    assert count == transformer.parameter_counts(config).total


@checks("next_token_probabilities")
@pytest.mark.parametrize(
    "limits", [{}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 4, "top_p": 0.6}, {"temperature": 0.5}]
)
def test_probabilities_of_the_next_token(limits):
    logits = normal(9)
    want = transformer.next_token_probabilities(logits, **limits)
    close(plain.next_token_probabilities(logits, **limits), want)


@checks("copy_task")
def test_copies():
    text = plain.copy_task(np.random.default_rng(2), 3, 4, 6)
    tokens, _ = transformer.copy_task(np.random.default_rng(2), 3, length=4, vocabulary=6)
    close(text[:, :-1], tokens)
