"""
What a first call costs: ``tox run -e cold [-- softmax attention ...]``.

Each public function is called once in a process that has compiled nothing, with an empty cache on
disk.  CPU seconds are those of the call alone, of all threads, without the import; they depend less
on what else the machine does than time on the clock.  "compiled" counts the functions that numba
compiled (tests/core/test_cold.py holds some of these numbers).

Functions of trees of parameters, models and optimizers are called with small ones (`trees` below);
for what is neither, the examples of the docstring are run.  Writes docs/results/cold.csv.
"""

import argparse
import csv
import doctest
import importlib
import os
import pickle
import statistics
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "cold.csv"
DTYPES = ("float32", "float64")


def trees(dtype):
    """Return calls, without arguments, of the functions that take trees of arrays."""
    from dlref import attention, training  # noqa: PLC0415
    from dlref import transformer as tr  # noqa: PLC0415

    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.normal(size=shape).astype(dtype)

    def forms(module, name, primals, dout, *after, **options):
        """Return the map and its two products; the tangents are the primals."""
        f, vjp, jvp = (getattr(module, name + form) for form in ("", "_vjp", "_jvp"))
        tangents = tuple(None if p is tokens else p for p in primals)
        return {
            name: lambda: f(*primals, *after, **options),
            f"{name}_vjp": lambda: vjp(dout, *primals, *after, **options),
            f"{name}_jvp": lambda: jvp(primals, tangents, *after, **options),
        }

    config = tr.LanguageModelConfig(11, 8, 2, length=8)
    model = tr.init_language_model(rng, config, dtype=dtype)
    pair = tr.init_encoder_decoder_model(rng, config, dtype=dtype)
    classifier = tr.init_sequence_classifier(rng, config, 3, dtype=dtype)
    tokens = rng.integers(0, 11, (2, 6))
    x, memory, logits = normal(2, 6, 8), normal(2, 5, 8), normal(2, 6, 11)
    encoder, decoder = pair.encoder, pair.decoder
    gated = tr.GatedFeedForwardParams(normal(12, 8), normal(12, 8), normal(8, 12))
    attend = encoder[0].attention
    classes = np.array([0, 2])
    calls = {
        **forms(attention, "multi_head_attention", (x, x, attend), x, num_heads=2),
        **forms(tr, "feed_forward", (x, encoder[0].feed_forward), x),
        **forms(tr, "gated_feed_forward", (x, gated), x),
        **forms(tr, "encoder_block", (x, encoder[0]), x, num_heads=2),
        **forms(tr, "encoder", (x, encoder), x, num_heads=2),
        **forms(tr, "decoder_block", (x, memory, decoder[0]), x, num_heads=2),
        **forms(tr, "decoder", (x, memory, decoder), x, num_heads=2),
        **forms(tr, "language_model", (tokens, model), logits, config),
        **forms(tr, "encoder_decoder_model", (tokens, tokens, pair), logits, config),
        **forms(tr, "sequence_classifier", (tokens, classifier), normal(2, 3), config),
    }
    tasks = {
        "language_model": (tokens, model, config),
        "encoder_decoder_model": (tokens, tokens, pair, config),
        "sequence_classifier": (tokens, classes, classifier, config),
    }
    for name, arguments in tasks.items():
        for form in ("loss", "loss_value_and_grad", "loss_grad"):
            calls[f"{name}_{form}"] = partial(getattr(tr, f"{name}_{form}"), *arguments)
    for name in ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"):
        step = getattr(training, f"{name}_step")
        calls[step.__name__] = partial(step, x, x, None, learning_rate=0.1)
    return calls | {
        "language_model_trace": partial(tr.language_model_trace, tokens[0], model, config),
        "encoder_decoder_weights": partial(
            tr.encoder_decoder_weights, tokens, tokens, pair, config
        ),
        "next_token_probabilities": partial(tr.next_token_probabilities, tokens[0], model, config),
        "generate": partial(tr.generate, tokens[0], model, config, steps=2, temperature=0),
        "beam_search": partial(tr.beam_search, tokens[0], model, config, steps=2),
        "encoder_decoder_generate": partial(
            tr.encoder_decoder_generate, tokens[0], pair, config, start=0, steps=2
        ),
    }


def examples(f):
    """Return a call that runs the examples of a docstring."""
    test = doctest.DocTestFinder(recurse=False).find(f, globs={})[0]

    def run():
        for example in test.examples:
            exec(compile(example.source, "example", "single"), test.globs)

    return run


def call_of(name, dtype):
    """Return a call of a public function, or None where the dtype makes no difference."""
    import cases  # noqa: PLC0415
    import test_contract  # noqa: PLC0415

    chapter, _, short = name.rpartition(".")
    if name in test_contract.FUNCTIONS:
        problem = test_contract.problems(name, dtype=np.dtype(dtype).type)[0]
        arguments = problem.arguments(test_contract.form_of(name))
        return lambda: test_contract.evaluate(name, problem, arguments)
    known = trees(dtype)
    if short in known:
        return known[short]
    f = getattr(importlib.import_module(f"dlref.{chapter}" if chapter else "dlref"), short)
    del cases
    return examples(f) if dtype == "float64" else None


def measure(name, dtype):
    """Call a function in a forked child; return CPU seconds and the compiled functions."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "wb") as out:
            try:
                pickle.dump(_first_call(name, dtype), out)
            except BaseException as error:  # shown by the parent
                pickle.dump(repr(error), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        found = pickle.load(answer)  # our own child's
    os.waitpid(pid, 0)
    if isinstance(found, str):
        msg = f"{name}, {dtype}: {found}"
        raise RuntimeError(msg)
    return found


def _first_call(name, dtype):
    from numba.core import event  # noqa: PLC0415

    call = call_of(name, dtype)
    if call is None:
        return None
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # examples print
    with event.install_recorder("numba:compile") as record, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        call()
        seconds = time.process_time() - start
    starts = [e for _, e in record.buffer if e.is_start]
    names = [e.data["dispatcher"].py_func.__name__ for e in starts]
    return seconds, names


def public_names():
    import dlref  # noqa: PLC0415

    for chapter in dlref.__all__:
        for name in getattr(getattr(dlref, chapter), "__all__", ()):
            f = getattr(getattr(dlref, chapter), name)
            if not isinstance(f, type):
                yield f"{chapter}.{name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("words", nargs="*", help="only functions whose names hold one of these")
    parser.add_argument("--names", action="store_true", help="print what was compiled")
    options = parser.parse_args()
    os.environ["NUMBA_CACHE_DIR"] = os.devnull  # nothing is kept, so each child finds it empty
    sys.path.insert(0, str(Path(__file__).parent))
    import test_contract  # noqa: F401, PLC0415  # loads all chapters, and compiles nothing

    rows = []
    for name in public_names():
        if options.words and not any(word in name for word in options.words):
            continue
        found = [measure(name, dtype) for dtype in DTYPES]
        known = [f for f in found if f is not None]
        seconds = [f"{f[0]:.2f}" if f else "" for f in found]
        rows.append([name, *seconds, max(len(f[1]) for f in known)])
        print(*rows[-1], sep="\t", flush=True)
        if options.names:
            print("   ", *known[-1][1])
    for i, dtype in enumerate(DTYPES, 1):
        seconds = [float(row[i]) for row in rows if row[i]]
        worst = max(rows, key=lambda row: float(row[i] or 0))
        print(f"{dtype}: median {statistics.median(seconds):.2f}, worst {worst[i]} ({worst[0]})")
    if not options.words:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["function", *(f"{d}, CPU seconds" for d in DTYPES), "compiled"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
