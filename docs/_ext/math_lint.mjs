// stdin: {macros, formulas: [{tex, display}]}; stdout: for each formula null or MathJax's complaint.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[2] + '/');
const { macros, formulas } = JSON.parse(readFileSync(0, 'utf8'));
const MathJax = require('mathjax');

await MathJax.init({
  loader: { load: ['input/tex', 'adaptors/liteDOM'] },
  tex: {
    macros,
    packages: { '[-]': ['noundefined', 'noerrors'] }, // these two hide errors from a reader
    formatError: (_, error) => { throw error; },
  },
});

const verdicts = [];
for (const { tex, display } of formulas) {
  try {
    await MathJax.tex2mmlPromise(tex, { display });
    verdicts.push(null);
  } catch (error) {
    verdicts.push(String(error.message || error));
  }
}
process.stdout.write(JSON.stringify(verdicts));
