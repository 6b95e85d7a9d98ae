"""Sphinx configuration of the dlref reference."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import dlref

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
from more_pages import PAGES  # noqa: E402
from topic_records import load  # noqa: E402

_project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_repository = _project["urls"]["Repository"]
project = "dlref"
version = release = dlref.__version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "vendor_assets",
    "math_lint",
    "gallery_pages",
    "figures_zip",
    "dark_twins",
    "light_images",
    "inline_variables",
    "symbol_role",
    "sketches",
    "printed",
    "topics",
    "learn",
    "sheet",
    "excerpts",
    "page_heads",
    "more_pages",
    "page_assets",
    "public_site",
    "checked",
    "stale",
    "build_end",
]
exclude_patterns = [
    "_build",
    "exercises",  # parts of the pages of topics
    "steps",
    "tables",
    "tryit",
    "node_modules",
    "reference/backreferences",
    "gallery/**.ipynb",
    "gallery/**.py",
    "sg_execution_times.rst",
    "gallery/**/sg_execution_times.rst",
]
nitpicky = True
default_role = "autolink"  # `name` links if it is an object, else it is a parameter
numfig = True  # without it, equation numbers restart on every page

# -- Mathematics: MathJax from npm, served from _static -------------------------
node_modules = "node_modules"
tex_macros = json.loads((HERE / "macros.json").read_text(encoding="utf-8"))
mathjax_path = "mathjax/tex-mml-chtml.js"
mathjax4_config = {
    "loader": {"paths": {"fonts": "[mathjax]/fonts"}, "load": ["a11y/assistive-mml"]},
    "tex": {"macros": tex_macros, "tags": "ams"},
    "output": {"displayOverflow": "scroll"},
    "options": {
        "menuOptions": {
            "settings": {
                # These start a worker. file:// refuses it, and typesetting would wait forever.
                "enrich": False,
                "speech": False,
                "braille": False,
                "collapsible": False,
                "assistiveMml": True,
                "inTabOrder": False,  # names.js adds formulas that scroll
            }
        }
    },
}

# -- API: one page per topic, see _ext/topics.py ----------------------------------
autosummary_generate = False
autodoc_typehints = "none"  # types and shapes are written in the docstrings
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # only aliases link: "shape (..., n)" is prose
numpydoc_xref_aliases = {  # besides numpydoc's own for ndarray, array_like, int, tuple ...
    "Generator": "numpy.random.Generator",
    "bool": ":class:`bool`",
}
bibtex_bibfiles = ["references.bib"]

# Small committed inventories (see inventories/make_inventories.py): links go to the
# public pages, the build needs no network.
intersphinx_mapping = {
    name: (url, f"inventories/{name}.inv")
    for name, url in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "matplotlib": "https://matplotlib.org/stable/",
        "numba": "https://numba.readthedocs.io/en/stable/",
    }.items()
}

# -- Gallery: chapters in the reading order of the reference --------------------
_toctree = (HERE / "reference" / "index.rst").read_text(encoding="utf-8")
chapters = re.findall(r"^   (\w+)$", _toctree, re.MULTILINE)
topic_chapters = chapters
topic_records = load()
sphinx_gallery_conf = {
    "examples_dirs": "../gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)_",
    "subsection_order": [*(f"../gallery/{chapter}" for chapter in chapters), "*"],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("dlref",),
    "reference_url": {"dlref": None},
    "reset_modules": ("matplotlib", "dual_scraper.use_style"),
    "image_scrapers": ("dual_scraper.dual_scraper",),
    "capture_repr": ("_repr_html_",),  # of docs/_ext/interactive.py
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "parallel": 2,
}

# -- HTML, readable from the file system without a network ----------------------
html_favicon = "_static/favicon.svg"
html_theme = "pydata_sphinx_theme"
html_title = f"dlref {release}"
html_theme_options = {
    "logo": {"text": "dlref"},
    "search_as_you_type": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "collapse_navigation": True,  # pages of other chapters are a click away: 8 MB less
    "footer_start": ["colophon.html"],
    "footer_end": [],
}
# Where the versions are published, if they are: the one place for the address. A page that is read
# from a file has no list of versions to fetch.
if address := os.environ.get("DLREF_DOCS_ADDRESS", "").rstrip("/"):
    html_baseurl = f"{address}/stable/"
    html_theme_options |= {
        "navbar_start": ["navbar-logo", "version-switcher"],
        "switcher": {"json_url": f"{address}/switcher.json", "version_match": f"v{release}"},
        "check_switcher": False,
    }
html_sidebars = {page: ["more-pages.html"] for page in PAGES}
for page in ("404", "check_your_kernel", "equations/**", "genindex", "index", "search"):
    html_sidebars[page] = []
html_sidebars |= {page: ["learn-path.html"] for page in ("learn", "learn/**")}
templates_path = ["_templates"]
html_context = {
    "default_mode": "auto",
    "license": _project["license"],
    "repository": "" if ".example/" in _repository else _repository,  # no link to a placeholder
}
html_static_path = ["_static"]
html_css_files = ["dlref.css"]
# A page loads those that it needs, see _ext/page_assets.py.
_scripts = ["names", "filter", "ifig", "steps", "tryit", "later", "minisearch/index", "search"]
html_js_files = [(f"{name}.js", {"defer": "defer"}) for name in _scripts]
html_js_files += [("typeset.js", {"defer": "defer", "priority": 400})]  # before MathJax
html_show_sourcelink = html_copy_source = False
html_show_search_summary = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
