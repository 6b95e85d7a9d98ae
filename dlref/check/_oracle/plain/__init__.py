"""
Formulas as most kernels compute them, in the dtype of the input.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. The record of a map names its formula of each form, and its variants:
other ways in which it is computed, by autograd, by JAX, by FlashAttention. A formula that does not
know an option raises NotImplementedError.
"""
