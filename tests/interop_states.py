"""States of decoders, made from their layouts."""

from decoders import SIZES

from dlref.interop import _families as families
from dlref.interop._settings import Settings


def configured(kind, settings):
    sizes = {k: v for k, v in SIZES.items() if kind != "gpt_neox" or k != "num_key_value_heads"}
    return {"model_type": kind, **sizes, **settings}


def tensors(layout):
    if isinstance(layout, families.Tensor):
        yield layout
    elif layout is not None:
        for part in layout:
            yield from tensors(part)


def state_of(kind, config, rng):
    """Return a state with a random array for each tensor of the layout."""
    family, settings = families.FAMILIES[kind], Settings(config, kind, families.KNOWN)
    found = family.config(settings)
    sizes = {"n": 4, "M": 12} | families._sizes(found)  # experts, and their width
    state = {}
    for tensor in tensors(family.layout(found, family.base)):
        axes = [families_axis(term) for term in tensor.shape.split(", ")]
        shape = [factor * sizes[symbol] for factor, symbol in axes]
        state.setdefault(tensor.name, rng.normal(size=shape) / 4)
    return state


def families_axis(term):
    *factor, symbol = term.split(" ")
    return int(factor[0]) if factor else 1, symbol
