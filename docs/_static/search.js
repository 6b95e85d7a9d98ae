// Search with ranks: MiniSearch over Sphinx's own index, for the search page and the field alike.
// A page is found by any word of the question. Its title and its aliases weigh more than its text.
(function () {
  "use strict";
  if (typeof Search === "undefined" || typeof MiniSearch === "undefined") return;
  const FIELDS = { title: 6, aliases: 6, names: 2, headings: 2, text: 1 };
  const SYNONYMS = [
    ["backward", "vjp", "gradient", "backpropagation", "backprop"],
    ["jvp", "tangent"], ["nan", "masked"], ["pairing", "interleaved"], ["mse", "squared"],
    ["layernorm", "layer"], ["rmsnorm", "rms"], ["batchnorm", "batch"], ["overflow", "stable"],
    ["transpose", "transposed"], ["initialization", "init", "initialize", "initialise"],
    ["optimizer", "optimiser"], ["lr", "learning"], ["ffn", "feed"], ["matmul", "product"], ["mha", "head"], ["sdpa", "attention"],
  ];
  // Words for what all topics have; they choose no page.
  const FORMS = [...SYNONYMS[0], "derivative", "formula", "equation", "definition", "numpy", "pytorch", "jax", "torch"];
  // What else readers call the sections that all topics have.
  const ALSO = {
    "Numerics": "precision accuracy error rounding overflow underflow stable stability float64 float32 float16 bfloat16 ulp",
    "Conventions and traps": "order argument layout vs versus before after inside outside first last default differs difference pytorch jax keras onnx torch pitfall",
    "Parameters and errors": "arguments options signature shapes dtypes raises",
    "Examples": "usage",
    "Definition": "formula equation",
  };
  // What readers look for and will not find; silent once a page has it in its title or its aliases.
  const MISSING = [
    "diffusion sampler", "gan", "vae", "autoencoder", "reinforcement", "tokenizer", "bpe",
    "graph neural network", "gnn", "vision transformer", "vit", "contrastive loss", "shampoo",
  ];
  const stemmer = new Stemmer();
  const stem = word => stemmer.stemWord(word.toLowerCase());
  const indexed = word => stopwords.has(word.toLowerCase()) ? null : stem(word);
  const synonyms = new Map();
  for (const words of SYNONYMS.map(group => group.map(stem)))
    for (const word of words) synonyms.set(word, words.filter(other => other !== word));
  const tokenize = text => text.split(/[^\p{L}\p{N}]+/u).filter(word => word);
  // CTCLoss is CTC Loss, where nothing is called so.
  const apart = text => text.replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2").replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2");

  // One record a page, gathered from what Sphinx keeps by words, headings and names.
  const aliasesOf = doc => window.dlrefExcerpts?.aliases[doc] || [];
  function records({ docnames, titles, alltitles, terms, objects }) {
    const pages = docnames.map((doc, id) => (
      { id, doc, title: titles[id], headings: [], aliases: aliasesOf(doc), names: [], text: [] }));
    const list = found => Array.isArray(found) ? found : [found];
    for (const [heading, places] of Object.entries(alltitles))
      for (const [page] of places) if (heading !== titles[page]) pages[page].headings.push(heading);
    for (const group of Object.values(objects))
      for (const [page, , , , name] of group) pages[page].names.push(name);
    for (const [word, found] of Object.entries(terms))
      for (const page of list(found)) pages[page].text.push(word);
    return pages.map(page => {
      for (const field in FIELDS) page[field] = [].concat(page[field]).join(" ");
      return page;
    });
  }
  let mini;
  const stems = text => new Set(tokenize(text).map(indexed).filter(Boolean));
  const phrases = []; // a page, the words of its title or of one of its aliases, and which of the two
  const alone = new Map(); // of a stem that is an alias: how many pages have it
  const known = new Set(), named = new Set(); // stems of all words, and of titles and aliases
  function index() {
    if (mini) return mini;
    mini = new MiniSearch({ fields: Object.keys(FIELDS), storeFields: ["doc"], tokenize, processTerm: indexed });
    const all = records(Search._index);
    mini.addAll(all);
    for (const page of all) {
      for (const field in FIELDS) for (const word of tokenize(page[field])) known.add(stem(word));
      for (const word of tokenize(`${page.title} ${page.aliases}`)) named.add(stem(word));
    }
    Search._index.docnames.forEach((doc, page) => {
      phrases.push([page, stems(Search._index.titles[page]), true]);
      const single = new Set(aliasesOf(doc).map(stems).filter(words => words.size === 1).map(words => [...words][0]));
      for (const word of single) alone.set(word, (alone.get(word) || 0) + 1);
      for (const phrase of aliasesOf(doc)) phrases.push([page, stems(phrase), false]);
    });
    return mini;
  }
  const worth = doc => doc.startsWith("reference/") ? 1 : doc.startsWith("gallery/") ? 0.5 : doc === "changelog" ? 0.2 : 0.7;

  // A name such as NLLLoss is looked for as it is, and by its words, unless a page is called so.
  const whole = word => apart(word) === word || named.has(stem(word));
  const understood = query => tokenize(query).map(word => whole(word) ? word : `${word} ${apart(word)}`).join(" ");

  function rank(asking) {
    index();
    const query = understood(asking);
    const own = new Set(tokenize(query).map(stem));
    const found = index().search(query, {
      boost: FIELDS,
      processTerm: word => {
        const term = indexed(word);
        return term && [term, ...(synonyms.get(term) || [])];
      },
      boostTerm: term => own.has(term) ? 1 : 0.3,
      boostDocument: (_, __, { doc }) => worth(doc),
      prefix: term => term.length > 3,
      fuzzy: term => known.has(term) || term.length < 4 ? false : term.length < 6 ? 1 : 2, // a typo
      bm25: { k: 1.2, b: 0.3, d: 0.5 }, // many aliases are no reason to rank lower
      weights: { prefix: 0.3, fuzzy: 0.6 },
    });
    const { docnames, titles } = Search._index;
    // A page with more of the words comes before one with a word more often.
    // An alias or a title with all of the words, and few others, answers the question.
    const asked = [stems(query)].filter(words => words.size > 1), answers = new Map();
    for (const word of tokenize(asking)) if (!whole(word)) asked.push(stems(apart(word).replace(/ (Loss|Layer)$/, "")));
    for (const [page, words] of phrases) for (const some of asked)
      if ([...some].every(word => words.has(word)))
        answers.set(page, Math.max(answers.get(page) || 0, 1 + 3 * some.size / words.size));
    // So does one that the question contains, unless it is one word of the aliases of many pages.
    const contained = stems(query), forms = new Set(FORMS.map(stem));
    const size = words => [...words].reduce((sum, word) => sum + (forms.has(word) ? 0.2 : 1), 0);
    for (const [page, words, title] of phrases)
      if (size(words) >= 1 && (title || words.size > 1 || alone.get([...words][0]) < 3) && [...words].every(word => contained.has(word)))
        answers.set(page, Math.max(answers.get(page) || 0, 1 + 2 * size(words) / size(contained)));
    const share = page => (answers.get(page.id) || 1) * page.score * Math.max(1, page.queryTerms.filter(term => own.has(term) && term.length > 1).length);
    const pages = found.sort((a, b) => share(b) - share(a)).map(({ id }) => ({ doc: docnames[id], title: titles[id] }));
    const name = asking.trim().toLowerCase();
    const exact = Search.performObjectSearch(name, new Set([name]))
      .filter(([, full]) => full.toLowerCase().split(".").includes(name) || full.toLowerCase() === name)
      .map(([doc, full, anchor]) => ({ doc, title: full, anchor: headed(doc, name) ? undefined : anchor }));
    return once([...exact, ...pages]);
  }

  // Whether the head of a page, or one of its sections, is about a function: it has the import
  // and says what the function does, unlike the folded entry under Parameters.
  function headed(doc, name) {
    const [top, ...sections] = window.dlrefExcerpts?.pages[doc] || [], words = stems(name.split(".").pop());
    return Boolean(top) && [top, ...sections].some(([, title]) => {
      const called = stems(title);
      return [...words].every(word => called.has(word));
    });
  }

  // One entry a page, and none for a page of the gallery that draws a topic that is listed.
  function once(results) {
    const { drawn = {} } = window.dlrefExcerpts || {}, all = new Set(results.map(({ doc }) => doc)), seen = new Set();
    return results.filter(({ doc }) => {
      if (seen.has(doc) || (drawn[doc] || []).some(topic => all.has(topic))) return false;
      return seen.add(doc);
    });
  }

  // The section that answers: the one with most of the words of the question in its heading, or in its
  // text, where a word counts by how few sections of the page have it. Words of the title, and names
  // of one word, have chosen the page already, and count for no section.
  const CALLED = 2, ALIKE = 1.2, ALSO_CALLED = 1.5, FIRST = 0.5, SAID = 0.35;
  const DERIVATION = /^deriv(e|ed|ation)s?$/i; // has the stem of derivative, and means something else
  const telling = text => new Set(tokenize(text).filter(word => !stopwords.has(word.toLowerCase()) && word !== "respect")
    .map(word => DERIVATION.test(word) ? "derivation" : stem(word)));
  const alike = word => word === stem("derivative") ? ["backward", "gradient"].map(stem) : synonyms.get(word) || [];
  function section(doc, query) {
    const sections = window.dlrefExcerpts?.pages[doc] || [];
    const parts = sections.map(([, title, first, names, words = ""], at) => ({
      heading: telling(at ? `${title.replace(" and errors", "")} ${names}` : ""), also: telling(ALSO[title] || ""),
      first: telling(first), text: telling(words) }));
    const own = telling(understood(query)), headed = word => parts.some(({ heading, also }) => heading.has(word) || also.has(word));
    for (const word of sections.length ? telling(sections[0][1]) : []) own.delete(word);
    for (const name of aliasesOf(doc).map(telling).filter(words => words.size === 1))
      for (const word of name) if (!headed(word)) own.delete(word);
    const points = parts.map(() => 0);
    for (const word of own) {
      const headings = parts.filter(({ heading }) => heading.has(word)).length;
      const said = parts.filter(({ first, text }) => first.has(word) || text.has(word)).length;
      parts.forEach(({ heading, also, first, text }, at) => {
        const named = heading.has(word) ? CALLED / Math.sqrt(headings) : also.has(word) ? ALSO_CALLED : alike(word).some(one => heading.has(one)) ? ALIKE : 0;
        points[at] += named || (first.has(word) ? FIRST : text.has(word) ? SAID : 0) / Math.sqrt(said || 1);
      });
    }
    return sections[points.indexOf(Math.max(...points))];
  }

  function missing(query) {
    const words = tokenize(query.toLowerCase());
    return MISSING.find(term => {
      const parts = tokenize(term);
      return parts.every(part => words.includes(part)) && !parts.every(part => named.has(stem(part)));
    });
  }

  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  // Excerpts come in a file of their own, with the first search.
  let loading;
  function excerpts() {
    const root = document.documentElement.dataset.content_root;
    return loading ||= new Promise(done => {
      const script = make("script");
      script.src = `${root}_static/excerpts.js`;
      script.onload = script.onerror = done;
      document.body.append(script);
    });
  }

  Search.query = async query => {
    const { output, status, title } = Search; // of this search: another may begin meanwhile
    await excerpts();
    const results = rank(query).slice(0, 25), absent = missing(query);
    document.getElementById("search-progress")?.replaceChildren();
    Search.stopPulse();
    for (const { doc, title: name, anchor } of results) {
      const item = make("li"), found = anchor ? null : section(doc, query);
      const link = make("a", name);
      link.href = `${doc}.html${anchor || (found?.[0] ? `#${found[0]}` : "")}`;
      item.append(link);
      if (found?.[0]) item.append(make("span", found[1], "search-section"));
      if (found?.[2]) item.append(make("p", found[2], "search-excerpt"));
      output.append(item);
    }
    title.textContent = "Search results";
    const count = results.length === 1 ? "One page" : `${results.length} pages`;
    status.textContent = absent ? `“${absent}” has no page here yet. ${results.length ? "The nearest pages:" : ""}`
      : results.length ? `${count}; the arrow keys move through them.`
      : "Your search did not match any page. Is a word misspelled?";
  };

  // Arrow keys: from the field to the results and back.
  document.addEventListener("keydown", event => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move || !event.target.closest("#pst-search-dialog, #search-results, input[name=q]")) return;
    const links = [...document.querySelectorAll("#search-results .search a")];
    if (!links.length) return;
    event.preventDefault();
    const at = links.indexOf(document.activeElement) + move;
    if (at < 0) (document.querySelector("#pst-search-dialog[open] input[name=q]") || document.querySelector(".bd-content input[name=q]"))?.focus();
    else links[Math.min(at, links.length - 1)].focus();
  });
})();
