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
const IS_MAP = DATA.dims === 2 && !DATA.channels; // pictures in the plane of two numbers
const TOP = DATA.parents.length;
const N = DATA.members.names.length;

// Colours of states: those that were chosen, then the usual ones.
const PALETTE = [...DATA.colors, ...COLORS.slice(DATA.colors.length)];
const color = (k) => PALETTE[k % PALETTE.length];
function classColor(k) {
  // beyond ten classes the same hues are repeated darker, then lighter
  return shade(CLASS_COLORS, k, [DARKER, LIGHTER]);
}
function inkOn(k) {
  // black or white, whichever has more contrast on the colour
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(color(k).slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#111111" : "#ffffff";
}
const cut = (text, n) => (text.length > n ? `${text.slice(0, Math.max(1, Math.floor(n) - 1))}…` : text);
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

// Clusters of the first level may have names; all others are numbered.
const clusterName = (index) => DATA.clusterNames[index] || `Cluster ${index + 1}`;
function nodeName(level, index) {
  if (level === 0) return DATA.members.names[index];
  if (TOP === 1) return clusterName(index);
  return (level === 1 && DATA.clusterNames[index]) || `Level ${level}, cluster ${index + 1}`;
}
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
