"""States of decoders, made from their layouts."""

from decoders import SIZES

from dlref.interop import _families as families
from dlref.interop._settings import Settings
from dlref.interop._tensors import Zeros, _axis


def configured(kind, settings):
    sizes = {
        k: v
        for k, v in SIZES.items()
        if not kind.startswith("gpt_neox") or k != "num_key_value_heads"
    }
    return {"model_type": kind, **sizes, **settings}


def tensors(layout):
    if isinstance(layout, families.Tensor):
        yield layout
    elif layout is not None and not isinstance(layout, Zeros):
        for part in layout:
            yield from tensors(part)


def state_of(kind, config, rng):
    """Return a state with a random array for each tensor of the layout."""
    known = families.WITH_DECODER if config.get("is_encoder_decoder") else families.FAMILIES
    family, settings = known[kind], Settings(config, kind, families.KNOWN)
    found = family.config(settings)
    counts = ("n_routed_experts", "num_local_experts", "num_experts")
    sizes = {"n": next((config[name] for name in counts if name in config), 4)}  # of experts
    sizes |= {"M": 12, "MS": 24}  # their widths
    whole = config.get("q_lora_rank", 5) is None  # queries come from the tokens themselves
    sizes |= {
        "Rq": config.get("hidden_size") if whole else 5,
        "1": 1,
        "Rkv": 6,
        "DKV": 10,
        "KV": 44,
        "HV": 20,
    } | families.sizes_of(found)
    keys = config.get("linear_num_key_heads", 0)
    delta = {"KE": 5 * keys, "HL": 4, "C": 10 * keys + 24, "KC": 3, "VL": 6}
    sizes |= {"HV": 20} | (delta if keys else {})
    if kind.startswith(("qwen3_next", "qwen3_5")):
        sizes["HV"] = 24
    state = {}
    for tensor in tensors(family.layout(found, family.base)):
        said = [there for end, there in settings.tensors.items() if tensor.name.endswith(end)]
        if tensor.optional and not (said[0] if said else not whole):
            continue
        axes = [_axis(term, sizes) for term in tensor.shape.split(", ")]
        shape = [factor * sizes[symbol] for factor, symbol in axes]
        state.setdefault(tensor.name, rng.normal(size=shape) / 4)
    return family.together(state, found, family.base)
