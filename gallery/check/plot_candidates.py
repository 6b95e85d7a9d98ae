r"""
Checking a kernel
=================

When does a layer norm that computes its variance in one pass stop being right?
"""

# %%
# The mean of the squares minus the square of the mean
# ----------------------------------------------------
# It reads the row once and is found in many kernels. The larger the mean
# relative to the spread, the more digits of both terms cancel. The verdict
# compares with dlref, which is right at any offset, within the tolerance of
# float32.

import matplotlib.pyplot as plt
import numpy as np

from dlref.check import check_forward, hard_inputs
from dlref.normalization import layer_norm


def one_pass(x):
    """Normalize rows with the textbook variance."""
    mean = x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) / np.sqrt(np.maximum(variance, 0) + x.dtype.type(1e-5))


def two_passes(x):
    """Subtract the mean before squaring."""
    x = x - x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True)
    return x / np.sqrt(variance + x.dtype.type(1e-5))


rows = np.random.default_rng(0).normal(size=(32, 256))
offsets = 10.0 ** np.arange(-1, 5.1, 0.25)
fig, ax = plt.subplots()
for kernel, label in ((one_pass, "one pass"), (two_passes, "two passes")):
    verdicts = [
        check_forward(kernel, layer_norm, (rows + offset).astype(np.float32))
        for offset in offsets
    ]
    ratios = [v.error / v.allowed for v in verdicts]
    ax.loglog(offsets, ratios, "o-", label=label)
ax.axhline(1, color="0.5", lw=0.8)
ax.text(0.1, 1.2, "allowed", size=8)
ax.set(xlabel="mean of the rows", ylabel="largest error / allowed")
ax.set_title("Layer norm of rows with spread 1, float32")
ax.legend()

# %%
# In words, for the single pass at a mean of 1000:

print(check_forward(one_pass, layer_norm, (rows + 1e3).astype(np.float32)))

# %%
# Over the inputs at which normalizations break, one line per case:

for case in hard_inputs(layer_norm, "float32"):
    verdict = check_forward(one_pass, layer_norm, case.inputs[0])
    print(f"{case.name}: {verdict.cause or 'right'}")
