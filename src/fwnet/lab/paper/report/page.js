"use strict";
// Draws the curves of the page from the JSON beside it: no library, no network.
// Colours are CSS variables, so that light, dark and print need no redrawing.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
  const COLOURS = 8;

  function make(parent, name, attributes = {}, text = "") {
    const inside = parent instanceof SVGElement || name === "svg";
    const node = inside ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== "") node.textContent = text;
    parent.append(node);
    return node;
  }

  // A number with three significant digits, as short as it can be.
  function short(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) return power(value.toExponential(2));
    return String(Number(value.toPrecision(4)));
  }

  function power(text) {
    const [digits, exponent] = text.split("e");
    const raised = String(Number(exponent)).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
    const factor = Number(digits);
    return factor === 1 ? `10${raised}` : `${factor}·10${raised}`;
  }

  // An axis maps values to pixels and knows where its ticks are.
  function axis(values, log, from, to) {
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (log && high / low < 1.05) [low, high] = [low / 2, high * 2];
    if (!log && low === high) [low, high] = [low - 0.5, high + 0.5];
    const f = log ? Math.log10 : (v) => v;
    const room = 0.03 * (f(high) - f(low));
    const [a, b] = [f(low) - room, f(high) + room];
    const place = (v) => from + ((f(v) - a) / (b - a)) * (to - from);
    return { place, ticks: log ? logTicks(a, b) : linearTicks(a, b), log };
  }

  function linearTicks(low, high) {
    const raw = (high - low) / 5;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 2.5, 5, 10].find((k) => k * unit >= raw);
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) {
      ticks.push({ value: k * step, label: short(Number((k * step).toPrecision(12))) });
    }
    return ticks;
  }

  function logTicks(low, high) {
    const decades = high - low;
    const every = Math.max(1, Math.ceil(decades / 6));
    const factors = decades < 1.2 ? [1, 1.5, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let e = Math.floor(low); e <= Math.ceil(high); e++) {
      for (const k of factors) {
        const at = e + Math.log10(k);
        const shown = k !== 1 || ((e % every) + every) % every === 0;
        if (at < low || at > high || !shown) continue;
        const value = k * 10 ** e;
        const plain = e >= -2 && e <= 4;
        ticks.push({ value, label: plain ? String(Number(value.toPrecision(3))) : power(`${k}e${e}`) });
      }
    }
    return ticks;
  }

  const usable = (value, log) => value !== null && Number.isFinite(value) && (!log || value > 0);

  const linePath = (points) =>
    points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");

  // The places of true entries, cut where a false one stands between them.
  function unbroken(flags) {
    const runs = [];
    flags.forEach((flag, k) => {
      if (!flag) return;
      if (k > 0 && flags[k - 1]) runs.at(-1).push(k);
      else runs.push([k]);
    });
    return runs;
  }

  class Plot {
    constructor(host, figure) {
      Object.assign(this, { host, figure, hidden: new Set(), log: { x: figure.log_x, y: figure.log_y } });
      this.bar = make(host, "div", { class: "bar" });
      this.legend();
      this.area = make(host, "div", { class: "area" });
      this.tip = make(this.area, "div", { class: "tip", hidden: "" });
      this.cursor = null;
      // In the next frame: drawing changes the height, which an observer must not do.
      new ResizeObserver(() => requestAnimationFrame(() => this.fit())).observe(this.area);
      window.addEventListener("beforeprint", () => this.draw());
    }

    legend() {
      const names = make(this.bar, "div", { class: "legend", role: "group", "aria-label": "curves" });
      for (const [i, series] of this.figure.series.entries()) {
        const button = make(names, "button", { type: "button", "aria-pressed": "true" });
        const icon = make(button, "svg", { width: 26, height: 10, "aria-hidden": "true" });
        make(icon, "line", { x1: 0, x2: 26, y1: 5, y2: 5, ...this.stroke(series) });
        make(button, "span", {}, series.name);
        button.addEventListener("click", () => {
          if (!this.hidden.delete(i)) this.hidden.add(i);
          button.setAttribute("aria-pressed", String(!this.hidden.has(i)));
          this.draw();
        });
      }
      const scales = make(this.bar, "div", { class: "scales" });
      for (const which of ["x", "y"]) {
        const values = this.figure.series.flatMap((s) => s[which]).filter((v) => v !== null);
        if (!values.some((v) => v > 0)) continue;
        const button = make(scales, "button", { type: "button", "aria-pressed": String(this.log[which]) }, `log ${which}`);
        button.addEventListener("click", () => {
          this.log[which] = !this.log[which];
          button.setAttribute("aria-pressed", String(this.log[which]));
          this.draw();
        });
      }
    }

    stroke(series) {
      const dash = DASHES[Math.floor(series.colour / COLOURS) % DASHES.length];
      return {
        stroke: `var(--c${series.colour % COLOURS})`,
        "stroke-width": series.baseline ? 1.5 : 2.2,
        "stroke-dasharray": series.baseline && !dash ? "4 3" : dash,
        fill: "none",
      };
    }

    fit() {
      if (this.area.clientWidth !== this.drawn) this.draw();
    }

    draw() {
      this.drawn = this.area.clientWidth;
      const width = Math.max(260, this.drawn);
      const height = Math.round(Math.min(380, Math.max(230, width * 0.56)));
      const box = { left: 62, right: width - 10, top: 10, bottom: height - 42 };
      this.area.querySelector("svg")?.remove();
      const svg = make(this.area, "svg", {
        width, height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0,
        "aria-label": this.figure.summary,
      });
      const visible = this.figure.series.filter((_, i) => !this.hidden.has(i));
      const ok = (s, k) => usable(s.x[k], this.log.x) && usable(s.y[k], this.log.y);
      const kept = visible.map((s) => s.x.map((_, k) => k).filter((k) => ok(s, k)));
      const xs = visible.flatMap((s, i) => kept[i].map((k) => s.x[k]));
      const ys = visible.flatMap((s, i) => kept[i].flatMap((k) => [s.y[k], s.low?.[k], s.high?.[k]]))
        .filter((v) => v !== undefined && usable(v, this.log.y));
      this.leave();
      if (xs.length === 0) {
        make(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to show");
        return;
      }
      const x = axis(xs, this.log.x, box.left, box.right);
      const y = axis(ys, this.log.y, box.bottom, box.top);
      this.axes(svg, x, y, box);
      for (const series of visible) this.curve(svg, series, x, y, ok);
      this.hover(svg, visible, x, y, box, ok);
    }

    axes(svg, x, y, box) {
      const grid = make(svg, "g", { class: "grid" });
      let last = -Infinity;
      for (const { value, label } of x.ticks) {
        const at = x.place(value);
        make(grid, "line", { x1: at, x2: at, y1: box.top, y2: box.bottom });
        if (at - last < 7 * label.length + 8) continue; // labels must not touch
        make(grid, "text", { x: at, y: box.bottom + 16, "text-anchor": "middle" }, label);
        last = at;
      }
      for (const { value, label } of y.ticks) {
        const at = y.place(value);
        make(grid, "line", { x1: box.left, x2: box.right, y1: at, y2: at });
        make(grid, "text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, label);
      }
      const middle = (box.left + box.right) / 2;
      make(svg, "text", { class: "name", x: middle, y: box.bottom + 36, "text-anchor": "middle" }, this.figure.x_label);
      const turn = `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`;
      make(svg, "text", { class: "name", transform: turn, "text-anchor": "middle" }, this.figure.y_label);
    }

    curve(svg, series, x, y, ok) {
      const colour = `var(--c${series.colour % COLOURS})`;
      const at = (values, k) => [x.place(series.x[k]), y.place(values[k])];
      const runs = unbroken(series.x.map((_, k) => ok(series, k)));
      for (const run of series.low ? runs : []) {
        const inside = run.filter((k) => usable(series.high[k], this.log.y));
        const floor = (k) => (usable(series.low[k], this.log.y) ? series.low : series.y);
        const edge = inside.map((k) => at(series.high, k));
        const back = inside.map((k) => at(floor(k), k)).reverse();
        if (edge.length > 1) make(svg, "path", { d: `${linePath([...edge, ...back])}Z`, fill: colour, class: "band" });
      }
      const lines = runs.map((run) => linePath(run.map((k) => at(series.y, k))));
      make(svg, "path", { d: lines.join(""), ...this.stroke(series), "stroke-linejoin": "round" });
      const few = runs.flat().length < 13;
      for (const run of runs.filter((run) => few || run.length === 1)) { // no line shows these
        for (const k of run) {
          const [cx, cy] = at(series.y, k);
          make(svg, "circle", { cx, cy, r: few ? 3 : 1.8, fill: colour });
        }
      }
    }

    hover(svg, visible, x, y, box, ok) {
      const stops = [...new Set(visible.flatMap((s) => s.x.filter((_, k) => ok(s, k))))].sort((a, b) => a - b);
      const marks = make(svg, "g", { class: "marks" });
      const show = (index) => {
        this.cursor = Math.min(stops.length - 1, Math.max(0, index));
        const value = stops[this.cursor];
        const at = x.place(value);
        const rows = visible.flatMap((series) => {
          const k = nearest(series, value, ok);
          return k < 0 ? [] : [{ series, k }];
        }).sort((a, b) => b.series.y[b.k] - a.series.y[a.k]);
        marks.replaceChildren();
        make(marks, "line", { x1: at, x2: at, y1: box.top, y2: box.bottom });
        for (const { series, k } of rows) {
          make(marks, "circle", { cx: x.place(series.x[k]), cy: y.place(series.y[k]), r: 3.5, fill: `var(--c${series.colour % COLOURS})` });
        }
        this.fill(value, rows, at, box);
      };
      const toIndex = (event) => {
        const mouse = event.clientX - svg.getBoundingClientRect().left;
        let best = 0;
        for (let i = 1; i < stops.length; i++) {
          if (Math.abs(x.place(stops[i]) - mouse) < Math.abs(x.place(stops[best]) - mouse)) best = i;
        }
        return best;
      };
      svg.addEventListener("pointermove", (event) => show(toIndex(event)));
      svg.addEventListener("pointerdown", (event) => show(toIndex(event)));
      const leave = () => { marks.replaceChildren(); this.leave(); };
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("blur", leave);
      svg.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (event.key === "Escape") leave();
        if (move === undefined) return;
        event.preventDefault();
        show((this.cursor ?? -1) + move * Math.max(1, Math.round(stops.length / 60)));
      });
    }

    fill(value, rows, at, box) {
      this.tip.replaceChildren();
      make(this.tip, "strong", {}, `${this.figure.x_label} ${short(value)}`);
      const table = make(this.tip, "table");
      for (const { series, k } of rows) {
        const row = make(table, "tr");
        const colour = make(row, "td", { class: "swatch" });
        colour.style.background = `var(--c${series.colour % COLOURS})`;
        make(row, "td", {}, series.name);
        const spread = series.low ? ` (${short(series.low[k])} to ${short(series.high[k])})` : "";
        make(row, "td", { class: "number" }, short(series.y[k]) + spread);
      }
      this.tip.hidden = false;
      const right = at < (box.left + box.right) / 2;
      const room = this.area.clientWidth - this.tip.offsetWidth;
      const left = right ? at + 14 : at - 14 - this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, Math.min(room, left))}px`;
    }

    leave() {
      this.cursor = null;
      this.tip.hidden = true;
    }
  }

  // The point of a curve at a place, or the one before it; -1 before its first and after its last.
  function nearest(series, value, ok) {
    let found = -1;
    let last = -Infinity;
    series.x.forEach((x, k) => {
      if (!ok(series, k)) return;
      if (x <= value) found = k;
      last = Math.max(last, x);
    });
    return value > last ? -1 : found;
  }

  const figures = JSON.parse(document.getElementById("figures").textContent);
  for (const host of document.querySelectorAll(".plot")) new Plot(host, figures[host.dataset.figure]);

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  });
})();
