r"""
Jacobians of a matrix product
=============================

What is inside the Jacobian of a matrix product? Mostly zeros, in a pattern of
copies, which is why nobody ever forms it.
"""

# %%
# Copies of the factors
# ---------------------
# For :math:`\mat Y = \mat A \mat B` with :math:`\mat A` of shape 3 x 4 and
# :math:`\mat B` of shape 4 x 2, stacked row by row into vectors:
# :math:`\mat J_A = \mat I \otimes \mat B^\top` repeats :math:`\mat B^\top`
# along the diagonal, :math:`\mat J_B = \mat A \otimes \mat I` spreads every
# element of :math:`\mat A` over a small identity.

import matplotlib.pyplot as plt
import numpy as np

from dlref.calculus import matmul_jacobian, matmul_vjp

rng = np.random.default_rng(3)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
J_A, J_B = (J.reshape(6, -1) for J in matmul_jacobian(A, B))

fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), width_ratios=[12, 8])
titles = (r"$J_A = I_3 \otimes B^\top$", r"$J_B = A \otimes I_2$")
for ax, J, title, n in zip(axes, (J_A, J_B), titles, (4, 2), strict=True):
    image = ax.imshow(J, cmap="RdBu_r", vmin=-2.5, vmax=2.5)
    for edge in range(0, J.shape[1] + 1, n):
        ax.axvline(edge - 0.5, lw=0.8, color="0.6")
    for edge in range(0, 7, 2):
        ax.axhline(edge - 0.5, lw=0.8, color="0.6")
    ax.set(title=title, xlabel="element of the factor", ylabel="element of $Y$")
fig.colorbar(image, ax=axes, label="slope")
fig.alt_text = (
    "Two Jacobians with six rows, mostly zeros. On the left the transpose of "
    "B stands three times along the diagonal; on the right each element of A "
    "stands on the diagonal of a 2 x 2 block."
)

# %%
# Two products instead
# --------------------
# The vector-Jacobian product needs :math:`\mat U \mat B^\top` and
# :math:`\mat A^\top \mat U` only. Counted in multiplications for square
# matrices, the dense Jacobian would cost :math:`2 n^4` against :math:`2 n^3`.

U = rng.normal(size=(3, 2))
dA, dB = matmul_vjp(U, A, B)
assert np.allclose(U.ravel() @ J_A, dA.ravel())
assert np.allclose(U.ravel() @ J_B, dB.ravel())

n = np.array([2, 8, 32, 128, 512])
fig, ax = plt.subplots()
ax.loglog(n, 2.0 * n**4, "o-", label="dense Jacobians")
ax.loglog(n, 2.0 * n**3, "s-", label="matmul_vjp")
ax.loglog(n, 1.0 * n**3, "^-", label="the product itself")
ax.set(
    xlabel="side $n$",
    ylabel="multiplications",
    title="Cost of the backward pass",
)
ax.legend()
