// What the report and the app share: colours, elements whose text is always text, numbers as people read them.
const COLORS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999"];
// Categories have their own, lighter ones, so that they are not mistaken for states: Tol's light scheme.
const CATEGORY_COLORS = ["#77AADD", "#EE8866", "#BBCC33", "#FFAABB", "#44BB99", "#EEDD88", "#99DDFF", "#AAAA00"];
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, v]) => node.style.setProperty(key, v));
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function percent(p) {
  return (
    (p > 0 && p < 0.001 ? "< 0.1" : (100 * p).toFixed(p > 0.9995 || p === 0 || (p >= 0.1 && p <= 0.9) ? 0 : 1)) + " %"
  );
}
function short(x) {
  if (x === null) return "–";
  const size = Math.abs(x);
  return size >= 1e6 || (size > 0 && size < 1e-3) ? x.toExponential(2) : String(Number(x.toPrecision(4)));
}
const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
// The label of a tick on an axis that covers `span`: with as many digits as neighbouring ticks need to differ.
function tick(value, span) {
  const places = span > 0 ? Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(span)))) : 2;
  return Math.abs(value) >= 1e7 ? short(value) : String(Number(value.toFixed(places)));
}
// The k-th of some colours; when they are used up they are repeated, mixed with black or white as each of `mixes` says.
const [DARKER, LIGHTER] = [
  [0, 0.4],
  [255, 0.5],
];
function shade(colors, k, mixes) {
  const [towards, part] = [[0, 0], ...mixes][Math.floor(k / colors.length) % 3];
  const hex = colors[k % colors.length];
  const mixed = [1, 3, 5].map((at) => Math.round(parseInt(hex.slice(at, at + 2), 16) * (1 - part) + towards * part));
  return `rgb(${mixed.join(", ")})`;
}
function categoryColor(k) {
  // eight distinct colours, then lighter, then darker ones: as in vhem.plotting
  return shade(CATEGORY_COLORS, k, [LIGHTER, DARKER]);
}
// Stretches of the same value: [value, begin, end].
function stretches(values) {
  const out = [];
  values.forEach((v, t) => {
    if (out.length && out[out.length - 1][0] === v) out[out.length - 1][2] = t + 1;
    else out.push([v, t, t + 1]);
  });
  return out;
}
