// Figures to try: a classifier of three classes, rotary positions as dials, and attention.
// The formulas are those of the pages; tests/site/test_tryit.py compares the numbers with dlref's.
(function () {
  "use strict";

  // What both have in common

  function make(tag, options, ...children) {
    const svg = ["svg", "circle", "line", "text", "rect"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(options || {}))
      if (name === "text") made.textContent = value; else made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  function control(parent, title, input) {
    parent.append(make("label", {}, make("span", { text: title }), input));
    return input;
  }
  const range = (parent, title, value, min, max, step = 1) => {
    const shown = make("output");
    const input = make("input", { type: "range", min, max, step, value });
    parent.append(make("label", {}, make("span", { text: title }), input, shown));
    const tell = () => { shown.textContent = input.value; };
    input.addEventListener("input", tell);
    tell();
    return input;
  };
  function select(parent, title, choices) {
    return control(parent, title, make("select", {}, ...choices.map(c => make("option", { text: c }))));
  }
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

  // Softmax and cross-entropy

  // Three scores with sliders, a right class; bars for the probabilities, and the gradient on their right.
  function classifier(box) {
    const bar = make("div", { class: "tryit-bar" }), said = make("p", { role: "status" });
    const z = ["cat", "dog", "owl"].map((name, i) => range(bar, `score of ${name}`, [1, 0, -1][i], -4, 4, 0.5));
    const truth = select(bar, "the picture shows a", ["cat", "dog", "owl"]);
    const drawing = make("svg", { viewBox: "0 0 340 136", role: "img" });
    const update = () => {
      const scores = z.map(input => +input.value), top = Math.max(...scores);
      const e = scores.map(x => Math.exp(x - top)), sum = e.reduce((a, b) => a + b, 0), p = e.map(x => x / sum);
      const y = ["cat", "dog", "owl"].map(name => +(name === truth.value)), grad = p.map((x, i) => x - y[i]);
      const loss = -Math.log(p[y.indexOf(1)]);
      drawing.replaceChildren(
        make("text", { x: 34, y: 13, text: "probability" }), make("text", { x: 338, y: 13, "text-anchor": "end", text: "gradient" }));
      ["cat", "dog", "owl"].forEach((name, i) => {
        const row = 24 + 38 * i, end = 256 + 34 * grad[i];
        drawing.append(
          make("text", { x: 0, y: row + 18, text: name }),
          make("rect", { x: 34, y: row, width: 140, height: 26, class: "play-room" }),
          make("rect", { x: 34, y: row, width: 140 * p[i], height: 26, class: "play-bar" }),
          make("text", { x: 178, y: row + 18, class: "play-number", text: p[i].toFixed(3), "data-probability": p[i] }),
          make("line", { x1: 256, x2: end, y1: row + 13, y2: row + 13, class: grad[i] > 0 ? "play-up" : "play-down" }),
          make("line", { x1: 256, x2: 256, y1: row, y2: row + 26, class: "play-axis" }),
          make("text", { x: 338, y: row + 18, "text-anchor": "end", class: "play-number", text: grad[i].toFixed(3).replace("-", "−"), "data-gradient": grad[i] }));
      });
      drawing.setAttribute("aria-label", `Probabilities ${p.map(x => x.toFixed(3)).join(", ")}; gradients ${grad.map(x => x.toFixed(3)).join(", ")}`);
      said.replaceChildren("Loss ", make("strong", { text: loss.toFixed(3), "data-loss": loss }),
        ". The gradient of a score is its probability minus the truth, which is 1 for the right class; a step of descent goes the other way.");
    };
    box.replaceChildren(bar, drawing, said);
    bar.addEventListener("input", update);
    update();
  }

  // Rotary positions

  const Q = [1, 0.5, -0.5, 1, 0.8, -0.2, 0.3, 0.6];
  const K = [0.6, -0.4, 1, 0.5, 0.2, 0.9, -0.7, 0.4];
  const PAIRINGS = ["interleaved", "half-split"];
  const pairOf = (i, pairing) => pairing === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + 4];

  function rotated(x, position, base, pairing) {
    const y = x.slice();
    for (let i = 0; i < 4; i++) {
      const angle = position * base ** (-2 * i / 8), [a, b] = pairOf(i, pairing);
      y[a] = x[a] * Math.cos(angle) - x[b] * Math.sin(angle);
      y[b] = x[a] * Math.sin(angle) + x[b] * Math.cos(angle);
    }
    return y;
  }

  // Drag the tip of an arrow: the angle that the pointer goes through, divided by the radians per
  // token, is added to the position.
  function dragged(face, tip, input, theta) {
    let angle, position;
    const angleAt = event => {
      const { left, top, width, height } = face.getBoundingClientRect();
      return Math.atan2(top + height / 2 - event.clientY, event.clientX - left - width / 2);
    };
    tip.addEventListener("pointerdown", event => {
      event.preventDefault();
      tip.setPointerCapture(event.pointerId);
      [angle, position] = [angleAt(event), +input.value];
    });
    tip.addEventListener("touchstart", event => event.preventDefault(), { passive: false }); // no scrolling
    tip.addEventListener("pointermove", event => {
      if (!tip.hasPointerCapture(event.pointerId)) return;
      const next = angleAt(event), step = Math.atan2(Math.sin(next - angle), Math.cos(next - angle));
      position = Math.min(Math.max(position + step / theta(), +input.min), +input.max);
      angle = next;
      input.value = Math.round(position);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }

  function dials(box) {
    const bar = make("div", { class: "tryit-bar" }), faces = make("div", { class: "dial-faces" });
    const said = make("p", { role: "status" });
    const m = range(bar, "query position m", 3, 0, 50), n = range(bar, "key position n", 5, 0, 50);
    const base = select(bar, "base", ["100", "10000"]);
    const ofQ = select(bar, "pairing of the query", PAIRINGS), ofK = select(bar, "pairing of the key", PAIRINGS);
    const arrows = [0, 1, 2, 3].map(i => {
      const q = make("line", { class: "dial-q", x1: 0, y1: 0 }), k = make("line", { class: "dial-k", x1: 0, y1: 0 });
      const tips = [m, n].map(() => make("circle", { class: "dial-tip", r: 0.22 }));
      const face = make("svg", { viewBox: "-1.5 -1.5 3 3", role: "img" }, make("circle", { r: 1.4 }), q, k, ...tips);
      const title = make("figcaption");
      faces.append(make("figure", {}, face, title));
      [m, n].forEach((input, j) => dragged(face, tips[j], input, () => (+base.value) ** (-2 * i / 8)));
      return { q, k, tips, face, title };
    });
    const point = (line, tip, x, y) => {
      line.setAttribute("x2", x); line.setAttribute("y2", -y);
      tip.setAttribute("cx", x); tip.setAttribute("cy", -y);
    };
    const score = (add, of) => dot(
      rotated(Q, of.m + add, of.base, of.q), rotated(K, of.n + add, of.base, of.k));
    const update = () => {
      const of = { m: +m.value, n: +n.value, base: +base.value, q: ofQ.value, k: ofK.value };
      const q = rotated(Q, of.m, of.base, of.q), k = rotated(K, of.n, of.base, of.k);
      arrows.forEach(({ q: lineQ, k: lineK, tips, face, title }, i) => {
        const [a, b] = pairOf(i, of.q), [c, d] = pairOf(i, of.k), theta = of.base ** (-2 * i / 8);
        point(lineQ, tips[0], q[a], q[b]);
        point(lineK, tips[1], k[c], k[d]);
        title.textContent = `pair ${i}: ${theta.toPrecision(2)} rad per token`;
        face.setAttribute("aria-label", `Pair ${i}: query (${q[a].toFixed(2)}, ${q[b].toFixed(2)}), key (${k[c].toFixed(2)}, ${k[d].toFixed(2)})`);
      });
      const now = score(0, of), later = score(10, of), same = Math.abs(now - later) < 1e-9;
      said.replaceChildren(
        `n - m = ${of.n - of.m}. Score `, make("strong", { text: now.toFixed(3), "data-score": now }),
        "; ten tokens later, with the same distance: ", make("strong", { text: later.toFixed(3), "data-later": later }),
        same ? ". Equal: only the distance counts." : ". Different: the pairings do not match.");
    };
    box.replaceChildren(bar, faces, make("p", { class: "dial-key" },
      make("span", { class: "dial-q", text: "query" }), " ", make("span", { class: "dial-k", text: "key" })), said);
    bar.addEventListener("input", update);
    update();
  }

  // Attention

  const MASKS = ["none", "causal", "hide the first key", "hide all keys of the first query"];

  // Four numbers from -1 to 1 for a word: a sum over its letters, with another seed for each.
  function vector(word, seed) {
    return [0, 1, 2, 3].map(c => {
      let hash = 17 * seed + 7 * c + 1;
      for (const letter of word.toLowerCase()) hash = (hash * 31 + letter.codePointAt(0)) % 1009;
      return hash / 504 - 1;
    });
  }

  // Query i stands at position i + cached; a window of w shows the w last keys; a sink is a score without a value.
  function attend(scores, values, { mask, cached, scale, slope, window, sink }) {
    return scores.map((row, i) => {
      const at = i + cached;
      const seen = row.map((_, j) => (mask !== "causal" || j <= at)
        && (!window || Math.abs(at - j) < window)
        && (mask !== "hide the first key" || j > 0)
        && (mask !== "hide all keys of the first query" || i > 0));
      const z = row.map((s, j) => seen[j] ? scale * s - slope * Math.abs(at - j) : -Infinity);
      const top = Math.max(...z, sink), e = z.map(x => x === -Infinity ? 0 : Math.exp(x - top));
      const rest = sink === -Infinity ? 0 : Math.exp(sink - top), sum = e.reduce((a, b) => a + b, rest);
      const weights = e.map(x => sum ? x / sum : 0);
      return { seen, z, weights, output: values[0].map((_, c) => dot(weights, values.map(v => v[c]))) };
    });
  }

  function table(caption, columns, rows, cell) {
    const head = make("tr", {}, make("td"), ...columns.map(c => make("th", { scope: "col", text: c })));
    const body = rows.map((name, i) => make("tr", {},
      make("th", { scope: "row", text: name }), ...columns.map((_, j) => cell(i, j))));
    return make("div", { class: "tryit-table", tabindex: 0, role: "group", "aria-label": caption },
      make("table", {}, make("caption", { text: caption }), make("thead", {}, head), make("tbody", {}, ...body)));
  }

  function workbench(box) {
    const bar = make("div", { class: "tryit-bar" }), place = make("div"), said = make("p", { role: "status" });
    const text = control(bar, "sentence (up to 8 words)", make("input", { type: "text", value: "the cat sat on the mat" }));
    const mask = select(bar, "mask", MASKS);
    const cached = range(bar, "tokens in the cache", 0, 0, 5), window = range(bar, "window (0: none)", 0, 0, 5);
    const scale = range(bar, "scale", 0.5, 0, 4, 0.25), slope = range(bar, "ALiBi slope", 0, 0, 2, 0.25);
    const sink = select(bar, "sink", ["none", "-2", "0", "2"]);
    let words, asking, scores, values, cells, chosen = 0;
    const settings = () => ({ mask: mask.value, cached: words.length - asking.length, scale: +scale.value,
      slope: +slope.value, window: +window.value, sink: sink.value === "none" ? -Infinity : +sink.value });
    // The softmax of the chosen row, written out.
    const spell = (rows, { sink }) => {
      const { seen, z, weights } = rows[chosen], terms = z.map((x, j) => seen[j] ? Math.exp(x) : 0);
      const rest = sink === -Infinity ? 0 : Math.exp(sink), sum = terms.reduce((a, b) => a + b, rest);
      const list = words.map((word, j) => seen[j] ? `${word}: e^${z[j].toFixed(2)} = ${terms[j].toFixed(3)}` : `${word}: masked`);
      cells.spelled.replaceChildren(
        make("strong", { text: `Row “${asking[chosen]}”. ` }), `${list.join("; ")}. `,
        rest ? `The sink adds e^${sink.toFixed(2)} = ${rest.toFixed(3)}. ` : "",
        `Sum ${sum.toFixed(3)}. `,
        sum ? `Each divided by the sum: ${weights.map(w => w.toFixed(3)).join(", ")}${rest ? `; ${(rest / sum).toFixed(3)} goes to the sink` : ""}.` : "Nothing to divide by.");
    };
    const update = () => {
      const now = settings(), rows = attend(scores, values, now);
      rows.forEach(({ seen, weights, output }, i) => {
        weights.forEach((w, j) => {
          const cell = cells.weights[i][j];
          cell.textContent = seen[j] ? w.toFixed(3) : "masked";
          cell.dataset.value = w;
          cell.style.setProperty("--heat", `${Math.round(100 * w)}%`);
          cell.closest("tr").classList.toggle("chosen", i === chosen);
        });
        output.forEach((x, c) => { cells.output[i][c].textContent = x.toFixed(3); cells.output[i][c].dataset.value = x; });
      });
      spell(rows, now);
      const none = rows.flatMap(({ seen }, i) => seen.some(Boolean) ? [] : [asking[i]]);
      said.textContent = none.length
        ? `The query "${none[0]}" sees no key. dlref gives it weights and an output of 0; the formula alone is 0/0, NaN in many libraries.`
        : now.sink === -Infinity ? "Each row of weights sums to 1." : "Each row of weights sums to less than 1: the sink has the rest.";
    };
    const start = () => {
      words = text.value.trim().split(/\s+/).filter(Boolean).slice(0, 8);
      if (!words.length) words = ["?"];
      asking = words.slice(Math.min(+cached.value, words.length - 1)); // the others are keys in the cache only
      chosen = Math.min(chosen, asking.length - 1);
      const [q, k] = [asking, words].map((list, of) => list.map(w => vector(w, of + 1)));
      values = words.map(w => vector(w, 3));
      scores = q.map(a => k.map(b => +dot(a, b).toFixed(2)));
      cells = { weights: asking.map(() => []), output: asking.map(() => []), spelled: make("p", { class: "tryit-row" }) };
      const entry = (i, j) => {
        const input = make("input", { type: "number", step: 0.5, value: scores[i][j], "aria-label": `score of query ${i + 1}, ${asking[i]}, and key ${j + 1}, ${words[j]}` });
        input.addEventListener("input", event => { event.stopPropagation(); scores[i][j] = +input.value || 0; update(); });
        return make("td", {}, input);
      };
      const shown = kind => (i, j) => (cells[kind][i][j] = make("td", { class: `tryit-${kind}` }));
      const plain = (caption, rows, list) => table(caption, ["1", "2", "3", "4"], list,
        (i, j) => make("td", { text: rows[i][j].toFixed(2), "data-part": caption[0], "data-value": rows[i][j] }));
      const parts = make("details", { class: "tryit-parts" }, make("summary", { text: "Q, K and V: four numbers for each word" }),
        plain("Q, queries", q, asking), plain("K, keys", k, words), plain("V, values", values, words));
      const row = make("select", {}, ...asking.map((word, i) => make("option", { value: i, text: `${i + words.length - asking.length}: ${word}` })));
      row.value = chosen;
      row.addEventListener("input", event => { event.stopPropagation(); chosen = +row.value; update(); });
      const legend = make("p", { class: "tryit-legend" }, "Weight: ", ...[0, 0.25, 0.5, 0.75, 1].map(w => {
        const key = make("span", { class: "tryit-key", text: w });
        key.style.setProperty("--heat", `${100 * w}%`);
        return key;
      }));
      place.replaceChildren(parts, make("div", { class: "tryit-pair" },
        table("Scores: query (row) times key (column)", words, asking, entry),
        table("Weights: softmax of scale × score − slope × distance", words, asking, shown("weights")),
        table("Output: mean of the values", ["1", "2", "3", "4"], asking, shown("output")),
        make("div", { class: "tryit-aside" }, legend, make("label", {}, make("span", { text: "Written out: the row of position " }), row), cells.spelled)));
      update();
    };
    for (const input of [text, cached]) input.addEventListener("input", event => { event.stopPropagation(); start(); });
    box.replaceChildren(bar, place, said);
    bar.addEventListener("input", update);
    start();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const [name, mount] of [["classifier-play", classifier], ["rope-dials", dials], ["attention-workbench", workbench]])
      for (const box of document.querySelectorAll(`.${name}`)) { mount(box); box.dataset.ready = "true"; }
  });
})();
