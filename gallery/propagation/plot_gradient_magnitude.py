r"""
Gradient, activation and slope: a dashboard
===========================================

What is left of a gradient after twenty layers, for which weight and which
activation?
"""

# %%
# Each layer multiplies the gradient by its weight and by the slope of its
# activation, :math:`\abs{w\, \phi'(z)}`. The slope is the root of its mean
# square for a standard normal :math:`z`, so that all parts of the curve
# count. Move the controls: the first plot shows what arrives after 1, 2,
# ... layers, the others the activation and its slope.
#
# A sigmoid loses more than a factor of four at each layer, even with a
# weight of 1. ReLU loses :math:`\sqrt 2` (half of its units pass nothing),
# and weights of 1.41 make up for that.

from functools import cache

import numpy as np

from dlref import activations
from dlref.propagation import gradient_magnitude

x = np.linspace(-5, 5, 130)  # misses 0, where slopes jump,
x = np.insert(x, 65, [-1e-9, 1e-9])  # and comes close to it from both sides
layers = np.arange(1, 21)

names = {
    "ReLU": "relu",
    "Leaky ReLU": "leaky_relu",
    "ELU": "elu",
    "SELU": "selu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
}
option = {"Leaky ReLU": "negative_slope", "ELU": "alpha"}


def call(kind, alpha, z, suffix=""):
    """Evaluate an activation, or with ``_deriv`` its slope."""
    options = {option[kind]: alpha} if kind in option else {}
    return getattr(activations, names[kind] + suffix)(z, **options)


@cache
def typical_slope(kind, alpha):
    """Root of the mean of the squared slope for standard normal z."""
    z = np.linspace(-9, 9, 3600, endpoint=False) + 0.0025  # misses the kink
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * 0.005
    return np.sqrt(np.sum(density * call(kind, alpha, z, "_deriv") ** 2))


def of_weights(weight):
    """The effect of the weights alone."""
    size = gradient_magnitude(weight, layers)
    return {"with slopes": size, "weights alone": size}


def of_slopes(kind, alpha):
    """The effect of the slopes."""
    size = gradient_magnitude(
        1.0, layers, activation_slope=typical_slope(kind, alpha)
    )
    return {"with slopes": size, "weights alone": np.ones(20)}


# %%
# The dashboard
# -------------
# The axis of the magnitude grows with the curve, so that nothing is hidden.
# Note the slopes at 0: with :math:`\alpha \ne 1` the slope of ELU jumps, and
# the slope of SELU jumps from 1.758 to 1.051.

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

dashboard = Interactive(
    "Dashboard of gradients and activations",
    [
        Control("weight", "Weight w", np.arange(10, 201) / 100, start=0.8),
        Control("depth", "Layers L", layers, start=5),
        Control("kind", "Activation", list(names), start="ReLU"),
        Control(
            "alpha",
            "α (Leaky ReLU, ELU)",
            np.arange(1, 51) / 100,
            start=0.2,
            when=("kind", ["Leaky ReLU", "ELU"]),
        ),
    ],
    [
        Panel(
            "Gradient magnitude",
            layers,
            of_weights,
            ["weight"],
            times=(of_slopes, ("kind", "alpha")),
            until="depth",
            xlabel="layers passed",
            ylabel="magnitude",
            ylim=(1e-3, 10),
            log=True,
            points=True,
        ),
        Panel(
            "Activation",
            x,
            lambda kind, alpha: {"φ(x)": call(kind, alpha, x)},
            ["kind", "alpha"],
            xlabel="x",
            ylabel="φ(x)",
            ylim=(-2, 5.5),
        ),
        Panel(
            "Derivative",
            x,
            lambda kind, alpha: {"φ′(x)": call(kind, alpha, x, "_deriv")},
            ["kind", "alpha"],
            xlabel="x",
            ylabel="φ′(x)",
            ylim=(0, 2),
        ),
    ],
)
dashboard.show()
