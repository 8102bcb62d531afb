// Pictures of HMMs and sequences, as SVG.
const MAP = (() => { // one frame for all pictures in one or two dimensions
  const centers = DATA.layers[1];
  // Profiles show one standard deviation at most, and only means where there are many states.
  const reach = DATA.dims < 3 ? 2.8 : Math.max(...centers.map((m) => m.start.length)) <= 4 ? 1.1 : 0.3;
  const bounds = Array.from({ length: DATA.dims }, (_, d) => {
    const low = Math.min(...centers.flatMap((m) => m.mean.map((x, s) => x[d] - reach * m.sd[s][d])));
    const high = Math.max(...centers.flatMap((m) => m.mean.map((x, s) => x[d] + reach * m.sd[s][d])));
    return [low, high > low ? high : low + 1];
  });
  if (DATA.dims !== 2) return { bounds };
  let [[left, right], [bottom, top]] = bounds;
  if (DATA.extent) [left, right, bottom, top] = DATA.extent;
  const ratio = Math.abs((top - bottom) / (right - left));
  const width = 320, height = DATA.extent || (ratio > 0.3 && ratio < 3) ? Math.min(width * ratio, 460) : 240;
  const wide = DATA.extent || (ratio > 0.3 && ratio < 3) ? height / ratio : width;
  return {
    bounds, width, height, left, right, bottom, top, offset: (width - wide) / 2, wide,
    x: (v) => (width - wide) / 2 + ((v - left) / (right - left)) * wide,
    y: (v) => height - ((v - bottom) / (top - bottom)) * height,
    sx: wide / (right - left), sy: -height / (top - bottom),
  };
})();
const LINE = { fill: "none", "stroke-linejoin": "round" };
const DASHES = ["", "7 2.5", "2 2", "8 2.5 2 2.5", "4 2", "12 4"];

function describe(model) {
  const states = model.start.map((start, s) => {
    const next = model.next[s].map((p, t) => [p, t]).sort((a, b) => b[0] - a[0])[0];
    const where = DATA.dims <= 3 ? `, mean ${model.mean[s].map((x, d) => `${dimension(d)} ${short(x)}`).join(", ")}` : "";
    return `State ${s + 1}: ${percent(model.time[s])} of the time${where}, starts ${percent(start)}, next most often state ${next[1] + 1} (${percent(next[0])}).`;
  });
  return `HMM with ${count(model.start.length, "state")}. ${states.join(" ")}`;
}

function gaussians(model, s) {
  if (model.parts) return model.parts.weight[s].map((w, m) => ({ w, mean: model.parts.mean[s][m], cov: model.parts.cov[s][m] })).filter((g) => g.w > 0);
  const v = model.sd[s].map((x) => x * x);
  return [{ w: 1, mean: model.mean[s], cov: DATA.dims === 2 ? [[v[0], 0], [0, v[1]]] : [[v[0]]] }];
}

function ellipse(g, attributes) {
  const a = g.cov[0][0] * MAP.sx ** 2, b = g.cov[0][1] * MAP.sx * MAP.sy, c = g.cov[1][1] * MAP.sy ** 2;
  const middle = (a + c) / 2, apart = Math.hypot((a - c) / 2, b);
  const angle = (Math.atan2(2 * b, a - c) * 90) / Math.PI;
  const x = MAP.x(g.mean[0]), y = MAP.y(g.mean[1]);
  const radii = { rx: 2 * Math.sqrt(middle + apart), ry: 2 * Math.sqrt(Math.max(middle - apart, 0)) };
  return svg("ellipse", { cx: x, cy: y, ...radii, transform: `rotate(${angle.toFixed(2)} ${x} ${y})`, ...attributes });
}
// Over an image, which may be light or dark, thin lines have a light edge.
const memberEllipses = (model, opacity) => model.start.flatMap((_, s) => gaussians(model, s).flatMap((g) =>
  [DATA.image ? ellipse(g, { class: "edge", opacity: 0.4 * opacity }) : null, ellipse(g, { class: "member", opacity })]));

// The chain: numbered discs, arrows as wide as their probability, a ring that is dark as far as the state is a start.
function chain(model, places, radius, outwards) {
  const arrows = [], discs = [];
  places.forEach(([x, y], s) => {
    places.forEach((to, t) => {
      const p = model.next[s][t];
      if (p < 0.05) return;
      if (s !== t) arrows.push(...arrow([x, y], to, p, radius));
      else {
        const [ux, uy] = outwards ? outwards[s] : [0, -1];
        const loop = { cx: x + ux * radius * 1.55, cy: y + uy * radius * 1.55, r: radius * 0.85, "stroke-width": 0.6 + 4 * p };
        arrows.push(svg("circle", { class: "halo", ...loop, "stroke-width": 2 + 4 * p }), svg("circle", { class: "arrow", ...loop }));
      }
    });
    const k = stateColor(model, s);
    discs.push(svg("circle", { class: "ring", cx: x, cy: y, r: radius * 1.32 }), wedge(x, y, radius * 1.32, model.start[s]),
      svg("circle", { cx: x, cy: y, r: radius, fill: color(k), stroke: "#222", "stroke-width": 0.8 }),
      svg("text", { x, y: y + radius * 0.38, "text-anchor": "middle", style: { fill: inkOn(k), "font-size": `${radius * 1.15}px`, "font-weight": 700 } }, String(s + 1)));
  });
  return [...arrows, ...discs];
}
function apart(places, gap) { // discs that would cover one another give way to each other
  const out = places.map((place) => [...place]);
  for (let round = 0; round < 60; round += 1)
    for (let a = 0; a < out.length; a += 1)
      for (let b = 0; b < a; b += 1) {
        let dx = out[a][0] - out[b][0], dy = out[a][1] - out[b][1], far = Math.hypot(dx, dy);
        if (far >= gap) continue;
        if (far < 1e-6) [dx, dy, far] = [Math.cos(a), Math.sin(a), 1];
        const push = (gap - Math.min(far, gap)) / 2 / far;
        out[a] = [out[a][0] + dx * push, out[a][1] + dy * push];
        out[b] = [out[b][0] - dx * push, out[b][1] - dy * push];
      }
  return out;
}
function arrow([x1, y1], [x2, y2], p, radius) {
  const dx = x2 - x1, dy = y2 - y1, far = Math.hypot(dx, dy) || 1;
  const bend = 0.18, cx = (x1 + x2) / 2 - dy * bend, cy = (y1 + y2) / 2 + dx * bend;
  const towards = (x, y, length) => { const d = Math.hypot(cx - x, cy - y) || 1; return [x + ((cx - x) / d) * length, y + ((cy - y) / d) * length]; };
  if (far < 2.5 * radius) return [];
  const head = 4 + 5 * p, from = towards(x1, y1, radius * 1.35), tip = towards(x2, y2, radius * 1.4), neck = towards(x2, y2, radius * 1.4 + head);
  const ux = (tip[0] - neck[0]) / head, uy = (tip[1] - neck[1]) / head, half = 1.6 + 3 * p;
  const curve = `M${from.map((v) => v.toFixed(1))}Q${cx.toFixed(1)},${cy.toFixed(1)} ${neck.map((v) => v.toFixed(1))}`;
  const corners = [tip, [neck[0] - uy * half, neck[1] + ux * half], [neck[0] + uy * half, neck[1] - ux * half]];
  return [svg("path", { class: "halo", d: curve, "stroke-width": 2 + 4.4 * p }), svg("path", { class: "arrow", d: curve, "stroke-width": 0.6 + 4.4 * p }),
    svg("polygon", { class: "head", points: corners.map((c) => c.map((v) => v.toFixed(1)).join(",")).join(" ") })];
}
function wedge(x, y, radius, part) {
  if (part < 0.005) return null;
  if (part > 0.995) return svg("circle", { class: "wedge", cx: x, cy: y, r: radius });
  const angle = 2 * Math.PI * part, end = [x + radius * Math.sin(angle), y - radius * Math.cos(angle)];
  return svg("path", { class: "wedge", d: `M${x},${y}V${y - radius}A${radius},${radius} 0 ${part > 0.5 ? 1 : 0} 1 ${end}Z` });
}

function picture(width, height, label, ...content) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: DATA.image ? "on-image" : null }, ...content);
}
function background() {
  if (!DATA.image) return [];
  return [svg("image", { href: DATA.image, x: MAP.offset, y: 0, width: MAP.wide, height: MAP.height, preserveAspectRatio: "none", opacity: 0.85 })];
}
function mapFrame() {
  const y = MAP.height, x = MAP.offset;
  return [svg("rect", { class: "frame", x: x + 0.5, y: 0.5, width: MAP.wide - 1, height: y - 1 }),
    svg("text", { class: "tick", x, y: y + 13 }, short(Number(MAP.left.toPrecision(3)))),
    svg("text", { class: "tick", x: x + MAP.wide / 2, y: y + 13, "text-anchor": "middle" }, `${dimension(0)} across, ${dimension(1)} ${MAP.top < MAP.bottom ? "down" : "up"}`),
    svg("text", { class: "tick", x: x + MAP.wide, y: y + 13, "text-anchor": "end" }, short(Number(MAP.right.toPrecision(3))))];
}

// An HMM as its number of dimensions asks for; `behind` are members drawn faintly, `small` leaves out what needs room.
function drawModel(model, { behind = [], small = false } = {}) {
  const label = describe(model);
  if (DATA.dims === 2) return drawMap(model, behind, label);
  return DATA.dims === 1 ? drawDensities(model, behind, label) : drawProfiles(model, behind, label, small);
}
function drawMap(model, behind, label) {
  const faint = Math.min(0.75, Math.max(0.18, 10 / (behind.length + 1)));
  const places = apart(model.mean.map(([x, y]) => [MAP.x(x), MAP.y(y)]), 30);
  return picture(MAP.width, MAP.height + 18, label, ...background(), ...behind.flatMap((m) => memberEllipses(m, faint)),
    ...model.start.flatMap((_, s) => gaussians(model, s).map((g) => {
      const c = color(stateColor(model, s));
      return ellipse(g, { fill: c, "fill-opacity": 0.32 * Math.sqrt(g.w), stroke: c, "stroke-width": 2, "stroke-dasharray": DASHES[stateColor(model, s) % 6] });
    })), ...chain(model, places, 9), ...mapFrame());
}
function densityPaths(model, X, Y) {
  const [low, high] = MAP.bounds[0], steps = 160;
  return model.start.map((_, s) => Array.from({ length: steps + 1 }, (_, i) => {
    const v = low + ((high - low) * i) / steps;
    const density = gaussians(model, s).reduce((sum, g) => sum + (g.w * Math.exp((-0.5 * (v - g.mean[0]) ** 2) / g.cov[0][0])) / Math.sqrt(2 * Math.PI * g.cov[0][0]), 0);
    return [X(v), Y ? Y(density * model.time[s]) : density * model.time[s]];
  }));
}
const asPath = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
function drawDensities(model, behind, label) {
  const width = 400, height = 230, base = 205, [low, high] = MAP.bounds[0];
  const X = (v) => 10 + ((v - low) / (high - low)) * (width - 20);
  const highest = Math.max(...densityPaths(model, X, null).flat().map((q) => q[1])) || 1;
  const Y = (v) => base - Math.min(1.15, v / highest) * 120;
  const faint = Math.min(0.7, Math.max(0.15, 8 / (behind.length + 1)));
  const places = spread(model.mean.map(([x]) => X(x)), 30).map((x) => [x, 48]);
  const areas = densityPaths(model, X, Y).map((points, s) => {
    const k = stateColor(model, s);
    return svg("path", { d: asPath(points), fill: color(k), "fill-opacity": 0.3, stroke: color(k), "stroke-width": 2, "stroke-dasharray": DASHES[k % 6] });
  });
  const lines = behind.flatMap((m) => densityPaths(m, X, Y).map((points) => svg("path", { class: "member", d: asPath(points), opacity: faint })));
  return picture(width, height, label, ...lines, ...areas, ...chain(model, places, 9), ...axis(X, low, high, base, dimension(0)));
}
function axis(X, low, high, base, name) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 2)), ticks = [];
  const wide = (high - low) / step > 10 ? 5 * step : (high - low) / step > 5 ? 2 * step : step;
  for (let v = Math.ceil(low / wide) * wide; v <= high; v += wide) ticks.push(svg("text", { class: "tick", x: X(v), y: base + 13, "text-anchor": "middle" }, short(Number(v.toPrecision(6)))));
  return [svg("path", { class: "frame", d: `M${X(low)},${base}H${X(high)}` }), ...ticks, svg("text", { class: "tick", x: X(high), y: base + 24, "text-anchor": "end" }, name)];
}
function spread(places, gap) { // discs side by side where they would cover one another
  const order = places.map((x, k) => [x, k]).sort((a, b) => a[0] - b[0]), out = [];
  let last = -Infinity;
  order.forEach(([x, k]) => { last = Math.max(x, last + gap); out[k] = last; });
  const shift = out.reduce((sum, x, k) => sum + x - places[k], 0) / out.length;
  return out.map((x) => x - shift);
}
function drawProfiles(model, behind, label, small) {
  const width = small ? 360 : 560, height = 220, right = small ? 335 : 350, D = DATA.dims;
  const low = Math.min(...MAP.bounds.map((b) => b[0])), high = Math.max(...MAP.bounds.map((b) => b[1]));
  const X = (d) => 34 + (d / Math.max(1, D - 1)) * (right - 34), Y = (v) => 190 - ((v - low) / (high - low)) * 180;
  const line = (values) => asPath(values.map((v, d) => [X(d), Y(v)]));
  const faint = Math.min(0.7, Math.max(0.12, 8 / (behind.length + 1)));
  const parts = behind.flatMap((m) => m.mean.map((values) => svg("path", { class: "member", d: line(values), opacity: faint })));
  model.mean.forEach((values, s) => {
    const k = stateColor(model, s), sd = model.sd[s];
    if (model.mean.length <= 4) parts.push(svg("path", { d: line(values.map((v, d) => v + sd[d])) + line(values.map((v, d) => v - sd[d])).slice(1).split("L").reverse().map((q) => "L" + q).join("") + "Z", fill: color(k), "fill-opacity": 0.14 }));
    parts.push(svg("path", { ...LINE, d: line(values), stroke: color(k), "stroke-width": 2.2, "stroke-dasharray": DASHES[k % 6] }));
  });
  const ends = spread(model.mean.map((values) => Y(values[D - 1])), 11);
  model.mean.forEach((_, s) => parts.push(svg("text", { x: right + 5, y: ends[s] + 4, style: { "font-weight": 700 } }, String(s + 1))));
  const step = Math.ceil(D / 8);
  for (let d = 0; d < D; d += step) parts.push(svg("text", { class: "tick", x: X(d), y: 204, "text-anchor": "middle" }, DATA.dimensionNames ? DATA.dimensionNames[d] : String(d + 1)));
  [low, (low + high) / 2, high].forEach((v) => parts.push(svg("text", { class: "tick", x: 30, y: Y(v) + 4, "text-anchor": "end" }, short(Number(v.toPrecision(2))))));
  parts.push(svg("path", { class: "frame", d: `M34,10V190H${right}` }), svg("text", { class: "tick", x: (34 + right) / 2, y: 217, "text-anchor": "middle" }, DATA.dimensionNames ? "" : "dimension"));
  if (!small) parts.push(...circleChain(model, 465, 105, 68));
  return picture(width, height, label, ...parts);
}
function circleChain(model, x, y, radius) {
  const S = model.start.length, angle = (s) => -Math.PI / 2 + (2 * Math.PI * s) / S;
  const outwards = model.start.map((_, s) => [Math.cos(angle(s)), Math.sin(angle(s))]);
  return chain(model, outwards.map(([ux, uy]) => (S > 1 ? [x + radius * ux, y + radius * uy] : [x, y])), Math.min(11, 36 / Math.sqrt(S)), outwards);
}

// A sequence with its decoded states: a path on the map in two dimensions, curves over time otherwise.
function drawSequence(sequence, model) {
  const label = `Sequence ${sequence.name}, ${count(sequence.path.length * sequence.step, "frame")}, states ${runs(sequence.path).map(([s, n]) => `${s + 1} for ${n * sequence.step}`).slice(0, 40).join(", ")}`;
  return DATA.dims === 2 ? drawScanpath(sequence, model, label) : drawCurves(sequence, model, label);
}
function runs(path) {
  const out = [];
  path.forEach((s) => { if (out.length && out[out.length - 1][0] === s) out[out.length - 1][1] += 1; else out.push([s, 1]); });
  return out;
}
function drawScanpath(sequence, model, label) {
  const seen = sequence.x.map((row, t) => ({ row, t, s: sequence.path[t] })).filter(({ row }) => row[0] !== null && row[1] !== null);
  const points = seen.map(({ row }) => [MAP.x(row[0]), MAP.y(row[1])]), few = seen.length <= 40, r = few ? 8 : 3;
  return picture(MAP.width, MAP.height + 18, label, ...background(), ...memberEllipses(model, 0.9),
    svg("path", { class: "halo", d: asPath(points), "stroke-width": 4 }), svg("path", { class: "arrow", d: asPath(points), "stroke-width": 1.2 }),
    ...seen.flatMap(({ t, s }, i) => {
      const k = stateColor(model, s), [x, y] = points[i];
      return [svg("circle", { cx: x, cy: y, r, fill: color(k), stroke: "#222", "stroke-width": 0.8 }),
        few ? svg("text", { x, y: y + 3.2, "text-anchor": "middle", style: { fill: inkOn(k), "font-size": "9px", "font-weight": 700 } }, String(t + 1)) : null];
    }), ...mapFrame());
}
function drawCurves(sequence, model, label) {
  const T = sequence.path.length, width = 560, height = 210, values = sequence.x.flat().filter((v) => v !== null);
  const low = Math.min(...values), high = Math.max(...values), room = high - low || 1;
  const X = (t) => 36 + ((t + 0.5) / T) * (width - 46), Y = (v) => 150 - ((v - low) / room) * 138, parts = [];
  let t = 0;
  runs(sequence.path).forEach(([s, n]) => {
    const k = stateColor(model, s), x = X(t - 0.5), wide = X(t + n - 0.5) - x;
    parts.push(svg("rect", { x, y: 8, width: wide, height: 146, fill: color(k), "fill-opacity": 0.16 }), svg("rect", { x, y: 158, width: wide, height: 20, fill: color(k), stroke: "#222", "stroke-width": 0.5 }));
    if (wide > 12) parts.push(svg("text", { x: x + wide / 2, y: 172, "text-anchor": "middle", style: { fill: inkOn(k), "font-weight": 700 } }, String(s + 1)));
    t += n;
  });
  for (let d = 0; d < DATA.dims; d += 1) {
    let pen = "M", path = "";
    sequence.x.forEach((row, i) => { if (row[d] === null) pen = "M"; else { path += `${pen}${X(i).toFixed(1)},${Y(row[d]).toFixed(1)}`; pen = "L"; } });
    parts.push(svg("path", { class: "arrow", d: path, "stroke-width": DATA.dims > 6 ? 0.8 : 1.3, opacity: DATA.dims > 6 ? 0.6 : 1, "stroke-dasharray": DATA.dims > 1 ? DASHES[d % 6] : "" }));
  }
  [low, high].forEach((v) => parts.push(svg("text", { class: "tick", x: 32, y: Y(v) + 4, "text-anchor": "end" }, short(Number(v.toPrecision(3))))));
  parts.push(svg("text", { class: "tick", x: 36, y: 194 }, "1"), svg("text", { class: "tick", x: width - 10, y: 194, "text-anchor": "end" }, `${T * sequence.step} frames`), svg("text", { class: "tick", x: 32, y: 172, "text-anchor": "end" }, "state"));
  return picture(width, height, label, ...parts);
}
