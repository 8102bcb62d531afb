// Pictures of a table before anything is learned, and of the bound while it rises.
import { categoryColor, COLORS, el, short, stretches, svg, tick } from "./drawing.js";

const frame = (width, height, label, ...content) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...content);
const path = (points) =>
  points.length ? "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L") : "";
const text = (x, y, words, anchor = "start") => svg("text", { class: "tick", x, y, "text-anchor": anchor }, words);

export function histogram({ counts, edges }) {
  const most = Math.max(...counts),
    width = 420,
    height = 156,
    step = (width - 40) / counts.length;
  const low = Math.ceil(edges[0]),
    high = Math.floor(edges[edges.length - 1]);
  const bars = counts.map((n, k) =>
    svg("rect", {
      x: 30 + k * step + 0.5,
      y: 120 - (n / most) * 105,
      width: Math.max(1, step - 1),
      height: (n / most) * 105,
      fill: COLORS[4],
    }),
  );
  const label = `Lengths of the sequences, from ${low} to ${high} observations; the most common length has ${most} sequences.`;
  return frame(
    width,
    height,
    label,
    ...bars,
    svg("path", { class: "frame", d: `M30,120H${width - 8}` }),
    text(30, 136, String(low)),
    text(width - 10, 136, low === high ? "" : String(high), "end"),
    text((width + 20) / 2, 148, "observations per sequence", "middle"),
    text(26, 22, String(most), "end"),
  );
}
const captioned = (one, width, height, label, ...content) =>
  el("figure", {}, frame(width, height, label, ...content), el("figcaption", {}, one.name));
// Whether two numbers are a place; categories are not.
export const isPlane = ({ channels }) => channels.length === 2 && !channels.some((channel) => channel.categories);
// A few sequences: paths over the picture in two dimensions, curves over time otherwise.
export function drawSequences(found, picture, extent) {
  return isPlane(found)
    ? found.drawn.slice(0, 6).map((one) => drawPath(one, found, picture, extent))
    : found.drawn.slice(0, 6).map((one) => drawCurves(one, found));
}
function drawPath(one, found, picture, extent) {
  const [a, b] = found.channels;
  const pad = (low, high) => [low - 0.05 * (high - low || 1), high + 0.05 * (high - low || 1)];
  let [left, right] = pad(a.low ?? 0, a.high ?? 1),
    [top, bottom] = picture ? pad(b.low ?? 0, b.high ?? 1) : pad(b.low ?? 0, b.high ?? 1).reverse();
  if (extent) [left, right, bottom, top] = extent;
  else if (picture) [left, right, bottom, top] = [0, picture.naturalWidth, picture.naturalHeight, 0];
  const width = 220,
    ratio = Math.abs((bottom - top) / (right - left)),
    height = Math.min(300, Math.max(110, width * (ratio > 0.3 && ratio < 3 ? ratio : 0.8)));
  const points = one.x
    .filter(([x, y]) => x !== null && y !== null)
    .map(([x, y]) => [((x - left) / (right - left)) * width, ((y - top) / (bottom - top)) * height]);
  const image = picture
    ? [svg("image", { href: picture.src, x: 0, y: 0, width, height, preserveAspectRatio: "none", opacity: 0.75 })]
    : [];
  const dots = points.slice(0, 60).map(([x, y], k) =>
    svg("circle", {
      cx: x,
      cy: y,
      r: k ? 3 : 5,
      fill: k ? COLORS[4] : COLORS[0],
      stroke: "#fff",
      "stroke-width": 0.8,
    }),
  );
  return captioned(
    one,
    width,
    height,
    `Sequence ${one.name}: ${one.frames} observations of ${a.name} and ${b.name}.`,
    ...image,
    svg("rect", { class: "frame", x: 0.5, y: 0.5, width: width - 1, height: height - 1 }),
    svg("path", { class: "trace-edge", d: path(points) }),
    svg("path", { class: "trace", d: path(points) }),
    ...dots,
  );
}
function drawCurves(one, found) {
  const width = 220,
    height = 90,
    shown = found.channels.slice(0, 8);
  const last = shown.some((channel) => channel.categories) ? one.x.length : Math.max(1, one.x.length - 1);
  const X = (t) => 4 + (t / last) * (width - 8);
  const lanes = shown.filter((channel) => channel.categories),
    thick = lanes.length === shown.length ? (height - 12) / lanes.length : 14,
    floor = height - 6 - thick * lanes.length;
  const lines = shown.flatMap((channel, d) => {
    if (channel.categories) return cells(one, d, X, floor + thick * lanes.indexOf(channel), thick);
    const low = channel.low ?? 0,
      high = channel.high ?? 1;
    const points = one.x
      .map((row, t) => [X(t), 6 + (1 - (row[d] - low) / (high - low || 1)) * (floor - 6), row[d]])
      .filter((p) => p[2] !== null);
    return svg("path", { d: path(points), fill: "none", stroke: COLORS[(d + 4) % 8], "stroke-width": 1.6 });
  });
  return captioned(
    one,
    width,
    height,
    `Sequence ${one.name}: ${one.frames} observations over time.`,
    svg("rect", { class: "frame", x: 0.5, y: 0.5, width: width - 1, height: height - 1 }),
    ...lines,
  );
}
// Categories over time: a coloured cell for every stretch of the same one.
function cells(one, d, X, y, thick) {
  return stretches(one.x.map((row) => row[d]))
    .filter(([v]) => v !== null)
    .map(([v, from, to]) =>
      svg("rect", { x: X(from), y, width: X(to) - X(from), height: thick - 1, fill: categoryColor(v) }),
    );
}
// The bound as it rises, one line per restart.
export function boundCurve(bounds) {
  const width = 560,
    height = 200,
    restarts = new Map();
  bounds.forEach(([restart, iteration, bound]) =>
    restarts.set(restart, [...(restarts.get(restart) || []), [iteration, bound]]),
  );
  const later = bounds.filter(([, iteration]) => iteration > 0).map((row) => row[2]);
  const values = later.length > 1 ? later : bounds.map((row) => row[2]);
  const high = Math.max(...values),
    low = Math.min(...values),
    last = Math.max(2, ...bounds.map((row) => row[1]));
  const X = (t) => 74 + (t / last) * (width - 90),
    Y = (v) => 160 - (Math.max(0, v - low) / (high - low || 1)) * 145;
  const lines = [...restarts.values()].map((points, k) =>
    svg("path", {
      d: path(points.map(([t, v]) => [X(t), Y(v)])),
      fill: "none",
      stroke: COLORS[(k + 4) % 8],
      "stroke-width": k === restarts.size - 1 ? 3 : 1.3,
    }),
  );
  const [, , now] = bounds[bounds.length - 1];
  return frame(
    width,
    height,
    `The bound over the iterations; it is ${short(Number(now.toPrecision(7)))} now.`,
    svg("path", { class: "frame", d: `M74,8V164H${width - 12}` }),
    ...lines,
    text(70, Y(high) + 8, tick(high, high - low), "end"),
    high > low ? text(70, Y(low), tick(low, high - low), "end") : "",
    text(74, 180, "0"),
    text(width - 14, 180, `iteration ${last}`, "end"),
  );
}
