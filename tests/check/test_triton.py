"""Kernels of Triton, which its interpreter runs on the processor: ``tox run -e triton``."""

import os
from pathlib import Path

import pytest

from dlref import check
from dlref.activations import softmax
from dlref.attention import scaled_dot_product_attention
from dlref.normalization import layer_norm

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is not asked for", allow_module_level=True)
tl = triton.language
PAGE = Path(__file__).parents[2] / "docs" / "check_your_kernel.rst"


@triton.jit
def softmax_kernel(out, x, stride, n, BLOCK: tl.constexpr, PADDING: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    scores = tl.load(x + row * stride + columns, mask=inside, other=PADDING)
    e = tl.exp(scores - tl.max(scores, axis=0))
    tl.store(out + row * n + columns, e / tl.sum(e, axis=0), mask=inside)


def my_softmax(x, padding=float("-inf")):
    rows = x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    count, n = rows.shape
    block = triton.next_power_of_2(n)
    softmax_kernel[(count,)](out, rows, rows.stride(0), n, BLOCK=block, PADDING=padding)
    return out.reshape(x.shape)


# end of softmax


@triton.jit
def layer_norm_kernel(
    out, means, rstds, x, w, b, n, eps, BLOCK: tl.constexpr, MISTAKE: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    numbers = tl.load(x + row * n + columns, mask=inside, other=0.0)
    mean = tl.sum(numbers, axis=0) / n
    centered = numbers - mean
    if MISTAKE != "padding":
        centered = tl.where(inside, centered, 0.0)
    divisor = n - 1 if MISTAKE == "unbiased" else n
    rstd = 1.0 / tl.sqrt(tl.sum(centered * centered, axis=0) / divisor + eps)
    weight = tl.load(w + columns, mask=inside)
    bias = tl.load(b + columns, mask=inside)
    y = (numbers - mean) * rstd * weight + bias
    tl.store(out + row * n + columns, y, mask=inside)
    tl.store(means + row, mean)
    tl.store(rstds + row, rstd)


@triton.jit
def layer_norm_vjp_kernel(
    dx, dw, db, dy, x, w, means, rstds, rows, n, BLOCK: tl.constexpr, MISTAKE: tl.constexpr
):
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    weight = tl.load(w + columns, mask=inside, other=0.0)
    sum_w = tl.zeros((BLOCK,), tl.float32)
    sum_b = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        grad = tl.load(dy + row * n + columns, mask=inside, other=0.0)
        numbers = tl.load(x + row * n + columns, mask=inside, other=0.0)
        rstd = tl.load(rstds + row)
        x_hat = tl.where(inside, (numbers - tl.load(means + row)) * rstd, 0.0)
        g = grad * weight
        mean_g = tl.sum(g, axis=0) / n
        mean_gx = tl.sum(g * x_hat, axis=0) / n
        if MISTAKE == "projection":
            mean_gx = mean_gx * 0.0
        size = BLOCK if MISTAKE == "block" else n
        mean_g = mean_g * n / size
        tl.store(dx + row * n + columns, rstd * (g - mean_g - x_hat * mean_gx), mask=inside)
        sum_w += grad * (numbers if MISTAKE == "x" else x_hat)
        sum_b += grad
    tl.store(dw + columns, sum_w, mask=inside)
    tl.store(db + columns, sum_b, mask=inside)


def my_layer_norm(x, weight, bias, eps=1e-5, mistake="", *, statistics=False):
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    count, n = rows.shape
    out = torch.empty_like(rows)
    mean, rstd = torch.empty(count), torch.empty(count)
    block = triton.next_power_of_2(n)
    layer_norm_kernel[(count,)](
        out, mean, rstd, rows, weight.contiguous(), bias.contiguous(), n, eps, block, mistake
    )
    return (mean, rstd) if statistics else out.reshape(x.shape)


def my_layer_norm_vjp(dout, x, weight, bias, eps=1e-5, mistake=""):
    mean, rstd = my_layer_norm(x, weight, bias, eps, statistics=True)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    grads = dout.reshape(rows.shape).contiguous()
    dx, dw, db = torch.empty_like(rows), torch.empty_like(weight), torch.empty_like(bias)
    count, n = rows.shape
    layer_norm_vjp_kernel[(1,)](
        dx, dw, db, grads, rows, weight.contiguous(), mean, rstd, count, n,
        triton.next_power_of_2(n), mistake,
    )  # fmt: skip
    return dx.reshape(x.shape), dw, db


@triton.jit
def attention_kernel(
    out, q, k, v, keys, scale, D: tl.constexpr, BLOCK: tl.constexpr, MISTAKE: tl.constexpr
):
    """One query of one head: its keys in blocks, and a softmax that is rescaled."""
    row, head = tl.program_id(0), tl.program_id(1)
    channels = tl.arange(0, D)
    query = tl.load(q + (head * tl.num_programs(0) + row) * D + channels)
    top = -float("inf")
    total = 0.0
    mean = tl.zeros((D,), tl.float32)
    for start in range(0, keys, BLOCK):
        places = start + tl.arange(0, BLOCK)
        inside = places < keys
        at = (head * keys + places[:, None]) * D + channels[None, :]
        key = tl.load(k + at, mask=inside[:, None], other=0.0)
        value = tl.load(v + at, mask=inside[:, None], other=0.0)
        scores = tl.sum(query[None, :] * key, axis=1) * scale
        if MISTAKE != "unmasked":
            scores = tl.where(inside, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=0))
        e = tl.exp(scores - new_top)
        old = 1.0 if MISTAKE == "not rescaled" else tl.exp(top - new_top)
        total = total * old + tl.sum(e, axis=0)
        mean = mean * old + tl.sum(e[:, None] * value, axis=0)
        top = new_top
    tl.store(out + (head * tl.num_programs(0) + row) * D + channels, mean / total)


def my_attention(q, k, v, mistake="", block=16):
    *heads, queries, d = q.shape
    keys = k.shape[-2]
    out = torch.empty(q.shape)
    count = int(torch.tensor(heads).prod()) if heads else 1
    attention_kernel[(queries, count)](
        out, *(a.contiguous() for a in (q, k, v)), keys, d**-0.5, d, block, mistake
    )
    return out


#: The interpreter takes milliseconds a row, so the shapes are small, and beyond a block of 16.
ROWS = [[(4, 7)], [(3, 16)], [(2, 37)]]
NORMS = [[*shape, shape[0][-1:], shape[0][-1:]] for shape in ROWS]
ATTENTION = [
    [(1, 2, queries, 8), *[(1, 2, keys, 8)] * 2] for queries, keys in ((2, 5), (1, 16), (1, 37))
]


def report_on(kernel, op, shapes, vjp=None):
    return check.check_all(kernel, op, vjp=vjp, shapes=shapes, framework="torch")


def main_cause(report):
    """Return the cause of most failures."""
    assert not report
    return next(iter(report.causes))


def test_right_kernels_pass():
    assert report_on(my_softmax, softmax, ROWS)
    assert report_on(my_layer_norm, layer_norm, NORMS, my_layer_norm_vjp)
    assert report_on(my_attention, scaled_dot_product_attention, ATTENTION)


def test_the_page_shows_this_cause(capsys):
    report = check.check_all(lambda x: my_softmax(x, 0.0), softmax, shapes=ROWS, framework="torch")
    print(*report.causes)
    said = capsys.readouterr().out.strip()
    assert f"\n   {said}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("padding", "zeros that pad the rows are counted"),
        ("unbiased", "the variance is divided by n - 1"),
    ],
)
def test_a_wrong_layer_norm_is_named(mistake, words):
    def wrong(x, w, b, eps=1e-5):
        return my_layer_norm(x, w, b, eps, mistake)

    assert words in main_cause(report_on(wrong, layer_norm, NORMS))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("projection", "the gradient through the variance is missing"),
        ("block", "zeros that pad the rows are counted"),
        ("x", "has x where the normalized x is due"),
    ],
)
def test_a_wrong_gradient_is_named(mistake, words):
    def wrong(u, x, w, b, eps=1e-5):
        return my_layer_norm_vjp(u, x, w, b, eps, mistake)

    assert words in main_cause(report_on(None, layer_norm, NORMS, wrong))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("unmasked", "padded to a multiple of 16, and the padding is counted"),
        ("not rescaled", "neither the sum nor the average so far is rescaled"),
    ],
)
def test_a_wrong_attention_is_named(mistake, words):
    def wrong(q, k, v):
        return my_attention(q, k, v, mistake)

    assert words in main_cause(report_on(wrong, scaled_dot_product_attention, ATTENTION))
