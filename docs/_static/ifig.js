// Interactive figures: controls look up curves that the library computed. No dependencies.
(function () {
  "use strict";
  const W = 360, T = 10;
  const NS = "http://www.w3.org/2000/svg";
  const SVG = new Set(["svg", "g", "path", "line", "rect", "text", "title", "circle"]);
  function el(tag, attributes, parent, text) {
    const e = SVG.has(tag) ? document.createElementNS(NS, tag) : document.createElement(tag);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  }
  function show(v) {
    if (v === null) return "nothing";
    const a = Math.abs(v);
    return a !== 0 && (a < 1e-3 || a >= 1e5) ? v.toExponential(2) : String(+v.toPrecision(4));
  }
  function power(k) {
    return "10" + String(k).replace(/./g, d => d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  }
  function ticks(lo, hi, log) {
    const out = [];
    if (log) {
      const a = Math.ceil(Math.log10(lo) - 1e-9), b = Math.floor(Math.log10(hi) + 1e-9);
      const step = Math.max(1, Math.ceil((b - a) / 6));
      for (let k = Math.ceil(a / step) * step; k <= b; k += step) out.push([10 ** k, power(k)]);
      return out;
    }
    const raw = (hi - lo) / 5, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find(m => m * unit >= raw * (1 - 1e-9)) * unit;
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++) {
      const v = +(k * step).toPrecision(6);
      out.push([v, String(v).replace("-", "−")]);
    }
    return out;
  }
  function panel(spec, parent) {
    const box = el("div", { class: "ifig-panel" }, parent);
    el("p", { class: "ifig-title" }, box, spec.title);
    const map = spec.y !== null, log = spec.log && !map, xs = spec.x, f = log ? Math.log10 : v => v;
    // A map has room for words below and on the left, and for a color bar on the right.
    const longest = spec.labels ? Math.max(...spec.labels.rows.flat().map(word => word.length)) : 0;
    const turned = longest > 2, L = longest ? 32 + 6.5 * longest : 58, R = map ? 62 : 12;
    const B = turned ? 40 + 5.6 * longest : 44, H = map ? 310 + B - 44 : 260;
    const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" }, box);
    const pad = map || spec.points ? 0.5 : 0, x0 = xs[0] - pad, x1 = xs.at(-1) + pad, middle = (T + H - B) / 2;
    const px = v => L + (W - L - R) * (v - x0) / (x1 - x0);
    let lo, hi, py;
    const marks = el("g", { "aria-hidden": "true" }, svg);
    const drawn = spec.names.map((_, k) => el("g", { class: `ifig-curve ifig-curve-${k}` }, svg));
    if (spec.names.length > 1) {
      const legend = el("p", { class: "ifig-legend", "aria-hidden": "true" }, box);
      spec.names.forEach((name, k) => el("span", { class: `ifig-key ifig-curve-${k}` }, legend, name));
    }
    const said = el("p", { class: "ifig-said" }, box);
    function frame(low, high) {
      if (low === lo && high === hi) return;
      [lo, hi] = [low, high];
      py = v => H - B - (H - T - B) * (f(v) - f(lo)) / (f(hi) - f(lo));
      marks.replaceChildren();
      axes();
    }
    function axes() {
      for (const [v, text] of ticks(lo, hi, log)) {
        el("line", { x1: L, x2: W - R, y1: py(v), y2: py(v), class: "ifig-grid" }, marks);
        el("text", { x: L - 6, y: py(v) + 4, "text-anchor": "end" }, marks, text);
      }
      for (const [v, text] of ticks(xs[0], xs.at(-1), false)) {
        el("line", { x1: px(v), x2: px(v), y1: T, y2: H - B, class: "ifig-grid" }, marks);
        el("text", { x: px(v), y: H - B + 17, "text-anchor": "middle" }, marks, text);
      }
      el("text", { x: (L + W - R) / 2, y: H - 7, "text-anchor": "middle" }, marks, spec.xlabel);
      el("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, marks, spec.ylabel);
    }
    // A map: row 0 on top, a cell for each element, words or numbers on the axes, a color bar.
    function chart(words) {
      const rows = spec.y, h = (H - T - B) / rows.length, at = i => T + (i + 0.5) * h, right = W - R;
      const every = words ? 1 : Math.ceil(rows.length / 8), size = Math.min(13, Math.max(9.7, h));
      marks.replaceChildren();
      rows.forEach((v, i) => {
        if (i % every || (words && i >= words.length)) return;
        const text = words ? words[i] : show(v), x = px(xs[i]);
        el("text", { x: L - 5, y: at(i) + size / 3, "text-anchor": "end", style: `font-size:${size}px` }, marks, text);
        el("text", words && turned
          ? { x: x + 3, y: H - B + 8, "text-anchor": "end", style: `font-size:${size}px`, transform: `rotate(-60 ${x + 3} ${H - B + 8})` }
          : { x, y: H - B + 15, "text-anchor": "middle", style: `font-size:${size}px` }, marks, text);
      });
      el("text", { x: (L + right) / 2, y: H - 7, "text-anchor": "middle" }, marks, spec.xlabel);
      el("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, marks, spec.ylabel);
      el("rect", { x: L, y: T, width: right - L, height: H - T - B, class: "ifig-frame" }, marks);
      const [a, b] = spec.ylim, steps = 24, bar = el("g", { class: "ifig-bar ifig-curve ifig-curve-0" }, marks);
      for (let k = 0; k < steps; k++)
        el("rect", { x: right + 10, y: H - B - (k + 1) * (H - T - B) / steps, width: 10, height: (H - T - B) / steps + .3, "fill-opacity": (k + .5) / steps }, bar);
      for (const [v, text] of ticks(a, b, false))
        el("text", { x: right + 24, y: H - B - (H - T - B) * (v - a) / (b - a) + 4 }, marks, text);
    }
    function line(g, y) {
      let d = "", pen = "M";
      y.forEach((v, i) => {
        if (v === null || (log && v <= 0)) { pen = "M"; return; }
        const [a, b] = [px(xs[i]).toFixed(1), py(v).toFixed(1)];
        d += `${pen}${a} ${b}`;
        pen = "L";
        if (spec.points) el("circle", { cx: a, cy: b, r: 3 }, g);
      });
      el("path", { d }, g);
    }
    function heat(g, z, words) {
      const n = xs.length, w = (W - L - R) / n, h = (H - T - B) / spec.y.length, [a, b] = spec.ylim;
      const name = (i, k) => words ? words[k] : show(i);
      z.forEach((v, i) => {
        if (v === null) return;
        const row = Math.floor(i / n), column = i % n;
        const cell = el("rect", {
          x: L + column * w, y: T + row * h, width: w + .3, height: h + .3,
          "fill-opacity": Math.min(1, Math.max(0, (v - a) / (b - a))),
        }, g);
        el("title", {}, cell, `${name(spec.y[row], row)} → ${name(xs[column], column)}: ${show(v)}`);
      });
    }
    function range(curves) {
      const all = curves.flat().filter(v => v !== null && (!log || v > 0)).concat(spec.ylim);
      const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
      return log ? [10 ** Math.floor(Math.log10(low) + 1e-9), 10 ** Math.ceil(Math.log10(high) - 1e-9)] : [low, high];
    }
    return (curves, labels) => {
      if (map) chart(labels);
      else frame(...range(curves));
      const words = curves.map((y, k) => {
        drawn[k].replaceChildren();
        (map ? heat : line)(drawn[k], y, labels);
        const at = y.map((v, i) => [v, xs[i]]).filter(([v]) => v !== null);
        if (map || !at.length) return spec.names[k];
        return `${spec.names[k]} ${[at[0], at.at(-1)].map(([v, x]) => `${show(v)} at ${show(x)}`).join(", ")}`;
      }).join("; ");
      svg.setAttribute("aria-label", `${spec.title}. ${words}`);
      said.textContent = words;
    };
  }
  function mount(fig) {
    const spec = JSON.parse(fig.querySelector("script").textContent), state = {}, inputs = {};
    const bar = el("div", { class: "ifig-controls" }, fig), panels = el("div", { class: "ifig-panels" }, fig);
    const draw = spec.panels.map(p => panel(p, panels));
    const control = name => spec.controls.find(c => c.name === name);
    function look(table, n) {
      let i = 0;
      for (const name of table.needs) i = i * control(name).values.length + state[name];
      return table.index.slice(i * n, (i + 1) * n).map(row => table.rows[row]);
    }
    function update() {
      spec.panels.forEach((p, k) => {
        const [first, ...factors] = p.tables.map(t => look(t, p.names.length));
        const last = p.until ? control(p.until).values[state[p.until]] : Infinity;
        draw[k](first.map((row, c) => row.map((v, i) => v === null || p.x[i % p.x.length] > last ? null
          : factors.reduce((product, factor) => product * factor[c][i], v))), p.labels && p.labels.rows[state[p.labels.needs]]);
      });
      for (const c of spec.controls.filter(c => c.when)) // what this choice does not use is gray
        inputs[c.name].disabled = !c.when.values.includes(control(c.when.name).values[state[c.when.name]]);
    }
    for (const c of spec.controls) {
      const label = el("label", {}, bar), select = c.kind === "select";
      el("span", {}, label, c.label);
      const out = select ? null : el("span", { "aria-hidden": "true" }, label); // an output would take the label
      const input = select
        ? el("select", { name: c.name, class: "form-select" }, label)
        : el("input", { name: c.name, type: "range", min: 0, max: c.values.length - 1, step: 1 }, label);
      if (select) c.values.forEach((v, i) => el("option", { value: i }, input, v));
      inputs[c.name] = input;
      const read = () => {
        state[c.name] = +input.value;
        const text = String(c.values[+input.value]);
        if (out) { out.textContent = text; input.setAttribute("aria-valuetext", text); }
      };
      input.value = c.start;
      read();
      input.addEventListener("input", () => { read(); update(); });
    }
    update();
    fig.dataset.ready = "true";
    let before = fig.closest(".output_subarea") || fig; // the picture for those without scripts
    while ((before = before.previousElementSibling) && before.matches("img, div:has(> img)")) before.hidden = true;
  }
  const start = () => document.querySelectorAll("figure.ifig:not([data-ready])").forEach(mount);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
