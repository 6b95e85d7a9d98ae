"""
Time dlref against NumPy, PyTorch and JAX: ``tox run -e measure -- bench [calculus ...]``.

Every library runs in a process of its own, with the same number of threads, so that the idle
threads of one do not disturb another.  Row by row they take turns, so that all see the same moods
of the machine; the fastest repetition counts.
A vjp of dlref, which computes the forward pass anew, is compared with the forward and
backward pass of PyTorch (eager) and of JAX (compiled), and with the displayed formulas in NumPy.
Writes docs/results/speed.csv: dlref's time in microseconds, and the others' as multiples of it;
docs/results/slow.csv has its rows below one half.  Rows that are not timed stay as they were;
``bench --missing`` times those that the table does not have.  With ``--avx2`` every library uses
AVX2 and FMA at most, and the tables are speed_avx2.csv and slow_avx2.csv.

Maps of one array stand in TABLE below.  A chapter whose maps take more has a module of its own in
benches/<chapter>.py, with SIZES = {map: shapes} and functions dlref_call and torch_call
(name, form, shape, dtype) that return a call without arguments, or None; "vjp" is forward and
backward.
"""

import argparse
import csv
import importlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import geometric_mean

import numpy as np

import dlref.formulas

RESULTS = Path(__file__).parents[1] / "results" / "speed.csv"
THREADS = 2
ROUNDS = 4  # turns that each library takes at a row
SECONDS = 0.08  # of repetitions in a turn
SLOW = 0.5  # of PyTorch's speed; such rows have a table of their own
LIBRARIES = ("dlref", "NumPy", "PyTorch", "JAX")
#: By which variables the libraries, and those that multiply matrices for them, leave AVX-512 out.
AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+fma",  # the name alone would leave AVX-512 in use
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}

ELEMENTS = [(1_000_000,)]
SCORES = [(64, 32), (4096, 512), (512, 32000)]
SEQUENCES = [(15, 1, 2, 3), (100, 1, 64, 128), (100, 32, 64, 128), (100, 64, 256, 512)]
RECURRENT = {"rnn": 1, "lstm": 4, "gru": 3}  # and their gates; shapes are (T, B, D, H)
#: What is timed: chapter -> {map: shapes}; each with its vjp where it has one.
TABLE = {
    "activations": dict.fromkeys(
        [
            *("relu", "leaky_relu", "hard_sigmoid", "hard_swish", "elu", "selu", "celu"),
            *("sigmoid", "log_sigmoid", "softplus", "tanh", "tanhshrink", "softsign"),
            *("silu", "mish", "gelu", "gelu_tanh"),
        ],
        ELEMENTS,
    )
    | dict.fromkeys(["softmax", "log_softmax", "logsumexp"], SCORES),
    "recurrent": dict.fromkeys(RECURRENT, SEQUENCES),
}
OWN = sorted(path.stem for path in (Path(__file__).parent / "benches").glob("*.py"))
MAPS = {chapter: importlib.import_module(f"benches.{chapter}").SIZES for chapter in OWN}
SIZES = {"calculus": MAPS["calculus"]} | TABLE | MAPS  # the first chapter first
FORMS = ("map", "vjp", "jvp")


def inputs(name, shape, dtype):
    """Return the arguments of a map, the same for every library."""
    rng = np.random.default_rng(0)
    if name in RECURRENT:
        T, B, D, H = shape
        rows, bound = RECURRENT[name] * H, H**-0.5
        weights = [rng.uniform(-bound, bound, (rows, *n)) for n in ((D,), (H,), (), ())]
        arrays = (rng.normal(size=(B, T, D)), *weights)
        return tuple(a.astype(dtype) for a in arrays)
    x = rng.normal(size=shape).astype(dtype)
    if name == "matmul":
        return x, rng.normal(size=shape).astype(dtype)
    if name == "cross_entropy":
        return x, rng.integers(0, shape[1], shape[0])
    return (x,)


def options(name):
    return {"axis": 1} if name in ("sum", "prod", "max", "norm") else {}


# A library's call: no arguments, computes the map, or its vjp for a cotangent of ones.


def dlref_call(chapter, name, form, arguments):
    module = importlib.import_module(f"dlref.{chapter}")
    if name in RECURRENT:
        x, *weights = arguments
        arguments = (x, *(None, None)[: 1 + (name == "lstm")], *weights)
        if form == "map":
            return lambda: getattr(module, name)(*arguments)
        u = np.ones((*x.shape[:2], weights[1].shape[1]), x.dtype)
        dout = (u, None) if name == "lstm" else u
        return lambda: getattr(module, f"{name}_vjp")(dout, *arguments)
    stem, tanh, _ = name.partition("_tanh") if name.startswith("gelu") else (name, "", "")
    keywords = {**options(name), **({"approximate": "tanh"} if tanh else {})}
    if form == "map":
        f = getattr(module, stem, None)
        return f and (lambda: f(*arguments, **keywords))
    f = getattr(module, f"{stem}_{form}")
    dout = np.ones_like(formula_of(name)(*arguments), arguments[0].dtype)
    return lambda: f(dout, *arguments, **keywords)


def formula_of(name):
    chapters = (getattr(dlref.formulas, chapter) for chapter in dlref.formulas.__all__)
    stem = name.removesuffix("_tanh")
    formula = next(getattr(chapter, stem) for chapter in chapters if hasattr(chapter, stem))
    return lambda *arguments: formula(*arguments, **options(name))


def numpy_call(_chapter, name, form, arguments):
    if name in RECURRENT:
        return None  # the formula for one step is no contender
    f = formula_of(name)
    return (lambda: f(*arguments)) if form == "map" and name != "gelu_tanh" else None


def torch_map(name):
    import torch  # noqa: PLC0415
    from libraries import Torch  # noqa: PLC0415

    reductions = {
        "sum": lambda x: torch.sum(x, dim=1),
        "prod": lambda x: torch.prod(x, dim=1),
        "max": lambda x: torch.amax(x, dim=1),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
        "matmul": torch.matmul,
        "cross_entropy": torch.nn.functional.cross_entropy,
    }
    return reductions.get(name) or Torch().functions.get(name)


def torch_layer(name, x, w_ih, w_hh, *biases):
    """Return a layer of torch.nn with these weights, as a function of its input."""
    import torch  # noqa: PLC0415

    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name]
    layer = kind(x.shape[2], w_hh.shape[1], batch_first=True, dtype=torch.tensor(x).dtype)
    weights = list(layer.parameters())
    with torch.no_grad():
        for parameter, values in zip(weights, (w_ih, w_hh, *biases), strict=True):
            parameter.copy_(torch.tensor(values))

    def f(tensor):
        return layer(tensor)[0]

    f.weights = weights
    return f


def torch_call(_chapter, name, form, arguments):
    import torch  # noqa: PLC0415

    torch.set_num_threads(THREADS)
    if name in RECURRENT:
        f = torch_layer(name, *arguments)
        arguments = arguments[:1]
    else:
        f = torch_map(name)
    tensors = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arguments]
    if form == "map":
        with torch.no_grad():
            f(*tensors)
        return torch.no_grad()(lambda: f(*tensors))
    moving = [t for t in tensors if t.requires_grad]
    moving += getattr(f, "weights", [])
    seed = torch.ones_like(f(*tensors))
    return lambda: torch.autograd.grad(f(*tensors), moving, seed)


def jax_call(_chapter, name, form, arguments):
    import jax  # noqa: PLC0415
    from libraries import Jax  # noqa: PLC0415

    jnp = jax.numpy
    reductions = {
        "sum": lambda x: jnp.sum(x, axis=1),
        "prod": lambda x: jnp.prod(x, axis=1),
        "max": lambda x: jnp.max(x, axis=1),
        "norm": lambda x: jnp.linalg.norm(x, axis=1),
        "matmul": jnp.matmul,
    }
    f = reductions.get(name) or Jax().functions.get(name)
    if f is None:
        return None
    arguments = [jnp.asarray(a) for a in arguments]

    def forward_and_backward(dout, *arguments):
        out, pull = jax.vjp(f, *arguments)
        return out, pull(dout)

    compiled = jax.jit(f if form == "map" else forward_and_backward)
    if form == "vjp":
        arguments = [jnp.ones_like(f(*arguments)), *arguments]
    return lambda: jax.block_until_ready(compiled(*arguments))


CALLS = dict(zip(LIBRARIES, (dlref_call, numpy_call, torch_call, jax_call), strict=True))


def fastest(call, seconds=SECONDS):
    """Return the shortest time of a call, in microseconds."""
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def call_of(library, chapter, name, form, shape, dtype):
    """Return what is timed, or None."""
    if chapter in OWN:
        module = importlib.import_module(f"benches.{chapter}")
        make = getattr(module, f"{library.removeprefix('Py').lower()}_call", None)
        return make and make(name, form, shape, dtype)
    if form == "jvp":
        return None
    return CALLS[library](chapter, name, form, inputs(name, shape, dtype))


def rows_of(chapters):
    """Yield what is timed: chapter, name, form, shape, dtype."""
    for chapter in chapters:
        for name, shapes in SIZES[chapter].items():
            for shape, dtype, form in itertools.product(shapes, ("float32", "float64"), FORMS):
                yield chapter, name, form, shape, dtype


def answer(library):
    """Time each row that comes as a line of JSON, or answer null; runs in a process of its own."""
    last, call = None, None
    for line in sys.stdin:
        if line != last:
            chapter, name, form, shape, dtype = json.loads(line)
            last, call = line, call_of(library, chapter, name, form, tuple(shape), dtype)
        print(json.dumps(call and fastest(call)), flush=True)


def environment(settings=()):
    """Return the environment of a process that measures, with THREADS threads for everything."""
    names = ("DLREF_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")
    # A machine may hold OpenBLAS to another processor's instructions, for equal results.
    chosen = {*AVX2, "OPENBLAS_L2_SIZE"}
    rest = {name: value for name, value in os.environ.items() if name not in chosen}
    return {**rest, **dict.fromkeys(names, str(THREADS)), **dict(settings)}


def label(shape):
    return "x".join(map(str, shape))


def start(library, settings):
    command = [sys.executable, __file__, "--answer", library]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(settings), stdin=pipe, stdout=pipe, text=True)


def ask(process, row):
    process.stdin.write(json.dumps(row) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def key_of(row):
    """Return the first cells of a row of the table."""
    chapter, name, form, shape, dtype = row
    return chapter, name if form == "map" else f"{name}_{form}", label(shape), dtype


def read(path):
    """Return the table: the first cells of each row, and the others."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {tuple(row[:4]): row[4:] for row in list(csv.reader(file))[1:]}


def write(path, table):
    """Write the table in the order of what is timed, and next to it its rows below one half."""
    header = ["chapter", "function", "shape", "dtype", "dlref µs", *LIBRARIES[1:]]
    keys = [key for key in map(key_of, rows_of(SIZES)) if key in table]
    rows = [[*key, *table[key]] for key in keys]
    torch = header.index("PyTorch")
    slow = [row for row in rows if row[torch] and float(row[torch]) < SLOW]
    for to, some in ((path, rows), (path.with_name(path.name.replace("speed", "slow")), slow)):
        with to.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *some])
    return rows


def measured(row, processes):
    """Return dlref's time of a row and the others' as multiples of it, or None."""
    rounds = [{k: ask(p, row) for k, p in processes.items()} for _ in range(ROUNDS)]
    best = {k: min(r[k] for r in rounds) for k in processes if rounds[0][k] is not None}
    if "dlref" not in best:
        return None
    ratios = [f"{best[k] / best['dlref']:.2f}" if k in best else "" for k in LIBRARIES[1:]]
    return [f"{best['dlref']:.1f}", *ratios]


def means(rows):
    """Return the geometric mean of the multiples of each library."""
    columns = zip(*(row[5:] for row in rows), strict=True)
    found = [[float(cell) for cell in column if cell] for column in columns]
    pairs = zip(LIBRARIES[1:], found, strict=True)
    return {library: geometric_mean(column) for library, column in pairs if column}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("chapters", nargs="*", default=list(SIZES))
    parser.add_argument("--missing", action="store_true", help="only rows the table does not have")
    parser.add_argument("--avx2", action="store_true", help="no library uses AVX-512")
    parser.add_argument("--libraries", nargs="*", default=LIBRARIES, help="dlref and others")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer(arguments.answer)
        return
    from tqdm import tqdm  # noqa: PLC0415  # not in the processes that measure

    name = "speed_avx2.csv" if arguments.avx2 else RESULTS.name
    output = arguments.output or RESULTS.with_name(name)
    table = read(output)  # rows that are not timed now stay
    todo = [
        row
        for row in rows_of(arguments.chapters)
        if not (arguments.missing and key_of(row) in table)
    ]
    settings = AVX2 if arguments.avx2 else {}
    processes = {library: start(library, settings) for library in arguments.libraries}
    try:
        for row in tqdm(todo, unit="row"):
            if cells := measured(row, processes):
                table[key_of(row)] = cells
                tqdm.write("\t".join([*key_of(row), *cells]))
    finally:  # an interrupt keeps the rows that were timed before it
        rows = write(output, table)
        for process in processes.values():
            process.stdin.close()
            process.wait()
    print("geometric means:", {k: round(v, 2) for k, v in means(rows).items()})


if __name__ == "__main__":
    main()
