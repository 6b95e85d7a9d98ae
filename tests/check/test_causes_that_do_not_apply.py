"""Wrong kernels to which a cause of their record does not apply: no crash, and never right."""

import inspect
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from dlref import attention, check, losses, normalization, recurrent, training
from dlref.check._candidates import _summary
from dlref.check._oracle import calls
from dlref.check._reports import _lacking

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.normal(size=shape)


def twice(f):
    def wrong(*arguments, **options):
        out = f(*arguments, **options)
        return tuple(2 * a for a in out) if isinstance(out, tuple) else 2 * out

    return wrong


STEP = draw(2, 3), draw(2, 4), draw(2, 4), draw(16, 3), draw(16, 4)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (STEP, {"w_p": draw(12)}),
        ((STEP[0], None, None, *STEP[3:]), {}),
    ],
)
def test_a_step_of_an_lstm(inputs, options):
    assert not check.check_forward(
        twice(recurrent.lstm_cell), recurrent.lstm_cell, *inputs, **options
    )


def test_a_sink_without_a_cap():
    f = attention.scaled_dot_product_attention
    q = draw(2, 3, 4)
    assert not check.check_forward(
        lambda *_, **__: q, f, q, draw(2, 5, 4), draw(2, 5, 4), sink=draw(2)
    )


@pytest.mark.parametrize("options", [{}, {"weight": np.array([1.0, 2.0, 0.5])}])
def test_a_loss_that_ignores_nothing(options):
    f, vjp = losses.cross_entropy, losses.cross_entropy_vjp
    logits, classes = draw(4, 3), np.array([0, 2, 1, 1])
    assert not check.check_vjp(twice(vjp), f, 1.0, logits, classes, **options)


def test_a_norm_that_is_a_hundredth_too_large():
    f = normalization.layer_norm
    assert not check.check_forward(lambda x: 1.01 * f(x), f, draw(4, 8))
    g = normalization.group_norm
    assert not check.check_forward(lambda x, n: 1.01 * g(x, n), g, draw(3, 5, 4), 2)
    vjp = normalization.layer_norm_vjp
    assert not check.check_vjp(lambda u, x: 1.01 * vjp(u, x), f, draw(4, 8), draw(4, 8))


def test_heads_of_a_gradient():
    f, vjp = attention.multi_head_attention, attention.multi_head_attention_vjp
    params = attention.AttentionParams(*(draw(4, 4) for _ in range(4)))
    x = draw(3, 4)

    def wrong(dout, *arguments, **options):
        dx, *rest = vjp(dout, *arguments, **options)
        return (2 * dx, *rest)

    signature = [*inspect.signature(f).parameters]
    inputs = (x, params) if signature[1] == "params" else (x, x, params)
    assert not check.check_vjp(wrong, f, draw(3, 4), *inputs, num_heads=2)


def test_outputs_that_are_all_right_say_so():
    f = recurrent.lstm_cell
    assert "all 2 outputs are right" in str(check.check_forward(f, f, *STEP))


def test_what_has_a_state_is_copied():
    rng = np.random.default_rng(1)
    own = calls.widened(rng)
    assert own is not rng
    assert own.random() == np.random.default_rng(1).random()
    cache = attention.KVCache(
        draw(1, 2, 3, 4).astype(np.float32), draw(1, 2, 3, 4).astype(np.float32)
    )
    assert calls.widened(cache) is not cache


def test_the_names_of_a_callable_without_a_signature():
    assert _lacking(dict.fromkeys, {"axis": 0}) in ([], ["axis"])
    assert _lacking(type("Odd", (), {"__signature__": 3, "__call__": sys.exit})(), {"a": 1}) == [
        "a"
    ]


def test_a_step_without_decay():
    f = training.adamw_step
    options = {"learning_rate": 0.1, "weight_decay": 0.0}
    away = lambda p, g, s, **o: (p + 1, *f(p, g, s, **o)[1:])  # noqa: E731
    assert not check.check_forward(away, f, draw(3), draw(3), None, **options)


def test_dtypes_by_name():
    pytest.importorskip("ml_dtypes")
    case = next(check.hard_inputs(normalization.layer_norm, "bfloat16"))
    assert case.inputs[0].dtype.name == "bfloat16"


def test_a_forward_mode_that_takes_a_cell():
    f = recurrent.vector_to_sequence
    with pytest.raises(ValueError, match="'jvp' must be None where 'op' takes the name of a cell"):
        check.check_all(None, f, jvp=recurrent.vector_to_sequence_jvp)


def test_a_summary_names_the_outputs_of_which_nothing_is_told():
    conclusive = SimpleNamespace(ok=True, inconclusive=False, name="output 0")
    inconclusive = SimpleNamespace(ok=False, inconclusive=True, name="output 1")
    assert "1 of 2 outputs are right; inconclusive for" in _summary([conclusive, inconclusive])
    assert _summary([inconclusive, inconclusive]).startswith("inconclusive for output 1")


def test_ignored_rows_of_a_smoothed_and_weighted_loss():
    options = {"label_smoothing": 0.25, "weight": np.array([1.0, 2.0, 3.0])}
    x, target, dout = draw(4, 3), np.array([0, -100, 2, 1]), np.float64(1.0)
    f = losses.cross_entropy
    report = check.check_vjp(twice(losses.cross_entropy_vjp), f, dout, x, target, **options)
    assert not report.ok
    assert "smoothed" not in report.cause


def noisy(f):
    """Return a kernel whose mistake has no name."""

    def wrong(*arguments, **options):
        out = f(*arguments, **options)
        return tuple(map(_ripple, out)) if isinstance(out, tuple) else _ripple(out)

    return wrong


def _ripple(a):
    return a + 0.1 * np.sin(np.arange(np.size(a))).reshape(np.shape(a)) + 0.05


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_losses_of_ignored_rows(reduction, ignored, weighted):
    options = {"label_smoothing": 0.25, "reduction": reduction}
    options |= {"weight": np.array([1.0, 2.0, 4.0])} if weighted else {}
    target = np.array([0, -100 if ignored else 1, 2, 1])
    f = losses.cross_entropy
    for changes in ({}, {"label_smoothing": 0.0}):
        assert not check.check_forward(noisy(f), f, draw(4, 3), target, **(options | changes)).ok


def test_all_targets_are_ignored():
    options = {"weight": np.array([1.0, 2.0, 4.0]), "reduction": "sum"}
    f = losses.cross_entropy
    assert not check.check_forward(noisy(f), f, draw(4, 3), np.full(4, -100), **options).ok


@pytest.mark.parametrize("width", [200, 300, 64, 1025])
def test_norms_of_several_tiles(width):
    """A remainder for each length of a tile, and none of them is the cause."""
    f = normalization.layer_norm
    report = check.check_forward(noisy(f), f, draw(3, width))
    assert not report.ok
    assert "left out" not in report.cause


def test_gradients_of_norms_without_a_mean():
    f, vjp = normalization.rms_norm, normalization.rms_norm_vjp
    for shape in ((3, 7), (2, 3, 7)):
        report = check.check_vjp(noisy(vjp), f, draw(*shape), draw(*shape))
        assert not report.ok
        assert "variance" not in report.cause


def test_a_training_step_of_batch_norm():
    f = normalization.batch_norm_train
    assert not check.check_forward(noisy(f), f, draw(5, 3), draw(3), draw(3) ** 2).ok


def test_values_of_an_option_that_give_the_same_are_named_together():
    f = normalization.layer_norm
    report = check.check_forward(lambda x, **o: f(x, eps=1e-12), f, 1e3 * draw(3, 8), eps=0.5)
    assert report.cause.startswith("eps is ")
    assert " or " in report.cause
    assert report.cause.endswith(", not 0.5")


@pytest.mark.parametrize("blank", [0, 1, 3])
def test_a_blank_at_any_place(blank):
    f, target = losses.ctc_loss, np.array([[2, 2], [2, 2]])
    log_p = draw(2, 6, 4)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    report = check.check_forward(noisy(f), f, log_p, target, blank=blank)
    assert not report.ok
    assert "blank" not in report.cause
