r"""The trace of a model that stays in its files: a layer at a time, a few rows at a time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arguments import (
    as_floats,
    as_integers,
    check_callable,
    check_mapping,
    check_ndim,
    check_range,
    check_shape,
    choice,
    shown,
)
from ..check._tracing.blocks import block_steps
from ..check._tracing.mistakes import block_mistakes
from ..check._tracing.models import (
    Trace,
    add_head,
    embed,
    embed_mistakes,
    last_mistakes,
    last_norm,
    of_config,
)
from ..transformer import LanguageModelParams
from ._decoders import KIN
from ._families import prepare, sizes_of
from ._like_gpt2 import LIKE_GPT2
from ._on_demand import OnDemand, refer
from ._settings import family_of
from ._state_dicts import in_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._core.arguments import FloatArray, FloatDType
    from ..check._tracing.common import Mistakes, Options
    from ..check._tracing.models import Change, IsMade

DECODERS = ("gpt2", "llama", *LIKE_GPT2, *KIN)
#: Files of a folder, the first one that is there.
NAMES = ("model.safetensors.index.json", "model.safetensors")
#: Names of a layer's tensors begin so.
LAYER = re.compile(r"(?:\w+\.)*?(?:layers|h|blocks)\.(\d+)\.")


class _Checkpoint:
    """The tensors and the configuration of a decoder, and the arrays that one part needs."""

    def __init__(self, path: Any, config: Mapping[str, Any] | None) -> None:
        name, config = _files(path, config)
        self.kind = family_of(config)
        choice("config.model_type", self.kind, DECODERS)
        prepared = prepare(in_file(name), self.kind, config, "")
        self.named, self.family, self.config, self.base, _ = prepared
        self.layout = self.family.layout(self.config, self.base)

    def _named(self, number: int | None) -> dict[str, Any]:
        """Return the tensors of a layer, or those outside of all layers."""
        matches = ((LAYER.match(name), name) for name in self.named)
        own = [name for m, name in matches if (int(m[1]) if m else None) == number]
        return {name: self.named[name] for name in own}

    def block(self, number: int, x: FloatArray) -> tuple[FloatArray, Any]:
        """Return the input of a block and its parameters, of one dtype."""
        there = self.family.apart(self._named(number), self.config, self.base)
        own = sizes_of(self.config)
        dtype, p = refer(self.layout.blocks[number], there, self.kind, own, x.dtype)
        return x.astype(dtype), p

    def outside(self, dtype: Any, *fields: str) -> tuple[FloatDType, LanguageModelParams]:
        """Return a dtype and parameters outside of the blocks, None for all others."""
        layout = LanguageModelParams(None, None, (), None, None)  # type: ignore[arg-type]
        layout = layout._replace(**{field: getattr(self.layout, field) for field in fields})
        return refer(layout, self._named(None), self.kind, sizes_of(self.config), dtype)


def _files(path: Any, config: Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the file of tensors or of their index, and the configuration."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        msg = f"Argument 'path' must be the name of a folder or a file, not {shown(path)}."
        raise TypeError(msg) from None
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    if os.path.isdir(name):
        there = [n for n in NAMES if os.path.exists(os.path.join(name, n))]
        if not there:
            msg = f"Argument 'path' must be a folder with {' or '.join(NAMES)}, not {shown(name)}."
            raise ValueError(msg)
        name = os.path.join(name, there[0])
    if config is None:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    check_mapping("config", config)
    return name, config


def trace_checkpoint(
    path: str | os.PathLike[str],
    tokens: npt.ArrayLike,
    *,
    layers: Iterable[int] | None = None,
    given: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] | None = None,
) -> dict[str, FloatArray]:
    r"""
    Trace layers of a pretrained model that is too large for the memory.

    Parameters
    ----------
    path : str or path
        Folder with ``model.safetensors.index.json`` or ``model.safetensors``, or the name of such
        a file.
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1, at positions 0 to T − 1.
    layers : iterable of int or None
        The layers to trace, counted from 0; None is all K of them.
    given : dict of array_like or None
        Activations of the implementation that is judged, by the names of
        :func:`~dlref.check.trace`. Where ``blocks.39.out`` is among them, layer 40 begins with
        it, else with the output of the layer before, which is then computed.
    config : dict or None
        Configuration of the model; None reads ``config.json`` in the same folder.
    progress : callable or None
        Wraps the list of layers, as ``tqdm.tqdm`` does to show a progress bar.

    Returns
    -------
    dict of ndarray
        The steps of these layers, for :func:`~dlref.check.first_difference`, which passes over the
        other's steps of layers that are not traced, and over those that were given. Layer 0 comes
        with the embeddings before it, the last layer with the last norm and the logits. They are
        computed in float64 if the tensors or the given activations are in float64, else in float32.

    Raises
    ------
    OSError
        If a file that is needed cannot be read.
    TypeError
        If an argument has the wrong type.
    ValueError
        If the model is not a decoder of :func:`from_state_dict`, or its configuration asks for
        something that dlref cannot express; if a tensor is missing or of the wrong shape, a token
        or layer out of range, or a given activation of the wrong shape.

    See Also
    --------
    from_state_dict : All parameters of a model that fits into memory.
    dlref.check.trace : The names of the steps.
    dlref.check.first_difference : Where another implementation departs from them.

    Notes
    -----
    A tensor is read only when it is used: the rows of the embeddings that belong to the tokens,
    then, for each layer, one matrix after the other. A matrix W is never in memory as a whole. The
    product with its rows is computed some rows at a time, which gives the same numbers.

    Three kinds of matrices are held as a whole: fused ones, transposed ones (GPT-2), and the
    experts of the layer. Files without a tensor that is needed may be missing.

    With all inputs given, an error of a layer does not reach the next one: each layer is judged
    by itself. :func:`~dlref.check.first_difference` looks for a cause by running the layer with
    known mistakes, for some of which it reads a matrix as a whole. The parameters of other layers
    are not among the mistakes that it tries.

    Examples
    --------
    A layer of a large model against the activations of a port, named as by
    :func:`~dlref.check.trace`::

        steps = trace_checkpoint("llama-70b", tokens, layers=[40], given=activations)
        print(first_difference(steps, activations))

    The second block of a small file:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dlref.interop import to_state_dict, trace_checkpoint
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> config = LanguageModelConfig(9, 8, 2, num_layers=2, positions="learned", length=5)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> settings = {"model_type": "gpt2", "vocab_size": 9, "n_positions": 5}
    >>> settings |= {"n_embd": 8, "n_head": 2, "n_layer": 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "model.npz", **to_state_dict(params, "gpt2", config))
    ...     path = Path(folder) / "model.npz"
    ...     steps = trace_checkpoint(path, [1, 2, 3], layers=[1], config=settings)
    >>> list(steps)[0], list(steps)[-1]
    ('blocks.1.norm1', 'logits')
    """
    if progress is not None:
        check_callable("progress", progress)
    model = _Checkpoint(path, config)
    ids, count = as_integers("tokens", tokens), model.config.num_layers
    check_ndim("tokens", ids, 1)
    check_range("tokens", ids, model.config.vocab_size)
    wanted = as_integers("layers", list(range(count) if layers is None else layers))
    check_range("layers", wanted, count)
    arrays = _inputs(given, (*ids.shape, model.config.d_model), count)
    run = partial(_run, model, ids, {int(i) for i in wanted}, arrays)

    def changed(change: Change, is_made: IsMade) -> Trace:
        return run(Trace(change, is_made))

    trace = run(Trace(), progress)
    trace.changed = changed
    return trace


def _inputs(
    given: Mapping[str, Any] | None, shape: tuple[int, ...], count: int
) -> dict[int, FloatArray]:
    """Return the given inputs of layers, by number."""
    arrays = {}
    if given is not None:
        check_mapping("given", given)
    for i in range(1, count):
        name = f"blocks.{i - 1}.out"
        if given is not None and name in given:
            _, [array] = as_floats({f"given[{name!r}]": given[name]}, work=np.float32)
            check_shape(f"given[{name!r}]", array, shape)
            arrays[i] = array
    return arrays


def _run(
    model: _Checkpoint,
    ids: Any,
    wanted: set[int],
    given: dict[int, FloatArray],
    trace: Trace,
    progress: Any = None,
) -> Trace:
    """Add the steps of the layers that are wanted; run those before them where it is necessary."""
    order = _order(wanted, given)
    trace.blocks, x = wanted, np.empty(0, np.float32)
    for i in order if progress is None else progress(order):
        into = trace if i in wanted else Trace()
        if i in given:
            x = into.last = into[f"blocks.{i - 1}.out"] = given[i].copy()
            into.given.add(f"blocks.{i - 1}.out")
        elif i == 0:
            x = _add_embeddings(into, model, ids)
        x, p = model.block(i, x)
        each = of_config(model.config, None, x, causal=True)
        x = into.add(f"blocks.{i}.", block_steps, _mistakes(each), x, p, each[i])
    if model.config.num_layers - 1 in wanted:
        _add_end(trace, model, x)
    return trace


def _order(wanted: set[int], given: Mapping[int, Any]) -> list[int]:
    """Return the layers that have to run, in order."""
    layers: set[int] = set()
    for layer in wanted:
        first = next((i for i in range(layer, 0, -1) if i in given), 0)
        layers |= {*range(first, layer + 1)}
    return sorted(layers)


def _mistakes(each: list[Options]) -> Callable[[Any, Options], Mistakes]:
    """Return the mistakes of a block, with the options of another one, too."""

    def wrong(p: Any, o: Options) -> Mistakes:
        yield from block_mistakes(p, o)
        own = next(i for i, other in enumerate(each) if other is o)
        others = {id(each[j]): j for j in range(len(each) - 1, -1, -1)}
        for j in others.values():
            if each[j] is not o and each[j].get("delta_heads") == each[own].get("delta_heads"):
                yield f"the block has the options of block {j}", p, each[j]

    return wrong


def _add_embeddings(trace: Trace, model: _Checkpoint, ids: Any) -> Any:
    """Add the steps before the blocks: only the rows of the tokens are read."""
    _, p = model.outside(np.float32, "embedding", "positions", "embedding_in")
    numbers, places = np.unique(ids, return_inverse=True)
    table = p.embedding
    rows = table.rows_of(numbers) if isinstance(table, OnDemand) else table[numbers]
    p, places = p._replace(embedding=rows), places.reshape(ids.shape)
    if p.positions is not None:
        p = p._replace(positions=np.asarray(p.positions))
    wrong = partial(embed_mistakes, ids.shape[-1])
    return trace.add("", embed, wrong, places, p, model.config)


def _add_end(trace: Trace, model: _Checkpoint, x: FloatArray) -> None:
    """Add the last norm and the logits."""
    head = "embedding" if model.config.tied else "head"
    dtype, p = model.outside(x.dtype, "norm", head, "embedding_out")
    x = x.astype(dtype)
    o = of_config(model.config, None, x, causal=True)[-1]
    if p.norm is not None:  # where norms come after the sums, there is none
        x = trace.add("", last_norm, last_mistakes, x, p.norm, o)
    add_head(trace, x, p, model.config)
