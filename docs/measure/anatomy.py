"""
Write docs/results/anatomy.csv: the pieces of each family of models that `from_state_dict` reads.
And anatomy_options.csv: how each family rotates, masks and rounds; and missing.csv: families that
the loader refuses, and the pieces that dlref lacks for them.

``tox run -e measure -- anatomy`` (seconds).  A family's row is made from what the loader itself
makes of an empty configuration, with the family's defaults, and from its layout of a state.  The
scalings are those of the configurations in tests/published.py, as their authors published them.
"""

import csv
from pathlib import Path

from published import PUBLISHED

from dlref.interop import _families as families
from dlref.interop._decoders import KIN
from dlref.interop._missing import MISSING
from dlref.interop._settings import Settings
from dlref.transformer import EncoderBlockParams, GatedDeltaParams, MixtureParams

FILE = Path(__file__).parents[1] / "results" / "anatomy.csv"
OPTIONS = FILE.with_name("anatomy_options.csv")
OTHERS = FILE.with_name("missing.csv")
ALIASES = {"gemma3": "gemma3_text", "kimi_k2": "deepseek_v3"}
HEADER = ["family", "positions", "norms", "attention", "network", "also"]
CHOICES = ["family", "model", "pairs", "rotated", "scaling", "window", "sinks", "rounding"]
#: Families whose RMS norm in Hugging Face multiplies in float32 and then rounds to 16 bits;
#: tests/interop/test_decoders.py measures it.
ROUNDED_LAST = (
    "afmoe", "flex_olmo", "flint", "gemma", "gemma2", "gemma3_text", "gpt_oss", "helium",
    "olmo2", "olmo3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "vaultgemma",
)  # fmt: skip
LINKS = {
    "learned": "positions.learned_positions",
    "RoPE": "positions.apply_rope",
    "ALiBi": "positions.alibi_bias",
    "buckets of distances": "positions.t5_bias",
    "layer norms": "normalization.layer_norm",
    "RMS norms": "normalization.rms_norm",
    "latent attention": "attention.latent_attention",
    "gated delta rules": "attention.recurrent_linear_attention",
    "heads": "attention.multi_head_attention",
    "experts": "transformer.mixture_of_experts",
    "gated": "transformer.gated_feed_forward",
    "plain": "transformer.feed_forward",
}


def link(words):
    return f":func:`{words} <dlref.{LINKS[words]}>`"


def share(count, whole):
    """Return "in 12 of 48 blocks", or nothing for all of them."""
    return "" if count == whole else f" in {count} of {whole} blocks"


#: Published models of a family where its name does not say them.
MODELS = {
    "afmoe": "Trinity",
    "arcee": "AFM",
    "aria_text": "Aria",
    "axk1": "A.X K1",
    "bert-generation": "BertGeneration",
    "biogpt": "BioGPT",
    "camembert": "CamemBERT",
    "cohere": "Command R, R+",
    "cohere2": "Command R7B, Command A",
    "cohere_compass_text": "Compass, North Micro Vision",
    "cwm": "Code World Model",
    "data2vec-text": "data2vec",
    "dbrx": "DBRX",
    "electra": "ELECTRA",
    "deepseek_v3": "DeepSeek-V3, R1, Kimi K2, Moonlight",
    "dots1": "dots.llm1",
    "emu3_text_model": "Emu3",
    "ernie4_5": "ERNIE 4.5",
    "ernie4_5_moe": "ERNIE 4.5 with experts",
    "exaone_moe": "K-EXAONE",
    "falcon": "Falcon 7B, 40B and 180B, Falcon 2",
    "flex_olmo": "FlexOlmo",
    "flint": "Flint",
    "glm": "GLM-4-9B",
    "glm4": "GLM-4-0414, GLM-Z1",
    "glm4_moe": "GLM-4.5, 4.6",
    "glm4_moe_lite": "GLM-4.7-Flash",
    "gpt_bigcode": "StarCoder, SantaCoder",
    "gpt_neo": "GPT-Neo",
    "gpt_neox": "GPT-NeoX, Pythia",
    "gpt_neox_japanese": "GPT-NeoX, Japanese",
    "granitemoe": "Granite 3.0 and 3.1, 1B and 3B",
    "hunyuan_v1_dense": "Hunyuan",
    "hunyuan_v1_moe": "Hunyuan-A13B",
    "hy_v3": "Hunyuan 3",
    "hyperclovax": "HyperCLOVA X SEED Think",
    "internlm3": "InternLM3",
    "iquestcoder": "IQuest-Coder",
    "jais2": "Jais 2",
    "llama": "LLaMA to Llama 3.3, Yi, DeepSeek Coder, R1 distilled",
    "megatron-bert": "Megatron-BERT",
    "mellum": "Mellum 2",
    "minicpm3": "MiniCPM3",
    "mistral": "Mistral 7B, Nemo, Small",
    "mpt": "MPT",
    "nemotron": "Nemotron-4, Minitron",
    "olmo": "OLMo 1",
    "openai-gpt": "GPT",
    "phi3": "Phi-3, Phi-4",
    "qwen2": "Qwen2, Qwen2.5, R1 distilled",
    "qwen2_moe": "Qwen1.5-MoE, Qwen2-57B-A14B",
    "qwen3_5_moe_text": "Qwen3.5 with experts",
    "qwen3_5_text": "Qwen3.5",
    "rembert": "RemBERT",
    "roberta-prelayernorm": "RoBERTa with norms first",
    "roformer": "RoFormer",
    "solar_open": "Solar Open",
    "stablelm": "StableLM 3B, StableLM 2",
    "t5": "T5, T5 1.1, Flan-T5",
    "xlm-roberta": "XLM-R",
    "xlm-roberta-xl": "XLM-R XL",
    "youtu": "Youtu-LLM",
}


#: Entries that a family cannot do without, or that its published models have.
NEEDED = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_theta": 10000.0}}},
    "dbrx": PUBLISHED["databricks/dbrx-instruct"],
    "glm4_moe": {"head_dim": 128},
}


class Model:
    """A configuration of a family, by default the empty one, and the layouts of its blocks."""

    def __init__(self, kind, published=None):
        self.kind, self.published = kind, published
        known = families.WITH_DECODER if kind in families.WITH_DECODER else families.FAMILIES
        given = PUBLISHED[published] if published else NEEDED.get(kind, {})
        family, self.settings = known[kind], Settings(given, kind, families.KNOWN)
        self.config = family.config(self.settings)
        layout = family.layout(self.config, "")
        self.blocks = layout.blocks if hasattr(layout, "blocks") else layout.encoder
        options = getattr(self.config, "blocks", None)
        each = options if isinstance(options, tuple) else (options,) * len(self.blocks)
        self.options = [dict(one or {}) for one in each]

    def count(self, test):
        return sum(map(bool, map(test, self.options)))

    def positions(self):
        if self.kind == "roformer":
            return link("RoPE")
        if isinstance(self.config, families.Encoder) or self.config.positions == "learned":
            return link("learned")
        if self.config.positions == "alibi":
            return link("ALiBi")
        if self.config.positions == "t5":
            return f"{link('buckets of distances')}, one table for all blocks of a half"
        c = self.config
        words = f"{link('RoPE')}, base {c.rope_base:g}"
        if c.rope_dim:
            words += f", {c.rope_dim} of {c.head_dim} channels"
        without = self.count(lambda o: o.get("rope", 0) is None)
        words += f", none{share(without, len(self.options))}" if without else ""
        near = [o["rope"]["base"] for o in self.options if o.get("rope")]
        return words + (f", base {near[0]:g}{share(len(near), len(self.options))}" if near else "")

    def norms(self):
        block, c = self.blocks[0], self.config
        kind = c.options["norm"] if isinstance(c, families.Encoder) else c.norm
        words = link("layer norms" if kind == "layer" else "RMS norms")
        first = getattr(c, "norm_first", False)
        if isinstance(c, families.Encoder):
            first = c.options.get("norm_first", False)
        before, behind = block.norm1 is not None, getattr(block, "output_norm1", None) is not None
        place = "before and after each sub-layer" if behind else "before each sub-layer"
        place = place if before else "of each sub-layer's output"
        words += f" {place if first else 'of each sum'}"
        return words + (", weights 1 + w" if self.options[0].get("norm_offset") else "")

    def attention(self):
        c = self.config
        heads = c.options["num_heads"] if isinstance(c, families.Encoder) else c.num_heads
        width = c.sizes["D"] // heads if isinstance(c, families.Encoder) else c.head_dim
        parts = [block[0] for block in self.blocks]
        deltas = sum(isinstance(part, GatedDeltaParams) for part in parts)
        usual = next(part for part in parts if not isinstance(part, GatedDeltaParams))
        if hasattr(usual, "w_dkv"):
            return f"{link('latent attention')}, {heads} heads of {width}"
        keys = getattr(c, "num_kv_heads", heads)
        shared = f", {keys} of keys" if keys != heads else ""
        words = [f"{heads} {link('heads')} of {width}{shared}"]
        if deltas:
            words.insert(0, f"{link('gated delta rules')}{share(deltas, len(parts))}; else")
        if usual.q_norm is not None and not usual.q_norm.optional:
            words.append(
                f"norms of queries and keys{' of each head' * ('E' in usual.q_norm.shape)}"
            )
        words += ["an output gate"] if usual.w_gate is not None else []
        words += ["sinks"] if usual.sink is not None else []
        words += [f"windows of {self.window('tokens')}"] if self.window() else []
        caps = [o["softcap"] for o in self.options if o.get("softcap")]
        words += [f"scores capped at {caps[0]:g}"] if caps else []
        bounds = [o["clip_qkv"] for o in self.options if o.get("clip_qkv")]
        words += [f"queries, keys and values up to {bounds[0]:g}"] if bounds else []
        if usual.b_q is not None:
            words.append("biases" if usual.b_o is not None else "biases of queries, keys, values")
        return (
            " ".join(words[:2]) + "".join(f", {word}" for word in words[2:])
            if deltas
            else (", ".join(words))
        )

    def network(self):
        networks = [
            block[2] if isinstance(block, EncoderBlockParams) else block[4] for block in self.blocks
        ]
        mixed = [net for net in networks if isinstance(net, MixtureParams)]
        c = self.config
        name = c.options["activation"] if isinstance(c, families.Encoder) else c.activation
        gated = getattr(c, "gated", False)
        words = f"{link('gated' if gated else 'plain')}, {name}"
        if not mixed:
            return words
        router = next(o["router"] for o in self.options if o.get("router"))
        count = self.settings.config.get("num_experts", KIN[self.kind].defaults["experts"])
        words = f"{router['k']} of {count} {link('experts')}{share(len(mixed), len(networks))}"
        words += ", one for all tokens" if mixed[0].shared is not None else ""
        words += " with a gate" if mixed[0].shared_gate is not None else ""
        return f"{words}, {name}"

    def also(self):
        c, words = self.config, []
        if isinstance(c, families.Encoder):
            without = self.kind in ("distilbert", "bert-generation")
            return "no embeddings of sentences" if without else ""
        if any(o.get("parallel") for o in self.options):
            words.append("attention and network side by side")
        if c.embedding_scale != 1:
            words.append("embeddings times the root of D")
        if self.kind.startswith("granite"):
            words.append("factors of embeddings, scores, sums and logits")
        elif c.logit_scale != 1:
            words.append(f"logits times {c.logit_scale:.3g}")
        if self.kind in families.WITH_DECODER:
            words.append("scores without a scale; a decoder")
        words += [f"logits capped at {c.logit_softcap:g}"] if c.logit_softcap else []
        words += ["embeddings tied to the head"] if c.tied else []
        return ", ".join(words)

    def model(self):
        return self.published.split("/")[1] if self.published else "sizes by default"

    def pairs(self):
        return "neighbors" if self.options[0].get("rope_interleaved") else "halves"

    def rotated(self):
        c = self.config
        return f"{c.rope_dim or c.head_dim} of {c.head_dim}"

    def scaling(self):
        """Say how published models of the family scale their positions."""
        models = {}
        for name, config in PUBLISHED.items():
            kind = config["model_type"]
            given = entry_of(config)
            way = given.get("rope_type", given.get("type", "default"))
            if ALIASES.get(kind, kind) == self.kind and way != "default":
                factor = f" by {given['factor']:g}" if given.get("factor", 1) != 1 else ""
                models.setdefault(way + factor, []).append(name.split("/")[1])
        return "; ".join(f"{way}: {', '.join(names)}" for way, names in models.items())

    def window(self, unit=""):
        sizes = [o["window"][0] + 1 for o in self.options if o.get("window")]
        words = f"{sizes[0]} {unit}".rstrip() if sizes else ""
        return words + share(len(sizes), len(self.options)) if sizes else ""

    def sinks(self):
        return "yes" if any(getattr(block[0], "sink", None) for block in self.blocks) else ""

    def rounding(self):
        c = self.config
        last = c.norm == "layer" or self.kind in ROUNDED_LAST
        return "after the weight" if last else "before the weight"

    def row(self):
        models = MODELS.get(self.kind, "")
        name = f"``{self.kind}``" + (f": {models}" if models else "")
        return [name, *(getattr(self, column)() for column in HEADER[1:])]

    def choices(self):
        return [f"``{self.kind}``", *(getattr(self, column)() for column in CHOICES[1:])]


def entry_of(config):
    """Return the entry of a configuration that describes the scaling, of a text model's, too."""
    for part in (config, config.get("text_config", {})):
        for key in ("rope_scaling", "rope_parameters"):
            if found := part.get(key):
                return found.get("full_attention", found)
    return {}


def kinds():
    return [kind for kind in sorted(families.FAMILIES) if kind not in ALIASES]


def rows():
    return [Model(kind).row() for kind in kinds()]


def choices():
    """Return a row for each family with rotations, of the first published model that is known."""
    first = {config["model_type"]: name for name, config in reversed(PUBLISHED.items())}
    models = [Model(kind, first.get(kind)) for kind in kinds()]
    return [m.choices() for m in models if getattr(m.config, "positions", "") == "rope"]


def others():
    """Return the families that are refused, and why."""
    return [[f"``{kind}``", *words] for kind, words in sorted(MISSING.items())]


def main():
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows()])
    with OPTIONS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([CHOICES, *choices()])
    with OTHERS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["family", "models", "lacks"], *others()])


if __name__ == "__main__":
    main()
