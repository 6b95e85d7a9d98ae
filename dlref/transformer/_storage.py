r"""Models on disk: the arrays and their structure in one file that holds no code."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validate import as_array
from ..attention import AttentionParams
from ._blocks import DecoderBlockParams, EncoderBlockParams, NormParams
from ._classifier import SequenceClassifierParams
from ._configuration import LanguageModelConfig, LanguageModelParams, check_config
from ._encoder_decoder import EncoderDecoderParams
from ._feed_forward import FeedForwardParams, GatedFeedForwardParams

if TYPE_CHECKING:
    import os

__all__ = ["load_params", "save_params"]

VERSION = 1  #: raised when files change so that older code cannot read them
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        AttentionParams,
        DecoderBlockParams,
        EncoderBlockParams,
        EncoderDecoderParams,
        FeedForwardParams,
        GatedFeedForwardParams,
        LanguageModelParams,
        NormParams,
        SequenceClassifierParams,
    )
}


def _described(tree: Any, path: str, arrays: dict[str, Any]) -> Any:
    """Return the structure as JSON knows it, and put the arrays aside under their paths."""
    if tree is None:
        return None
    if not isinstance(tree, tuple):
        array = as_array(path, tree)
        if array.dtype.kind not in "biuf" or array.dtype.name == "bfloat16":
            kinds = "integer, float16, float32 or float64"
            msg = f"Argument {path!r} must be {kinds}, not {array.dtype}."
            raise TypeError(msg)
        arrays[path] = array
        return path
    if hasattr(tree, "_fields"):
        kind = type(tree).__name__
        if KINDS.get(kind) is not type(tree):
            kinds = f"a tuple or one of {', '.join(sorted(KINDS))}"
            msg = f"Argument {path!r} must be {kinds}, not {kind}."
            raise TypeError(msg)
        names = tree._fields
        entries = [_described(e, f"{path}.{n}", arrays) for n, e in zip(names, tree, strict=True)]
        return {"kind": kind, "entries": entries}
    entries = [_described(entry, f"{path}.{i}", arrays) for i, entry in enumerate(tree)]
    return {"kind": "tuple", "entries": entries}


def _restored(node: Any, arrays: Any) -> Any:
    if node is None:
        return None
    if isinstance(node, str):
        return arrays[node]
    entries = [_restored(entry, arrays) for entry in node["entries"]]
    return tuple(entries) if node["kind"] == "tuple" else KINDS[node["kind"]](*entries)


def save_params(
    path: str | os.PathLike[str], params: Any, config: LanguageModelConfig | None = None
) -> None:
    r"""
    Write parameters, and the configuration they belong to, to a file.

    Parameters
    ----------
    path : str or path
        Name of the file. What was there is replaced once all is written.
    params : tuple
        Nested tuples and named tuples of this chapter, of arrays and None.
    config : LanguageModelConfig or None
        Configuration, to be kept with them.

    Returns
    -------
    None
        The file is the result.

    Raises
    ------
    TypeError
        If an array is neither integer nor of a floating-point type of NumPy, a named
        tuple is none of this chapter's, or `config` is no configuration.
    OSError
        If the file cannot be written.

    See Also
    --------
    load_params : Read it.

    Notes
    -----
    The file is NumPy's ``npz``: a zip archive with one ``npy`` file for each array, named after
    its place (``params.blocks.0.attention.w_q``), which other programs can read. One more,
    ``manifest``, holds the structure, the configuration and a version number as JSON.
    Nothing is pickled, and nothing in a file can run code when it is read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import load_params, save_params
    >>> config = LanguageModelConfig(9, 8, 2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_params(Path(folder) / "model.npz", params, config)
    ...     again, same = load_params(Path(folder) / "model.npz")
    >>> bool(np.all(again.blocks[1].feed_forward.w2 == params.blocks[1].feed_forward.w2))
    True
    >>> same == config
    True
    """
    if config is not None:
        check_config(config)
    arrays: dict[str, Any] = {}
    tree = _described(params, "params", arrays)
    settings = None if config is None else asdict(config)
    manifest = {"format": "dlref", "version": VERSION, "params": tree, "config": settings}
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            np.savez(file, manifest=np.array(json.dumps(manifest)), **arrays)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load_params(path: str | os.PathLike[str]) -> tuple[Any, LanguageModelConfig | None]:
    r"""
    Read parameters, and their configuration, from a file.

    Parameters
    ----------
    path : str or path
        Name of a file that :func:`save_params` wrote.

    Returns
    -------
    params : tuple
        Parameters, in the structure and dtypes in which they were saved.
    config : LanguageModelConfig or None
        Their configuration, if it was saved.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it was not written by :func:`save_params`, is damaged, or needs a newer version of dlref.

    See Also
    --------
    save_params : Write it, with an example of both.

    Notes
    -----
    Arrays are read with ``allow_pickle=False``, and only the named tuples of this chapter are made:
    a file from a stranger can be wrong, but not harmful. Files of older versions stay readable.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dlref.transformer import load_params
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "model.npz").write_text("not a model") and None
    ...     load_params(Path(folder) / "model.npz")
    Traceback (most recent call last):
    ValueError: Argument 'path' must be a file written by save_params, not 'model.npz'.
    """
    msg = f"Argument 'path' must be a file written by save_params, not {Path(path).name!r}."
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            manifest = json.loads(str(file["manifest"]))
            if manifest["format"] != "dlref":
                raise ValueError(msg)
            if manifest["version"] > VERSION:
                newer = (
                    f"Argument 'path' must be a file of version {VERSION} or older, not "
                    f"{manifest['version']}: it needs a newer dlref."
                )
                raise RuntimeError(newer)
            params = _restored(manifest["params"], file)
            settings = manifest["config"]
    except RuntimeError as error:
        raise ValueError(*error.args) from None
    except (ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
        raise ValueError(msg) from None
    return params, None if settings is None else LanguageModelConfig(**settings)
