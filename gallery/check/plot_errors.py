r"""
Errors in units in the last place (ULP)
=======================================

How can you see that a formula is right on average and worthless in the tail?
"""

# %%
# The derivative of a sigmoid, twice
# ----------------------------------
# From its output, s (1 - s) is one multiplication. To the right the output
# rounds to 1 and the difference to nothing. The relative error of a plot in
# linear scale shows none of it; in units in the last place it is 24 binary
# digits.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import sigmoid, sigmoid_deriv
from dlref.check import error_report, ulp_error

x = np.linspace(-25, 25, 2001).astype(np.float32)
exact = sigmoid_deriv(x.astype(np.float64))
s = sigmoid(x)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for values, label in (
    (s * (1 - s), "s (1 − s)"),
    (sigmoid_deriv(x), "dlref"),
):
    axes[0].plot(x, values, label=label)
    errors = np.maximum(ulp_error(values, exact), 1e-3)
    axes[1].semilogy(x, errors, ".", ms=3, label=label)
axes[0].set(xlabel="x", title="derivative of the sigmoid")
axes[1].axhline(0.5, color="0.5", lw=0.8)
axes[1].set(xlabel="x", ylabel="error (ULP)", title="error in float32")
axes[1].legend()
print(error_report(sigmoid_deriv(x), exact, baseline=s * (1 - s)))
