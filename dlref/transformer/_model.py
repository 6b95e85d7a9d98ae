r"""Code shared by the models: a text that enters blocks, the head, checks of parameters."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integers,
    check_broadcast,
    check_ndim,
    check_range,
    check_shape,
)
from .._core.pytree import as_float_trees, as_tree_tangents, params_tangents, shaped_like
from .._math.dense import affine, affine_jvp, affine_vjp
from ..attention import padding_mask
from ..positions import learned_positions_vjp, t5_bias
from ._blocks import check_block, check_norm, sublayers
from ._configuration import (
    T5_BUCKETS,
    LanguageModelConfig,
    block_options,
    check_config,
    places,
    places_vjp,
)
from ._options import NO_CALL, Call, set_up_blocks
from ._padding import IGNORED
from ._params import (
    DecoderBlockParams,
    EncoderBlockParams,
    EncoderDecoderParams,
    LanguageModelParams,
    NormParams,
)
from ._stacks import Stack
from ._structure import as_block, as_norm, norm_fields

IntArray = npt.NDArray[np.int64]
Model = TypeVar("Model")

#: Fields of a model's parameters that are stacks, and the kind of their blocks.
STACKS = {
    "blocks": EncoderBlockParams,
    "encoder": EncoderBlockParams,
    "decoder": DecoderBlockParams,
}


# Checks.


def as_model(kind: type[Model], name: str, params: Any, config: LanguageModelConfig) -> Model:
    """Return the parameters as nested named tuples."""
    p: Any = shaped_like(kind, name, params)
    changed: dict[str, Any] = {}
    for field, entry in zip(p._fields, p, strict=True):
        path = f"{name}.{field}"
        if field in STACKS:
            option, count = "num_layers", config.num_layers
            if field == "decoder" and config.num_decoder_layers is not None:
                option, count = "num_decoder_layers", config.num_decoder_layers
            if not isinstance(entry, tuple) or len(entry) != count:
                got = len(entry) if isinstance(entry, tuple) else type(entry).__name__
                want = f"a tuple of {option} = {count}"
                msg = f"Argument {path!r} must be {want}, not {got}."
                raise ValueError(msg)
            changed[field] = tuple(
                as_block(STACKS[field], f"{path}[{i}]", block) for i, block in enumerate(entry)
            )
        elif field in norm_fields(kind) and entry is not None:
            changed[field] = as_norm(path, entry)
    return p._replace(**changed)  # type: ignore[no-any-return]


def check_model(name: str, p: Any, config: LanguageModelConfig) -> None:
    """Raise unless the shapes fit the configuration."""
    V, D = config.vocab_size, config.d_model
    each, C = block_options(config), config.embedding_dim or config.d_model
    shapes = {"embedding": (V, C), "head": (V, C), "class_token": (D,)}
    shapes |= {"embedding_in": (D, C), "embedding_out": (C, D)}
    _check_factors(name, p, config)
    for field, entry in zip(p._fields, p, strict=True):
        path = f"{name}.{field}"
        if field in STACKS:
            for i, block in enumerate(entry):
                check_block(f"{path}[{i}]", block, D, D, each[i])
        elif field.endswith("positions"):
            _check_table(path, entry, config)
        elif entry is None:
            continue
        elif isinstance(entry, NormParams):
            check_norm(path, entry, D, each[-1])
        elif field == "w_head":
            check_shape(path, entry, (*entry.shape[:1], D))
        elif field == "b_head":
            check_shape(path, entry, p.w_head.shape[:1])
        else:
            check_shape(path, entry, shapes[field])


def _check_factors(name: str, p: Any, config: LanguageModelConfig) -> None:
    """Raise unless there are matrices of embeddings exactly if they have a width of their own."""
    there = config.embedding_dim is not None
    if there and not hasattr(p, "embedding_in"):
        msg = f"Argument 'config.embedding_dim' must be None, not {config.embedding_dim}."
        raise ValueError(msg)
    for field in ("embedding_in", "embedding_out"):
        if (getattr(p, field, None) is not None) != there:
            want = "an array" if there else "None"
            why = f"as config.embedding_dim is {config.embedding_dim}"
            msg = f"Argument {f'{name}.{field}'!r} must be {want}, {why}."
            raise ValueError(msg)


def _check_table(name: str, table: FloatArray | None, config: LanguageModelConfig) -> None:
    """Raise unless the table of positions is the one of the scheme."""
    if config.positions == "t5":
        check_shape(name, np.asarray(table), (T5_BUCKETS, config.num_heads))
    elif config.positions == "learned":
        rows = 0 if table is None else len(np.atleast_1d(table))
        check_shape(name, np.asarray(table), (rows, config.d_model))
    elif table is not None:
        msg = f"Argument {name!r} must be None, as config.positions is {config.positions!r}."
        raise ValueError(msg)


def as_tokens(name: str, tokens: npt.ArrayLike, vocabulary: int) -> IntArray:
    """Return tokens as integers of (..., T)."""
    ids = as_integers(name, tokens)
    check_ndim(name, ids, 1)
    check_range(name, ids, vocabulary)
    return ids


def model_arguments(
    kind: type[Model],
    texts: dict[str, npt.ArrayLike],
    params: Any,
    config: LanguageModelConfig,
    **arrays: Any,
) -> tuple[Any, list[IntArray], Model, list[Any]]:
    """Return dtype, tokens, parameters and other arrays to compute with."""
    check_config(config)
    p = as_model(kind, "params", params, config)
    dtype, [p, *rest] = as_float_trees({"params": p, **arrays})
    check_model("params", p, config)
    return dtype, [as_tokens(n, t, config.vocab_size) for n, t in texts.items()], p, rest


def model_tangents(
    kind: type[Model],
    names: tuple[str, ...],
    primals: Any,
    tangents: Any,
    config: LanguageModelConfig,
) -> tuple[Any, list[IntArray], Model, Model]:
    """Return dtype, tokens, parameters and their tangents."""
    check_config(config)
    texts, p, dp = params_tangents(names, primals, tangents)
    p = as_model(kind, "primals.params", p, config)
    dtype, [p], [dp] = as_tree_tangents(("params",), p, dp)
    check_model("primals.params", p, config)
    ids = [
        as_tokens(f"primals.{n}", t, config.vocab_size) for n, t in zip(names, texts, strict=True)
    ]
    return dtype, ids, p, as_model(kind, "tangents.params", dp, config)


def next_tokens(
    name: str, tokens: npt.ArrayLike, targets: npt.ArrayLike | None
) -> tuple[IntArray, IntArray]:
    """Return inputs and the tokens they are to predict, by default the next ones."""
    ids = as_integers(name, tokens)
    check_ndim(name, ids, 1)
    if targets is not None:
        wanted = as_integers("targets", targets)
        check_shape("targets", wanted, ids.shape)
        return ids, wanted
    if ids.shape[-1] < 2:
        msg = f"Argument {name!r} must have at least 2 positions, not shape {ids.shape}."
        raise ValueError(msg)
    return ids[..., :-1], ids[..., 1:]


def check_predicted(
    name: str, targets: npt.ArrayLike | None, wanted: IntArray, vocabulary: int
) -> None:
    """Raise unless the tokens to predict, which `targets` or else `name` holds, are in range."""
    counted = wanted[wanted != IGNORED]
    check_range(name if targets is None else "targets", counted, vocabulary)


def length_mask(
    lengths: npt.ArrayLike | None, shape: tuple[int, ...], extra: int = 0
) -> npt.NDArray[np.bool_] | None:
    """Return the mask of texts of different lengths, with `extra` tokens before each."""
    if lengths is None:
        return None
    counts = as_integers("lengths", lengths)
    check_broadcast("lengths", counts.shape, shape[:-1])
    check_range("lengths", counts, shape[-1] + 1)
    return np.asarray(padding_mask(counts + extra, shape[-1] + extra))


class Dropout(NamedTuple):
    """Factors of dropout in a model, as the user gave them; None drops nothing."""

    sublayers: Any = None
    weights: Any = None
    embedding: Any = None

    def of_embedding(self, x: FloatArray) -> FloatArray:
        """Multiply the input of the first block, (..., T, D), or its cotangent, or its tangent."""
        if self.embedding is None:
            return x
        _, [factors] = as_floats({"embedding_dropout": self.embedding}, work=np.float32)
        check_broadcast("embedding_dropout", factors.shape, x.shape)
        return factors.astype(x.dtype, copy=False) * x


NO_DROPOUT = Dropout()


# Private functions compute in the dtype of the parameters and check nothing.


class Text(NamedTuple):
    """Tokens from position `start` on, and arrays that make the first block's input."""

    tokens: IntArray
    embedding: FloatArray
    table: FloatArray | None  # of positions
    config: LanguageModelConfig
    dropout: Dropout = NO_DROPOUT
    causal: bool = True
    start: int = 0
    class_token: FloatArray | None = None  # stands before the text
    projection: FloatArray | None = None  # of embeddings of another width

    @property
    def _length(self) -> int:
        return int(self.tokens.shape[-1]) + (self.class_token is not None)

    def _embedded(self, vectors: FloatArray | None) -> FloatArray:
        """Look the tokens up, and add the vectors of their positions."""
        x = self.embedding[self.tokens]
        x = x if self.projection is None else affine(x, self.projection)
        if self.class_token is not None:
            first = np.broadcast_to(self.class_token, (*x.shape[:-2], 1, x.shape[-1]))
            x = np.concatenate([first, x], axis=-2)
        with np.errstate(invalid="ignore"):  # a signaling NaN becomes a NaN
            if self.config.embedding_scale != 1:
                x *= x.dtype.type(self.config.embedding_scale)
            if vectors is not None:
                x += vectors
        return self.dropout.of_embedding(x)

    def enter(
        self, blocks: tuple[Any, ...], norm: NormParams | None, call: Call = NO_CALL
    ) -> tuple[FloatArray, Stack]:
        """Return the input of the first block, and the blocks with their options."""
        table, T, dtype = self.table, self._length, self.embedding.dtype
        where: Any = {"start": self.start, "causal": self.causal}
        there = places(self.config, table, T, dtype, **where)
        x = self._embedded(there.vectors)
        call = call._replace(
            bias=there.bias,
            q_offset=self.start,
            dropout=self.dropout.sublayers,
            attention_dropout=self.dropout.weights,
        )
        each = block_options(self.config, T, dtype, **where)
        count = len(sublayers(blocks[0])) if blocks else 0
        setups = set_up_blocks(each, call, len(blocks), count, x)
        return x, Stack(blocks, norm, setups, each[-1])

    def pullback(
        self, dx: FloatArray, dbias: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None, FloatArray, FloatArray | None]:
        """Return the gradients of embedding, table, the vector before the text and projection."""
        dx = self.dropout.of_embedding(dx)
        dtable = places_vjp(self.config, self.table, dx, dbias, causal=self.causal)
        if self.config.embedding_scale != 1:
            dx = dx * dx.dtype.type(self.config.embedding_scale)
        before = self._length - self.tokens.shape[-1]
        first = dx[..., :before, :].reshape(-1, self.config.d_model).sum(0)
        dx, dprojection = dx[..., before:, :], None
        if self.projection is not None:
            x = self.embedding[self.tokens]
            dx, dprojection, _ = affine_vjp(np.ascontiguousarray(dx), x, self.projection)
        dembedding = learned_positions_vjp(dx, self.embedding, self.tokens)
        return np.asarray(dembedding), dtable, first, dprojection

    def tangent(self, moved: Text, stack: Stack) -> tuple[FloatArray, Stack]:
        """Return the tangent of the input, and the blocks with the bias's tangent in `stack`."""
        table, T = moved.table, self._length
        v = moved._replace(projection=self.projection)._embedded(
            table[:T] if table is not None and self._adds else None
        )
        if self.projection is not None:
            v = v + self._replace(projection=moved.projection)._embedded(None)
        if self.config.positions != "t5" or table is None or not T:
            return v, stack
        dbias = np.asarray(t5_bias(table, T, T, bidirectional=not self.causal))
        return v, stack._replace(setups=[s._replace(dbias=dbias) for s in stack.setups])

    @property
    def _adds(self) -> bool:
        return self.config.positions == "learned"


WithHead = LanguageModelParams | EncoderDecoderParams


def _head(p: WithHead) -> FloatArray:
    return p.embedding if p.head is None else p.head


def _narrowing(p: WithHead) -> FloatArray | None:
    """Return the matrix to the width of the embeddings, if that is not the blocks'."""
    return getattr(p, "embedding_out", None)


def _narrowed(h: FloatArray, p: WithHead) -> FloatArray:
    out = _narrowing(p)
    return h if out is None else affine(h, out)


@np.errstate(all="ignore")
def logits_of(h: FloatArray, p: WithHead, config: LanguageModelConfig) -> FloatArray:
    """Return the logits, by the head or by the embeddings to which it is tied."""
    z = affine(_narrowed(h, p), _head(p))
    if config.logit_scale != 1:
        z *= z.dtype.type(config.logit_scale)
    cap = config.logit_softcap
    return z if cap is None else np.tanh(z / z.dtype.type(cap)) * z.dtype.type(cap)


@np.errstate(all="ignore")
def _scaled_as_logits(
    u: FloatArray, h: FloatArray, p: WithHead, config: LanguageModelConfig
) -> FloatArray:
    """Multiply by the derivative of the logits by the scores of the head."""
    if config.logit_scale != 1:
        u = u * u.dtype.type(config.logit_scale)
    if config.logit_softcap is None:
        return u
    t = logits_of(h, p, config) / u.dtype.type(config.logit_softcap)
    return u * ((1 - t) * (1 + t))


def logits_vjp(
    u: FloatArray, h: FloatArray, p: WithHead, config: LanguageModelConfig
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return the gradients of h, of the head and of the matrix before it."""
    du, out = _scaled_as_logits(u, h, p, config), _narrowing(p)
    dh, dhead, _ = affine_vjp(du, _narrowed(h, p), _head(p))
    if out is None:
        return dh, dhead, None
    dh, dout, _ = affine_vjp(dh, h, out)
    return dh, dhead, dout


def logits_tangent(
    h: FloatArray, dh: FloatArray, p: WithHead, dp: WithHead, config: LanguageModelConfig
) -> FloatArray:
    """Return the tangent of the logits."""
    dhead = dp.embedding if p.head is None else dp.head
    out = _narrowing(p)
    if out is not None:
        dh = affine_jvp((h, out, None), (dh, _narrowing(dp), None))
    moved = affine_jvp((_narrowed(h, p), _head(p), None), (dh, dhead, None))
    return _scaled_as_logits(moved, h, p, config)


def shared(
    p: WithHead, dembedding: FloatArray, dhead: FloatArray
) -> tuple[FloatArray, FloatArray | None]:
    """Return the gradients of embedding and head, one sum if they are tied."""
    return (dembedding + dhead, None) if p.head is None else (dembedding, dhead)
