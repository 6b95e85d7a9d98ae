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
  ];
  const stemmer = new Stemmer();
  const stem = word => stemmer.stemWord(word.toLowerCase());
  const indexed = word => stopwords.has(word.toLowerCase()) ? null : stem(word);
  const synonyms = new Map();
  for (const words of SYNONYMS.map(group => group.map(stem)))
    for (const word of words) synonyms.set(word, words.filter(other => other !== word));
  const tokenize = text => text.split(/[^\p{L}\p{N}]+/u).filter(word => word);

  // One record a page, gathered from what Sphinx keeps by words, headings and names.
  function records({ docnames, titles, alltitles, indexentries, terms, objects }) {
    const pages = docnames.map((doc, id) => (
      { id, doc, title: titles[id], headings: [], aliases: [], names: [], text: [] }));
    const list = found => Array.isArray(found) ? found : [found];
    for (const [heading, places] of Object.entries(alltitles))
      for (const [page] of places) if (heading !== titles[page]) pages[page].headings.push(heading);
    for (const [entry, places] of Object.entries(indexentries))
      if (!entry.includes(" (")) for (const [page] of places) pages[page].aliases.push(entry);
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
  function index() {
    if (mini) return mini;
    mini = new MiniSearch({ fields: Object.keys(FIELDS), storeFields: ["doc"], tokenize, processTerm: indexed });
    mini.addAll(records(Search._index));
    return mini;
  }
  const worth = doc => doc.startsWith("reference/") ? 1 : doc.startsWith("gallery/") ? 0.5 : doc === "changelog" ? 0.2 : 0.7;

  function rank(query) {
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
      fuzzy: term => term.length > 5 ? 0.2 : false,
      bm25: { k: 1.2, b: 0.3, d: 0.5 }, // many aliases are no reason to rank lower
      weights: { prefix: 0.3, fuzzy: 0.1 },
    });
    const { docnames, titles, filenames } = Search._index;
    // A page with more of the words comes before one with a word more often.
    const share = page => page.score * page.queryTerms.filter(term => own.has(term)).length;
    const pages = found.sort((a, b) => share(b) - share(a))
      .map(({ id, score }) => [docnames[id], titles[id], "", null, score, filenames[id], "text"]);
    const name = query.trim().toLowerCase();
    const exact = Search.performObjectSearch(name, new Set([name]))
      .filter(([, full]) => full.toLowerCase().split(".").includes(name) || full.toLowerCase() === name);
    return [...exact, ...pages];
  }
  Search._performSearch = query => {
    document.getElementById("search-progress")?.replaceChildren();
    return rank(query).slice(0, 40).reverse(); // Sphinx shows the last one first
  };
})();
