"""PyTorch's optimizers as oracles."""

import numpy as np
import pytest

from dlref.training import cosine_schedule


@pytest.fixture
def compare_with_pytorch(rng, monkeypatch):
    """Compare 100 steps on a function that is curved differently along every axis."""

    def check(name, step, options, theirs):
        torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
        monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)  # of NAdam's product
        starts = rng.normal(size=(3, 2)), rng.normal(size=4), rng.normal(size=(2, 1, 3))
        curvatures = tuple(rng.uniform(0.1, 5.0, start.shape) for start in starts)
        noise = rng.normal(size=100)
        tensors = [torch.tensor(start, requires_grad=True) for start in starts]
        optimizer = getattr(torch.optim, name)(tensors, lr=0.1, **theirs)
        params, state = starts, None
        for k in range(100):
            rate = cosine_schedule(k, peak=0.1, steps=120)
            grads = tuple(
                c * p + noise[k] * np.sin(p) for c, p in zip(curvatures, params, strict=True)
            )
            params, state = step(params, grads, state, learning_rate=rate, **options)
            for tensor, c in zip(tensors, curvatures, strict=True):
                value = tensor.detach()
                tensor.grad = torch.tensor(c) * value + noise[k] * torch.sin(value)
            optimizer.param_groups[0]["lr"] = float(rate)
            optimizer.step()
            for p, tensor in zip(params, tensors, strict=True):
                np.testing.assert_allclose(p, tensor.detach().numpy(), rtol=1e-12, atol=1e-12)
        assert state.step == 100

    return check
