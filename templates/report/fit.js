"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // The tooltip: text only, so that no name can be markup.
  const tip = byId("tip");
  function show(element, x, y) {
    const line = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
    tip.replaceChildren(line("strong", element.dataset.tip), line("span", element.dataset.more));
    tip.hidden = false;
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - tip.offsetWidth - 6))}px`;
    const below = y + 16 + tip.offsetHeight < innerHeight;
    tip.style.top = `${below ? y + 16 : Math.max(6, y - tip.offsetHeight - 10)}px`;
  }
  const hide = () => { tip.hidden = true; };
  for (const element of document.querySelectorAll("[data-tip]")) {
    element.addEventListener("pointermove", (event) => show(element, event.clientX, event.clientY));
    element.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true });

  // One stop of the Tab key in each plot; arrows go along the front, and the row of a point is marked with it.
  const marked = [...document.querySelectorAll("[data-point]")];
  const said = byId("said");
  for (const plot of document.querySelectorAll(".plot")) {
    const dots = [...plot.querySelectorAll(".dot")].sort((a, b) => a.cx.baseVal.value - b.cx.baseVal.value);
    dots.forEach((dot, index) => {
      dot.addEventListener("focus", () => {
        for (const other of dots) other.tabIndex = other === dot ? 0 : -1;
        for (const one of marked) one.classList.toggle("here", one.dataset.point === dot.dataset.point);
        const box = dot.getBoundingClientRect();
        show(dot, box.right, box.bottom);
        said.textContent = `${dot.dataset.tip}. ${dot.dataset.more}`;
      });
      dot.addEventListener("blur", hide);
      dot.addEventListener("click", () => dot.focus());
      dot.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: index + 1, ArrowUp: index + 1, ArrowLeft: index - 1, ArrowDown: index - 1, Home: 0, End: dots.length - 1 };
        if (event.key === "Escape") hide();
        if (!(event.key in steps)) return;
        event.preventDefault();
        dots[Math.max(0, Math.min(dots.length - 1, steps[event.key]))].focus();
      });
    });
  }
})();
