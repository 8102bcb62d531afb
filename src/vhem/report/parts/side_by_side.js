// Two clusterings side by side: the table of both, matched centres, and the members that changed sides.
const [ONE, OTHER] = DATA.sides;
const FOUND = DATA.found;

function agreementText() {
  const same = FOUND.common - FOUND.moved.length,
    only = FOUND.only[0] + FOUND.only[1];
  const left = only ? ` ${only} are in one of the two only, and are not counted.` : "";
  return `${same.toLocaleString("en")} of ${FOUND.common.toLocaleString("en")} members are in clusters that correspond. Adjusted Rand index ${FOUND.agreement.toFixed(2)}: 1 means the same clusters, 0 no more agreement than by chance.${left}`;
}
function drawCrossed() {
  const head = el(
    "tr",
    {},
    el("td", {}),
    OTHER.names.map((name) => el("th", { scope: "col" }, name)),
  );
  const rows = FOUND.table.map((row, i) => {
    const total = row.reduce((a, b) => a + b, 0) || 1;
    const cells = row.map((n) => el("td", { style: { "--share": String(n / total) } }, n ? String(n) : "·"));
    return el("tr", {}, el("th", { scope: "row" }, ONE.names[i]), cells);
  });
  byId("crossed").append(
    el("caption", {}, `Members by cluster of ${ONE.title} (rows) and of ${OTHER.title} (columns)`),
    el("thead", {}, head),
    el("tbody", {}, rows),
  );
}
function half(side, k, offset) {
  if (k === null) return el("div", { class: "card" }, el("p", { class: "muted" }, "No cluster corresponds."));
  const title = el("h3", {}, side.names[k], el("span", {}, `${side.title}, ${count(side.sizes[k], "member")}`));
  const figure = el("div", { class: "figure" }, drawModel(DATA.layers[1][offset + k], { small: true }));
  return el("div", { class: "card" }, title, figure);
}
function drawPairs() {
  const left = ONE.names.map((_, i) => i).filter((i) => !FOUND.pairs.some((pair) => pair[0] === i));
  const right = OTHER.names.map((_, j) => j).filter((j) => !FOUND.pairs.some((pair) => pair[1] === j));
  const all = [...FOUND.pairs, ...left.map((i) => [i, null, null]), ...right.map((j) => [null, j, null])];
  const rows = all.map(([i, j, apart]) =>
    el(
      "div",
      { class: "pair" },
      half(ONE, i, 0),
      half(OTHER, j, ONE.names.length),
      apart === null ? null : el("p", { class: "muted" }, `${short(apart)} nats per frame apart`),
    ),
  );
  byId("pairs").append(...rows);
  byId("legend").textContent =
    "Matched so that as many members as possible stay together. States that correspond have the same colour.";
}
function showMoved() {
  if (!FOUND.moved.length) {
    byId("moved").append(el("p", {}, "Nobody."));
    return;
  }
  const rows = FOUND.moved
    .slice(0, 300)
    .map(([name, i, j]) =>
      el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, ONE.names[i]), el("td", {}, OTHER.names[j])),
    );
  const head = ["Member", ONE.title, OTHER.title].map((name) => el("th", { scope: "col" }, name));
  byId("moved").append(
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Members that changed sides" },
      el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
    ),
  );
  if (FOUND.moved.length > 300)
    byId("moved").append(el("p", { class: "muted" }, `and ${FOUND.moved.length - 300} more`));
}
byId("sentence").textContent = agreementText();
drawCrossed();
drawPairs();
showMoved();
