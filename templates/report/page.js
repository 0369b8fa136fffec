"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (part, whole) => {
    const value = (100 * part) / Math.max(whole, 1);
    return value > 0 && value < 0.05 ? "under 0.1 %" : `${value.toFixed(1)} %`;
  };
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  document.documentElement.classList.add("js");

  // The tooltip: a title and lines; text only, so that no name can be markup.
  const tip = byId("tip");
  function showTip(title, lines, x, y) {
    tip.replaceChildren(make("strong", "", title), ...lines.map(([text, kind]) => make("span", kind || "", text)));
    tip.hidden = false;
    const left = Math.max(6, Math.min(x + 14, innerWidth - tip.offsetWidth - 6));
    const below = y + 16 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? y + 16 : Math.max(6, y - tip.offsetHeight - 10)}px`;
  }
  const hideTip = () => { tip.hidden = true; };
  for (const element of document.querySelectorAll("[data-tip]")) {
    element.addEventListener("pointermove", (event) =>
      showTip(element.dataset.tip, [[element.dataset.more]], event.clientX, event.clientY));
    element.addEventListener("pointerleave", hideTip);
  }
  addEventListener("scroll", hideTip, { passive: true });

  // Dark and light.
  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // The map. A path is a list of indices of parts, from the region on; v[level - 1] is a part's place when its
  // ancestor of so many levels fills the frame.
  const frame = byId("frame");
  if (frame) {
    const crumbs = byId("crumbs").firstElementChild, tabs = byId("tabs"), said = byId("said"), legend = byId("roles");
    let region = 0, path = [];
    const nodeAt = (steps) => steps.reduce((node, index) => node.k[index], data.regions[region]);
    const trail = (steps) => steps.map((_, depth) => nodeAt(steps.slice(0, depth + 1)).n);
    const parts = (node) => node.k || [];

    function describe(node, steps) {
      const root = data.regions[region], above = nodeAt(steps.slice(0, -1));
      const lines = [[`${number(node.b)} bytes, ${percent(node.b, root.b)} of ${root.n}`]];
      if (steps.length > 1) lines.push([`${percent(node.b, above.b)} of ${above.n}`]);
      return { title: [root.n, ...trail(steps)].join(" › "), lines };
    }

    function* visible(node, steps, level) {
      for (const [index, part] of parts(node).entries()) {
        const place = part.v[level - 1];
        if (!place) continue;
        const here = [...steps, index];
        yield [part, here, place, level];
        if (place[4]) yield* visible(part, here, level + 1);
      }
    }

    function draw(focusOn, from) {
      const root = nodeAt(path), tiles = [];
      for (const [node, steps, [left, top, width, height, opened], level] of visible(root, path, 1)) {
        const tile = make("div", `tile c-${node.c}${opened ? " open" : ""}${parts(node).length ? "" : " end"}`);
        const [across, down] = data.map.map((side) => side / 100);
        tile.style.cssText = `left:${left / across}%;top:${top / down}%;width:${width / across}%;height:${height / down}%`;
        tile.append(make("span", "tn", node.s || node.n), " ", make("span", "tb", number(node.b)));
        tile.steps = steps;
        if (level === 1) {
          const { title, lines } = describe(node, steps);
          tile.tabIndex = -1;
          tile.setAttribute("role", parts(node).length ? "button" : "img");
          tile.setAttribute("aria-label", `${title}: ${lines.map(([text]) => text).join(", ")}`);
        } else {
          tile.setAttribute("aria-hidden", "true");
        }
        tiles.push(tile);
      }
      frame.replaceChildren(...tiles);
      frame.setAttribute("aria-label", `Map of ${root.n}: area is bytes`);
      const chosen = tiles.find((tile) => tile.hasAttribute("tabindex") && tile.steps.at(-1) === focusOn) || first(tiles);
      if (chosen) chosen.tabIndex = 0;
      drawCrumbs();
      frame.classList.remove("zooming");
      if (from) {
        frame.style.setProperty("--from", from);
        void frame.offsetWidth; // restarts the animation
        frame.classList.add("zooming");
      }
      return chosen;
    }
    const first = (tiles) => tiles.filter((tile) => tile.hasAttribute("tabindex"))
      .sort((a, b) => a.offsetLeft + a.offsetTop - b.offsetLeft - b.offsetTop)[0];
    const stops = () => [...frame.children].filter((tile) => tile.hasAttribute("tabindex"));

    function drawCrumbs() {
      const names = [data.regions[region].n, ...trail(path)];
      crumbs.replaceChildren(...names.map((name, depth) => {
        const item = make("li");
        if (depth === path.length) {
          item.textContent = `${name} `;
          item.append(make("span", "of", number(nodeAt(path).b)));
          item.setAttribute("aria-current", "location");
        } else {
          const button = make("button", "", name);
          button.type = "button";
          button.addEventListener("click", () => go(path.slice(0, depth), true));
          item.append(button);
        }
        return item;
      }));
      const seen = new Set(), look = (node) => (node.k ? node.k.forEach(look) : seen.add(node.c));
      look(data.regions[region]);
      for (const role of legend.children) role.hidden = !seen.has(role.dataset.role);
      for (const [index, tab] of [...tabs.children].entries()) tab.setAttribute("aria-pressed", String(index === region));
    }

    function go(steps, keepFocus) {
      while (steps.length && !parts(nodeAt(steps)).length) steps = steps.slice(0, -1);
      if (steps.join() === path.join()) return;
      const inwards = steps.length > path.length;
      let from = "scale(1.06)", focusOn;
      if (inwards) {
        const tile = [...frame.children].find((one) => one.steps.join() === steps.join());
        if (tile) {
          const x = tile.offsetLeft + tile.offsetWidth / 2 - frame.offsetWidth / 2;
          const y = tile.offsetTop + tile.offsetHeight / 2 - frame.offsetHeight / 2;
          from = `translate(${x}px, ${y}px) scale(${tile.offsetWidth / frame.offsetWidth}, ${tile.offsetHeight / frame.offsetHeight})`;
        }
      } else {
        focusOn = path[steps.length];
      }
      path = steps;
      hideTip();
      const chosen = draw(focusOn, from);
      const root = nodeAt(path);
      said.textContent = `${[data.regions[region].n, ...trail(path)].join(", ")}: ${number(root.b)} bytes in ${parts(root).length} parts`;
      if (keepFocus && chosen) chosen.focus({ preventScroll: true });
    }

    function beside(tile, key) {
      const center = (one) => {
        const box = one.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2, box];
      };
      const [x, y, box] = center(tile);
      const across = key === "ArrowLeft" || key === "ArrowRight", sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
      let best = null, least = Infinity;
      for (const other of stops()) {
        if (other === tile) continue;
        const [ox, oy, place] = center(other);
        const ahead = across ? sign * (ox - x) : sign * (oy - y);
        if (ahead <= 1) continue;
        // What lies straight ahead is nearer than what lies aside.
        const aside = across
          ? Math.max(0, place.top - box.bottom, box.top - place.bottom)
          : Math.max(0, place.left - box.right, box.left - place.right);
        const distance = ahead + 4 * aside + 0.1 * Math.abs(across ? oy - y : ox - x);
        if (distance < least) [best, least] = [other, distance];
      }
      return best;
    }

    const tileOf = (event) => event.target.closest(".tile");
    frame.addEventListener("click", (event) => { const tile = tileOf(event); if (tile) go(tile.steps, true); });
    frame.addEventListener("pointermove", (event) => {
      const tile = tileOf(event);
      if (!tile) { hideTip(); return; }
      const { title, lines } = describe(nodeAt(tile.steps), tile.steps);
      showTip(title, lines, event.clientX, event.clientY);
    });
    frame.addEventListener("pointerleave", hideTip);
    frame.addEventListener("focusin", (event) => {
      const tile = tileOf(event);
      if (!tile || !tile.matches(":focus-visible")) return;
      const { title, lines } = describe(nodeAt(tile.steps), tile.steps), box = tile.getBoundingClientRect();
      showTip(title, lines, box.left + Math.min(box.width / 2, 60), box.top + Math.min(box.height, 24));
    });
    frame.addEventListener("focusout", hideTip);
    const out = (event) => {
      if (event.key !== "Escape" && event.key !== "Backspace") return false;
      event.preventDefault();
      hideTip();
      if (path.length) go(path.slice(0, -1), true);
      return true;
    };
    byId("crumbs").addEventListener("keydown", out);
    frame.addEventListener("keydown", (event) => {
      const tile = tileOf(event);
      if (out(event) || !tile) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        go(tile.steps, true);
      } else if (event.key.startsWith("Arrow")) {
        event.preventDefault();
        const next = beside(tile, event.key);
        if (!next) return;
        tile.tabIndex = -1;
        next.tabIndex = 0;
        next.focus({ preventScroll: true });
      }
    });
    if (data.regions.length > 1) {
      tabs.hidden = false;
      for (const [index, root] of data.regions.entries()) {
        const tab = make("button", "", root.n);
        tab.type = "button";
        tab.addEventListener("click", () => { region = index; path = []; draw(undefined, "scale(.97)"); });
        tabs.append(tab);
      }
    }
    draw();
  }

  // The pictures of lifetimes: a cursor over the ops.
  for (const [order, lives] of document.querySelectorAll(".lives").entries()) {
    const { ops, blocks, plot: [start, across, whole] } = data.lifetimes, { arena, live, buffers } = blocks[order];
    const cursor = lives.querySelector(".cursor");
    const shapes = [...lives.querySelectorAll(".life")];
    for (const shape of shapes) shape.querySelector("title").remove();
    let at = 0;
    lives.tabIndex = 0;
    lives.setAttribute("role", "slider");
    lives.setAttribute("aria-valuemin", "0");
    lives.setAttribute("aria-valuemax", String(ops.length - 1));
    const alive = (buffer, op) => buffer[3].find(([first, last]) => first <= op && op <= last);
    function point(op, x, y, pointed) {
      at = op;
      const [name, layer, kind] = ops[op];
      const title = `op ${op}: ${kind} ${name}${layer < 0 ? "" : `, layer ${layer}`}`;
      const lines = [[`${number(live[op])} of ${number(arena)} bytes alive`]];
      for (const [index, buffer] of [...buffers.entries()].reverse()) {
        const span = alive(buffer, op);
        shapes[index].classList.toggle("faded", !span);
        if (span) lines.push([`${buffer[0]}: ${number(buffer[2])} bytes at ${number(buffer[1])}, ops ${span[0]}–${span[1]}`, index === pointed ? "here" : ""]);
      }
      const middle = start + ((op + 0.5) * across) / ops.length;
      cursor.setAttribute("transform", `translate(${middle} 0)`);
      cursor.setAttribute("visibility", "visible");
      lives.setAttribute("aria-valuenow", String(op));
      lives.setAttribute("aria-valuetext", `${title}; ${lines.map(([text]) => text).join("; ")}`);
      const box = lives.getBoundingClientRect();
      showTip(title, lines, x ?? box.left + (box.width * middle) / whole, y ?? box.top + 30);
    }
    function leave() {
      cursor.setAttribute("visibility", "hidden");
      for (const shape of shapes) shape.classList.remove("faded");
      hideTip();
    }
    lives.addEventListener("pointermove", (event) => {
      const box = lives.getBoundingClientRect(), x = (whole * (event.clientX - box.left)) / box.width;
      const op = Math.floor(((x - start) * ops.length) / across);
      if (op < 0 || op >= ops.length) leave();
      else point(op, event.clientX, event.clientY, shapes.indexOf(event.target));
    });
    lives.addEventListener("pointerleave", leave);
    lives.addEventListener("blur", leave);
    lives.addEventListener("focus", () => { if (lives.matches(":focus-visible")) point(at); });
    lives.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ops.length - 1 }[event.key];
      if (event.key === "Escape") leave();
      if (to === undefined) return;
      event.preventDefault();
      point(Math.max(0, Math.min(ops.length - 1, to)));
    });
  }

  // The experts: one stop for Tab, the arrows move over the cells.
  const heat = byId("heat");
  if (heat) {
    const cells = [...heat.tBodies[0].rows].map((row) => [...row.cells].slice(1, -1));
    const isThere = (cell) => cell && !cell.classList.contains("none");
    let at = null;
    const stop = (cell) => {
      if (at) at.removeAttribute("tabindex");
      at = cell;
      at.tabIndex = 0;
    };
    stop(cells.flat().find(isThere));
    for (const cell of cells.flat().filter(isThere)) cell.setAttribute("aria-label", `${cell.dataset.tip}: ${cell.dataset.more}`);
    heat.addEventListener("focusin", () => {
      if (!at.matches(":focus-visible")) return;
      const box = at.getBoundingClientRect();
      showTip(at.dataset.tip, [[at.dataset.more]], box.left + box.width / 2, box.bottom - 8);
    });
    heat.addEventListener("focusout", hideTip);
    heat.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Escape") hideTip();
      if (!step) return;
      event.preventDefault();
      let row = cells.findIndex((one) => one.includes(at)), column = cells[row].indexOf(at), next;
      do {
        row += step[0];
        column += step[1];
        next = cells[row] && cells[row][column];
      } while (next && !isThere(next));
      if (!next) return;
      stop(next);
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }

  // The rows: a filter keeps what matches, what it is in and what is in it.
  const tree = byId("tree"), filter = byId("filter"), found = byId("found");
  const inner = [...tree.querySelectorAll("details")];
  const open = (all) => { for (const one of inner) one.open = all || one.classList.contains("top"); };
  filter.parentElement.hidden = false;
  byId("open-all").addEventListener("click", () => open(true));
  byId("close-all").addEventListener("click", () => open(false));
  const nameOf = (node) => (node.tagName === "DETAILS" ? node.firstElementChild : node).firstElementChild;
  function sift(node, wanted) {
    const name = nameOf(node), hit = name.textContent.toLowerCase().includes(wanted);
    let below = 0;
    for (const child of node.children) if (child.classList.contains("node")) below += hit ? keep(child) : sift(child, wanted);
    node.classList.toggle("gone", !hit && !below);
    if (node.open !== undefined) node.open = below > 0 && !hit;
    mark(name, hit ? wanted : "");
    return (hit ? 1 : 0) + below;
  }
  function keep(node) {
    node.classList.remove("gone");
    mark(nameOf(node), "");
    for (const child of node.children) if (child.classList.contains("node")) keep(child);
    return 0;
  }
  function mark(element, wanted) {
    const text = element.textContent, start = wanted ? text.toLowerCase().indexOf(wanted) : -1;
    if (start < 0) { element.textContent = text; return; }
    const end = start + wanted.length;
    element.replaceChildren(text.slice(0, start), make("mark", "", text.slice(start, end)), text.slice(end));
  }
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    const roots = tree.querySelectorAll(".top");
    if (!wanted) {
      for (const root of roots) keep(root);
      open(false);
      found.textContent = "";
      return;
    }
    const hits = [...roots].reduce((sum, root) => sum + sift(root, wanted), 0);
    found.textContent = hits === 1 ? "1 row" : `${hits} rows`;
  });
})();
