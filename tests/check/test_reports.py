"""Tests of dlref.check._reports."""

import json
from functools import partial

import numpy as np
import pytest

from dlref import activations, attention, check, losses, neurons, normalization, recurrent
from dlref.check import _reports

SDPA = attention.scaled_dot_product_attention


@pytest.mark.broad
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
    assert {row.form for row in report.rows} >= {"forward", "vjp"}
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
    assert {row.form for row in report.failed} == {"forward"}
    assert next(iter(report.causes)).startswith("it is doubled")
    lines = str(report).splitlines()
    assert "softmax, float32: " in lines[0]
    assert "cases are off; most often" in lines[0]
    assert len(lines) > 2 + len(report.rows)
    assert any("the candidate raises RuntimeError: tile of 1" in line for line in lines)
    assert report._repr_html_().count("<tr><td>") == len(report.rows)


def test_a_report_as_files(report, tmp_path):
    page = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page
    assert page.count("<h2>") == len(report.failed)
    written = json.loads(report.to_json(tmp_path / "report.json"))
    assert written == json.loads((tmp_path / "report.json").read_text())
    assert (written["op"], written["ok"], len(written["rows"])) == (
        "softmax",
        False,
        len(report.rows),
    )
    assert report.to_json() == report.to_json(tmp_path / "again.json")


def test_rows_have_names(report):
    assert all(type(row) is check.CheckRow for row in report.rows)
    assert {row.outcome for row in report.rows} == {"right", "off", "inconclusive"}
    assert {row.outcome for row in report.failed} == {"off"}
    rows = json.loads(report.to_json())["rows"]
    for row, entry in zip(report.rows, rows, strict=True):
        assert (entry["form"], entry["case"], entry["outcome"]) == (row.form, row.case, row.outcome)
        assert (entry["ok"], entry["message"]) == (row.verdict.ok, row.verdict.message)


def test_infinities_are_words_in_json():
    wrong = lambda x: np.full(x.shape, np.inf, x.dtype)  # noqa: E731
    report = check.check_all(wrong, activations.relu)
    errors = [o["error"] for row in json.loads(report.to_json())["rows"] for o in row["outputs"]]
    assert "inf" in errors


def test_several_outputs():
    report = check.check_all(
        recurrent.lstm_cell, recurrent.lstm_cell, vjp=recurrent.lstm_cell_vjp, dtype="float64"
    )
    assert report
    assert report.failed == ()


def test_only_derivatives():
    report = check.check_all(None, activations.relu, vjp=activations.relu_vjp)
    assert {row.form for row in report.rows} == {"vjp"}
    wrong = check.check_all(activations.relu, activations.relu, rtol=10.0, atol=1.0, factor=1.0)
    assert wrong


def test_progress_sees_every_case():
    bars = []
    check.check_all(
        activations.relu, activations.relu, progress=lambda cases: bars.append(len(cases)) or cases
    )
    layouts = 5
    assert bars == [len(list(check.hard_inputs(activations.relu, "float32"))) + layouts]


def test_errors():
    with pytest.raises(TypeError, match=r"^Argument 'vjp' must be a function"):
        check.check_all(None, activations.relu, vjp=3)
    with pytest.raises(TypeError, match=r"^Argument 'op' must be"):
        check.check_all(np.tanh, np.tanh)


def test_a_prompt_shows_words_instead_of_a_tuple():
    verdict = check.check_forward(np.tanh, activations.tanh, np.ones(3))
    gradients = check.check_gradients(np.sin, lambda u, x: u * np.cos(x), np.ones(3))
    report = check.check_all(np.tanh, activations.tanh)
    errors = check.error_report(np.ones(3), np.ones(3))
    parting = check.first_difference({"out": np.ones(3)}, {"out": np.zeros(3)})
    for result in (verdict, verdict.outputs[0], gradients, report, errors, parting):
        assert repr(result) == str(result)
        assert "(ok=" not in repr(result)


def half_zero(x, axis=-1):
    y = activations.softmax(x, axis=axis).copy()
    y[..., y.shape[-1] // 2 :] = 0
    return y


def test_a_picture_shows_where_the_error_sits():
    x = np.random.default_rng(0).normal(size=(2, 30, 200))
    verdict = check.check_forward(half_zero, activations.softmax, x)
    rows = verdict.error_map.splitlines()
    assert rows[:-1] == ["  " + 24 * "." + 24 * "#"] * 12
    assert "# beyond" in rows[-1]
    assert "#8c1c2e" in verdict._repr_html_()
    assert verdict._repr_html_().count('title="0"') == 12 * 24
    right = check.check_forward(activations.softmax, activations.softmax, x)
    assert right.error_map == ""
    assert "style" not in right._repr_html_()
    number = check.check_forward(lambda p, q: 3.0, losses.squared_error, x, x)
    assert number.error_map == ""


def test_a_picture_has_a_sign_for_the_size():
    x = np.ones(4)
    wrong = lambda x: activations.relu(x) + np.array([0, 1, 100, 1e6]) * 2e-14  # noqa: E731
    verdict = check.check_forward(wrong, activations.relu, x)
    assert verdict.error_map.splitlines()[0] == "  .+*#"


def test_a_report_has_pictures_and_the_plain_formula_beside():
    report = check.check_all(half_zero, activations.softmax)
    lines = str(report).splitlines()
    assert lines[1].split() == ["form", "case", "error/allowed", "error/plain", "why"]
    first = report.failed[0]
    assert f"{first[0]}, {first[1]}: where the error of its worst output is" in lines
    assert all(row in lines for row in first.verdict.error_map.splitlines())
    assert report._repr_html_().count("<caption>") == 1
    page = report.to_html()
    assert page.count("<caption>") == 1 + sum(bool(row.verdict.error_map) for row in report.failed)
    output = json.loads(report.to_json())["rows"][0]["outputs"][0]
    assert len(output["error_map"]) == 5
    assert len(output["error_map"][0]) == 7
    assert output["max_error"] > 1e3 * output["baseline"] > 0


def test_a_right_candidate_is_as_good_as_the_plain_formula():
    report = check.check_all(activations.softmax, activations.softmax)
    beside = [float(cells[4]) for cells in report._cells() if cells[4] != "-"]
    assert len(beside) > 5
    assert max(beside) <= 1.5
    in_float64 = check.check_all(activations.relu, activations.relu, dtype="float64")
    assert {cells[4] for cells in in_float64._cells()} == {"-"}


def test_without_a_plain_formula_dlref_stands_beside():
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float16)
    twice = check.check_forward(lambda x: 2 * activations.softplus(x), activations.softplus, x)
    exact = activations.softplus(x.astype(float))
    output = twice.outputs[0]
    assert output.baseline == np.abs(activations.softplus(x) - exact).max()
    assert output.max_error == np.abs(2 * activations.softplus(x) - exact).max()
    masked = {"window": (1, 0)}  # the plain formula has no windows
    q = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    assert check.check_forward(SDPA, SDPA, q, q, q, **masked).outputs[0].baseline > 0


def test_a_candidate_that_only_raises_has_no_picture():
    def unwritten(x):
        raise NotImplementedError

    report = check.check_all(unwritten, activations.relu)
    assert len(report.failed) == len(report.rows)
    assert "where the error" not in str(report)
    assert "<caption>" not in report._repr_html_()


def test_forward_mode_alone():
    report = check.check_all(None, activations.tanh, jvp=activations.tanh_jvp)
    assert report
    assert {row.form for row in report.rows} == {"jvp"}


def softmax_vjp_in_numpy(u, x):
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p * (u - (u * p).sum(-1, keepdims=True))


def softmax_jvp_in_numpy(x, dx):
    return softmax_vjp_in_numpy(dx, x)  # the Jacobian is symmetric


def test_a_form_under_its_own_name_is_judged_as_that_form_of_the_map():
    """As a map of its own it would lack its plain formula, and the right one would be off."""
    for form in ("vjp", "jvp"):
        candidate = globals()[f"softmax_{form}_in_numpy"]
        report = check.check_all(candidate, getattr(activations, f"softmax_{form}"))
        assert report, str(report)
        assert report.op == "softmax"
        assert {row.form for row in report.rows} == {form}
    large = np.array([[0.0, 30.0, 1.0]])
    assert check.check_forward(
        partial(softmax_vjp_in_numpy), partial(activations.softmax_vjp, axis=-1), large, large
    )


def test_values_of_another_dtype_are_judged_too():
    x = np.linspace(-2, 2, 5, dtype=np.float32)
    right = check.check_forward(lambda x: np.tanh(x.astype(np.float64)), activations.tanh, x)
    assert not right
    assert "has dtype float64, where dlref's has float32; the values are right" in str(right)
    wrong = check.check_forward(lambda x: 2 * np.tanh(x.astype(np.float64)), activations.tanh, x)
    assert "the values are right" not in str(wrong)
    assert "2" in wrong.outputs[0].cause


def test_a_dtype_of_pytorch_asks_for_its_tensors():
    class Float32:
        def __str__(self):
            return "torch.float32"

    run = _reports.prepared(activations.relu, activations.relu, dtype=Float32())
    assert run.framework == "torch"
    assert _reports.prepared(activations.relu, activations.relu).framework is None


def test_a_candidate_for_tensors_is_told_of_frameworks():
    def relu(x):
        msg = "argument 'input' must be Tensor, not numpy.ndarray"
        raise TypeError(msg)

    message = check.check_all(relu, activations.relu).rows[0].verdict.message
    assert message.endswith("unless framework is 'torch' or 'jax')")
