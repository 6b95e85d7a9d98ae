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

  // The derivations. A step computes one value: its name, its sources, the formula, a wrong one that
  // somebody might take for it, why, and the function of all values. Names that end in ̄ are gradients:
  // "x̄" is the derivative of the loss with respect to x. `letters` maps a name to its letter on the page.

  const BAR = "̄", g = name => name + BAR, r = String.raw, pd = x => r`\pdv{L}{${x}}`;
  const derivations = {
    "cross-entropy": {
      letters: { s: "p" },
      inputs: { x: [1, 2], W: [[0, 0], [0, 0], [0.6931, 0]], b: [0, 0, 0], y: [0, 0, 1] },
      nodes: { x: [0, 0], W: [0, 1], b: [0, 2], z: [1, 1], s: [2, 1], y: [2, 2], L: [3, 1] },
      steps: [
        ["z", "W x b", r`\vec z = \mat W \vec x + \vec b`, r`\vec z = \mat W^\top \vec x + \vec b`, "Each score is a weighted sum of the inputs.", v => add(apply(v.W, v.x), v.b)],
        ["s", "z", r`p_i = e^{z_i} / \sum_k e^{z_k}`, r`p_i = z_i / \sum_k z_k`, "Softmax turns scores into probabilities.", v => softmax(v.z)],
        ["L", "s y", r`L = -\sum_i y_i \log p_i`, r`L = -\sum_i p_i \log y_i`, "Only the probability of the right class counts.", v => -sum(v.s.map((s, i) => v.y[i] ? v.y[i] * Math.log(s) : 0))],
        [g("s"), "L y", r`\pdv{L}{p_i} = -y_i / p_i`, r`\pdv{L}{p_i} = -y_i \log p_i`, "The derivative of a logarithm; other classes do not occur in the loss.", v => v.s.map((s, i) => v.y[i] ? -v.y[i] / s : 0)],
        [g("z"), "s", r`\pdv{L}{\vec z} = \vec p - \vec y`, r`\pdv{L}{\vec z} = \vec y - \vec p`, "The Jacobian of softmax cancels the division: prediction minus truth.", v => { const d = dot(v.s, v[g("s")]); return v.s.map((s, j) => s * (v[g("s")][j] - d)); }],
        [g("b"), "z", r`\pdv{L}{\vec b} = \pdv{L}{\vec z}`, r`\pdv{L}{\vec b} = \vec b \odot \pdv{L}{\vec z}`, "The bias is added, so it gets the gradient of the sum.", v => v[g("z")].slice()],
        [g("W"), "z x", r`\pdv{L}{\mat W} = \pdv{L}{\vec z}\, \vec x^\top`, r`\pdv{L}{\mat W} = \vec x\, \Bigl( \pdv{L}{\vec z} \Bigr)^{\!\top}`, "Weight (i, j) multiplies input j on the way to score i: an outer product.", v => outer(v[g("z")], v.x)],
        [g("x"), "z W", r`\pdv{L}{\vec x} = \mat W^\top \pdv{L}{\vec z}`, r`\pdv{L}{\vec x} = \mat W \pdv{L}{\vec z}`, "Each input feeds all scores, so its gradient is a sum over them.", v => apply(T(v.W), v[g("z")])],
      ],
    },
    "layer-norm": {
      letters: { m: "μ", "σ": "τ", n: "x̂" },
      inputs: { x: [1, 7, 7, 9], w: [1, 1, 1, 1], b: [0, 0, 0, 0], u: [1, 0, 0, 0] },
      nodes: { x: [0, 1], m: [1, 0], d: [2, 1], σ: [3, 0], n: [4, 1], w: [4, 2], b: [5, 2], y: [5, 1], u: [6, 1] },
      steps: [
        ["m", "x", r`\mu = \tfrac14 \sum_i x_i`, r`\mu = \sum_i x_i`, "The mean of the features of this token.", v => mean(v.x)],
        ["d", "x m", r`d_i = x_i - \mu`, r`d_i = \mu - x_i`, "Deviations from the mean add up to 0.", v => v.x.map(x => x - v.m)],
        ["σ", "d", r`\tau = \sqrt{\tfrac14 \sum_i d_i^2}`, r`\tau = \tfrac14 \sum_i d_i^2`, "The spread; eps is 0 here, to keep the numbers clean.", v => Math.sqrt(mean(mul(v.d, v.d)))],
        ["n", "d σ", r`\hat x_i = d_i / \tau`, r`\hat x_i = d_i / \tau^2`, "The normalized features: mean 0, mean square 1.", v => mul(v.d, 1 / v.σ)],
        ["y", "n w b", r`y_i = w_i \hat x_i + b_i`, r`y_i = w_i (\hat x_i + b_i)`, "A learned scale and shift undo as much as the network likes.", v => add(mul(v.w, v.n), v.b)],
        [g("b"), "y", r`\pdv{L}{b_i} = u_i`, r`\pdv{L}{b_i} = u_i \hat x_i`, "The shift is added. In a batch the rows are summed.", v => v.u.slice()],
        [g("w"), "y n", r`\pdv{L}{w_i} = u_i \hat x_i`, r`\pdv{L}{w_i} = u_i x_i`, "Weight i multiplies feature i, so its gradient is upstream gradient times input.", v => mul(v.u, v.n)],
        [g("n"), "y w", r`\pdv{L}{\hat x_i} = w_i u_i`, r`\pdv{L}{\hat x_i} = u_i`, "The upstream gradient passes the scale.", v => mul(v.w, v.u)],
        [g("σ"), "n d", r`\pdv{L}{\tau} = -\tfrac1\tau \sum_i \hat x_i \pdv{L}{\hat x_i}`, r`\pdv{L}{\tau} = \tfrac1\tau \sum_i \hat x_i \pdv{L}{\hat x_i}`, "All features are divided by τ, so its gradient is a sum over them.", v => -dot(v[g("n")], v.n) / v.σ],
        [g("d"), "n σ", r`\pdv{L}{d_i} = \tfrac1\tau \pdv{L}{\hat x_i} + \tfrac14 \hat x_i \pdv{L}{\tau}`, r`\pdv{L}{d_i} = \tfrac1\tau \pdv{L}{\hat x_i}`, "Directly, and through τ, whose derivative is x̂ divided by the number of features.", v => v[g("n")].map((x, i) => x / v.σ + v[g("σ")] * v.n[i] / v.n.length)],
        [g("m"), "d", r`\pdv{L}{\mu} = -\sum_i \pdv{L}{d_i}`, r`\pdv{L}{\mu} = \sum_i \pdv{L}{d_i}`, "The mean is subtracted from every feature.", v => -sum(v[g("d")])],
        [g("x"), "d m", r`\pdv{L}{x_i} = \pdv{L}{d_i} + \tfrac14 \pdv{L}{\mu}`, r`\pdv{L}{x_i} = \pdv{L}{d_i} + \pdv{L}{\mu}`, "Directly, and through the mean: the gradient adds up to 0, because a shift of x changes nothing.", v => v[g("d")].map(x => x + v[g("m")] / v.x.length)],
      ],
    },
    "mlp": {
      inputs: { x: [1, 2], W1: [[1, 0.5], [-1, 0.25], [0.5, 0.5]], b1: [0, 0, -1], W2: [[1, 2, -1]], b2: [0.5], t: [1] },
      nodes: { x: [0, 1], W1: [0, 0], b1: [0, 2], z: [1, 1], h: [2, 1], W2: [2, 0], b2: [2, 2], y: [3, 1], t: [3, 2], L: [4, 1] },
      steps: [
        ["z", "x W1 b1", r`\vec z = \mat W_1 \vec x + \vec b_1`, r`\vec z = \mat W_1 (\vec x + \vec b_1)`, "The first layer: three weighted sums.", v => add(apply(v.W1, v.x), v.b1)],
        ["h", "z", r`h_i = \max(z_i, 0)`, r`h_i = \min(z_i, 0)`, "ReLU keeps positive numbers and replaces the others by 0.", v => v.z.map(z => Math.max(z, 0))],
        ["y", "h W2 b2", r`y = \mat W_2 \vec h + b_2`, r`y = \mat W_2 \vec z + b_2`, "The second layer: one output.", v => add(apply(v.W2, v.h), v.b2)],
        ["L", "y t", r`L = (y - t)^2`, r`L = y - t`, "The squared error of the output.", v => (v.y[0] - v.t[0]) ** 2],
        [g("y"), "L t", r`\pdv{L}{y} = 2 (y - t)`, r`\pdv{L}{y} = 2 (t - y)`, "Twice the error; this is the error signal of the last layer.", v => [2 * (v.y[0] - v.t[0])]],
        [g("b2"), "y", r`\pdv{L}{b_2} = \pdv{L}{y}`, r`\pdv{L}{b_2} = b_2 \pdv{L}{y}`, "The bias is added.", v => v[g("y")].slice()],
        [g("W2"), "y h", r`\pdv{L}{\mat W_2} = \pdv{L}{y}\, \vec h^\top`, r`\pdv{L}{\mat W_2} = \pdv{L}{y}\, \vec z^\top`, "A weight gets the error signal times its input: none where h is 0.", v => outer(v[g("y")], v.h)],
        [g("h"), "y W2", r`\pdv{L}{\vec h} = \mat W_2^\top \pdv{L}{y}`, r`\pdv{L}{\vec h} = \mat W_2 \pdv{L}{y}`, "Back through the weights, transposed.", v => apply(T(v.W2), v[g("y")])],
        [g("z"), "h", r`\pdv{L}{z_i} = \pdv{L}{h_i}\ \text{ where } z_i > 0, \text{ else } 0`, r`\pdv{L}{z_i} = \pdv{L}{h_i}\ \text{ where } x_i > 0, \text{ else } 0`, "The slope of ReLU is 1 or 0: an inactive unit passes nothing.", v => v[g("h")].map((x, i) => v.z[i] > 0 ? x : 0)],
        [g("b1"), "z", r`\pdv{L}{\vec b_1} = \pdv{L}{\vec z}`, r`\pdv{L}{\vec b_1} = \pdv{L}{\vec h}`, "The same as in the second layer, one layer earlier.", v => v[g("z")].slice()],
        [g("W1"), "z x", r`\pdv{L}{\mat W_1} = \pdv{L}{\vec z}\, \vec x^\top`, r`\pdv{L}{\mat W_1} = \pdv{L}{\vec h}\, \vec x^\top`, "Error signal times input, again.", v => outer(v[g("z")], v.x)],
        [g("x"), "z W1", r`\pdv{L}{\vec x} = \mat W_1^\top \pdv{L}{\vec z}`, r`\pdv{L}{\vec x} = \mat W_1 \pdv{L}{\vec z}`, "A layer below would get this as its upstream gradient.", v => apply(T(v.W1), v[g("z")])],
      ],
    },
    "rnn": {
      inputs: { w: 0.5, x: [1, 0, 0, 0] },
      nodes: { w: [0, 2], x: [0, 0], h1: [1, 1], h2: [2, 1], h3: [3, 1], h4: [4, 1], L: [5, 1] },
      steps: [
        ["h1", "w x", r`h_1 = \tanh(w \cdot 0 + x_1)`, r`h_1 = w \tanh x_1`, "The state starts at 0.", v => Math.tanh(v.x[0])],
        ...[2, 3, 4].map(t => [`h${t}`, `h${t - 1} w x`, `h_${t} = \\tanh(w h_${t - 1} + x_${t})`, `h_${t} = \\tanh(w x_${t} + h_${t - 1})`, "The same weight again, with the state of the step before.", v => Math.tanh(v.w * v[`h${t - 1}`] + v.x[t - 1])]),
        ["L", "h4", r`L = h_4`, r`L = h_1 + h_2 + h_3 + h_4`, "The loss is the last state, to keep the numbers clean.", v => v.h4],
        [g("h4"), "L", r`\pdv{L}{h_4} = 1`, r`\pdv{L}{h_4} = h_4`, "The loss is the last state itself.", () => 1],
        ...[4, 3, 2, 1].flatMap(t => [
          [g(`z${t}`), t < 4 ? `h${t + 1}` : "L", `${pd(`z_${t}`)} = (1 - h_${t}^2)\\, ${pd(`h_${t}`)}`, `${pd(`z_${t}`)} = (1 - z_${t}^2)\\, ${pd(`h_${t}`)}`, "The slope of tanh, from its value.", v => (1 - v[`h${t}`] ** 2) * v[g(`h${t}`)]],
          [`part ${t}`, `h${t} w`, `\\text{step ${t} adds } ${pd(`z_${t}`)}\\, h_${t - 1}`, `\\text{step ${t} adds } ${pd(`z_${t}`)}\\, x_${t}`, t > 1 ? "The weight was used here with the state before; all uses are added up." : "The state before the first step is 0, so the weight had no effect here.", v => v[g(`z${t}`)] * (t > 1 ? v[`h${t - 1}`] : 0)],
          ...(t > 1 ? [[g(`h${t - 1}`), `h${t}`, `${pd(`h_${t - 1}`)} = w\\, ${pd(`z_${t}`)}`, `${pd(`h_${t - 1}`)} = h_${t - 1}\\, ${pd(`z_${t}`)}`, "One step back in time: times the weight.", v => v.w * v[g(`z${t}`)]]] : []),
        ]),
        [g("w"), "h1 h2 h3 h4", r`\pdv{L}{w} = \sum_t \pdv{L}{z_t}\, h_{t-1}`, r`\pdv{L}{w} = \sum_t \pdv{L}{z_t}\, x_t`, "Backpropagation through time: one weight, four uses, one sum.", v => sum([1, 2, 3, 4].map(t => v[`part ${t}`]))],
      ],
    },
    "lstm": {
      inputs: { x: 1, h: 0.5, c: 2, wx: [0.5, 1, 1, 0], wh: [0, 1, -1, 1], b: [0, 1, 0, 0], uh: 1, uc: 0 },
      nodes: { x: [0, 2], h: [0, 3], b: [0, 4], z: [1, 3], i: [2, 2], f: [2, 1], g: [2, 3], o: [2, 4], c: [0, 0], "c′": [4, 0], "h′": [5, 3], uc: [5, 0], uh: [6, 3] },
      steps: [
        ["z", "x h b", r`\vec z = \vec w_x x + \vec w_h h + \vec b`, r`\vec z = \vec w_x x + \vec w_h c + \vec b`, "Four weighted sums of input and state.", v => v.wx.map((w, k) => w * v.x + v.wh[k] * v.h + v.b[k])],
        ["i", "z", r`i = \sigma(z_i)`, r`i = \tanh z_i`, "The input gate: how much of the candidate is written.", v => sigmoid(v.z[0])],
        ["f", "z", r`f = \sigma(z_f)`, r`f = 1 - i`, "The forget gate: how much of the old cell stays.", v => sigmoid(v.z[1])],
        ["g", "z", r`g = \tanh z_g`, r`g = \sigma(z_g)`, "The candidate: what could be written.", v => Math.tanh(v.z[2])],
        ["o", "z", r`o = \sigma(z_o)`, r`o = \tanh z_o`, "The output gate: how much of the cell is shown.", v => sigmoid(v.z[3])],
        ["c′", "c f i g", r`c' = f c + i g`, r`c' = i c + f g`, "The cell is added to; this is why it remembers.", v => v.f * v.c + v.i * v.g],
        ["h′", "c′ o", r`h' = o \tanh c'`, r`h' = \tanh(o\, c')`, "The state is a gated view of the cell.", v => v.o * Math.tanh(v["c′"])],
        [g("c′"), "h′ uc", r`\pdv{L}{c'} = u_c + u_h\, o\, (1 - \tanh^2 c')`, r`\pdv{L}{c'} = u_h\, o\, (1 - \tanh^2 c')`, "The cell has two uses: the next step, and the state.", v => v.uc + v.uh * v.o * (1 - Math.tanh(v["c′"]) ** 2)],
        [g("c"), "c′ f", r`\pdv{L}{c} = f \pdv{L}{c'}`, r`\pdv{L}{c} = c \pdv{L}{c'}`, "Along the cell the gradient passes one factor, the gate, and no matrix.", v => v.f * v[g("c′")]],
        [g("f"), "c′ c", r`\pdv{L}{f} = c \pdv{L}{c'}`, r`\pdv{L}{f} = f \pdv{L}{c'}`, "The forget gate multiplies the old cell.", v => v.c * v[g("c′")]],
        [g("i"), "c′ g", r`\pdv{L}{i} = g \pdv{L}{c'}`, r`\pdv{L}{i} = i \pdv{L}{c'}`, "The input gate multiplies the candidate.", v => v.g * v[g("c′")]],
        [g("g"), "c′ i", r`\pdv{L}{g} = i \pdv{L}{c'}`, r`\pdv{L}{g} = g \pdv{L}{c'}`, "And the candidate is multiplied by the input gate.", v => v.i * v[g("c′")]],
        [g("o"), "h′ c′", r`\pdv{L}{o} = u_h \tanh c'`, r`\pdv{L}{o} = u_h\, c'`, "The output gate multiplies tanh of the cell.", v => v.uh * Math.tanh(v["c′"])],
        [g("z"), "i f g o", r`\pdv{L}{z_i} = i (1 - i) \pdv{L}{i},\ \text{also } f, o; \quad \pdv{L}{z_g} = (1 - g^2) \pdv{L}{g}`, r`\pdv{L}{z_i} = (1 - i^2) \pdv{L}{i},\ \text{also } f, o; \quad \pdv{L}{z_g} = g (1 - g) \pdv{L}{g}`, "A saturated gate has almost no slope, and passes almost nothing.", v => [v[g("i")] * slope(v.i), v[g("f")] * slope(v.f), v[g("g")] * (1 - v.g ** 2), v[g("o")] * slope(v.o)]],
        [g("b"), "z", r`\pdv{L}{\vec b} = \pdv{L}{\vec z}`, r`\pdv{L}{\vec b} = \vec b \odot \pdv{L}{\vec z}`, "The biases are added.", v => v[g("z")].slice()],
        [g("h"), "z", r`\pdv{L}{h} = \vec w_h \cdot \pdv{L}{\vec z}`, r`\pdv{L}{h} = \vec w_x \cdot \pdv{L}{\vec z}`, "The state fed all four sums.", v => dot(v.wh, v[g("z")])],
        [g("x"), "z", r`\pdv{L}{x} = \vec w_x \cdot \pdv{L}{\vec z}`, r`\pdv{L}{x} = \vec w_h \cdot \pdv{L}{\vec z}`, "And so did the input.", v => dot(v.wx, v[g("z")])],
      ],
    },
    "attention": {
      inputs: { Q: [[1, 0], [0, 1]], K: [[1, 0], [1, 1]], V: [[1, 2], [3, 0]], U: [[1, 0], [0, 1]] },
      nodes: { Q: [0, 0], K: [0, 1], V: [0, 2], S: [1, 0.5], P: [2, 0.5], O: [3, 1], U: [4, 1] },
      steps: [
        ["S", "Q K", r`\mat S = \mat Q \mat K^\top / \sqrt 2`, r`\mat S = \mat Q^\top \mat K / \sqrt 2`, "Every query is compared with every key; √2 because a head has two channels here.", v => mul(matmul(v.Q, T(v.K)), Math.SQRT1_2)],
        ["P", "S", r`\mat P = \operatorname{softmax}(\mat S) \text{, each row by itself}`, r`\mat P = \operatorname{softmax}(\mat S) \text{, each column by itself}`, "Each row of weights adds up to 1.", v => v.S.map(softmax)],
        ["O", "P V", r`\mat O = \mat P \mat V`, r`\mat O = \mat P^\top \mat V`, "Each output is an average of the values.", v => matmul(v.P, v.V)],
        [g("V"), "O P", r`\pdv{L}{\mat V} = \mat P^\top \mat U`, r`\pdv{L}{\mat V} = \mat P \mat U`, "A value gets from each query as much as it gave.", v => matmul(T(v.P), v.U)],
        [g("P"), "O V", r`\pdv{L}{\mat P} = \mat U \mat V^\top`, r`\pdv{L}{\mat P} = \mat U^\top \mat V`, "A weight matters as much as its value points along the upstream gradient.", v => matmul(v.U, T(v.V))],
        ["D", "O P", r`D_i = \sum_j P_{ij} \pdv{L}{P_{ij}}`, r`D_i = \sum_j \pdv{L}{P_{ij}}`, "The mean of the row of P̄ under the weights; flash attention takes it from the output.", v => v.P.map((p, i) => dot(p, v[g("P")][i]))],
        [g("S"), "P", r`\pdv{L}{S_{ij}} = P_{ij} \Bigl( \pdv{L}{P_{ij}} - D_i \Bigr)`, r`\pdv{L}{S_{ij}} = P_{ij} \pdv{L}{P_{ij}}`, "Softmax backward, row by row: each row adds up to 0.", v => v.P.map((row, i) => row.map((p, j) => p * (v[g("P")][i][j] - v.D[i])))],
        [g("Q"), "S K", r`\pdv{L}{\mat Q} = \pdv{L}{\mat S} \mat K / \sqrt 2`, r`\pdv{L}{\mat Q} = \pdv{L}{\mat S} \mat K`, "The product backward, with the scale.", v => mul(matmul(v[g("S")], v.K), Math.SQRT1_2)],
        [g("K"), "S Q", r`\pdv{L}{\mat K} = \Bigl( \pdv{L}{\mat S} \Bigr)^{\!\top} \mat Q / \sqrt 2`, r`\pdv{L}{\mat K} = \pdv{L}{\mat S} \mat Q / \sqrt 2`, "The same for the keys, transposed.", v => mul(matmul(T(v[g("S")]), v.Q), Math.SQRT1_2)],
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
  // The text for a name: its letter on the page, a subscript for a digit, and dz for the gradient of z.
  const written = (derivation, name) => {
    const letter = derivation.letters?.[bare(name)] || bare(name);
    const text = letter.startsWith("part") ? letter : letter.replace(/\d/, digit => "₀₁₂₃₄₅₆₇₈₉"[digit]);
    return name.includes(BAR) ? `d${text}` : text;
  };
  // The text below a node: up to four numbers, or the shape.
  const brief = value => {
    const all = numbers(value), digits = all.length < 4 ? 2 : 1;
    const short = x => String(+x.toFixed(digits)).replace(/^-0$/, "0").replace("-", "−");
    return all.length <= 4 && !Array.isArray(value[0]) ? all.map(short).join("  ")
      : Array.isArray(value[0]) ? `${value.length} × ${value[0].length}` : `${all.length} numbers`;
  };
  const formula = tex => make("span", { class: "math notranslate nohighlight" }, `\\(\\displaystyle ${tex}\\)`);

  function graph(derivation) {
    const places = Object.values(derivation.nodes), X = 92, Y = 66;
    const columns = Math.max(...places.map(([x]) => x)), rows = Math.max(...places.map(([, y]) => y));
    const svg = make("svg", { viewBox: `0 0 ${X * columns + 84} ${Y * rows + 66}`, class: "graph-drawing", role: "img" });
    svg.style.minWidth = `${0.9 * (X * columns + 84)}px`;
    const at = name => { const [x, y] = derivation.nodes[name]; return [42 + X * x, 20 + Y * y]; };
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
        make("rect", { x: x - 22, y: y - 14, width: 44, height: 28, rx: 6 }),
        make("text", { x, y: y + 5, "text-anchor": "middle" }, written(derivation, name)),
        make("text", { x, y: y + 26, "text-anchor": "middle", class: "graph-number" }),
        make("text", { x, y: y + 38, "text-anchor": "middle", class: "graph-number graph-gradient" }));
      svg.append(boxes[name]);
    }
    const light = (step, known, v) => {
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
        const [value, gradient] = box.querySelectorAll(".graph-number");
        value.textContent = known.has(id) ? brief(v[id]) : "";
        gradient.textContent = known.has(id + BAR) ? brief(v[id + BAR]) : "";
      }
      const scroll = svg.parentElement, [x] = at(node);
      if (scroll) scroll.scrollLeft = x / (X * columns + 84) * scroll.scrollWidth - scroll.clientWidth / 2;
      svg.setAttribute("aria-label", `Graph of the computation. Now ${backward ? "backward to" : "forward to"} ${written(derivation, node)}, from ${sources.map(name => written(derivation, name)).join(", ")}.`);
    };
    light.svg = svg;
    return light;
  }

  function mount(box) {
    const id = [...box.classList].find(name => derivations[name]), derivation = derivations[id];
    const text = name => written(derivation, name);
    const names = Object.keys(derivation.inputs), state = structuredClone(derivation.inputs), steps = derivation.steps;
    const values = () => {
      const v = structuredClone(state);
      for (const [name, , , , , compute] of steps) v[name] = compute(v);
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
      inputs.append(make("div", { class: "graph-input" }, make("span", {}, `${text(name)} =`), make("table", {}, make("tbody", {}, ...fields))));
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
    const back = button(bar, "Back", () => visit(at - 1)), next = button(bar, "Next", () => visit(at + 1));
    bar.append(said);
    const first = make("input", { type: "checkbox" });
    bar.append(make("label", { class: "graph-first" }, first, " guess first"));
    first.addEventListener("change", () => go(at));
    const chips = steps.map(([name], k) => {
      const item = make("li");
      path.append(item);
      const chip = button(item, text(name), () => visit(k));
      chip.dataset.name = name;
      return chip;
    });
    // All steps lie on top of each other, so that the height does not change from step to step.
    const cards = steps.map(([name, , right, wrong, why], k) => {
      const value = make("div", { class: "graph-result" }), verdict = make("span", { role: "status" });
      const ask = make("div", { class: "graph-guess" }, make("span", {}, "Which one is it?"));
      const open = () => { card.classList.add("open"); go(at); };
      const choices = k % 2 ? [right, wrong] : [wrong, right];
      for (const tex of choices) {
        const choice = button(ask, "", () => {
          verdict.textContent = tex === right ? " Right." : " Not this one.";
          if (tex === right) open();
        });
        choice.append(formula(tex));
        choice.dataset.right = tex === right;
      }
      button(ask, "Show", open);
      ask.append(verdict);
      const card = make("div", { class: "step" }, ask, make("p", { class: "graph-formula" }, formula(right)), make("p", { class: "graph-why" }, why), value);
      card.result = value;
      card.reset = () => { card.classList.remove("open"); verdict.textContent = ""; };
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
        card.result.replaceChildren(make("span", { class: "graph-name" }, `${text(steps[k][0])} = `), shown(value));
        card.result.dataset.value = JSON.stringify(value);
      });
      chips.forEach((chip, k) => {
        chip.classList.toggle("passed", k < at);
        if (k === at) chip.setAttribute("aria-current", "step"); else chip.removeAttribute("aria-current");
      });
      back.setAttribute("aria-disabled", at === 0);
      next.setAttribute("aria-disabled", at === steps.length - 1);
      const name = steps[at][0], asks = first.checked && !cards[at].classList.contains("open");
      const value = `: ${text(name)} = ${numbers(v[name]).map(show).join(", ")}`;
      said.replaceChildren(`Step ${at + 1} of ${steps.length}`, make("span", { class: "visually-hidden" }, asks ? "" : value));
      draw(steps[at], new Set([...names, ...steps.slice(0, asks ? at : at + 1).map(([known]) => known)]), v);
    }
    // Each step has an address, which a lecture or an answer can point to.
    const address = k => `#step-${id}-${k + 1}`;
    function visit(to) {
      go(to);
      history.replaceState(null, "", address(at));
    }
    function follow() {
      const k = steps.findIndex((_, k) => address(k) === location.hash);
      if (k < 0) return;
      go(k);
      box.scrollIntoView();
    }
    window.addEventListener("hashchange", follow);
    for (const child of [...box.children]) child.hidden = true; // the derivation as text
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Step by step: arrow keys go back and on");
    box.addEventListener("keydown", event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move && event.target.closest(".steps-bar, .steps-path") && event.target.type !== "checkbox") { event.preventDefault(); visit(at + move); }
    });
    box.prepend(path, bar, drawing, stack, inputs);
    drawing.append(draw.svg);
    go(0);
    follow();
    box.dataset.ready = "true";
    window.MathJax?.startup?.promise?.then(() => MathJax.typesetPromise([stack]));
  }
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".graph-steps:not([data-ready])").forEach(mount));
})();
