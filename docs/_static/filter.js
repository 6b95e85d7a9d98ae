// A long table has a field that hides the rows without the words in it.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.filtered")) {
    const bar = document.createElement("p"), field = document.createElement("input"), count = document.createElement("output");
    Object.assign(field, { type: "search", placeholder: "Filter rows", ariaLabel: "Filter the rows of the table" });
    bar.className = "table-filter";
    bar.append(field, " ", count);
    (table.closest(".pst-scrollable-table-container") ?? table).before(bar);
    const rows = [...table.tBodies[0].rows];
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
      count.textContent = words.length ? `${rows.filter(row => !row.hidden).length} of ${rows.length} rows` : "";
    });
  }
});
