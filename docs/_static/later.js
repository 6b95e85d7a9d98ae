// The search is loaded when somebody looks for something: with its index it weighs as much as a page.
(function () {
  "use strict";
  const FILES = [
    "_static/searchtools.js", "_static/language_data.js", "_static/minisearch/index.js", "_static/search.js", "searchindex.js",
  ];
  const root = document.documentElement.dataset.content_root;
  let loading, typed = "", wanted;

  const load = () => loading ||= Promise.all(FILES.map(file => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.async = false; // one after the other
    script.onload = done;
    script.onerror = failed;
    script.src = `${root}${file}`;
    document.body.append(script);
  }))).then(() => { // the first of them empties the field
    for (const field of document.querySelectorAll("input[name=q]")) field.value ||= typed;
  });

  // The theme calls this while somebody types. searchtools.js has a constant of the same name, which
  // hides this one as soon as it is there.
  window.Search = {
    performSearch(query) {
      wanted = query;
      load().then(() => { if (query === wanted) Search.performSearch(query); });
    },
  };
  document.addEventListener("focusin", event => { if (event.target.matches("input[name=q]")) load(); });
  document.addEventListener("input", event => { if (event.target.matches("input[name=q]")) typed = event.target.value; });
})();
