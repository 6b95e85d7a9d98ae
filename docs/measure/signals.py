"""
Signal handlers in the middle of calls: one that calls dlref, one that raises.

A process calls functions of several chapters, with two to four threads and, at first, compiling
them; a timer sends it a signal after 3 ms, again and again. One handler calls dlref itself and
changes the number of threads, the other raises. Every result has to have the bits that it has
without signals, no call may hang, only the handler's exception may be raised, and no thread may be
left in the end.

    tox run -e measure -- signals --minutes 10

Writes docs/results/signals.csv.
"""

import argparse
import csv
import faulthandler
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "signals.csv"
HANDLERS = ("calls", "raises")
SILENCE = 180  #: seconds without a finished or interrupted call after which a process hangs
PERIOD = 3e-3
ROUNDS = 2  #: of each handler, each with an empty cache


class Interrupted(BaseException):
    """What the handler raises: no error that anything in between may catch."""


def calls():
    """
    Return calls by name, each large enough for several threads.

    The functions are loaded here: a handler that interrupts an import finds half a module, as it
    does in any package.
    """
    from dlref import (  # noqa: PLC0415  # not in the process that watches
        activations,
        attention,
        losses,
        normalization,
        positions,
        quantization,
        recurrent,
        training,
    )

    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 512)).astype(np.float32)
    w, b = rng.normal(size=(2, 512)).astype(np.float32)
    targets = rng.integers(0, 512, size=600)
    q, k, v = rng.normal(size=(3, 4, 128, 32))
    series = rng.normal(size=(8, 40, 16))
    weights = [rng.normal(size=shape) for shape in ((128, 16), (128, 32), (128,), (128,))]
    turns = np.cos(q[0, :, :16]), np.sin(q[0, :, :16])
    large = rng.normal(size=(64, 128, 32))
    _, state = training.adamw_step(x, x, None, learning_rate=1e-3)
    return {
        "softmax": partial(activations.softmax, x),
        "gelu_vjp": partial(activations.gelu_vjp, x, x),
        "cross_entropy": partial(losses.cross_entropy, x, targets),
        "cross_entropy_grad": partial(losses.cross_entropy_grad, x, targets),
        "layer_norm_vjp": partial(normalization.layer_norm_vjp, x, x, w, b),
        "attention": partial(attention.scaled_dot_product_attention, q, k, v, is_causal=True),
        "attention_vjp": partial(attention.scaled_dot_product_attention_vjp, v, q, k, v),
        "lstm": partial(recurrent.lstm, series, None, None, *weights),
        "apply_rope": partial(positions.apply_rope, large, *turns),
        "fake_quantize": partial(quantization.fake_quantize, x, 0.1),
        "adamw_step": partial(training.adamw_step, x, x, state, learning_rate=1e-3),
    }


def digest(out):
    """Return a digest of all bits of a result."""
    parts = hashlib.sha256()

    def add(value):
        if isinstance(value, tuple):
            for part in value:
                add(part)
        elif value is not None:
            parts.update(np.ascontiguousarray(value).tobytes())

    add(out)
    return parts.hexdigest()


class Process:
    """The process that gets the signals."""

    def __init__(self, handler, seconds, digests):
        import dlref  # noqa: PLC0415

        self.dlref, self.calls, self.expected = dlref, calls(), digests
        self.end = time.monotonic() + seconds
        self.rng = random.Random(0)
        self.armed, self.chance, self.inside = 0, 0.0, False
        self.count = dict.fromkeys(("calls", "signals", "inside", "interrupted"), 0)
        self.wrong = []
        self.handle = {"calls": self.call, "raises": self.throw}[handler]

    def check(self, name):
        if digest(self.calls[name]()) != self.expected[name]:
            self.wrong.append(name)

    def call(self, _frame):
        """Call dlref in a handler, which does not interrupt itself."""
        if not self.inside and self.rng.random() < self.chance:
            self.inside = True
            self.dlref.set_num_threads(self.rng.choice((1, 2, 4)))
            self.check(self.rng.choice(["softmax", "gelu_vjp", "apply_rope", "cross_entropy"]))
            self.count["inside"] += 1
            self.inside = False

    def throw(self, frame):
        """Raise up to three times in a call, not where the exception is caught."""
        while frame and frame.f_code is not Process.step.__code__:
            frame = frame.f_back
        if frame and self.armed and self.rng.random() < self.chance:
            self.armed -= 1
            self.count["interrupted"] += 1
            raise Interrupted

    def on_signal(self, _number, frame):
        self.count["signals"] += 1
        try:
            self.handle(frame)
        finally:
            # again 3 ms after the handler, so that what it interrupts goes on
            signal.setitimer(signal.ITIMER_REAL, PERIOD)

    def step(self):
        """Call one function after another, as long as there is time."""
        options = time.monotonic()
        while time.monotonic() < self.end:
            # some calls are interrupted at once, some late or never: else nothing would be compiled
            self.chance = 10 ** -self.rng.uniform(0, 3)
            name = self.rng.choice([*self.calls])
            self.dlref.set_num_threads(self.rng.choice((2, 3, 4)))
            self.armed = self.rng.choice((1, 3))
            out = self.calls[name]()
            self.armed = 0
            if digest(out) != self.expected[name]:
                self.wrong.append(name)
            self.count["calls"] += 1
            if time.monotonic() > options + 1:
                options = time.monotonic()
                print(json.dumps(self.count), flush=True)

    def run(self):
        before = threads_of_this_process()
        signal.signal(signal.SIGALRM, self.on_signal)
        signal.setitimer(signal.ITIMER_REAL, PERIOD)
        while True:
            try:
                self.step()
                self.armed = 0
                break
            except Interrupted:
                print(json.dumps(self.count), flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        for name in self.calls:
            self.check(name)
        self.dlref.set_num_threads(1)
        time.sleep(0.5)
        self.check("softmax")
        left = max(0, threads_of_this_process() - before)
        print(
            json.dumps({**self.count, "wrong": sorted(set(self.wrong)), "left": left}), flush=True
        )


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


def expected():
    """Return the digest of each call without signals."""
    return {name: digest(f()) for name, f in calls().items()}


def watched(handler, seconds, digests, *, compiled=False, silence=SILENCE):
    """
    Run a process with signals, and end it if it hangs; return what it counted and its outcome.

    It compiles everything, unless it is to use what is `compiled`.
    """
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if not compiled:
            environment["NUMBA_CACHE_DIR"] = empty
        command = [sys.executable, __file__, "--handler", handler, "--seconds", str(seconds)]
        with subprocess.Popen(
            [*command, "--expected", json.dumps(digests)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            found = {"calls": 0, "signals": 0, "inside": 0, "interrupted": 0}
            while True:
                ready, _, _ = select.select([process.stdout], [], [], silence)
                if not ready:
                    process.send_signal(signal.SIGUSR1)  # where it hangs
                    time.sleep(1)
                    process.kill()
                    return {**found, "outcome": "hangs", "words": process.stderr.read()}
                line = process.stdout.readline()
                if not line:
                    break
                found |= json.loads(line)
            words = process.stderr.read()
    if "left" not in found:
        outcome = "another error"
    elif found["wrong"]:
        outcome = f"other bits: {', '.join(found['wrong'])}"
    elif found["left"]:
        outcome = f"{found['left']} threads left"
    else:
        outcome = "the same bits, no thread left"
    return {**found, "outcome": outcome, "words": words}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--handler", choices=HANDLERS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--expected", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.handler:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        Process(options.handler, options.seconds, options.expected).run()
        return
    rows, seconds = [], 60 * options.minutes / len(HANDLERS) / ROUNDS
    for handler in HANDLERS:
        found = [watched(handler, seconds, expected()) for _ in range(ROUNDS)]
        for one in found:
            print(handler, {k: v for k, v in one.items() if k != "words"}, one["words"][-2000:])
        counts = [sum(one[name] for one in found) for name in ("calls", "signals")]
        counts.append(sum(one["inside"] + one["interrupted"] for one in found))
        outcome = "; ".join(dict.fromkeys(one["outcome"] for one in found))
        rows.append([handler, *(f"{n:,}" for n in counts), outcome])
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["handler", "calls", "signals", "in which it did", "outcome"])
        table.writerows(rows)
    sys.exit(any("same bits" not in row[-1] or ";" in row[-1] for row in rows))


if __name__ == "__main__":
    main()
