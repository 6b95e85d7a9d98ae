"""
A call of every public function that tests/cases.py has no formula for.

Those take trees of parameters, states, tokens or functions; tests/test_calls.py says what holds for
all of them.
"""

import dataclasses
import inspect
import types

import numpy as np
from chapters import CHAPTERS

import dlref
from dlref import activations, attention, check, neurons, recurrent, training, transformer
from dlref._records import records

B, T, S, D, H = 2, 3, 5, 4, 2
NO_SCALES = np.full((2, 1), 127, np.uint8)  # of 1


def mapped(f, value):
    """Apply f to every array in nested tuples and lists."""
    if isinstance(value, np.ndarray | np.generic):
        return f(np.asarray(value))
    if isinstance(value, tuple | list):
        entries = [mapped(f, entry) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    return value


def arrays(value):
    """List the arrays of a value, in order."""
    found = []
    mapped(found.append, value)
    return found


def _like(rng, value):
    return mapped(lambda a: rng.normal(size=a.shape).astype(a.dtype), value)


def _moving(rng, value):
    """Draw tangents; None for integers."""
    return mapped(
        lambda a: rng.normal(size=a.shape).astype(a.dtype) if a.dtype.kind == "f" else None, value
    )


def _derivatives(rng, module, name, args, *, before=(), after=(), **options):
    """Yield the calls of a map and of its derivatives: f(*before, *args, *after)."""
    f = getattr(module, name)
    chapter = module.__name__.removeprefix("dlref.")
    yield f"{chapter}.{name}", (*before, *args, *after), options
    with np.errstate(all="ignore"):
        dout = _like(rng, f(*before, *args, *after, **options))
    yield f"{chapter}.{name}_vjp", (dout, *before, *args, *after), options
    yield f"{chapter}.{name}_jvp", (*before, args, _moving(rng, args), *after), options


def _sine(x):
    return np.sin(x)


def _losses(name, args, **options):
    for form in ("", "_grad", "_value_and_grad"):
        yield f"transformer.{name}_loss{form}", args, options


def _recurrent(rng):
    x = rng.normal(size=(B, T, D))
    cell = (
        np.zeros((B, 3)),
        *(rng.normal(size=s) / 2 for s in ((3, D), (3, 3))),
        None,
        rng.normal(size=3),
    )
    w_out, b_out = rng.normal(size=(6, 3)), rng.normal(size=6)
    heads = (x, cell, w_out, b_out)
    yield from _derivatives(rng, recurrent, "bidirectional", (x, cell, cell), before=("rnn",))
    for name in ("sequence_to_sequence", "sequence_to_vector"):
        yield from _derivatives(rng, recurrent, name, heads, before=("rnn",))
    one = (rng.normal(size=(B, D)), *heads[1:])
    yield from _derivatives(rng, recurrent, "vector_to_sequence", one, before=("rnn",), steps=T)
    y = rng.normal(size=(B, S, D))
    both = (x, y, cell, cell[1:], w_out, b_out)
    yield from _derivatives(rng, recurrent, "encoder_decoder", both, before=("rnn",))


@np.errstate(over="ignore")
def _parabola(p):
    return np.sum(p**2), 2 * p


def _training(rng):
    params = (rng.normal(size=(3, D)), (rng.normal(size=3), rng.normal(size=())))
    grads = _like(rng, params)
    yield "training.clip_by_norm", (grads, 0.5), {}
    yield "training.clip_by_value", (grads, 0.5), {}
    yield "training.tree_map", (np.add, params, grads), {}
    yield "training.tree_ravel", (params,), {}
    yield "training.tree_unravel", (rng.normal(size=3 * D + 4), params), {}
    descent = {"learning_rate": 0.1, "steps": 3}
    yield "training.gradient_descent", (_parabola, rng.normal(size=3)), descent


def _perceptron(rng):
    layers = tuple(
        neurons.LinearParams(rng.normal(size=(n, m)), rng.normal(size=n))
        for n, m in ((5, D), (3, 5))
    )
    x, options = rng.normal(size=(B, T, D)), {"activation": "tanh"}
    yield from _derivatives(rng, neurons, "mlp", (x, layers), **options)
    yield "neurons.mlp_deltas", (rng.normal(size=(B, T, 3)), x, layers), options
    classes = rng.integers(0, 3, (B, T))
    for form in ("", "_grad", "_value_and_grad"):
        yield f"training.mlp_loss{form}", (x, classes, layers), options
    yield "training.mlp_loss_hvp", (x, classes, layers, layers), options

    def value_and_grad(params, x, y):
        return training.mlp_loss_value_and_grad(x, y, params)

    def step(params, grads, state):
        return training.sgd_step(params, grads, state, learning_rate=0.1)

    yield (
        "training.minibatch_descent",
        (value_and_grad, layers, x, classes),
        {"step": step, "epochs": 2, "batch_size": 1, "rng": np.random.default_rng(0)},
    )


def _attention_params(rng, memory=D):
    shapes = (D, D), (D, memory), (D, memory), (D, D)
    return attention.AttentionParams(
        *(rng.normal(size=s) / 2 for s in shapes), *(rng.normal(size=D) for _ in shapes)
    )


def _parts(rng):
    norm = transformer.NormParams(1 + rng.normal(size=D) / 9, rng.normal(size=D) / 9)
    network = transformer.FeedForwardParams(
        rng.normal(size=(6, D)) / 2, rng.normal(size=6), rng.normal(size=(D, 6)), rng.normal(size=D)
    )
    gated = transformer.GatedFeedForwardParams(*(rng.normal(size=s) for s in ((6, D), (6, D))),
                                               rng.normal(size=(D, 6)))  # fmt: skip
    own, cross = _attention_params(rng), _attention_params(rng, 3)
    encoder = transformer.EncoderBlockParams(own, norm, network, norm)
    decoder = transformer.DecoderBlockParams(own, norm, cross, norm, gated, norm)
    return norm, network, gated, encoder, decoder


def _latent_params(rng):
    """Return weights with N = 3, R = 2, V = 2 and latents of 5 and 3."""
    shapes = (5, D), (5,), (H * 5, 5), (5, D), (3,), (H * 3, 3), (H * 2, 3), (D, H * 2)
    return attention.LatentAttentionParams(*(rng.normal(size=shape) for shape in shapes))


def _blocks(rng):
    x, y, memory = (rng.normal(size=s) for s in ((B, T, D), (B, S, D), (B, S, 3)))
    norm, network, gated, encoder, decoder = _parts(rng)
    heads = {"num_heads": H}
    params = _attention_params(rng)
    yield from _derivatives(rng, attention, "multi_head_attention", (x, y, params), **heads)
    latents = _latent_params(rng)
    yield from _derivatives(rng, attention, "latent_attention", (x, latents), **heads)
    yield from _derivatives(rng, transformer, "feed_forward", (x, network))
    yield from _derivatives(rng, transformer, "gated_feed_forward", (x, gated))
    yield from _mixtures(rng, x)
    yield from _derivatives(rng, transformer, "encoder_block", (x, encoder), **heads)
    yield from _derivatives(rng, transformer, "decoder_block", (x, memory, decoder), **heads)
    stack = (encoder, encoder)
    yield from _derivatives(rng, transformer, "encoder", (x, stack, norm), **heads)
    stack = (decoder, decoder)
    yield from _derivatives(rng, transformer, "decoder", (x, memory, stack, norm), **heads)


def _mixtures(rng, x):
    shapes = (5, 6, D), (5, 6, D), (5, D, 6)
    experts = transformer.ExpertParams(*(rng.normal(size=s) / 2 for s in shapes))
    weight, options = rng.normal(size=(5, D)), {"k": 2}
    yield from _derivatives(rng, transformer, "mixture_of_experts", (x, weight, experts), **options)
    yield "transformer.top_k_router", (x, weight), options
    u, v = rng.normal(size=(B, T, 2)), rng.normal(size=(B, T, 5))
    yield "transformer.top_k_router_vjp", ((None, u, v), x, weight), options
    moves = tuple(rng.normal(size=a.shape) for a in (x, weight))
    yield "transformer.top_k_router_jvp", ((x, weight), moves), options
    scores, chosen = rng.uniform(size=(B, T, 5)), rng.integers(0, 5, (B, T, 2))
    for form in ("", "_grad"):
        yield f"transformer.load_balancing_loss{form}", (scores, chosen), {}
        yield f"transformer.router_z_loss{form}", (v,), {}


def _models(rng):
    config = transformer.LanguageModelConfig(7, D, H, num_layers=1, length=8)
    draw = np.random.default_rng(0)
    model = transformer.init_language_model(draw, config)
    tokens, other = rng.integers(0, 7, (B, S)), rng.integers(0, 7, (B, T))
    yield from _derivatives(rng, transformer, "language_model", (tokens, model), after=(config,))
    yield from _losses("language_model", (tokens, model, config))
    yield "transformer.language_model_trace", (tokens, model, config), {}
    yield "transformer.generate", (tokens, model, config), {"steps": 2, "temperature": 0}
    yield "transformer.beam_search", (tokens, model, config), {"steps": 2, "beams": 2}
    logits = rng.normal(size=(B, 7))
    yield "transformer.next_token_probabilities", (logits,), {"top_k": 3, "top_p": 0.9}
    model = transformer.init_sequence_classifier(draw, config, 3)
    classes, options = rng.integers(0, 3, B), {"lengths": np.array([4, 5])}
    yield from _derivatives(
        rng, transformer, "sequence_classifier", (tokens, model), after=(config,), **options
    )
    yield from _losses("sequence_classifier", (tokens, classes, model, config), **options)
    model = transformer.init_encoder_decoder_model(draw, config)
    both = (tokens, other, model)
    yield from _derivatives(
        rng, transformer, "encoder_decoder_model", both, after=(config,), **options
    )
    yield from _losses("encoder_decoder_model", (*both, config), **options)
    yield "transformer.encoder_decoder_weights", (*both, config), options
    kwargs = {"start": 1, "steps": 2, **options}
    yield "transformer.encoder_decoder_generate", (tokens, model, config), kwargs


def _training_step(rng):
    """Yield the calls of a step of batch norm, whose derivatives are of its output alone."""
    x, u = rng.normal(size=(2, B, T, D))
    arrays_of_channels = rng.normal(size=D), rng.uniform(0.5, 2, size=D), *rng.normal(size=(2, D))
    step = "normalization.batch_norm_train"
    yield step, (x, *arrays_of_channels), {"momentum": 0.25}
    yield f"{step}_vjp", (u, x, *arrays_of_channels), {}
    yield f"{step}_jvp", ((x, *arrays_of_channels), (u, *arrays_of_channels)), {}


def _others(rng):
    x, heads = rng.normal(size=(B, T, D)), rng.normal(size=(B, H, T, D))
    yield from (
        ("attention.causal_mask", (T, S), {"q_offset": np.array([0, 2])}),
        ("attention.padding_mask", (np.array([1, 3]), S), {}),
        ("attention.window_mask", (T, S), {"left": 1, "right": 0, "q_offset": np.array([1])}),
        ("attention.document_mask", (np.array([[0, 0, 1]]), np.array([0, 1, 1, 2])), {}),
        ("attention.tree_mask", (np.array([-1, 0, 0, 1]),), {}),
        ("attention.block_mask", (rng.random((B, 2, 3)) < 0.5,), {"size": 2}),
        ("attention.chunk_mask", (T, S), {"size": 2, "q_offset": np.array([1])}),
        ("attention.select_keys", (x,), {"count": 2}),
        ("quantization.quantize_blocks", (rng.normal(size=(2, 32)),), {}),
        ("quantization.dequantize_blocks", (np.full((2, 32), 56, np.uint8), NO_SCALES), {}),
        *_training_step(rng),
        ("calculus.total_derivative", ([x[0, 0], x[0, 1]], [x[1, 0], x[1, 1]]), {}),
        ("check.error_report", (x, x + 1e-9), {}),
        ("check.ulp_error", (x, x + 1e-9), {}),
        ("check.adjoint_gap", (neurons.linear_jvp, neurons.linear_vjp, (x, x[0]), rng), {}),
        ("check.check_forward", (neurons.linear, neurons.linear, x, x[0]), {}),
        ("check.check_vjp", (neurons.linear_vjp, neurons.linear, x[:, :, :3], x, x[0]), {}),
        ("check.check_jvp", (neurons.linear_jvp, neurons.linear, (x, x[0]), (x, x[0])), {}),
        ("check.check_gradients", (neurons.linear, neurons.linear_vjp, x[0], x[1]), {}),
        ("check.numerical_jacobian", (np.errstate(all="ignore")(_sine), x[0, 0]), {}),
        ("interop.convert_gates", (rng.normal(size=(12, 3)), "onnx", "torch"), {"cell": "lstm"}),
        ("interop.mask_convention", (rng.random((T, S)) < 0.5, "dlref", "torch_mha"), {}),
        ("interop.to_half_split", (x,), {}),
        ("interop.to_interleaved", (x,), {}),
        ("interop.transpose_heads", (heads, "torch", "flash"), {}),
        ("positions.sinusoidal_shift", (np.array([1.0, 2.0]), D), {}),
        ("positions.t5_relative_position_bucket", (np.arange(-9, 9),), {}),
    )


#: Functions without an array among their arguments, or with files: nothing here applies.
NO_ARRAYS = {
    "attention.prefix_mask",
    "calculus.chain_cost",
    "check.check_all",
    "check.hard_inputs",
    "check.first_difference",
    "check.random_inputs",
    "check.trace",
    "get_num_threads",
    "interop.conventions",
    "interop.from_state_dict",
    "interop.read_state_dict",
    "interop.to_state_dict",
    "interop.trace_checkpoint",
    "positions.alibi_slopes",
    "positions.rope_attention_factor",
    "positions.rope_frequencies",
    "positions.rope_permutation",
    "positions.sinusoidal",
    "positions.sinusoidal_grid",
    "propagation.critical_gain",
    "propagation.glorot_normal",
    "propagation.glorot_uniform",
    "propagation.he_normal",
    "propagation.he_uniform",
    "propagation.lecun_normal",
    "propagation.orthogonal",
    "propagation.signal_propagation",
    "set_num_threads",
    "training.minibatches",
    "transformer.addition_task",
    "transformer.associative_recall_task",
    "transformer.copy_task",
    "transformer.dropout_mask",
    "transformer.init_encoder_decoder_model",
    "transformer.init_language_model",
    "transformer.init_sequence_classifier",
    "transformer.load_params",
    "transformer.multiplication_counts",
    "transformer.parameter_counts",
    "transformer.reverse_task",
    "transformer.save_params",
}


def _cases(record, rng):
    """Yield inputs and options of the cases of a record: plain ones, then those with options."""
    for part in (record.hard, record.options or ()):
        for case in part(rng) if callable(part) else part:
            yield case[-2:] if callable(part) else (record.inputs(rng, case.shapes), case.options)


def _recorded(rng):
    """Yield a call of each function whose record says how, the one with the most options."""
    for chapter in CHAPTERS:
        for record in records(chapter):
            if record.f is not None and record.hard is not None and not record.calls:
                *_, (inputs, options) = _cases(record, rng)
                yield f"{chapter}.{record.f.__name__}", inputs, options


def calls(seed=0):
    """Return {name: (arguments, options)}; a record's calls are replaced by those of this file."""
    rng = np.random.default_rng(seed)
    made = {}
    for part in (_recorded, _recurrent, _training, _perceptron, _blocks, _models, _others):
        for name, args, options in part(rng):
            made[name] = args, options
    return made


def _cache():
    keys = np.arange(24.0).reshape(2, 1, 3, 4)
    return attention.KVCache(keys, keys + 1)


def _report():
    return check.check_all(np.abs, activations.relu, cases=[("one", (np.ones(2),), {})])


#: How an object is made whose methods are called; a constructor needs none.
OBJECTS = {
    "attention.KVCache": _cache,
    "check.CheckReport": _report,
    "transformer.BlockOptions": lambda: transformer.BlockOptions(num_heads=2),
}


def classes():
    """Return {name: class} of all public classes."""
    every = {f"{c}.{n}": getattr(getattr(dlref, c), n) for c in dlref.__all__ for n in _names(c)}
    return {name: value for name, value in every.items() if inspect.isclass(value)}


def _names(chapter):
    return getattr(getattr(dlref, chapter), "__all__", ())


def methods():
    """
    Return the names of the methods of all public classes, as they are found.

    The name of a class stands for its constructor, unless that only keeps what it is given.
    """
    found = set()
    for name, kind in classes().items():
        own = vars(kind)
        if "__post_init__" in own or ("__init__" in own and not dataclasses.is_dataclass(kind)):
            found.add(name)
        kinds = staticmethod | classmethod | types.FunctionType
        found |= {f"{name}.{key}" for key in own if key[0] != "_" and isinstance(own[key], kinds)}
    return found


def method_calls(seed=0):
    """Return {name: (arguments, options)} of methods that take any."""
    rng = np.random.default_rng(seed)
    k, v = rng.normal(size=(2, 2, 1, 3, 4))
    small = transformer.LanguageModelConfig(9, 8, 2)
    return {
        "attention.KVCache": ((k, v), {}),
        "attention.KVCache.append": ((k, v), {}),
        "attention.KVCache.reorder": ((np.array([1, 0, 1]),), {}),
        "attention.KVCache.empty": (  # without spare memory, which is not written
            (),
            {"batch_shape": (2,), "num_kv_heads": 1, "head_width": 4, "value_width": 3}
            | {"dtype": "float64", "capacity": 0, "window": 3, "chunk": 4},
        ),
        "transformer.BlockOptions": ((), dict(vars(transformer.BlockOptions(num_heads=2)))),
        "transformer.BlockOptions.heads": ((), {}),
        "transformer.LanguageModelConfig": ((), dict(vars(small))),
        "check.CheckReport.to_html": ((), {}),
        "check.CheckReport.to_json": ((), {}),
    }


def _method(name):
    """Return a function that makes an object, and calls a method of it."""
    own, _, last = name.rpartition(".")
    if name in classes():
        return classes()[name]
    found = getattr(classes()[own], last)
    if inspect.ismethod(found):  # of the class
        return found

    def called(*arguments, **options):
        made = OBJECTS[own]()
        result = getattr(made, last)(*arguments, **options)
        return made if result is None else result

    parameters = [*inspect.signature(found).parameters.values()][1:]
    called.__signature__ = inspect.Signature(parameters)
    return called


def function(name):
    """Return the public function of a name, or what calls the method of one."""
    if name in methods():
        return _method(name)
    chapter, _, own = name.partition(".")
    f = getattr(getattr(dlref, chapter), own) if own else getattr(dlref, chapter)
    assert inspect.isfunction(f)
    return f
