// A derivation that one steps through. The steps are text of the page: without scripts all are shown.
(function () {
  "use strict";
  function button(parent, text, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "steps-chip";
    made.textContent = text;
    made.addEventListener("click", act);
    parent.append(made);
    return made;
  }
  function mount(box) {
    const steps = [...box.querySelectorAll(":scope > .step")];
    const bar = document.createElement("div"), said = document.createElement("span");
    const path = document.createElement("ol");
    let at = 0;
    const go = to => {
      at = Math.min(Math.max(to, 0), steps.length - 1);
      steps.forEach((step, k) => { step.hidden = k !== at; });
      chips.forEach((chip, k) => {
        chip.classList.toggle("passed", k < at);
        if (k === at) chip.setAttribute("aria-current", "step"); else chip.removeAttribute("aria-current");
      });
      back.setAttribute("aria-disabled", at === 0);
      next.setAttribute("aria-disabled", at === steps.length - 1);
      said.textContent = `Step ${at + 1} of ${steps.length}`;
    };
    bar.className = "steps-bar";
    const back = button(bar, "Back", () => go(at - 1)), next = button(bar, "Next", () => go(at + 1));
    said.setAttribute("role", "status");
    bar.append(said);
    path.className = "steps-path";
    const chips = steps.map((step, k) => {
      const item = document.createElement("li");
      path.append(item);
      return button(item, step.querySelector("strong").textContent, () => go(k));
    });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Step by step: arrow keys go back and on");
    box.addEventListener("keydown", event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move && event.target.closest(".steps-bar, .steps-path")) { event.preventDefault(); go(at + move); }
    });
    box.prepend(path, bar);
    go(0);
    box.dataset.ready = "true";
  }
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".steps:not([data-ready])").forEach(mount));
})();
