"""Tests of dlref.check._reports."""

import json

import numpy as np
import pytest

from dlref import activations, attention, check, losses, neurons, normalization, recurrent

SDPA = attention.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("op", "vjp", "jvp"),
    [
        (activations.gelu, activations.gelu_vjp, activations.gelu_jvp),
        (activations.softmax, activations.softmax_vjp, activations.softmax_jvp),
        (neurons.linear, neurons.linear_vjp, neurons.linear_jvp),
        (losses.cross_entropy, losses.cross_entropy_vjp, None),
        (normalization.layer_norm, normalization.layer_norm_vjp, normalization.layer_norm_jvp),
        (SDPA, attention.scaled_dot_product_attention_vjp, None),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_what_is_right_passes_everywhere(op, vjp, jvp, dtype):
    report = check.check_all(op, op, vjp=vjp, jvp=jvp, dtype=dtype)
    assert report, str(report)
    assert {form for form, _, _ in report.rows} >= {"forward", "vjp"}
    assert (report.failed, report.causes) == ((), {})
    assert "right in all cases" in str(report)


def broken(x, axis=-1):
    if x.shape[axis] == 1:
        msg = "tile of 1"
        raise RuntimeError(msg)
    return activations.softmax(x, axis=axis) * 2


@pytest.fixture
def report():
    return check.check_all(broken, activations.softmax, vjp=activations.softmax_vjp)


def test_a_report_of_what_is_wrong(report):
    assert not report
    assert {form for form, _, _ in report.failed} == {"forward"}
    assert next(iter(report.causes)).startswith("it is doubled")
    lines = str(report).splitlines()
    assert "softmax, float32: " in lines[0]
    assert "cases are off; most often" in lines[0]
    assert len(lines) == 2 + len(report.rows)
    assert any("the candidate raises RuntimeError: tile of 1" in line for line in lines)
    assert report._repr_html_().count("<tr>") == 1 + len(report.rows)


def test_a_report_as_files(report, tmp_path):
    page = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page
    assert page.count("<h2>") == len(report.failed)
    told = json.loads(report.to_json(tmp_path / "report.json"))
    assert told == json.loads((tmp_path / "report.json").read_text())
    assert (told["op"], told["ok"], len(told["rows"])) == ("softmax", False, len(report.rows))
    assert report.to_json() == report.to_json(tmp_path / "again.json")


def test_infinities_are_words_in_json():
    wrong = lambda x: np.full(x.shape, np.inf, x.dtype)  # noqa: E731
    report = check.check_all(wrong, activations.relu)
    errors = [o["error"] for row in json.loads(report.to_json())["rows"] for o in row["outputs"]]
    assert "inf" in errors


def test_several_outputs():
    report = check.check_all(
        recurrent.lstm, recurrent.lstm, vjp=recurrent.lstm_vjp, dtype="float64"
    )
    assert report
    assert report.failed == ()


def test_only_derivatives():
    report = check.check_all(None, activations.relu, vjp=activations.relu_vjp)
    assert {form for form, _, _ in report.rows} == {"vjp"}
    wrong = check.check_all(activations.relu, activations.relu, rtol=10.0, atol=1.0, factor=1.0)
    assert wrong


def test_progress_sees_every_case():
    bars = []
    check.check_all(
        activations.relu, activations.relu, progress=lambda cases: bars.append(len(cases)) or cases
    )
    assert bars == [len(list(check.hard_inputs(activations.relu, "float32")))]


def test_errors():
    with pytest.raises(TypeError, match=r"^Argument 'vjp' must be a function"):
        check.check_all(None, activations.relu, vjp=3)
    with pytest.raises(TypeError, match=r"^Argument 'op' must be"):
        check.check_all(np.tanh, attention.additive_attention)


def test_a_prompt_shows_words_instead_of_a_tuple():
    verdict = check.check_forward(np.tanh, activations.tanh, np.ones(3))
    gradients = check.check_gradients(np.sin, lambda u, x: u * np.cos(x), np.ones(3))
    report = check.check_all(np.tanh, activations.tanh)
    errors = check.error_report(np.ones(3), np.ones(3))
    parting = check.first_difference({"out": np.ones(3)}, {"out": np.zeros(3)})
    for found in (verdict, verdict.outputs[0], gradients, report, errors, parting):
        assert repr(found) == str(found)
        assert "(ok=" not in repr(found)
