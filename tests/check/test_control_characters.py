"""What a kernel says is escaped before a terminal shows it, which would obey control characters."""

import numpy as np
import pytest

from dlref import activations as act
from dlref import check
from dlref._core.arguments import printable, shown
from dlref.check.__main__ import main

#: Sequences that clear the screen, set a title, ring, go back, turn the order of signs, and none.
CONTROLS = "\x1b[2J\x1b]0;title\x07\b\r\x9b31m\u202e\u2066\x00\ud800\u2028"
X = np.linspace(-1, 1, 6)


class Named:
    """An object whose repr has control characters."""

    def __repr__(self):
        return CONTROLS


class OddError(Exception):
    """An error with such a message, and of such a name."""


OddError.__name__ = CONTROLS.replace("\ud800", "").replace("\0", "")


def raising(error):
    def kernel(*_, **__):
        raise error

    return kernel


def is_clean(text):
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize("error", [ValueError, OddError, NotImplementedError, TypeError])
def test_messages_of_a_kernel(error):
    report = check.check_all(raising(error(CONTROLS)), act.relu, options=())
    assert r"\x1b[2J" in str(report)
    for text in (str(report), report.to_html(), report.to_json(), *report.unsupported):
        assert is_clean(text)
    for row in report.rows:
        assert is_clean(row.verdict.message)
        assert is_clean(str(row.verdict))


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_what_a_kernel_returns(framework):
    pytest.importorskip(framework)
    for value in (CONTROLS, [CONTROLS], Named(), np.array(CONTROLS), (Named(),)):
        verdict = check.check_forward(lambda _, v=value: v, act.relu, X, framework=framework)
        assert not verdict
        assert is_clean(str(verdict))
        assert is_clean(verdict.message)


def test_names_of_cases_and_of_steps():
    case = (CONTROLS, (X,), {})
    assert is_clean(str(check.check_all(act.relu, act.relu, cases=[case])))
    found = check.first_difference({CONTROLS: X}, {CONTROLS: X + 1})
    assert is_clean(str(found))


def test_errors_of_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "odd_kernels.py").write_text(f"raise ValueError({CONTROLS!a})\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["odd_kernels:relu", "dlref.activations.relu"])
    assert is_clean(capsys.readouterr().err)


def test_arguments_in_errors():
    for value in (CONTROLS, Named(), CONTROLS.encode("utf-8", "surrogatepass"), {CONTROLS: 1}):
        assert is_clean(shown(value))
        with pytest.raises(TypeError) as error:
            act.relu(value)
        assert is_clean(str(error.value))
    assert printable("a line\nwith ä and 数") == "a line\nwith ä and 数"
