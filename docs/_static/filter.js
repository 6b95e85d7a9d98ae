// A field above a long table that leaves the rows with all of the words. The tables of a sheet have one
// field for all, which knows the names of maps in other libraries, too.
document.addEventListener("DOMContentLoaded", () => {
  const box = table => table.closest(".pst-scrollable-table-container") ?? table;

  // Names in other libraries stand in the file of the search, by the address of a page.
  let loading;
  const names = () => loading ||= new Promise(done => {
    const script = document.createElement("script");
    script.src = `${document.documentElement.dataset.content_root}_static/excerpts.js`;
    script.onload = script.onerror = () => done(window.dlrefExcerpts?.aliases ?? {});
    document.body.append(script);
  });
  const bare = word => word.replace(/^([a-z_]\w*\.)+/, "");  // without torch.nn. before it
  const page = row => {
    const address = row.querySelector("a.internal")?.href.split(/[?#]/)[0] ?? "";
    return address.slice(address.indexOf("reference/")).replace(/\.html$/, "");
  };

  function filtered(tables, place, label, aliases) {
    const bar = document.createElement("p"), field = document.createElement("input"), count = document.createElement("output");
    Object.assign(field, { type: "search", placeholder: label, ariaLabel: label });
    bar.className = "table-filter";
    bar.append(field, " ", count);
    place.append(bar);
    const rows = tables.flatMap(table => [...table.tBodies[0].rows]);
    let known = {};
    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).map(bare).filter(Boolean);
      for (const row of rows) {
        const text = [row.textContent, ...(known[page(row)] ?? [])].join(" ").toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
      const left = rows.filter(row => !row.hidden).length;
      count.textContent = words.length ? `${left} of ${rows.length} rows` : "";
      if (tables.length > 1)
        for (const table of tables) table.closest("section").hidden = [...table.tBodies[0].rows].every(row => row.hidden);
    };
    field.addEventListener("input", show);
    if (aliases) field.addEventListener("focus", () => names().then(found => { known = found; show(); }), { once: true });
  }

  const all = [...document.querySelectorAll("table.filtered")], sheet = all.filter(table => table.matches(".sheet"));
  for (const table of all) {
    if (sheet.includes(table)) continue;
    const place = document.createElement("div");
    box(table).before(place);
    filtered([table], place, "Filter the rows of the table", false);
  }
  if (sheet.length) filtered(sheet, document.querySelector(".sheet-filter"), "Filter topics by name", true);
});
