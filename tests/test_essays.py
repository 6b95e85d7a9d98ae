"""The pictures of the essays: each step has one, and its description is true of what is drawn."""

import os
import re
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from course import SKETCH

DOCS = Path(__file__).parents[1] / "docs"
SECTION = re.compile(r"^(.+)\n-+\n", re.MULTILINE)


def essay(name):
    """Return the words and the code of the picture of each section that has one."""
    _, *parts = SECTION.split((DOCS / f"{name}.rst").read_text(encoding="utf-8"))
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        for words, code in SKETCH.findall(text):
            assert title not in found, "one picture a step"
            found[title] = " ".join(words.split()), textwrap.dedent(code).strip("\n")
    assert set(parts[::2]) - set(found) <= {
        "The five ways at a glance",
        "The formula",
        "The rates at a glance",
        "The curvatures at a glance",
        "The estimates at a glance",
        "The targets at a glance",
        "The exponents at a glance",
        "The bounds at a glance",
        "The changes at a glance",
    }
    return found


NAMES = (
    *("gradients_through_depth", "rates_of_descent", "why_attention", "error_bounds"),
    *("curvature", "gradient_estimators", "scores", "wide_networks", "connections_and_caches"),
)
ESSAYS = {name: essay(name) for name in NAMES}
STEPS = {title: step for steps in ESSAYS.values() for title, step in steps.items()}


@pytest.fixture(scope="module")
def sketches():
    sys.path.insert(0, str(DOCS / "_ext"))
    yield pytest.importorskip("sketches", exc_type=ImportError)
    sys.path.pop(0)


def test_the_essays_have_six_to_eight_steps():
    assert [len(steps) for steps in ESSAYS.values()] == [7, 6, 8, 7, 6, 7, 6, 6, 7]
    assert set(STEPS) - set(TRUE) == {"A gradient is a product"}
    assert set(TRUE) < set(STEPS)


#: What the description of a picture says, of the values drawn; x, then the curves or maps.
TRUE = {
    "A product shrinks or grows": lambda _, a, b, c: np.allclose(
        [a[-1], b[-1], c[-1]], [14_000, 1, 3e-5], rtol=0.15
    ),
    "Initialization: a good start": lambda _, four, two, one: (
        0.1 < two[-1] < 10 and 1e-6 < one[-1] < 1e-5 and 1e5 < four[-1] < 1e7
    ),
    "Residual connections: add the identity": lambda _, residual, plain: (
        0.3 < residual[-1] < 3 and plain[-1] < 1e-20
    ),
    "Norms: bound the branches": lambda _, without, norm: (
        2**29 < without[-1] < 2**31 and 25 < norm[-1] < 37
    ),
    "The cell of an LSTM: the same idea in time": lambda _, three, one, rnn: (
        three[-1] > 0.1 and 1e-5 > one[-1] > 1e9 * rnn[-1]
    ),
    "Clipping: a last resort": lambda x, after, before: (
        np.allclose(after, np.minimum(x, 1)) and np.allclose(before, x)
    ),
    "One direction at a time": lambda x, flat, middle, steep: (
        np.allclose(flat, 0.85**x) and np.allclose(middle, 0.4**x) and np.allclose(steep, 0.5**x)
    ),
    "The condition number": lambda _, large, best, small: (
        np.allclose([small[0], small[-1]], [0.9, 0], atol=1e-12)
        and np.allclose([best[0], best[-1]], 9 / 11)
        and max(best) <= 9 / 11 + 1e-12
        and large[-1] > 1 > large[0]
    ),
    "The edge of stability": lambda _, stays, falls, far: np.allclose(
        [stays[0], stays[-1], falls[-1], far[-1]], [9.04, 9, 6.4, 3], atol=0.1
    ),
    "Momentum: the heavy ball": lambda _, plain, nesterov, ball: (
        0.04 < plain[-1] < 0.06 and nesterov[-1] < 1e-3 and ball[-1] < 1e-6
    ),
    "Nesterov: look ahead": lambda _, plain, ball, nesterov: (
        np.allclose(
            [plain[0], plain[-1], nesterov[0], nesterov[-1]], [0.98, 0.98, 0.9, 0], atol=2e-3
        )
        and min(plain) < 0.01
        and np.allclose(ball, 9 / 11, atol=1e-3)
    ),
    "Noise: the learning rate as a temperature": lambda _, large, small, scheduled: (
        np.allclose([np.mean(large[30:]), small[-1]], [1 / 3, 1 / 15], rtol=0.1)
        and large[5] < small[5]
        and scheduled[19] == large[19]
        and np.allclose(scheduled[-1], 1 / 15, rtol=0.1)
    ),
    "The problem: a state of fixed size": lambda x, small, large: (
        np.allclose(np.divide(small, large), 2, rtol=0.25)
        and np.allclose(np.polyfit(np.log(x), np.log(small), 1)[0], 0.5, atol=0.1)
    ),
    "Keep everything, and look it up by content": lambda p: np.diagonal(p).min() > 0.9,
    "A dot product as the score, and its scale": lambda _, unscaled, scaled: (
        unscaled[-1] > 0.85 and 0.13 < min(scaled) <= max(scaled) < 0.25
    ),
    "Softmax, and its gradient": lambda _, weight, slope: (
        max(slope) == 0.25 and max(slope[0], slope[-1]) < 1e-3 and weight[-1] > 0.999
    ),
    "Several heads": lambda previous, first, both: (
        min(previous[5][4], first[5][0]) > 0.95 and np.allclose(both[5][[0, 4]], 0.5, atol=0.01)
    ),
    "Positions": lambda _, small, large: (
        small[0] == large[0] == 1 and np.diff(small[50:]).std() > 3 * np.diff(large[50:]).std()
    ),
    "The cost": lambda x, scores, rest: all(
        (s > r) == (T > 1536) for T, s, r in zip(x, scores, rest, strict=True)
    ),
    "The cache": lambda x, without, with_one: (
        np.all(np.diff(np.divide(without, with_one)) > 0) and np.allclose(without, with_one * x)
    ),
    "A product in place of a matrix": lambda _, lengths: (
        np.allclose(lengths[5:], 1.042, atol=1e-3) and max(lengths[:4]) < 1.035
    ),
    "The curvature of the softmax": lambda _, probability, slope, bend: (
        max(bend) == 0.25 and max(bend[0], bend[-1]) < 1e-3 and slope[0] > 0.999 > probability[0]
    ),
    "Two kinds of curvature": lambda _, lowest, share: np.allclose(
        [lowest[0], lowest[-1], share[0], share[-1]], [0.13, 0.006, 0.3, 0.08], rtol=0.05
    ),
    "Gauss-Newton is Fisher": lambda _, fisher, empirical: (
        fisher[30] == empirical[30] == 0.25
        and empirical[0] > 0.99
        and np.all(empirical[31:] < fisher[31:])
    ),
    "A step that knows the curvature": lambda _, descent, newton: np.allclose(
        [descent[-1], newton[-1]], [0.62, 0.017], rtol=0.05
    ),
    "Kronecker factors": lambda exact, product: np.allclose(
        np.abs(exact - product).max(), 0.15, atol=0.01
    ),
    "Where the parameters are": lambda _, estimate, exact: (
        (exact[0], exact[-1]) == (1, 2) and np.sum(np.diff(estimate) < 0) == 17
    ),
    "The score function": lambda n, estimate, exact: (
        np.all(exact == 0.25) and abs(estimate[0] - 0.25) > 0.1 and abs(estimate[-1] - 0.25) < 0.01
    ),
    "A baseline costs nothing": lambda b, variance: (
        np.allclose([variance[0], variance[30]], [0.5625, 0], atol=1e-12) and b[30] == 1.5
    ),
    "Move the noise out": lambda _, score, pathwise: (
        np.all(pathwise == 4) and (score[0], score[-1]) == (15, 222)
    ),
    "Straight through a choice": lambda theta, true, through: (
        abs(theta[np.argmax(true)]) < 1e-9
        and abs(theta[np.argmax(through)] - np.log(2)) < 0.05
        and np.all((through < true) == (theta < -np.log(2)))
    ),
    "Many choices in a row": lambda _, every, later, less: np.allclose(
        [every[-1], later[-1], less[-1]], [16_500, 5600, 126], rtol=0.05
    ),
    "The best policy in closed form": lambda policies: np.allclose(
        [policies[0][0], policies[0][3], policies[1][3], policies[2][3]],
        [0.165, 0.35, 0.644, 0.98],
        atol=0.01,
    ),
    "Noise that is known": lambda y, little, some, much: (
        abs(abs(y[np.argmax(little)]) - 0.95) < 0.06
        and little[60] < 0.02
        and np.argmax(some) != 60 == np.argmax(much)
    ),
    "The best guess": lambda y, little, some, much: (
        np.allclose(np.sign(y[y != 0]), little[y != 0], atol=0.6)
        and np.allclose(much[np.isclose(y, 0.6)], 0.31, atol=0.01)
    ),
    "One guess gives all others": lambda sigma, example, noise: (
        np.allclose([example[0], example[-1], noise[-1], max(noise)], [0, 1, 0, 0.48], atol=0.01)
        and abs(sigma[np.argmax(noise)] - 0.63) < 0.01
    ),
    "A flow without noise": lambda _, *paths: all(
        np.sign(path[0]) == np.sign(path[-1]) and abs(abs(path[-1]) - 1) < 0.05 for path in paths
    ),
    "A bound on the likelihood": lambda _, bound, noise: np.allclose(
        (bound / noise)[[0, 48, 80]], [8.8, 2.5, 5.8], atol=0.1
    ),
    "Towards a condition": lambda _, free, given, guided: np.allclose(
        [free[0], given[0], guided[0]], [-2, -4.7, -10], atol=0.05
    ),
    "A layer as a kernel": lambda c, narrow, wide, limit: (
        np.abs(wide - limit).max() < 0.05
        and 0.4 < np.abs(narrow - limit).max() < 0.5
        and np.all(limit >= c - 1e-12)
        and abs(limit[0]) < 1e-12
    ),
    "Depth forgets": lambda layers, *starts: all(
        np.allclose(start[-1], 4.5 * np.pi**2 / layers[-1] ** 2, rtol=0.16) for start in starts
    ),
    "The kernel of a step": lambda _, spread: 0.55 < spread[0] < 0.7 and spread[-1] < 0.1,
    "Training becomes linear": lambda _, distance: 0.07 < distance[0] < 0.085 > distance[-1] * 10,
    "Features stand still": lambda _, change: (
        np.allclose([change[0], change[-1]], [1 / 4, 1 / 60], rtol=0.05)
        and np.all(np.abs(change[1:] / change[:-1] - 0.5) < 0.1)
    ),
    "Rates that carry over": lambda rates, narrow, wide, mup: (
        [1 / rates[np.argmin(loss)] for loss in (narrow, wide, mup)] == [16, 1024, 32]
    ),
    "Several streams in place of one": lambda _, four, one: np.allclose(
        [one[-1], four[-1]], [1 / 8, 1 / 4], rtol=0.05
    ),
    "Mixtures that keep the size": lambda _, free, stochastic: (
        11.5 < free[-1] < 12.5 and np.allclose(stochastic, 1, rtol=1e-9)
    ),
    "Two ways back": lambda n, large, small: np.allclose(
        [small[n == 6], large[n == 20]], 1e-3, rtol=0.2
    ),
    "Attention over depth": lambda even, chosen: (
        np.allclose(even, np.tri(6) / np.arange(1, 7)[:, None])
        and np.all(chosen.max(1) > 0.9)
        and [*chosen.argmax(1)] == [0, 1, 0, 3, 0, 5]
    ),
    "Several tokens at once": lambda p, four, two, one: np.allclose(
        [one[32], two[32], four[32], p[32]], [1, 1.8, 2.95, 0.8], atol=0.003
    ),
    "Compressed keys and values": lambda heads, every, grouped, latent: (
        (heads[-1], every[-1]) == (128, 32_768)
        and np.all(grouped == 2048)
        and np.all(latent == 576)
    ),
    "Keys and values shared across layers": lambda *kinds: (
        [np.count_nonzero(kind.any(0)) for kind in kinds] == [6, 3, 1]
        and all(np.all(kind.sum(1) == 1) for kind in kinds)
    ),
    "Count the roundings of a sum": lambda _, bound, one_by_one, pairs: (
        np.all(one_by_one <= bound) and one_by_one[-1] > 0.99 * bound[-1] and max(pairs) < 16
    ),
    "A linear layer changes its weights a little": lambda x, bound, largest: (
        np.all(largest <= bound)
        and np.allclose(np.polyfit(np.log(x), np.log(largest), 1)[0], 1, atol=0.1)
    ),
    "Softmax: the distance from the largest score": lambda _, bound, plain, own: (
        np.all(plain <= bound) and 30 < max(plain) < 33.5 and max(own) < 1
    ),
    "Log-softmax and cross-entropy: when the model is sure": lambda x, log, bound, log1p: (
        np.all(log1p <= bound)
        and max(log1p) < 2
        and bound[-1] == 24
        and np.allclose(log[x >= 17], 2**24)
        and np.all(log[x < 17] < 2**24)
    ),
    "RMS norm: nothing is subtracted": lambda _, bound, up, normal: (
        np.all(up <= bound) and up[-1] > 0.99 * bound[-1] and max(normal) < 0.1 * bound[-1]
    ),
    "Layer norm: the mean comes first": lambda x, one, bound, two: (
        np.all(two <= bound)
        and np.all((one > bound)[x > 31])
        and np.allclose(np.polyfit(np.log(x), np.log(two), 1)[0], 1, atol=0.2)
        and np.polyfit(np.log(x[:6]), np.log(one[:6]), 1)[0] > 1.6
    ),
    "Attention: large scores": lambda _, bound, largest: (
        np.all(largest <= bound)
        and np.allclose([largest[0], largest[-1]], [2, 112], rtol=0.1)
        and np.allclose([bound[0], bound[-1]], [58, 4900], rtol=0.01)
    ),
}


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="networks take minutes")
@pytest.mark.parametrize("title", STEPS)
def test_a_picture_shows_what_its_description_says(sketches, monkeypatch, title):
    words, code = STEPS[title]
    assert len(words) > 60
    drawn = []
    for kind in ("curves", "maps"):
        draw = sketches.DRAWING[kind]

        def keep(*args, draw=draw, **options):
            drawn.extend(list(a.values()) if isinstance(a, dict) else [a] for a in args)
            return draw(*args, **options)

        monkeypatch.setitem(sketches.DRAWING, kind, keep)
    picture = sketches.draw(code)
    svg = ET.fromstring(picture.replace("%s", "words"))
    assert svg.get("role") == "img"
    assert len(picture) < 12_000
    names = [element.text for element in svg.iter("text")]
    assert all(names), "an axis without a name"
    values = [np.asarray(v) for part in drawn for v in part]
    assert title not in TRUE or TRUE[title](*values), values


def test_names_at_the_ends_of_curves_do_not_overlap(sketches):
    places = sketches.spread([100.0, 101.0, 20.0, 178.0, 177.0])
    assert np.all(np.diff(np.sort(places)) >= 15)
    assert places.max() <= sketches.HEIGHT - sketches.BOTTOM


@pytest.mark.parametrize(
    ("low", "high", "log", "want"),
    [
        (0.0, 1.0, False, ["0", "0.5", "1"]),
        (-8.0, 8.0, False, ["−5", "0", "5"]),
        (-5.0, 5.0, True, ["10⁻⁵", "0.01", "10", "10⁴"]),
        (0.0, 2.0, True, ["1", "10", "100"]),
    ],
)
def test_ticks(sketches, low, high, log, want):
    found = sketches.ticks(low, high, log=log)
    assert [sketches.label(value, log=log) for value in found] == want
