"""What the page of the chapter says, and the table on it."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dlref import activations
from dlref._core.jit import COMPILED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "activations.rst"
ROWS = re.findall(r"   \* - :func:`(\w+)`\n((?:     - .*\n){5})", PAGE.read_text(encoding="utf-8"))
TABLE = {name: re.findall(r"- (.*)", cells)[:4] for name, cells in ROWS}
FORMS = ("_deriv", "_deriv2", "_grad", "_hessian", "_jacobian", "_vjp", "_jvp")
PRODUCTS = {"_vjp", "_jvp"}
OTHERS = {
    "prelu": PRODUCTS,
    "glu": PRODUCTS,
    "swiglu": PRODUCTS,
    "geglu": PRODUCTS,
    "reglu": PRODUCTS,
    "softmax": PRODUCTS | {"_jacobian"},
    "sparsemax": PRODUCTS | {"_jacobian"},
    "gumbel_softmax": PRODUCTS,
    "log_softmax": PRODUCTS | {"_jacobian"},
    "logsumexp": PRODUCTS | {"_grad", "_hessian"},
    "hardmax": set(),
}
MAPS = [
    name
    for name in activations.__all__
    if not re.search("_(deriv2?|grad|hessian|jacobian|vjp|jvp)$", name)
]


@pytest.mark.parametrize("name", MAPS)
def test_derivatives_of_each_map(name):
    found = {form for form in FORMS if name + form in activations.__all__}
    assert found == OTHERS.get(name, PRODUCTS | {"_deriv", "_deriv2"})


def test_all_maps_of_one_element_are_in_the_table():
    assert set(TABLE) == set(MAPS) - set(OTHERS)


def numbers(text):
    return [float(Fraction(n)) for n in re.findall(r"-?\d[\d./]*", text)]  # 1/6 is one


@pytest.mark.skipif(not COMPILED, reason="of a quarter of a million points")
@pytest.mark.parametrize("name", TABLE)
def test_table(name):
    limits, slopes, side, kinks = TABLE[name]
    f, slope = getattr(activations, name), getattr(activations, name + "_deriv")
    values = f(np.concatenate([np.linspace(-12, 12, 240_001), [-1e9, 1e9]]))
    near = f(np.linspace(-4, 4, 80_001)) if name != "relu6" else f(np.linspace(-8, 8, 80_001))
    interval = limits.split("`")[1]
    lower, upper = interval[1:-1].split(",")
    for text, pick, sign, closed in (
        (lower, np.min, -1, interval[0] == "["),
        (upper, np.max, 1, interval[-1] == "]"),
    ):
        if "infty" in text:
            assert not closed
            assert sign * pick(values) > 1e6
        else:
            assert pick(values) == pytest.approx(float(text), abs=6e-5)
            assert closed == (abs(pick(near) - float(text)) < 6e-5)  # or only approached
    at_zero = [float(slope(h)) for h in (-1e-7, 1e-7)]
    want = numbers(slopes)
    assert at_zero == pytest.approx([want[0], want[-1]], abs=6e-5)
    flat = [abs(float(slope(x))) < 1e-3 for x in (-100.0, 100.0)]
    assert {(1, 1): "both", (1, 0): "left", (0, 1): "right", (0, 0): "no"}[tuple(flat)] == side
    x = np.linspace(-8, 8, 1601)  # with the kinks among them
    jumps = x[np.abs(slope(x + 1e-9) - slope(x - 1e-9)) > 1e-3]
    assert jumps.round(9).tolist() == ([] if kinks == "none" else numbers(kinks))


@pytest.mark.parametrize(("form", "zero"), [("none", -0.7518), ("tanh", -0.7525)])
def test_where_the_slope_of_gelu_is_zero(form, zero):
    before, after = activations.gelu_deriv([zero - 5e-5, zero + 5e-5], approximate=form)
    assert before < 0 < after


@pytest.mark.parametrize(("x", "factor"), [(1.0, 30.25), (100.0, 98.2)])
def test_what_a_tenfold_input_of_softsign_does(x, factor):
    near, far = activations.softsign_deriv([x, 10 * x])
    assert near / far == pytest.approx(factor, rel=1e-3)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("name", "size"), [("hard_sigmoid", 1.654e-8), ("sigmoid", 9.54e-7), ("selu", 282.0)]
)
def test_the_largest_slopes_to_the_tenth_power(name, size):
    """The ends of the axis in the figure of all activations."""
    slope = abs(getattr(activations, f"{name}_deriv")(np.linspace(-20, 20, 100_001))).max()
    assert slope**10 == pytest.approx(size, rel=2e-3)


@pytest.mark.parametrize(("name", "x"), [("gelu", 0.75), ("mish", 0.80), ("silu", 1.28)])
def test_where_slopes_begin_to_exceed_one(name, x):
    before, after = getattr(activations, f"{name}_deriv")([x - 0.01, x + 0.01])
    assert before < 1 < after


def test_the_jacobian_of_softmax_first_grows_with_the_lead():
    lead = np.linspace(0, 20, 201)
    scores = np.stack([lead, *np.zeros((9, lead.size))], axis=-1)
    size = np.linalg.norm(activations.softmax_jacobian(scores), ord=2, axis=(-2, -1))
    assert size.argmax() == 22
    assert activations.softmax(scores)[22, 0] == pytest.approx(0.5, abs=0.01)
    assert size[150] / size[160] == pytest.approx(np.e, rel=1e-3)


def test_thresholded_relu_leaves_a_gap():
    y = activations.thresholded_relu(np.linspace(-3, 3, 601))
    assert not np.any((y > 0) & (y <= 1))


@pytest.mark.parametrize(("x", "lost"), [(37.0, False), (37.5, True)])
def test_where_nothing_is_left_of_the_naive_slope_of_the_sigmoid(x, lost):
    s = activations.sigmoid(x)
    assert (s * (1 - s) == 0) == lost


def test_the_layer_below_revives_a_dead_unit():
    """Two units read one; the second is dead, and the gradient comes through the first."""
    relu, relu_vjp = activations.relu, activations.relu_vjp
    below, above, bias = 1.0, np.ones(2), np.array([0.0, -1.5])
    first = relu(above * relu(below) + bias)
    for _ in range(20):
        h = relu(below)
        z = above * h + bias
        dz = relu_vjp(2 * (relu(z) - 3.0), z)  # of the squared errors to the target 3
        below -= 0.1 * relu_vjp(dz @ above, below)
        above, bias = above - 0.1 * dz * h, bias - 0.1 * dz
    assert first[1] == 0.0
    assert relu(above * relu(below) + bias)[1] > 0.0


def test_ten_sigmoids_with_weight_eight_enlarge_a_gradient():
    gradient = 1.0
    for _ in range(10):
        gradient = 8.0 * activations.sigmoid_vjp(gradient, 0.0)
    assert gradient == 1024.0
    for _ in range(10):  # and with weight 1 it is divided by 4 each time
        gradient = activations.sigmoid_vjp(gradient, 0.0)
    assert gradient == 1024.0 / 4**10


def test_a_logarithm_of_one_plus_the_others_loses_what_log1p_keeps():
    """docs/accuracy.rst on a nearly certain class."""
    others = np.exp(-40.0)
    assert np.log(1.0 + others) == 0.0
    assert activations.log_softmax([0.0, -40.0])[0] == pytest.approx(-np.log1p(others), rel=1e-15)
    assert activations.log_softmax([0.0, -40.0])[0] < 0.0


def test_relative_error_of_half_the_digits():
    """dlref/_math/elementary.py: 0.501 units need 0.001 * 2^-24, twice that gives 0.502."""
    below_a_power_of_two = np.nextafter(np.float32(2), np.float32(0))
    unit = float(np.spacing(below_a_power_of_two))
    for relative, error in ((0.001 * 2**-24, 0.501), (0.001 * 2**-23, 0.502)):
        assert 0.5 + relative * 2.0 / unit == pytest.approx(error, abs=1e-9)
    assert abs(0.001 * 2**-24 / 2**-34 - 1) < 0.03
