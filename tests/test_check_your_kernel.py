"""Kernels as engineers have them, put to dlref.check: the code of docs/check_your_kernel.rst."""

import pathlib
import re
from functools import partial

import numpy as np
import pytest

from dlref.activations import softmax
from dlref.attention import scaled_dot_product_attention as attention
from dlref.attention import scaled_dot_product_attention_vjp as attention_vjp
from dlref.check import check_all, check_forward, check_gradients, check_vjp, hard_inputs
from dlref.normalization import rms_norm

torch = pytest.importorskip("torch")


class MySoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axis=-1):
        e = torch.exp(x - x.amax(axis, keepdim=True))
        s = e / e.sum(axis, keepdim=True)
        ctx.save_for_backward(s)
        ctx.axis = axis
        return s

    @staticmethod
    def backward(ctx, dout):
        (s,) = ctx.saved_tensors
        return s * (dout - (s * dout).sum(ctx.axis, keepdim=True)), None


def my_softmax(x, axis=-1):
    return MySoftmax.apply(x, axis)


def my_attention(q, k, v, causal=False):
    """A kernel for arrays (B, T, H, D), of which a tile has 64 queries."""
    B, T, H, D = q.shape
    out = np.empty((B, T, H, v.shape[-1]), q.dtype)
    for start in range(0, T, 64):
        rows = slice(start, min(start + 64, T))
        scores = np.einsum("bthd,bshd->bhts", q[:, rows], k) / np.sqrt(np.float32(D))
        if causal:
            i, j = np.arange(T)[rows, None], np.arange(k.shape[1])
            scores = np.where(j <= i, scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = (e / e.sum(-1, keepdims=True)).astype(q.dtype)
        out[:, rows] = np.einsum("bhts,bshd->bthd", p, v)
    return out


def for_dlref(q, k, v, is_causal=False):
    """The same with dlref's names of the options; its signature says which it takes."""
    return my_attention(q, k, v, causal=is_causal)


def with_lse(q, k, v):
    """Attention that returns the log-sum-exp of its scores, too, as flash-attention does."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    return e / total @ v, (top + np.log(total))[..., 0]


# page: module
class RMSNorm(torch.nn.Module):
    def __init__(self, weight, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(weight), eps

    def forward(self, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return self.weight * x * torch.rsqrt(mean + self.eps)


def of_the_module(x, weight, eps=1e-6):
    module = RMSNorm(torch.ones(x.shape[-1], dtype=x.dtype), eps)
    weights = {} if weight is None else {"weight": weight}
    return torch.func.functional_call(module, weights, x)


# end


SHAPES = [[(1, 2, 128, 64)] * 3, [(1, 1, 192, 64)] * 3]
ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "check_your_kernel.rst").read_text(encoding="utf-8")
OUTPUTS = re.findall(r"   :class: output\n\n((?:   .+\n)+)", PAGE)
#: Sizes of errors, which depend on the processor.
SIZE = re.compile(r"\d\.\de[-+]\d+")


def assert_shown(report, lines=1):
    """The page shows the first lines of a report, below the call that gives it."""
    first = SIZE.sub("", "\n".join(str(report).splitlines()[:lines]))
    assert any(first in SIZE.sub("", output.replace("   ", "")) for output in OUTPUTS), first


def test_the_readme_shows_the_report_of_its_kernel():
    """Word for word; the sizes of the errors depend on the processor."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r">>> def backward.*?(?=\n>>> )", text, re.S)[0]
    scope = {"np": np}
    exec(re.sub(r"^(>>>|\.\.\.) ", "", code, flags=re.MULTILINE), scope)
    report = str(check_all(None, softmax, vjp=scope["backward"], shapes=[((3,),)]))
    shown = re.search(r"```text\n(.*?)\n```", text, re.S)[1]
    sizes = re.compile(r"\d(\.\d)?e\+\d\d +")
    assert sizes.sub("", report) == sizes.sub("", shown)


def test_a_function_of_torch_and_its_own_gradient():
    report = check_all(my_softmax, softmax, vjp="autograd", framework="torch")
    assert report, report
    assert_shown(report)


def test_a_backward_pass_alone():
    def backward(dout, x, axis=-1):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(my_softmax(x, axis), x, dout)[0]

    assert check_all(None, softmax, vjp=backward, framework="torch")

    def squared(dout, x, axis=-1):
        return dout * backward(dout, x, axis)

    report = check_all(None, softmax, vjp=squared, framework="torch")
    assert not report
    assert_shown(report)


def test_a_kernel_in_another_layout_for_some_shapes():
    report = check_all(for_dlref, attention, shapes=SHAPES, layout="BTHE")
    assert report, report
    assert_shown(report, lines=2)
    assert {"window", "softcap", "sink"} <= set(report.skipped_options)


def test_a_tile_without_its_mask_is_found():
    def wrong(q, k, v, is_causal=False):
        out = my_attention(q, k, v, causal=is_causal)
        if is_causal:  # only the first tile knows the mask
            out[:, 64:] = my_attention(q, k, v)[:, 64:]
        return out

    assert not check_all(wrong, attention, shapes=SHAPES, layout="BTHE")


def test_an_output_with_its_log_sum_exp():
    op = partial(attention, return_lse=True)
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 65, 64)).astype(np.float32)
    assert check_forward(with_lse, op, q, k, v)

    def in_base_2(q, k, v):
        out, lse = with_lse(q, k, v)
        return out, lse / np.float32(np.log(2))

    verdict = check_forward(in_base_2, op, q, k, v)
    assert not verdict
    assert_shown(verdict)


def test_the_gradient_of_a_log_sum_exp():
    rng = np.random.default_rng(0)
    q, k, v, dout = rng.normal(size=(4, 2, 65, 64)).astype(np.float32)
    dlse = rng.normal(size=(2, 65)).astype(np.float32)
    assert check_vjp(attention_vjp, attention, dout, q, k, v, dlse=dlse)

    def forgetful(dout, q, k, v, dlse=None):
        return attention_vjp(dout, q, k, v)

    verdict = check_vjp(forgetful, attention, dout, q, k, v, dlse=dlse)
    assert not verdict
    assert_shown(verdict)


def test_a_module_with_weights():
    report = check_all(of_the_module, rms_norm, vjp="autograd", framework="torch")
    assert report
    assert_shown(report, lines=2)

    def other_eps(x, weight, eps=1e-6):
        return of_the_module(x, weight, 1e-3)

    report = check_all(other_eps, rms_norm, framework="torch")
    assert not report
    assert_shown(report, lines=2)


def test_a_function_of_jax():
    jax = pytest.importorskip("jax")

    @jax.custom_vjp
    def f(x):
        return jax.nn.softmax(x)

    f.defvjp(lambda x: (f(x), f(x)), lambda s, u: (s * (u - (s * u).sum(-1, keepdims=True)),))
    report = check_all(f, softmax, vjp="autograd", framework="jax", options=())
    assert report
    assert_shown(report)


def test_the_sizes_of_the_cases():
    shapes = {case.inputs[0].shape for case in hard_inputs(attention, "float32", every_option=True)}
    assert any(shape[-2] == 129 and shape[-1] == 64 for shape in shapes)
    rows = {case.inputs[0].shape[-1] for case in hard_inputs(rms_norm, "float32")}
    assert 4097 in rows


@pytest.mark.dlref(my_softmax, softmax, vjp="autograd", framework="torch")
def test_my_softmax(dlref_case):
    assert not dlref_case.failed


# end of the cases


def test_a_kernel_that_dlref_does_not_know():
    def bent(x):
        return x * torch.tanh(x)

    x = np.linspace(-2.0, 2.0, 9)
    assert check_gradients(bent, "autograd", x, framework="torch", order=2)

    def slope(dout, x):
        return dout * (torch.tanh(x) + x / torch.cosh(x) ** 2)

    assert check_gradients(bent, slope, x, framework="torch", order=2, batched=True)
