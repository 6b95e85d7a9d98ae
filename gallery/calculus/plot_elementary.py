r"""
Elementary functions and their slopes
=====================================

What does the slope of each elementary function look like? And how many digits
does the textbook formula of the bell curve keep?
"""

# %%
# Functions and slopes
# --------------------
# A function is drawn solid, its slope dashed. Where a function is steep the
# slope is large; where the function has a kink, as the absolute value and the
# clip have, the slope jumps. The root and the logarithm begin at 0 with an
# infinite slope.

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import scipy.special

from dlref import calculus

functions = {
    "exp": (np.exp, -2, 1.5),
    "log": (np.log, 0.02, 4),
    "log1p": (np.log1p, -0.98, 3),
    "expm1": (np.expm1, -2, 1.2),
    "sqrt": (np.sqrt, 0.005, 4),
    "sin": (np.sin, -5, 5),
    "cos": (np.cos, -5, 5),
    "tan": (np.tan, -1.2, 1.2),
    "erf": (scipy.special.erf, -2.5, 2.5),
    "absolute": (np.abs, -2, 2),
    "clip": (lambda x: np.clip(x, -1, 1), -2, 2),
}
fig, axes = plt.subplots(3, 4, figsize=(10, 6.6))
for ax, (name, (f, low, high)) in zip(
    axes.flat, functions.items(), strict=False
):
    x = np.linspace(low, high, 801)
    options = {"min": -1, "max": 1} if name == "clip" else {}
    slope = getattr(calculus, f"{name}_deriv")(x, **options)
    jumps = np.abs(np.diff(slope, append=slope[-1])) > 0.5
    ax.axhline(0, lw=0.8, color="0.6")
    ax.plot(x, f(x), label="function")
    smooth = name not in {"absolute", "clip"}
    ax.plot(x, slope if smooth else np.where(jumps, np.nan, slope), "--")
    ax.set(title=name, ylim=(-4, 5) if name in {"log", "log1p"} else None)
axes[0, 3].set_ylim(-1.2, 4)
axes[1, 0].set_ylim(-0.2, 4)
lines = axes[0, 0].get_lines()[1:]
axes[2, 3].legend(lines, ["function", "slope"], loc="center")
axes[2, 3].axis("off")
fig.tight_layout()
fig.alt_text = "Eleven functions of one number, each with its slope."

# %%
# Digits
# ------
# The slope of the error function is a bell curve. The square in its exponent is
# rounded, and the exponential multiplies the rounding error by the exponent.
# dlref squares a part of x whose square is exact. Errors are in units in the
# last place (ULP), against 50 digits.

x = np.linspace(0.01, 26.5, 800)
with mpmath.workdps(50):
    factor = 2 / mpmath.sqrt(mpmath.pi)
    exact = [factor * mpmath.exp(-(mpmath.mpf(v) ** 2)) for v in x]
    slopes = {
        r"$2\, e^{-x^2} / \sqrt{\pi}$": 2 / np.sqrt(np.pi) * np.exp(-(x**2)),
        "erf_deriv": calculus.erf_deriv(x),
    }
    errors = {
        name: [
            float(abs(s - e) / np.spacing(float(e)))
            for s, e in zip(got, exact, strict=True)
        ]
        for name, got in slopes.items()
    }

fig, ax = plt.subplots()
for (name, error), marker in zip(errors.items(), "o.", strict=True):
    ax.semilogy(x, np.maximum(error, 1e-3), marker, ms=3, label=name)
ax.set(xlabel="$x$", ylabel="error (ULP)", title="Error of the bell curve")
ax.legend()
