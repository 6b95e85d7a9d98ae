"""
Formulas as most kernels compute them, in the dtype of the input.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. Each stands under the name of its map and form; a formula that does
not know an option raises NotImplementedError.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .attention import (
    additive_attention_vjp,
    attention,
    attention_jvp,
    attention_vjp,
    linear_attention,
    linear_attention_vjp,
    weights_by_logsumexp,
    weights_vjp,
)
from .common import sigmoid
from .layers import layer_norm, linear, rms_norm, rms_norm_vjp
from .losses import binary_cross_entropy, binary_cross_entropy_vjp, cross_entropy, cross_entropy_vjp
from .recurrent import gru_cell_jvp, gru_cell_vjp, lstm_cell_jvp, lstm_cell_vjp
from .rows import (
    by_logsumexp,
    log_softmax,
    log_softmax_jvp,
    log_softmax_jvp_shifted,
    log_softmax_vjp,
    logsumexp_jvp,
    logsumexp_vjp,
    softmax,
    softmax_jvp_shifted,
    softmax_vjp,
    softmax_vjp_of_jax,
    through_maximum,
)
from .units import (
    celu,
    celu_deriv,
    elu,
    elu_deriv,
    elu_deriv_of_jax,
    gated,
    gelu,
    gelu_deriv,
    in_forward_mode,
    in_reverse,
    mish,
    mish_deriv,
    mish_vjp_of_jax,
    selu,
    selu_deriv,
    selu_deriv_of_jax,
    sigmoid_deriv,
    silu,
    silu_deriv,
    softsign_vjp,
    tanh_deriv,
    tanh_vjp_of_jax,
    tanhshrink,
    tanhshrink_vjp,
    tanhshrink_vjp_of_jax,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Formulas by the name of a map and its form.
PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("gelu", "forward"): gelu,
    ("silu", "forward"): silu,
    ("elu", "forward"): elu,
    ("celu", "forward"): celu,
    ("selu", "forward"): selu,
    ("mish", "forward"): mish,
    ("tanhshrink", "forward"): tanhshrink,
    ("tanhshrink", "vjp"): tanhshrink_vjp,
    ("tanhshrink", "jvp"): lambda x, dx: tanhshrink_vjp(dx, x),
    ("softsign", "vjp"): softsign_vjp,
    ("softsign", "jvp"): lambda x, dx: softsign_vjp(dx, x),
    ("softmax", "forward"): softmax,
    ("softmax", "vjp"): softmax_vjp,
    ("softmax", "jvp"): lambda x, dx, **options: softmax_vjp(dx, x, **options),
    ("log_softmax", "forward"): log_softmax,
    ("log_softmax", "vjp"): log_softmax_vjp,
    ("log_softmax", "jvp"): log_softmax_jvp,
    ("logsumexp", "vjp"): logsumexp_vjp,
    ("logsumexp", "jvp"): logsumexp_jvp,
    ("cross_entropy", "forward"): cross_entropy,
    ("cross_entropy", "vjp"): cross_entropy_vjp,
    ("binary_cross_entropy", "forward"): binary_cross_entropy,
    ("binary_cross_entropy", "vjp"): binary_cross_entropy_vjp,
    ("linear", "forward"): linear,
    ("layer_norm", "forward"): layer_norm,
    ("rms_norm", "forward"): rms_norm,
    ("rms_norm", "vjp"): rms_norm_vjp,
    ("scaled_dot_product_attention", "forward"): attention,
    ("scaled_dot_product_attention", "vjp"): attention_vjp,
    ("scaled_dot_product_attention", "jvp"): attention_jvp,
    ("attention_weights", "vjp"): weights_vjp,
    ("additive_attention", "vjp"): additive_attention_vjp,
    ("linear_attention", "forward"): linear_attention,
    ("linear_attention", "vjp"): linear_attention_vjp,
    ("gru_cell", "vjp"): gru_cell_vjp,
    ("gru_cell", "jvp"): gru_cell_jvp,
    ("lstm_cell", "vjp"): lstm_cell_vjp,
    ("lstm_cell", "jvp"): lstm_cell_jvp,
}
_FLASH = {"weights": weights_by_logsumexp}
#: Other ways in which some are computed: by autograd, by JAX, by FlashAttention.
VARIANTS: dict[tuple[str, str], tuple[Callable[..., Any], ...]] = {
    ("elu", "vjp"): (in_reverse(elu_deriv_of_jax),),
    ("selu", "vjp"): (in_reverse(selu_deriv_of_jax),),
    ("mish", "vjp"): (mish_vjp_of_jax,),
    ("tanh", "vjp"): (tanh_vjp_of_jax,),
    ("tanhshrink", "vjp"): (tanhshrink_vjp_of_jax,),
    ("softmax", "forward"): (by_logsumexp,),
    ("softmax", "vjp"): (
        through_maximum(softmax_vjp),
        partial(softmax_vjp, probabilities=by_logsumexp),
        softmax_vjp_of_jax,
    ),
    ("softmax", "jvp"): (softmax_jvp_shifted,),
    ("log_softmax", "vjp"): (through_maximum(log_softmax_vjp),),
    ("log_softmax", "jvp"): (log_softmax_jvp_shifted,),
    ("logsumexp", "vjp"): (through_maximum(logsumexp_vjp, total=True),),
    ("cross_entropy", "vjp"): (through_maximum(cross_entropy_vjp),),
    ("scaled_dot_product_attention", "forward"): (partial(attention, **_FLASH),),
    ("scaled_dot_product_attention", "vjp"): (partial(attention_vjp, **_FLASH),),
    ("scaled_dot_product_attention", "jvp"): (partial(attention_jvp, **_FLASH),),
}


for _f in (
    *(gelu_deriv, sigmoid_deriv, tanh_deriv, silu_deriv),
    *(elu_deriv, celu_deriv, selu_deriv, mish_deriv),
):
    _name = _f.__name__.removesuffix("_deriv")
    PLAIN[_name, "vjp"] = in_reverse(_f)
    PLAIN[_name, "jvp"] = in_forward_mode(_f)


for _name, _f, _slope in (
    ("glu", sigmoid, sigmoid_deriv),
    ("swiglu", silu, silu_deriv),
    ("geglu", gelu, gelu_deriv),
):
    PLAIN.update(((_name, form), formula) for form, formula in gated(_f, _slope))
