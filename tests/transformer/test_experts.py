"""Mixtures of experts: PyTorch's autograd, the dense sum over all experts, and blocks of them."""

import numpy as np
import peers
import pytest
import trees

from dlref.formulas import transformer as formulas
from dlref.transformer import (
    BlockOptions,
    ExpertParams,
    GatedFeedForwardParams,
    MixtureParams,
    encoder_block,
    encoder_block_jvp,
    encoder_block_vjp,
    load_params,
    mixture_of_experts,
    mixture_of_experts_jvp,
    mixture_of_experts_vjp,
    save_params,
    top_k_router,
)

n, D, F = 6, 4, 5


def experts(rng, *, biases):
    shapes = (n, F, D), (n, F, D), (n, D, F), (n, F), (n, F), (n, D)
    arrays = [rng.normal(size=s) / np.sqrt(D) for s in shapes]
    return ExpertParams(*arrays) if biases else ExpertParams(*arrays[:3])


def shared_network(rng):
    return GatedFeedForwardParams(*(rng.normal(size=s) for s in ((F, D), (F, D), (D, F))))


KINDS = {
    "mixtral": {},
    "gpt-oss": {"limit": 0.5, "shift": 1.0, "beta": 1.702, "biases": True, "router_bias": True},
    "deepseek": {
        "score": "sigmoid", "correction": True, "groups": 3, "top_groups": 2, "scale": 2.5,
        "shared": True,
    },
    "qwen3-next": {"normalize": False, "shared": True, "shared_gate": True},
    "geglu": {"activation": "geglu", "k": 3},
}  # fmt: skip


def problem(rng, kind):
    """Return x, weight, params and options."""
    o = {"k": 2} | KINDS[kind]
    params = experts(rng, biases=o.pop("biases", False))
    for name, size in (("router_bias", n), ("correction", n)):
        if o.get(name):
            o[name] = 0.3 * rng.normal(size=size)
    if o.get("shared"):
        o["shared"] = shared_network(rng)
    if o.get("shared_gate"):
        o["shared_gate"] = rng.normal(size=(1, D))
    return rng.normal(size=(2, 7, D)), rng.normal(size=(n, D)), params, o


def chosen(x, weight, o):
    names = ("k", "score", "correction", "groups", "top_groups", "normalize", "scale")
    options = {name: o[name] for name in names if name in o}
    return top_k_router(x, weight, bias=o.get("router_bias"), **options).experts


def torch_mixture(at, x, weight, params, bias, shared, gate, o):
    """All experts for all tokens, in PyTorch, with the weights of those that were chosen."""
    torch = peers.torch
    z = x @ weight.T + (0.0 if bias is None else bias)
    s = torch.sigmoid(z) if o.get("score") == "sigmoid" else torch.softmax(z, -1)
    w = s.gather(-1, torch.tensor(at))
    w = w / w.sum(-1, keepdim=True) if o.get("normalize", True) else w
    w = torch.zeros_like(s).scatter(-1, torch.tensor(at), w * o.get("scale", 1.0))
    f = torch.nn.functional.gelu if o.get("activation") == "geglu" else None
    out = 0.0
    for e in range(n):
        own = [None if p is None else p[e] for p in params]
        g = x @ own[0].T + (0.0 if own[3] is None else own[3])
        u = x @ own[1].T + (0.0 if own[4] is None else own[4])
        if "limit" in o:
            g, u = g.clamp(max=o["limit"]), u.clamp(-o["limit"], o["limit"])
        opened = f(g) if f else g * torch.sigmoid(o.get("beta", 1.0) * g)
        y = (opened * (u + o.get("shift", 0.0))) @ own[2].T
        out = out + w[..., e : e + 1] * (y + (0.0 if own[5] is None else own[5]))
    if shared is not None:
        y = (torch.nn.functional.silu(x @ shared[0].T) * (x @ shared[1].T)) @ shared[2].T
        out = out + (y if gate is None else torch.sigmoid(x @ gate.T) * y)
    return out


@pytest.mark.parametrize("kind", KINDS)
class TestMixture:
    def test_against_pytorch(self, rng, assert_close, kind):
        torch = peers.torch
        x, weight, params, o = problem(rng, kind)
        tensor = lambda a: None if a is None else torch.tensor(a, requires_grad=True)  # noqa: E731
        shared = o.get("shared")
        given = tensor(x), tensor(weight), [tensor(p) for p in params], tensor(o.get("router_bias"))
        more = shared and [tensor(p) for p in shared], tensor(o.get("shared_gate"))
        out = torch_mixture(chosen(x, weight, o), *given, *more, o)
        got = mixture_of_experts(x, weight, params, **o)
        assert_close(got, out.detach().numpy(), tolerance=1e-14)
        u = rng.normal(size=out.shape)
        tensors = [*given[:2], *given[2], given[3], *(more[0] or ()), more[1]]
        tensors = [t for t in tensors if t is not None]
        want = torch.autograd.grad(out, tensors, torch.tensor(u))
        grads = list(trees.leaves(mixture_of_experts_vjp(u, x, weight, params, **o)))
        for g, w in zip(grads, want, strict=True):
            assert_close(g, w.numpy(), tolerance=4e-14)

    def test_the_formula(self, rng, assert_close, kind):
        x, weight, params, o = problem(rng, kind)
        want = formulas.mixture_of_experts(x, weight, params, **o)
        assert_close(mixture_of_experts(x, weight, params, **o), want, tolerance=1e-14)

    def test_forward_mode_is_the_adjoint(self, rng, kind):
        x, weight, params, o = problem(rng, kind)
        u = rng.normal(size=x.shape)
        moved = lambda tree: trees.mapped(lambda a: rng.normal(size=a.shape), tree)  # noqa: E731
        tangents = rng.normal(size=x.shape), rng.normal(size=weight.shape), moved(params)
        names = [f for f in ("router_bias", "shared", "shared_gate") if o.get(f) is not None]
        more = {f"d{name}": moved(o[name]) for name in names}
        dy = mixture_of_experts_jvp((x, weight, params), tangents, **more, **o)
        grads = list(trees.leaves(mixture_of_experts_vjp(u, x, weight, params, **o)))
        terms = [
            g * t for g, t in zip(grads, trees.leaves((tangents, *more.values())), strict=True)
        ]
        scale = sum(abs(t).sum() for t in terms)
        assert abs(np.sum(u * dy) - sum(t.sum() for t in terms)) <= 1e-14 * scale

    def test_dtypes(self, rng, kind):
        x, weight, params, o = problem(rng, kind)
        narrow = lambda tree: trees.mapped(lambda a: a.astype(np.float32), tree)  # noqa: E731
        o = {k: narrow(v) if isinstance(v, np.ndarray | tuple) else v for k, v in o.items()}
        x, weight, params = narrow((x, weight, params))
        assert mixture_of_experts(x, weight, params, **o).dtype == np.float32
        grads = mixture_of_experts_vjp(x, x, weight, params, **o)
        assert {g.dtype for g in trees.leaves(grads)} == {np.dtype(np.float32)}


class TestEdges:
    def test_one_expert_is_a_gated_network(self, rng, assert_close):
        p = shared_network(rng)
        x = rng.normal(size=(3, D))
        got = mixture_of_experts(x, np.ones((1, D)), ExpertParams(*(w[None] for w in p[:3])), k=1)
        assert_close(got, formulas.gated_feed_forward(x, p))

    def test_no_tokens(self, rng):
        _, weight, params, _ = problem(rng, "mixtral")
        assert mixture_of_experts(np.ones((0, D)), weight, params, k=2).shape == (0, D)
        grads = mixture_of_experts_vjp(np.ones((0, D)), np.ones((0, D)), weight, params, k=2)
        assert not any(g.any() for g in trees.leaves(grads))

    def test_nothing_flows_to_experts_that_were_not_chosen(self, rng):
        x, weight, params, _ = problem(rng, "mixtral")
        at = chosen(x[:1, :1], weight, {"k": 2})
        _, _, dparams = mixture_of_experts_vjp(x[:1, :1], x[:1, :1], weight, params, k=2)
        for grad in dparams[:3]:
            assert {*np.flatnonzero(np.any(grad, axis=(1, 2)))} <= {*at.ravel()}

    def test_errors(self, rng):
        x, weight, params, _ = problem(rng, "mixtral")
        for options, words in (
            ({"activation": "relu"}, "'activation' must be"),
            ({"limit": 0}, "'limit' must be"),
            ({"shared_gate": np.ones((1, D))}, "'shared_gate' must be None where shared is None"),
        ):
            with pytest.raises(ValueError, match=words):
                mixture_of_experts(x, weight, params, k=2, **options)
        with pytest.raises(ValueError, match=r"'params.w_down' must have shape \(6, 4, 5\)"):
            mixture_of_experts(x, weight, params._replace(w_down=np.ones((6, 5, 4))), k=2)
        with pytest.raises(ValueError, match=r"'params.w_gate' must have at least 3 axes"):
            mixture_of_experts(x, weight, params._replace(w_gate=np.ones((5, 4))), k=2)
        with pytest.raises(ValueError, match=r"'dshared' must be None, as it belongs"):
            mixture_of_experts_jvp((x, weight, params), (None, None, None), k=2, dshared=params)


class TestBlocks:
    @pytest.fixture
    def block(self, rng, draw):
        gate = rng.normal(size=(1, D))
        network = MixtureParams(
            rng.normal(size=(n, D)), experts(rng, biases=True), 0.1 * rng.normal(size=n),
            0.1 * rng.normal(size=n), shared_network(rng), gate,
        )  # fmt: skip
        return draw.encoder_block(rms=True)._replace(feed_forward=network)

    def test_a_block_of_experts(self, rng, block, assert_close):
        x, u = rng.normal(size=(2, 2, 3, 4))
        o = BlockOptions(num_heads=2, norm_first=True, activation="silu", router={"k": 2})
        p = block.feed_forward
        alone = block._replace(attention=block.attention._replace(w_o=np.zeros((4, 4)), b_o=None))
        normed = formulas.rms_norm(x, alone.norm2.weight, eps=1e-5)
        options = {"router_bias": p.router_bias, "correction": p.correction, "shared": p.shared}
        want = x + mixture_of_experts(
            normed, p.router, p.experts, k=2, shared_gate=p.shared_gate, **options
        )
        assert_close(encoder_block(x, alone, o), want, tolerance=1e-14)
        dx, dparams = encoder_block_vjp(u, x, block, o)
        assert not dparams.feed_forward.correction.any()
        moves = rng.normal(size=x.shape), trees.mapped(lambda a: rng.normal(size=a.shape), block)
        dy = encoder_block_jvp((x, block), moves, o)
        pairs = zip(trees.leaves((dx, dparams)), trees.leaves(moves), strict=True)
        terms = [g * t for g, t in pairs]
        scale = sum(abs(t).sum() for t in terms)
        assert abs(np.sum(u * dy) - sum(t.sum() for t in terms)) <= 1e-13 * scale

    def test_files_and_parts_that_are_plain_tuples(self, rng, block, tmp_path):
        x, o = rng.normal(size=(3, 4)), {"num_heads": 2, "router": {"k": 1}, "activation": "silu"}
        network = block.feed_forward
        parts = network._replace(experts=tuple(network.experts), shared=tuple(network.shared))
        plain = block._replace(feed_forward=parts)
        np.testing.assert_array_equal(encoder_block(x, plain, **o), encoder_block(x, block, **o))
        save_params(tmp_path / "a.npz", block)
        again, _ = load_params(tmp_path / "a.npz")
        trees.assert_close(again, block, 0)
        assert isinstance(again.feed_forward.experts, ExpertParams)

    def test_errors(self, rng, block):
        x = rng.normal(size=(3, 4))
        bare = block._replace(feed_forward=tuple(block.feed_forward))
        with pytest.raises(
            TypeError, match=r"feed_forward' must be FeedForwardParams.* tuple of 6"
        ):
            encoder_block(x, bare, num_heads=2, router={"k": 1})
        with pytest.raises(ValueError, match=r"'router' must be options such as"):
            encoder_block(x, block, num_heads=2)
        with pytest.raises(TypeError, match=r"'router' must be"):
            encoder_block(x, block, num_heads=2, router=2)
        with pytest.raises(ValueError, match=r"'activation' must be"):
            encoder_block(x, block, num_heads=2, router={"k": 2}, activation="tanh")
        wrong = block.feed_forward._replace(correction=np.ones(3))
        options = {"router": {"k": 2}, "activation": "silu"}
        with pytest.raises(ValueError, match=r"'params.feed_forward.correction' must have shape"):
            encoder_block(x, block._replace(feed_forward=wrong), num_heads=2, **options)
