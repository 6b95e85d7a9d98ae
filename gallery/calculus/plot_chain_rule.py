r"""
The chain rule
==============

What does the chain rule multiply, and what does the total derivative add up?
"""

# %%
# A chain is a product of matrices
# --------------------------------
# Three layers, :math:`y = f(g(h(x)))`: each Jacobian has a row per output and a
# column per input of its function, so neighbors fit. The product is the
# Jacobian of the whole. Each square is an entry: positive red, negative blue.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dlref.calculus import chain_rule, total_derivative

rng = np.random.default_rng(1)
widths = [2, 4, 3, 5]
jacobians = [rng.normal(size=shape) for shape in pairwise(widths)]
product = chain_rule(*jacobians)

fig, axes = plt.subplots(
    1, 4, figsize=(9, 2.8), gridspec_kw={"width_ratios": [4, 3, 5, 5]}
)
titles = ["$J_f$", "$J_g$", "$J_h$", r"$J_f \, J_g \, J_h$"]
for ax, J, title in zip(axes, [*jacobians, product], titles, strict=True):
    image = ax.imshow(J, cmap="RdBu_r", vmin=-3, vmax=3)
    rows, columns = J.shape
    ax.set(title=title, xticks=[], yticks=[], xlabel=f"{rows} × {columns}")
fig.colorbar(image, ax=axes, label="entry", extend="both", fraction=0.03)
fig.alt_text = "Three Jacobians, 2x4, 4x3 and 3x5, and their product, 2x5."

# %%
# A sum over paths
# ----------------
# :math:`y = x + u` with :math:`u = x^2`: the input reaches the output directly
# and through :math:`u`. Multiply the slopes along each path, add the paths.

x = 2.0
slopes = {"x→y": 1.0, "u→y": 1.0, "x→u": 2 * x}
total = total_derivative([slopes["x→y"], slopes["u→y"]], [1.0, slopes["x→u"]])

nodes = {"x": (0, 0), "u": (1, 0.8), "y": (2, 0)}
labels = {
    "x": f"$x = {x:g}$",
    "u": f"$u = x^2 = {x**2:g}$",
    "y": f"$y = {x + x**2:g}$",
}
fig, ax = plt.subplots(figsize=(6, 3))
for edge, slope in slopes.items():
    start, end = (np.array(nodes[name]) for name in edge.split("→"))
    ax.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "lw": 1.5,
            "shrinkA": 24,
            "shrinkB": 24,
        },
    )
    ax.text(*((start + end) / 2 + [0, 0.09]), f"slope {slope:g}", ha="center")
for name, place in nodes.items():
    ax.text(
        *place,
        labels[name],
        ha="center",
        va="center",
        bbox={"boxstyle": "round,pad=0.5", "fc": "none"},
    )
paths = f"$dy/dx = 1 + 1 \\cdot {2 * x:g} = {float(total):g}$"
ax.set(xlim=(-0.4, 2.4), ylim=(-0.35, 1.1), title=paths)
ax.axis("off")

# %%
# The derivative of a composition
# -------------------------------
# :math:`y = \sin(x^2)` and its slope :math:`\cos(x^2) \cdot 2 x`, with the
# tangent at :math:`x = 1.5`. The inner slope grows, so the outer wave is
# crossed ever faster.

t = np.linspace(-1, 3, 400)
slope = np.array([float(chain_rule(np.cos(v**2), 2 * v)) for v in t])
x = 1.5
at, rise = np.sin(x**2), float(chain_rule(np.cos(x**2), 2 * x))
near = np.array([x - 0.4, x + 0.4])

fig, ax = plt.subplots()
ax.plot(t, np.sin(t**2), label=r"$\sin(x^2)$")
ax.plot(t, slope, label=r"$\cos(x^2) \cdot 2x$", lw=1)
ax.plot(
    near,
    at + rise * (near - x),
    "--",
    label=f"tangent at 1.5, slope {rise:.3f}",
)
ax.set(
    xlabel="$x$",
    ylabel="value and slope",
    title="The chain rule in one variable",
)
ax.legend(loc="lower left")
