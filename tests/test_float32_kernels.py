"""The table of float32 kernels is the script's, and the pages say what stands in it."""

import csv
import re

import float32_kernels as measured
import numpy as np
import pytest

DOCS = measured.RESULTS.parents[1]
SMALL = [case for case in measured.CASES if np.prod(case.shape) < 80_000]


@pytest.fixture(scope="module")
def table():
    with measured.RESULTS.open(newline="", encoding="utf-8") as file:
        return {tuple(row[:4]): [float(v) for v in row[4:]] for row in list(csv.reader(file))[1:]}


def largest(table, library, *words, of="", shape="", inputs=""):
    """Return the largest error of a library in the rows of some maps."""
    column = 2 * measured.LIBRARIES.index(library)
    return max(
        row[column]
        for key, row in table.items()
        if any(word in key[0] for word in words) and of in key[1]
        and shape in key[2] and inputs in key[3]
    )  # fmt: skip


def said(page, pattern):
    """Return the numbers of a sentence of a page."""
    found = re.search(pattern, " ".join((DOCS / page).read_text(encoding="utf-8").split()))
    assert found, pattern
    return [float(number) for number in found.groups()]


NUMBER = r"(\d+(?:\.\d+)?)"


def test_the_header_and_each_case(table):
    assert measured.RESULTS.read_text(encoding="utf-8").splitlines()[0].split(",") == (
        measured.HEADER
    )
    want = [(c.name, of, *c.cells()) for c in measured.CASES for of in ("forward", "gradient")]
    assert [*table] == want


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_errors_of_dlref(case, table):
    """They are those of the table: a float64 result, rounded once, is the same everywhere."""
    for row in measured.rows_of(case, ("dlref",)):
        # Attention multiplies in float32, and BLAS adds up in an order of its own.
        factor = 2.0 if case.name.startswith("scaled") else 1.05
        assert [float(v) for v in row[4:]] == pytest.approx(
            table[tuple(row[:4])][:2], rel=factor - 1
        )


@pytest.mark.parametrize(("library", "module"), [("PyTorch", "torch"), ("JAX", "jax")])
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_tolerance_of_the_page(case, library, module, table):
    """Another seed stays below four times the table, and is not far below it on any processor."""
    pytest.importorskip(module)
    column = 2 * measured.LIBRARIES.index(library)
    for row in measured.rows_of(case, (library,), seeds=(7,)):
        worst = table[tuple(row[:4])][column]
        assert worst / 8 < float(row[4]) < 4 * worst


def test_an_error_in_a_kernel_is_seen():
    """Sums of float32 numbers one after another exceed what the table allows for a norm."""
    x = np.full((1, 8192), 1.1, np.float32)
    total = np.add.accumulate(x * x, axis=-1)[:, -1:]
    got = x / np.sqrt(total / np.float32(8192) + np.float32(1e-6))
    want = measured.normalization.rms_norm(x.astype(np.float64), eps=1e-6)
    assert measured.error(got, want)[0] > 4 * 1.2


def test_dlref_rounds_once(table):
    names = {key[0] for key in table} - {"scaled_dot_product_attention"}
    assert largest(table, "dlref", *names) <= 0.5


def test_norms(table):
    rows = {key: row for key, row in table.items() if "mean" not in key[3]}
    near = [
        max(largest(rows, name, "_norm", of=of) for name in ("PyTorch", "JAX"))
        for of in ("forward", "gradient")
    ]
    page = "accuracy.rst"
    assert said(page, f"right to {NUMBER} units and their gradients to {NUMBER},") == near
    far = [
        largest(table, "PyTorch", "layer_norm", of=of, inputs="mean 100")
        for of in ("forward", "gradient")
    ]
    assert said(page, f"off by up to {NUMBER} units and its gradient by {NUMBER}\\.") == far
    jax = largest(table, "JAX", "layer_norm", inputs="mean 100")
    assert said(page, rf"\\bar x\^2`, and is off by {NUMBER}:") == [jax]


def test_softmax_and_losses(table):
    names = ("softmax", "cross_entropy")
    forward = max(largest(table, name, *names, of="forward") for name in ("PyTorch", "JAX"))
    page = "accuracy.rst"
    assert said(page, f"At most {NUMBER} units forward") == [forward]
    words = {"of": "gradient", "shape": "32000", "inputs": "spread 10"}
    gradients = [largest(table, name, "log_softmax", **words) for name in ("PyTorch", "JAX")]
    sentence = f"is off by {NUMBER} units in PyTorch's log-softmax, and by {NUMBER} in JAX's"
    assert said(page, sentence) == gradients


def test_gelu(table):
    exact = {key: row for key, row in table.items() if key[0] == "gelu"}
    most = max(largest(exact, name, "gelu") for name in ("PyTorch", "JAX"))
    assert said("accuracy.rst", f"At most {NUMBER} units with erf") == [most]
    tanh = [largest(table, name, "gelu_tanh", of="gradient") for name in ("JAX", "PyTorch")]
    sentence = f"is off by {NUMBER} units in JAX and by {NUMBER} in PyTorch"
    assert said("accuracy.rst", sentence) == tanh


def test_attention(table):
    rows = [row[::2] for key, row in table.items() if key[0].startswith("scaled")]
    least, most = said("accuracy.rst", f"Between {NUMBER} and {NUMBER} units in all three")
    assert least == np.floor(np.min(rows))
    assert most == np.max(rows)


def test_the_example_of_check_your_kernel(table):
    (rows, width), (factor, error) = (
        said("check_your_kernel.rst", rf"normal\(size=\({NUMBER}, {NUMBER}\)\)"),
        said("check_your_kernel.rst", rf"atol = {NUMBER} \* {NUMBER} \* np\.finfo"),
    )
    shape = f"{rows:g} x {width:g}"
    most = max(largest(table, name, "rms_norm", of="forward", shape=shape)
               for name in ("PyTorch", "JAX"))  # fmt: skip
    assert (factor, error) == (4.0, most)
