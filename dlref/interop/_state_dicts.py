r"""State dicts of PyTorch's modules as dlref's parameters, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arguments import check_mapping, choice, shown
from ._modules import MODULES, is_no_parameter
from ._tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["from_state_dict", "to_state_dict"]


def _check_prefix(prefix: Any) -> None:
    if not isinstance(prefix, str):
        msg = f"Argument 'prefix' must be text, not {shown(prefix)}."
        raise TypeError(msg)


def _names(state: Mapping[str, Any], prefix: str) -> list[str]:
    """Return the names after the prefix, of which there must be some."""
    check_mapping("state", state)
    _check_prefix(prefix)
    if wrong := [key for key in state if not isinstance(key, str)]:
        msg = f"Argument 'state' must have names as keys, not {shown(wrong[0])}."
        raise TypeError(msg)
    names = [key.removeprefix(prefix) for key in state if key.startswith(prefix)]
    if not names:
        some = ", ".join(map(repr, list(state)[:3])) or "none"
        msg = f"Argument 'state' must have names that begin with {prefix!r}, not only {some}."
        raise ValueError(msg)
    return names


def from_state_dict(state: Mapping[str, Any], kind: str, *, prefix: str = "") -> Any:
    r"""
    Make dlref's parameters of the state dict of a PyTorch module.

    Parameters
    ----------
    state : dict of array_like
        Tensors by name, of PyTorch or any other library: what ``module.state_dict()`` returns.
    kind : str
        Name of the module's class: "Linear", "Embedding", "LayerNorm", "GroupNorm", "RMSNorm",
        "BatchNorm" (also with "1d", "2d" or "3d"), "RNN", "GRU", "LSTM", "MultiheadAttention",
        "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder" or
        "TransformerDecoder".
    prefix : str, default ""
        What the names of the module's tensors begin with, such as "encoder."; others are
        passed over.

    Returns
    -------
    ndarray or tuple
        Parameters as the functions of dlref take them, see the table below; copies, in the
        dtypes of the tensors.

    Raises
    ------
    TypeError
        If `state` is no dictionary, `prefix` no text or a tensor not real.
    ValueError
        If `kind` is not known, or tensors are missing, unexpected or of the wrong shape: the
        message names all of them.

    See Also
    --------
    to_state_dict : The way back.
    convert_gates : For weights that are not PyTorch's.

    Notes
    -----
    ======================== =======================================================
    kind                     use of the parameters ``p``
    ======================== =======================================================
    Linear                   ``linear(x, *p)``
    Embedding                ``p[tokens]``
    LayerNorm, GroupNorm     ``layer_norm(x, *p)``, ``group_norm(x, 8, *p)``
    RMSNorm                  ``rms_norm(x, p.weight)``
    BatchNorm                ``batch_norm_inference(x, *p)``
    RNN, GRU, LSTM           ``gru(x, None, *p[layer][direction])``
    MultiheadAttention       ``multi_head_attention(x, y, p, num_heads=8)``
    TransformerEncoderLayer  ``encoder_block(x, p, num_heads=8)``
    TransformerDecoderLayer  ``decoder_block(x, y, p, num_heads=8)``
    TransformerEncoder       ``encoder(x, *p, num_heads=8)``
    TransformerDecoder       ``decoder(x, y, *p, num_heads=8)``
    ======================== =======================================================

    They are the named tuples of these functions, :class:`BatchNormParams` and
    :class:`RecurrentParams`. A recurrent network has a tuple of layers, each a tuple of one or
    two directions; a stack has a tuple of blocks, and the last norm or None.

    A state dict holds arrays and no options. The number of heads, the activation, ``norm_first``
    and ``eps`` are to be given to dlref's functions as they were given to the module. Blocks
    without biases want ``norm="layer"``, since a norm without a bias is RMS norm otherwise.

    Sizes are found from the tensors: whether there are biases, how many layers there are, and
    whether they run in both directions (names that end with ``_reverse``). Keys and values
    of another width than the queries (``kdim``, ``vdim``) have to be of the same, since
    :func:`~dlref.attention.multi_head_attention` makes both of one source. Biases that are
    added to keys (``add_bias_kv``) and projections of an LSTM's state (``proj_size``) have no
    counterpart here, and their tensors are refused. ``num_batches_tracked`` is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.interop import from_state_dict
    >>> from dlref.neurons import linear
    >>> state = {"fc.weight": np.array([[1.0, 2.0]]), "fc.bias": np.array([3.0])}
    >>> params = from_state_dict(state, "Linear", prefix="fc.")
    >>> params
    LinearParams(weight=array([[1., 2.]]), bias=array([3.]))
    >>> linear([1.0, 1.0], *params)
    array([6.])

    What does not fit is named:

    >>> from_state_dict({"weight": np.ones((2, 3)), "biases": np.ones(2)}, "LayerNorm")
    Traceback (most recent call last):
    ValueError: Argument 'state' must hold the tensors of LayerNorm: 'weight' must have shape
    (D,) = (?,), not (2, 3); 'biases' is not one of them.
    """
    choice("kind", kind, MODULES)
    module = MODULES[kind]
    layout = module.layout(*module.of_names(_names(state, prefix)))
    return read(layout, state, kind, prefix=prefix, left_out=is_no_parameter)


def to_state_dict(params: Any, kind: str, *, prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    r"""
    Make the state dict of a PyTorch module of dlref's parameters.

    Parameters
    ----------
    params : ndarray or tuple
        Parameters, in the structure that :func:`from_state_dict` returns.
    kind : str
        Name of the module's class, as for :func:`from_state_dict`.
    prefix : str, default ""
        What the names shall begin with.

    Returns
    -------
    dict of ndarray
        Tensors by name, in the dtypes of the parameters; copies.

    Raises
    ------
    TypeError
        If `prefix` is no text, or an array not real.
    ValueError
        If `kind` is not known, or parameters are missing, too many or of the wrong shape: the
        message names all of them.

    See Also
    --------
    from_state_dict : The inverse, with a table of what belongs to each kind.

    Notes
    -----
    Reading a state dict and writing it gives the same names and the same bits. Only
    ``num_batches_tracked`` is not written; PyTorch takes a state dict without it.

    With PyTorch at hand, ``module.load_state_dict({name: torch.tensor(a) for name, a in
    state.items()})`` puts the tensors into a module.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import AttentionParams
    >>> from dlref.interop import to_state_dict
    >>> params = AttentionParams(*np.ones((4, 2, 2)))
    >>> for name, array in to_state_dict(params, "MultiheadAttention").items():
    ...     print(name, array.shape)
    in_proj_weight (6, 2)
    out_proj.weight (2, 2)
    """
    choice("kind", kind, MODULES)
    _check_prefix(prefix)
    module = MODULES[kind]
    return write(module.layout(*module.of_params(params)), params, kind, prefix=prefix)
