// The first page: drop a table, or try the demo. And the list of runs.
import { count, el } from "./drawing.js";
import { get, post, remove, send, watch } from "./api.js";
import { ago, attempt, button, dropZone, primary, recount, section, STATES, TITLE } from "./parts.js";

export const ACCEPT = ".csv,.tsv,.txt,.gz,.xlsx,.xls,.xlsm,.xlsb,.ods,.parquet,.pq,.npz,.bvh";

export async function showStart(main) {
  const said = el("div", {});
  const upload = (file) =>
    attempt(said, async () => {
      said.replaceChildren(el("p", { class: "muted", role: "status" }, `Reading ${file.name} …`));
      const made = await send(`/api/data?name=${encodeURIComponent(file.name)}`, file).finally(() =>
        said.replaceChildren(),
      );
      location.hash = `#/data/${made.id}`;
    });
  const uploadAll = (files) => attempt(said, async () => said.replaceChildren(await together(said, files)));
  const demo = primary("Try it with an example", (event) =>
    attempt(said, async () => {
      event.target.disabled = true;
      const made = await post("/api/demo").finally(() => (event.target.disabled = false));
      location.hash = `#/data/${made.id}`;
    }),
  );
  main.replaceChildren(
    el(
      "section",
      { class: "hero", "aria-labelledby": "hero-title" },
      el("h1", { id: "hero-title" }, "Which sequences belong together?"),
      el(
        "p",
        { class: "hint" },
        "Eye movements, gestures, sensor recordings, life courses: drop a table, with one row per observation or one per person. You get groups of people who behave alike, a model of what is typical of each group, and a report to share.",
      ),
      dropZone({
        label: "Drop a table here, or click to choose one",
        hint: "csv, Excel, Parquet or npz; several files of one study together",
        accept: ACCEPT,
        onfile: upload,
        onfiles: uploadAll,
      }),
      el("p", { class: "or" }, "No table at hand? ", demo),
      said,
    ),
  );
  const { data, runs } = await get("/api/overview");
  if (runs.length) main.append(runList(runs.slice(0, 5), "Latest runs", () => showStart(main)));
  if (data.length) main.append(tableList(data, () => showStart(main)));
}
// Send several files, one after another; `said` tells how far it is.
export async function sendAll(said, files) {
  const ids = [];
  for (const [k, file] of files.entries()) {
    said.replaceChildren(
      el("p", { class: "muted", role: "status" }, `Reading ${file.name} (${k + 1} of ${files.length}) …`),
    );
    ids.push((await send(`/api/data?name=${encodeURIComponent(file.name)}`, file)).id);
  }
  return ids;
}
// Several files at once: what are they to each other?
async function together(said, files) {
  const [first, ...others] = await sendAll(
    said,
    files.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })),
  );
  const open = (id) => (location.hash = `#/data/${id}`);
  const box = el("div", { class: "options", role: "group", "aria-label": "What are these files to each other?" });
  const way = (title, words, action) =>
    el(
      "div",
      { class: "option" },
      primary(title, () => attempt(box, action)),
      el("p", { class: "muted" }, words),
    );
  box.append(
    way(
      "Put them below one another",
      "Each file has other people, trials or recordings, in the same columns. They become one table with a column that says which file.",
      async () => open((await post("/api/stack", { data: [first, ...others] })).id),
    ),
    way(
      "Join them",
      "Each file says something else about the same sequences, with the same ids: work in one, family in another.",
      async () => {
        await post(`/api/data/${first}/join`, { data: others });
        open(first);
      },
    ),
  );
  return el("div", { id: "together" }, el("h2", {}, `${files.length} files: what are they to each other?`), box);
}
const size = (bytes) =>
  bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
function tableList(data, again) {
  const row = (table) => {
    const place = el("li", {});
    place.append(
      el("a", { href: `#/data/${table.id}` }, table.name),
      el("span", { class: "muted" }, `${size(table.bytes)}, ${ago(table.made)}`),
      button("Remove", () => attempt(place, async () => (await remove(`/api/data/${table.id}`), again())), {
        "aria-label": `Remove ${table.name}`,
        class: "button quiet",
      }),
    );
    return place;
  };
  return section("Tables", el("ul", { class: "rows" }, data.map(row)));
}
// What can be done with a run in a list, by its state.
function actionsOf(run) {
  const address = `/api/runs/${run.id}`;
  if (run.state === "running" || run.state === "queued") return [["Stop", () => post(`${address}/stop`)]];
  const resume = { stopped: "Resume", failed: "Try again" }[run.state];
  return [...(resume ? [[resume, () => post(`${address}/again`)]] : []), ["Remove", () => remove(address)]];
}
function runList(runs, title, again) {
  const row = (run) => {
    const place = el("li", {});
    place.append(
      el(
        "span",
        {},
        el("a", { href: `#/run/${run.id}` }, TITLE(run)),
        run.of ? null : el("small", { class: "muted" }, run.words),
      ),
      el("span", { class: `state ${run.state}` }, STATES[run.state]),
      el("span", { class: "muted" }, ago(run.made)),
      ...actionsOf(run).map(([name, ask]) =>
        button(name, () => attempt(place, async () => (await ask(), recount(), again())), {
          class: "button quiet",
          "aria-label": `${name}: ${TITLE(run)}`,
        }),
      ),
    );
    return place;
  };
  return section(title, el("ul", { class: "rows" }, runs.map(row)));
}
export async function showRuns(main) {
  let shown = "";
  const draw = async () => {
    const { runs } = await get("/api/overview");
    const now = JSON.stringify(runs.map((run) => [run.id, run.state, run.clusters]));
    if (now !== shown) {
      shown = now;
      const none = el("p", {}, "Nothing has been run yet. ", el("a", { href: "#/" }, "Start with a table"), ".");
      main.replaceChildren(
        el("h1", { class: "title" }, count(runs.length, "run")),
        runs.length ? runList(runs, "One after another, the latest first", draw) : none,
      );
    }
    return 1000;
  };
  watch(draw);
}
