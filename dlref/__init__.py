"""
Reference implementations of the mathematics of deep learning.

Every map has its gradient under the same name with ``_vjp`` (reverse mode: the upstream gradient
comes first) and ``_jvp`` (forward mode). The features are the last axis, weights are (n_out, n_in),
True in a mask means attend, and results have the dtype of their inputs.

>>> import numpy as np
>>> from dlref.activations import softmax, softmax_vjp
>>> softmax([0.0, np.log(3)])
array([0.25, 0.75])
>>> softmax_vjp([1.0, 0.0], [0.0, np.log(3)])
array([ 0.1875, -0.1875])

Each chapter is a module, loaded when it is first used:

calculus
    Element-wise operations, reductions, products of matrices, chain rules.
activations
    ReLU and its kin, sigmoid, tanh, GELU, gated units, softmax, log-sum-exp.
neurons
    The neuron, the linear layer, the multilayer perceptron.
convolution
    Convolution over one to three axes, its transpose, pooling.
losses
    Squared error, cross-entropy and others.
training
    Gradient descent, optimizers, clipping, learning rate schedules.
quantization
    Rounding to integers with a scale, and blocks of 4 to 8 bits that share one.
propagation
    Initialization, and the size of signals and gradients through depth.
normalization
    Batch, layer, RMS and group norm.
recurrent
    RNN, LSTM, GRU and backpropagation through time.
positions
    Sinusoidal, learned and rotary encodings, ALiBi, T5 and other relative schemes.
attention
    Masks, scaled dot-product and multi-head attention, caches, linear attention.
transformer
    Blocks, experts, models, their losses, and generation.
formulas
    Every formula of these chapters once, in plain NumPy.
check
    Verdicts on your own kernels, forward and backward.
interop
    Layouts and conventions of PyTorch, JAX, ONNX and Keras; Hugging Face's models.

``help(dlref.activations.softmax)`` shows the derivation of a map; the documentation has the same
pages with figures and exercises.
"""

from . import formulas as formulas
from ._core.names import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
