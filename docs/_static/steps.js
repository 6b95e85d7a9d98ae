// Derivations with numbers, step by step: a computational graph with the current edge lit, the value of
// the step, why it is so, inputs that can be changed, and a guess before the answer. One engine draws
// all; a derivation is a list of inputs, nodes and steps. tests/site/test_steps.py compares every value
// with dlref's. Without scripts the page shows the same derivation as text.
(function () {
  "use strict";

  // Vectors and matrices, as nested lists

  const each = (f, ...xs) => Array.isArray(xs[0]) ? xs[0].map((_, i) => each(f, ...xs.map(x => Array.isArray(x) ? x[i] : x))) : f(...xs);
  const mul = (a, b) => Array.isArray(a) ? each((x, y) => x * y, a, b) : Array.isArray(b) ? mul(b, a) : a * b;
  const add = (a, b) => each((x, y) => x + y, a, b), sub = (a, b) => each((x, y) => x - y, a, b);
  const sum = xs => xs.reduce((a, b) => a + b, 0), mean = xs => sum(xs) / xs.length, dot = (a, b) => sum(mul(a, b));
  const T = A => A[0].map((_, j) => A.map(row => row[j]));
  const apply = (A, x) => A.map(row => dot(row, x)), matmul = (A, B) => A.map(row => apply(T(B), row));
  const outer = (a, b) => a.map(x => mul(b, x));
  const softmax = z => { const top = Math.max(...z), e = z.map(x => Math.exp(x - top)); return mul(e, 1 / sum(e)); };
  const sigmoid = x => 1 / (1 + Math.exp(-x)), slope = s => s * (1 - s);

  // The derivations. A step computes one value: [name, sources, formula, why, function of all values].
  // Names that end in ̄ are gradients: "x̄" is the derivative of the loss with respect to x.

  const BAR = "̄", g = name => name + BAR;
  const derivations = {
    "cross-entropy": {
      inputs: { x: [1, 2], W: [[0, 0], [0, 0], [0.6931, 0]], b: [0, 0, 0], y: [0, 0, 1] },
      nodes: { x: [0, 0], W: [0, 1], b: [0, 2], z: [1, 1], s: [2, 1], y: [2, 2], L: [3, 1] },
      steps: [
        ["z", "W x b", "z = W x + b", "Each score is a weighted sum of the inputs.", v => add(apply(v.W, v.x), v.b)],
        ["s", "z", "sᵢ = exp zᵢ / Σ exp zₖ", "Softmax turns scores into probabilities.", v => softmax(v.z)],
        ["L", "s y", "L = −Σ yᵢ log sᵢ", "Only the probability of the right class counts.", v => -sum(v.s.map((s, i) => v.y[i] ? v.y[i] * Math.log(s) : 0))],
        [g("s"), "L y", "s̄ᵢ = −yᵢ / sᵢ", "The derivative of a logarithm; other classes do not occur in the loss.", v => v.s.map((s, i) => v.y[i] ? -v.y[i] / s : 0)],
        [g("z"), "s", "z̄ⱼ = sⱼ (s̄ⱼ − Σ sᵢ s̄ᵢ) = sⱼ − yⱼ", "The Jacobian of softmax cancels the division: prediction minus truth.", v => { const d = dot(v.s, v[g("s")]); return v.s.map((s, j) => s * (v[g("s")][j] - d)); }],
        [g("b"), "z", "b̄ = z̄", "The bias is added, so its gradient is that of the sum.", v => v[g("z")].slice()],
        [g("W"), "z x", "W̄ = z̄ xᵀ", "Weight (i, j) multiplies input j on the way to score i: an outer product.", v => outer(v[g("z")], v.x)],
        [g("x"), "z W", "x̄ = Wᵀ z̄", "Each input feeds all scores, so its gradient is a sum over them.", v => apply(T(v.W), v[g("z")])],
      ],
    },
    "layer-norm": {
      inputs: { x: [1, 7, 7, 9], w: [1, 1, 1, 1], b: [0, 0, 0, 0], u: [1, 0, 0, 0] },
      nodes: { x: [0, 1], m: [1, 0], d: [2, 1], σ: [3, 0], n: [4, 1], w: [4, 2], b: [5, 2], y: [5, 1], u: [6, 1] },
      steps: [
        ["m", "x", "m = mean of x", "The mean of the features of this token.", v => mean(v.x)],
        ["d", "x m", "d = x − m", "Deviations from the mean add up to 0.", v => v.x.map(x => x - v.m)],
        ["σ", "d", "σ = √(mean of d²)", "The spread; eps is 0 here, to keep the numbers clean.", v => Math.sqrt(mean(mul(v.d, v.d)))],
        ["n", "d σ", "n = d / σ", "The normalized features, written x̂ elsewhere: mean 0, mean square 1.", v => mul(v.d, 1 / v.σ)],
        ["y", "n w b", "y = w n + b", "A learned scale and shift undo as much as the network likes.", v => add(mul(v.w, v.n), v.b)],
        [g("b"), "y", "b̄ = u", "The shift is added. In a batch the rows are summed.", v => v.u.slice()],
        [g("w"), "y n", "w̄ = u n", "Weight i multiplies feature i, so its gradient is upstream gradient times input.", v => mul(v.u, v.n)],
        [g("n"), "y w", "n̄ = w u", "The upstream gradient passes the scale.", v => mul(v.w, v.u)],
        [g("σ"), "n d", "σ̄ = −Σ n̄ n / σ", "All features are divided by σ, so its gradient is a sum over them.", v => -dot(v[g("n")], v.n) / v.σ],
        [g("d"), "n σ", "d̄ = (n̄ − n · mean of n̄ n) / σ", "Directly, and through σ, whose derivative is n divided by the number of features.", v => v[g("n")].map((x, i) => x / v.σ + v[g("σ")] * v.n[i] / v.n.length)],
        [g("m"), "d", "m̄ = −Σ d̄", "The mean is subtracted from every feature.", v => -sum(v[g("d")])],
        [g("x"), "d m", "x̄ = d̄ − mean of d̄", "Directly, and through the mean: the gradient adds up to 0, because a shift of x changes nothing.", v => v[g("d")].map(x => x + v[g("m")] / v.x.length)],
      ],
    },
    "mlp": {
      inputs: { x: [1, 2], W1: [[1, 0.5], [-1, 0.25], [0.5, 0.5]], b1: [0, 0, -1], W2: [[1, 2, -1]], b2: [0.5], t: [1] },
      nodes: { x: [0, 1], W1: [0, 0], b1: [0, 2], z: [1, 1], h: [2, 1], W2: [2, 0], b2: [2, 2], y: [3, 1], t: [3, 2], L: [4, 1] },
      steps: [
        ["z", "x W1 b1", "z = W1 x + b1", "The first layer: three weighted sums.", v => add(apply(v.W1, v.x), v.b1)],
        ["h", "z", "h = max(z, 0)", "ReLU keeps what is positive.", v => v.z.map(z => Math.max(z, 0))],
        ["y", "h W2 b2", "y = W2 h + b2", "The second layer: one output.", v => add(apply(v.W2, v.h), v.b2)],
        ["L", "y t", "L = (y − t)²", "The squared error of the output.", v => (v.y[0] - v.t[0]) ** 2],
        [g("y"), "L t", "ȳ = 2 (y − t)", "Twice the error; this is the error signal of the last layer.", v => [2 * (v.y[0] - v.t[0])]],
        [g("b2"), "y", "b2̄ = ȳ", "The bias is added.", v => v[g("y")].slice()],
        [g("W2"), "y h", "W2̄ = ȳ hᵀ", "A weight gets the error signal times its input: none where h is 0.", v => outer(v[g("y")], v.h)],
        [g("h"), "y W2", "h̄ = W2ᵀ ȳ", "Back through the weights, transposed.", v => apply(T(v.W2), v[g("y")])],
        [g("z"), "h", "z̄ = h̄ where z > 0, else 0", "The slope of ReLU is 1 or 0: an inactive unit passes nothing.", v => v[g("h")].map((x, i) => v.z[i] > 0 ? x : 0)],
        [g("b1"), "z", "b1̄ = z̄", "The same as in the second layer, one layer earlier.", v => v[g("z")].slice()],
        [g("W1"), "z x", "W1̄ = z̄ xᵀ", "Error signal times input, again.", v => outer(v[g("z")], v.x)],
        [g("x"), "z W1", "x̄ = W1ᵀ z̄", "What a layer below would get as its upstream gradient.", v => apply(T(v.W1), v[g("z")])],
      ],
    },
    "rnn": {
      inputs: { w: 0.5, x: [1, 0, 0, 0] },
      nodes: { w: [0, 2], x: [0, 0], h1: [1, 1], h2: [2, 1], h3: [3, 1], h4: [4, 1], L: [5, 1] },
      steps: [
        ["h1", "w x", "h1 = tanh(w · 0 + x1)", "The state starts at 0.", v => Math.tanh(v.x[0])],
        ...[2, 3, 4].map(t => [`h${t}`, `h${t - 1} w x`, `h${t} = tanh(w h${t - 1} + x${t})`, "The same weight again, with the state of the step before.", v => Math.tanh(v.w * v[`h${t - 1}`] + v.x[t - 1])]),
        ["L", "h4", "L = h4", "The loss is the last state, to keep the numbers clean.", v => v.h4],
        [g("h4"), "L", "h4̄ = 1", "The loss is h4 itself.", () => 1],
        ...[4, 3, 2, 1].flatMap(t => [
          [g(`z${t}`), t < 4 ? `h${t + 1}` : "L", `z${t}̄ = (1 − h${t}²) h${t}̄`, "The slope of tanh, from its value.", v => (1 - v[`h${t}`] ** 2) * v[g(`h${t}`)]],
          [`part ${t}`, `h${t} w`, `step ${t} adds z${t}̄ h${t - 1} to w̄`, t > 1 ? "The weight was used here with the state before; all uses are added up." : "The state before the first step is 0, so the weight had no effect here.", v => v[g(`z${t}`)] * (t > 1 ? v[`h${t - 1}`] : 0)],
          ...(t > 1 ? [[g(`h${t - 1}`), `h${t}`, `h${t - 1}̄ = w z${t}̄`, "One step back in time: times the weight.", v => v.w * v[g(`z${t}`)]]] : []),
        ]),
        [g("w"), "h1 h2 h3 h4", "w̄ = sum of the four parts", "Backpropagation through time: one weight, four uses, one sum.", v => sum([1, 2, 3, 4].map(t => v[`part ${t}`]))],
      ],
    },
    "lstm": {
      inputs: { x: 1, h: 0.5, c: 2, wx: [0.5, 1, 1, 0], wh: [0, 1, -1, 1], b: [0, 1, 0, 0], uh: 1, uc: 0 },
      nodes: { x: [0, 2], h: [0, 3], b: [0, 4], z: [1, 3], i: [2, 2], f: [2, 1], g: [2, 3], o: [2, 4], c: [0, 0], "c′": [4, 0], "h′": [5, 3], uc: [5, 0], uh: [6, 3] },
      steps: [
        ["z", "x h b", "z = wx x + wh h + b, in the order i, f, g, o", "Four weighted sums of input and state.", v => v.wx.map((w, k) => w * v.x + v.wh[k] * v.h + v.b[k])],
        ["i", "z", "i = σ(z of i)", "The input gate: how much of the candidate is written.", v => sigmoid(v.z[0])],
        ["f", "z", "f = σ(z of f)", "The forget gate: how much of the old cell stays.", v => sigmoid(v.z[1])],
        ["g", "z", "g = tanh(z of g)", "The candidate: what could be written.", v => Math.tanh(v.z[2])],
        ["o", "z", "o = σ(z of o)", "The output gate: how much of the cell is shown.", v => sigmoid(v.z[3])],
        ["c′", "c f i g", "c′ = f c + i g", "The cell is added to; this is why it remembers.", v => v.f * v.c + v.i * v.g],
        ["h′", "c′ o", "h′ = o tanh c′", "The state is a gated view of the cell.", v => v.o * Math.tanh(v["c′"])],
        [g("c′"), "h′ uc", "c′̄ = uc + uh o (1 − tanh² c′)", "The cell has two uses: the next step, and the state.", v => v.uc + v.uh * v.o * (1 - Math.tanh(v["c′"]) ** 2)],
        [g("c"), "c′ f", "c̄ = f c′̄", "Along the cell the gradient passes one factor, the gate, and no matrix.", v => v.f * v[g("c′")]],
        [g("f"), "c′ c", "f̄ = c c′̄", "The forget gate multiplies the old cell.", v => v.c * v[g("c′")]],
        [g("i"), "c′ g", "ī = g c′̄", "The input gate multiplies the candidate.", v => v.g * v[g("c′")]],
        [g("g"), "c′ i", "ḡ = i c′̄", "And the candidate is multiplied by the input gate.", v => v.i * v[g("c′")]],
        [g("o"), "h′ c′", "ō = uh tanh c′", "The output gate multiplies tanh of the cell.", v => v.uh * Math.tanh(v["c′"])],
        [g("z"), "i f g o", "z̄ = each gradient times its slope: s (1 − s), or 1 − g²", "A saturated gate has almost no slope, and passes almost nothing.", v => [v[g("i")] * slope(v.i), v[g("f")] * slope(v.f), v[g("g")] * (1 - v.g ** 2), v[g("o")] * slope(v.o)]],
        [g("b"), "z", "b̄ = z̄", "The biases are added.", v => v[g("z")].slice()],
        [g("h"), "z", "h̄ = Σ wh z̄", "The state fed all four sums.", v => dot(v.wh, v[g("z")])],
        [g("x"), "z", "x̄ = Σ wx z̄", "And so did the input.", v => dot(v.wx, v[g("z")])],
      ],
    },
    "attention": {
      inputs: { Q: [[1, 0], [0, 1]], K: [[1, 0], [1, 1]], V: [[1, 2], [3, 0]], U: [[1, 0], [0, 1]] },
      nodes: { Q: [0, 0], K: [0, 1], V: [0, 2], S: [1, 0.5], P: [2, 0.5], O: [3, 1], U: [4, 1] },
      steps: [
        ["S", "Q K", "S = Q Kᵀ / √2", "Every query is compared with every key; √2 because a head has two channels here.", v => mul(matmul(v.Q, T(v.K)), Math.SQRT1_2)],
        ["P", "S", "P = softmax of each row of S", "Each row of weights adds up to 1.", v => v.S.map(softmax)],
        ["O", "P V", "O = P V", "Each output is an average of the values.", v => matmul(v.P, v.V)],
        [g("V"), "O P", "V̄ = Pᵀ U", "A value gets from each query as much as it gave.", v => matmul(T(v.P), v.U)],
        [g("P"), "O V", "P̄ = U Vᵀ", "A weight matters as much as its value points along the upstream gradient.", v => matmul(v.U, T(v.V))],
        ["D", "O P", "D = for each row, Σ P P̄ (which is also u · o)", "The mean of the row of P̄ under the weights; flash attention takes it from the output.", v => v.P.map((p, i) => dot(p, v[g("P")][i]))],
        [g("S"), "P", "S̄ = P (P̄ − D)", "Softmax backward, row by row: each row adds up to 0.", v => v.P.map((row, i) => row.map((p, j) => p * (v[g("P")][i][j] - v.D[i])))],
        [g("Q"), "S K", "Q̄ = S̄ K / √2", "The product backward, with the scale.", v => mul(matmul(v[g("S")], v.K), Math.SQRT1_2)],
        [g("K"), "S Q", "K̄ = S̄ᵀ Q / √2", "The same for the keys, transposed.", v => mul(matmul(T(v[g("S")]), v.Q), Math.SQRT1_2)],
      ],
    },
  };
  window.dlrefDerivations = derivations; // for the tests

  // The engine

  const NS = "http://www.w3.org/2000/svg";
  function make(tag, attributes = {}, ...children) {
    const made = "svg g path rect text".split(" ").includes(tag) ? document.createElementNS(NS, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  const show = x => Math.abs(x) < 5e-5 ? "0" : String(+x.toFixed(4)).replace("-", "−");
  const numbers = value => [value].flat(2);
  // A number, a row of numbers, or rows.
  function shown(value) {
    if (!Array.isArray(value)) return make("span", {}, show(value));
    const rows = Array.isArray(value[0]) ? value : [value];
    return make("table", { class: "graph-value" }, make("tbody", {}, ...rows.map(row =>
      make("tr", {}, ...row.map(x => make("td", {}, show(x)))))));
  }
  const bare = name => name.replace(BAR, "");

  function graph(derivation) {
    const places = Object.values(derivation.nodes), X = 88, Y = 46;
    const columns = Math.max(...places.map(([x]) => x)), rows = Math.max(...places.map(([, y]) => y));
    const svg = make("svg", { viewBox: `0 0 ${X * columns + 64} ${Y * rows + 40}`, class: "graph-drawing", role: "img" });
    svg.style.minWidth = `${0.8 * (X * columns + 64)}px`;
    const at = name => { const [x, y] = derivation.nodes[name]; return [32 + X * x, 20 + Y * y]; };
    const edges = [], seen = new Set();
    for (const [name, from] of derivation.steps) for (const source of from.split(" ")) {
      if (name.includes(BAR) || !derivation.nodes[name] || !derivation.nodes[source] || seen.has(source + name)) continue;
      seen.add(source + name);
      const [a, b] = [at(source), at(name)];
      const line = make("path", { d: `M${a[0]} ${a[1]}L${b[0]} ${b[1]}`, class: "graph-edge" });
      svg.append(line);
      edges.push({ line, source, target: name });
    }
    for (const [from, to] of [["u", "y"], ["uc", "c′"], ["uh", "h′"], ["U", "O"]]) if (derivation.nodes[from] && derivation.nodes[to]) {
      const [a, b] = [at(from), at(to)], line = make("path", { d: `M${a[0]} ${a[1]}L${b[0]} ${b[1]}`, class: "graph-edge graph-upstream" });
      svg.append(line);
      edges.push({ line, source: to, target: from });
    }
    const boxes = {};
    for (const name of Object.keys(derivation.nodes)) {
      const [x, y] = at(name);
      boxes[name] = make("g", { class: "graph-node" },
        make("rect", { x: x - 22, y: y - 14, width: 44, height: 28, rx: 6 }), make("text", { x, y: y + 5, "text-anchor": "middle" }, name));
      svg.append(boxes[name]);
    }
    const light = (step, known) => {
      const [name, from] = step, sources = from.split(" "), backward = name.includes(BAR) || name === "D" || name.startsWith("part");
      const node = bare(name).replace(/^z(\d)$/, "h$1").replace(/^part.*/, "w").replace(/^D$/, "P");
      for (const { line, source, target } of edges) {
        const lit = backward ? source === node && sources.includes(target) || target === "u" && node === "n" && source === "y"
          : target === name && sources.includes(source);
        line.classList.toggle("lit", lit);
        line.classList.toggle("back", lit && backward);
      }
      for (const [id, box] of Object.entries(boxes)) {
        box.classList.toggle("current", id === node);
        box.classList.toggle("known", known.has(id));
      }
      const scroll = svg.parentElement, [x] = at(node);
      if (scroll) scroll.scrollLeft = x / (X * columns + 64) * scroll.scrollWidth - scroll.clientWidth / 2;
      svg.setAttribute("aria-label", `Graph of the computation. Now ${backward ? "backward to" : "forward to"} ${node}, from ${sources.join(", ")}.`);
    };
    light.svg = svg;
    return light;
  }

  function mount(box) {
    const derivation = derivations[[...box.classList].find(name => derivations[name])];
    const names = Object.keys(derivation.inputs), state = structuredClone(derivation.inputs), steps = derivation.steps;
    const values = () => {
      const v = structuredClone(state);
      for (const [name, , , , compute] of steps) v[name] = compute(v);
      return v;
    };
    let v = values(), at = 0;

    const inputs = make("details", { class: "graph-inputs" }, make("summary", {}, "Inputs: change a number"));
    for (const name of names) {
      const rows = Array.isArray(state[name]) ? Array.isArray(state[name][0]) ? state[name] : [state[name]] : [[state[name]]];
      const fields = rows.map((row, i) => make("tr", {}, ...row.map((x, j) => {
        const place = rows.length > 1 ? ` row ${i + 1} column ${j + 1}` : row.length > 1 ? ` ${j + 1}` : "";
        const field = make("input", { type: "number", step: "any", value: x, "aria-label": `${name}${place}` });
        field.addEventListener("input", () => {
          const number = field.value === "" || !Number.isFinite(+field.value) ? 0 : +field.value;
          if (!Array.isArray(state[name])) state[name] = number;
          else if (Array.isArray(state[name][0])) state[name][i][j] = number;
          else state[name][j] = number;
          v = values();
          go(at);
        });
        return make("td", {}, field);
      })));
      inputs.append(make("div", { class: "graph-input" }, make("span", {}, `${name} =`), make("table", {}, make("tbody", {}, ...fields))));
    }

    const draw = graph(derivation);
    const drawing = make("div", { class: "graph-scroll", tabindex: 0, role: "group", "aria-label": "Graph" });
    const bar = make("div", { class: "steps-bar" }), said = make("span", { role: "status" }), path = make("ol", { class: "steps-path" });
    const button = (parent, text, act) => {
      const made = make("button", { type: "button", class: "steps-chip" }, text);
      made.addEventListener("click", act);
      parent.append(made);
      return made;
    };
    const back = button(bar, "Back", () => go(at - 1)), next = button(bar, "Next", () => go(at + 1));
    bar.append(said);
    const first = make("input", { type: "checkbox" });
    bar.append(make("label", { class: "graph-first" }, first, " guess first"));
    first.addEventListener("change", () => go(at));
    const chips = steps.map(([name], k) => {
      const item = make("li");
      path.append(item);
      return button(item, name, () => go(k));
    });
    // All steps lie on top of each other, so that the height does not change from step to step.
    const cards = steps.map(([name, , formula, why]) => {
      const value = make("div", { class: "graph-result" });
      const guess = make("input", { type: "number", step: "any", "aria-label": `Your guess of the first number of ${name}` });
      const verdict = make("span", { role: "status" });
      const ask = make("div", { class: "graph-guess" }, "First number: ", guess, " ");
      const open = () => { card.classList.add("open"); };
      button(ask, "Check", () => {
        const truth = numbers(v[name])[0], right = Math.abs(+guess.value - truth) <= 0.01 * Math.max(1, Math.abs(truth));
        verdict.textContent = guess.value === "" ? "" : right ? " Right." : " Not quite.";
        if (right && guess.value !== "") open();
      });
      button(ask, "Show", open);
      ask.append(verdict);
      const card = make("div", { class: "step" }, make("p", { class: "graph-formula" }, formula), make("p", { class: "graph-why" }, why), ask, value);
      card.result = value;
      card.reset = () => { card.classList.remove("open"); verdict.textContent = ""; guess.value = ""; };
      return card;
    });
    const stack = make("div", { class: "graph-stack" }, ...cards);
    function go(to) {
      const moved = to !== at;
      at = Math.min(Math.max(to, 0), steps.length - 1);
      cards.forEach((card, k) => {
        const value = v[steps[k][0]];
        card.classList.toggle("shown", k === at);
        card.toggleAttribute("inert", k !== at);
        card.classList.toggle("asks", first.checked);
        if (moved || !first.checked) card.reset();
        card.result.replaceChildren(make("span", { class: "graph-name" }, `${steps[k][0]} = `), shown(value));
        card.result.dataset.value = JSON.stringify(value);
      });
      chips.forEach((chip, k) => {
        chip.classList.toggle("passed", k < at);
        if (k === at) chip.setAttribute("aria-current", "step"); else chip.removeAttribute("aria-current");
      });
      back.setAttribute("aria-disabled", at === 0);
      next.setAttribute("aria-disabled", at === steps.length - 1);
      said.textContent = `Step ${at + 1} of ${steps.length}`;
      draw(steps[at], new Set([...names, ...steps.slice(0, at + 1).map(([name]) => name)]));
    }
    for (const child of [...box.children]) child.hidden = true; // the derivation as text
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Step by step: arrow keys go back and on");
    box.addEventListener("keydown", event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move && event.target.closest(".steps-bar, .steps-path") && event.target.type !== "checkbox") { event.preventDefault(); go(at + move); }
    });
    box.prepend(path, bar, drawing, stack, inputs);
    drawing.append(draw.svg);
    go(0);
    box.dataset.ready = "true";
  }
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".graph-steps:not([data-ready])").forEach(mount));
})();
