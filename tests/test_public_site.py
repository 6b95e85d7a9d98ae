"""What a published site has beside its pages, from docs/_ext/public_site.py."""

from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

Image = pytest.importorskip("PIL.Image")
import page_heads  # noqa: E402 (both read images)
import public_site  # noqa: E402

ROOT = Path(__file__).parents[1]
BASE = "https://example.org/stable/"
BODY = "<p>Softmax turns a row of scores into probabilities &amp; they sum to one.</p>"


def app_of(tmp_path, base=BASE):
    (tmp_path / "_static").mkdir()
    return SimpleNamespace(
        config=SimpleNamespace(html_baseurl=base, root_doc="index"),
        builder=SimpleNamespace(name="html"),
        env=SimpleNamespace(found_docs={"index", "404", "reference/check", "search"}, tex_boxes={}),
        outdir=tmp_path,
        srcdir=ROOT / "docs",
    )


def test_the_site_map_lists_pages_once_and_no_page_for_errors(tmp_path):
    public_site.write_files(app_of(tmp_path), None)
    tree = ET.parse(tmp_path / "sitemap.xml")
    found = [place.text for place in tree.iter() if place.tag.endswith("}loc")]
    assert found == [f"{BASE}index.html", f"{BASE}reference/check.html"]


def test_the_card_has_the_shape_that_networks_show(tmp_path):
    public_site.write_files(app_of(tmp_path), None)
    with Image.open(tmp_path / public_site.CARD) as card:
        assert card.size == public_site.CARD_SIZE
        assert abs(card.width / card.height - 1.91) < 0.01
        assert len(card.convert("RGB").getcolors(2**16)) > 10  # there is something on it


def test_pages_read_from_files_have_none_of_it(tmp_path):
    app = app_of(tmp_path, "")
    public_site.write_files(app, None)
    assert [*tmp_path.rglob("*.*")] == []
    context = {"body": BODY, "title": "Softmax"}
    public_site.add_tags(app, "reference/activations/softmax", None, context, None)
    assert "metatags" not in context


def test_a_link_to_a_page_shows_its_title_sentence_and_picture(tmp_path):
    app, context = app_of(tmp_path), {"body": BODY, "title": "Softmax"}
    page_heads.complete(app, "reference/activations/softmax", None, context, None)
    public_site.add_tags(app, "reference/activations/softmax", None, context, None)
    tags = context["metatags"]
    for name, value in {
        "title": "Softmax",
        "url": f"{BASE}reference/activations/softmax.html",
        "image": f"{BASE}_static/card.png",
    }.items():
        assert f'<meta property="og:{name}" content="{value}" />' in tags
    assert tags.count("Softmax turns a row of scores") == 2  # for search engines and for links


def test_the_page_of_errors_finds_its_style_sheet_at_any_address(tmp_path):
    context = {"body": BODY, "title": "There is no page at this address"}
    public_site.add_tags(app_of(tmp_path), "404", None, context, None)
    assert context["metatags"] == f'<base href="{BASE}" />\n'


def test_the_build_uses_it():
    assert '"public_site"' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
