r"""
Numerical derivatives
=====================

How small should the step of a difference be, and why does a complex step not
mind?
"""

# %%
# Error against step
# ------------------
# The derivative of :math:`e^x \sin x` at 1. With a large step the difference is
# a poor approximation, with a small one it loses its digits. The imaginary part
# of one complex value needs no difference.

import matplotlib.pyplot as plt
import numpy as np

from dlref.check import numerical_jacobian


def f(x):
    """Evaluate the test function, for real or complex x."""
    return np.exp(x) * np.sin(x)


true = np.e * (np.sin(1.0) + np.cos(1.0))
steps = 10.0 ** np.arange(-20, 0.1, 0.25)
forward = (f(1 + steps) - f(1.0)) / steps
central = (f(1 + steps) - f(1 - steps)) / (2 * steps)
imaginary = f(1 + 1j * steps).imag / steps
fig, ax = plt.subplots()
for values, label in (
    (forward, "forward difference"),
    (central, "central difference"),
    (imaginary, "complex step"),
):
    ax.loglog(steps, np.maximum(abs(values / true - 1), 1e-17), label=label)
for method, style in (("central", ":"), ("ridders", "--")):
    error = abs(numerical_jacobian(f, 1.0, method=method) / true - 1)
    ax.axhline(max(error, 1e-17), color="0.4", ls=style)
    ax.text(1e-20, 1.4 * max(error, 1e-17), f'method="{method}"', size=8)
ax.set(xlabel="step", ylabel="relative error", ylim=(1e-17, 10))
ax.set_title("Error of a numerical derivative")
ax.legend(loc="lower right")
