r"""
Frequencies of the rotations, and their scalings for texts longer than in training.

A pair that rotates once in 50 000 tokens has seen only a part of its circle when training ends at
4096. Every scaling slows such pairs down; they differ in their treatment of the fast ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_even,
    as_floats,
    as_integer,
    as_number,
    check_flags,
    check_keys,
    check_mapping,
    check_shape,
    choice,
    present,
)
from ._kernels.circle import powers

LENGTH = "original_max_position_embeddings"
FLAGS = {"truncate", "finetuned"}
EVERYWHERE = {LENGTH, "finetuned"}  #: in dictionaries of all types, whether they need it or not

#: The parameters of each scaling: those it needs, and those it may have.
PARAMETERS: dict[str, tuple[set[str], set[str]]] = {
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "ntk": ({"factor"}, set()),
    "dynamic": ({"factor", LENGTH}, set()),
    "yarn": (
        {"factor", LENGTH},
        {"beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim"},
    ),
    "longrope": (
        {"short_factor", "long_factor", LENGTH},
        {"factor", "attention_factor"},
    ),
    "llama3": ({"factor", "low_freq_factor", "high_freq_factor", LENGTH}, set()),
    "proportional": ({"partial_rotary_factor"}, {"factor"}),
}


def _kind(scaling: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Check the dictionary; return the type and the parameters."""
    if scaling is None:
        return "default", {}
    check_mapping("scaling", scaling)
    given = present(scaling)
    kinds = [given.pop(name) for name in ("type", "rope_type") if name in given]
    for kind in kinds or [None]:
        choice("scaling['type']", kind, list(PARAMETERS))
    kind = kinds[-1]
    if kind != kinds[0]:  # two spellings, two types
        choice("scaling['type']", " and ".join(kinds), list(PARAMETERS))
    needed, allowed = PARAMETERS[kind]
    check_keys("scaling", given.keys() - (EVERYWHERE - needed), needed, allowed)
    check_flags(**{f"scaling[{key!r}]": given[key] for key in given.keys() & FLAGS})
    for key in given.keys() - {"short_factor", "long_factor"} - FLAGS:
        if key == LENGTH:
            given[key] = as_integer(f"scaling[{key!r}]", given[key], least=1)
        elif key == "partial_rotary_factor":
            given[key] = as_number(f"scaling[{key!r}]", given[key], least=0.0, most=1.0)
        else:
            least = 1.0 if key == "factor" else 0.0
            above = 0.0 if key.startswith("beta") else None
            given[key] = as_number(f"scaling[{key!r}]", given[key], least=least, above=above)
    return kind, given


def rope_frequencies(
    dim: int,
    *,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    seq_len: int | None = None,
) -> FloatArray:
    r"""
    Frequency of every rotated pair, in radians per token.

    Parameters
    ----------
    dim : int
        Number d of rotated channels, even.
    base : float, default 10000.0
        Base b of the geometric sequence, called `rope_theta` in configurations.
    scaling : dict or None
        ``{"type": ..., ...}`` as in the published configurations, where the key is also called
        ``rope_type``; both may be there. The notes say which parameters a type takes;
        ``original_max_position_embeddings`` and ``finetuned`` may be added for any type. A
        ``rope_theta`` in it is the argument `base` here.
    seq_len : int or None
        Number of tokens of the text, for the types "dynamic" and "longrope". None means no longer
        than in training.

    Returns
    -------
    ndarray of float64, shape (d / 2,)
        Frequencies :math:`\theta_i`, the fastest pair first.

    Raises
    ------
    TypeError
        If `dim` or `seq_len` is not an integer, `scaling` is not a dictionary, or a parameter has
        the wrong type.
    ValueError
        If `dim` is odd or too small (2, or 4 for "ntk" and "dynamic", is the least), `base` not
        above 1, the type unknown, or a parameter missing, unknown or out of range.

    See Also
    --------
    rope_attention_factor : The factor of the tables that belongs to some scalings.
    rope_tables : From frequencies to tables.
    sinusoidal : Has the same frequencies.

    Notes
    -----
    **The sequence.** :math:`\theta_i = b^{-2i/d}` for i = 0, ..., d/2 − 1. The wavelengths
    :math:`\lambda_i = 2\pi / \theta_i`, in tokens per turn, grow from :math:`2\pi` to nearly
    :math:`2\pi b`. Writing the angle of pair i as a linear function of the position and
    the frequency as a geometric one of i makes every scale of distance equally well resolved.

    **The problem with long texts.** A pair with :math:`\lambda_i > L`, the length of the training
    texts, has shown only the angles up to :math:`L\theta_i` of its circle. Beyond L it takes angles
    on which nothing was trained. For b = 10 000, d = 128 and L = 4096 these are 18 of the 64 pairs;
    periodicity does not help them. Let :math:`s` be the factor by which the text grows.

    *linear* (position interpolation), ``factor`` s. Divide positions by s, which is
    :math:`\theta_i / s`: no angle is new (:cite:t:`Chen2023`). Neighbors are now 1/s apart, also
    for the fast pairs, which did not need it.

    *ntk*, ``factor`` s (NTK-aware scaling, :cite:t:`bloc97`). Change the base so that pair 0 does
    not change and the last pair, :math:`i = d/2 - 1`, is divided by s exactly:

    .. math:: b'^{-(d-2)/d} = \frac{b^{-(d-2)/d}}{s} \quad\Rightarrow\quad
       b' = b\, s^{d/(d-2)}, \qquad \theta'_i = \theta_i\, s^{-2i/(d-2)} .

    *dynamic*, ``factor`` s and L. The same with the factor :math:`s\,\ell/L - (s - 1)` for a text
    of :math:`\ell > L` tokens, which is 1 at :math:`\ell = L`. Keys in a cache were rotated with
    older frequencies; they would have to be rotated again.

    *yarn*, ``factor`` s and L, optionally ``beta_fast`` 32, ``beta_slow`` 1, ``truncate`` True.
    Pair i makes :math:`r_i = L / \lambda_i` turns during the training. Pairs with more than
    ``beta_fast`` turns stay, pairs with fewer than ``beta_slow`` are divided by s, and a ramp lies
    between. Solving :math:`L \theta_i = 2\pi r` gives the index of r turns,

    .. math:: i(r) = \frac{d}{2} \cdot \frac{\log (L / 2\pi r)}{\log b}, \qquad
       \theta'_i = \theta_i \Bigl( (1 - \gamma_i) + \frac{\gamma_i}{s} \Bigr), \quad
       \gamma_i = \operatorname{clip}_0^1 \frac{i - l}{h - l},

    with :math:`l = i(\text{beta\_fast})`, rounded down unless ``truncate`` is False, and
    :math:`h = i(\text{beta\_slow})`, then rounded up; l is at least 0 and h at most d − 1. The ramp
    is linear in i, as in the authors' code; where l = h, it rises from 0 at l within 0.001, so that
    pairs up to l stay and all others are divided.

    *longrope*, ``short_factor`` and ``long_factor``, lists of d/2 numbers found by search, and
    L: :math:`\theta_i / f_i`, with the long factors as soon as the text is longer than L.

    *llama3*, ``factor`` s, ``low_freq_factor``, ``high_freq_factor`` and L: the rule in the code of
    Llama 3.1 (:cite:t:`Grattafiori2024` describe the models, not the rule). As in yarn, but the
    ramp is linear in the number of turns: :math:`\theta'_i = \theta_i ((1 - g_i) / s + g_i)`,
    :math:`g_i = \operatorname{clip}_0^1 (r_i - \text{low}) / (\text{high} - \text{low})`.

    *proportional*, ``partial_rotary_factor`` p and optionally ``factor`` s (Gemma 4). `dim` is the
    whole width of a head. The first :math:`\lfloor p d / 2 \rfloor` pairs have
    :math:`\theta_i / s`, and the others the frequency 0: they do not turn, and compare contents at
    any distance. A partial rotation (``rotary_dim`` of :func:`apply_rope`) would turn as many
    pairs, but with frequencies that span the whole range, since its d is the number of rotated
    channels.

    **Accuracy.** Powers of the base are computed with 50 decimal digits and rounded once. A
    frequency off by one unit in the last place rotates a pair up to :math:`10^{-10}` too far at
    position :math:`10^6`.

    References
    ----------
    - :cite:t:`Su2021`
    - :cite:t:`Chen2023`
    - :cite:t:`bloc97`
    - :cite:t:`Peng2023`
    - :cite:t:`Ding2024`
    - :cite:t:`Grattafiori2024`

    Examples
    --------
    >>> from dlref.positions import rope_frequencies
    >>> rope_frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])

    The paper counts pairs from 1 and has the exponent :math:`-2(i-1)/d`: the same numbers.

    >>> [10000.0 ** (-2 * (i - 1) / 8) for i in (1, 2, 3, 4)]
    [1.0, 0.1, 0.01, 0.001]

    Linear scaling slows all pairs, NTK scaling the last one by as much and the first not at all:

    >>> rope_frequencies(8, scaling={"type": "linear", "factor": 4})
    array([0.25   , 0.025  , 0.0025 , 0.00025])
    >>> ratio = rope_frequencies(8, scaling={"type": "ntk", "factor": 8}) / rope_frequencies(8)
    >>> ratio
    array([1.   , 0.5  , 0.25 , 0.125])

    Half of the pairs turn, with the frequencies of the whole head:

    >>> half = {"rope_type": "proportional", "partial_rotary_factor": 0.5}
    >>> rope_frequencies(8, scaling=half)
    array([1. , 0.1, 0. , 0. ])

    Pairs that were trained on only a part of their circle:

    >>> import numpy as np
    >>> int(np.sum(2 * np.pi / rope_frequencies(128) > 4096))
    18
    """
    dim = as_even("dim", dim, least=2, most=2**20)
    base = as_number("base", base, above=1.0)
    length = None if seq_len is None else as_integer("seq_len", seq_len, least=0)
    kind, given = _kind(scaling)
    if kind in ("ntk", "dynamic"):
        dim = as_even("dim", dim, least=4)
    theta = np.array([float(power) for power in powers(base, 2, dim, dim // 2)])
    return np.asarray(_scaled(theta, dim, base, kind, given, length), np.float64)


def _scaled(
    theta: FloatArray, dim: int, base: float, kind: str, given: dict[str, Any], length: int | None
) -> Any:
    """Apply a scaling to the frequencies."""
    pair = np.arange(dim // 2)
    trained = given.get(LENGTH, 1)
    s = given.get("factor", 1.0)
    if kind == "linear":
        return theta / s
    if kind in ("ntk", "dynamic"):
        if kind == "dynamic":
            s = s * max(length or 0, trained) / trained - (s - 1.0)
        return theta * s ** (-2.0 * pair / (dim - 2))
    if kind == "yarn":
        ramp = _yarn_ramp(pair, dim, base, trained, given)
        return theta * ((1.0 - ramp) + ramp / s)
    if kind == "longrope":
        name = "long_factor" if length is not None and length > trained else "short_factor"
        lists = {key: given[key] for key in ("short_factor", "long_factor")}
        _, arrays = as_floats({f"scaling[{key!r}]": value for key, value in lists.items()})
        for key, array in zip(lists, arrays, strict=True):
            check_shape(f"scaling[{key!r}]", array, theta.shape)
        return theta / dict(zip(lists, arrays, strict=True))[name]
    if kind == "llama3":
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        as_number("scaling['high_freq_factor']", high, above=low)
        turns = trained * theta / (2.0 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return theta * ((1.0 - kept) / s + kept)
    if kind == "proportional":
        turning = math.floor(given["partial_rotary_factor"] * dim / 2)
        theta = np.where(pair < turning, theta / s, 0.0)
    return theta


def _yarn_ramp(pair: Any, dim: int, base: float, trained: int, given: dict[str, Any]) -> FloatArray:
    """Return 0 for pairs that stay, 1 for those that are divided by the factor."""

    def index(turns: float) -> float:
        return dim / 2 * math.log(trained / (2.0 * math.pi * turns)) / math.log(base)

    low, high = index(given.get("beta_fast", 32.0)), index(given.get("beta_slow", 1.0))
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low if high != low else 0.001
    return np.asarray(np.clip((pair - low) / width, 0.0, 1.0))


def rope_attention_factor(
    scaling: Mapping[str, Any] | None, *, max_position_embeddings: int | None = None
) -> float:
    r"""
    Factor of the tables that a scaling requires.

    Parameters
    ----------
    scaling : dict or None
        As in `rope_frequencies`.
    max_position_embeddings : int or None
        Length the model is meant for. LongRoPE takes its factor from it if ``factor`` is not given.

    Returns
    -------
    float
        Factor m; 1 for all types but "yarn" and "longrope".

    Raises
    ------
    TypeError
        If `scaling` is not a dictionary, or a parameter is not a number.
    ValueError
        If the type is unknown, or a parameter missing or unknown.

    See Also
    --------
    rope_tables : Takes the factor.
    rope_frequencies : The other half of a scaling.

    Notes
    -----
    A longer text has more keys, and the softmax over more keys is flatter. Multiplying scores by
    :math:`m^2 > 1` sharpens it. Since the tables multiply queries and keys, m on both tables
    does that.

    *yarn.* :math:`m(s) = 0.1 \log s + 1`, fitted by the authors to the perplexity of long texts.
    There are two conventions. With ``mscale`` and ``mscale_all_dim``, both not zero, the factor is
    the ratio

    .. math:: \frac{0.1\, \text{mscale} \log s + 1}{0.1\, \text{mscale\_all\_dim} \log s + 1},

    and such a model multiplies the scale of its softmax by the square of the denominator by
    itself: there only some channels of a head are rotated, and the temperature must apply to
    all of them. If the two parameters are equal, the factor of the tables is 1.

    *longrope.* :math:`m = \sqrt{1 + \log s / \log L}`. Its square, which multiplies the scores, is
    the ratio of the logarithms of the new and the old length, since
    :math:`\log (s L) / \log L = 1 + \log s / \log L`.

    ``attention_factor`` in the dictionary overrides both.

    References
    ----------
    - :cite:t:`Peng2023`
    - :cite:t:`Ding2024`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import rope_attention_factor
    >>> yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    >>> rope_attention_factor(yarn)
    1.1386294361
    >>> rope_attention_factor({**yarn, "mscale": 0.707, "mscale_all_dim": 0.707})
    1.0
    >>> rope_attention_factor(None)
    1.0
    """
    kind, given = _kind(scaling)
    if kind == "longrope" and "factor" not in given and max_position_embeddings is not None:
        most = as_integer("max_position_embeddings", max_position_embeddings, least=1)
        given["factor"] = max(most / given[LENGTH], 1.0)
    if "attention_factor" in given:
        return float(given["attention_factor"])
    growth = math.log(given.get("factor", 1.0))
    if kind == "yarn":
        over, under = given.get("mscale", 0.0), given.get("mscale_all_dim", 0.0)
        if over and under:
            return float((0.1 * over * growth + 1.0) / (0.1 * under * growth + 1.0))
        return 0.1 * growth + 1.0
    if kind == "longrope" and growth:
        as_integer(f"scaling[{LENGTH!r}]", given[LENGTH], least=2)
        return math.sqrt(1.0 + growth / math.log(given[LENGTH]))
    return 1.0
