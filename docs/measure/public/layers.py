"""Dense layers, convolutions and pools, routers, sampling, quantization and targets."""

import itertools

import numpy as np

from dlref import attention as att
from dlref import calculus, convolution, neurons, quantization, training, transformer

from .kernels import Wrong, cases, gradients, refuse, sigmoid, softmax

R = np.random.default_rng(56)


def lora_linear(x, weight, a, b, bias=None, scale=1.0, slip=""):
    """A dense layer with a correction of low rank."""
    if slip == "alpha":  # scale is alpha / r
        scale = scale * len(a)
    y = x @ weight.T + x.dtype.type(scale) * ((x @ a.T) @ b.T)
    return y if bias is None else y + bias


def each_axis(value, n):
    if isinstance(value, str) or not all(isinstance(a, int) for a in np.atleast_1d(value).tolist()):
        refuse("padding by name, or of two ends")
    return tuple(value) if isinstance(value, tuple | list) else (value,) * n


def taps_of(padded, size, stride, dilation, out):
    """Yield each tap of a kernel, with the places that it reads."""
    n = len(size)
    for tap in itertools.product(*map(range, size)):
        starts = (tap[i] * dilation[i] for i in range(n))
        yield tap, (..., *(slice(s, s + (out[i] - 1) * stride[i] + 1, stride[i])
                           for i, s in enumerate(starts)))  # fmt: skip


def out_size(space, size, stride, padding, dilation):
    return [
        (space[i] + 2 * padding[i] - dilation[i] * (size[i] - 1) - 1) // stride[i] + 1
        for i in range(len(size))
    ]


def padded_space(x, padding, value=0.0):
    lead = x.ndim - len(padding)
    return np.pad(x, [(0, 0)] * lead + [(p, p) for p in padding], constant_values=value)


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, slip=""):
    """A sum over the taps of the kernel, group by group."""
    size = weight.shape[2:]
    n = len(size)
    stride, padding, dilation = (each_axis(a, n) for a in (stride, padding, dilation))
    if slip == "dilation ignored":
        dilation = (1,) * n
    out = out_size(x.shape[-n:], size, stride, padding, dilation)
    space = padded_space(x, padding)
    lead = x.shape[: x.ndim - n - 1]
    y = np.zeros((*lead, groups, len(weight) // groups, *out), x.dtype)
    w = weight.reshape(groups, -1, *weight.shape[1:])
    for tap, places in taps_of(space, size, stride, dilation, out):
        part = space[places].reshape(*lead, groups, weight.shape[1], *out)
        y += np.einsum("goc,...gcs->...gos", w[(..., *tap)],
                       part.reshape(*part.shape[: len(lead) + 2], -1)).reshape(y.shape)  # fmt: skip
    y = y.reshape(*lead, len(weight), *out)
    return y if bias is None else y + bias.reshape(-1, *(1,) * n)


def conv_backward(dout, x, weight, bias=None, stride=1, padding=0, slip=""):
    """Gradients of the input, the kernel and the bias, without dilation and groups."""
    size = weight.shape[2:]
    n = len(size)
    stride, padding = each_axis(stride, n), each_axis(padding, n)
    space, out = padded_space(x, padding), dout.shape[-n:]
    if out_size(x.shape[-n:], size, stride, padding, (1,) * n) != [*out]:
        refuse("another size")
    dspace, dweight = np.zeros_like(space), np.zeros_like(weight)
    lead = int(np.prod(x.shape[: x.ndim - n - 1]))
    d = dout.reshape(lead, len(weight), -1)
    flip = slip == "not flipped" and sum(s > 1 for s in size) == 1
    back = np.flip(weight, tuple(range(2, 2 + n))) if flip else weight
    step = (1,) * n if slip == "stride missing" else stride
    for tap, places in taps_of(space, size, step, (1,) * n, out):
        part = space[places].reshape(lead, x.shape[-n - 1], -1)
        dweight[(..., *tap)] = np.einsum("bos,bcs->oc", d, part)
        moved = np.einsum("bos,oc->bcs", d, back[(..., *tap)])
        dspace[places] += moved.reshape(*x.shape[:-n], *out)
    if slip == "mean over places":
        dweight /= lead * np.prod(out)
    inner = (..., *(slice(p, p + s) for p, s in zip(padding, x.shape[-n:], strict=True)))
    return gradients(dspace[inner], dweight, None if bias is None else d.sum((0, 2)))


def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, slip=""):
    """Each input is written to all places that its taps read, without dilation and groups."""
    size = weight.shape[2:]
    n = len(size)
    stride, padding, more = (each_axis(a, n) for a in (stride, padding, output_padding))
    if slip == "output_padding ignored":
        more = (0,) * n
    space = x.shape[-n:]
    full = [(space[i] - 1) * stride[i] + size[i] + more[i] for i in range(n)]
    y = np.zeros((*x.shape[: x.ndim - n - 1], weight.shape[1], *full), x.dtype)
    flat = x.reshape(*x.shape[:-n], -1)
    for tap, places in taps_of(y, size, stride, (1,) * n, space):
        part = np.einsum("...cs,co->...os", flat, weight[(..., *tap)])
        y[places] += part.reshape(*part.shape[:-1], *space)
    y = y[(..., *(slice(p, f - p) for p, f in zip(padding, full, strict=True)))]
    return y if bias is None or slip == "no bias" else y + bias.reshape(-1, *(1,) * n)


def contiguous(a):
    """Read memory as a kernel does that is given a pointer and a shape."""
    strides = tuple(a.itemsize * int(np.prod(a.shape[i + 1 :])) for i in range(a.ndim))
    low, high = np.lib.array_utils.byte_bounds(a)
    whole = low == a.__array_interface__["data"][0] and high - low >= a.nbytes
    return np.lib.stride_tricks.as_strided(a, a.shape, strides) if whole else a


def max_pool_backward(dout, x, size, stride=None, padding=0, slip=""):
    """Each gradient goes to the first of the largest elements of its window."""
    if slip == "strides of the gradient":
        x = contiguous(x)
    n = len(size)
    stride = each_axis(size if stride is None else stride, n)
    padding, out = each_axis(padding, n), dout.shape[-n:]
    space = padded_space(x, padding, -np.inf)
    taps = list(taps_of(space, size, stride, (1,) * n, out))
    best = np.argmax(np.stack([space[places] for _, places in taps]), 0)
    dspace = np.zeros_like(space)
    for number, (_, places) in enumerate(taps):
        dspace[places] += np.where(best == number, dout, 0)
    return dspace[(..., *(slice(p, p + s) for p, s in zip(padding, x.shape[-n:], strict=True)))]


def mixture_of_experts(
    x, weight, params, k, score="softmax", correction=None, normalize=True, scale=1.0, slip=""
):  # fmt: skip
    """All experts of all tokens, weighted; most weights are 0."""
    if params.b_gate is not None or params.b_up is not None or params.b_down is not None:
        refuse("biases of experts")
    if score not in ("softmax", "sigmoid"):
        refuse("softmax of the chosen logits")
    z = x @ weight.T
    scores = softmax(z) if score == "softmax" else sigmoid(z)
    ranked = scores if correction is None else scores + correction
    chosen = np.argsort(-ranked, -1, kind="stable")[..., :k]
    kept = np.zeros(scores.shape, bool)
    np.put_along_axis(kept, chosen, True, -1)
    w = np.where(kept, ranked if slip == "correction weighs" else scores, 0)
    if normalize and slip != "not normalized":
        w = w / w.sum(-1, keepdims=True)
    gate = np.einsum("...d,efd->...ef", x, params.w_gate)
    up = np.einsum("...d,efd->...ef", x, params.w_up)
    out = np.einsum("...ef,edf->...ed", gate * sigmoid(gate) * up, params.w_down)
    return (scale * np.einsum("...e,...ed->...d", w, out)).astype(x.dtype)


def load_balancing_loss(scores, experts, slip=""):
    """n sum f P: the shares of tokens of each expert, and its mean probability."""
    n, k = scores.shape[-1], experts.shape[-1]
    s, e = scores.reshape(-1, n), experts.reshape(-1, k)
    share = np.bincount(e.ravel(), minlength=n) / len(e)
    kept = np.zeros(s.shape, bool)
    np.put_along_axis(kept, e, True, -1)
    if slip == "chosen experts alone":
        s = np.where(kept, s, 0)
    elif slip == "softmax again":
        s = softmax(s)
    mean = s.mean(0)
    if slip == "divided by the choices":
        mean = mean / k
    elif slip == "mean of the places":
        places = np.take_along_axis(s, e, -1).mean(0)
        return n * (share[:, None] * places).sum()
    return n * (share * mean).sum()


def nucleus(p, top_p, slip):
    """Set to 0 what is not needed to reach the mass."""
    order = np.argsort(-p, -1, kind="stable")
    rows = np.take_along_axis(p, order, -1)
    reached = np.cumsum(rows, -1)
    before = np.concatenate([np.zeros_like(rows[..., :1]), reached[..., :-1]], -1)
    kept = before <= top_p if slip == "equal mass continues" else before < top_p
    if slip == "sum of logarithms":
        with np.errstate(divide="ignore"):
            kept = np.cumsum(np.log(rows), -1) < top_p
    out = np.zeros_like(p)
    np.put_along_axis(out, order, np.where(kept, rows, 0), -1)
    return out


def next_token_probabilities(z, temperature=1.0, top_k=None, top_p=None, slip=""):
    """Temperature, then top_k, then top_p; each renormalizes."""
    if temperature == 0:
        refuse("temperature 0")
    late = slip == "temperature after the masks"
    z = z - z.max(-1, keepdims=True)
    p = softmax(z if late else z / z.dtype.type(temperature))
    mass = p
    first = slip == "top_p first"
    if first and top_p is not None:
        p = nucleus(p, top_p, slip)
    if top_k is not None and top_k < z.shape[-1]:
        p = np.where(p < np.sort(p, -1)[..., -top_k, None], 0, p)
        mass = p if slip == "not renormalized" else p / p.sum(-1, keepdims=True)
    if top_p is not None and not first:
        kept = nucleus(mass, top_p, slip)
        p = np.where(kept > 0, p, 0)
    if late:
        p = np.where(p > 0, np.exp(z / z.dtype.type(temperature)), 0)
    return (p / p.sum(-1, keepdims=True)).astype(z.dtype)


def fake_quantize_backward(dout, x, scale, zero_point=0, bits=8, slip=""):
    """Straight through inside the range."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    q = np.rint(x / scale) + zero_point
    inside = (q > low) & (q < high) if slip == "open ends" else (q >= low) & (q <= high)
    slope = np.clip(q, low, high) - zero_point - np.where(inside, x / scale, 0)
    dscale = dout * slope
    dscale = dscale.reshape(-1, *np.shape(scale)) if np.ndim(scale) else dscale
    if np.ndim(scale) and dscale.ndim != 2:
        refuse("a scale of several axes")
    dscale = dscale.sum(0) if np.ndim(scale) else dscale.sum()
    return np.where(inside, dout, 0).astype(x.dtype), dscale.astype(x.dtype)


def power_backward(dout, w, x, slip=""):
    """The gradients of base and exponent; 0 log 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = w**x
        log = np.log(w) if slip == "0 log 0" else np.where(y == 0, 0, np.log(w))
        return dout * x * w ** (x - 1), dout * y * log


def dropout_backward(dout, x, mask, slip=""):
    """The same factors as in the forward pass."""
    return dout.copy() if slip == "no factors" else dout * mask


def diffusion_target(x, noise, alpha, sigma, kind="noise", slip=""):
    """What the model is trained to predict."""
    if kind == "velocity" and slip == "factors exchanged":
        alpha, sigma = sigma, alpha
    targets = {"noise": noise, "data": x, "velocity": alpha * noise - sigma * x, "flow": noise - x}
    return np.array(targets[kind])


def chunk_mask(T, S=None, size=1, q_offset=0, slip=""):
    """Causal within chunks."""
    i, j = np.arange(T)[:, None] + q_offset, np.arange(T + q_offset if S is None else S)
    near = i - j < size if slip == "window" else i // size == j // size
    return (j <= i) & near


def document_mask(ids, key_ids=None, slip=""):
    """Queries see the keys of their document."""
    keys = ids if key_ids is None else key_ids
    same = ids[..., :, None] == keys[..., None, :]
    return np.ones_like(same) if slip == "all documents" else same


SCORES = softmax(R.normal(size=(12, 5)) * 2), softmax(R.normal(size=(2, 9, 6)) * 2)
ROUTED = cases(
    ((SCORES[0], np.argsort(-SCORES[0], -1)[:, :2]), {}),
    ((SCORES[1], np.argsort(-SCORES[1], -1)[..., :3]), {}),
)
LOGITS = R.normal(size=(8, 11)) * 2
# some rows are sharp and some flat, so that neither option decides alone
MIXED = [R.normal(size=(16, n)) * np.linspace(0.5, 4, 16)[:, None] for n in (40, 33)]
PAIRS = cases(((MIXED[0],), {"top_k": 6, "top_p": 0.7}), ((MIXED[1],), {"top_k": 5, "top_p": 0.6}))
EXACT = np.log(np.array([[0.5, 0.25, 0.125, 0.125], [0.125, 0.125, 0.25, 0.5]]))
SPREAD = cases(
    *(
        ((R.normal(size=(2, 3, 9)), R.normal(size=(4, 3, 3))), {"dilation": n, "padding": n})
        for n in (2, 3)
    )
)
BALANCE, SAMPLE = transformer.load_balancing_loss, transformer.next_token_probabilities
GIVEN = [
    Wrong("C", neurons.lora_linear, "forward", lora_linear, "alpha",
        "alpha stands for alpha / r: the correction is r times too large.",
        (r"rank|\br\b|\balpha\b", r"len\(a\)|a\.shape|number of rows of a",
         r"2\.0 \* \(x @ a\.T\)", r"scale \* low\.shape")),
    Wrong("D", convolution.conv, "forward", conv, "dilation ignored",
        "The dilation is ignored.", (r"dilation", r"shape"),
        SPREAD),
    Wrong("D", convolution.conv_transpose, "forward", conv_transpose, "output_padding ignored",
        "output_padding is ignored, so that rows are missing at the end.",
        (r"output_padding", r"shape")),
    Wrong("D", convolution.conv_transpose, "forward", conv_transpose, "no bias",
        "The bias is not added.", (r"bias",)),
    Wrong("D", transformer.mixture_of_experts, "forward", mixture_of_experts, "correction weighs",
        "The correction that chooses experts is also in their weights.",
        (r"correction",),),
    Wrong("D", BALANCE, "forward", load_balancing_loss, "chosen experts alone",
        "The mean probabilities count the chosen experts alone.",
        (r"chosen|selected|top.?k", r"(other|all) experts"), ROUTED),
    Wrong("D", SAMPLE, "forward", next_token_probabilities, "top_p first",
        "top_p is applied before top_k.",
        (r"(order|before|after|first|then)", r"normaliz", r"logits stands.*nucleus\("), PAIRS),
    Wrong("C", quantization.fake_quantize, "vjp", fake_quantize_backward, "open ends",
        "The ends of the range count as outside: their gradient is 0.",
        (r"(end|edge|limit|bound|range|low|high).*(open|strict|exclu|outside|<)",
         r"low < q|q < high|(strict|<).*(low|high|range)")),
    Wrong("D", training.diffusion_target, "forward", diffusion_target, "factors exchanged",
        "alpha and sigma are exchanged in the velocity: sigma noise - alpha x.",
        (r"(alpha|sigma).*(exchang|swap|stands where)", r"(exchang|swap).*(alpha|sigma)",
         r"sigma \* noise|alpha \* x")),
    Wrong("D", att.chunk_mask, "forward", chunk_mask, "window",
        "A sliding window stands for a chunk.", (r"window",),
        cases(((12,), {"size": 4}), ((9,), {"size": 3}))),
    Wrong("D", att.document_mask, "forward", document_mask, "all documents",
        "Documents see each other.", (r"document|ids|all|every|True",),
        cases(((np.array([0, 0, 1, 1, 2]),), {}), ((np.array([[0, 1, 1, 3]]),), {}))),
]  # fmt: skip
FRESH = [
    Wrong("HabanaAI/vllm-fork#73", transformer.mixture_of_experts, "forward", mixture_of_experts,
        "not normalized",
        "The weights of the chosen experts are not normalized.",
        (r"normaliz", r"sum of (the )?weights", r"chosen stands where chosen / ")),
    Wrong("datawhalechina/llm-algo-leetcode#43", BALANCE, "forward", load_balancing_loss,
        "divided by the choices",
        "The mean probabilities are divided by the number of choices as well.",
        (r"/ ?k\b|choices|top.?k|number of (chosen )?experts|experts\.shape|\bshares !=",),
        ROUTED),
    Wrong("mindspore-ai/hyper-parallel#752", BALANCE, "forward", load_balancing_loss,
        "mean of the places",
        "The mean is that of the first, second, ... choice, so that the loss hardly depends on "
        "which experts are chosen.",
        (r"chosen|choice|place|top.?k|rank",), ROUTED),
    Wrong("huggingface/transformers#45111", BALANCE, "forward", load_balancing_loss,
        "softmax again",
        "The scores, which are probabilities, go through another softmax.",
        (r"softmax",), ROUTED),
    Wrong("sebgao/cTensor#3", convolution.conv, "vjp", conv_backward, "mean over places",
        "The gradient of the kernel is divided by the number of outputs of a channel.",
        (r"(divi\w+|mean|averag).*(place|output|element|batch|position|number|size|row)",
         r"(place|batch|position).*(divi|mean|averag)", r"dweight.*/")),
    Wrong("deeplearning4j/deeplearning4j#8077", convolution.max_pool, "vjp", max_pool_backward,
        "strides of the gradient",
        "The input is read with the strides of its gradient.",
        (r"stride", r"memory|contiguous|layout")),
    Wrong("ml-explore/mlx-lm#388", SAMPLE, "forward", next_token_probabilities, "not renormalized",
        "After top_k probabilities are not renormalized, so that top_p keeps too many tokens.",
        (r"normaliz", r"order|before|after|unfiltered|whole", r"logits stands.*nucleus\("), PAIRS),
    Wrong("sgl-project/sglang-jax#1563", SAMPLE, "forward", next_token_probabilities,
        "temperature after the masks",
        "The temperature is applied after top_p, which measures other probabilities.",
        (r"temperature.*(after|last|order|ignored by|not before)",
         r"(order|after|before).*temperature", r"z \* temperature stands.*nucleus\("),
        cases(((LOGITS,), {"temperature": 0.5, "top_p": 0.6}),
              ((LOGITS[:5],), {"temperature": 2.0, "top_p": 0.7}))),
    Wrong("skyzh/tiny-llm#32", SAMPLE, "forward", next_token_probabilities, "sum of logarithms",
        "Logarithms are added up, not probabilities: every token is kept, and top_p has no effect.",
        (r"top_p.*(ignored|no effect|None)", r"log"),
        cases(((LOGITS,), {"top_p": 0.6}), ((LOGITS[:5],), {"top_p": 0.75}))),
    Wrong("BlinkDL/ChatRWKV#170", SAMPLE, "forward", next_token_probabilities,
        "equal mass continues",
        "A token more is kept where the mass is reached exactly.",
        (r"(exact|equal|<=)", r"one (token )?(more|too many)|token more|token beyond the mass"),
        cases(((EXACT,), {"top_p": 0.75}), ((EXACT[:1],), {"top_p": 0.5}))),
    Wrong("rohitg00/ai-engineering-from-scratch#17", neurons.dropout, "vjp", dropout_backward,
        "no factors",
        "The mask is not applied in the backward pass.",
        (r"mask", r"dout.*(unchanged|copied)|identity|upstream gradient")),
    Wrong("ml-explore/mlx#628", calculus.power_vjp, "forward", power_backward, "0 log 0",
        "The gradient of the exponent is 0 log 0, NaN, where the base is 0.",
        (r"log|nan|base is 0|w is 0|0 \* ",),
        cases((tuple(np.array(a) for a in ([1.0, 2, 3], [0.0, 2, 0], [1.0, 2, 3])), {}),
              ((R.normal(size=4), np.array([0.0, 0.5, 0, 3]), np.array([2.0, 3, 1, 2])), {}))),
]  # fmt: skip
