"""``python -m dlref.check`` runs check_all."""

import json
import subprocess
import sys

import pytest

from dlref.check.__main__ import main

KERNELS = """
import numpy as np

def relu(x):
    return np.maximum(x, 0)

def relu_vjp(dout, x):
    return dout * (x > 0)

def relu_jvp(x, dx):
    return dx * (x > 0)

class Wrong:
    @staticmethod
    def relu(x):
        return np.abs(x)
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    name = f"kernels_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return name


def test_right_and_wrong(kernels, capsys, tmp_path):
    op = "dlref.activations.relu"
    forms = ["--vjp", f"{kernels}:relu_vjp", "--jvp", f"{kernels}:relu_jvp"]
    files = ["--json", "report.json", "--html", "report.html"]
    assert main([f"{kernels}:relu", op, *forms, *files]) == 0
    assert "relu, float32: right in all cases" in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["ok"] is True
    assert "<table>" in (tmp_path / "report.html").read_text()
    assert main([f"{kernels}:Wrong.relu", op, "--dtype", "float16"]) == 1
    assert "relu, float16: " in capsys.readouterr().out
    assert main(["-", op, "--vjp", f"{kernels}:relu_vjp"]) == 0
    assert main([f"{kernels}.relu", op, "--repeats", "2", "--strict"]) == 0


def exit_of(arguments, code, capsys):
    """Return what a call prints that ends with an exit code."""
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == code
    return capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:relu", "dlref.activations.relu"], "nowhere"),
        (["numpy:nothing", "dlref.activations.relu"], "nothing"),
        (["numpy:abs", "numpy:abs"], "Argument 'op' must be"),
        (["numpy:abs", "dlref.activations.relu", "--layout", "XY"], "layout"),
    ],
)
def test_errors_in_words(arguments, message, capsys):
    assert message in exit_of(arguments, 2, capsys).err


def test_as_a_program(kernels):
    command = [sys.executable, "-m", "dlref.check", f"{kernels}:relu", "dlref.activations.relu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "right in all cases" in done.stdout


def test_a_file_that_cannot_be_written(kernels, capsys):
    arguments = [f"{kernels}:relu", "dlref.activations.relu", "--json", "nowhere/report.json"]
    captured = exit_of(arguments, 2, capsys)
    assert "relu, float32: right in all cases" in captured.out
    assert "nowhere/report.json" in captured.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("1 / 0", "ZeroDivisionError"),
        ("def relu(x: return x", "SyntaxError"),
    ],
)
def test_a_module_that_fails_is_a_wrong_argument(tmp_path, monkeypatch, capsys, line, message):
    name = f"failing_{message.lower()}"
    (tmp_path / f"{name}.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert message in exit_of([f"{name}:relu", "dlref.activations.relu"], 2, capsys).err


def test_a_kernel_that_ends_the_process_is_not_right(tmp_path, monkeypatch, capsys):
    (tmp_path / "ending.py").write_text("def relu(x):\n    raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "SystemExit(0)" in exit_of(["ending:relu", "dlref.activations.relu"], 1, capsys).err
