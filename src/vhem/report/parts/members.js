// The table of members: searched, sorted, in pages.
const PAGE = 25;
const text = new Intl.Collator("en", { numeric: true });
const COLUMNS = [
  { name: "Name", value: (k) => DATA.members.names[k], cell: (k) => link(DATA.members.names[k], 0, k) },
  {
    name: TOP > 1 ? "Cluster (level 1)" : "Cluster",
    value: (k) => clusterOf[k],
    cell: (k) => link(nodeName(1, clusterOf[k]), 1, clusterOf[k]),
  },
  DATA.members.class && { name: "Class", value: className, cell: className },
  DATA.members.shares.length && {
    name: "Responsibility",
    value: share,
    cell: (k) => [meter(share(k)), percent(share(k))],
    number: true,
  },
  DATA.members.shares.length && {
    name: "Next best",
    value: (k) => (DATA.members.shares[k][1] || [0, 0])[1],
    cell: (k) => {
      const next = DATA.members.shares[k][1];
      return next ? `${nodeName(1, next[0])}: ${percent(next[1])}` : "–";
    },
    number: true,
  },
  DATA.members.sequences.some((n) => n) && {
    name: "Sequences",
    value: (k) => DATA.members.sequences[k],
    cell: (k) => String(DATA.members.sequences[k]),
    number: true,
  },
].filter(Boolean);
const view = { column: 0, down: false, page: 0, rows: [] };
const haystack = DATA.members.names.map((name, k) => `${name}\n${className(k) || ""}`.toLowerCase());

function find() {
  const sought = byId("search").value.toLowerCase().trim(),
    cluster = byId("cluster-filter").value;
  const { value } = COLUMNS[view.column],
    sign = view.down ? -1 : 1;
  const order = (a, b) => {
    const x = value(a),
      y = value(b);
    return typeof x === "number" ? x - y : text.compare(x, y);
  };
  view.rows = haystack
    .map((_, k) => k)
    .filter((k) => haystack[k].includes(sought) && (cluster === "" || clusterOf[k] === Number(cluster)));
  view.rows.sort((a, b) => sign * order(a, b) || a - b);
  view.page = 0;
  byId("found").textContent =
    view.rows.length === N ? count(N, "member") : `${view.rows.length.toLocaleString("en")} of ${count(N, "member")}`;
  showRows();
}
function showRows() {
  const rows = view.rows.slice(view.page * PAGE, (view.page + 1) * PAGE);
  document.querySelector("#table tbody").replaceChildren(
    ...rows.map((k) =>
      el(
        "tr",
        {},
        COLUMNS.map((c, i) =>
          el(i ? "td" : "th", { class: c.number ? "number" : null, scope: i ? null : "row" }, c.cell(k)),
        ),
      ),
    ),
  );
  const pages = Math.max(1, Math.ceil(view.rows.length / PAGE)),
    [before, after] = byId("pages").querySelectorAll("button");
  byId("pages").hidden = pages === 1;
  before.disabled = view.page === 0;
  after.disabled = view.page >= pages - 1;
  byId("pages").querySelector("span").textContent = `page ${view.page + 1} of ${pages}`;
  document
    .querySelectorAll("#table thead th")
    .forEach((th, i) =>
      th.setAttribute("aria-sort", i !== view.column ? "none" : view.down ? "descending" : "ascending"),
    );
}
function sortBy(i) {
  view.down = view.column === i ? !view.down : Boolean(COLUMNS[i].number);
  view.column = i;
  find();
}
function startTable() {
  const turn = (step) => () => {
    view.page += step;
    showRows();
  };
  document
    .querySelector("#table thead tr")
    .append(
      ...COLUMNS.map((c, i) =>
        el("th", { scope: "col" }, el("button", { type: "button", onclick: () => sortBy(i) }, c.name)),
      ),
    );
  byId("pages").append(
    el("button", { type: "button", onclick: turn(-1) }, "Previous"),
    el("span", { class: "muted" }),
    el("button", { type: "button", onclick: turn(1) }, "Next"),
  );
  byId("cluster-filter").append(
    el("option", { value: "" }, "all"),
    ...DATA.layers[1].map((_, k) => el("option", { value: k }, `${nodeName(1, k)} (${LEAVES[1][k].length})`)),
  );
  byId("search").addEventListener("input", find);
  byId("cluster-filter").addEventListener("change", find);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("members").addEventListener("click", (event) => {
    if (event.target.matches("#table .link")) {
      byId("explore").scrollIntoView();
      byId("details").focus({ preventScroll: true });
    }
  });
  find();
}
