"""
Damaged files of saved models: each is refused with a ValueError, or loads unchanged.

    python docs/measure/fuzz_storage.py --count 20000 --seed 0

The files are damaged as disks, transfers and forgers damage them, and read by processes that may
take only little more memory than dlref itself.  A failure prints the numbers that repeat it.
With 20,000 files it writes docs/results/fuzz.csv.  Needs tqdm.
"""

import argparse
import copy
import csv
import functools
import io
import itertools
import json
import multiprocessing
import re
import resource
import signal
import struct
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from dlref.transformer import (
    LanguageModelConfig,
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
    load_params,
    save_params,
)

RESULTS = Path(__file__).parents[1] / "results" / "fuzz.csv"
MEMORY = 2**28  # bytes that reading may take beyond what the process has
SECONDS = 20
WORDS = (0, 1, 2, 0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)
HOSTILE = (
    *(
        None,
        True,
        -1,
        0,
        1,
        2,
        3.5,
        10**12,
        2**63,
        10**400,
        -(10**30),
        "",
        "dlref",
        "params",
        "a" * 999,
    ),
    *(float("nan"), float("inf"), [], {}, [None], {"kind": "tuple", "entries": []}, [[[[[]]]]]),
    *({"kind": "os.system", "entries": ["ls"]}, {"kind": ["tuple"], "entries": {}}, "\ud800"),
)
HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 0), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1, " * 70 + "), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f9', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': 1, 'shape': (1,), }",
    "{'descr': '<f8', 'shape': (1,), }",
    "(" * 3000,
    "{'a': '''",
    "\0" * 40,
    "",
)


class HangError(Exception):
    """Reading took too long."""


def models():
    """Return (name, file, parameters, configuration) of what is to be damaged."""
    rng = np.random.default_rng(0)
    config = LanguageModelConfig(
        7, 6, 3, num_layers=1, num_kv_heads=1, d_ff=4, length=5, norm="rms"
    )
    scaled = LanguageModelConfig(
        *(5, 4, 1),
        num_layers=1,
        d_ff=3,
        positions="rope",
        rope_scaling={"type": "linear", "factor": 2.0},
    )
    saved = {
        "language model": (init_language_model(rng, config), config),
        "classifier": (init_sequence_classifier(rng, scaled, 2, dtype=np.float16), scaled),
        "encoder-decoder": (init_encoder_decoder_model(rng, config, dtype=np.float32), config),
        "tuple": (
            (np.arange(6).reshape(2, 3).T, None, (np.array(True), ()), np.zeros((0, 2))),
            None,
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (params, settings) in saved.items():
            path = Path(folder) / "model"
            save_params(path, params, settings)
            yield name, path.read_bytes(), params, settings


# Damage to bytes: what loads must be what was saved.


def flip_bits(rng, data, _other):
    data = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return data


def change_blocks(rng, data, _other):
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        size = int(2 ** rng.uniform(0, 10))
        start, source = (int(rng.integers(max(1, len(data) - size))) for _ in range(2))
        there, piece = slice(start, start + size), data[source : source + size]
        match rng.integers(6):
            case 0:
                data[there] = bytes(size)
            case 1:
                data[there] = rng.bytes(size)
            case 2:
                data[there] = piece
            case 3:
                del data[there]
            case 4:
                data[start:start] = piece
            case 5:
                data[source : source + size], data[there] = data[there], piece
    return data


def truncate(rng, data, _other):
    cut = int(rng.integers(len(data)))
    return data[cut:] if rng.random() < 0.2 else data[:cut]


def splice(rng, data, other):
    cut, start = (int(rng.integers(len(d))) for d in (data, other))
    return data[:cut] + other[start:]


def change_zip_fields(rng, data, _other):
    """Set fields of the archive's own records."""
    data = bytearray(data)
    lengths = {b"PK\1\2": 46, b"PK\3\4": 30, b"PK\5\6": 22, b"PK\6\6": 56, b"PK\6\7": 20}
    marks = b"|".join(lengths)
    records = [(match.start(), lengths[match[0]]) for match in re.finditer(marks, bytes(data))]
    for _ in range(rng.integers(1, 4)):
        at, size = records[rng.integers(len(records))]
        field = at + 2 * int(rng.integers(2, size // 2))
        width = int(rng.choice([1, 2, 4]))
        old = int.from_bytes(data[field : field + width], "little")
        choices = (*WORDS, old + 1, old - 1, old ^ 1 << int(rng.integers(8)), rng.integers(2**32))
        value = int(rng.choice(np.array(choices, np.int64))) & (256**width - 1)
        data[field : field + width] = value.to_bytes(width, "little")
    return data


# Archives made anew, with right checksums.


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def archive_of(members, method=zipfile.ZIP_STORED, attributes=0, flags=0):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = method, attributes
            archive.writestr(info, content)
            info.flag_bits |= flags
    return buffer.getvalue()


@functools.cache
def bomb():
    """Return twice the memory that there is, as zeros in half a megabyte."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("manifest.npy", "params.npy"):
            with archive.open(name, "w") as member:
                for _ in range(MEMORY >> 20):
                    member.write(bytes(2**20))
    return buffer.getvalue()


def npy(header, numbers, version=(1, 0)):
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + numbers


def pick(rng, items):
    return list(items)[rng.integers(len(items))]


def change_members(rng, data, other):
    """Rename, exchange, leave out, repeat, compress, encrypt and link members."""
    members, more = members_of(data), members_of(other)
    one, two = pick(rng, members), pick(rng, members)
    pairs, options = list(members.items()), {}
    match rng.integers(11):
        case 0:
            pairs = [(two if n == one else one if n == two else n, m) for n, m in pairs]
        case 1:
            pairs = [(n, m) for n, m in pairs if n != one]
        case 2:
            pairs.append((one, members[two]))
        case 3:
            options["method"] = pick(
                rng, (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
            )
        case 4:
            return bomb()
        case 5:
            options["flags"] = 1
        case 6:
            options["attributes"] = 0o120777 << 16
        case 7:
            pairs.append((pick(rng, ("../x.npy", "x", "params.99.npy", "/", "\0.npy")), b"x"))
        case 8:
            pairs = [(n, more.get(n, m)) for n, m in pairs]
        case 9:
            pairs = [(n, members[two] if n == one else m) for n, m in pairs]
        case 10:
            pairs = [(n + pick(rng, ("", ".npy", "x")) if n == one else n, m) for n, m in pairs]
    return archive_of(pairs, **options)


def change_headers(rng, data, _other):
    """Put another header before the numbers of an array."""
    members = members_of(data)
    name = pick(rng, members)
    old = members[name]
    start = 10 + int.from_bytes(old[8:10], "little")
    if rng.random() < 0.5:
        version = pick(rng, ((1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
        members[name] = npy(pick(rng, HEADERS), old[start:], version)
    else:
        header = bytearray(old[:start])
        for _ in range(rng.integers(1, 4)):
            header[rng.integers(start)] = rng.integers(32, 127)
        members[name] = bytes(header) + old[start:]
    return archive_of(members.items())


def places_in(node, path=()):
    yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places_in(node[key], (*path, key))


def change_manifest(rng, data, other):
    """Set, remove and add entries of the manifest."""
    members = members_of(data)
    manifest, more = (
        json.loads(str(np.load(io.BytesIO(members_of(d)["manifest.npy"])))) for d in (data, other)
    )
    for _ in range(rng.integers(1, 3)):
        *path, last = pick(rng, list(places_in(manifest))[1:])
        node, strange = manifest, copy.deepcopy(pick(rng, HOSTILE))
        for key in path:
            node = node[key]
        match rng.integers(5):
            case 0:
                del node[last]
            case 1 if isinstance(node, dict):
                node[pick(rng, ("extra", "head", "tied", "crc", "norm"))] = strange
            case 2:
                node[last] = copy.deepcopy(pick(rng, (more, more["params"], more["config"])))
            case _:
                node[last] = strange
    if rng.random() < 0.5:
        manifest.pop("crc", None)
    text = json.dumps(manifest)
    if rng.random() < 0.05:
        text = pick(rng, ("[" * 10**5, "", "{}", "null", "1" * 5000, text[:-1], text * 2))
    buffer = io.BytesIO()
    np.save(buffer, np.array(text))
    members["manifest.npy"] = buffer.getvalue()
    return archive_of(members.items())


BYTES = (flip_bits, change_blocks, truncate, splice, change_zip_fields)
FORGED = (change_members, change_headers, change_manifest)


# Verdicts.


def leaves(tree):
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in leaves(entry)]
    return [] if tree is None else [tree]


def same(one, two):
    if isinstance(one, tuple) or one is None:
        return (
            type(one) is type(two)
            and (one is None or len(one) == len(two))
            and all(map(same, one or (), two or ()))
        )
    return (
        isinstance(two, np.ndarray)
        and (one.dtype, one.shape) == (two.dtype, two.shape)
        and one.tobytes() == two.tobytes()
    )


def verdict(path, damage, params, config):
    """Load a damaged file; return what happened: refused, the same, forged, or a fault."""
    try:
        got, settings = load_params(path)
    except ValueError as error:
        right = str(error).startswith("Argument 'path' must be a file") and "\n" not in str(error)
        return "refused" if right else f"fault: wording: {error}"
    except OSError:
        return "OSError"
    except BaseException as error:  # nothing else may come
        return f"fault: {type(error).__name__}: {error}"
    if same(params, got) and settings == config:
        return "the same"
    arrays = {a.tobytes() for a in leaves(params)}
    if damage is change_manifest and all(a.tobytes() in arrays for a in leaves(got)):
        return "forged"  # another sound description of the same arrays: not for a checksum to see
    return "fault: loaded something else"


def limit_memory():
    """Let this process take little more memory than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    signal.signal(signal.SIGALRM, _hang)
    warnings.simplefilter("ignore")  # of zipfile, where a name is there twice


def _hang(*_):
    raise HangError


def fuzz(seed, numbers):
    """Damage and load files with these numbers; return what happened to each."""
    sound = list(models())
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for number in numbers:
            rng = np.random.default_rng([seed, number])
            _, data, params, config = sound[rng.integers(len(sound))]
            other = sound[rng.integers(len(sound))][1]
            damage = (BYTES + FORGED)[number % len(BYTES + FORGED)]
            path.write_bytes(damage(rng, data, other))
            signal.alarm(SECONDS)
            results.append((number, damage.__name__, verdict(path, damage, params, config)))
            signal.alarm(0)
    return results


def run(seed, count, *, jobs=1, chunk=200, first=0):
    """Yield what happened to each damaged file, which other processes read."""
    chunks = [range(n, min(n + chunk, first + count)) for n in range(first, first + count, chunk)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=limit_memory) as pool:
        for results in pool.map(fuzz, itertools.repeat(seed), chunks):
            yield from results


def write_table(counts):
    """Write how many files of each damage were read, and what came of them."""
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        outcomes = ("refused", "the same", "forged", "OSError", "fault")
        table.writerow(["damage", "files", *outcomes])
        for damage in sorted({damage for damage, _ in counts}):
            numbers = [counts[damage, what] for what in outcomes]
            table.writerow([damage, sum(numbers), *numbers])


def main():
    from tqdm import tqdm  # noqa: PLC0415  # the tests do without

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=20000, help="number of damaged files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    counts, faults = Counter(), []
    everything = run(options.seed, options.count, jobs=options.jobs, first=options.first)
    for number, damage, what in tqdm(everything, total=options.count):
        counts[damage, what.split(":", maxsplit=1)[0]] += 1
        if what.startswith("fault"):
            faults.append(f"--seed {options.seed} --first {number} --count 1: {damage}: {what}")
    for (damage, what), n in sorted(counts.items()):
        print(f"{damage:20} {what:10} {n:6}")
    if (options.first, options.count) == (0, 20000):
        write_table(counts)
    print(*faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
