"use strict";
// The timeline of a report: draws the boxes of each pipeline rank that are in view, and those that
// are narrower than a pixel together.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const timeline = data.timeline;
  const canvas = document.getElementById("timeline");
  const tip = document.getElementById("tip");
  const showPath = document.getElementById("show-path");
  const context = canvas.getContext("2d");

  // In the order of the mixes' shares.
  const paints = [["forward", "forward"], ["recompute", "recompute"], ["backward", "backward"],
    ["input", "input gradient"], ["weight", "weight gradient"], ["optimizer", "optimizer"],
    ["exposed", "exposed communication"], ["bubble", "pipeline bubble"], ["idle", "other waiting"]];
  const left = 52, axis = 26;
  const rows = timeline.rows.map(row => {
    const count = row.boxes.length / 3;
    const from = new Float64Array(count + 1), action = new Int32Array(count), mix = new Int32Array(count);
    for (let i = 0; i < count; ++i) {
      from[i + 1] = from[i] + row.boxes[3 * i];
      action[i] = row.boxes[3 * i + 1];
      mix[i] = row.boxes[3 * i + 2];
    }
    return {name: "pp " + row.pipeline_rank, actions: row.actions, count, from, action, mix};
  });
  const path = [];
  for (let i = 0; i < timeline.path.length; i += 3)
    path.push({row: timeline.path[i], from: timeline.path[i + 1], to: timeline.path[i + 2]});

  const whole = timeline.units;
  let begin = 0, end = whole;
  let width = 0, rowHeight = 0, colours = {};

  const seconds = units => units * timeline.unit_ps * 1e-12;
  function spoken(value, step) {
    const [unit, name] = step >= 1 ? [1, "s"] : step >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    const decimals = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 1e-9)));
    return (value / unit).toFixed(decimals) + " " + name;
  }
  const roundStep = least => {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(n => n * power).find(step => step >= least * (1 - 1e-9));
  };
  // Three digits, in a unit that suits the value itself.
  const duration = value => value >= 1 ? value.toPrecision(3) + " s"
    : value >= 1e-3 ? (value * 1e3).toPrecision(3) + " ms" : (value * 1e6).toPrecision(3) + " µs";

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["page", "ink", "faint", "line", "path", ...paints.map(p => p[0])])
      colours[name] = style.getPropertyValue("--" + name).trim();
  }
  function measure() {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    rowHeight = Math.max(9, Math.min(34, Math.floor(640 / rows.length)));
    const height = rows.length * rowHeight + axis;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const x = at => left + (at - begin) / (end - begin) * (width - left);
  const at = px => begin + (px - left) / (width - left) * (end - begin);

  // The first box that ends after `time`.
  function firstBox(row, time) {
    let low = 0, high = row.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.from[middle + 1] > time) high = middle; else low = middle + 1;
    }
    return low;
  }
  function stacked(shares, px, py, w, h) {
    let sum = 0;
    for (const share of shares) sum += share;
    let y = py + h;
    for (let i = 0; i < shares.length; ++i) {
      if (shares[i] <= 0) continue;
      const part = shares[i] / sum * h;
      context.fillStyle = colours[paints[i][0]];
      context.fillRect(px, y - part, w, part);
      y -= part;
    }
  }
  // Boxes that are narrower than a pixel are gathered, pixel by pixel.
  function drawBoxes(row, top, h) {
    let column = -1;
    const gathered = new Float64Array(paints.length);
    const flush = () => {
      if (column >= 0) stacked(gathered, column, top, 1, h);
      gathered.fill(0);
      column = -1;
    };
    for (let i = firstBox(row, begin); i < row.count && row.from[i] < end; ++i) {
      const px = Math.max(left, x(row.from[i])), w = Math.min(width, x(row.from[i + 1])) - px;
      const shares = timeline.mixes[row.mix[i]];
      if (w >= 1) {
        flush();
        stacked(shares, px, top, w > 4 ? w - 0.6 : w, h);
        continue;
      }
      if (Math.floor(px) !== column) { flush(); column = Math.floor(px); }
      for (let p = 0; p < shares.length; ++p) gathered[p] += shares[p] * w;
    }
    flush();
  }
  // An action's name over all of its boxes.
  function drawNames(row, middle) {
    context.lineWidth = 3;
    context.strokeStyle = "rgba(255, 255, 255, 0.7)";
    context.fillStyle = "#111111";
    for (let i = firstBox(row, begin); i < row.count && row.from[i] < end;) {
      let next = i + 1;
      while (next < row.count && row.action[next] === row.action[i]) ++next;
      const px = Math.max(left, x(row.from[i])), w = Math.min(width, x(row.from[next])) - px;
      const text = row.action[i] < 0 ? "" : row.actions[row.action[i]];
      if (text !== "" && w >= 7 * text.length + 8) {
        context.strokeText(text, px + w / 2, middle);
        context.fillText(text, px + w / 2, middle);
      }
      i = next;
    }
  }
  function drawPath() {
    context.beginPath();
    let last = null;
    for (const stay of path) {
      const y = (stay.row + 0.5) * rowHeight - (rowHeight > 14 ? 1.5 : 0.5);
      if (stay.to < begin || stay.from > end) { last = null; continue; }
      const from = Math.max(left, x(stay.from)), to = Math.min(width, x(stay.to));
      if (last === null) context.moveTo(from, y); else context.lineTo(from, y);
      context.lineTo(to, y);
      last = stay;
    }
    // Between two edges, so that it stands out from whatever it crosses.
    context.lineWidth = 5;
    context.strokeStyle = colours.page;
    context.stroke();
    context.lineWidth = 2.5;
    context.strokeStyle = colours.path;
    context.stroke();
  }
  function drawAxis() {
    const y = rows.length * rowHeight;
    const step = roundStep(seconds(end - begin) * 90 / (width - left));
    context.fillStyle = colours.ink;
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.textBaseline = "top";
    for (let s = Math.ceil(seconds(begin) / step) * step; s <= seconds(end); s += step) {
      const px = x(s / seconds(1));
      context.beginPath();
      context.moveTo(px, y);
      context.lineTo(px, y + 5);
      context.stroke();
      context.textAlign = px > width - 30 ? "right" : px < left + 20 ? "left" : "center";
      context.fillText(spoken(s, step), px, y + 8);
    }
  }
  function draw() {
    context.clearRect(0, 0, width, canvas.height);
    context.font = "12px system-ui, Helvetica, Arial, sans-serif";
    context.textBaseline = "middle";
    const every = Math.ceil(14 / rowHeight);
    const boxHeight = rowHeight - (rowHeight > 14 ? 3 : 1);
    rows.forEach((row, r) => {
      drawBoxes(row, r * rowHeight, boxHeight);
      if (r % every !== 0) return;
      context.textAlign = "left";
      context.fillStyle = colours.ink;
      context.fillText(row.name, 0, (r + 0.5) * rowHeight);
    });
    if (showPath.checked) drawPath();
    context.textAlign = "center";
    if (boxHeight >= 12) rows.forEach((row, r) => drawNames(row, r * rowHeight + boxHeight / 2));
    drawAxis();
  }
  let asked = false;
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }
  function show(from, to) {
    const span = Math.min(whole, Math.max(20, to - from));
    begin = Math.max(0, Math.min(whole - span, from));
    end = begin + span;
    tip.hidden = true;
    redraw();
  }
  const zoom = (factor, around) =>
    show(around - (around - begin) * factor, around + (end - around) * factor);
  const move = share => show(begin + share * (end - begin), end + share * (end - begin));

  function describe(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, r = Math.floor((event.clientY - box.top) / rowHeight);
    if (px < left || r < 0 || r >= rows.length) { tip.hidden = true; return; }
    const row = rows[r], i = firstBox(row, at(px));
    if (i >= row.count) { tip.hidden = true; return; }
    const shares = timeline.mixes[row.mix[i]];
    const lines = [row.name + (row.action[i] < 0 ? "" : ": " + row.actions[row.action[i]])];
    lines.push(duration(seconds(row.from[i + 1] - row.from[i])) + ", from " +
      duration(seconds(row.from[i])) + " on");
    shares.forEach((share, p) => {
      if (share > 0) lines.push(paints[p][1] + (share < 100 ? " " + share + " %" : ""));
    });
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
  }

  let dragged = null;
  canvas.addEventListener("pointerdown", event => {
    dragged = {px: event.clientX, begin, end};
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({preventScroll: true});
    canvas.style.cursor = "grabbing";
  });
  canvas.addEventListener("pointermove", event => {
    if (dragged === null) { describe(event); return; }
    const by = (dragged.px - event.clientX) / (width - left) * (dragged.end - dragged.begin);
    show(dragged.begin + by, dragged.end + by);
  });
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, () => { dragged = null; canvas.style.cursor = ""; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => show(0, whole));
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const px = event.clientX - canvas.getBoundingClientRect().left;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      move((event.deltaX || event.deltaY) / width);
    else
      zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.003), at(Math.max(left, px)));
  }, {passive: false});
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, summary")) return;
    const middle = (begin + end) / 2;
    const actions = {w: () => zoom(0.8, middle), s: () => zoom(1.25, middle), a: () => move(-0.15),
      d: () => move(0.15), 0: () => show(0, whole)};
    const action = actions[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
  document.getElementById("whole").addEventListener("click", () => show(0, whole));
  showPath.addEventListener("change", redraw);

  function repaint() {
    readColours();
    measure();
    draw();
  }
  function legend() {
    const seen = paints.map((_, p) => timeline.mixes.some(mix => mix[p] > 0));
    const names = new Set();
    document.getElementById("legend").replaceChildren(...paints.flatMap(([name, text], p) => {
      if (!seen[p] || names.has(text)) return [];
      names.add(text);
      const entry = document.createElement("span"), box = document.createElement("i");
      box.style.background = `var(--${name})`;
      entry.append(box, text);
      return [entry];
    }));
    if (timeline.resolution_s > 0)
      document.getElementById("resolution").textContent = "What takes less than " +
        duration(timeline.resolution_s) + " stands in the box of its action, or beside it.";
  }
  legend();
  new ResizeObserver(repaint).observe(canvas.parentElement);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    repaint();
  });
  window.addEventListener("afterprint", repaint);
  repaint();
})();
