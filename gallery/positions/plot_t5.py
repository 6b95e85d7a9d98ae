r"""
T5 relative bias
================

Which distances does T5 tell apart, and which share one number?
"""

# %%
# A staircase
# -----------
# 32 buckets. In an encoder each direction has 16 of them: eight single
# distances, then steps that grow, until from 91 on everything is in the last.
# A decoder, which never looks ahead, spends all 32 on the past.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import t5_bias, t5_relative_position_bucket

offset = np.arange(-150, 151)
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), sharey=True)
for ax, both in zip(axes, (True, False), strict=True):
    bucket = t5_relative_position_bucket(offset, bidirectional=both)
    ax.plot(offset, bucket, ".", ms=3)
    ax.set(xlabel="key position − query position")
    ax.set_title("encoder" if both else "decoder")
axes[0].set_ylabel("bucket")

# %%
# The bias of one head
# --------------------
# A table drawn at random, as the matrix that is added to the scores: bands
# along the diagonal, narrow ones in the middle and wide ones outside.

table = np.random.default_rng(0).normal(size=(32, 1))
fig, ax = plt.subplots(figsize=(5, 4))
image = ax.imshow(
    t5_bias(table, 120, 120)[0], cmap="RdBu_r", vmin=-2.5, vmax=2.5
)
ax.set(xlabel="key", ylabel="query", title="Bias of one head")
fig.colorbar(image, label="bias")

# %%
# Where steps begin
# -----------------
# Above eight, bucket 8 + k begins at the first distance that reaches
# :math:`8 \cdot 16^{k/8}`. On a logarithmic axis the steps are even, except
# that distances are whole numbers.

distance = np.arange(1, 200)
bucket = t5_relative_position_bucket(-distance)
fig, ax = plt.subplots()
ax.semilogx(distance, bucket, ".", label="bucket", base=2)
smooth = 8 + 8 * np.log(distance / 8) / np.log(16)
shown = (smooth >= 8) & (smooth < 16)
ax.plot(distance[shown], smooth[shown], lw=1, label="before rounding down")
ax.set(xlabel="distance", ylabel="bucket", title="Buckets of the past")
ax.legend()
