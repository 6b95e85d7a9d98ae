"""Test every public function on an emulated aarch64 processor (``tox run -e measure -- aarch64``).

Debian's Python and the wheels of PyPI for aarch64 are unpacked into a folder and run by QEMU;
nothing is installed. All functions run as plain Python, and one of each chapter compiled: a kernel
takes some ten seconds to compile in emulation.

Before, as root::

    apt-get install qemu-user-static
    dpkg --add-architecture arm64
    apt-get update
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ["libstdc++6:arm64", "python3:arm64"]
WHEELS = [
    "hypothesis", "lazy_loader", "ml_dtypes", "mpmath", "numba", "numpy", "pytest", "safetensors",
    "scipy",
]  # fmt: skip
VALUES = "tests/test_contract.py::TestValues::test_against_a_complex_step_on_the_formula"
#: Chapters that are no single maps are tested by their examples.
EXAMPLES = ["dlref/check", "dlref/interop", "dlref/training", "dlref/transformer"]
#: One function of each chapter that computes, with its kernels.
COMPILED = [
    *(
        f"{VALUES}[{name}]"
        for name in (
            "calculus.norm_vjp", "activations.softmax_vjp", "activations.gelu",
            "neurons.linear_vjp", "losses.cross_entropy_vjp", "normalization.layer_norm_vjp",
            "recurrent.lstm", "positions.apply_rope", "positions.alibi_bias",
            "attention.scaled_dot_product_attention",
        )
    ),
    "dlref/training/_adam.py",
    "dlref/propagation/_initialization.py",
    "dlref/transformer/_feed_forward.py",
    "dlref/check/_errors.py",
]  # fmt: skip


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def unpack_python(root):
    """Unpack Debian's Python for arm64 and all that it depends on; return its path."""
    if "arm64" not in output("dpkg", "--print-foreign-architectures").split():
        sys.exit(
            "arm64 is not known to dpkg; as root: dpkg --add-architecture arm64; apt-get update"
        )
    depends = ["depends", "--recurse", "--important"]
    needed = output("apt-cache", *depends, *PACKAGES).splitlines()
    names = sorted({name for name in needed if name.endswith(":arm64") and name[0].isalpha()})
    debs = root / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", *names], cwd=debs, check=True)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    return interpreter(root)


def interpreter(root):
    """Return the Python in a folder, if it is there."""
    return next(iter(sorted(root.glob("usr/bin/python3.[0-9]*"))), None)


def install_wheels(site, version):
    platforms = [f"--platform=manylinux_2_{n}_aarch64" for n in (17, 27, 28)]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", site, "--upgrade"]
    wanted = ["--only-binary=:all:", f"--python-version={version}", *platforms]
    subprocess.run([*pip, *wanted, *WHEELS], check=True)


def main():
    qemu = shutil.which("qemu-aarch64-static")
    if not qemu:
        sys.exit("qemu-aarch64-static is not installed; as root: apt-get install qemu-user-static")
    folder = Path(os.environ.get("TOX_ENV_DIR", ROOT / ".tox" / "aarch64")) / "emulated"
    root, site = folder / "root", folder / "site"
    python = interpreter(root) or unpack_python(root)
    if not site.exists():
        install_wheels(site, python.name.removeprefix("python"))
    emulated = [qemu, "-L", root, python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    shared = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{site}",
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }
    machine = "import platform; print(platform.machine())"
    assert output(*emulated[:4], "-c", machine).strip() == "aarch64"
    runs = [
        ("every function, interpreted", [VALUES, *EXAMPLES], {"NUMBA_DISABLE_JIT": "1"}),
        ("a function of each chapter, compiled", COMPILED, {}),
    ]
    failed = 0
    for title, tests, environment in runs:
        print(f"{title}, on emulated aarch64", flush=True)
        run = [*emulated, *tests]
        failed |= subprocess.run(run, cwd=ROOT, env=shared | environment, check=False).returncode
    sys.exit(failed)


if __name__ == "__main__":
    main()
