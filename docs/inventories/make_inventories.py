"""Write the inventories that resolve references to other projects without a network.

``USED`` holds exactly the names that the reference links to; a name that is missing
makes the build fail, and is added here.  With ``--check``, on a machine with a network,
every entry is compared with the inventory that the project publishes.

Functions are entered as ``function`` whatever the project calls them (NumPy's ufuncs are
``data`` there), so that ``:func:`` finds them; the address is the same.
"""

import sys
from pathlib import Path

import sphobjinv

HERE = Path(__file__).parent
GENERATED = "reference/generated/{name}.html#$"


def entries(role, uri, names, prefix="", domain="py"):
    """Return one inventory row per name."""
    return [(domain, role, prefix + name, uri) for name in names.split()]


PYTHON = [
    *entries("class", "library/functions.html#$", "bool float int object type"),
    *entries("class", "library/stdtypes.html#$", "bytes dict list set slice str tuple range"),
    *entries("data", "library/constants.html#$", "None True False"),
    *entries(
        "exception",
        "library/exceptions.html#$",
        "ImportError IndexError KeyError RuntimeError TypeError ValueError ZeroDivisionError",
    ),
    *entries("exception", "library/exceptions.html#$", "RuntimeWarning UserWarning"),
    *entries("function", "library/functions.html#$", "abs len max min print sum"),
    *entries("function", "library/math.html#$", "erf erfc exp expm1 fsum log1p", "math."),
    *entries("function", "library/collections.html#$", "namedtuple", "collections."),
    *entries("class", "library/typing.html#$", "NamedTuple", "typing."),
    *entries(
        "class",
        "library/concurrent.futures.html#$",
        "ThreadPoolExecutor",
        "concurrent.futures.",
    ),
    *entries("function", "library/functions.html#$", "callable"),
    *entries("function", "library/contextlib.html#$", "contextmanager", "contextlib."),
    *entries("term", "glossary.html#term-$", "generator iterable sequence", domain="std"),
]
NUMPY = [
    *entries("class", GENERATED, "dtype ndarray ufunc", "numpy."),
    *entries("class", "reference/random/generator.html#$", "Generator", "numpy.random."),
    *entries("function", "reference/random/generator.html#$", "default_rng", "numpy.random."),
    *entries("exception", GENERATED, "LinAlgError", "numpy.linalg."),
    *entries(
        "function",
        GENERATED,
        "abs absolute add all allclose any arange argmax argsort array asarray "
        "ascontiguousarray broadcast_shapes broadcast_to clip concatenate cos cross cumprod "
        "cumsum diag divide dot einsum empty errstate exp expm1 eye finfo full geomspace inner "
        "isfinite isnan kron linspace log log1p logaddexp matmul max maximum mean min minimum "
        "moveaxis multiply nextafter ones outer polyfit power prod repeat reshape result_type "
        "shares_memory sign sin sort spacing sqrt square stack std subtract sum swapaxes take "
        "tanh tensordot trace transpose tril triu var vdot where zeros",
        "numpy.",
    ),
    *entries(
        "function",
        GENERATED,
        "cholesky cond det eig eigh inv multi_dot norm pinv qr slogdet solve svd",
        "numpy.linalg.",
    ),
    *entries("function", GENERATED, "assert_allclose", "numpy.testing."),
    *entries("data", "reference/constants.html#$", "inf nan newaxis pi", "numpy."),
    *entries("label", "reference/{name}.html#arrays-scalars", "arrays.scalars", domain="std"),
    *entries("term", "glossary.html#term-$", "array_like", domain="std"),
]
SCIPY = [
    *entries(
        "function",
        GENERATED,
        "entr erf erfc erfcx expit expm1 gamma kl_div log1p log_expit log_ndtr log_softmax "
        "logit logsumexp ndtr rel_entr softmax softplus xlogy",
        "scipy.special.",
    ),
    *entries("function", GENERATED, "check_grad minimize", "scipy.optimize."),
    *entries("function", GENERATED, "expm solve_triangular", "scipy.linalg."),
]
MATPLOTLIB = [
    *entries("class", "api/_as_gen/{name}.html#$", "Axes", "matplotlib.axes."),
    *entries("class", "api/_as_gen/matplotlib.figure.html#$", "Figure", "matplotlib.figure."),
    *entries("function", "api/_as_gen/{name}.html#$", "figure subplots", "matplotlib.pyplot."),
    *entries(
        "method",
        "api/_as_gen/{name}.html#$",
        "annotate axhline axvline bar barh contour contourf fill_between hist imshow legend loglog "
        "pcolormesh plot quiver scatter semilogx semilogy set step stem text",
        "matplotlib.axes.Axes.",
    ),
]
NUMBA = [
    *entries("function", "reference/jit-compilation.html#$", "jit vectorize", "numba."),
]
USED = {
    "python": ("https://docs.python.org/3/", PYTHON),
    "numpy": ("https://numpy.org/doc/stable/", NUMPY),
    "scipy": ("https://docs.scipy.org/doc/scipy/", SCIPY),
    "matplotlib": ("https://matplotlib.org/stable/", MATPLOTLIB),
    "numba": ("https://numba.readthedocs.io/en/stable/", NUMBA),
}


def inventory(project, rows):
    """Return the inventory of one project."""
    made = sphobjinv.Inventory()
    made.project, made.version = project, "0"  # links go to the current documentation
    for domain, role, name, uri in sorted(rows):
        made.objects.append(
            sphobjinv.DataObjStr(
                name=name,
                domain=domain,
                role=role,
                priority="1",
                uri=uri.format(name=name),
                dispname="-",
            )
        )
    return made


def differences(made, address):
    """Yield the entries whose page is not where the project says it is."""
    live = sphobjinv.Inventory(url=f"{address}objects.inv")
    pages = {}
    for entry in live.objects:
        pages.setdefault(entry.name, set()).add(entry.uri_expanded)
    for entry in made.objects:
        if entry.uri_expanded not in pages.get(entry.name, ()):
            yield f"{entry.name}: {entry.uri_expanded} is not among {pages.get(entry.name)}"


def main():
    """Write the inventories, or compare them."""
    problems = []
    for project, (address, rows) in USED.items():
        made = inventory(project, rows)
        if "--check" in sys.argv:
            problems.extend(differences(made, address))
        else:
            text = made.data_file()
            sphobjinv.writebytes(HERE / f"{project}.inv", sphobjinv.compress(text))
    return "\n".join(problems) or 0


if __name__ == "__main__":
    sys.exit(main())
