r"""
Training one neuron
===================

How does the loss fall while a neuron is fitted to three examples? Steeply at
first, then slowly: two curvatures, two speeds.
"""

# %%
# The loss curve
# --------------
# Three examples, a hundred epochs at a rate of 0.01. The first epochs reduce
# the error along the steep direction, by a factor of 0.83 in the loss each; the
# rest fades along the shallow one, by 0.977. Both factors follow from the
# eigenvalues of the Hessian and are drawn as broken lines.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import fit_neuron

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
y = np.array([10.0, 20.0, 30.0])
w = np.random.RandomState(42).randn(3)
fit = fit_neuron(X, y, w, 0.0, learning_rate=0.01, epochs=100)

design = np.column_stack([X, np.ones(3)])
curvatures = np.linalg.eigvalsh(2 / 3 * design.T @ design)[-2:]
slow, fast = (1 - 0.01 * curvatures) ** 2

epochs = np.arange(1, 101)
fig, ax = plt.subplots()
ax.semilogy(epochs, fit.loss, label="loss")
ax.semilogy(epochs, fit.loss[0] * fast ** (epochs - 1), "--", lw=1, color="0.5")
ax.semilogy(
    epochs, fit.loss[-1] * slow ** (epochs - 100), "--", lw=1, color="0.5"
)
ax.set(
    xlabel="epoch",
    ylabel="loss",
    ylim=(0.1, 400),
    title="Loss of the neuron before each step",
)

# %%
# The outputs during training
# ---------------------------
# The output of the neuron for each example, and the targets.

outputs = []
fit_neuron(
    X,
    y,
    w,
    0.0,
    learning_rate=0.01,
    epochs=40,
    callback=lambda _epoch, _loss, p: outputs.append(
        np.maximum(0, X @ p[0] + p[1])
    ),
)
fig, ax = plt.subplots()
for k, curve in enumerate(np.transpose(outputs)):
    ax.plot(range(1, 41), curve, color=f"C{k}", label=f"example {k + 1}")
    ax.axhline(y[k], color=f"C{k}", ls=":", lw=1)
ax.set(
    xlabel="epoch",
    ylabel="output $a$",
    ylim=(0, 36),
    title="Outputs swing around their targets and settle",
)
ax.legend(loc="lower right")
