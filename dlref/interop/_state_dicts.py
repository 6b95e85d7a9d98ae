r"""State dicts of PyTorch's modules and of models as dlref's parameters, and back."""

from __future__ import annotations

import errno
import os
import stat
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .._core.archives import UNREADABLE, members_of, read_array
from .._core.arguments import check_mapping, choice, shown
from ._encoders import BertParams, T5EncoderParams
from ._families import FAMILIES, read_family, write_family
from ._missing import MISSING
from ._modules import MODULES, is_no_parameter
from ._safetensors import InFile, tensors_of, tensors_of_index
from ._settings import family_of
from ._tensors import read, write

if TYPE_CHECKING:
    from ..transformer import EncoderDecoderParams, LanguageModelConfig, LanguageModelParams

KINDS = (*MODULES, *FAMILIES)
State = dict[str, np.ndarray[Any, Any]]


def _check_kind(kind: Any) -> None:
    """Raise unless a kind is known; for other families, say what dlref's models lack."""
    if isinstance(kind, str) and kind in MISSING:
        models, pieces = MISSING[kind]
        msg = f"Argument 'kind' must not be {kind!r} ({models}), for which dlref lacks {pieces}."
        raise ValueError(msg)
    choice("kind", kind, KINDS)


def _check_prefix(prefix: Any) -> None:
    if not isinstance(prefix, str):
        msg = f"Argument 'prefix' must be text, not {shown(prefix)}."
        raise TypeError(msg)


def _names(state: Mapping[str, Any], prefix: str) -> list[str]:
    """Return the names after the prefix; there must be at least one."""
    check_mapping("state", state)
    _check_prefix(prefix)
    if wrong := [key for key in state if not isinstance(key, str)]:
        msg = f"Argument 'state' must have names as keys, not {shown(wrong[0])}."
        raise TypeError(msg)
    names = [key.removeprefix(prefix) for key in state if key.startswith(prefix)]
    if not state:
        msg = "Argument 'state' must hold tensors, not none: a module without parameters has none."
        raise ValueError(msg)
    if not names:
        some = ", ".join(map(repr, list(state)[:3]))
        msg = f"Argument 'state' must have names that begin with {prefix!r}, not only {some}."
        raise ValueError(msg)
    return names


@overload
def from_state_dict(
    state: Mapping[str, Any] | str | os.PathLike[str],
    kind: Literal["gpt2", "llama"],
    config: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
) -> tuple[LanguageModelParams, LanguageModelConfig]: ...
@overload
def from_state_dict(
    state: Mapping[str, Any] | str | os.PathLike[str],
    kind: Literal[
        "bert",
        "roberta",
        "camembert",
        "xlm-roberta",
        "distilbert",
        "data2vec-text",
        "bert-generation",
        "megatron-bert",
        "roberta-prelayernorm",
        "roformer",
        "electra",
        "rembert",
        "xlm-roberta-xl",
    ],
    config: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
) -> tuple[BertParams, dict[str, Any]]: ...
@overload
def from_state_dict(
    state: Mapping[str, Any] | str | os.PathLike[str],
    kind: Literal["t5", "mt5"],
    config: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
) -> tuple[T5EncoderParams, dict[str, Any]] | tuple[EncoderDecoderParams, LanguageModelConfig]: ...
@overload
def from_state_dict(
    state: Mapping[str, Any] | str | os.PathLike[str],
    kind: str | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
) -> Any: ...
def from_state_dict(
    state: Mapping[str, Any] | str | os.PathLike[str],
    kind: str | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
) -> Any:
    r"""
    Make dlref's parameters of the state dict of a PyTorch module or a pretrained model.

    Parameters
    ----------
    state : dict of array_like, or path
        Tensors by name, of PyTorch or any other library, as ``module.state_dict()`` or
        :func:`read_state_dict` returns them. Or the name of a file that :func:`read_state_dict`
        reads: of a file of safetensors, one tensor at a time is read, so that no more memory is
        needed than the parameters take.
    kind : str or None
        Name of the module's class: "Linear", "Embedding", "LayerNorm", "GroupNorm", "RMSNorm",
        "BatchNorm" (also with "1d", "2d" or "3d"), "RNN", "GRU", "LSTM",
        "RNNCell", "GRUCell", "LSTMCell", "MultiheadAttention", "TransformerEncoderLayer",
        "TransformerDecoderLayer", "TransformerEncoder" or "TransformerDecoder". Or a family of
        models with the names of Hugging Face, see the table below. None takes the family from the
        entry ``model_type`` of `config`, or of the text model that it holds.
    config : dict or None
        Configuration of a family's model: the contents of its ``config.json``, as published.
        Missing entries have the defaults of Hugging Face.
    prefix : str, default ""
        Beginning of the names of the tensors, such as "encoder."; others are passed over.

    Returns
    -------
    params : ndarray or tuple
        Parameters as the functions of dlref take them, see the tables below; copies, in the
        dtypes of the tensors.
    config : LanguageModelConfig or dict
        Of a family only: the configuration for :func:`~dlref.transformer.language_model`, or the
        options for :func:`~dlref.transformer.encoder`.

    Raises
    ------
    TypeError
        If `state` is neither a dictionary nor a path, `config` is not a dictionary, `prefix` is not
        a text or a tensor not real.
    ValueError
        If `kind` is not known; if tensors are missing, unexpected or of the wrong shape, where the
        message names all of them; if `config` asks for something that dlref cannot express, or has
        an entry of which dlref does not know that it changes no number.

    Warns
    -----
    UserWarning
        If `config` has an entry that is an argument of another function
        (``relative_attention_max_distance`` of an encoder alone).

    See Also
    --------
    to_state_dict : The inverse.
    read_state_dict : Tensors from a file.
    convert_gates : For weights that are not PyTorch's.

    Notes
    -----
    **Modules.**

    ======================== =======================================================
    kind                     use of the parameters ``p``
    ======================== =======================================================
    Linear                   ``linear(x, *p)``
    Embedding                ``p[tokens]``
    LayerNorm, GroupNorm     ``layer_norm(x, *p)``, ``group_norm(x, 8, *p)``
    RMSNorm                  ``rms_norm(x, p.weight)``
    BatchNorm                ``batch_norm_inference(x, *p)``
    RNN, GRU, LSTM           ``gru(x, None, *p[layer][direction])``
    RNNCell, GRUCell,        ``gru_cell(x, h, *p)``
    LSTMCell
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
    Nor can be seen what leaves no tensor and has no counterpart here: an embedding's
    ``max_norm``, attention's ``add_zero_attn``, and a last norm without parameters.

    Sizes are found from the tensors: whether there are biases, how many layers there are, and
    whether they run in both directions (names that end with ``_reverse``). Keys and values
    of another width than the queries (``kdim``, ``vdim``) have to be of the same, since
    :func:`~dlref.attention.multi_head_attention` makes both of one source. Biases that are
    added to keys (``add_bias_kv``) and projections of an LSTM's state (``proj_size``) have no
    counterpart here, and their tensors are refused. ``num_batches_tracked`` is left out.

    **Families.**

    ==================== ============================ ==========================================
    kind                 returned value               use
    ==================== ============================ ==========================================
    gpt2                 ``LanguageModelParams``,     ``language_model(tokens, params, config)``
                         ``LanguageModelConfig``
    falcon, gpt_neo,     the same                     the same
    gpt_bigcode, mpt,
    opt, biogpt,
    openai-gpt
    llama                the same                     the same
    others               the same                     the same, see the next table
    bert, distilbert,    :class:`BertParams`,         three lines, see there
    roberta, camembert,  options
    xlm-roberta,
    xlm-roberta-xl,
    data2vec-text,
    bert-generation,
    megatron-bert,
    roformer, electra,
    rembert,
    roberta-prelayernorm
    t5, mt5              ``EncoderDecoderParams``,    ``encoder_decoder_model(source, target,
                         ``LanguageModelConfig``      params, config)``
    t5, mt5 without      :class:`T5EncoderParams`,    three lines, see there
    a decoder            options
    ==================== ============================ ==========================================

    =================== ======================================================================
    kind                differences from LLaMA
    =================== ======================================================================
    mistral             a window of attention (``window=(W - 1, 0)``), a head width of its own
    ministral           the same in some layers
    qwen2               biases of queries, keys and values; windows in the upper layers
    qwen3               norms of queries and keys of each head, before the rotation
    smollm3             layers without rotations
    gemma               norms by 1 + w (``norm_offset=1``), embeddings times the root of D
    gemma2              also norms before and after each sub-layer, caps of scores and logits,
                        windows in every other layer
    gemma3_text         (or gemma3) also norms of queries and keys, two bases of rotations
    granite             multipliers of embeddings, scores, sums and logits
    olmo2               norms of the outputs alone; norms of all queries, and of all keys, at once
    phi3                fused matrices; rotations of some channels
    stablelm            layer norms, also of queries and keys; rotations of some channels
    gpt_neox            layer norms, attention and network side by side, a fused matrix of heads
    cohere              one layer norm for attention and network side by side, scaled logits
    mixtral             experts
    qwen3_moe           experts, and norms of queries and keys
    olmoe               experts, and norms of all queries and keys at once
    deepseek_v3         latent attention; shared experts, and others that a correction chooses in
                        groups
    qwen3_next          gated delta rules, with gated attention in every fourth layer; experts
    qwen3_5_text        the same without experts, and its matrices cut otherwise
    qwen3_5_moe_text    the same with experts
    gpt_oss             experts with bounded gates, sinks, and windows in every other layer
    helium              rotations of neighbors
    ernie4_5            the same
    seed_oss            biases of queries, keys and values, and of the output if it says so
    arcee               a plain network with the square of relu
    nemotron            layer norms by 1 + w, and a plain network with the square of relu
    starcoder2          layer norms, and a plain network with biases
    glm                 rotations of neighbors in half of the channels; gate and up in one matrix
    glm4                also norms before and after each sub-layer
    olmo3               OLMo 2's pieces, and windows in three of four layers
    exaone4             norms of the outputs, queries and keys; rotations in layers with a window
    hunyuan_v1_dense    norms of rotated queries and keys
    cohere2             Cohere's pieces, and rotations only where there is a window
    qwen2_moe           Qwen 2's pieces, experts, and one with a gate for all tokens
    glm4_moe            experts that a correction chooses, and one for all tokens
    minimax_m2          experts that a correction chooses, and norms of all queries and keys at once
    deepseek_v2         latent attention, and experts in groups
    glm4_moe_lite       the same as deepseek_v3, in one group
    kimi_k2             the same as deepseek_v3
    olmo                layer norms without parameters
    cwm                 windows in three of four layers
    vaultgemma          gemma2 without norms of the sub-layers' outputs
    jais2               layer norms, and a plain network with the square of relu and biases
    granite_swa         Granite's multipliers, sinks, windows in three of four layers, and a base of
                        the rotation for each layer
    granitemoe          Granite's multipliers, and experts
    granitemoeshared    also an expert for all tokens
    granitemoe_swa      granite_swa's pieces, and experts
    hyperclovax         Granite's multipliers, and norms before and after each sub-layer
    internlm3           LLaMA's pieces, and other names of the entries about biases
    iquestcoder         LLaMA's pieces, and a width of heads of its own
    exaone_moe          experts, and rotations in layers with a window alone
    hunyuan_v1_moe      norms of rotated queries and keys, experts, and one for all tokens
    hy_v3               experts that a correction chooses, and norms of queries and keys
    flex_olmo           OLMo 2's pieces, and experts
    dots1               glm4_moe's experts, norms of queries and keys, windows in the upper layers
    solar_open          glm4_moe's experts in every layer
    youtu               latent attention, and a gated network
    afmoe               gates of attention, experts, and rotations in layers with a window alone
    aria_text           experts, and some for all tokens
    axk1                deepseek_v3's pieces, and norms of the experts' outputs
    ernie4_5_moe        ernie4_5's pieces, and experts that a correction chooses
    flint               sinks, experts, and rotations in layers with a window alone
    mellum              qwen3_moe's pieces, and a rotation of each kind of layer
    minicpm3            latent attention, and factors of embeddings, sums and logits
    gpt_neox_japanese   gpt_neox's pieces without biases but one, one after the other
    cohere_compass_text cohere2's pieces, and a rotation of each kind of layer
    emu3_text_model     LLaMA's pieces, and tokens of images
    =================== ======================================================================

    Their rotations turn the pairs for which their rows are ordered: ``rope_interleaved`` is among
    ``config.blocks``, and nothing is reordered or folded, so that :func:`to_state_dict` maps
    gradients, too.

    A model with or without its head can be read: names with ``transformer.``, ``model.`` or
    ``bert.`` before them, or without. The following are taken care of.

    - GPT-2's dense layers are stored transposed, (n_in, n_out), with queries, keys and values side
      by side. Its GELU is the tanh form.
    - LLaMA's checkpoints rotate halves of a head, dlref's models neighbors. The rows of queries
      and keys are reordered, head by head, which changes no score (:func:`to_interleaved`).
      Grouped heads, biases of the attention, tied embeddings and the scalings that do not
      depend on the text's length can be expressed, the latter in both spellings
      (``rope_scaling`` with ``type`` or ``rope_type``, ``rope_parameters``). Where both are,
      ``rope_scaling`` is taken, as by Hugging Face.
    - BERT normalizes after each sum, and its embeddings too. Heads for tasks (``cls.``,
      ``classifier.``, ``qa_outputs.``) are left out. Norms may be spelled ``gamma`` and ``beta``.
      RoBERTa's positions count from its padding token, so that the first row of ``positions`` here
      is row ``pad_token_id + 1`` there, and the rows before it come last. DistilBERT has no
      embeddings of sentences: ``types`` is a row of zeros.
    - T5's scores are not scaled (``scale=1`` and ``cross_scale=1``), and its network may be gated.
      Its outputs are divided by the root of D unless ``tie_word_embeddings`` is False or
      ``scale_decoder_outputs`` is; mT5's never are. The head is tied where ``lm_head.weight`` is
      missing or equals the embeddings. A model with a decoder must have 32 buckets and the
      distance 128. For an encoder alone, another
      ``relative_attention_max_distance`` is to be given to :func:`~dlref.positions.t5_bias`; a
      warning says so.

    - DeepSeek-V3's files hold one more layer, which predicts the token after the next one
      (``eh_proj``, ``enorm``, ``hnorm``, ``shared_head``). It is left out, as it is by
      transformers: the logits of the model do not depend on it.

    A tied head that is stored must equal the embeddings. Buffers, such as causal masks, are
    left out.

    **Configurations.** The file is read as transformers 5 reads it: with its defaults, synonyms
    (``num_local_experts`` and ``num_experts``, which must agree), values of older files (Gemma's
    "gelu", which is the tanh form), and entries that another one switches off
    (``use_sliding_window``). Entries of training, of generation and of tasks change no number and
    are passed over. Any other entry that the family does not have is refused by name, unless its
    value is neutral, as a multiplier of 1 is: a window, say, or ``is_causal`` = False, which lets
    tokens see later ones. So is a `config` whose ``model_type`` or ``architectures`` are another
    family's, or that has neither: Gemma and Helium have LLaMA's names, and compute something else.

    Files carry entries of other programs along, which nothing reads (``internal_version``). An
    entry that no family of the table has is passed over if transformers, up to version 5.23, has
    written the file (``transformers_version``), and the file names no code of its own
    (``auto_map``), which might read it.

    A multimodal model's file (LLaVA, Gemma 3, Mistral 3) has the text model's entries as
    ``text_config``, and only this model is read. Both parts say whether its head is tied; where
    neither does, or they differ, the tensors decide. Quantized weights have to be dequantized
    first.

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

    Tensors that do not fit are named:

    >>> from_state_dict({"weight": np.ones((2, 3)), "biases": np.ones(2)}, "LayerNorm")
    Traceback (most recent call last):
    ValueError: Argument 'state' must hold the tensors of LayerNorm: 'weight' must have shape
    (D,) = (?,), not (2, 3); 'biases' is not one of them.

    A model of Hugging Face's, here with random numbers instead of its own:

    >>> from dlref.interop import to_state_dict
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> rng = np.random.default_rng(0)
    >>> small = LanguageModelConfig(9, 8, 2, num_layers=1, activation="gelu_tanh", length=4)
    >>> state = to_state_dict(init_language_model(rng, small), "gpt2", small)
    >>> settings = {"vocab_size": 9, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 4}
    >>> params, config = from_state_dict(state, "gpt2", settings)
    >>> config == small, language_model([1, 2, 3], params, config).shape
    (True, (3, 9))
    """
    if kind is None:
        kind = family_of(config)
        if kind is None:
            msg = "Argument 'kind' must be given, unless config has 'model_type'."
            raise ValueError(msg)
    _check_kind(kind)
    if isinstance(state, str | os.PathLike):
        state = in_file(state)
    names = _names(state, prefix)
    if kind in FAMILIES:
        return read_family(state, kind, config, prefix)
    if config is not None:
        msg = f"Argument 'config' must be None for a module, not {shown(config)}."
        raise ValueError(msg)
    module = MODULES[kind]
    layout = module.layout(*module.of_names(names))
    return read(layout, state, kind, prefix=prefix, left_out=is_no_parameter)


def to_state_dict(params: Any, kind: str, config: Any = None, *, prefix: str = "") -> State:
    r"""
    Make the state dict of a PyTorch module or a pretrained model of dlref's parameters.

    Parameters
    ----------
    params : ndarray or tuple
        Parameters, in the structure that :func:`from_state_dict` returns.
    kind : str
        Name of the module's class or the family, as for :func:`from_state_dict`.
    config : LanguageModelConfig or None
        Architecture of a family's language model, or of encoder and decoder. Encoders need none,
        but "roberta" takes a dictionary whose ``pad_token_id`` is not 1.
    prefix : str, default ""
        Beginning of the names.

    Returns
    -------
    dict of ndarray
        Tensors by name, in the dtypes of the parameters; copies.

    Raises
    ------
    TypeError
        If `prefix` is not a text, `config` is not of the type that the kind needs, or an array not
        real.
    ValueError
        If `kind` is not known, or parameters are missing, too many or of the wrong shape: the
        message names all of them. If `config` describes a model that the family does not have.

    See Also
    --------
    from_state_dict : The inverse, with a table of the contents of each kind.

    Notes
    -----
    Reading a state dict and writing it gives the same names and the same bits. Only
    ``num_batches_tracked`` is not written; PyTorch takes a state dict without it.

    The names of "gpt2" and "llama" are the names of the models with a head, as in
    ``transformer.wte.weight``; a tied head is not written, as in Hugging Face's files. For "bert"
    and "t5" they are the encoders'.

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
    _check_kind(kind)
    _check_prefix(prefix)
    if kind in FAMILIES:
        return write_family(params, kind, config, prefix)
    if config is not None:
        msg = f"Argument 'config' must be None for a module, not {shown(config)}."
        raise ValueError(msg)
    module = MODULES[kind]
    return write(module.layout(*module.of_params(params)), params, kind, prefix=prefix)


def read_state_dict(path: str | os.PathLike[str]) -> State:
    r"""
    Read tensors by name from files: safetensors, or NumPy's npz.

    Parameters
    ----------
    path : str or path
        Name of a file that ends with ``.safetensors`` or ``.npz``, or of the index of several
        files of safetensors, which ends with ``.safetensors.index.json``.

    Returns
    -------
    dict of ndarray
        Tensors by name.

    Raises
    ------
    OSError
        If the file cannot be read.
    TypeError
        If `path` is not a path.
    ValueError
        If the name ends otherwise, or the file is damaged, or holds objects of Python.

    See Also
    --------
    from_state_dict : Makes parameters of the tensors.
    dlref.transformer.load_params : Reads files that dlref itself has saved.

    Notes
    -----
    Nothing is unpickled: a file from a stranger cannot run code. For the same reason PyTorch's
    own files (``.pt``, ``.bin``) are not read; PyTorch does that, with
    ``torch.load(path, weights_only=True)``.

    Files of safetensors are read with NumPy alone; only tensors of bfloat16 and of eight bits need
    the package ml_dtypes. Members of a ``.npz`` may be compressed, but together take no more than
    64 times the file and 16 MB. Of a checkpoint in several files, the name of the index
    (``model.safetensors.index.json``) reads all of them from its folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dlref.interop import read_state_dict
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "layer.npz", **{"fc.weight": np.ones((1, 2))})
    ...     read_state_dict(Path(folder) / "layer.npz")
    {'fc.weight': array([[1., 1.]])}
    """
    tensors = in_file(path)
    return {key: np.asarray(value) for key, value in tensors.items()}


def in_file(path: Any) -> dict[str, Any]:
    """Return the tensors of a file; tensors of a safetensors file are read on demand."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        msg = f"Argument 'path' must be the name of a file, not {shown(path)}."
        raise TypeError(msg) from None
    mode = os.stat(name).st_mode if os.path.exists(name) else 0
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
        msg = f"Argument 'path' must be the name of a file, not of {shown(name)}."
        raise ValueError(msg)  # a pipe would never end, and neither would a device
    if name.endswith(".npz"):
        return _read_npz(name)
    if name.endswith((".safetensors", ".safetensors.index.json")):
        return _safetensors(name)
    known = "'.safetensors', '.safetensors.index.json' or '.npz'"
    msg = f"Argument 'path' must end with {known}, not {shown(name)}."
    raise ValueError(msg)


def _unreadable(name: str, error: Exception) -> ValueError:
    return ValueError(f"Argument 'path' must be a file of tensors, not {shown(name)}: {error}.")


def _read_npz(name: str) -> State:
    try:
        with open(name, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                msg = "it is one array, as np.save writes"
                raise TypeError(msg)
            archive = zipfile.ZipFile(file)
            members = members_of(archive, os.fstat(file.fileno()).st_size, compressed=True)
            return {key: read_array(key, archive, info) for key, info in members.items()}
    except UNREADABLE as error:
        raise _unreadable(name, error) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to before the beginning
            raise
        raise _unreadable(name, error) from None


def _safetensors(name: str) -> dict[str, InFile]:
    try:
        return tensors_of_index(name) if name.endswith(".json") else tensors_of(name)
    except UNREADABLE as error:
        raise _unreadable(name, error) from None
