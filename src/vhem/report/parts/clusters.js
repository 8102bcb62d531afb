// The cards: every centre of a level drawn, with its size and its mix of classes. Drawn when they come into view.
const LEGEND = {
  channels:
    "Each panel shows how probable the values of a channel are in every state; the colours are those of the states.",
  1: "Each curve shows where a state's values lie, scaled by the share of time spent in it.",
  2: "Each ellipse shows where a state's observations lie (two standard deviations).",
  3: "Each line is the mean of a state over the dimensions, in standard deviations of each dimension from its mean; bands are one standard deviation of the state.",
};
function legend() {
  const chainText =
    " Arrows are as wide as the probability of going there next (from 5 %), loops as that of staying; the dark part of a number's ring is the probability of starting there.";
  const likeText = DATA.layers[0].length
    ? " States that are alike have the same colour, in all clusters and members."
    : " States that are alike have the same colour in all clusters.";
  return (
    LEGEND[DATA.channels ? "channels" : Math.min(3, DATA.dims)] +
    ((DATA.channels || []).some((c) => c.kind !== "bars")
      ? " Amounts, counts and angles are scaled by the share of time spent in the state."
      : "") +
    (DATA.layers[1].some((m) => m.seen) ? " Grey is what was observed in the cluster's sequences." : "") +
    (DATA.dims === 2 && DATA.layers[1].some((m) => m.unsure && m.unsure.share)
      ? " The dashed ellipse is where its mean lies with a probability of 95 %."
      : "") +
    (DATA.dims <= 2 && !DATA.channels
      ? chainText
      : " Open a cluster to see its chain, with arrows as wide as their probability.") +
    likeText
  );
}
function mixBar(leaves) {
  if (!DATA.members.class) return null;
  const counts = classMix(leaves),
    total = leaves.length || 1;
  const shown = counts
    .map((n, k) => [n, k])
    .filter(([n]) => n)
    .sort((a, b) => b[0] - a[0]);
  const keys = shown
    .slice(0, 6)
    .map(([n, k]) =>
      el("li", {}, el("b", { style: { background: classColor(k) } }), `${DATA.members.classes[k]} ${n}`),
    );
  if (shown.length > 6) keys.push(el("li", { class: "muted" }, `and ${shown.length - 6} more`));
  return el(
    "div",
    {},
    el(
      "div",
      { class: "mix", "aria-hidden": "true" },
      shown.map(([n, k]) => el("i", { style: { flex: String(n / total), background: classColor(k) } })),
    ),
    el("ul", { class: "keys" }, keys),
  );
}
function card(level, index) {
  const leaves = LEAVES[level][index],
    place = el("div", { class: "figure" });
  place.draw = () => place.replaceChildren(drawModel(DATA.layers[level][index], { small: true }));
  const open = el(
    "button",
    {
      class: "button",
      type: "button",
      onclick: () => {
        select(level, index);
        byId("explore").scrollIntoView();
        byId("details").focus({ preventScroll: true });
      },
    },
    "Open",
    el("span", { class: "unseen" }, ` ${nodeName(level, index)}`),
  );
  return el(
    "li",
    { class: "card" },
    el(
      "h3",
      {},
      level === 1 ? clusterName(index) : `Cluster ${index + 1}`,
      el("span", {}, `${count(leaves.length, "member")}, ${percent(leaves.length / N)}`),
    ),
    el(
      "div",
      { class: "meter", "aria-hidden": "true" },
      el("i", { style: { width: `${(100 * leaves.length) / N}%` } }),
    ),
    place,
    mixBar(leaves),
    el("div", {}, open),
  );
}
const inView = new IntersectionObserver(
  (entries) =>
    entries
      .filter((e) => e.isIntersecting)
      .forEach((e) => {
        inView.unobserve(e.target);
        e.target.draw();
      }),
  { rootMargin: "300px" },
);
function showCards(level) {
  const cards = DATA.layers[level].map((_, index) => card(level, index));
  byId("cards").classList.toggle("profiles", !IS_MAP);
  byId("cards").replaceChildren(...cards);
  cards.forEach((c) => inView.observe(c.querySelector(".figure")));
  byId("level-choice")
    .querySelectorAll("button")
    .forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.level) === level)));
}
function startCards() {
  byId("legend").textContent = legend();
  if (TOP > 1) {
    byId("level-choice").hidden = false;
    for (let level = TOP; level >= 1; level -= 1)
      byId("level-choice").append(
        el(
          "button",
          { type: "button", "data-level": level, onclick: () => showCards(level) },
          `Level ${level}: ${count(DATA.layers[level].length, "cluster")}`,
        ),
      );
  }
  showCards(TOP > 1 && DATA.layers[1].length > 12 ? TOP : 1);
}
