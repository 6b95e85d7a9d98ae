// Names that the theme and sphinx-gallery leave out or get wrong for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  // On a narrow screen the side bar has the links of the header, without the menu in which some stand.
  const place = document.querySelector("#pst-primary-sidebar .sidebar-header-items__center");
  const links = document.querySelectorAll(".bd-header .navbar-header-items__center nav a");
  if (place && links.length) {
    const list = document.createElement("ul"), nav = document.createElement("nav");
    list.className = "bd-navbar-elements navbar-nav";
    for (const link of links) {
      const item = document.createElement("li"), copy = link.cloneNode(true);
      item.className = `nav-item ${link.closest("li").matches(".current") ? "current active" : ""}`;
      copy.classList.remove("dropdown-item");
      item.append(copy);
      list.append(item);
    }
    nav.setAttribute("aria-label", "Pages of the site");
    nav.append(list);
    place.append(nav);
  }
  // A toggle in the side bar has only an icon: name it after the page that it unfolds.
  for (const toggle of document.querySelectorAll("details > summary:has(.toctree-toggle)")) {
    const link = toggle.closest("li").querySelector("a");
    toggle.setAttribute("aria-label", `Pages under ${link.textContent.trim()}`);
  }
  // The search button shows "Search Ctrl+K" and is called "Search"; on a phone it shows an icon alone.
  for (const button of document.querySelectorAll(".search-button-field[aria-label]")) {
    button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " "));
  }
  // Entries of the bibliography are not list items, so that their container is no list.
  for (const list of document.querySelectorAll(".citation-list[role=list]")) {
    list.removeAttribute("role");
  }
  // Long names may break behind an underscore.
  const named = ".bd-article :is(h1, h2, h3), .bd-article dt.sig, .bd-article summary, .bd-sidebar-primary a, .bd-sidebar-secondary a";
  for (const place of document.querySelectorAll(named)) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) if (/_./.test(walker.currentNode.data)) texts.push(walker.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(?<=_)(?=[^_])/).flatMap(part => [part, document.createElement("wbr")]);
      text.replaceWith(...parts.slice(0, -1));
    }
  }
  // Each exercise has a link to its address, as headings have.
  for (const item of document.querySelectorAll("#exercises > ol > li")) {
    const id = item.id || item.querySelector("[id]")?.id, link = document.createElement("a");
    if (!id) continue;
    Object.assign(link, { className: "headerlink", href: `#${id}`, title: "Link to this exercise", textContent: "#" });
    item.querySelector("p").append(link);
  }
  // A check mark says what it leads to.
  document.querySelectorAll("a.checked").forEach((mark, k) =>
    mark.setAttribute("aria-label", `Checked: to the test of equation ${k + 1} of this page`));
  // A formula that is a little too wide for its column gets a smaller type; on a phone it scrolls.
  const fit = () => {
    for (const formula of document.querySelectorAll("mjx-container[display=true]")) {
      // MathJax matches the x-height of the text by a size of its own: keep it.
      formula.style.fontSize = formula.dataset.size ??= formula.style.fontSize;
      const share = formula.clientWidth / formula.scrollWidth;
      if (share < 1 && formula.clientWidth > 500)
        formula.style.fontSize = `${Math.max(0.65, 0.99 * share) * parseFloat(getComputedStyle(formula).fontSize)}px`;
      // A formula that scrolls is reached by Tab and moved by arrow keys; the others are no stops.
      formula.tabIndex = formula.scrollWidth > formula.clientWidth + 1 ? 0 : -1;
    }
  };
  window.MathJax?.startup?.promise?.then(fit);
  window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(fit));
  window.addEventListener("resize", fit);
  document.addEventListener("toggle", fit, true);  // a folded formula has no width
  // A figure that is wider than the screen says that it scrolls.
  const mark = () => document.querySelectorAll(".figure-box").forEach(box =>
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 4));
  mark();
  window.addEventListener("load", mark);
  window.addEventListener("resize", mark);
  // An address of a function opens the folded part that it stands in.
  const unfold = () => {
    let id;
    try {
      id = decodeURIComponent(location.hash.slice(1));
    } catch (error) {  // a fragment such as "#%" encodes nothing
      return;
    }
    const target = document.getElementById(id);
    const folded = target?.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      target.scrollIntoView();
    }
  };
  unfold();
  window.addEventListener("hashchange", unfold);
});
