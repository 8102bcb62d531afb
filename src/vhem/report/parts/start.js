// How the fit went, and the start of everything.
function drawBounds() {
  const restarts = DATA.restarts.filter((r) => r.bounds.length);
  if (!restarts.length) return;
  const best = restarts.reduce((a, b) => (b.bounds[b.bounds.length - 1] > a.bounds[a.bounds.length - 1] ? b : a));
  const kinds = [...new Set(restarts.map((r) => r.init))],
    later = restarts.flatMap((r) => (r.bounds.length > 2 ? r.bounds.slice(1) : r.bounds)).sort((a, b) => a - b);
  const high = best.bounds[best.bounds.length - 1],
    floor = later[Math.floor(later.length / 10)],
    low = high > floor ? floor : high - 1;
  if (restarts.every((r) => r.bounds.length < 3)) return; // a single iteration is not a curve
  const longest = Math.max(2, ...restarts.map((r) => r.bounds.length)),
    width = 480,
    height = 220;
  const X = (t) => 70 + (t / (longest - 1)) * (width - 85),
    Y = (v) => 180 - ((Math.max(v, low - 0.05 * (high - low)) - low) / (high - low)) * 160;
  const lines = restarts.map((r) =>
    svg("path", {
      ...LINE,
      d: asPath(r.bounds.map((b, t) => [X(t), Y(b)])),
      stroke: color(4 + kinds.indexOf(r.init)),
      "stroke-width": r === best ? 3 : 1.2,
      "stroke-dasharray": DASHES[kinds.indexOf(r.init) % 6],
      opacity: r === best ? 1 : 0.8,
    }),
  );
  const end = svg("circle", {
    cx: X(best.bounds.length - 1),
    cy: Y(high),
    r: 4.5,
    fill: color(4 + kinds.indexOf(best.init)),
  });
  const label = `Lower bound of ${count(restarts.length, "restart")} over iterations. The best, from start ${best.init}, ended at ${short(high)} after ${count(best.bounds.length - 1, "iteration")}.`;
  byId("bounds").append(
    el(
      "h3",
      {},
      `Bound of ${TOP > 1 ? "the first level's " : ""}${count(restarts.length, "restart")}; the one kept is bold`,
    ),
    picture(
      width,
      height,
      label,
      ...lines,
      end,
      svg("path", { class: "frame", d: `M70,10V185H${width - 10}` }),
      ...[low, (low + high) / 2, high].map((v) =>
        svg("text", { class: "tick", x: 65, y: Y(v) + 4, "text-anchor": "end" }, tick(v, high - low)),
      ),
      svg("text", { class: "tick", x: 70, y: 198 }, "0"),
      svg("text", { class: "tick", x: width - 15, y: 198, "text-anchor": "end" }, count(longest - 1, "iteration")),
    ),
    el(
      "ul",
      { class: "keys" },
      kinds.map((kind, k) => el("li", {}, el("b", { style: { background: color(4 + k) } }), `start: ${kind}`)),
    ),
  );
}
function showDivergence() {
  if (!DATA.divergence) return;
  const K = DATA.divergence.length,
    largest = Math.max(...DATA.divergence.flat()) || 1;
  const rows = DATA.divergence.map((row, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, String(i + 1)),
      row.map((v, j) =>
        el(
          "td",
          { style: { "--share": String(i === j ? 0 : Math.max(0, v) / largest) } },
          i === j ? "·" : short(Number(v.toPrecision(3))),
        ),
      ),
    ),
  );
  byId("divergence").append(
    el("h3", {}, "How far apart the centres are"),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Divergence between centres" },
      el(
        "table",
        { class: "matrix" },
        el(
          "caption",
          {},
          `Divergence of sequences of the row's centre from the column's, in nats per frame${TOP > 1 ? ", level 1" : ""}: 0 means alike`,
        ),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("td", {}),
            Array.from({ length: K }, (_, k) => el("th", { scope: "col" }, String(k + 1))),
          ),
        ),
        el("tbody", {}, rows),
      ),
    ),
  );
}
startCards();
startBars();
startTree();
startTable();
drawBounds();
showDivergence();
window.addEventListener("beforeprint", () =>
  document.querySelectorAll(".card .figure:empty").forEach((place) => place.draw()),
);
select(TOP, 0);
say("");
