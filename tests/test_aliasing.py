"""
No output shares memory with an input, an option or another output, for every public function.

test_contract.py and test_calls.py try the plain calls. Here are those with every option that is an
array, those that could return what they were given because nothing is to be done, and those of
functions that take no array or have a call of their own.
"""

import inspect
import itertools
import re

import calls
import cases
import numpy as np
import pytest
from calls import B, D, H, S, T

import dlref
from dlref import (
    attention,
    check,
    interop,
    losses,
    neurons,
    recurrent,
    training,
    transformer,
)
from dlref._records import CHAPTERS, UNKNOWN, spec_of

#: Functions that return no array.
WITHOUT_ARRAYS = {
    "attention.prefix_mask",
    "calculus.chain_cost",
    "check.check_all",
    "get_num_threads",
    "interop.conventions",
    "positions.rope_attention_factor",
    "propagation.critical_gain",
    "set_num_threads",
    "transformer.multiplication_counts",
    "transformer.parameter_counts",
    "transformer.save_params",
}
#: Options that are arrays, or have arrays in them, as their annotations tell.
ARRAYS = re.compile(r"^'?(?!Callable).*(ArrayLike|KVCache|Masks|tuple\[Any)")


def contents(value):
    """List all arrays in tuples, lists, dictionaries and objects."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return [a for entry in value.values() for a in contents(entry)]
    if isinstance(value, tuple | list):
        return [a for entry in value for a in contents(entry)]
    return contents(vars(value)) if hasattr(value, "__dict__") and not callable(value) else []


def _mixtures(rng):
    n, F = 5, 6
    experts = transformer.ExpertParams(
        *(rng.normal(size=s) for s in ((n, F, D), (n, F, D), (n, D, F), (n, F), (n, F), (n, D)))
    )
    shared = transformer.GatedFeedForwardParams(*(w[0] for w in experts))
    x, weight, bias = rng.normal(size=(B, T, D)), rng.normal(size=(n, D)), rng.normal(size=n)
    gate, correction = rng.normal(size=(1, D)), rng.normal(size=n)
    options = {"k": 2, "correction": correction}
    mixed = options | {"router_bias": bias, "shared": shared, "shared_gate": gate}
    moves = {"drouter_bias": bias + 1, "dshared": shared, "dshared_gate": gate + 1}
    args = x, weight, experts
    for call in calls._derivatives(rng, transformer, "mixture_of_experts", args, **mixed):
        yield *call[:2], call[2] | (moves if call[0].endswith("_jvp") else {})
    options |= {"bias": bias}
    yield "transformer.top_k_router", (x, weight), options
    dout = None, rng.normal(size=(B, T, 2)), rng.normal(size=(B, T, n))
    yield "transformer.top_k_router_vjp", (dout, x, weight), options
    moves = rng.normal(size=x.shape), rng.normal(size=weight.shape)
    yield "transformer.top_k_router_jvp", ((x, weight), moves), options | {"dbias": bias + 1}


def _attention(rng):
    q, k, v = (rng.normal(size=(B, H, n, D)) for n in (T, S, S))
    mask, bias, sink = np.arange(S) != 1, rng.normal(size=(T, S)), rng.normal(size=H)
    weights = {"mask": mask, "bias": bias, "sink": sink}
    all_of_it = {**weights, "dropout": 2.0 * (rng.random((T, S)) < 0.5)}
    moving = {"dbias": rng.normal(size=(T, S)), "dsink": rng.normal(size=H)}
    w = rng.normal(size=(D, D))
    for name, args, options in (
        ("attention_scores", (q, k), {"mask": mask, "bias": bias}),
        ("attention_weights", (q, k), weights),
        ("scaled_dot_product_attention", (q, k, v), all_of_it),
        ("multiplicative_attention", (q, k, v, w), all_of_it),
        ("additive_attention", (q[:, 0], k[:, 0], v[:, 0], w, w, w[0]), {"mask": mask}),
    ):
        some = {f"d{key}": moving[f"d{key}"] for key in ("bias", "sink") if key in options}
        for call in calls._derivatives(rng, attention, name, args, **options):
            last = some if call[0].endswith("_jvp") else {}
            if "dropout" in options and call[0].endswith("_vjp"):
                last = {"dlse": rng.normal(size=(B, H, T))}
            yield *call[:2], {**call[2], **last}
        if "dropout" in options:
            both = {**options, "return_lse": True, "return_weights": True}
            yield f"attention.{name}", args, both
            primals, tangents = args, calls._like(rng, args)
            yield f"attention.{name}_jvp", (primals, tangents), {**both, **moving}
    scale = rng.uniform(0.5, 1.0, (H, T, 1))
    two = q, k, np.flip(q, 0).copy(), np.flip(k, 0).copy(), v, np.full((H, 1, 1), 0.5)
    kwargs = {"mask": mask, "bias": bias, "scale": scale}
    yield from calls._derivatives(rng, attention, "differential_attention", two, **kwargs)
    some = {"scale": scale, "indices": rng.integers(-1, S, (H, T, 3))}
    yield from calls._derivatives(rng, attention, "scaled_dot_product_attention", (q, k, v), **some)
    yield from _heads(rng, moving, all_of_it)
    moving, erase = {"derase": (q / 2, q / 3)}, (q / 4, q / 5)
    for call in calls._derivatives(
        rng, attention, "recurrent_linear_attention", (q, q, q, None, None, None), erase=erase
    ):
        yield *call[:2], {**call[2], **(moving if call[0].endswith("_jvp") else {})}
    slopes, offsets = rng.random(H), {"q_offset": np.arange(B)}
    dout = rng.normal(size=(B, H, T, S))
    for form, given in (("", (slopes,)), ("_vjp", (dout, slopes)), ("_jvp", (slopes, slopes / 2))):
        yield f"positions.alibi_bias{form}", (*given, T, S), offsets
    forget = -rng.random((B, H, S))
    for form, given in (("", (forget,)), ("_vjp", (dout, forget)), ("_jvp", (forget, forget / 2))):
        yield f"attention.forgetting_bias{form}", given, {**offsets, "T": T}
    weights = rng.random((2, B, H, T, T))
    yield "attention.attention_rollout", (weights[:1, :, :1],), {"residual": 0.0}
    yield "attention.repeat_kv", (k, 1), {}


def _heads(rng, moving, options):
    x, y, params = rng.normal(size=(B, T, D)), rng.normal(size=(B, S, D)), _projections(rng)
    options = {"num_heads": H, **options}
    for call in calls._derivatives(
        rng, attention, "multi_head_attention", (x, y, params), **options
    ):
        yield *call[:2], {**call[2], **(moving if call[0].endswith("_jvp") else {})}
    own = {"num_heads": H, "rope": _rotations(T)}
    yield from calls._derivatives(rng, attention, "multi_head_attention", (x, x, params), **own)
    latents, masked = calls._latent_params(rng), own | {"mask": options["mask"][:T]}
    yield from calls._derivatives(rng, attention, "latent_attention", (x, latents), **masked)
    cache = attention.KVCache(np.ones((B, 1, S, 2)), np.ones((B, 1, S, 3)))
    yield "attention.latent_attention", (x, latents), {**own, "cache": cache, "absorbed": True}
    cache = attention.KVCache(np.ones((B, H, S, D // H)), np.ones((B, H, S, D // H)))
    cached = {"num_heads": H, "return_weights": True, "cache": cache}
    yield "attention.multi_head_attention", (x, x, params), cached


def _projections(rng):
    return attention.AttentionParams(
        *(rng.normal(size=(D, D)) for _ in range(4)), *(rng.normal(size=D) for _ in range(4))
    )


def _rotations(n):
    angles = np.arange(n)[:, None] / np.arange(1, D // H // 2 + 1)
    return np.cos(angles), np.sin(angles)


def _losses(rng):
    scores, classes = rng.normal(size=(B, T, 3)), rng.integers(0, 3, (B, T))
    for name, target, options in (
        ("cross_entropy", classes, {"weight": np.ones(3)}),
        ("nll", classes, {"weight": np.ones(3)}),
        ("binary_cross_entropy", (scores > 0) * 1.0,
         {"weight": np.ones(3), "pos_weight": np.full(3, 2.0)}),
    ):  # fmt: skip
        for reduction in ("none", "sum"):
            kwargs = {**options, "reduction": reduction}
            args, dout = (scores, target), getattr(losses, name)(scores, target, **kwargs)
            yield f"losses.{name}", args, kwargs
            yield f"losses.{name}_vjp", (dout, *args), kwargs
            still = None if target is classes else np.ones(scores.shape)
            yield f"losses.{name}_jvp", (args, (scores, still)), kwargs
            if reduction == "sum":
                yield f"losses.{name}_grad", args, kwargs
    yield "losses.cross_entropy_value_and_grad", (scores, classes), {"weight": np.ones(3)}


def _recurrent(rng):
    lengths = np.array([1, 3])
    for name, gates, states in (("rnn", 1, 1), ("gru", 3, 1), ("lstm", 4, 2), ("lstm_gates", 4, 2)):
        x = rng.normal(size=(B, T, D))
        args = (x, *_weights(rng, gates, states))
        options = {"lengths": lengths}
        if gates == 4:
            options["w_p"] = rng.normal(size=9)
        yield from _peephole(rng, name, args, options)
    yield from _peephole(rng, "lstm_cell", (x[:, 0], *args[1:]), {"w_p": options["w_p"]})


def _weights(rng, gates, states):
    shapes = *states * [(B, 3)], (gates * 3, D), (gates * 3, 3), (gates * 3,), (gates * 3,)
    return [rng.normal(size=shape) / 2 for shape in shapes]


def _peephole(rng, name, args, options):
    for call in calls._derivatives(rng, recurrent, name, tuple(args), **options):
        last = {"w_p_tangent": rng.normal(size=9)} if "w_p" in options else {}
        yield *call[:2], {**call[2], **(last if call[0].endswith("_jvp") else {})}


def _networks(rng):
    layers = tuple(
        neurons.LinearParams(rng.normal(size=(n, m)), rng.normal(size=n))
        for n, m in ((5, D), (3, 5))
    )
    x, masks = rng.normal(size=(B, T, D)), (2.0 * (rng.random(5) < 0.5),)
    for options in ({"dropout": masks}, {"activation": "identity", "dropout": (None,)}):
        yield from calls._derivatives(rng, neurons, "mlp", (x, layers), **options)
        yield "neurons.mlp_deltas", (rng.normal(size=(B, T, 3)), x, layers), options
    classes = rng.integers(0, 3, (B, T))
    for form in ("", "_grad", "_value_and_grad"):
        yield f"training.mlp_loss{form}", (x, classes, layers), {"dropout": masks}
    yield "training.mlp_loss_hvp", (x, classes, layers, layers), {"dropout": masks}
    yield from calls._derivatives(rng, neurons, "mlp", (x, layers[:1]), activation="identity")


def _transformers(rng):
    *_, encoder, decoder = calls._parts(rng)
    norm = transformer.NormParams(np.ones(D), np.zeros(D))
    x, memory = rng.normal(size=(B, T, D)), rng.normal(size=(B, S, 3))
    factors = 2.0 * (rng.random(D) < 0.5)
    bias = rng.normal(size=(T, T))
    options = {
        "num_heads": H,
        "mask": np.tri(T, dtype=bool),
        "bias": bias,
        "attention_dropout": np.ones((T, T)),
        "rope": _rotations(T),
    }
    several = {**options, "attention_dropout": (np.ones((T, T)),)}
    for name, args, own in (
        ("encoder_block", (x, encoder), {"dropout": (factors, factors)}),
        ("encoder", (x, (encoder,), norm), {"dropout": ((factors, factors),)}),
        ("decoder_block", (x, memory, decoder), {"dropout": 3 * (factors,)}),
        ("decoder", (x, memory, (decoder,), norm), {"dropout": (3 * (factors,),)}),
    ):
        kwargs = {**(options if "block" in name else several), **own}
        if "decoder" in name:
            kwargs["memory_mask"] = np.arange(S) != 2
        for call in calls._derivatives(rng, transformer, name, args, **kwargs):
            last = {"dbias": bias} if call[0].endswith("_jvp") else {}
            yield *call[:2], {**call[2], **last}
    for name, args in (("encoder", (x, ())), ("decoder", (x, memory, ()))):
        yield from calls._derivatives(rng, transformer, name, args, num_heads=H)


def _models(rng):
    config = transformer.LanguageModelConfig(7, D, H, num_layers=1, length=8)
    tokens, other = rng.integers(0, 7, (B, S)), rng.integers(0, 7, (B, T))
    factors, targets, lengths = np.ones(D), np.roll(tokens, 1), np.array([4, 5])
    options = {
        "dropout": ((factors, factors),),
        "attention_dropout": (np.ones((S, S)),),
        "embedding_dropout": factors,
    }
    model = transformer.init_language_model(rng, config)
    yield from calls._derivatives(
        rng, transformer, "language_model", (tokens, model), after=(config,), **options,
        lengths=lengths,
    )  # fmt: skip
    given = {"targets": targets, "lengths": lengths}
    yield from calls._losses("language_model", (tokens, model, config), **given, **options)
    text = tokens, model, config
    yield "transformer.language_model_trace", text, {"lengths": lengths}
    yield "transformer.generate", text, {"steps": 2, "temperature": 0, "lengths": lengths}
    yield "transformer.beam_search", text, {"steps": 2, "beams": 2, "lengths": lengths}
    model = transformer.init_sequence_classifier(rng, config, 3)
    classified = {**options, "attention_dropout": (np.ones((S + 1, S + 1)),), "lengths": lengths}
    yield from calls._derivatives(
        rng, transformer, "sequence_classifier", (tokens, model), after=(config,), **classified
    )
    yield from calls._losses(
        "sequence_classifier", (tokens, np.array([0, 2]), model, config), **classified
    )
    model = transformer.init_encoder_decoder_model(rng, config)
    both = {
        "lengths": lengths,
        "dropout": (options["dropout"], (3 * (factors,),)),
        "attention_dropout": (options["attention_dropout"], (np.ones((T, T)),)),
        "embedding_dropout": (factors, factors),
    }
    args = tokens, other, model
    yield from calls._derivatives(
        rng, transformer, "encoder_decoder_model", args, after=(config,), **both
    )
    yield from calls._losses(
        "encoder_decoder_model", (*args, config), targets=np.roll(other, 1), **both
    )


def _idle(rng):
    """Calls in which there is nothing to do but to return what was given."""
    x, heads = rng.normal(size=(B, T, D)), rng.normal(size=(B, H, T, D))
    params = (x, (x[0], x[0, 0, 0]))
    zero = training.tree_map(np.zeros_like, params)
    for name in training.__all__:
        if not name.endswith("_step") or name == "muon_step":  # which takes matrices alone
            continue
        step = getattr(training, name)
        for state in (None, step(params, zero, None, learning_rate=0.0)[1]):
            yield f"training.{name}", (params, zero, state), {"learning_rate": 0.0}
    square = x[0]
    for state in (None, training.muon_step(square, square, None, learning_rate=0.0)[1]):
        yield "training.muon_step", (square, square, state), {"learning_rate": 0.0, "momentum": 1.0}
    yield "training.newton_schulz", (x,), {"steps": 0}
    for kind in ("noise", "data"):
        yield "training.diffusion_target", (x, x + 1, 1.0, 0.0), {"kind": kind}
        yield "training.min_snr_weight", (x, x), {"kind": kind}
    yield "training.clip_by_norm", (params, np.inf), {}
    yield "training.clip_by_value", (params, np.inf), {}
    yield "training.tree_map", (lambda a: a, params), {}
    yield "training.tree_map", (lambda a, b: (b, a), params, zero), {}
    shared = np.ones(3)
    yield "training.tree_map", (lambda _: shared, params), {}
    yield "training.tree_ravel", (x.ravel(),), {}
    yield "training.tree_unravel", (x.ravel(), x.ravel()), {}
    rows = rng.normal(size=(3, D))
    yield "training.minibatches", (rng, rows, rows), {"batch_size": 3}
    yield "interop.convert_gates", (rows.repeat(4, axis=0), "torch", "torch"), {"cell": "lstm"}
    mask = np.tri(T, dtype=bool)
    yield "interop.mask_convention", (mask, "dlref", "dlref"), {}
    yield "interop.mask_convention", (np.where(mask, 0.0, -np.inf), "additive", "additive"), {}
    yield "interop.to_half_split", (x[..., :2],), {}
    yield "interop.to_interleaved", (x[..., :2],), {}
    yield "interop.transpose_heads", (heads, "torch", "torch"), {}
    yield "calculus.total_derivative", ([rows[0]], [rows[1]]), {}
    yield "calculus.chain_rule", (rows,), {}
    yield "propagation.gradient_magnitude", (x, 0), {"activation_slope": rng.normal(size=D)}


def _without_arrays(rng):
    config = transformer.LanguageModelConfig(7, D, H, num_layers=2, length=8, positions="learned")
    model = transformer.init_language_model(rng, config)
    *_, encoder, _ = calls._parts(rng)
    x = rng.normal(size=(T, D))
    yield "check.trace", (transformer.language_model, [1, 2, 3], model, config), {}
    for order in (False, True):
        options = {"num_heads": H, "norm_first": order, "bias": rng.normal(size=(T, T))}
        yield "check.trace", (transformer.encoder_block, x, encoder), options
        yield "check.trace", (transformer.encoder, x, (encoder, encoder)), options
    steps = check.trace(transformer.encoder_block, x, encoder, num_heads=H)
    yield "check.first_difference", (steps, {**steps, "out": steps["out"] + 1}), {}
    yield "check.hard_inputs", (neurons.linear, "float32"), {}
    yield "check.random_inputs", (neurons.linear, [(2, 3), (4, 3), (4,)], "float32", rng), {}
    for scaling in (None, {"type": "linear", "factor": 2.0}):
        yield "positions.rope_frequencies", (D,), {"scaling": scaling}
    yield "positions.rope_permutation", (D,), {}
    yield "positions.alibi_slopes", (H,), {}
    yield "positions.sinusoidal", (T, D), {}
    yield "positions.sinusoidal_grid", ((2, T), D), {}
    for name in ("glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal"):
        yield f"propagation.{name}", (rng, (3, D)), {}
    yield "propagation.orthogonal", (rng, (3, D)), {}
    yield "propagation.signal_propagation", ((4, 5),), {"rng": rng, "samples": 3}
    for name in ("copy", "reverse"):
        yield f"transformer.{name}_task", (rng, 2), {"length": 3, "vocabulary": 9}
    yield "transformer.associative_recall_task", (rng, 2), {"pairs": 2, "keys": 3, "values": 3}
    yield "transformer.addition_task", (rng, 2), {"digits": 2}
    yield "transformer.dropout_mask", (rng, (3, D)), {"rate": 0.0}
    for name, more in (("language_model", ()), ("encoder_decoder_model", ())):
        yield f"transformer.init_{name}", (rng, config, *more), {}
    yield "transformer.init_sequence_classifier", (rng, config, 3), {}
    yield from _state_dicts(rng, model, config)


def _state_dicts(rng, model, config):
    w, b = rng.normal(size=(3, D)), rng.normal(size=3)
    state = {"weight": w, "bias": b}
    yield "interop.from_state_dict", (state, "Linear"), {}
    yield "interop.to_state_dict", (neurons.LinearParams(w, b), "Linear"), {}
    attended = interop.to_state_dict(_projections(rng), "MultiheadAttention")
    yield "interop.from_state_dict", (attended, "MultiheadAttention"), {}
    gpt2 = transformer.LanguageModelConfig(7, D, H, num_layers=1, length=8, activation="gelu_tanh")
    params = transformer.init_language_model(rng, gpt2)
    state = interop.to_state_dict(params, "gpt2", gpt2)
    named = {"vocab_size": 7, "n_embd": D, "n_head": H, "n_layer": 1, "n_positions": 8}
    yield "interop.to_state_dict", (params, "gpt2", gpt2), {}
    yield "interop.from_state_dict", (state, "gpt2", named), {}


MAKERS = (
    _attention,
    _mixtures,
    _losses,
    _recurrent,
    _networks,
    _transformers,
    _models,
    _idle,
    _without_arrays,
)


def shared(function, args, options):
    """Say which arrays of a call share memory, and which were written to."""
    inputs = [a for a in contents((args, options)) if a.size]
    before = [a.copy() for a in inputs]
    result = function(*args, **options)
    outputs = [
        a for a in contents(list(result) if inspect.isgenerator(result) else result) if a.size
    ]
    for a, old in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(a, old)
    pairs = itertools.chain(itertools.product(inputs, outputs), itertools.combinations(outputs, 2))
    return [(a, b) for a, b in pairs if np.shares_memory(a, b)]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_shares_no_memory(maker, rng):
    for name, args, options in maker(rng):
        assert not shared(calls.function(name), args, options), name


@pytest.mark.parametrize("name", dict(cases.public_functions()))
def test_shares_no_memory_with_options(name):
    for call in cases.SPECS[cases.key_of(name)].calls:
        problem = cases.Problem(cases.key_of(name), call)
        arguments = problem.arguments(cases.form_of(name))
        assert not shared(calls.function(name), arguments, cases.applicable(name, problem))


def test_loaded_arrays_share_no_memory(tmp_path):
    norms = (transformer.NormParams(np.ones(3), np.ones(3)),) * 2
    transformer.save_params(tmp_path / "a.npz", norms)
    assert not shared(transformer.load_params, (tmp_path / "a.npz",), {})


def test_tensors_that_are_read_share_no_memory(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"a": np.ones(3), "b": np.ones(2)}, tmp_path / "a.safetensors")
    assert not shared(interop.read_state_dict, (tmp_path / "a.safetensors",), {})


def array_options(f):
    parameters = inspect.signature(f).parameters.values()
    return {
        p.name for p in parameters if p.kind is p.KEYWORD_ONLY and ARRAYS.search(str(p.annotation))
    }


def tried():
    """Return {name: options that some call gives an array}, of all functions that are called."""
    found = {}
    rng = np.random.default_rng(0)
    every = [call for maker in MAKERS for call in maker(rng)]
    every += [*((name, *call) for name, call in calls.calls().items())]
    for name, _ in cases.public_functions():
        every += [(name, (), call.options) for call in cases.SPECS[cases.key_of(name)].calls]
    for name, _, options in every:
        given = {key for key, value in options.items() if contents(value)}
        found.setdefault(name, set()).update(given)
    return found


def test_every_function_is_called_with_every_option_that_is_an_array():
    known = tried()
    for chapter in dlref.__all__:
        module = getattr(dlref, chapter)
        for own in getattr(module, "__all__", [chapter]):
            f = getattr(module, own, module)
            name = f"{chapter}.{own}" if f is not module else chapter
            nothing = chapter in CHAPTERS and spec_of(f)[0] is UNKNOWN  # tests/test_api.py says
            if inspect.isfunction(f) and name not in WITHOUT_ARRAYS and not nothing:
                named = {"transformer.load_params", "interop.read_state_dict"}  # above, with files
                named |= {"interop.trace_checkpoint"}  # in its own tests
                assert name in known or name in named, name
                assert array_options(f) <= known.get(name, set()), name
