// Formulas appear from the top of a page on, the first ones without waiting for the last, and in their
// own fonts: in another font their widths differ, and the lines would break twice.
window.MathJax.startup = {
  async pageReady() {
    document.head.append(MathJax.chtmlStylesheet());
    const fonts = ["MJX-NCM-N", "MJX-NCM-ZERO", "MJX-BRK"].map(family => document.fonts.load(`1em ${family}`));
    await Promise.allSettled(fonts);
    const all = [...document.querySelectorAll(".math")];
    for (let k = 0; k < all.length; k += 50) {
      await MathJax.typesetPromise(all.slice(k, k + 50));
      await new Promise(shown => setTimeout(shown)); // the browser shows them meanwhile
    }
  },
};
