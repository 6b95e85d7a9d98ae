"""Kernels that are wrong beyond tiles, on three axes, in other memory: check_all finds them."""

import inspect

import numpy as np
import pytest
from chapters import CHAPTERS

import dlref
from dlref import activations as act
from dlref import attention, check, losses, neurons, positions, recurrent
from dlref import normalization as norm
from dlref._core.pytree import rebuilt, tree_leaves
from dlref._records import spec_of
from dlref._records._spec import pairwise
from dlref.check import _reports

SDPA = attention.scaled_dot_product_attention


def mapped(f, value):
    if isinstance(value, tuple):
        return rebuilt(value, [mapped(f, part) for part in value])
    return None if value is None else f(np.asarray(value))


def broken(op, where):
    """Return a kernel that is right but where the inputs and options say otherwise."""

    def kernel(*inputs, **options):
        out = op(*inputs, **options)
        return mapped(lambda a: 0 * a, out) if where(*inputs, **options) else out

    return kernel


def has_three_axes(*inputs, **_):
    return any(np.ndim(a) == 3 for a in inputs)


@pytest.mark.parametrize(
    "op",
    [
        norm.layer_norm,
        norm.rms_norm,
        act.softmax,
        act.log_softmax,
        neurons.linear,
        act.swiglu,
        act.geglu,
        act.silu,
        act.gelu,
        act.relu,
        losses.cross_entropy,
        losses.nll,
        losses.squared_error,
    ],
    ids=lambda op: op.__name__,
)
def test_zeros_for_three_axes(op):
    vjp = getattr(getattr(dlref, op.__module__.split(".")[1]), f"{op.__name__}_vjp")
    assert not check.check_all(broken(op, has_three_axes), op)
    backward = broken(vjp, lambda _dout, *inputs, **_: has_three_axes(*inputs))
    assert not check.check_all(None, op, vjp=backward)


def test_a_bias_whose_gradient_is_summed_over_the_first_batch_only():
    def vjp(dout, x, w, b):
        dx, dw, *rest = neurons.linear_vjp(dout, x, w, b)
        if b is None:
            return dx, dw
        some = dout[0] if dout.ndim == 3 else dout
        return dx, dw, some.sum(0).astype(rest[0].dtype)

    assert not check.check_all(None, neurons.linear, vjp=vjp)


def keys(_q, k, *_, **options):
    return k.shape[-2] > 64 and options


@pytest.mark.broad
@pytest.mark.parametrize(
    ("op", "where"),
    [
        (SDPA, lambda q, k, v, **options: k.shape[-2] > 128),
        (SDPA, lambda q, k, v, **options: q.shape[-2] > 64),
        (SDPA, lambda q, k, v, **options: q.shape[-1] >= 64),
        *(
            (SDPA, lambda *qkv, key=key, **options: keys(*qkv, **options) and key in options)
            for key in ("is_causal", "window", "softcap", "sink", "mask", "dropout", "bias")
        ),
        (
            SDPA,
            lambda *qkv, **options: keys(*qkv, **options) and {"window", "softcap"} <= {*options},
        ),
        (
            SDPA,
            lambda *qkv, **options: (
                keys(*qkv, **options) and "sink" in options and "mask" not in options
            ),
        ),
        (SDPA, lambda q, k, v, **_: k.shape[-2] > 64 and q.shape[-3] > k.shape[-3]),
        (norm.layer_norm, lambda x, *_, **__: x.shape[-1] > 1024),
        (norm.layer_norm, lambda x, w, *_, **__: x.shape[-1] > 256 and w is not None),
        (norm.rms_norm, lambda x, *_, **__: x.shape[-1] > 4096),
        (norm.rms_norm, lambda x, *_, **options: x.shape[-1] > 1000 and "weight_offset" in options),
        (act.softmax, lambda x, **_: x.shape[-1] > 1024),
        (act.softmax, lambda x, **options: x.ndim == 3 and options.get("axis") == 1),
        (losses.cross_entropy, lambda x, *_, **__: x.shape[-1] > 512),
        (recurrent.lstm, lambda x, *_, **__: x.shape[-2] > 64),
        (recurrent.gru, lambda x, *_, **options: x.shape[-2] > 64 and "lengths" in options),
        (positions.apply_rope, lambda x, *_, **__: x.shape[-2] > 128),
        (
            positions.apply_rope,
            lambda x, *_, **options: x.shape[-1] > 32 and "rotary_dim" in options,
        ),
    ],
)
def test_what_is_wrong_beyond_a_tile_alone(op, where):
    report = check.check_all(broken(op, where), op)
    assert not report
    assert len(report.failed) < len(report.rows)


def test_every_two_groups_are_together_alone_and_both_left_out():
    for count in range(10):
        calls = pairwise(((2,),), *({str(i): i} for i in range(count)))
        key_sets = [{*sample.options} for sample in calls]
        assert len(key_sets) <= 2 + 2 * max(count - 1, 0).bit_length()
        for i in range(count):
            for j in range(i):
                pairs = {(str(i) in keys, str(j) in keys) for keys in key_sets}
                assert len(pairs) == 4, (count, i, j)


# Cotangents and tangents.


def maps():
    for chapter in CHAPTERS:
        module = getattr(dlref, chapter)
        for name in module.__all__:
            f = getattr(module, name)
            has_vjp = inspect.isfunction(f) and hasattr(module, f"{name}_vjp")
            if has_vjp and not spec_of(f)[0].why_not:
                yield pytest.param(f, module, id=f"{chapter}.{name}")


@pytest.mark.broad
@pytest.mark.parametrize(("f", "module"), list(maps()))
def test_no_cotangent_or_tangent_is_an_input(f, module, monkeypatch):
    calls = []

    def seen(_candidate, call, *_, **_options):
        calls.append(call.arguments)
        return check.Verdict(ok=True)

    monkeypatch.setattr(_reports, "judge", seen)
    takes_name = next(iter(inspect.signature(f).parameters)) == "f"
    jvp = None if takes_name or not hasattr(module, f"{f.__name__}_jvp") else seen
    check.check_all(None, f, vjp=seen, jvp=jvp)
    assert calls
    for first, *others in calls:
        for a in (a for a in tree_leaves((first,)) if np.size(a) > 2):
            for b in tree_leaves(tuple(others)):
                if np.shape(a) == np.shape(b) and np.ptp(1 * a):
                    assert not np.array_equal(a, b)


# Memory.


def as_if_contiguous(a):
    """Read an array's memory from its first element on, as kernels do that ignore strides."""
    a = np.asarray(a)
    return a if a.flags.c_contiguous or not a.ndim else 0 * a


@pytest.mark.parametrize(
    "op",
    [
        *(act.gelu, act.softmax, neurons.linear),
        *(
            pytest.param(op, marks=pytest.mark.broad)
            for op in (norm.layer_norm, losses.cross_entropy, losses.huber)
        ),
    ],
    ids=lambda op: op.__name__,
)
def test_strides_that_are_ignored(op):
    vjp = getattr(getattr(dlref, op.__module__.split(".")[1]), f"{op.__name__}_vjp")
    report = check.check_all(
        lambda x, *rest, **options: op(as_if_contiguous(x), *rest, **options), op, dtype="float64"
    )
    assert {"memory in reverse", "memory that is transposed"} <= {row.case for row in report.failed}
    backward = check.check_all(
        None, op, vjp=lambda u, x, *rest, **options: vjp(u, as_if_contiguous(x), *rest, **options)
    )
    assert not backward
    assert all(row.case.startswith("memory") for row in backward.failed)


def test_a_cotangent_of_one_number():
    def vjp(dout, x):
        return act.relu_vjp(dout if dout.strides != (0, 0) else 2 * dout, x)

    failed = check.check_all(None, act.relu, vjp=vjp).failed
    assert [row.case for row in failed] == ["memory that is read-only, after an offset"]


def test_a_kernel_that_writes_to_its_inputs():
    def inplace(x):
        x *= 1
        return act.relu(x)

    report = check.check_all(inplace, act.relu)
    (row,) = report.failed
    assert row.case == "memory that is read-only, after an offset"
    assert row.verdict.message == "the candidate raises ValueError: output array is read-only"


# Several outputs.


@pytest.mark.broad  # every case of attention
def test_a_backward_that_ignores_dlse():
    def vjp(dout, q, k, v, dlse=None, **options):
        del dlse
        return attention.scaled_dot_product_attention_vjp(dout, q, k, v, **options)

    failed = check.check_all(None, SDPA, vjp=vjp).failed
    assert [row.case for row in failed] == ["the option 'dlse'"]


def test_outputs_that_a_kernel_does_not_return_are_left_out():
    def forward(q, k, v, **options):
        if {"return_lse", "return_weights"} & {*options}:
            msg = "got an unexpected keyword argument 'return_lse', 'return_weights'"
            raise TypeError(msg)
        return SDPA(q, k, v, **options)

    def vjp(dout, q, k, v, mask=None):
        return attention.scaled_dot_product_attention_vjp(dout, q, k, v, mask=mask)

    report = check.check_all(lambda q, k, v, mask=None: SDPA(q, k, v, mask=mask), SDPA, vjp=vjp)
    assert report, str(report)
    assert {"return_lse", "return_weights", "dlse", "is_causal", "window"} <= {
        *report.skipped_options
    }
    assert "mask" not in report.skipped_options


# Kernels with fewer options.


def test_a_kernel_is_judged_on_what_it_takes():
    def attend(q, k, v, is_causal=False):
        return SDPA(q, k, v, is_causal=is_causal)

    report = check.check_all(attend, SDPA)
    assert report, str(report)
    assert {"mask", "bias", "softcap", "q_offset"} <= {*report.skipped_options}
    assert sum(row.case.startswith("beyond tiles") for row in report.rows) >= 3
    wrong = check.check_all(broken(attend, lambda q, k, v, **_: k.shape[-2] > 64), SDPA)
    assert not wrong
    assert check.check_all(lambda x: act.gelu(x), act.gelu).skipped_options == ("approximate",)  # noqa: PLW0108


# What has a state.


def test_a_cache_is_copied(rng):
    x = rng.normal(size=(1, 3, 8)).astype(np.float32)
    weights = [rng.normal(size=(8, 8)).astype(np.float32) for _ in range(4)]
    p = attention.AttentionParams(*weights, *4 * [None])
    kept = rng.normal(size=(1, 2, 5, 4)).astype(np.float32)
    cache = attention.KVCache(kept, kept)
    op = attention.multi_head_attention
    assert check.check_forward(op, op, x, x, p, num_heads=2, cache=cache)
    assert len(cache) == 5
    wrong = broken(op, lambda *_, cache, **__: len(cache) == 8)
    assert not check.check_forward(wrong, op, x, x, p, num_heads=2, cache=cache)


def test_a_generator_is_copied():
    from dlref.propagation import glorot_normal  # noqa: PLC0415

    rng = np.random.default_rng(0)
    assert check.check_forward(glorot_normal, glorot_normal, rng, (20, 50))
    assert rng.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize("name", ["torch.bfloat16", "torch.float32", "bfloat16"])
def test_types_by_name(name):
    class Type:
        def __str__(self):
            return name

    dtype = Type() if name.startswith("torch") else name
    case = next(check.hard_inputs(act.relu, dtype))
    assert case.inputs[0].dtype.name == name.removeprefix("torch.")
