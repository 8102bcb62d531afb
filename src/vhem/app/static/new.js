// New people under a saved run: drop their table, and see which cluster suits each.
import { el } from "./drawing.js";
import { get, post, send } from "./api.js";
import { attempt, CLUSTERS, dropZone, primary, problem, section } from "./parts.js";
import { sentence } from "./data.js";

export async function showNew(main, id, data) {
  const run = await get(`/api/runs/${id}`);
  const place = el("div", {});
  main.replaceChildren(
    el("h1", { class: "title" }, "New people"),
    el(
      "p",
      { class: "hint" },
      "Which cluster of ",
      el("a", { href: `#/run/${id}` }, `${run.data_name}, ${CLUSTERS(run)}`),
      " suits people who were not part of it? Their table needs the same values; nothing is learned from it.",
    ),
    place,
  );
  if (data) await showScores(place, run, data);
  else await choose(place, run);
}
async function choose(place, run) {
  const { data } = await get("/api/overview");
  const upload = (file) =>
    attempt(place, async () => {
      const made = await send(`/api/data?name=${encodeURIComponent(file.name)}`, file);
      location.hash = `#/new/${run.id}/${made.id}`;
    });
  const tables = data.map((table) => el("li", {}, el("a", { href: `#/new/${run.id}/${table.id}` }, table.name)));
  place.append(
    dropZone({
      label: "Drop the new table here, or click to choose it",
      hint: "csv, Excel, Parquet or npz",
      onfile: upload,
    }),
    data.length ? section("Or a table that is here already", el("ul", { class: "rows" }, tables)) : "",
  );
}
async function showScores(place, run, data) {
  const status = el("p", { role: "status", class: "muted busy" }, "Reading the table …");
  place.replaceChildren(status);
  const table = await get(`/api/data/${data}`);
  const found = await post(`/api/data/${data}/look`, { roles: table.roles, whole: true, keep: true });
  if (found.problem) {
    place.replaceChildren(
      problem(found.problem.text),
      el("p", {}, el("a", { class: "button", href: `#/data/${data}` }, "Look at the table and its columns")),
    );
    return;
  }
  const { values } = await get(`/api/runs/${run.id}/about`);
  if (values && values.length !== found.roles.values.length) {
    place.replaceChildren(
      problem(
        `The clusters are about ${values.join(", ")}; this table has ${found.roles.values.join(", ")}. A table with the same values is needed.`,
      ),
      el(
        "p",
        { class: "fields" },
        el("a", { class: "button", href: `#/data/${data}` }, "Check the columns"),
        el("a", { class: "button", href: `#/new/${run.id}` }, "Another table"),
      ),
    );
    return;
  }
  const area = el("div", {}, el("p", { class: "understood" }, `${table.name}: ${sentence(found)}`));
  const go = primary("Find their clusters", () =>
    attempt(area, async () => {
      go.disabled = true;
      const wait = el("p", { role: "status", class: "muted busy" }, "Comparing with the clusters …");
      area.append(wait);
      try {
        const scores = await post(`/api/runs/${run.id}/score`, { data });
        results(area, run, data, scores);
      } finally {
        wait.remove();
        go.disabled = false;
      }
    }),
  );
  area.append(
    el(
      "div",
      { class: "fields" },
      go,
      el("a", { class: "button", href: `#/data/${data}` }, "Check the columns"),
      el("a", { class: "button", href: `#/new/${run.id}` }, "Another table"),
    ),
  );
  place.replaceChildren(area);
}
const FILES = { people: "scores.groups.csv", sequences: "scores.csv" };
function results(area, run, data, { notes, ...scores }) {
  area.querySelectorAll("section, .notice").forEach((old) => old.remove());
  const said = notes.map((note) => el("li", {}, note));
  if (said.length)
    area.append(el("div", { class: "notice", role: "alert" }, el("strong", {}, "Worth a look"), el("ul", {}, said)));
  for (const [kind, rows] of Object.entries(scores)) {
    const names = (run.look && run.look.names) || [];
    const shown = ["id", "cluster", "probability", "per_frame"].filter((name) => rows.columns.includes(name));
    const title = {
      id: kind === "people" ? "Person" : "Sequence",
      cluster: "Cluster",
      probability: "Probability",
      per_frame: "Log-likelihood per observation",
    };
    const cell = (name, value) =>
      name === "cluster" ? names[value - 1] || `Cluster ${value}` : name === "id" ? value : Number(value).toFixed(3);
    const body = rows.rows.map((row) =>
      el(
        "tr",
        {},
        shown.map((name) =>
          el(
            name === "id" ? "th" : "td",
            name === "id" ? { scope: "row" } : {},
            cell(name, row[rows.columns.indexOf(name)]),
          ),
        ),
      ),
    );
    const heading = kind === "people" ? "People" : "Sequences";
    area.append(
      section(
        heading,
        el(
          "p",
          {},
          el(
            "a",
            { class: "button", href: `/api/runs/${run.id}/scores/${data}/${FILES[kind]}`, download: "" },
            `Save as csv (${rows.n.toLocaleString("en")} rows)`,
          ),
        ),
        el(
          "div",
          { class: "scroll tall", tabindex: 0, role: "region", "aria-label": heading },
          el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                shown.map((name) => el("th", { scope: "col" }, title[name])),
              ),
            ),
            el("tbody", {}, body),
          ),
        ),
      ),
    );
  }
}
