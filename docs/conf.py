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
    "dark_twins",
    "light_images",
    "inline_variables",
    "symbol_role",
    "sketches",
    "topics",
    "learn",
    "sheet",
    "excerpts",
    "page_heads",
    "checked",
    "stale",
    "build_end",
]
exclude_patterns = [
    "_build",
    "exercises",  # parts of the pages of topics
    "steps",
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
#: Gallery scripts that draw several maps, and these.
families = {
    "adaptive": "adagrad rmsprop adam lion",
    "arithmetic": "add subtract multiply divide",
    "batch_norm": "batch_norm_inference batch_norm_update batch_norm_train",
    "candidates": "inputs",
    "cross_entropy": "nll",
    "distance": "kerple fire",
    "exponential_units": "elu selu celu",
    "extrema": "maximum minimum",
    "gated": "glu swiglu geglu reglu",
    "group_norm": "instance_norm",
    "linear_attention": "recurrent_linear_attention",
    "matrix_functions": "trace inverse logdet",
    "matrix_product": "matmul quadratic_form",
    "max_pool": "mean_pool",
    "mlp_loss": "minibatch_descent",
    "momentum": "sgd",
    "multi_head": "repeat_kv",
    "muon": "newton_schulz",
    "rms_norm": "l2_norm",
    "rectifiers": "relu leaky_relu relu6 thresholded_relu hard_tanh hard_sigmoid hard_swish prelu "
    "relu_squared",
    "reductions": "sum mean prod max norm dot scaled_sum",
    "regression": "squared_error absolute_error huber",
    "relative": "relative_bias relative_bias_grid shaw_scores transformer_xl_scores "
    "disentangled_scores",
    "rotary": "rope_score",
    "scaled_dot_product": "attention_scores attention_weights",
    "sigmoids": "sigmoid log_sigmoid softplus tanh tanhshrink softsign",
    "smooth_rectifiers": "silu mish gelu",
    "softmax": "hardmax",
    "state_dicts": "modules encoders",
    "sparse": "differential_attention forgetting_bias indexer_scores merge_attention",
    "rotary_axial": "rotary_multi",
    "info_nce": "siglip_loss",
    "times": "timestep_embedding fourier_features",
    "experts": "router",
    "statistics": "attention_entropy attention_distance attention_shares attention_rollout",
}
family_of = {topic: script for script, topics in families.items() for topic in topics.split()}


#: What a topic is called, and words that people search for it: topic = "title | aliases"; then
#: tables of what its page says, and of what it does without.
topic_words = tomllib.loads((HERE / "topics.toml").read_text(encoding="utf-8"))
topic_facts = topic_words.pop("page")
topic_leads = tomllib.loads((HERE / "leads.toml").read_text(encoding="utf-8"))
topic_chapters = chapters
topic_scripts = {  # where a topic is drawn: in a script of its own or of its family
    f"{chapter}.{topic}": f"{chapter}/plot_{family_of.get(topic, topic)}"
    for path in sorted((HERE.parent / "dlref").glob("*/_*.py"))
    for chapter, topic in [(path.parent.name, path.stem[1:])]
    if chapter in chapters and not topic.startswith("_")
}
topic_scripts |= {  # of parameters and options, whose names two chapters share
    "attention.cache": "attention/plot_multi_head",
    "attention.params": "attention/plot_multi_head",
    "transformer.options": "transformer/plot_blocks",
    "transformer.params": "transformer/plot_blocks",
}
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
    "footer_start": [],
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
about = (
    "accuracy changelog conformance contributing conventions elementary gradients_through_depth "
    "references speed why_attention withstands"
)
no_subpages = f"{about} equations/** genindex index search"
html_sidebars = {page: [] for page in no_subpages.split()} | {"learn": ["learn-path.html"]}
templates_path = ["_templates"]
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["dlref.css"]
defer = {"defer": "defer"}
html_js_files = [
    "names.js",
    "ifig.js",
    "steps.js",
    "tryit.js",
    ("minisearch/index.js", defer),
    ("search.js", defer),
]
html_show_sourcelink = html_copy_source = False
html_show_search_summary = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
