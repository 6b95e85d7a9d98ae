r"""
Gradients of trace, inverse and determinant
===========================================

How must the sides of a parallelogram change for its area to grow fastest?
The gradient of the log-determinant says so.
"""

# %%
# Rows as sides
# -------------
# The determinant is the area spanned by the rows of :math:`\mat A`. Row
# :math:`i` of the gradient :math:`\mat A^{-\top}` is orthogonal to all *other*
# rows: moving a side along the others does not change the area. A short or flat
# side gets a long arrow.

import matplotlib.pyplot as plt
import numpy as np

from dlref.calculus import inverse_jvp, logdet_grad

matrices = {
    "square": np.array([[1.5, 0.0], [0.0, 1.5]]),
    "sheared": np.array([[1.8, 0.3], [0.9, 1.2]]),
    "flat": np.array([[2.0, 0.4], [1.2, 0.9]]),
}
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.4), sharex=True, sharey=True)
for ax, (name, A) in zip(axes, matrices.items(), strict=True):
    corners = np.array([[0, 0], A[0], A[0] + A[1], A[1]])
    ax.fill(*corners.T, alpha=0.25)
    for row, grad, label, offset in zip(
        A, logdet_grad(A), "12", ([0, -0.35], [-0.5, 0.1]), strict=True
    ):
        ax.annotate("", row, (0, 0), arrowprops={"arrowstyle": "->", "lw": 1.5})
        ax.text(*(row / 2 + offset), f"$a_{label}$")
        ax.quiver(
            *row, *grad, color="C1", angles="xy", scale_units="xy", scale=1.6
        )
    area = abs(np.linalg.det(A))
    ax.set(
        title=f"{name}: area {area:.2f}",
        aspect="equal",
        xlabel="first coordinate",
    )
    ax.set(xlim=(-0.8, 4), ylim=(-0.8, 3))
axes[0].set_ylabel("second coordinate")
fig.alt_text = (
    "Three parallelograms with gradient arrows at the ends of their sides."
)

# %%
# The derivative of the inverse grows with its square
# ---------------------------------------------------
# The tangent :math:`\dot{\mat A}` of :math:`\mat A` moves the inverse along
# :math:`-\mat A^{-1} \dot{\mat A} \mat A^{-1}`: as :math:`\mat A` comes close
# to a singular matrix, the inverse grows like :math:`1/t` and its derivative
# like :math:`1/t^2`.

t = np.logspace(-4, 0, 50)
A = np.array([[1.0, 1.0], [1.0, 1.0]]) + t[:, None, None] * np.array(
    [[1.0, 0], [0, 0]]
)
direction = np.broadcast_to(np.array([[1.0, 0], [0, 0]]), A.shape)
size = {
    r"$\|A^{-1}\|$": np.linalg.norm(np.linalg.inv(A), axis=(1, 2)),
    r"$\|A^{-1} \dot A A^{-1}\|$": np.linalg.norm(
        inverse_jvp(A, direction), axis=(1, 2)
    ),
}
fig, ax = plt.subplots()
for label, values in size.items():
    ax.loglog(t, values, label=label)
ax.set(xlabel="distance $t$ to a singular matrix", ylabel="Frobenius norm")
ax.set_title("Inverse and its derivative")
ax.legend()
