"""
Small models of characters for ``trained_pieces``: their parts, and how the parts are connected.

Everything is a pair: a value, and a function that takes its gradient and returns the gradients of
the inputs. A model is a function of parameters and tokens that returns logits, a list with one
array for each head, and such a function.
"""

from typing import Any, NamedTuple

import numpy as np

from dlref.attention import (
    AttentionParams,
    LatentAttentionParams,
    latent_attention,
    latent_attention_vjp,
    multi_head_attention,
    multi_head_attention_vjp,
    scaled_dot_product_attention,
    scaled_dot_product_attention_vjp,
)
from dlref.calculus import einsum_vjp
from dlref.neurons import embedding_vjp
from dlref.normalization import rms_norm, rms_norm_vjp, sinkhorn, sinkhorn_vjp
from dlref.positions import rope_frequencies, rope_tables
from dlref.training import tree_map
from dlref.transformer import GatedFeedForwardParams, gated_feed_forward, gated_feed_forward_vjp

HEADS, STREAMS = 4, 4


class Block(NamedTuple):
    """Parameters of a pre-norm block."""

    norm1: Any
    attention: Any
    norm2: Any
    network: GatedFeedForwardParams


class Model(NamedTuple):
    """Parameters of a model; `connections` has a tuple of arrays for each block, or is empty."""

    embedding: Any
    blocks: tuple[Block, ...]
    connections: tuple[Any, ...]
    heads: tuple[Block, ...]
    norm: Any


def matrix(rng, rows, columns, scale=1.0):
    return (scale * rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float32)


def draw_block(rng, D, attention, depth):
    """Return the parameters of a block; its outputs are scaled down by the depth of the model."""
    ones, out = np.ones(D, np.float32), 1 / np.sqrt(2 * depth)
    network = matrix(rng, 2 * D, D), matrix(rng, 2 * D, D), matrix(rng, D, 2 * D, out)
    return Block(ones, attention(rng, D, out), ones, GatedFeedForwardParams(*network))


def heads_of_keys(count):
    """Return a function that draws attention with so many heads of keys and values."""

    def attention(rng, D, out):
        rows = D, count * D // HEADS, count * D // HEADS
        return AttentionParams(*(matrix(rng, n, D) for n in rows), matrix(rng, D, D, out))

    return attention


def latents(width, rotated):
    """Return a function that draws latent attention with latents and shared keys of such widths."""

    def attention(rng, D, out):
        E = D // HEADS
        return LatentAttentionParams(
            None, None, matrix(rng, HEADS * (E + rotated), D), matrix(rng, width + rotated, D),
            np.ones(width, np.float32), matrix(rng, D, width), matrix(rng, D, width),
            matrix(rng, D, D, out),
        )  # fmt: skip

    return attention


def draw(rng, vocabulary, D, depth, *, attention=None, connect=None, heads=0):
    """Return the parameters of a model; further heads have a block each, and so has the first."""
    attention = attention or heads_of_keys(HEADS)
    embedding = (0.02 * rng.normal(size=(vocabulary, D))).astype(np.float32)
    blocks, more = (
        tuple(draw_block(rng, D, attention, depth) for _ in range(count))
        for count in (depth, heads)
    )
    connections = tuple(connect(k, D) for k in range(depth + 1)) if connect else ()
    return Model(embedding, blocks, connections, more, np.ones(D, np.float32))


def add(a, b):
    return tree_map(lambda x, y: x + y, a, b)


# The parts


def attend(x, p, lender=None):
    """Return attention over the tokens; a lender has the tokens and weights of keys and values."""
    E = len(p.w_dkv) - p.w_uk.shape[1] if is_latent(p) else len(p.w_q) // HEADS
    rope = rope_tables(np.arange(x.shape[-2]), rope_frequencies(E))
    rope = tuple(table.astype(x.dtype) for table in rope)
    if is_latent(p):
        options = {"num_heads": HEADS, "rope": rope}
        return latent_attention(x, p, **options), lambda u: (
            *latent_attention_vjp(u, x, p, **options), None, None,
        )  # fmt: skip
    source, weights = lender or (x, p)
    both = p._replace(w_k=weights.w_k, w_v=weights.w_v)
    count = len(both.w_k) // E
    options = {"num_heads": HEADS, "num_kv_heads": count, "rope": rope, "is_causal": True}

    def back(u):
        dx, dsource, dp = multi_head_attention_vjp(u, x, source, both, **options)
        if lender is None:
            return dx + dsource, dp, None, None
        own = dp._replace(w_k=np.zeros_like(p.w_k), w_v=np.zeros_like(p.w_v))
        return dx, own, dsource, dp._replace(w_q=0 * dp.w_q, w_o=0 * dp.w_o)

    return multi_head_attention(x, source, both, **options), back


def is_latent(p):
    return isinstance(p, LatentAttentionParams)


def block(x, p, lender=None):
    """
    Return the outputs of a block, its normalized inputs, and the backward pass.

    That takes the gradient of the outputs and, if other blocks borrowed keys and values, the
    gradients that they returned; it returns the gradients of the inputs, of the parameters, and
    of the keys and values that it borrowed.
    """
    n = rms_norm(x, p.norm1)
    a, back = attend(n, p.attention, lender)
    y = x + a
    m = rms_norm(y, p.norm2)

    def pullback(u, lent=None):
        dm, dnetwork = gated_feed_forward_vjp(u, m, p.network)
        dy, dnorm2 = rms_norm_vjp(dm, y, p.norm2)
        dy = dy + u
        dn, dattention, dsource, dlent = back(dy)
        if lent:
            dn, dattention = dn + lent[0], add(dattention, lent[1])
        dx, dnorm1 = rms_norm_vjp(dn, x, p.norm1)
        return dx + dy, Block(dnorm1, dattention, dnorm2, dnetwork), (dsource, dlent)

    return y + gated_feed_forward(m, p.network), n, pullback


# How blocks are connected


def chain(x, p, share=1):
    """Return the outputs of blocks in a row; `share` of them use the keys of the first of them."""
    backs, lender = [], None
    for k, params in enumerate(p.blocks):
        x, n, back = block(x, params, lender if k % share else None)
        if k % share == 0:
            lender = n, params.attention
        backs.append(back)

    def pullback(u):
        grads, lent = [], None
        for k in reversed(range(len(backs))):
            u, grad, borrowed = backs[k](u, None if k % share else lent)
            grads.insert(0, grad)
            if k % share == 0:
                lent = None
            elif lent is None:
                lent = borrowed
            else:
                lent = add(lent, borrowed)
        return u, tuple(grads), ()

    return x, pullback


def hyper(mix, mix_vjp):
    """Return the model whose streams are mixed by a function of a learned matrix."""

    def connected(x, p):
        streams, backs = np.stack([x] * STREAMS), []
        for params, (scores, read, write) in zip(p.blocks, p.connections[:-1], strict=True):
            P, before = mix(scores), streams
            mean = np.einsum("i,ibtd->btd", read, streams)
            y, _, back = block(mean, params)
            out = y - mean
            streams = np.einsum("ij,jbtd->ibtd", P, streams) + np.einsum("i,btd->ibtd", write, out)
            backs.append((back, P, before, out, scores, read, write))

        def pullback(u):
            u = np.stack([u / STREAMS] * STREAMS)
            grads, learned = [], [tree_map(np.zeros_like, p.connections[-1])]
            for back, P, before, out, scores, read, write in reversed(backs):
                dP, du = einsum_vjp(u, P, before, subscripts="ij,jbtd->ibtd")
                dwrite, dout = einsum_vjp(u, write, out, subscripts="i,btd->ibtd")
                dmean, grad, _ = back(dout)
                dread, more = einsum_vjp(dmean - dout, read, before, subscripts="i,ibtd->btd")
                u = du + more
                grads.insert(0, grad)
                learned.insert(0, (mix_vjp(dP, scores), dread, dwrite))
            return u.sum(0), tuple(grads), tuple(learned)

        return streams.mean(0), pullback

    return connected


def draw_streams(scores):
    """Return a function that draws connections: a matrix, one stream to read, all to write."""

    def connect(k, _D):
        parts = scores * np.eye(STREAMS), np.eye(STREAMS)[k % STREAMS], np.ones(STREAMS)
        return tuple(part.astype(np.float32) for part in parts)

    return connect


def over_depth(x, p):
    """Return the outputs of blocks whose input is an average over the outputs before, by scores."""
    D, outputs, backs = x.shape[-1], [x], []

    def mean(query, weight):
        v = np.stack(outputs, -2)  # for each token, a row for each output
        k = rms_norm(v, weight)
        q = np.broadcast_to(query, (*x.shape[:-1], 1, D))
        return v, k, scaled_dot_product_attention(q, k, v, scale=1.0)[..., 0, :]

    def mean_back(u, query, weight, v, k):
        q = np.broadcast_to(query, (*x.shape[:-1], 1, D))
        dq, dk, dv = scaled_dot_product_attention_vjp(u[..., None, :], q, k, v, scale=1.0)
        more, dweight = rms_norm_vjp(dk, v, weight)
        return dv + more, (dq.reshape(-1, D).sum(0), dweight)

    for params, learned in zip(p.blocks, p.connections[:-1], strict=True):
        v, k, h = mean(*learned)
        y, _, back = block(h, params)
        outputs.append(y - h)
        backs.append((back, v, k))
    v, k, out = mean(*p.connections[-1])

    def pullback(u):
        dv, grad = mean_back(u, *p.connections[-1], v, k)
        grads, learned = [], [grad]
        for (back, v_k, k_k), given in zip(
            reversed(backs), reversed(p.connections[:-1]), strict=True
        ):
            u, before = dv[..., -1, :], dv[..., :-1, :]
            dh, grad, _ = back(u)
            dv, own = mean_back(dh - u, *given, v_k, k_k)
            dv = dv + before
            grads.insert(0, grad)
            learned.insert(0, own)
        return dv[..., 0, :], tuple(grads), tuple(learned)

    return out, pullback


def draw_queries(_k, D):
    return np.zeros(D, np.float32), np.ones(D, np.float32)


# Whole models


def model(tokens, p, connected=chain):
    """Return the logits of each head, and the backward pass."""
    x, back = connected(p.embedding[tokens], p)
    ends = [block(x, head) for head in p.heads] or [(x, None, None)]
    normed = [rms_norm(y, p.norm) for y, *_ in ends]
    logits = [n @ p.embedding.T for n in normed]

    def pullback(us):
        dx, dtable, dnorm, dheads = 0, 0, 0, []
        for u, n, (y, _, head_back) in zip(us, normed, ends, strict=True):
            dtable = dtable + np.einsum("btv,btd->vd", u, n, optimize=True)
            dy, own = rms_norm_vjp(u @ p.embedding, y, p.norm)
            dnorm = dnorm + own
            if head_back:
                dy, grad, _ = head_back(dy)
                dheads.append(grad)
            dx = dx + dy
        dx, grads, learned = back(dx)
        dtable = dtable + embedding_vjp(dx, p.embedding, tokens)
        return Model(dtable, grads, learned, tuple(dheads), dnorm)

    return logits, pullback


def sinkhorn_few(scores):
    return sinkhorn(scores, steps=10)


def sinkhorn_few_vjp(u, scores):
    return sinkhorn_vjp(u, scores, steps=10)


free_streams = hyper(lambda scores: scores, lambda u, _scores: u)
doubly_stochastic_streams = hyper(sinkhorn_few, sinkhorn_few_vjp)
