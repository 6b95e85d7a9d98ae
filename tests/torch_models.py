"""
GPT-2-like and LLaMA-like models in plain PyTorch, as their papers and codes have them.

Written from those, not from dlref: fused projections by einsum, rotations by complex numbers.
`gradients` gives the loss and the gradient of every parameter, in the structure of dlref's.
"""

import peers
import trees


def gradients(model, params, tokens, *options):
    """Return logits, loss and gradients of the mean next-token cross-entropy."""
    torch = peers.torch
    tensors = trees.mapped(
        lambda a: torch.tensor(a, dtype=torch.float64, requires_grad=True), params
    )
    ids = torch.tensor(tokens)
    logits = model(tensors, ids, *options)
    loss = torch.nn.functional.cross_entropy(
        logits[..., :-1, :].reshape(-1, logits.shape[-1]), ids[..., 1:].reshape(-1)
    )
    found = torch.autograd.grad(loss, flat(tensors))
    grads = trees.filled(params, [g.numpy() for g in found])
    return logits.detach().numpy(), loss.item(), grads


def flat(tree):
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in flat(entry)]
    return [] if tree is None else [tree]


def gpt2(p, ids, heads):
    torch = peers.torch
    functional = torch.nn.functional
    x = p.embedding[ids] + p.positions[torch.arange(ids.shape[-1])]
    for block in p.blocks:
        a = block.attention
        z = functional.layer_norm(x, x.shape[-1:], block.norm1.weight, block.norm1.bias, 1e-5)
        fma = functional.linear(
            z, torch.cat([a.w_q, a.w_k, a.w_v]), torch.cat([a.b_q, a.b_k, a.b_v])
        )
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in fma.chunk(3, dim=-1))
        scores = torch.einsum("bhie,bhje->bhij", q, k) * q.shape[-1] ** -0.5
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
        x = x + functional.linear(
            torch.einsum("bhij,bhje->bihe", weights, v).flatten(-2), a.w_o, a.b_o
        )
        z = functional.layer_norm(x, x.shape[-1:], block.norm2.weight, block.norm2.bias, 1e-5)
        n = block.feed_forward
        x = x + functional.linear(functional.gelu(functional.linear(z, n.w1, n.b1)), n.w2, n.b2)
    x = functional.layer_norm(x, x.shape[-1:], p.norm.weight, p.norm.bias, 1e-5)
    return x @ p.embedding.T


def rms_norm(x, weight, eps):
    return x * peers.torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotated(x):
    """Rotate neighboring channels, as complex numbers: LLaMA's own code."""
    torch = peers.torch
    T, E = x.shape[-2:]
    theta = 10000.0 ** (-torch.arange(0, E, 2, dtype=torch.float64) / E)
    angles = torch.outer(torch.arange(T, dtype=torch.float64), theta)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2)


def llama(p, ids, heads, kv_heads, eps):
    torch = peers.torch
    functional = torch.nn.functional
    x = p.embedding[ids]
    for block in p.blocks:
        a = block.attention
        z = rms_norm(x, block.norm1.weight, eps)
        q = rotated((z @ a.w_q.T).unflatten(-1, (heads, -1)).transpose(1, 2))
        k = rotated((z @ a.w_k.T).unflatten(-1, (kv_heads, -1)).transpose(1, 2))
        v = (z @ a.w_v.T).unflatten(-1, (kv_heads, -1)).transpose(1, 2)
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + out.transpose(1, 2).flatten(-2) @ a.w_o.T
        z = rms_norm(x, block.norm2.weight, eps)
        n = block.feed_forward
        x = x + (functional.silu(z @ n.w_gate.T) * (z @ n.w_up.T)) @ n.w_down.T
    return rms_norm(x, p.norm.weight, eps) @ p.head.T
