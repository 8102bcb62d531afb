// What all parts share: the data, elements whose text is always text, colours, numbers, the tree's arithmetic.
const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999"];
// Known classes have their own colours, so that they are not mistaken for states: Tol's muted scheme, safe for colour-blind readers.
const CLASS_COLORS = [
  "#88CCEE",
  "#CC6677",
  "#DDCC77",
  "#117733",
  "#332288",
  "#AA4499",
  "#44AA99",
  "#999933",
  "#882255",
  "#BBBBBB",
];
const TOP = DATA.parents.length;
const N = DATA.members.names.length;

const color = (k) => COLORS[k % COLORS.length];
function classColor(k) {
  // beyond ten classes the same hues are repeated darker, then lighter
  const [towards, part] = [
    [0, 0],
    [0, 0.4],
    [255, 0.5],
  ][Math.floor(k / CLASS_COLORS.length) % 3];
  const hex = CLASS_COLORS[k % CLASS_COLORS.length];
  const mixed = [1, 3, 5].map((at) => Math.round(parseInt(hex.slice(at, at + 2), 16) * (1 - part) + towards * part));
  return `rgb(${mixed.join(", ")})`;
}
const inkOn = (k) => (["#0072B2", "#D55E00"].includes(color(k)) ? "#ffffff" : "#111111");
const stateColor = (model, s) => (model.like ? model.like[s] : s);
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
const dimension = (k) =>
  DATA.dimensionNames ? DATA.dimensionNames[k] : DATA.dims === 1 ? "value" : `dimension ${k + 1}`;

// Children and members of every node: level 0 are the members, level TOP the top.
const CHILDREN = DATA.parents.map((parent, level) => {
  const below = DATA.layers[level + 1].map(() => []);
  parent.forEach((k, child) => below[k].push(child));
  return below;
});
const LEAVES = [Array.from({ length: N }, (_, k) => [k])];
CHILDREN.forEach((below, level) => LEAVES.push(below.map((list) => list.flatMap((child) => LEAVES[level][child]))));
const clusterOf = DATA.parents[0];

const nodeName = (level, index) =>
  level === 0 ? DATA.members.names[index] : TOP === 1 ? `Cluster ${index + 1}` : `Level ${level}, cluster ${index + 1}`;
const share = (k) => (DATA.members.shares.length ? (DATA.members.shares[k][0] || [0, 0])[1] : null);
const className = (k) => (DATA.members.class ? DATA.members.classes[DATA.members.class[k]] : null);

function classMix(leaves) {
  const counts = DATA.members.classes.map(() => 0);
  leaves.forEach((k) => (counts[DATA.members.class[k]] += 1));
  return counts;
}
function say(text) {
  byId("said").textContent = text;
}
