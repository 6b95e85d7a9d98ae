"""Parameters for the tests of the Transformer."""

import numpy as np
import pytest

from dlref.attention import AttentionParams
from dlref.transformer import (
    DecoderBlockParams,
    EncoderBlockParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    NormParams,
)


class Draw:
    """Draw parameters of any shape."""

    def __init__(self, rng):
        self.rng = rng

    def attention(self, D, H, Hk=None, E=None, memory=None, biases=True):
        E, Hk, memory = E or D // H, Hk or H, memory or D
        shapes = (H * E, D), (Hk * E, memory), (Hk * E, memory), (D, H * E)
        weights = [self.rng.normal(size=s) / np.sqrt(s[1]) for s in shapes]
        sides = [0.3 * self.rng.normal(size=s[0]) if biases else None for s in shapes]
        return AttentionParams(*weights, *sides)

    def rich_attention(self, D, H, Hk, E, *, together=False):
        """Draw attention with norms, a gate and sinks."""
        plain, draw = self.attention(D, H, Hk, E, biases=False), self.rng.normal
        sizes = (H * E, Hk * E) if together else (E, E)
        q_norm, k_norm = (1 + 0.2 * draw(size=n) for n in sizes)
        gate = draw(size=(H * E, D)), draw(size=H * E)
        return AttentionParams(*plain[:8], q_norm, k_norm, *gate, draw(size=H))

    def norm(self, D, bias=True):
        weight = 1 + 0.2 * self.rng.normal(size=D)
        return NormParams(weight, 0.2 * self.rng.normal(size=D) if bias else None)

    def network(self, D, F, gated=False, biases=True):
        if gated:
            shapes = (F, D), (F, D), (D, F)
            return GatedFeedForwardParams(
                *(self.rng.normal(size=s) / np.sqrt(s[1]) for s in shapes)
            )
        w1, w2 = (
            self.rng.normal(size=(F, D)) / np.sqrt(D),
            self.rng.normal(size=(D, F)) / np.sqrt(F),
        )
        if not biases:
            return FeedForwardParams(w1, None, w2, None)
        return FeedForwardParams(w1, self.rng.normal(size=F), w2, self.rng.normal(size=D))

    def encoder_block(self, D=4, H=2, F=5, *, Hk=None, rms=False, gated=False, biases=True):
        return EncoderBlockParams(
            self.attention(D, H, Hk, biases=biases),
            self.norm(D, not rms),
            self.network(D, F, gated, biases),
            self.norm(D, not rms),
        )

    def decoder_block(
        self, D=4, H=2, F=5, memory=3, *, Hk=None, rms=False, gated=False, biases=True
    ):
        return DecoderBlockParams(
            self.attention(D, H, Hk, biases=biases),
            self.norm(D, not rms),
            self.attention(D, H, Hk, memory=memory, biases=biases),
            self.norm(D, not rms),
            self.network(D, F, gated, biases),
            self.norm(D, not rms),
        )


@pytest.fixture
def draw(rng):
    return Draw(rng)


@pytest.fixture(scope="session")
def drawing():
    return Draw
