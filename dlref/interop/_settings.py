r"""Configurations of Hugging Face's models, read entry by entry."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core.arguments import as_integer, as_number, check_mapping, shown
from ..positions import rope_attention_factor, rope_frequencies
from ._missing import MISSING
from ._tensors import raise_all

LARGEST = 1e30  # of numbers in a configuration; infinity would load in silence

#: Entries that say which family it is, though they change no number.
NAMED = ("model_type", "architectures")


def _is_json(value: Any) -> bool:
    """Whether a value and its entries are what JSON has, or single numbers of NumPy."""
    kinds = str, int, float, np.generic, list, tuple, Mapping
    inner = value.values() if isinstance(value, Mapping) else value
    parts = value, *(inner if isinstance(value, list | tuple | Mapping) else ())
    return all(part is None or isinstance(part, kinds) for part in parts)


#: Activations by Hugging Face's names.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "hardswish": "hard_swish",
    "linear": "identity",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
    **{name: name for name in ("leaky_relu", "mish", "relu", "relu6", "sigmoid", "tanh")},
}
#: Activations of a gate, by LanguageModelConfig's names.
GATES = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu"}
GATES |= {"sigmoid": "glu", "identity": "bilinear"}

#: Entries that change no number of a model in evaluation, by the reason why they do not.
WITHOUT_EFFECT = {
    "training": r".*dropout.*|.*_pdrop|initializer_.*|gradient_checkpointing|tf_legacy_loss"
    r"|router_(aux|z)_loss_coef|router_jitter_noise|aux_loss_alpha|seq_aux|pretraining_tp|ep_size"
    r"|moe_jitter_eps|moe_loss_weight",
    "heads for tasks": r"summary_.*|.*label.*|problem_type|finetuning_task|pooler_.*"
    r"|directionality",
    "what is returned": r"output_.*|return_dict.*|use_cache|cache_implementation|is_encoder_decoder"
    r"|is_decoder|cross_attention_hidden_size|tie_encoder_decoder",
    "generation": r".*_token_id|.*(max|min)_length|task_specific_params|do_sample|early_stopping"
    r"|num_beam.*|temperature|top_[kp]|typical_p|.*_penalty|bad_words_ids|.*no_repeat_ngram_size"
    r"|num_return_sequences|remove_invalid_values|(begin_)?suppress_tokens|exponential_decay.*"
    r"|prefix",
    "the order of the computation": r"chunk_size_feed_forward|reorder_and_upcast_attn|pruned_heads"
    r"|torchscript|use_bfloat16|(torch_)?dtype",
    "book-keeping": r"_.*|architectures|model_type|auto_map|transformers_version|tokenizer_class"
    r"|name_or_path|unsloth_.*|tie_weights_|language|name|is_[a-z0-9]+_config"
    r"|custom_pipelines|num_steps",
    "the vocabulary": r"n_special|predict_special_tokens",
    "lengths, which tensors or other entries have": r"n_ctx|n_positions|num_decoder_layers"
    r"|scale_decoder_outputs|(max_)?seq(uence)?_len(gth)?",
}
IRRELEVANT = re.compile("|".join(WITHOUT_EFFECT.values()))

#: Entries that other families have, and that a neutral value switches off.
OF_OTHERS = re.compile(
    r"sliding_window.*|.*_multiplier|logits?_scal(e|ing)|query_pre_attn_scalar|.*soft_?cap.*"
    r"|no_rope.*|layer_types|partial_rotary_factor|rotary_pct|rope_pct|rotary_dim|.*experts.*"
    r"|attention_chunk_size|.*qk_(layer)?norm|.*bidirectional.*|use_parallel_residual|clip_qkv"
    r"|attention_bias|mlp_bias|(use_)?qkv_bias|head_dim|rope_local_base_freq|qk_nope_head_dim|alibi"
    r"|swiglu_limit|kv_lora_rank|attn_temperature.*|.*logit_cap.*|use_sliding_window|use_mrope"
    r"|use_bias|rope_interleaved?|scale_embeddings|shared_expert_.*|rotary_scaling_factor"
    r"|add_cross_attention"
    r"|per_layer_config|fusion_config|kv_sharing_.*"  # which the package reads for all families
)
#: The newest version of transformers that was compared: for no family does its code read an entry
#: that the family's record does not read, unless it is listed above.
NEWEST = (5, 23)
Names = Callable[[], set[Any]]  # of entries
#: Names of one size in different families; a file may have several of them.
SAME_SIZES = (
    ("hidden_size", "n_embd", "d_model", "dim"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
)
#: Other names of families in configurations.
ALIASES = {"gemma3_text": ("gemma3",), "gemma3": ("gemma3_text",)}
ALIASES |= {"deepseek_v3": ("kimi_k2",), "kimi_k2": ("deepseek_v3",)}

#: Models that hold a text model, and the family of that where its own entries do not say so. All
#: of them are causal in text; PaliGemma, say, is not.
AROUND = {
    "aria": "aria_text", "aya_vision": "cohere2", "cohere_compass": "cohere_compass_text",
    "emu3": "emu3_text_model", "gemma3": "gemma3_text", "got_ocr2": "qwen2", "llava": "llama",
    "llava_next": "llama", "llava_onevision": "qwen2", "mistral3": "mistral",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "vipllava": "llama",
}  # fmt: skip
#: Entries beside those of the text model, about images and how they enter the text.
OF_IMAGES = re.compile(
    r"text_config|vision_.*|.*(image|video).*|mm_.*|projector_.*|multimodal_projector_bias|spatial_.*"
    r"|vq_config|vocabulary_map|(bo|eo)i_token_index|ignore_index|vocab_size|adapter_layer_norm_eps|downsample_factor"
)


def family_of(config: Any) -> Any:
    """Return the family that a configuration names, of the text model if it holds one."""
    if not isinstance(config, Mapping):
        return None
    kind, inner = config.get("model_type"), config.get("text_config")
    if not isinstance(inner, Mapping) or kind not in AROUND:
        return kind
    return inner.get("model_type", AROUND[kind])


def _is_of_the_package(config: Mapping[Any, Any]) -> bool:
    """Whether a file was written by a known version of transformers, whose own code reads it."""
    version = re.match(r"(\d+)\.(\d+)", str(config.get("transformers_version")))
    known = version is not None and tuple(map(int, version.groups())) <= NEWEST
    return known and not config.get("auto_map")


def _is_stray(name: str, config: Mapping[Any, Any], elsewhere: Names | None) -> bool:
    """
    Whether an entry that the family does not have has no reader.

    In a file that the package wrote, and that names no code of its own, an entry that no family
    reads has come from another program, say, and was carried along.
    """
    if name == "is_causal" or OF_OTHERS.fullmatch(name) or elsewhere is None:
        return False
    return _is_of_the_package(config) and name not in elsewhere()


def _is_repeated(name: str, config: Mapping[Any, Any]) -> bool:
    """Whether an entry is a size that stands under another name, too."""
    names = next((each for each in SAME_SIZES if name in each), ())
    others = [config[other] for other in names if other != name and other in config]
    return bool(others) and all(config[name] == other for other in others)


def text_config(
    config: Mapping[str, Any] | None, elsewhere: Names | None = None
) -> Mapping[str, Any] | None:
    """
    Return the configuration of a text model, which may stand in that of a multimodal one.

    Whether the head is tied, which the outer configuration says, is a question for the tensors
    (None) unless it is answered once.
    """
    inner = config.get("text_config") if isinstance(config, Mapping) else None
    if config is None or not isinstance(inner, Mapping):
        return config
    kind = config.get("model_type")
    problems = [
        f"{key!r} is {shown(value)} beside 'text_config'"
        for key, value in config.items()
        if not (
            OF_IMAGES.fullmatch(str(key))
            or IRRELEVANT.fullmatch(str(key))
            or key == "tie_word_embeddings"
            or _is_neutral(str(key), value)
            or value == inner.get(key)
            or _is_stray(str(key), config, elsewhere)
        )
    ]
    if kind not in AROUND:
        problems.insert(0, f"'model_type' must be one of {sorted(AROUND)}, not {shown(kind)}")
    raise_all("Argument 'config' must be that of a text model, or of one that is known", problems)
    tied = {c["tie_word_embeddings"] for c in (config, inner) if "tie_word_embeddings" in c}
    said = {"tie_word_embeddings": next(iter(tied)) if len(tied) == 1 else None}
    written = {key: config[key] for key in ("auto_map", "transformers_version") if key in config}
    return {"model_type": AROUND[str(kind)]} | written | dict(inner) | said | {INSIDE: True}


#: Marks the configuration of a text model that stood in another one.
INSIDE = "_inside"


#: The value of ``is_causal`` that says nothing new, for families other than decoders.
IS_CAUSAL: dict[str, bool | None] = {"t5": None, "mt5": None}
ENCODERS = "bert roberta camembert xlm-roberta distilbert data2vec-text bert-generation"
ENCODERS += " electra rembert roformer megatron-bert roberta-prelayernorm xlm-roberta-xl"
IS_CAUSAL |= dict.fromkeys(ENCODERS.split(), False)


def _is_neutral(name: str, value: Any, family: str = "") -> bool:
    """Whether an entry that the family does not have changes nothing."""
    if name == "is_causal":  # which transformers heeds in encoders and in decoders
        return value is IS_CAUSAL.get(family, True)
    if not OF_OTHERS.fullmatch(name):
        return value is None
    if isinstance(value, list | tuple):
        return all(v in ("full_attention", 1, True, None) for v in value)
    return value is None or (value is not True and value in (0, 1, "", {}))


#: Families whose tensors have names that other families use for another model.
SIMILAR: set[str] = {"llama"}


class Settings:
    """A configuration, and the entries of it that have been read so far."""

    def __init__(
        self, config: Mapping[str, Any] | None, family: str, families: Mapping[str, tuple[str, str]]
    ) -> None:
        if config is not None:
            check_mapping("config", config)
        self.config = {} if config is None else dict(config)
        for key, value in self.config.items():
            if not _is_json(value) and (key in NAMED or not IRRELEVANT.fullmatch(str(key))):
                wanted = f"a value of JSON as {shown(key)}, not {shown(value)}"
                msg = f"Argument 'config' must have {wanted}."
                raise TypeError(msg)
        self.known: set[Any] = {"model_type"}
        self.problems: list[str] = []
        self.notes: list[str] = []
        #: Ends of names that every layer must have, or none, or so many of them.
        self.tensors: dict[str, bool | int] = {}
        self.rotations: Mapping[str, Any] = {}  # of kinds of layers that differ
        self.own_names: dict[str, str] = {}  # of a family, by the usual ones
        self.families = families  # first part of the classes' names, and features in words
        self.family = family
        self._check_family(family)
        if self.config.get("quantization_config") is not None:
            hint = "which dlref does not read: dequantize them and leave it out"
            self.problems.append(f"'quantization_config' belongs to quantized weights, {hint}")

    def _check_family(self, family: str) -> None:
        """Note a problem if the configuration says that it is another family's."""
        kind = self.config.get("model_type")
        kind = kind if isinstance(kind, str | None) else shown(kind)
        if kind not in (None, family, *ALIASES.get(family, ())):
            self.problems.append(
                f"'model_type' must be {family!r}, not {self._name_of_family(kind)}"
            )
        names = self.config.get("architectures") or ()
        if not isinstance(names, list | tuple):
            self.problems.append(f"'architectures' must be a list, not {shown(names)}")
            names = ()
        stem = self.families[family][0]
        fitting = re.compile(f"(?i:{stem})(?=[A-Z]|$)")  # MPT's own files and transformers differ
        named = [str(name) for name in names if re.search("For[A-Z]|Model$", str(name))]
        named = [re.sub("_(?=For[A-Z])", "", name) for name in named]  # of ERNIE's own code
        if self.config and kind is None and not named and family in SIMILAR:
            reason = "many families have its entries and its tensors' names"
            self.problems.append(f"'model_type' must be there: {reason}")
        if named and not any(map(fitting.match, named)):
            others = [
                other
                for other, (start, _) in self.families.items()
                if re.match(f"{start}(?=[A-Z]|$)", named[0])
            ]
            whose = self._name_of_family(others[0]) if others else "of another family"
            self.problems.append(
                f"'architectures' must be of {stem}, but {shown(named[0])} is {whose}"
            )

    def _name_of_family(self, kind: Any) -> str:
        """Describe another family, if it is known."""
        if kind in MISSING:
            return f"{kind!r}, for which dlref lacks {MISSING[kind][1]}"
        if kind not in self.families:
            return shown(kind)
        return f"{kind!r}, which has {self.families[kind][1]} and is read by kind={kind!r}"

    def get(self, default: Any, *names: str) -> Any:
        """Return the entry that has one of these names, or the default."""
        self.known |= {*names}
        there = [name for name in names if self.config.get(name) is not None]
        for other in there[1:]:
            self.only(other, self.config[there[0]])
        return self.config[there[0]] if there else default

    def entry_name(self, *names: str) -> str:
        """Return the name of an entry in this file, for messages."""
        return next((self.own_names[name] for name in names if name in self.own_names), names[0])

    def integer(self, default: int | None, *names: str) -> int:
        value = self.get(default, *names)
        if isinstance(value, bool):  # Python's are integers, JSON's are not
            msg = f"Argument 'config.{self.entry_name(*names)}' must be an integer, not {value}."
            raise TypeError(msg)
        return as_integer(f"config.{self.entry_name(*names)}", value, least=1)

    def divisor(self, whole: int, default: int, *names: str) -> int:
        """Return a number of heads, and note a problem unless it divides the whole."""
        n = self.integer(default, *names)
        if whole % n:
            self.problems.append(f"{names[0]!r} must divide {whole}, not be {n}")
        return n

    def list_entry(self, default: Any, name: str) -> Any:
        """Return a list of names or numbers, and note a problem if an entry is none."""
        value = self.get(default, name)
        whole = isinstance(value, list | tuple) and all(isinstance(v, str | int) for v in value)
        if value is None or whole:
            return value
        self.problems.append(f"{name!r} must be a list of names or numbers, not {shown(value)}")
        return default

    def number(self, default: float, name: str) -> float:
        return as_number(f"config.{name}", self.get(default, name), least=0, most=LARGEST)

    def flag(self, default: bool, name: str) -> bool:
        value = self.get(default, name)
        if not isinstance(value, bool):
            self.problems.append(f"{name!r} must be True or False, not {shown(value)}")
        return bool(value)

    def only(self, name: str, wanted: Any, lacking: str = "") -> None:
        """Note a problem unless an entry has the value that dlref can express."""
        value = self.get(wanted, name)
        if value != wanted:
            reason = f": dlref lacks {lacking}" if lacking else ""
            self.problems.append(f"{name!r} must be {wanted!r}, not {shown(value)}{reason}")

    def only_these(self, **wanted: Any) -> None:
        """Note a problem for each of several entries that has another value."""
        for name, value in wanted.items():
            self.only(name, value)

    def biases_of_network(self, there: bool, *names: str) -> None:
        """Say whether each layer has the biases of its network."""
        names = names or ("gate_proj", "up_proj", "down_proj")
        self.tensors |= {f"mlp.{name}.bias": there for name in names}

    def activation(self, default: str, name: str, *, gated: bool = False) -> str:
        return self.translated(name, self.get(default, name), gated=gated)

    def translated(self, name: str, value: Any, *, gated: bool = False) -> str:
        """Return dlref's name of an activation."""
        if not isinstance(value, str) or value not in ACTIVATIONS:
            self.problems.append(
                f"{name!r} must be one of {sorted(ACTIVATIONS)}, not {shown(value)}"
            )
            return "identity"
        plain = ACTIVATIONS[value]
        if gated and plain not in GATES:
            self.problems.append(f"{name!r} must not be {value!r} for a gate")
        return GATES.get(plain, "identity") if gated else plain

    def inside(self, name: str, known: set[Any]) -> Settings:
        """Return an inner dictionary as a configuration of the same family, to be finished too."""
        inner = self.get({}, name)
        if not isinstance(inner, Mapping):
            self.problems.append(f"{name!r} must be a dictionary, not {shown(inner)}")
            inner = {}
        own = Settings(
            {k: v for k, v in inner.items() if k not in NAMED}, self.family, self.families
        )
        own.known |= known
        return own

    def refuse(self) -> None:
        """Raise an error with all problems found so far."""
        raise_all("Argument 'config' must be what dlref can express", self.problems)

    def finish(self, elsewhere: Names | None = None) -> None:
        """
        Raise an error with all problems, which entries are that nobody has read.

        `elsewhere` returns the names of the entries that any family reads; without it, there are no
        stray entries, as in an inner dictionary.
        """
        self.refuse()
        rest = [k for k in self.config if k not in self.known and not IRRELEVANT.fullmatch(str(k))]
        raise_all(
            "Argument 'config' must have no entries that this family does not have",
            [
                f"{k!r} is {shown(self.config[k])}"
                for k in rest
                if not _is_neutral(str(k), self.config[k], self.family)
                and not _is_repeated(k, self.config)
                and not _is_stray(str(k), self.config, elsewhere)
            ],
        )
        for note in self.notes:
            warnings.warn(f"Argument 'config' {note}.", UserWarning, stacklevel=5)


#: Entry of the length that a model was trained for.
TRAINED = "original_max_position_embeddings"


def _scaling(
    s: Settings, *, by_kind: bool, usual: dict[str, Any] | None
) -> tuple[str, dict[str, Any]]:
    """Return the entry that describes the rotation: rope_scaling, or the newer rope_parameters."""
    if usual and s.get(None, "rope_parameters") is None:
        s.config["rope_parameters"] = usual
    given = {key: s.get({}, key) for key in ("rope_scaling", "rope_parameters")}
    for key, value in given.items():
        check_mapping(f"config.{key}", value)
    key = next((key for key, value in given.items() if value), "rope_scaling")
    rotation = given[key]
    kinds = {"full_attention", "sliding_attention"}  # a kind may have no rotation, which is null
    if kinds & rotation.keys() or any(isinstance(value, Mapping) for value in rotation.values()):
        if not by_kind:
            s.problems.append(f"{key!r} must not be one for each kind of layer")
        s.rotations, rotation = rotation, rotation.get("full_attention") or {}
    elif by_kind and rotation and key == "rope_parameters":
        s.problems.append(f"{key!r} must be one for each kind of layer")
    elif by_kind and "rope_type" not in rotation and rotation.get("type", "default") != "default":
        s.problems.append(f"{key!r} must have 'rope_type': transformers does not read its 'type'")
    return key, dict(rotation)


def rope_settings(
    s: Settings,
    width: int,
    *,
    base: float = 10000.0,
    partial: float | None = None,
    by_kind: bool = False,
    usual: dict[str, Any] | None = None,
    alpha: bool = False,
) -> tuple[float, dict[str, Any] | None, int]:
    """
    Return base, scaling and number of rotated channels.

    By default, `partial` is their share, and `usual` the scaling. With `alpha`, a factor of the
    base is one of the scalings.
    """
    key, scaling = _scaling(s, by_kind=by_kind, usual=usual)
    base = s.get(base, "rope_theta", "rotary_emb_base")
    length, trained = s.integer(2048, "max_position_embeddings"), s.get(None, TRAINED)
    base = as_number("config.rope_theta", scaling.pop("rope_theta", base), above=1, most=LARGEST)
    share = 1.0 if partial is None else partial
    share = s.get(share, "partial_rotary_factor", "rotary_pct", "rope_pct")
    share = scaling.pop("partial_rotary_factor", share)
    for name in ("mrope_section", "mrope_interleaved"):  # all positions of a text are the same
        scaling.pop(name, None)
    share = as_number("config.partial_rotary_factor", share, least=0, most=1)
    s.only("rope_percent", share)
    if partial is None and share != 1:
        s.problems.append("'partial_rotary_factor' must be 1: all channels are rotated")
    width = int(width * share)
    if width % 2 or not 0 < width <= 2**20:
        size = "'head_dim', or 'hidden_size' over the heads, times 'partial_rotary_factor'"
        s.problems.append(f"{size}, must be even and from 2 to 2**20 for rotations, not {width}")
        s.refuse()
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not scaling or kind == "default":
        typed = "rope_type" in scaling or "type" in scaling
        if scaling.get("factor", 1) not in (1, None) or not (typed or scaling.keys() <= {"factor"}):
            names = ", ".join(map(repr, sorted(scaling.keys() - {"type", "rope_type"}, key=str)))
            s.problems.append(f"{key!r} has {names}, and must have a rope_type that says of what")
        return base, None, width
    if alpha and kind == "dynamic" and scaling.get("alpha"):
        factor = as_number("config.rope_scaling['alpha']", scaling["alpha"], above=0)
        return base * factor ** (width / (width - 2)), None, width
    if kind in ("dynamic", "longrope"):
        s.problems.append(f"the rope type must not be {kind!r}, which depends on the text's length")
        return base, None, width
    if kind in ("llama3", "yarn"):
        scaling[TRAINED] = trained or scaling.get(TRAINED) or length
    if kind == "yarn" and scaling.get("factor") is None:
        scaling["factor"] = length / as_integer(f"config.{TRAINED}", scaling[TRAINED], least=1)
    if not s.problems:
        try:
            rope_frequencies(width, base=base, scaling=scaling)
            rope_attention_factor(scaling)
        except (TypeError, ValueError) as error:
            s.problems.append(f"{key!r} does not fit: {str(error).rstrip('.')}")
    return base, scaling, width
