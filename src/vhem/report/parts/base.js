// What all parts of the report share: the data, its colours and names, the tree's arithmetic.
const DATA = JSON.parse(document.getElementById("data").textContent);
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
