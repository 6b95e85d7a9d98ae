"""
Kernels with mistakes of other people, and right ones as people write them.

The set *given* has a kernel for each mistake of our reviews of other people's kernels: a cause that
was wrong (C), a kind that was not named (D), inputs that proved nothing (B), and what authors of
GPU kernels got wrong, here in NumPy, block by block (GPU). The set *fresh* is from public issues
and pull requests. A search was made for each topic below; every result was taken, in the order
found, whose text says which mathematical mistake a map of dlref's has, unless the same mistake of
the same map was there already, here or in tests/check/test_public_reports.py. Crashes, wrong
shapes, lost precision without a cause, metrics, and reports that were withdrawn are left out.
Where a text gives the right formula alone, the mistake is what its correction changes.

The set *later* was looked up in one go when the search for causes had all of its changes but five:
18 of its 28 kernels were named then. The five that it led to are an option that is used once more,
a scale of another width, a reshape for a transpose, an integer quotient, base and exponent
exchanged.

The set *november* was looked up on 2026-11-29 and put to the search as it was before that day. Of
its 35 kernels, 33 were put to it then: all were flagged, 21 were named, and one had a name that
cannot be read. They led to a factor of another statement, other constants of a module, sums whose
parentheses are lost, a product for a power, a complement that is forgotten, and formulas in the
spelling of textbooks.

The set *december* was looked up on the same day, in other projects or of other maps: searches for a
layer, a loss, an optimizer or a schedule, and for slips that people make in it. Each result was
taken, in the order found, by the rules above. All of its 42 kernels were written before one was
put to the search as it was in november: all were flagged, 21 were named, two had a wrong name and
two a headline that is no name. They led to arrays that are read by groups, mistakes in a part of
the places alone, statistics in place of an array, both branches at once, sums without a diagonal,
other entries of a result, random draws, and cases that confirm a program though they do not
tell it from others.

The set *newest* was looked up once the search had these, by searches of its own, and written before
any kernel was tried: all 24 were flagged, 16 were named, three had a wrong name (a value of eps
that one case refutes, a filter that keeps one token, which many programs do, and an infinity that
the kernel writes itself), and two a headline that is no name. They led to values of an option that
every case with the option has to show, outputs of two numbers, which say little, parentheses too
many, and integers that are said with the expression around them.

The set *latest* was looked up when those had been tried and the search had changed: of its nine
kernels eight were named at first sight, and none wrongly.

The set *unseen* was looked up after that, in other projects or of other maps, by 22 searches for a
layer, a loss, an optimizer or a schedule and its slips, and written before any kernel was tried:
all 30 were flagged, 19 were named, none wrongly, and one had a headline that is no name (the wrong
elements are zero). Two of the 19 had other words than were expected. They led to ranges that begin
a step early, a vector that is added for each tap, one operator for another in several places, two
variables of a result, and two changes, one of them a variable. Before that, kernels whose mistake
is no program had shown that a number of four digits may fit a result in float32 by chance.

The set *untried* was looked up once the search had these, by seven more searches: all ten were
flagged, six were named, and none wrongly. They led to counts in digits, and to the output in the
place of the cotangent.

The set *unfamiliar* was looked up on 2026-11-30, when pairs of changes and other maps had joined
the search, by 18 searches, and written before any kernel was tried. Reports that were there already
were left out: about as many as are here. All 21 were flagged, 17 were named, none wrongly. They led
to sums of another variable, and to parts of a line that have another one at each of its places.

The set *unmet* was looked up after that, by five more searches, and has the reports that the
searches for *unfamiliar* had left. All ten were flagged, six were named, one of them in other words
than were expected, and two wrongly: a slope that is the same everywhere had the name of a function
of the input, as any would do, and a zero point that is given by its name was not read. Both are
mended.

The set *unheard* was looked up last, by fourteen searches for mistakes that people report, not for
maps. All 14 were flagged, 11 were named, and none wrongly; nothing has changed for the others. They
are pairs of a rotation that are too far apart, a sum over tokens, and a parabola that is divided.

The set *unread* was looked up after that, by 24 searches, half of whose reports were there already.
All 15 were flagged, nine were named, and none wrongly. They led to a variable with a factor too
many, and to linear attention as kernels compute it, all steps of a chunk at once. Three are not
named: a bias that a missing first state loses, lanes of the next group, and min for max with the
threshold's inverse.

The set *unwritten* was looked up after that, by 21 searches, most of whose reports were there
already. All eight were flagged and none had a wrong name. Six were named as expected, and a
division by a factor that may be 0 in other words. The headline of a gradient that is not written
did not say which gradient; now it does.

The set *unopened* was looked up after that, by 37 searches, most of whose reports were there
already. All 23 were flagged, 15 were named, and none wrongly; nothing has changed for the others,
which make two changes at once, or one that applies to a single step or size.

The set *unsought* was looked up on 2026-12-01, by 68 searches of others who did not know how causes
are sought, and written before any kernel was tried. The kernels of earlier sets without a name had
led to selections, ends of interpolations, misread statistics and functions over two lines before.
All 66 were flagged, and 34 were named, two of them in other words than were expected. Three had a
wrong name or a symptom for one: a root of scores that may be negative, a kink of a product, a
factor 2 where maxima are equal. They led to formulas of derivatives that are functions of their
own, to 0 for an infinity, to a change in one call of several, and to biases that are read again.

The set *unasked* was looked up by two others on the same day, when the search had these changes,
and written before any kernel was tried. All 26 were flagged and 12 were named, two of them in other
words than were expected; one had a wrong name, a threshold that is lower by far, as it is with many
factors. Nothing has changed for the others.

Backward passes of layer and RMS norms, cross-entropy and attention, batch and group norms,
activations, softmax; windows; rotary embeddings, relative positions; Adam and AdamW; losses of
preferences and policies, of divergences, binary cross-entropy and CTC; linear attention, LSTM and
GRU, selective scans; routers; convolutions and pooling; sampling; momentum; schedules; dropout and
dense layers; contrastive losses; sinusoids; clipping by norm; soft caps and sinks. Then for
projects: Liger; fla; JAX, Optax and Flax; Keras and TensorFlow; MLX and tinygrad; trl and
torchtune; ggml and ONNX Runtime.

Each kernel is right without its slip, which is put to the same check.
"""

import importlib

MODULES = (
    "norms",
    "activations",
    "losses",
    "optimizers",
    "attention",
    "recurrences",
    "positions",
    "layers",
    "blocks",
    "tensors",
    "later",
    "november",
    "december",
    "newest",
    "latest",
    "unseen",
    "untried",
    "unfamiliar",
    "unmet",
    "unheard",
    "unread",
    "unwritten",
    "unopened",
    "unsought_layers",
    "unsought_sequences",
    "unsought_training",
    "unasked_layers",
    "unasked_sequences",
    "right",
)


def collected(name):
    """Return the entries of a list of all modules."""
    modules = [importlib.import_module(f"{__name__}.{module}") for module in MODULES]
    return [entry for module in modules for entry in getattr(module, name, ())]
