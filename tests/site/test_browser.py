"""What only a browser can tell: read from disk, without a network."""

import gzip
import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
KINDS = [
    "start", "conventions", "topic", "chapter", "gallery", "script",
    "contributing", "references", "search",
]  # fmt: skip
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
RUN_AXE = """
async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .flatMap(v => v.nodes.map(n => ({rule: v.id, impact: v.impact, target: n.target.join(' '),
                                     html: n.html.slice(0, 120)})))
"""


class Visit:
    """A page in a browser, with all that it asked for and complained of."""

    def __init__(self, context, path, width, typeset):
        self.complaints, self.requests, self._typeset = [], [], typeset
        self.page = context.new_page()
        if width != self.page.viewport_size["width"]:
            self.page.set_viewport_size({"width": width, "height": 800})
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def typeset(self):
        self._typeset(self.page)
        return self

    def foreign(self):
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="module")
def context(contexts):
    return contexts(viewport={"width": 1280, "height": 800})


@pytest.fixture
def visit(context, sample, typeset):
    visits = []

    def go(kind, width=1280):
        visits.append(Visit(context, sample.get(kind, kind), width, typeset))
        return visits[-1]

    yield go
    for visited in visits:
        visited.page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_page(visit, kind):
    """One visit answers all that is cheap to ask."""
    visited = visit(kind).typeset()
    page = visited.page
    assert visited.foreign() == []
    assert visited.complaints == []
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    for width in (1280, 390, 768, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOW) <= 0, f"{width} pixels are not enough"


#: What has the focus, and where it stands; a link over a card and a fold of the side bar are
#: outlined around their surroundings.
FOCUSED = """
() => {
    const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e)
    const other = e.querySelector('.toctree-toggle'), after = getComputedStyle(e, '::after')
    const seen = [style, other && getComputedStyle(other), after]
        .some(s => s && (s.outlineStyle !== 'none' || s.boxShadow !== 'none'))
    return {place: [...document.querySelectorAll('*')].indexOf(e), tag: e.tagName, seen,
            inside: !!e.closest('article'), formula: e.localName === 'mjx-container',
            scrolls: e.scrollWidth > e.clientWidth + 1, text: e.textContent.trim().slice(0, 40),
            shown: e.checkVisibility({visibilityProperty: true})
                && box.right > 0 && box.left < innerWidth}
}
"""
#: What scrolls and can be reached by no key: it has no focus, and nothing in it has.
UNREACHABLE = """
() => [...document.querySelectorAll('body *')].filter(e => {
    const s = getComputedStyle(e), roll = /auto|scroll/
    const scrolls = (roll.test(s.overflowX) && e.scrollWidth > e.clientWidth + 1)
        || (roll.test(s.overflowY) && e.scrollHeight > e.clientHeight + 1)
    const keys = 'a[href], button, input, select, textarea, summary, [tabindex="0"]'
    return scrolls && e.getClientRects().length && e.tabIndex < 0 && !e.querySelector(keys)
}).map(e => e.outerHTML.slice(0, 100))
"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["start", "conventions", "topic", "gallery"])
def test_tab_reaches_every_control_in_the_order_of_the_page(visit, kind, width):
    page = visit(kind).typeset().page
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(300)
    stops = []
    while len(stops) < 400:
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
        if stops[-1]["tag"] == "BODY":
            break
    assert stops.pop()["tag"] == "BODY", "a trap"
    assert stops[0]["text"] == "Skip to main content"
    assert [s for s in stops if not (s["shown"] and s["seen"])] == []
    inside = [s["place"] for s in stops if s["inside"]]
    assert inside == sorted(inside)
    assert page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count() == 0
    assert [s for s in stops if s["formula"] and not s["scrolls"]] == []
    assert page.evaluate(UNREACHABLE) == []
    page.evaluate(UNFOLD)
    page.wait_for_timeout(100)
    assert page.evaluate(UNREACHABLE) == []


#: Controls without a ring when a key focuses them, or with one that a box cuts on three sides.
UNSEEN = """
() => {
    const out = []
    for (const e of document.querySelectorAll('a[href], button, input, select, summary')) {
        const box = e.getBoundingClientRect()
        if (!box.width || !box.height || getComputedStyle(e).visibility === 'hidden') continue
        e.focus({ focusVisible: true, preventScroll: true })
        if (document.activeElement !== e) continue
        const style = getComputedStyle(e)
        const ring = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth)
        const reach = ring + parseFloat(style.outlineOffset) - 1
        let cut = false
        for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
            if (getComputedStyle(p).overflow === 'visible') continue
            const b = p.getBoundingClientRect()
            cut ||= [b.left - box.left, b.top - box.top, box.right - b.right, box.bottom - b.bottom]
                .filter(beyond => beyond + reach > 0).length > 2
        }
        if (cut || !(ring || style.boxShadow !== 'none')) out.push(e.outerHTML.slice(0, 120))
    }
    return out
}
"""


@pytest.mark.parametrize("kind", ["start", "topic", "gallery", "script"])
def test_focus_is_seen(visit, kind):
    page = visit(kind).typeset().page
    page.keyboard.press("Tab")  # from here on, focus is one of the keyboard
    assert page.evaluate(UNSEEN) == []


def test_the_first_stop_skips_to_the_article(visit):
    page = visit("topic").page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("!!document.activeElement.closest('main')")


THEME = "theme => { document.documentElement.dataset.theme = theme }"
#: How far a page with all its parts unfolded sticks out, and what does.
CLIPPED = """
() => {
    const root = document.documentElement, over = root.scrollWidth - root.clientWidth
    return [...document.querySelectorAll('.bd-article :is(h1, h2, h3, dt.sig, p)')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .filter(e => !e.closest('table, .tryit-table')) // which scroll by themselves
        .map(e => e.textContent.slice(0, 60))
        .concat(over > 0 ? [over] : [])
}
"""
HEIGHT = "() => document.documentElement.scrollHeight"
UNFOLD = "() => document.querySelectorAll('.bd-article details').forEach(e => { e.open = true })"
CHAPTERS = sorted({p.stem for p in (ROOT / "docs" / "reference").glob("*.rst")} - {"index"})


#: How many pages there are to one that is visited: each night, all are.
EVERY = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.broad)])


@EVERY
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_topic_is_clipped_or_endless(context, site, typeset, chapter, every):
    """Pages of topics, in four widths and the dark scheme: nothing sticks out or is endless."""
    pages, wrong = sorted((site / "reference" / chapter).glob("*.html"))[::every], []
    assert pages
    tab = context.new_page()
    for path in pages:
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.goto(path.as_uri(), wait_until="load")
        typeset(tab)
        height = tab.evaluate(HEIGHT)
        if height > 12_000:
            wrong.append((path.name, "height", height))
        tab.evaluate(UNFOLD)
        # the page is 1280 wide already; a scheme exchanges colors and figures, of one size in all
        for theme, widths in {"light": (1280, 768, 390, 1920), "dark": (1920,)}.items():
            tab.evaluate(THEME, theme)
            for width in widths:
                tab.set_viewport_size({"width": width, "height": 800})
                wrong += [(path.name, theme, width, found) for found in tab.evaluate(CLIPPED)]
    tab.close()
    assert not wrong


@pytest.mark.parametrize("pages", ["*.html", "reference/*.html"])
def test_no_page_is_endless(context, site, typeset, pages):
    """At 1280 pixels wide, but the indices: at most 12,000 pixels high."""
    wrong, tab = {}, context.new_page()
    tab.set_viewport_size({"width": 1280, "height": 800})
    for path in site.glob(pages):
        if path.stem in {"genindex", "index"}:
            continue
        tab.goto(path.as_uri(), wait_until="load")
        typeset(tab)
        height = tab.evaluate(HEIGHT)
        if height > 12_000:
            wrong[path.name] = height
    tab.close()
    assert not wrong


#: Of each figure that is seen: its width, the least at which its text is readable, its own width,
#: and that of its box.
FIGURES = """
() => [...document.querySelectorAll('.bd-article :is(img.sphx-glr-single-img, figure img)')]
    .filter(e => e.checkVisibility())
    .map(e => {
        const box = e.closest('.figure-box'), width = b => b.getBoundingClientRect().width;
        const least = parseFloat(box.style.getPropertyValue('--least'));
        return [width(e), least, parseFloat(e.getAttribute('width')), width(box)];
    })
"""
#: Pages with figures: those of the gallery by chapter, and some texts.
FIGURED = {"texts": ["accuracy", "positions_compared", "speed"]}
for script in sorted((ROOT / "gallery").glob("*/plot_*.py")):
    chapter = script.parent.name
    FIGURED.setdefault(chapter, []).append(f"gallery/{chapter}/{script.stem}")


@EVERY
@pytest.mark.parametrize("chapter", FIGURED)
def test_figures_fit_a_screen_and_a_phone(context, site, typeset, chapter, every):
    """At 390 pixels a figure keeps the width at which its text has 9 pixels, and scrolls."""
    wrong, count, tab = [], 0, context.new_page()
    for name in FIGURED[chapter][::-every]:
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.goto((site / f"{name}.html").as_uri(), wait_until="load")
        typeset(tab)
        height = tab.evaluate(HEIGHT)
        if height > 12_000:
            wrong.append((name, "height", height))
        tab.set_viewport_size({"width": 390, "height": 800})
        for theme in ("light", "dark"):
            tab.evaluate(THEME, theme)
            for shown, least, natural, room in tab.evaluate(FIGURES):
                count += 1
                # 9 of the 12.5 pixels of a tick label: 0.72. Without ticks text has up to 15.
                if not (shown >= least - 1 and 0.6 * natural <= least <= natural and room < 390):
                    wrong.append((name, theme, shown, least, natural, room))
            if tab.evaluate(OVERFLOW) > 0:
                wrong.append((name, theme, "the page is wider than the screen"))
    tab.close()
    assert count
    assert not wrong


def test_a_wide_figure_is_scrolled_by_the_keyboard(visit, site, axe):
    page = visit(site / "gallery" / "positions" / "plot_rotary.html").page
    page.set_viewport_size({"width": 390, "height": 800})
    box = page.locator(".figure-box").first
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("e => e.scrollLeft > 0", arg=box.element_handle())
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run('.figure-box')).violations.map(v => v.id)")
    assert found == []


def test_names_break_behind_underscores(visit, site):
    """In headings, signatures and both side bars, and what is copied stays a name."""
    page = visit(site / "reference" / "attention" / "scaled_dot_product.html").page
    for place in (".bd-article h3", ".bd-article dt.sig", ".bd-sidebar-secondary a"):
        named = page.locator(place, has_text="scaled_dot_product_attention_vjp").first
        assert named.evaluate("e => e.querySelectorAll('wbr').length") >= 4, place
        assert "scaled_dot_product_attention_vjp" in named.text_content()
    page.set_viewport_size({"width": 390, "height": 800})
    heading = page.locator(".bd-article h3", has_text="scaled_dot_product_attention_vjp").first
    lines = heading.evaluate("""e => {
        const range = document.createRange(); range.selectNodeContents(e);
        return new Set([...range.getClientRects()].map(r => Math.round(r.top))).size }""")
    assert lines > 1


def test_mathematics_is_typeset(visit):
    assert visit("topic").typeset().page.locator("mjx-container").count() > 0


@pytest.mark.parametrize("width", [1000, 390])
def test_punctuation_stays_on_the_line_of_its_formula(visit, site, width):
    page = visit(site / "reference" / "calculus" / "elementary.html", width).typeset().page
    seen, strayed = page.evaluate("""() => {
        const all = [...document.querySelectorAll('.unbroken')].filter(e => e.offsetWidth);
        return [all.length, all.filter(e => {
            const range = document.createRange(); range.selectNodeContents(e.lastChild);
            const formula = e.querySelector('mjx-container').getBoundingClientRect();
            return range.getBoundingClientRect().top >= formula.bottom;
        }).map(e => e.parentNode.textContent)] }""")
    assert seen > 5
    assert not strayed


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_accessibility(visit, axe, schemes, kind, width):
    page = visit(kind, width).typeset().page
    page.evaluate(axe)
    for theme in schemes(page):
        found = [v for v in page.evaluate(RUN_AXE) if v["impact"] in ("serious", "critical")]
        assert not found, json.dumps([theme, *found], indent=1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_follow_the_theme(visit, theme):
    page = visit("script").page
    page.evaluate(THEME, theme)
    other = {"light": "dark", "dark": "light"}[theme]
    assert page.locator(f"img.only-{theme}").first.is_visible()
    assert not page.locator(f"img.only-{other}").first.is_visible()


def test_the_reader_can_switch_the_theme(visit):
    page = visit("start").page
    for choice in ("dark", "light"):
        page.locator("button.theme-switch-button:visible").click()
        page.locator(f"button.theme-change-button[data-mode={choice}]:visible").click()
        assert page.evaluate("document.documentElement.dataset.theme") == choice


def test_the_menu_of_a_phone_has_the_links_of_the_header(visit):
    page = visit("topic", 390).page
    page.get_by_role("button", name="Site navigation").click()
    menu = page.get_by_role("navigation", name="Pages of the site")
    menu.wait_for()
    hrefs = "links => links.map(link => link.href)"
    header = page.locator("header .navbar-header-items__center nav a").evaluate_all(hrefs)
    assert len(header) > 15
    assert menu.locator("a:visible").evaluate_all(hrefs) == header


@pytest.mark.parametrize("topic", ["activations/softmax", "attention/scaled_dot_product"])
def test_displayed_formulas_are_as_large_as_those_in_the_text(visit, site, topic):
    page = visit(site / "reference" / f"{topic}.html").typeset().page
    sizes = """e => [...e.querySelectorAll('mjx-container')].filter(m => m.offsetWidth).map(
        m => [m.getAttribute('display') === 'true', parseFloat(getComputedStyle(m).fontSize)])"""
    measured = page.locator("article").evaluate(sizes)
    inline = [size for is_displayed, size in measured if not is_displayed]
    displayed = sorted(size for is_displayed, size in measured if is_displayed)
    assert displayed[len(displayed) // 2] >= 0.95 * min(inline)


def test_a_letter_has_one_shape_on_a_page(visit, site):
    """In its symbols and its formulas: ε and φ, which mathematics writes in two ways."""
    page = visit(site / "reference" / "normalization" / "layer_norm.html").typeset().page
    assert "ε" in page.locator("p.symbols").inner_text()
    letters = "".join(page.locator("article mjx-assistive-mml").all_text_contents())
    assert "ε" in letters
    assert not {*letters} & {*"ϵϕ"}


def test_a_mark_leads_to_the_check_unfolded(visit, site):
    page = visit(site / "reference" / "activations" / "softmax.html").typeset().page
    page.locator("#definition a.checked").first.click()
    assert "/equations/activations.html#check-" in page.url
    source = page.locator(page.evaluate("location.hash"))
    source.wait_for(state="visible")
    assert "@reads" in source.inner_text()


def test_examples_are_copied_without_prompts(visit):
    page = visit("start").page
    example = page.locator("div.highlight:has(.gp)").first
    example.hover()
    example.locator("button.copybtn").click()
    page.keyboard.press("Control+k")  # the search field takes what was copied
    page.keyboard.press("Control+v")
    pasted = page.evaluate("document.activeElement.value")
    assert "import" in pasted
    assert ">>>" not in pasted


@pytest.mark.parametrize("door", ["Learn", "Look up", "Check your kernel"])
def test_start_page_opens_its_doors(visit, door):
    page = visit("start").page
    box = page.locator(".doors .sd-card", has_text=door).first.bounding_box()
    assert box["y"] + box["height"] <= 800  # seen without scrolling


#: Questions of readers, and the page that answers.
QUESTIONS = {
    "derive softmax backward": ("activations/softmax", "Backward pass"),
    "layer norm backward": ("normalization/layer_norm", "Backward pass"),
    "BPTT step by step": ("recurrent/rnn", "step by step"),
    "which pairing does LLaMA use": ("positions/rotary", "traps"),
    "LSTM gate order": ("recurrent/lstm", "traps"),
    "a fully masked row": ("attention/scaled_dot_product", "traps"),
    "causal mask with a cache": ("attention/masks", "Definition"),
    "why 2/N in MSE": ("losses/squared_error", "Gradient"),
    "GRU differs from PyTorch": ("recurrent/gru", "traps"),
    "the ALiBi bias": ("positions/alibi", "Definition"),
    "why tanh vanishes": ("propagation/gradient_magnitude", "Derivation"),
    "flash attention backward": ("attention/scaled_dot_product", "Backward pass"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_one_click_from_the_start_page(visit, question):
    page = visit("start").page
    page.get_by_role("link", name=question, exact=True).click()
    topic, section = QUESTIONS[question]
    page.wait_for_url(f"**/reference/{topic}.html#*")
    target = page.locator(f'[id="{page.evaluate("location.hash.slice(1)")}"]').first
    heading = target.locator("xpath=ancestor-or-self::section[1]/*[self::h2 or self::h3]")
    assert section in heading.inner_text()


#: What readers type, and the page that must come first or second.
SEARCHES = {
    "derive softmax backward": "activations/softmax",
    "why 2/N in MSE": "losses/squared_error",
    "which pairing does LLaMA use": "positions/rotary",
    "GRU differs from PyTorch by 0.1": "recurrent/gru",
    "fully masked row": "attention/scaled_dot_product",
    "LSTM gate order": "recurrent/lstm",
    "what does the ALiBi bias look like": "positions/alibi",
    "BPTT step by step": "recurrent/rnn",
    "why does tanh vanish": "propagation/gradient_magnitude",
    "layer norm backward": "normalization/layer_norm",
    "causal mask with a cache offset": "attention/masks",
    "flash attention backward": "attention/scaled_dot_product",
    "rope backward": "positions/rotary",
    "why divide by sqrt d": "attention/scaled_dot_product",
    "NaN row": "attention/scaled_dot_product",
    "softmax cross-entropy gradient": "losses/cross_entropy",
    "Adam bias correction": "training/adam",
    "Kaiming initialization": "propagation/initialization",
    "swish derivative": "activations/silu",
    "label smothing": "losses/cross_entropy",
    # weak before
    "tied embeddings": "transformer/language_model",
    "weight tying": "transformer/language_model",
    "embedding gradient": "neurons/embedding",
    "convolution backward": "convolution/conv",
    "conv2d": "convolution/conv",
    "deconvolution": "convolution/conv_transpose",
    "max pooling": "convolution/max_pool",
    "average pooling": "convolution/mean_pool",
    "causal_conv1d": "convolution/causal_conv",
    "perplexity": "losses/cross_entropy",
    "outer product gradient": "neurons/linear",
    "variance of weights 1/n": "propagation/initialization",
    "dL/dy times w transpose": "neurons/linear",
    "denominator layout": "calculus/matmul",
    # typos in one word of two
    "sofmax gradient": "activations/softmax",
    "layer nrom": "normalization/layer_norm",
    "attentoin masks": "attention/masks",
    "momentm optimizer": "training/momentum",
    # names that people know
    "Mamba": "attention/recurrent_linear_attention",
    "RetNet": "attention/recurrent_linear_attention",
    "DeltaNet": "attention/recurrent_linear_attention",
    "GLA": "attention/recurrent_linear_attention",
    "sliding window": "attention/masks",
    "rope_theta": "positions/rotary",
    "gate_proj": "activations/swiglu",
    "num_key_value_heads": "attention/multi_head",
    "attn_logit_softcapping": "attention/attention_scores",
    "GQA": "attention/multi_head",
    "KV cache": "attention/multi_head",
    "MoE": "transformer/experts",
    "LoRA": "neurons/lora_linear",
    "ring attention": "attention/merge_attention",
    "YaRN": "positions/rotary_scaling",
    "nucleus sampling": "transformer/generation",
    "SwiGLU": "activations/swiglu",
    "AdamW": "training/adam",
    # in readers' words
    "why is the gradient of W x transposed": "neurons/linear",
    "gradient of the bias": "neurons/linear",
    "matrix multiplication gradient": "calculus/matmul",
    "backprop through a multilayer perceptron": "neurons/mlp",
    "exploding gradient": "propagation/gradient_magnitude",
    "cosine learning rate with warmup": "training/schedules",
    "positional encoding": "positions/sinusoidal",
    "pre-norm or post-norm": "transformer/blocks",
    "batch norm running mean": "normalization/batch_norm_train",
    "forget gate bias": "recurrent/lstm",
    "derivative of sigmoid": "activations/sigmoid",
    "beam search": "transformer/generation",
    "chain rule with two paths": "calculus/chain_rule",
    # models and libraries of 2024 to 2026
    "Mamba backward": "recurrent/selective_scan",
    "MLA": "attention/latent_attention",
    "Kimi Delta Attention": "attention/recurrent_linear_attention",
    "Gated DeltaNet": "attention/recurrent_linear_attention",
    "lightning attention": "attention/recurrent_linear_attention",
    "attention sink gpt-oss": "attention/scaled_dot_product",
    "QK norm": "attention/multi_head",
    "differential transformer": "attention/differential_attention",
    "lightning indexer": "attention/indexer_scores",
    "forgetting transformer": "attention/forgetting_bias",
    "packed sequences mask": "attention/masks",
    "Qwen2-VL positions": "positions/rotary_multi",
    "Swin relative position bias": "positions/relative_bias_grid",
    "2D sin cos position embedding": "positions/sinusoidal",
    "diffusion timestep embedding": "positions/timestep_embedding",
    "DeBERTa": "positions/disentangled_scores",
    "gumbel softmax": "activations/gumbel_softmax",
    "running statistics batch norm": "normalization/batch_norm_train",
    "llama 4 temperature": "attention/scaled_dot_product",
    # names of PyTorch
    "CTCLoss": "losses/ctc_loss",
    "HuberLoss": "losses/huber",
    "MSELoss": "losses/squared_error",
    "L1Loss": "losses/absolute_error",
    "NLLLoss": "losses/nll",
    "KLDivLoss argument order pytorch": "losses/kl_divergence",
    "BCEWithLogitsLoss": "losses/binary_cross_entropy",
    "LayerNorm": "normalization/layer_norm",
    "GroupNorm": "normalization/group_norm",
    "MultiheadAttention": "attention/multi_head",
    "ConvTranspose2d": "convolution/conv_transpose",
    "CosineAnnealingLR": "training/schedules",
    "TransformerEncoderLayer": "transformer/blocks",
    "LSTMCell": "recurrent/lstm",
    # looked for in vain
    "speculative decoding": "attention/masks",
    "sliding_window": "attention/masks",
    "rolling cache": "attention/cache",
    "RMSNorm bfloat16": "normalization/rms_norm",
}


def found(page):
    """Return the pages that a search shows, once all are shown."""
    page.wait_for_function("() => document.querySelector('.search-summary')?.innerText")
    return [link.get_attribute("href") or "" for link in page.locator("ul.search li a").all()]


#: What the page does with the words of its address, without loading the index once more.
SEARCH = """
question => {
    document.querySelector('#search-results').replaceChildren()
    Search.performSearch(question)
}
"""


def test_search_finds_what_readers_ask(visit, sample):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=softmax")
    found(page)
    late = {}
    for question, wanted in SEARCHES.items():
        page.evaluate(SEARCH, question)
        hrefs = [href.partition("#")[0] for href in found(page)]
        assert len(set(hrefs)) == len(hrefs), question  # one entry for each page
        hrefs = [href for href in hrefs if "learn/" not in href]  # lessons on the same thing
        if f"reference/{wanted}.html" not in hrefs[:2]:
            late[question] = hrefs[:4]
    assert len(SEARCHES) >= 60
    assert not late, json.dumps(late, indent=1)


#: Questions that one section answers: the page, and how the section's address begins.
SECTIONS = {
    "layer norm backward": "normalization/layer_norm.html#backward-pass",
    "softmax jacobian": "activations/softmax.html#jacobian",
    "layer norm precision": "normalization/layer_norm.html#numerics",
    "softmax overflow": "activations/softmax.html#numerics",
    "attention float32 error": "attention/scaled_dot_product.html#numerics",
    "lstm gate order": "recurrent/lstm.html#conventions",
    "adam epsilon convention": "training/adam.html#conventions",
    "group norm conventions": "normalization/group_norm.html#conventions",
    "rms norm parameters": "normalization/rms_norm.html#parameters",
    "window mask": "attention/masks.html#window-mask",
    "gelu second derivative": "activations/gelu.html#second-derivative",
    "attention exercises": "attention/scaled_dot_product.html#exercises",
    "dropout backward": "neurons/dropout.html#backward-pass",
    "which model pairs rope how": "interop.html#which-model-rotates",
    "sliding window by model": "interop.html#which-model-rotates",
}


def test_search_leads_to_the_section_that_answers(visit, sample):
    page, wrong = visit("search").page, {}
    page.goto(f"{sample['search'].as_uri()}?q=softmax")
    found(page)
    for question, wanted in SECTIONS.items():
        page.evaluate(SEARCH, question)
        first = next(href for href in found(page) if "learn/" not in href)
        if not first.startswith(f"reference/{wanted}"):
            wrong[question] = first
    assert not wrong, json.dumps(wrong, indent=1)


#: Names of functions: where the import stands, or the section on this form, not the parameters.
NAMES = {
    "rms_norm": "normalization/rms_norm.html",
    "rms_norm_vjp": "normalization/rms_norm.html#backward-pass-vjp-rms-norm-vjp",
    "window_mask": "attention/masks.html#window-mask",
    "check_all": "check/reports.html#dlref.check.check_all",
}


def test_the_name_of_a_function_leads_to_its_head(visit, sample):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=softmax")
    found(page)
    first = {}
    for name in NAMES:
        page.evaluate(SEARCH, name)
        first[name] = found(page)[0]
    assert first == {name: f"reference/{place}" for name, place in NAMES.items()}


#: Questions as people type them, with what answers them.
ASKED = tomllib.loads((Path(__file__).parent / "questions.toml").read_text("utf-8"))["question"]


def test_questions_lead_to_their_page_and_section(visit, sample):
    """The first result but for lessons on the same thing: 120 pages and 116 sections of 125."""
    page, right, wrong = visit("search").page, Counter(), {}
    page.goto(f"{sample['search'].as_uri()}?q=softmax")
    found(page)
    for question in ASKED:
        page.evaluate(SEARCH, question["asked"])
        first = next((href for href in found(page) if "learn/" not in href), "")
        wanted = [
            (answer[1:] if answer[0] == "/" else f"reference/{answer}").partition("#")
            for answer in question["answers"]
        ]
        own = [anchor for name, _, anchor in wanted if first.partition(".html")[0] == name]
        right["page"] += bool(own)
        hit = any(first.partition(".html")[2].startswith(f"#{a}" if a else "") for a in own)
        right["section"] += hit
        if not hit:
            wrong[question["asked"]] = first
    assert len(ASKED) == 125
    assert right["page"] >= 120, json.dumps(wrong, indent=1)
    assert right["section"] >= 116, json.dumps(wrong, indent=1)


def test_a_result_shows_the_section_and_its_first_words(visit, sample):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=layer+norm+backward")
    found(page)
    first = page.locator("ul.search li").first
    assert "Backward pass" in first.locator(".search-section").inner_text()
    assert len(first.locator(".search-excerpt").inner_text()) > 20
    first.locator("a").click()
    target = page.locator(page.evaluate("location.hash"))
    assert target.locator("h3").inner_text().startswith("Backward pass")


def test_a_topic_is_listed_once(visit, sample):
    """Not with the page of the gallery that draws it."""
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=softmax")
    hrefs = found(page)
    assert "reference/activations/softmax.html" in [h.partition("#")[0] for h in hrefs]
    assert not [h for h in hrefs if "gallery/activations/plot_softmax" in h]


def test_arrow_keys_move_through_the_results(visit):
    page = visit("topic").page
    page.keyboard.press("Control+k")
    page.keyboard.type("momentum")
    hrefs = found(page)
    focused = "document.activeElement.getAttribute('href')"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == hrefs[0]
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == hrefs[1]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/momentum.html*")


def test_a_long_table_is_filtered_by_words(visit, site):
    page = visit(site / "reference" / "interop.html").page
    page.locator("summary", has_text="The pieces of each family").click()
    field = page.get_by_role("searchbox", name="Filter the rows of the table").first
    table = page.locator("table.filtered").first
    rows = table.locator("tbody tr:visible")
    every = rows.count()
    field.fill("gemma rms")
    assert 0 < rows.count() < every
    assert all("gemma" in text.lower() for text in rows.all_inner_texts())
    assert page.locator(".table-filter output").first.inner_text().endswith(f" of {every} rows")
    field.fill("")
    assert rows.count() == every


@pytest.mark.parametrize("absent", ["Shampoo", "reinforcement learning", "graph neural network"])
def test_a_search_for_what_is_missing_says_so(visit, sample, absent):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q={quote(absent)}")
    found(page)
    assert "no page here yet" in page.locator(".search-summary").inner_text()


SHIFTS = """
    window.shift = 0;
    new PerformanceObserver(list => {
        for (const entry of list.getEntries())
            if (!entry.hadRecentInput) window.shift += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
"""


#: By how many em the room that was kept for a formula of a sentence differs from its width.
ROOMS = """
() => [...document.querySelectorAll(':is(p, p > .unbroken) > .math[style]')].filter(
    e => e.checkVisibility()).map(e => {
    const probe = document.createElement('span'), width = e.getBoundingClientRect().width
    probe.style.cssText = 'display: inline-block; width: var(--room)'
    e.append(probe)
    const room = probe.getBoundingClientRect().width
    probe.remove()
    return Math.abs(room - width) / parseFloat(getComputedStyle(e).fontSize)
})
"""


@pytest.mark.parametrize("topic", ["activations/softmax", "recurrent/lstm"])
def test_a_formula_takes_the_room_that_was_kept_for_it(contexts, site, typeset, topic):
    page = contexts(viewport={"width": 1920, "height": 800}).new_page()
    page.goto((site / "reference" / f"{topic}.html").as_uri())
    typeset(page)
    off = page.evaluate(ROOMS)
    page.close()
    assert len(off) > 20
    assert sum(miss < 0.1 for miss in off) > 0.9 * len(off)  # the others are broken over lines


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "name",
    ["index", "learn", "gallery/index", "reference/activations/softmax", "reference/recurrent/lstm",
     "reference/attention/scaled_dot_product", "reference/losses/cross_entropy", "adjoints",
     "why_attention", "check_your_kernel", "reference/index", "gallery/losses/plot_cross_entropy",
     "elementary", "accuracy", "expectations", "gallery/calculus/plot_matrix_product",
     "learn/exam_sheet"],
)  # fmt: skip
def test_nothing_jumps_while_a_page_loads(contexts, site, typeset, name, width):
    page = contexts(viewport={"width": width, "height": 800}).new_page()
    page.add_init_script(SHIFTS)
    page.goto((site / f"{name}.html").as_uri(), wait_until="load")
    typeset(page)
    page.wait_for_timeout(300)
    assert page.evaluate("window.shift") <= 0.05
    page.close()


#: Characters a line of each paragraph of four lines or more, without formulas.
MEASURE = """
() => [...document.querySelectorAll('.bd-article section > p')]
    .filter(p => !p.querySelector('.math, img, code, .sym'))
    .map(p => [p, Math.round(p.clientHeight / parseFloat(getComputedStyle(p).lineHeight))])
    .filter(([_, lines]) => lines >= 4)
    .map(([p, lines]) => p.innerText.length / (lines - 0.5))
"""


@pytest.mark.parametrize("width", [1280, 1920])
def test_lines_of_text_are_short(context, site, width):
    tab, found = context.new_page(), []
    tab.set_viewport_size({"width": width, "height": 800})
    for name in ("conventions", "questions", "contributing", "speed"):
        tab.goto((site / f"{name}.html").as_uri(), wait_until="load")
        found += tab.evaluate(MEASURE)
    tab.close()
    assert len(found) > 10
    assert min(found) >= 60
    assert max(found) <= 85
    assert 65 <= sum(found) / len(found) <= 75


def test_no_displayed_formula_is_cut_on_a_screen(context, site, typeset):
    """At 1280 pixels; the nine that were, and others."""
    cut, tab = {}, context.new_page()
    tab.set_viewport_size({"width": 1280, "height": 800})
    for name in (
        "activations/mish", "activations/softmax", "recurrent/lstm", "transformer/blocks",
        "transformer/encoder_decoder", "recurrent/sequences", "positions/rotary",
        "losses/neuron_squared_error", "losses/binary_cross_entropy", "recurrent/gru",
        "normalization/layer_norm",
    ):  # fmt: skip
        tab.goto((site / "reference" / f"{name}.html").as_uri(), wait_until="load")
        typeset(tab)
        tab.wait_for_timeout(200)
        wide = """() => [...document.querySelectorAll('mjx-container[display=true]')]
            .filter(m => m.clientWidth && m.scrollWidth > m.clientWidth + 1)
            .map(m => m.closest('div.math')?.id + ' ' + m.scrollWidth + ' ' + m.clientWidth)"""
        if found_here := tab.evaluate(wide):
            cut[name] = found_here
    tab.close()
    assert not cut


def test_the_cheat_sheet_is_legible_on_paper(visit, site):
    """In a type of 8 points, of which indices have seven tenths, and on few pages."""
    page = visit(site / "reference" / "index.html").typeset().page
    data = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", data)) <= 8
    page.emulate_media(media="print")
    sizes = page.locator("table.sheet td").evaluate_all(
        "cells => cells.flatMap(c => [c, ...c.querySelectorAll('mjx-container')])"
        ".map(e => parseFloat(getComputedStyle(e).fontSize) * 0.75)"
    )
    assert min(sizes) >= 7.9


def test_the_sheet_is_filtered_by_names_of_other_libraries(visit, site):
    page = visit(site / "reference" / "index.html").page
    field = page.get_by_role("searchbox", name="Filter topics by name")
    field.fill("torch.nn.RMSNorm".lower())
    page.wait_for_function("() => window.dlrefExcerpts")
    titles = page.locator("table.sheet tbody tr:visible td:first-child")
    titles.first.wait_for()
    assert "RMS norm" in titles.all_inner_texts()
    assert titles.count() < 5
    assert page.locator("section > h2:visible", has_text="Recurrent networks").count() == 0
    field.fill("")
    assert page.locator("section > h2:visible", has_text="Recurrent networks").count() == 1


def test_the_search_is_loaded_when_somebody_looks_for_something(visit):
    visited = visit("topic").typeset()
    names = {Path(url.partition("?")[0]).name for url in visited.requests}
    assert not names & {"searchindex.js", "excerpts.js", "searchtools.js", "index.js"}
    visited.page.keyboard.press("Control+k")
    visited.page.keyboard.type("momentum")  # typed before it is there, and not lost
    assert found(visited.page)
    assert visited.page.evaluate("document.activeElement.value") == "momentum"
    assert visited.complaints == []


@pytest.mark.parametrize("topic", ["activations/softmax", "attention/scaled_dot_product"])
def test_the_first_load_of_a_topic_is_light(contexts, site, typeset, topic):
    """600 KB until all formulas stand, as a server sends them, compressed."""
    page, files = contexts(viewport={"width": 1280, "height": 800}).new_page(), set()
    page.on("request", lambda request: files.add(unquote(urlsplit(request.url).path)))
    page.goto((site / "reference" / f"{topic}.html").as_uri())
    typeset(page)
    page.close()
    sizes = {
        name: len(data if name.endswith((".png", ".woff2")) else gzip.compress(data))
        for name, data in ((Path(file).name, Path(file).read_bytes()) for file in files)
    }
    heaviest = sorted(sizes.items(), key=lambda one: -one[1])[:8]
    assert sum(sizes.values()) <= 600e3, heaviest


def test_the_search_field_ranks_as_the_search_page_does(visit, sample):
    visited = visit("topic")
    page = visited.page
    page.keyboard.press("Control+k")
    page.keyboard.type("layer norm backward")
    typed = found(page)
    page.goto(f"{sample['search'].as_uri()}?q=layer+norm+backward")
    searched = found(page)
    assert [href.rpartition("/")[2] for href in typed] == [
        href.rpartition("/")[2] for href in searched
    ]
    assert visited.complaints == []
    assert visited.foreign() == []


def test_a_search_for_a_name_leads_to_the_name(visit, sample):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=softmax_jacobian")
    assert found(page)[0].endswith("activations/softmax.html#jacobian-softmax-jacobian")


def test_a_search_without_a_hit_says_so(visit, sample):
    page = visit("search").page
    page.goto(f"{sample['search'].as_uri()}?q=zzqqxx")
    assert found(page) == []
    assert "did not match" in page.locator(".search-summary").inner_text()
