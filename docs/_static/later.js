// The search is loaded when somebody looks for something: with its index it weighs as much as a page.
(function () {
  "use strict";
  const FILES = [
    "_static/searchtools.js", "_static/language_data.js", "_static/minisearch/index.js", "_static/search.js", "searchindex.js",
  ];
  const root = document.documentElement.dataset.content_root;
  const fields = () => document.querySelectorAll("input[name=q]");
  const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  let loading, wanted;

  const script = file => new Promise((done, failed) => {
    const element = document.createElement("script");
    element.async = false; // one after the other
    element.onload = done;
    element.onerror = failed;
    element.src = `${root}${file}`;
    document.body.append(element);
  });
  const load = () => {
    if (loading) return loading;
    // searchtools.js sets fields to the question in the address: null here, while somebody types.
    const set = function (text) { if (text !== null) value.set.call(this, text); };
    for (const field of fields()) Object.defineProperty(field, "value", { ...value, set });
    loading = Promise.all(FILES.map(script)).then(() => { for (const field of fields()) delete field.value; });
    return loading;
  };

  // The theme calls this while somebody types. searchtools.js has a constant of the same name, which
  // hides this one as soon as it is there.
  window.Search = {
    performSearch(query) {
      wanted = query;
      load().then(() => { if (query === wanted) Search.performSearch(query); });
    },
  };
  document.addEventListener("focusin", event => { if (event.target.matches("input[name=q]")) load(); });
})();
