// The tree, twice: as bars as wide as their members, and as a list to walk by keyboard.
const CHUNK = 300; // members shown at once below a node
const selected = { level: TOP, index: 0 };

function classGradient(leaves) {
  if (!DATA.members.class) return null;
  const counts = classMix(leaves),
    total = leaves.length || 1,
    stops = [];
  let done = 0;
  counts.forEach((n, k) => {
    if (n) {
      stops.push(`${classColor(k)} ${(100 * done) / total}% ${(100 * (done + n)) / total}%`);
      done += n;
    }
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(",")})` : null;
}
function startBars() {
  const order = DATA.layers[TOP].flatMap((_, index) => LEAVES[TOP][index]);
  for (let level = TOP; level >= 1; level -= 1) {
    const nodes = level === TOP ? DATA.layers[TOP].map((_, k) => k) : orderAt(level);
    const track = el(
      "div",
      { class: "track" },
      nodes
        .filter((k) => LEAVES[level][k].length)
        .map((k) => {
          const n = LEAVES[level][k].length,
            gradient = classGradient(LEAVES[level][k]);
          return el(
            "button",
            {
              type: "button",
              "data-node": `${level}.${k}`,
              title: `${nodeName(level, k)}: ${count(n, "member")}`,
              style: { "flex-grow": String(n), ...(gradient ? { background: gradient } : {}) },
              onclick: () => select(level, k),
            },
            el("span", { class: n / N > 0.025 ? "" : "unseen" }, String(k + 1)),
          );
        }),
    );
    byId("bars").append(
      el("div", { class: "row" }, el("span", { class: "name" }, count(DATA.layers[level].length, "cluster")), track),
    );
  }
  const strip = svg("svg", { viewBox: `0 0 ${N} 1`, preserveAspectRatio: "none", "aria-hidden": "true" });
  order.forEach((k, x) =>
    strip.append(
      svg("rect", {
        x: x + 0.05,
        y: 0,
        width: 0.9,
        height: 1,
        fill: DATA.members.class ? classColor(DATA.members.class[k]) : clusterOf[k] % 2 ? "#8fb4cf" : "#5d8fb3",
      }),
    ),
  );
  strip.addEventListener("click", (event) => {
    const box = strip.getBoundingClientRect();
    select(0, order[Math.min(N - 1, Math.floor(((event.clientX - box.left) / box.width) * N))]);
  });
  byId("bars").append(
    el(
      "div",
      { class: "row" },
      el("span", { class: "name" }, count(N, "member")),
      el("div", { class: "track" }, strip),
    ),
  );
  if (DATA.members.class)
    byId("bars").append(
      el(
        "ul",
        { class: "keys" },
        DATA.members.classes
          .slice(0, 24)
          .map((name, k) => el("li", {}, el("b", { style: { background: classColor(k) } }), name)),
      ),
    );
}
function orderAt(level) {
  let nodes = DATA.layers[TOP].map((_, k) => k);
  for (let l = TOP; l > level; l -= 1) nodes = nodes.flatMap((k) => CHILDREN[l - 1][k]);
  return nodes;
}

function treeItem(level, index, position, size) {
  const children = level ? CHILDREN[level - 1][index] : [];
  const extra = level
    ? [LEAVES[level][index].length.toLocaleString("en"), el("span", { class: "unseen" }, " members")]
    : share(index) !== null && share(index) < 0.995
      ? percent(share(index))
      : null;
  const item = el(
    "li",
    {
      role: "treeitem",
      tabindex: -1,
      "data-node": `${level}.${index}`,
      "aria-level": TOP - level + 1,
      "aria-posinset": position + 1,
      "aria-setsize": size,
      "aria-selected": "false",
      "aria-expanded": children.length ? "false" : null,
    },
    el(
      "div",
      { class: "label" },
      el("span", { class: "twist", "aria-hidden": "true" }, children.length ? "▸" : ""),
      el("span", {}, nodeName(level, index)),
      extra ? el("small", {}, extra) : null,
    ),
  );
  item.node = { level, index };
  return item;
}
function expand(item, open) {
  if (!item.hasAttribute("aria-expanded")) return;
  item.setAttribute("aria-expanded", String(open));
  const { level, index } = item.node;
  let group = item.querySelector(":scope > [role=group]");
  if (!group && open) {
    group = el("ul", { role: "group", class: "twigs" });
    item.append(group);
    addTwigs(group, level - 1, CHILDREN[level - 1][index], 0);
  }
  if (group) group.hidden = !open;
}
function addTwigs(group, level, children, from) {
  const part = children.slice(from, from + CHUNK).map((child, k) => treeItem(level, child, from + k, children.length));
  group.append(...part);
  if (from + CHUNK >= children.length) return;
  const more = el(
    "li",
    { role: "treeitem", tabindex: -1, "aria-level": TOP - level + 1 },
    el(
      "div",
      { class: "label" },
      el("span", { class: "twist" }),
      el("em", {}, `show more (${children.length - from - CHUNK} left)`),
    ),
  );
  more.more = () => {
    more.remove();
    addTwigs(group, level, children, from + CHUNK);
    focusItem(group.children[from + CHUNK]);
  };
  group.append(more);
}
const tree = byId("tree");
const visibleItems = () =>
  [...tree.querySelectorAll("[role=treeitem]")].filter((item) => !item.parentElement.closest("[hidden]"));
function focusItem(item) {
  if (!item) return;
  tree.querySelectorAll('[tabindex="0"]').forEach((old) => old.setAttribute("tabindex", "-1"));
  item.setAttribute("tabindex", "0");
  item.focus({ preventScroll: true });
  keepInView(item);
}
function keepInView(item) {
  // scrolls the tree alone, never the page
  const box = tree.getBoundingClientRect(),
    label = item.querySelector(".label").getBoundingClientRect();
  if (label.top < box.top) tree.scrollTop -= box.top - label.top + 8;
  else if (label.bottom > box.bottom) tree.scrollTop += label.bottom - box.bottom + 8;
}
function activate(item) {
  if (item.more) item.more();
  else select(item.node.level, item.node.index);
}
function treeKey(event) {
  const item = event.target.closest("[role=treeitem]");
  if (!item) return;
  const items = visibleItems(),
    at = items.indexOf(item),
    open = item.getAttribute("aria-expanded");
  const moves = {
    ArrowDown: () => focusItem(items[at + 1]),
    ArrowUp: () => focusItem(items[at - 1]),
    Home: () => focusItem(items[0]),
    End: () => focusItem(items[items.length - 1]),
    ArrowRight: () => (open === "false" ? expand(item, true) : open === "true" ? focusItem(items[at + 1]) : null),
    ArrowLeft: () => (open === "true" ? expand(item, false) : focusItem(item.parentElement.closest("[role=treeitem]"))),
    Enter: () => activate(item),
    " ": () => activate(item),
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}
function startTree() {
  const roots = DATA.layers[TOP].length;
  DATA.layers[TOP].forEach((_, index) => tree.append(treeItem(TOP, index, index, roots)));
  tree.addEventListener("keydown", treeKey);
  tree.addEventListener("click", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    if (event.target.closest(".twist") && item.hasAttribute("aria-expanded"))
      expand(item, item.getAttribute("aria-expanded") === "false");
    else {
      if (item.node && item.node.level > 0) expand(item, true);
      activate(item);
    }
    if (item.isConnected) focusItem(item);
  });
}
function ancestors(level, index) {
  // from the top down to the node
  const path = [[level, index]];
  for (let l = level, k = index; l < TOP; l += 1) {
    k = DATA.parents[l][k];
    path.unshift([l + 1, k]);
  }
  return path;
}

// Chooses a node everywhere: bars, tree and details.
function select(level, index) {
  Object.assign(selected, { level, index });
  document.querySelectorAll("#bars [aria-current]").forEach((b) => b.removeAttribute("aria-current"));
  const bar = document.querySelector(`#bars [data-node="${Math.max(1, level)}.${level ? index : clusterOf[index]}"]`);
  if (bar) bar.setAttribute("aria-current", "true");
  const path = ancestors(level, index);
  path.slice(0, -1).forEach(([l, k]) => {
    const item = tree.querySelector(`[data-node="${l}.${k}"]`);
    if (item) expand(item, true);
  });
  tree.querySelectorAll('[aria-selected="true"]').forEach((old) => old.setAttribute("aria-selected", "false"));
  const item = tree.querySelector(`[data-node="${level}.${index}"]`);
  tree.querySelectorAll('[tabindex="0"]').forEach((old) => old.setAttribute("tabindex", "-1"));
  (item || tree.firstElementChild).setAttribute("tabindex", "0");
  if (item) {
    item.setAttribute("aria-selected", "true");
    keepInView(item);
  }
  showDetails(level, index, path);
  say(`${nodeName(level, index)} is shown`);
}
