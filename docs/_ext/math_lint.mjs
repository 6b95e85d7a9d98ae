// stdin: {macros, formulas: [{tex, display}]}; stdout: for each formula its width, height and depth in
// em, or MathJax's complaint.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[2] + '/');
const { macros, formulas } = JSON.parse(readFileSync(0, 'utf8'));
const MathJax = require('mathjax');

await MathJax.init({
  loader: { load: ['input/tex', 'output/chtml', 'adaptors/liteDOM'] },
  tex: {
    macros,
    packages: { '[-]': ['noundefined', 'noerrors'] }, // these two hide errors from a reader
    formatError: (_, error) => { throw error; },
  },
});
const page = MathJax.startup.document, { handleRetriesFor } = MathJax._.mathjax.mathjax;

const answers = [];
for (const { tex, display } of formulas) {
  const formula = new page.options.MathItem(tex, page.inputJax[0], display);
  formula.setMetrics(16, 7, 1e6, 1);
  try {
    // parts of the font are loaded when a formula first needs them, and then it is tried again
    const box = await handleRetriesFor(() => {
      formula.compile(page);
      return page.outputJax.getBBox(formula, page);
    });
    answers.push([box.w, box.h, box.d]);
  } catch (error) {
    answers.push(String(error.message || error));
  }
}
process.stdout.write(JSON.stringify(answers));
