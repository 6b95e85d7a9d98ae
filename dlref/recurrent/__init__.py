"""Recurrent networks: RNN, LSTM, GRU, their derivatives, and networks built from them."""

from .._core.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
