"""A GPT-2-like model beside the same in eager PyTorch: a step of training, and generation."""

import numpy as np

import dlref.transformer as N

V = 256
SIZES = {  # batch, tokens, width, layers, heads
    "language_model_loss": [(8, 128, 256, 4, 4)],
    "generate": [(1, 256, 256, 4, 4)],
}


def _tokens(B, T):
    return np.random.default_rng(0).integers(0, V, (B, T + 1))


def dlref_call(name, form, shape, dtype):
    B, T, D, L, H = shape
    config = N.LanguageModelConfig(V, D, H, num_layers=L)
    params = N.init_language_model(np.random.default_rng(0), config, dtype=dtype)
    tokens = _tokens(B, T)
    if name == "generate":
        prompt = tokens[:, :1]
        call = lambda: N.generate(prompt, params, config, steps=T, temperature=0)  # noqa: E731
        return call if form == "map" else None
    if form == "map":
        return lambda: N.language_model_loss(tokens, params, config)
    if form == "vjp":
        return lambda: N.language_model_loss_value_and_grad(tokens, params, config)
    return None


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    torch.manual_seed(0)
    B, T, D, L, H = shape
    model = _model(torch, D, L, H).to(getattr(torch, dtype))
    tokens = torch.tensor(_tokens(B, T))

    def loss():
        logits = model(tokens[:, :-1]).reshape(-1, V)
        return torch.nn.functional.cross_entropy(logits, tokens[:, 1:].reshape(-1))

    def written():
        caches, new = [[] for _ in range(L)], tokens[:, :1]
        for place in range(T):
            new = model(new, caches, place)[:, -1:].argmax(-1)

    if name == "generate":
        return torch.no_grad()(written) if form == "map" else None
    if form == "map":
        return torch.no_grad()(loss)
    parameters = list(model.parameters())
    return (lambda: torch.autograd.grad(loss(), parameters)) if form == "vjp" else None


def _model(torch, D, L, H):
    nn = torch.nn
    functional = nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
            self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
            self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

        def forward(self, x, cache):
            B, T, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(D, -1)
            q, k, v = (part.view(B, T, H, D // H).transpose(1, 2) for part in parts)
            if cache is not None:
                if cache:
                    k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
                cache[:] = k, v
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
            x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(V, D), nn.Embedding(1024, D)
            self.blocks = nn.ModuleList(Block() for _ in range(L))
            self.norm = nn.LayerNorm(D)

        def forward(self, tokens, caches=None, start=0):
            x = self.token(tokens) + self.place(torch.arange(start, start + tokens.shape[1]))
            for i, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[i])
            return self.norm(x) @ self.token.weight.T

    return Model()
