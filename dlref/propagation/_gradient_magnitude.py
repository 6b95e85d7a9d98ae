r"""The size of a gradient after a number of layers, as a product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_integers, result


def gradient_magnitude(
    weight: npt.ArrayLike, depth: npt.ArrayLike, *, activation_slope: npt.ArrayLike = 1.0
) -> FloatArray:
    r"""
    Size of a gradient after the backward pass through layers of one neuron each.

    Parameters
    ----------
    weight : array_like
        Weight w of every layer.
    depth : array_like of int
        Number L of layers, at least 0.
    activation_slope : array_like, default 1.0
        Derivative :math:`\phi'` of the activation, at the point where it is taken.

    Returns
    -------
    ndarray or scalar
        :math:`\abs{w \phi'}^L`, of the shape to which the arguments broadcast.

    Raises
    ------
    TypeError
        If `weight` or `activation_slope` is not real, or `depth` is not an integer.
    ValueError
        If a depth is negative, or the shapes do not broadcast.

    See Also
    --------
    signal_propagation : Layers of many neurons with random weights.
    critical_gain : The weights for which the product is 1, on average.

    Notes
    -----
    Let :math:`h_l = \phi(w h_{l-1})`. By the chain rule the derivative of the last value with
    respect to the first is a product with one factor per layer,

    .. math:: \dv{h_L}{h_0} = \prod_{l=1}^{L} \phi'(w h_{l-1}) \, w,

    and :math:`\abs{w \phi'}^L` if the slope is the same everywhere. A product of L equal factors
    vanishes or explodes unless they are 1: at 0.5 twenty layers leave 1e-6, at 2 they make 1e6 of
    1. *The slope is a factor like the weight*: a sigmoid, whose slope is 1/4 at most, needs
    weights of at least 4 in size to preserve a gradient, and a ReLU multiplies it by 1 or by 0.
    With a residual connection, :math:`h_l = h_{l-1} + \phi(w h_{l-1})`, the factors are
    :math:`1 + w \phi'`, which is near 1 where :math:`w \phi'` is small.

    **Matrices.** For layers :math:`\vec h_l = \phi(\mat W \vec h_{l-1})` the factors are matrices
    :math:`\mat D_l \mat W` with the slopes on the diagonal of :math:`\mat D_l`. In that case the
    size of the weights does *not* decide. If slopes are bounded by :math:`\gamma`, then

    .. math:: \Bigl\lVert \prod_l \mat D_l \mat W \Bigr\rVert \le (\gamma \, \sigma_{\max})^L,

    so a largest singular value :math:`\sigma_{\max} < 1 / \gamma` is sufficient for gradients to
    vanish, and :math:`\sigma_{\max} > 1 / \gamma` necessary for them to explode. For a linear
    network, :math:`\phi' = 1`, the spectral radius :math:`\rho` decides:
    :math:`\norm{\mat W^L}^{1/L} \to \rho`. The examples show weights below 1 that explode and
    weights of 5 that vanish completely.

    References
    ----------
    - :cite:t:`Pascanu2013`, section 2.1

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.propagation import gradient_magnitude
    >>> gradient_magnitude([0.5, 1.0, 2.0], 20)
    array([9.53674316e-07, 1.00000000e+00, 1.04857600e+06])
    >>> gradient_magnitude(2.0, [1, 2, 3], activation_slope=0.25)  # the steepest sigmoid
    array([0.5  , 0.25 , 0.125])

    "Weights below 1 make gradients vanish": not these. All are 0.9, the spectral radius is
    14.4, and ten layers multiply a gradient by 14.4 to the tenth.

    >>> W = np.full((16, 16), 0.9)
    >>> float(max(abs(np.linalg.eigvals(W))).round(6))
    14.4
    >>> g = np.ones(16)
    >>> after = np.linalg.matrix_power(W.T, 10) @ g
    >>> float(np.log10(np.linalg.norm(after) / np.linalg.norm(g)).round(3))
    11.584

    "Weights above 1 make them explode": not these. All are 5 but strictly above the diagonal, the
    spectral radius is 0, and four layers leave nothing.

    >>> W = np.triu(np.full((4, 4), 5.0), 1)
    >>> float(max(abs(np.linalg.eigvals(W))))
    0.0
    >>> bool(np.any(np.linalg.matrix_power(W, 4)))
    False
    """
    dtype, (w, slope) = as_floats({"weight": weight, "activation_slope": activation_slope})
    layers = as_integers("depth", depth)
    if np.any(layers < 0):
        msg = f"Argument 'depth' must be at least 0, not {int(layers.min())}."
        raise ValueError(msg)
    try:
        np.broadcast_shapes(w.shape, layers.shape, slope.shape)
    except ValueError:
        msg = (
            "Arguments 'weight', 'depth' and 'activation_slope' must have shapes that broadcast, "
            f"not {w.shape}, {layers.shape} and {slope.shape}."
        )
        raise ValueError(msg) from None
    with np.errstate(all="ignore"):
        return result(np.abs(w * slope) ** layers, dtype)
