"""The architecture of dlref, as assertions: where things are and how they are named."""

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
from cases import formula_of
from exports import exported
from selection import is_selected
from topic_records import load
from topics import LISTED, with_relatives

import dlref
from dlref._records import CHAPTERS as KNOWN
from dlref._records import UNKNOWN, records, spec_of

ROOT = Path(dlref.__file__).parents[1]
CHAPTERS = [  # in reading order; a chapter imports only from those before it
    "calculus",
    "activations",
    "neurons",
    "convolution",
    "losses",
    "training",
    "quantization",
    "propagation",
    "normalization",
    "recurrent",
    "positions",
    "attention",
    "transformer",
    "check",
    "interop",
]
PRESENT = [c for c in CHAPTERS if inspect.ismodule(getattr(dlref, c, None))]
PUBLIC = [
    pytest.param(chapter, getattr(getattr(dlref, chapter), name), id=f"{chapter}.{name}")
    for chapter in PRESENT
    for name in getattr(dlref, chapter).__all__
    if is_selected(name)
]
#: Modules without a public name that serve several topics, and chapters below.
SHARED = {
    "activations._by_name",
    "attention._block",
    "attention._latent",
    "check._tracing",
    "interop._decoders",
    "interop._families",
    "interop._fused",
    "interop._kin",
    "interop._kin_layouts",
    "interop._kin_settings",
    "interop._like_gpt2",
    "interop._missing",
    "interop._on_demand",
    "interop._safetensors",
    "interop._settings",
    "interop._tensors",
    "transformer._decoding",
    "transformer._delta",
    "transformer._model",
    "transformer._padding",
    "transformer._structure",
}
TOPICS = sorted(
    path
    for path in (ROOT / "dlref").glob("*/_*.py")
    if not path.name.startswith("__") and not path.parent.name.startswith("_")
    if f"{path.parent.name}.{path.stem}" not in SHARED
    if is_selected(path.stem)
)
#: Options that a derivative need not have.
ONLY_OF_MAPS = {"cache", "return_lse", "return_weights"}
SECTIONS = ["Parameters", "Returns", "See Also", "Notes", "Examples"]


DERIVATIVE = re.compile("_(jacobian|hessian|grad|deriv2?|vjp|jvp|value_and_grad)$")


def parameters(f):
    """Return the entries of the section *Parameters*."""
    section = re.search(r"Parameters\n-+\n(.*?)(?=\n\n\w|\Z)", inspect.getdoc(f), re.DOTALL)
    return re.split(r"\n(?=\S)", section.group(1)) if section else []


def topic_id(path):
    return f"{path.parent.name}{path.stem}"


def imports(path):
    """Yield the dotted names that a module of dlref imports, relative ones resolved."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            yield from (f"{origin}.{alias.name}" for alias in node.names)


class TestPackage:
    def test_every_folder_is_a_known_chapter(self):
        folders = {p.parent.name for p in (ROOT / "dlref").glob("*/__init__.py")}
        assert folders == {*PRESENT, "_core", "_math", "_records", "formulas"}

    def test_chapters_are_found_by_dir_and_by_type_checkers(self):
        stub = (ROOT / "dlref" / "__init__.pyi").read_text()
        for chapter in PRESENT:
            assert chapter in dir(dlref)
            assert f"from . import {chapter} as {chapter}\n" in stub

    def test_numba_is_imported_in_one_file(self):
        users = [
            path.name
            for path in (ROOT / "dlref").rglob("*.py")
            if any(name.split(".")[0] == "numba" for name in imports(path))
        ]
        assert users == ["jit.py"]


@pytest.mark.parametrize("chapter", PRESENT)
class TestChapter:
    def test_has_its_four_places(self, chapter):
        assert (ROOT / "tests" / chapter).is_dir()
        assert (ROOT / "gallery" / chapter / "GALLERY_HEADER.rst").is_file()
        index = (ROOT / "docs" / "reference" / "index.rst").read_text()
        assert re.search(rf"^ +{chapter}$", index, re.MULTILINE)

    def test_exports_what_its_topics_export(self, chapter):
        topics = [p for p in TOPICS if p.parent.name == chapter]
        names = [name for path in topics for name in exported(path)]
        assert len(names) == len(set(names))
        assert sorted(names) == sorted(getattr(dlref, chapter).__all__)

    def test_imports_only_from_chapters_before_it(self, chapter):
        later = CHAPTERS[CHAPTERS.index(chapter) + 1 :]
        for path in (ROOT / "dlref" / chapter).rglob("*.py"):
            for name in imports(path):
                parts = name.split(".")
                assert parts[0] != "dlref" or parts[1] not in later, (path.name, name)

    def test_imports_no_private_module_of_another(self, chapter):
        for path in (ROOT / "dlref" / chapter).rglob("*.py"):
            for name in imports(path):
                root, *rest = name.split(".")
                if root == "dlref" and rest[0] in {*CHAPTERS} - {chapter} and len(rest) > 2:
                    assert ".".join(rest[:2]) in SHARED, (path.name, name)


#: Functions of any function: they hand its options on.
OF_FUNCTIONS = re.compile(
    "bidirectional|encoder_decoder(_vjp|_jvp)?$|sequence_to|vector_to|check_|random_inputs|trace$"
    "|(en|de)coder(_block)?(_vjp|_jvp)?$"  # whose keywords are fields of BlockOptions
)


@pytest.mark.parametrize(("chapter", "f"), PUBLIC)
class TestPublicObject:
    def test_is_a_plain_function_or_class_of_a_private_module(self, chapter, f):
        assert inspect.isfunction(f) or inspect.isclass(f)  # a numba object has no page
        assert re.fullmatch(rf"dlref\.{chapter}\._\w+", f.__module__)

    def test_options_are_in_the_signature(self, chapter, f):
        if inspect.isfunction(f) and not OF_FUNCTIONS.match(f.__name__):
            kinds = {p.kind for p in inspect.signature(f).parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds

    def test_forms_have_the_options_of_their_map(self, chapter, f):
        form = re.fullmatch(r"(\w+)_(grad|jacobian|vjp|jvp|value_and_grad)", f.__name__)
        whole = form and getattr(getattr(dlref, chapter), form[1], None)
        if not inspect.isfunction(whole):
            return
        own, kwargs = (inspect.signature(g).parameters for g in (f, whole))
        for name, option in kwargs.items():
            if option.kind == inspect.Parameter.KEYWORD_ONLY and name in own:
                assert own[name].default == option.default or name == "q_offset"
                assert own[name].annotation == option.annotation or name == "q_offset"
        options = {n for n, p in kwargs.items() if p.kind == inspect.Parameter.KEYWORD_ONLY}
        assert options - {*own} <= ONLY_OF_MAPS

    def test_docstring_has_every_section_in_order(self, chapter, f):
        titles = re.findall(r"^(\w[\w ]*)\n-+$", inspect.getdoc(f), re.MULTILINE)
        without = set() if inspect.isfunction(f) else {"Returns"}
        without |= {"See Also"} if DERIVATIVE.search(f.__name__) else set()
        wanted = [s for s in SECTIONS if s not in without or s in titles]
        assert [t for t in titles if t in wanted] == wanted

    def test_a_derivative_says_only_what_its_map_does_not(self, chapter, f):
        own = f.__name__
        stem = DERIVATIVE.sub("", own)
        documented = own != stem and getattr(getattr(dlref, chapter), stem, None)
        if not documented or chapter == "check":
            return
        kwargs = {block for block in parameters(documented) if len(block.split()) > 4}
        assert not kwargs & set(parameters(f))

    def test_example_calls_it(self, chapter, f):
        examples = inspect.getdoc(f).split("Examples\n--------\n")[-1]
        assert re.search(rf">>> .*\b{f.__name__}\b", examples), "imported from its chapter"
        assert re.search(rf"\b{f.__name__}[(.]", examples)


def place(path):
    """Return the chapter of a topic, and the names it exports."""
    chapter = path.parent.name
    return chapter, exported(path)


def known(path):
    """Yield the functions of a topic with their records."""
    module = importlib.import_module(f"dlref.{path.parent.name}.{path.stem}")
    for name in exported(path):
        if inspect.isfunction(f := getattr(module, name)):
            yield name, spec_of(f)[0]


@functools.cache
def mentioned(pattern):
    """Return the words in the files of a chapter's tests or gallery."""
    return {word for path in ROOT.glob(pattern) for word in re.findall(r"\w+", path.read_text())}


@pytest.mark.parametrize("path", TOPICS, ids=topic_id)
class TestTopic:
    def test_is_exported(self, path):
        chapter, exported = place(path)
        missing = {*exported} - {*getattr(dlref, chapter).__all__}
        assert not missing, f"tox run -e written: it writes {missing} to {chapter}/__init__.pyi"

    def test_has_a_record(self, path):
        chapter, _ = place(path)
        missing = [name for name, record in known(path) if record is UNKNOWN and chapter != "check"]
        file = f"dlref/_records/{chapter}.py"
        assert not missing, f"{file}: add a record of {path.stem[1:]}, for {missing}"

    def test_its_calls_have_an_oracle(self, path):
        for name in {record.name for _, record in known(path) if record.calls}:
            words = f"dlref/formulas/{path.parent.name}.py: write the formula of {name}"
            assert formula_of(f"{path.parent.name}.{name}"), words

    def test_is_listed_once_on_the_chapter_page(self, path):
        page = ROOT / "docs" / "reference" / f"{path.parent.name}.rst"
        names = re.findall(r"^ +(\w+)$", "".join(LISTED.findall(page.read_text())), re.MULTILINE)
        listed = with_relatives(names, load()[path.parent.name].topics)
        words = f"docs/topics/{path.parent.name}.toml: say `beside` which topic its page lists "
        assert listed.count(path.stem[1:]) == 1, words + path.stem[1:]

    def test_stands_in_the_comparison(self, path):
        """The chapter of activations compares those of single elements in a table."""
        chapter, exported = place(path)
        if chapter == "activations" and f"{path.stem[1:]}_deriv2" in exported:
            page = (ROOT / "docs" / "reference" / f"{chapter}.rst").read_text()
            words = f"docs/reference/{chapter}.rst: the table under Comparison lacks a row of "
            assert f"* - :func:`{path.stem[1:]}`" in page, words + path.stem[1:]

    def test_its_map_has_tests_and_a_figure(self, path):
        chapter, exported = place(path)
        if record := load()[chapter].topics.get(path.stem[1:]):
            script = f"gallery/{record.script}.py"
            words = f"{script}: draw it, or name another `script` in docs/topics/{chapter}.toml"
            assert (ROOT / script).is_file(), words
        if f"{path.stem[1:]}_deriv2" in exported:
            return  # the contract and gallery/activations/plot_activations.py know it already
        tested = {path.stem[1:], *exported} & mentioned(f"tests/{chapter}/**/test_*.py")
        assert tested, f"tests/{chapter}/test_{path.stem[1:]}.py: nothing tests it"
        if record and record.script != f"{chapter}/plot_{path.stem[1:]}":
            return  # the page shows the figure of a relative
        drawn = {path.stem[1:], *exported} & mentioned(f"gallery/{chapter}/plot_*.py")
        assert drawn, f"gallery/{chapter}/plot_{path.stem[1:]}.py: no figure draws it"

    def test_kernels_neither_validate_nor_return(self, path):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(d, ast.Name) and d.id == "kernel" for d in node.decorator_list
            ):
                assert node.name.startswith("_")
                for child in ast.walk(node):
                    assert not isinstance(child, ast.Assert | ast.Raise | ast.Return), node.name


@pytest.mark.parametrize("path", TOPICS, ids=lambda path: f"{path.parent.name}.{path.stem[1:]}")
def test_every_topic_has_a_lead_and_exercises(path):
    chapter, name = path.parent.name, path.stem[1:]
    record, file = load()[chapter].topics.get(name), f"docs/topics/{chapter}.toml"
    assert record, f"{file}: write a table [{name}] with its lead and its symbols"
    exercises = f"docs/exercises/{chapter}/{name}.rst"
    excused = "exercises" in {**record.without, **load()[chapter].without}
    words = f"{exercises}: write exercises, or a reason in {file}, `without.exercises`"
    assert excused or (ROOT / exercises).is_file(), words


def test_every_table_of_a_page_is_of_a_topic():
    found = {(chapter, name) for chapter, record in load().items() for name in record.topics}
    assert found - {(path.parent.name, path.stem[1:]) for path in TOPICS} == set()


def test_every_record_is_of_a_public_function():
    assert {*KNOWN} == {*PRESENT} - {"check"}
    for chapter in KNOWN:
        public = {
            getattr(getattr(dlref, chapter), name) for name in getattr(dlref, chapter).__all__
        }
        found = [f for record in records(chapter) for f in record.functions]
        assert {*found} <= public
        assert len(found) == len({*found})


def test_every_test_and_figure_belongs_to_a_map():
    for chapter in PRESENT:
        names = {path.stem[1:] for path in TOPICS if path.parent.name == chapter}
        names |= set(getattr(dlref, chapter).__all__)
        for path in (
            *(ROOT / "tests" / chapter).glob("test_*.py"),
            *(ROOT / "gallery" / chapter).glob("plot_*.py"),
        ):
            assert names & set(re.findall(r"\w+", path.read_text())), path
