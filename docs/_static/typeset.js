// Formulas appear from the top of a page on, the first ones without waiting for the last.
window.MathJax.startup = {
  async pageReady() {
    const all = [...document.querySelectorAll(".math")];
    for (let k = 0; k < all.length; k += 50) {
      await MathJax.typesetPromise(all.slice(k, k + 50));
      await new Promise(shown => setTimeout(shown)); // the browser shows them meanwhile
    }
  },
};
