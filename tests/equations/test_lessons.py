"""The displayed equations of the lessons hold for the numbers of their lessons."""

import itertools

import numpy as np
import pytest
from equations import lessons

#: What the reader of equations does not understand, or nobody has given values for: sums with dots,
#: matrices side by side, indices that run between them, and sentences. The numbers may only go.
UNREAD = {
    "adam": {4, 5},
    "attention": {1, 3, 4},
    "autograd": {2},
    "backward_or_forward": {1, 2, 3, 4, 5},
    "batch_norm": {4},
    "block": {2},
    "bottleneck": {5},
    "bptt": {4},
    "causal_mask": {1, 2},
    "diffusion": {3, 4},
    "flash_attention": {4},
    "generation": {3},
    "heads": {1},
    "initialization": {1, 2, 3, 4},
    "kv_cache": {1, 2},
    "language_model": {1, 3},
    "layer": {6},
    "layer_norm": {5},
    "lora": {1},
    "lstm": {5},
    "lstm_backward": {5},
    "model_backward": {1, 2, 3},
    "momentum": {3, 4, 5},
    "paths": {2, 5},
    "positions": {1, 2, 5},
    "quantization": {3},
    "schedule_and_clipping": {3, 4},
    "slope": {6},
    "text": {1, 2},
    "train_model": {1, 2},
    "training_loop": {1, 2},
    "two_layers": {5, 7},
    "vanishing": {1, 2},
}


@pytest.mark.parametrize(("lesson", "number"), lessons.READ)
def test_an_equation_of_a_lesson_holds(lesson, number):
    lines = list(lessons.sides(lesson, number))
    assert lines, f"equation {number} of {lesson} compares nothing"
    for values, atol in lines:
        assert len(values) > 1
        for one, other in itertools.pairwise(values):
            np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("lesson", lessons.lessons())
def test_every_equation_of_a_lesson_is_read(lesson):
    """Or is known to be unread, so that a new one needs its values."""
    read = {number for name, number in lessons.READ if name == lesson}
    every = set(range(1, len(lessons.displayed(lesson)) + 1))
    assert read | UNREAD.get(lesson, set()) == every
    assert not read & UNREAD.get(lesson, set())


@pytest.mark.parametrize(
    ("lesson", "number", "right", "wrong"),
    [
        ("adam", 1, r"(1 - \beta_2)", r"(1 + \beta_2)"),
        ("attention_backward", 4, r"\operatorname{rowsum}", ""),
        ("bptt", 3, "0.5811", "0.5911"),
        ("layer_norm", 4, r"- \operatorname{mean}(\vec g)", r"+ \operatorname{mean}(\vec g)"),
        ("lstm_backward", 4, "(1 - g^2)", "(1 - g)"),
        ("rope", 2, "{n - m}", "{m - n}"),
        ("softmax_and_cross_entropy", 6, r"- \text{onehot}", r"+ \text{onehot}"),
    ],
)
def test_a_wrong_equation_is_seen(monkeypatch, lesson, number, right, wrong):
    texts = lessons.displayed(lesson)
    changed = [text.replace(right, wrong) for text in texts]
    assert changed[number - 1] != texts[number - 1]
    monkeypatch.setattr(lessons, "displayed", lambda _: changed)
    with pytest.raises(AssertionError, match="Not equal"):
        test_an_equation_of_a_lesson_holds(lesson, number)
