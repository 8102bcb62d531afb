// What is shown of a chosen node: its HMM, its states in words and numbers, its members or its sequences.
const MANY_BEHIND = 150; // members drawn behind a centre
const link = (text, level, index) =>
  el("button", { class: "link", type: "button", onclick: () => select(level, index) }, text);
const disc = (model, s) =>
  el(
    "span",
    { class: "state", style: { background: color(stateColor(model, s)), color: inkOn(stateColor(model, s)) } },
    String(s + 1),
  );

// How sure a posterior is of a mean, and of a transition.
const knownTo = (model, s, d) =>
  model.unsure && model.unsure.mean ? ` ± ${short(Number(model.unsure.mean[s][d].toPrecision(2)))}` : "";
const between = (model, s, t) =>
  model.unsure && model.start.length > 1
    ? el("small", { class: "interval" }, ` ${Math.round(100 * model.unsure.low[s][t])}–${Math.round(100 * model.unsure.high[s][t])}`)
    : null;

function stateTable(model) {
  const S = model.start.length,
    where = DATA.dims <= 8 && !DATA.channels,
    words = (DATA.channels || []).slice(0, 6);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, "State"),
    el("th", { scope: "col" }, "Time"),
    el("th", { scope: "col" }, "Start"),
    where ? Array.from({ length: DATA.dims }, (_, d) => el("th", { scope: "col" }, `${dimension(d)} (sd)`)) : [],
    words.map((channel) => el("th", { scope: "col" }, channel.name)),
    Array.from({ length: S }, (_, t) =>
      el("th", { scope: "col", "aria-label": `then state ${t + 1}` }, "→ ", disc(model, t)),
    ),
  );
  const rows = model.start.map((start, s) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, disc(model, s)),
      el("td", {}, percent(model.time[s])),
      el("td", {}, percent(start)),
      where
        ? model.mean[s].map((x, d) =>
            el("td", {}, `${short(Number(x.toPrecision(4)))}${knownTo(model, s, d)} (${short(Number(model.sd[s][d].toPrecision(2)))})`),
          )
        : [],
      words.map((channel, c) => el("td", {}, model.words[s][c].slice(channel.name.length).replace(/^:? /, ""))),
      model.next[s].map((p, t) => el("td", { style: { "--share": String(p) } }, percent(p), between(model, s, t))),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "States in numbers" },
    el(
      "table",
      { class: "matrix" },
      el(
        "caption",
        {},
        `States: share of time in sequences of ${DATA.tau} frames, of starts, where, and what comes next${model.unsure ? "; ± is the standard deviation of a mean, small numbers are 95 % intervals" : ""}`,
      ),
      el("thead", {}, head),
      el("tbody", {}, rows),
    ),
  );
}
function figureOf(level, index) {
  const model = DATA.layers[level][index];
  if (!model) return el("p", { class: "muted" }, "This member's own HMM is not part of this file.");
  const leaves = level ? LEAVES[level][index] : [],
    step = Math.ceil(leaves.length / MANY_BEHIND) || 1;
  const behind = DATA.layers[0].length ? leaves.filter((_, k) => k % step === 0).map((k) => DATA.layers[0][k]) : [];
  return el("div", { class: `figure${IS_MAP ? " map" : ""}` }, drawModel(model, { behind }));
}
function breadcrumbs(path) {
  if (path.length < 2) return null;
  return el(
    "nav",
    { class: "path", "aria-label": "Above this", style: { position: "static", border: "0" } },
    path.slice(0, -1).flatMap(([l, k]) => [link(nodeName(l, k), l, k), "›"]),
  );
}
function clusterParts(level, index) {
  const leaves = LEAVES[level][index];
  const parts = [
    el(
      "p",
      { class: "muted" },
      `${count(leaves.length, "member")} of ${N.toLocaleString("en")}, weight ${percent(DATA.weights[level - 1][index])}`,
    ),
    mixBar(leaves),
  ];
  const below =
    level > 1
      ? [
          el("h4", {}, "Made of"),
          el(
            "ul",
            { class: "tags" },
            CHILDREN[level - 1][index].map((child) => el("li", {}, link(nodeName(level - 1, child), level - 1, child))),
          ),
        ]
      : [];
  const sure = leaves.slice().sort((a, b) => (share(b) || 0) - (share(a) || 0));
  const names = sure
    .slice(0, 200)
    .map((k) =>
      el(
        "li",
        {},
        link(DATA.members.names[k], 0, k),
        share(k) !== null && share(k) < 0.995 ? ` ${percent(share(k))}` : "",
      ),
    );
  if (sure.length > 200) names.push(el("li", { class: "muted" }, `and ${sure.length - 200} more, in the table below`));
  return [
    ...parts,
    ...categoryParts(leaves),
    ...below,
    el("h4", {}, "Members"),
    el("ul", { class: "tags", id: "member-list", tabindex: 0, "aria-label": "Members" }, names),
  ];
}
function memberParts(index) {
  const known = className(index),
    shares = DATA.members.shares[index];
  const parts = [known === null ? null : el("p", {}, "Known class: ", el("b", {}, known))];
  if (shares)
    parts.push(
      el("h4", {}, "Belongs to"),
      el(
        "table",
        { class: "facts" },
        el("caption", { class: "unseen" }, "Responsibilities"),
        el(
          "tbody",
          {},
          shares.map(([k, p]) =>
            el("tr", {}, el("th", { scope: "row" }, link(nodeName(1, k), 1, k)), el("td", {}, meter(p), percent(p))),
          ),
        ),
      ),
    );
  return parts;
}
const meter = (p) =>
  el("span", { class: "share meter", "aria-hidden": "true" }, el("i", { style: { width: `${100 * p}%` } }));

function sequenceParts(index) {
  const own = (DATA.sequences || []).filter((s) => s.of === index);
  if (!own.length) return [];
  const model = DATA.decodedBy === "member" ? DATA.layers[0][index] : DATA.layers[1][clusterOf[index]];
  const place = el("div", { class: `figure${IS_MAP ? " map" : ""}`, id: "sequence" });
  const choice = el(
    "select",
    { id: "sequence-choice", onchange: () => show(choice.selectedIndex) },
    own.map((s) => el("option", {}, s.name)),
  );
  const caption = el("p", { class: "muted" });
  const show = (k) => {
    choice.selectedIndex = k;
    place.replaceChildren(drawSequence(own[k], model));
    caption.textContent = `${count(own[k].path.length * own[k].step, "frame")}${own[k].step > 1 ? ` (approximately; 1 in ${own[k].step} is drawn)` : ""}; colours are the likeliest states under ${DATA.decodedBy === "member" ? "this member's own HMM" : "the centre of its cluster"}.`;
    before.disabled = k === 0;
    after.disabled = k === own.length - 1;
  };
  const before = el("button", { type: "button", onclick: () => show(choice.selectedIndex - 1) }, "Previous");
  const after = el("button", { type: "button", onclick: () => show(choice.selectedIndex + 1) }, "Next");
  const total = DATA.members.sequences[index];
  const parts = [
    el("h4", {}, `Sequences (${own.length}${own.length < total ? ` of ${total}` : ""})`),
    el("div", { class: "pages" }, el("label", {}, el("span", { class: "unseen" }, "Sequence"), choice), before, after),
    place,
    caption,
  ];
  show(0);
  return parts;
}
function showDetails(level, index, path) {
  const model = DATA.layers[level][index],
    heading = el("h3", { id: "details-title" }, nodeName(level, index));
  const right = level ? clusterParts(level, index) : [...memberParts(index), ...sequenceParts(index)];
  byId("details").replaceChildren(
    ...[
      breadcrumbs(path),
      heading,
      el("div", { class: `side${IS_MAP ? " map" : ""}` }, figureOf(level, index), el("div", {}, right)),
      model ? stateTable(model) : null,
    ].filter(Boolean),
  );
}
