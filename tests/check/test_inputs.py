"""Tests of dlref.check._inputs."""

import inspect

import ml_dtypes
import numpy as np
import pytest
from chapters import CHAPTERS

import dlref
from dlref import (
    activations,
    attention,
    calculus,
    check,
    losses,
    neurons,
    normalization,
    positions,
    recurrent,
    transformer,
)
from dlref._core.pytree import is_float, tree_leaves
from dlref.neurons import linear


def test_random_inputs_are_valid(rng):
    log_p, q = check.random_inputs(losses.kl_divergence, [(4, 5)] * 2, np.float64, rng)
    np.testing.assert_allclose([np.exp(log_p).sum(-1), q.sum(-1)], 1, rtol=1e-14)
    assert q.min() > 0
    _, classes = check.random_inputs(losses.cross_entropy, [(4, 5), (4,)], np.float32, rng)
    assert classes.dtype.kind == "i"
    assert 0 <= classes.min() <= classes.max() < 5
    _, cos, sin = check.random_inputs(
        positions.apply_rope, [(3, 8), (3, 4), (3, 4)], np.float64, rng
    )
    np.testing.assert_allclose(cos**2 + sin**2, 1, rtol=1e-14)
    slopes = check.random_inputs(positions.alibi_bias, [(4,), 3, 5], np.float64, rng)[0]
    assert slopes.min() > 0
    _, signs = check.random_inputs(losses.hinge, [(9,), (9,)], np.float64, rng)
    np.testing.assert_array_equal(abs(signs), 1)
    x, groups, w, b = check.random_inputs(
        normalization.group_norm, [(2, 4, 6), 3, (6,), None], np.float32, rng
    )
    assert (x.shape, groups, w.dtype, b) == ((2, 4, 6), 3, np.float32, None)
    assert check.random_inputs(np.abs, [(2,)], np.float32, rng)[0].shape == (2,)
    assert check.random_inputs(_Unsigned(), [(2,)], np.float32, rng)[0].shape == (2,)


class _Unsigned:
    """A function without a signature."""

    __signature__ = "none"

    def __call__(self, x):
        return x


def test_errors(rng):
    with pytest.raises(TypeError, match=r"^Argument 'dtype' must be"):
        check.random_inputs(activations.relu, [(2,)], "U1", rng)
    for dtype in ("int32", bool, "complex64", "float8", "torch.float8_e4m3fn"):
        with pytest.raises(TypeError, match=r"^Argument 'dtype' must be float16, bfloat16, floa"):
            check.check_all(activations.relu, activations.relu, dtype=dtype)
    with pytest.raises(TypeError, match=r"^Argument 'rng'"):
        check.random_inputs(activations.relu, [(2,)], np.float32, None)
    with pytest.raises(ValueError, match=r"^Argument"):
        check.random_inputs(neurons.linear, [(4, 3), (2, 5)], np.float32, rng)
    with pytest.raises(TypeError, match=r"^Argument 'op' must be a function whose inputs are"):
        check.hard_inputs(np.linalg.inv, np.float32)
    with pytest.raises(TypeError, match=r"^Argument 'dtype'"):
        check.hard_inputs(activations.relu, "U1")


OPS = [
    *(getattr(activations, n) for n in ("gelu", "softmax", "logsumexp", "swiglu", "prelu")),
    *(getattr(losses, n) for n in ("cross_entropy", "nll", "huber", "kl_divergence")),
    *(getattr(normalization, n) for n in ("layer_norm", "rms_norm", "batch_norm", "group_norm")),
    neurons.linear,
    positions.apply_rope,
    attention.scaled_dot_product_attention,
    attention.attention_weights,
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_hard_inputs_are_valid_and_of_their_dtype(op, dtype):
    names = []
    for name, inputs, options in check.hard_inputs(op, dtype):
        names.append(name)
        assert inputs[0].dtype == dtype
        out = op(*inputs, **options)
        assert not np.isnan(out.astype(np.float64)).any()
    assert len(names) == len(set(names)) > 0


def test_hard_inputs_hold_what_kernels_break_at():
    cases = {c.name: c for c in check.hard_inputs(attention.scaled_dot_product_attention, "f4")}
    assert not cases["a row that sees no key"].options["mask"][2].any()
    assert cases["a cache before the queries"].options["q_offset"] == 4
    assert cases["one key"].inputs[1].shape[-2] == 1
    q, k, _ = cases["grouped heads"].inputs
    assert q.shape[1] == 3 * k.shape[1]
    cases = {c.name: c for c in check.hard_inputs(neurons.linear, "f4")}
    assert not cases["memory with gaps"].inputs[0].flags.c_contiguous


def capped_last(q, k, v, softcap=None, bias=0.0, **options):
    """Attention that caps the scores with their bias."""
    if softcap is None:
        return attention.scaled_dot_product_attention(q, k, v, bias=bias, **options)
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5 + bias
    scores = softcap * np.tanh(scores / softcap)
    narrow = np.zeros((*scores.shape[:-1], 1)), np.zeros((*k.shape[:-1], 1)), v
    return attention.scaled_dot_product_attention(*narrow, bias=scores, **options)


def smoothed_before_weights(x, target, weight=None, label_smoothing=0.0, **options):
    """Cross-entropy whose smoothed classes have the weight of the target."""
    if weight is None or not label_smoothing:
        return losses.cross_entropy(
            x, target, weight=weight, label_smoothing=label_smoothing, **options
        )
    kept = weight[np.maximum(target, 0)] * (target >= 0)
    options = {"label_smoothing": label_smoothing, "reduction": "none"}
    return (kept * losses.cross_entropy(x, target, **options)).sum() / kept.sum()


@pytest.mark.parametrize(
    ("op", "wrong", "case"),
    [
        pytest.param(
            *(attention.scaled_dot_product_attention, capped_last, "a soft cap before a bias"),
            marks=pytest.mark.broad,
        ),
        (
            losses.cross_entropy,
            smoothed_before_weights,
            "weights, ignored targets, smoothed labels",
        ),
        (
            losses.nll,
            lambda p, c, reduction="mean": (
                -np.mean(p[np.arange(len(c)), np.maximum(c, 0)])
                if reduction == "mean" and (c < 0).any()
                else losses.nll(p, c, reduction=reduction)
            ),
            "ignored targets",
        ),
    ],
)
def test_options_that_are_right_alone_are_tried_together(op, wrong, case):
    report = check.check_all(wrong, op, dtype="float64")
    first, *others = (row.case for row in report.failed)
    assert first == case
    assert all(name.startswith(("beyond tiles", "the options")) for name in others)


def test_rounding_the_inputs_costs_about_as_much_as_a_good_kernel():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 64)), rng.normal(size=(50, 64))
    near_x, near_w = (a.astype(np.float16).astype(float) for a in (x, w))
    exact = linear(near_x, near_w)
    of_inputs = np.sqrt(np.mean((linear(x, w) - exact) ** 2))
    of_kernel = np.sqrt(np.mean((exact.astype(np.float16) - exact) ** 2))
    assert 0.5 < of_inputs / of_kernel < 3


#: What stays refused, by the words that say why.
REFUSED = {
    "it draws random numbers": {
        "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "orthogonal",
        "signal_propagation", "minibatch_descent", "minibatches", "addition_task",
        "associative_recall_task", "copy_task", "dropout_mask", "generate",
        "init_encoder_decoder_model", "init_language_model", "init_sequence_classifier",
        "reverse_task",
    },
    "it takes lists": {"total_derivative"},
    "codes are compared exactly, not within a tolerance": {"dequantize_blocks", "quantize_blocks"},
    "its derivatives are of its first output alone": {
        "batch_norm_train", "batch_norm_train_jvp", "batch_norm_train_vjp",
    },
    "it takes a function": {"gradient_descent", "tree_map"},
    "it returns or takes a choice": {
        "load_balancing_loss", "load_balancing_loss_grad", "top_k_router", "top_k_router_jvp",
        "top_k_router_vjp",
    },
    "its result is tokens, not numbers": {"beam_search", "encoder_decoder_generate"},
    "it makes a mask of integers; compare two masks with numpy.array_equal": {
        "causal_mask", "padding_mask", "window_mask", "block_mask", "chunk_mask", "document_mask",
        "prefix_mask", "tree_mask",
    },
    "it is no function of dlref that takes arrays of floats": {
        "select_keys", "chain_cost", "conventions",
        "from_state_dict", "mask_convention", "read_state_dict", "to_state_dict",
        "trace_checkpoint", "alibi_slopes",
        "rope_attention_factor", "rope_frequencies", "rope_permutation", "sinusoidal",
        "sinusoidal_grid",
        "sinusoidal_shift", "t5_relative_position_bucket", "critical_gain", "load_params",
        "multiplication_counts", "parameter_counts", "save_params",
    },
}  # fmt: skip


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_public_function_has_cases_or_words_why_not(chapter):
    module = getattr(dlref, chapter)
    why = {name: message for message, names in REFUSED.items() for name in names}
    for name in module.__all__:
        f = getattr(module, name)
        if not inspect.isfunction(f):
            continue
        if name in why:
            with pytest.raises(TypeError, match=f"{why[name]}[.]$"):
                check.hard_inputs(f, "float64")
            continue
        cases = list(check.hard_inputs(f, "float64"))
        assert cases, name
        assert len({case.name for case in cases}) == len(cases), name
        for case in cases:
            with np.errstate(all="ignore"):
                out = f(*case.inputs, **case.options)
            assert not any(np.isnan(a).any() for a in tree_leaves(out) if is_float(a)), (
                name,
                case.name,
            )


def test_the_harder_cases_are_there():
    names = [case.name for case in check.hard_inputs(transformer.encoder_block, "float32")]
    assert {"tiny", "huge", "an offset of 1e4", "zeros of both signs", "ties"} < {*names}
    assert {"a row that sees no key", "a length that is no multiple of a tile"} < {*names}
    cases = {case.name: case for case in check.hard_inputs(calculus.add_vjp, "float32")}
    assert cases["shapes (5, 1) and (3, 1, 7)"].inputs[0].shape == (3, 5, 7)
    zeros = cases["zeros of both signs"].inputs[1]
    assert not zeros.any()
    assert len({*np.signbit(zeros).flat}) == 2
    config = next(check.hard_inputs(transformer.language_model, "float32")).options["config"]
    assert config.positions == "learned"
    (_, cos, _), (_, dcos, _) = next(check.hard_inputs(positions.apply_rope_jvp, "float64")).inputs
    assert cos.shape == (5, 4)
    assert dcos is None


MAPS = [
    attention.multi_head_attention,
    attention.additive_attention,
    attention.multiplicative_attention,
    attention.linear_attention,
    neurons.mlp,
    recurrent.bidirectional,
    recurrent.gru_cell,
    transformer.feed_forward,
    transformer.encoder_block,
    transformer.decoder_block,
    transformer.language_model,
]


@pytest.mark.broad
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("op", MAPS, ids=lambda op: op.__name__)
def test_dlref_is_right_over_all_of_them(op, dtype):
    module = getattr(dlref, op.__module__.split(".")[1])
    jvp = getattr(module, f"{op.__name__}_jvp") if op is not recurrent.bidirectional else None
    report = check.check_all(
        op, op, vjp=getattr(module, f"{op.__name__}_vjp"), jvp=jvp, dtype=dtype
    )
    assert report, str(report)


def doubled(value):
    return tuple(map(doubled, value)) if isinstance(value, tuple) else 2 * value


@pytest.mark.broad
@pytest.mark.parametrize("op", MAPS, ids=lambda op: op.__name__)
def test_and_what_is_wrong_is_named(op):
    report = check.check_all(
        lambda *args, **options: doubled(op(*args, **options)), op, dtype="float64"
    )
    assert len(report.failed) > len(report.rows) / 2
    assert next(iter(report.causes)).startswith("it is doubled")


def test_a_wrong_gradient_of_nested_parameters_has_its_name():
    def vjp(dout, x, params):
        dx, (w1, b1, w2, b2) = transformer.feed_forward_vjp(dout, x, params)
        return dx, (w1, b1.mean() + 0 * b1, w2, b2)

    report = check.check_all(None, transformer.feed_forward, vjp=vjp)
    wrong = {
        output.name for row in report.failed for output in row.verdict.outputs if not output.ok
    }
    assert wrong == {"output 2 (gradient of params.b1)"}


def test_a_sequence_of_any_cell_has_no_jvp_here():
    with pytest.raises(ValueError, match=r"^Argument 'jvp' must be None where 'op' takes the name"):
        check.check_all(None, recurrent.bidirectional, jvp=recurrent.bidirectional_jvp)


def test_a_gradient_of_nothing_that_is_known_is_refused():
    def my_grad(a, b):
        return a + b

    with pytest.raises(TypeError, match="it is no function of dlref that takes arrays"):
        check.hard_inputs(my_grad, "float32")
