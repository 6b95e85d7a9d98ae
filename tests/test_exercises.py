"""The exercises of the topics that a course asks for come in three grades, each with a hint."""

import re
from pathlib import Path

import pytest

EXERCISES = Path(__file__).parents[1] / "docs" / "exercises"
GRADES = {"Compute", "Derive", "Prove"}
GRADED = [
    *("activations/softmax", "losses/cross_entropy", "neurons/mlp", "training/adam"),
    *("normalization/layer_norm", "normalization/batch_norm", "positions/rotary"),
    *("recurrent/rnn", "recurrent/lstm", "recurrent/gru"),
    *("attention/scaled_dot_product", "attention/multi_head"),
]
FORM = re.compile(
    r"\*(?P<grade>\w+)\.\* (?P<statement>.+?)\n\n   \.\. dropdown:: Hint\n\n(?P<hint>      .+?)\n\n"
    r"   \.\. dropdown:: Solution\n\n(?P<solution>      .+)",
    re.DOTALL,
)


def exercises(text):
    """Return the numbered exercises of a file."""
    return re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("topic", GRADED)
def test_the_exercises_compute_derive_and_prove(topic):
    """Easier ones first; between statement and solution there is a hint, and the solution runs."""
    found = [
        FORM.fullmatch(one.strip())
        for one in exercises((EXERCISES / f"{topic}.rst").read_text(encoding="utf-8"))
    ]
    assert len(found) >= 5
    assert all(found), f"exercise {found.index(None) + 1}: grade, statement, hint, solution"
    grades = [one["grade"] for one in found]
    assert grades == sorted(grades)  # the alphabet happens to order them
    assert set(grades) == GRADES
    assert all(">>> " in one["solution"] and ">>> " not in one["statement"] for one in found)
    assert all("dropdown" not in one["statement"] + one["hint"] for one in found)


def test_an_exercise_without_a_hint_is_found():
    text = (EXERCISES / f"{GRADED[0]}.rst").read_text(encoding="utf-8")
    [one, *_] = exercises(text.replace("   .. dropdown:: Hint\n", "", 1))
    assert not FORM.fullmatch(one.strip())
