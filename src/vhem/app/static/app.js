// Which page is shown: the address after # says so, and reloading it shows the same.
import { byId, el } from "./drawing.js";
import { get, unwatch } from "./api.js";
import { showStart, showRuns } from "./start.js";
import { showData } from "./data.js";
import { showModel } from "./model.js";
import { showRun } from "./run.js";
import { showComparison } from "./compare.js";
import { showNew } from "./new.js";
import { markStep, problem, STATES } from "./parts.js";

const ID = "([0-9a-f]{12})";
const PAGES = [
  [/^#?\/?$/, showStart, null, "Start"],
  [/^#\/runs$/, showRuns, null, "Runs"],
  [new RegExp(`^#/data/${ID}$`), showData, 0, "Data"],
  [new RegExp(`^#/model/${ID}$`), showModel, 1, "Model"],
  [new RegExp(`^#/run/${ID}(?:/(statistics))?$`), showRun, 2, "Run"],
  [new RegExp(`^#/compare/${ID}/${ID}$`), showComparison, null, "Compare"],
  [new RegExp(`^#/new/${ID}(?:/${ID})?$`), showNew, null, "New people"],
];
async function show() {
  unwatch();
  const found = PAGES.find(([pattern]) => pattern.test(location.hash));
  if (!found) {
    if (/^#\//.test(location.hash)) location.hash = "#/";
    return; // a link within the page, such as the one that skips the header
  }
  const [pattern, draw, step, title] = found;
  const main = byId("main");
  document.title = `${title} – vhem`;
  markStep(step);
  try {
    await draw(main, ...pattern.exec(location.hash).slice(1));
  } catch (fault) {
    main.replaceChildren(problem(fault.message), el("p", {}, el("a", { href: "#/" }, "Back to the start")));
  }
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}
let counting = null;
async function count() {
  clearTimeout(counting);
  try {
    const { runs } = await get("/api/overview");
    const busy = ["running", "queued"]
      .map((state) => [runs.filter((run) => run.state === state).length, STATES[state]])
      .filter(([n]) => n)
      .map(([n, state]) => `${n} ${state}`);
    byId("queue").textContent = busy.length ? `Runs (${busy.join(", ")})` : "Runs";
  } catch {
    // the page says that the app does not answer
  }
  counting = setTimeout(count, document.hidden ? 15000 : 4000);
}
window.addEventListener("recount", count);
window.addEventListener("hashchange", show);
// A file that is dropped beside the place for it must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
show();
count();
