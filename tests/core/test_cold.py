"""How many functions a first call compiles: the first minute of a user is made of them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlref._core.jit import COMPILED

ROOT = Path(__file__).parents[2]
CODE = """
import json, sys
import numpy as np
from numba.core import event
from dlref import activations, attention, normalization, training

x = np.ones((2, 3, 4), np.float32)
first = {
    "relu": lambda: activations.relu(x),
    "softmax": lambda: activations.softmax(x),
    "layer_norm": lambda: normalization.layer_norm(x),
    "adam_step": lambda: training.adam_step(x, x, None, learning_rate=0.1),
    "attention": lambda: attention.scaled_dot_product_attention(x, x, x),
}
with event.install_recorder("numba:compile") as record:
    first[sys.argv[1]]()
print(json.dumps(sum(e.is_start for _, e in record.buffer)))
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("name", "most"),
    [("relu", 2), ("softmax", 11), ("layer_norm", 11), ("adam_step", 6), ("attention", 7)],
)
def test_a_first_call_compiles_few_functions(name, most):
    environment = {**os.environ, "NUMBA_CACHE_DIR": os.devnull, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout) <= most


@pytest.mark.broad
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_the_table_of_first_calls_is_of_today():
    """The seconds depend on the machine, the functions that are compiled hardly do."""
    with (ROOT / "docs/results/cold.csv").open() as file:
        table = {row["function"]: row["compiled"] for row in csv.DictReader(file)}
    names = (
        "activations.gelu_vjp",
        "attention.scaled_dot_product_attention_vjp",
        "losses.cross_entropy_grad",
        "normalization.layer_norm_vjp",
        "transformer.language_model_loss_grad",
    )
    done = subprocess.run(
        [sys.executable, "docs/measure", "cold", *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f".{os.pathsep}tests"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    compiled = {row[0]: row[-1] for row in rows if row[0] in names}
    assert compiled == {name: table[name] for name in names}
