"""The table of slopes at kinks: what the page on conventions says, run beside the libraries."""

import re
from pathlib import Path

import numpy as np
import pytest

from dlref import activations, calculus, losses

PAGE = Path(__file__).parents[2] / "docs" / "conventions.rst"
HEAD = ":header: map, at, slopes on either side, dlref, PyTorch, JAX\n\n"
TABLE = PAGE.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]
ROWS = [[cell.strip() for cell in line.split(",")] for line in TABLE.splitlines()]
#: For each map its slope in dlref, and what it is called in torch and in jax.
MAPS = {
    "ReLU": (activations.relu_deriv, "relu", "relu"),
    "leaky ReLU": (activations.leaky_relu_deriv, "leaky_relu", "leaky_relu"),
    "ReLU6": (activations.relu6_deriv, "relu6", "relu6"),
    "ELU with α = 0.5": (lambda x: activations.elu_deriv(x, alpha=0.5), "elu", "elu"),
    "SELU": (activations.selu_deriv, "selu", "selu"),
    "hard tanh": (activations.hard_tanh_deriv, "hardtanh", "hard_tanh"),
    "absolute value": (
        lambda x: losses.absolute_error_grad(np.array([x]), np.zeros(1))[0],
        "abs",
        "abs",
    ),
    "maximum of x and 0": (lambda x: calculus.maximum_vjp(1.0, x, 0.0)[0], "maximum", "maximum"),
    "clip to −1 and 1": (lambda x: calculus.clip_deriv(x, min=-1.0, max=1.0), "clip", "clip"),
}
OTHERS = {"elu": (0.5,), "maximum": (0.0,), "clip": (-1.0, 1.0)}
OF_ARRAYS = {"abs", "maximum", "clip"}


def number(text):
    return float(text.replace("−", "-"))


def close(slope, text):
    return abs(float(slope) - number(text)) < 5e-4


def test_every_map_has_a_row():
    assert {row[0] for row in ROWS} == set(MAPS)
    assert all(len(row) == 6 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} at {row[1]}")
def test_dlref(row):
    slope, at = MAPS[row[0]][0], number(row[1])
    left, right = re.split(" and ", row[2])
    assert close(slope(at - 1e-9), left)
    assert close(slope(at + 1e-9), right)
    assert close(slope(at), row[3])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} at {row[1]}")
def test_pytorch(row):
    torch = pytest.importorskip("torch")
    name = MAPS[row[0]][1]
    f = getattr(torch if name in OF_ARRAYS else torch.nn.functional, name)
    x = torch.tensor(number(row[1]), dtype=torch.float64, requires_grad=True)
    others = OTHERS.get(name, ())
    if name == "maximum":  # of two tensors
        others = tuple(torch.tensor(other, dtype=torch.float64) for other in others)
    f(x, *others).backward()
    assert close(x.grad, row[4])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} at {row[1]}")
def test_jax(row):
    jax = pytest.importorskip("jax", reason="see the dependency group 'peers'")
    name = MAPS[row[0]][2]
    f = getattr(jax.numpy if name in OF_ARRAYS else jax.nn, name)
    others = OTHERS.get(name, ())
    assert close(jax.grad(f)(number(row[1]), *others), row[5])
