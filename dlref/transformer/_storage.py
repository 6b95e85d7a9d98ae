r"""Models on disk: the arrays and their structure in one file that holds no code."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._core.archives import NUMBERS, UNREADABLE, members_of, placeholder, read_array
from .._core.arguments import (
    as_array,
    as_integer,
    check_keys,
    check_mapping,
    choice,
    shown,
)
from ..attention import AttentionParams, LatentAttentionParams
from ._configuration import LanguageModelConfig, check_config
from ._model import as_model, check_model
from ._params import (
    DecoderBlockParams,
    EncoderBlockParams,
    EncoderDecoderParams,
    ExpertParams,
    FeedForwardParams,
    GatedDeltaParams,
    GatedFeedForwardParams,
    LanguageModelParams,
    MixtureParams,
    NormParams,
    SequenceClassifierParams,
)

VERSION = 1  #: raised when files change so that older code cannot read them
MANIFEST = "manifest"
MANIFEST_LIMIT = 2**22  # characters, of four bytes: so many describe 30,000 arrays
DEPTH = 64  # of nested tuples
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]')  # strings, which may hold brackets, and brackets
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        AttentionParams,
        DecoderBlockParams,
        EncoderBlockParams,
        EncoderDecoderParams,
        ExpertParams,
        FeedForwardParams,
        GatedDeltaParams,
        GatedFeedForwardParams,
        LanguageModelParams,
        LatentAttentionParams,
        MixtureParams,
        NormParams,
        SequenceClassifierParams,
    )
}
MODELS = EncoderDecoderParams, LanguageModelParams, SequenceClassifierParams

# The structure as JSON, and back.


def _described(tree: Any, path: str, arrays: dict[str, Any]) -> Any:
    """Return the structure as JSON knows it, and put the arrays aside under their paths."""
    if tree is None:
        return None
    if not isinstance(tree, tuple):
        array = as_array(path, tree)
        if not NUMBERS.fullmatch(array.dtype.str):
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
    if path.count(".") > DEPTH:
        msg = f"Argument {path[:20]!r} must be nested at most {DEPTH} deep."
        raise ValueError(msg)
    entries = [_described(entry, f"{path}.{i}", arrays) for i, entry in enumerate(tree)]
    return {"kind": "tuple", "entries": entries}


def _restored(node: Any, path: str, arrays: dict[str, Any]) -> Any:
    """Return the tree that `node` describes; its arrays are taken out of `arrays`."""
    if node is None:
        return None
    if isinstance(node, str):
        choice(path, node, (path,))
        if path not in arrays:
            msg = f"Argument 'archive' must have the array {path!r}, not only others."
            raise ValueError(msg)
        return arrays.pop(path)
    check_mapping(path, node)
    check_keys(path, node, {"kind", "entries"}, set())
    kind, parts = node["kind"], node["entries"]
    choice(f"{path}.kind", kind, ("tuple", *KINDS))
    if not isinstance(parts, list):
        msg = f"Argument '{path}.entries' must be a list, not {parts!r:.80}."
        raise TypeError(msg)
    names = range(len(parts)) if kind == "tuple" else KINDS[kind]._fields
    if len(parts) != len(names):
        msg = f"Argument '{path}.entries' must be the {len(names)} of a {kind}, not {len(parts)}."
        raise ValueError(msg)
    entries = [_restored(p, f"{path}.{n}", arrays) for n, p in zip(names, parts, strict=True)]
    return tuple(entries) if kind == "tuple" else KINDS[kind](*entries)


def _check_shapes(params: Any, config: LanguageModelConfig | None) -> None:
    """Raise unless the parameters of a model fit its configuration."""
    if config is None:
        return
    if not isinstance(params, MODELS):
        kinds = ", ".join(kind.__name__ for kind in MODELS)
        msg = f"Argument 'params' must be one of {kinds} where there is a configuration."
        raise TypeError(msg)
    check_model("params", as_model(type(params), "params", params, config), config)


def _settings(config: LanguageModelConfig | None) -> Any:
    """Return a configuration as JSON knows it."""
    if config is None:
        return None
    check_config(config)
    plain = lambda value: value.tolist()  # noqa: E731
    try:
        return json.loads(json.dumps(asdict(config), default=plain, allow_nan=False))
    except (AttributeError, TypeError, ValueError):
        msg = f"Argument 'config' must hold finite numbers, strings and lists, not {shown(config)}."
        raise ValueError(msg) from None


# The archive.


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        msg = f"Argument 'manifest' must hold finite numbers, not {text:.40}."
        raise ValueError(msg)
    return number


def _check_depth(text: str) -> None:
    """Raise if brackets nest so deep that json would end the process, with a large stack."""
    depth = 0
    for token in TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > 4 * DEPTH:
            msg = f"Argument 'manifest' must be nested at most {4 * DEPTH} deep."
            raise ValueError(msg)


def _manifest(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Any:
    """Read the structure and the configuration."""
    if MANIFEST not in members:
        msg = f"Argument 'archive' must have the member {MANIFEST}.npy, not only others."
        raise ValueError(msg)
    info = members.pop(MANIFEST)
    if info.file_size > 4 * MANIFEST_LIMIT + 2**16:
        msg = f"Argument 'manifest' must have at most {MANIFEST_LIMIT} characters."
        raise ValueError(msg)
    text = read_array(MANIFEST, archive, info)
    if text.dtype.kind != "U" or text.ndim:
        msg = f"Argument 'manifest' must be a string, not {text.dtype} of shape {text.shape}."
        raise ValueError(msg)
    _check_depth(str(text))
    manifest = json.loads(str(text), parse_constant=_finite, parse_float=_finite)
    check_mapping("manifest", manifest)
    check_keys("manifest", manifest, {"format", "version", "params", "config"}, {"crc"})
    choice("manifest.format", manifest["format"], ("dlref",))
    as_integer("manifest.version", manifest["version"], least=1)
    return manifest


def _config(settings: Any) -> LanguageModelConfig | None:
    if settings is None:
        return None
    known = {entry.name for entry in fields(LanguageModelConfig)}
    check_mapping("config", settings)
    check_keys("config", settings, {"vocab_size", "d_model", "num_heads"}, known)
    return LanguageModelConfig(**settings)


def _read_entry(file: IO[bytes], name: str) -> tuple[Any, LanguageModelConfig | None]:
    with zipfile.ZipFile(file) as archive:
        members = members_of(archive, os.fstat(file.fileno()).st_size)
        manifest = _manifest(archive, members)
        if manifest["version"] > VERSION:
            msg = (
                f"Argument 'path' must be a file of version {VERSION} or older, not "
                f"{manifest['version']}: {name!r} needs a newer dlref."
            )
            raise ValueError(msg)
        config = _config(manifest["config"])
        crcs = {key: info.CRC for key, info in members.items()}
        if manifest.get("crc", crcs) != crcs:  # the first files had none
            msg = "Argument 'manifest.crc' must be the checksums of the arrays, not others."
            raise ValueError(msg)
        shapes = {key: placeholder(key, archive, info) for key, info in members.items()}
        _check_shapes(_restored(manifest["params"], "params", shapes), config)
        if shapes:
            msg = f"Argument 'archive' must have no other arrays, not {sorted(shapes)!r:.80}."
            raise ValueError(msg)
        arrays = {key: read_array(key, archive, info) for key, info in members.items()}
    return _restored(manifest["params"], "params", arrays), config


def _write(file: IO[bytes], arrays: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Write the arrays, then the manifest, which holds their checksums."""
    with zipfile.ZipFile(file, "w") as archive:

        def add(name: str, array: Any) -> int:
            info = zipfile.ZipInfo(f"{name}.npy")  # without the time: equal models, equal files
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
            return info.CRC

        crcs = {name: add(name, array) for name, array in arrays.items()}
        text = json.dumps(manifest | {"crc": crcs})
        if len(text) > MANIFEST_LIMIT:
            msg = f"Argument 'params' must have at most 30,000 arrays, not {len(arrays)}."
            raise ValueError(msg)
        add(MANIFEST, np.array(text))


# Files.


def _checked_path(path: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """Return the path with links followed, and the mode of the file there."""
    try:
        target = Path(os.path.realpath(os.fspath(path)))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target, None
    except (TypeError, ValueError):  # no path, or one with a null character
        msg = f"Argument 'path' must be the name of a file, not {shown(path)}."
        raise TypeError(msg) from None
    if not stat.S_ISREG(mode):
        msg = f"Argument 'path' must be the name of a file, not of {shown(str(path))}."
        raise ValueError(msg)
    return target, stat.S_IMODE(mode)


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def save_params(
    path: str | os.PathLike[str], params: Any, config: LanguageModelConfig | None = None
) -> None:
    r"""
    Write parameters, and the configuration they belong to, to a file.

    Parameters
    ----------
    path : str or path
        Name of the file. An existing file is replaced once all is written; its mode is kept, and a
        symbolic link is followed.
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
        If an array is neither integer nor float16, float32 or float64, a named tuple is none of
        this chapter's, `config` is not a configuration or `path` is not a path.
    ValueError
        If the parameters of a model do not have the shapes of `config`, `config` holds values that
        JSON cannot express, or `path` is a folder or a device.
    OSError
        If the file cannot be written.

    See Also
    --------
    load_params : Read it.

    Notes
    -----
    The file is NumPy's ``npz``: a zip archive with one ``npy`` file for each array, named after
    its place (``params.blocks.0.attention.w_q``), which other programs can read. One more,
    ``manifest``, holds the structure, the configuration, a version number and checksums as JSON.
    Nothing is pickled, and nothing in a file can run code when it is read.

    All is written to a new file in the same folder, brought to the disk, and renamed. A
    reader sees the old file or the new one, also if several processes save at once or one of them
    is interrupted.

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
    arrays: dict[str, Any] = {}
    tree = _described(params, "params", arrays)
    settings = _settings(config)
    manifest = {"format": "dlref", "version": VERSION, "params": tree, "config": settings}
    _check_shapes(_restored(tree, "params", dict(arrays)), config)
    target, mode = _checked_path(path)
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    new = lambda name, flags: os.open(name, flags, 0o666 if mode is None else mode)  # noqa: E731
    try:
        with open(part, "xb", opener=new) as file:  # only open() has an opener
            if mode is not None:
                part.chmod(mode)
            _write(file, arrays, manifest)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(target.parent)


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
    TypeError
        If `path` is not a path.
    ValueError
        If it was not written by :func:`save_params`, is damaged, or needs a newer version of dlref;
        if its parameters do not have the shapes of its configuration. The message names the
        file and its fault.

    See Also
    --------
    save_params : Write it, with an example of both.

    Notes
    -----
    Nothing is unpickled, and only the named tuples of this chapter are made. Sizes, names,
    dtypes and shapes are checked before memory is allocated, so that reading takes no more of it
    than the file is long, and every array has a checksum. A file from a stranger can be wrong, but
    not harmful; a damaged one is refused. Files of older versions stay readable.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dlref.transformer import load_params
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "model.npz").write_text("not a model") and None
    ...     load_params(Path(folder) / "model.npz")
    Traceback (most recent call last):
    ValueError: Argument 'path' must be a file written by save_params, not 'model.npz': 'archive'
    must be intact, which it is not (File is not a zip file).
    """
    target, name = _checked_path(path)[0], Path(path).name
    try:
        with target.open("rb") as file:
            return _read_entry(file, name)
    except UNREADABLE as error:
        reason = str(error)
        if reason.startswith("Argument 'path'"):
            raise
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to before the beginning
            raise
        reason = str(error)
    if not reason.startswith("Argument"):  # from zipfile or json
        reason = f"'archive' must be intact, which it is not ({reason})"
    reason = reason.removeprefix("Argument ").removesuffix(".")
    msg = f"Argument 'path' must be a file written by save_params, not {name!r}: {reason}."
    raise ValueError(msg)
