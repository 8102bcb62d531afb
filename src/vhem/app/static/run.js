// A run: how far it is, while it runs; its result, once it is done.
import { el } from "./drawing.js";
import { get, post, say, watch } from "./api.js";
import { attempt, button, duration, markStep, primary, problem, recount, section, TITLE } from "./parts.js";
import { boundCurve } from "./pictures.js";
import { showResult } from "./result.js";

const COMMANDS = {
  compare: "Testing the clusters",
  number: "Comparing numbers of clusters",
  cluster: "Clustering",
  report: "Writing the report",
};

export async function showRun(main, id, part) {
  const page = { main, id, state: null, share: 0 };
  watch(async () => {
    const run = await get(`/api/runs/${id}`);
    if (run.state === "done" && run.of) {
      location.hash = `#/run/${run.of}/statistics`;
      return null;
    }
    if (run.state === "done") {
      if (page.state) say("The run is done.");
      markStep(3);
      recount();
      await showResult(main, run, part);
      return null;
    }
    if (run.state !== page.state) {
      frame(page, run);
      recount();
    }
    update(page, run);
    return run.state === "running" ? 300 : run.state === "queued" ? 700 : null;
  });
}
// The parts of the page that stay while a run is in one state.
function frame(page, run) {
  page.state = run.state;
  page.title = el("h1", { class: "title" }, TITLE(run));
  page.bar = el(
    "div",
    { class: "bar", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 },
    el("i", {}),
  );
  page.list = el("ol", { class: "stages" });
  page.detail = el("p", { class: "muted detail" });
  page.curve = el("div", { class: "figure curve" });
  page.actions = el("div", { class: "onward" });
  const parts = [page.title];
  if (run.state === "failed") parts.push(problem(run.error));
  if (run.state === "stopped")
    parts.push(el("p", { class: "notice pad", role: "status" }, "Stopped. What was finished is kept."));
  if (run.state === "queued")
    parts.push(el("p", { role: "status" }, "Waiting; it starts by itself. ", (page.ahead = el("span", {}))));
  if (run.state === "running")
    parts.push(
      section(
        "Progress",
        page.list,
        page.bar,
        page.detail,
        page.curve,
        el("p", { class: "muted" }, "You may close this page: the run goes on, and is found under Runs."),
      ),
    );
  page.main.replaceChildren(...parts, page.actions);
  actions(page, run);
}
function actions(page, run) {
  const act = (path) =>
    attempt(page.actions, async () => (await post(`/api/runs/${page.id}/${path}`), showRun(page.main, page.id)));
  const settings = el("a", { class: "button", href: `#/model/${run.data}` }, "Change the settings");
  const back = el("a", { class: "button", href: `#/run/${run.of}` }, "Back to the clusters");
  if (run.state === "running" || run.state === "queued") {
    const stop = button("Stop", () => {
      stop.disabled = true;
      stop.textContent = "Stopping …";
      attempt(page.actions, () => post(`/api/runs/${page.id}/stop`));
    });
    page.actions.replaceChildren(stop);
  } else
    page.actions.replaceChildren(
      primary(run.state === "failed" ? "Try again" : "Resume", () => act("again")),
      run.of ? back : settings,
    );
}
// Which runs come first, each as a link.
function before(run) {
  const links = run.before.map((other) => el("a", { href: `#/run/${other.id}` }, TITLE(other)));
  return links.flatMap((link, k) => [k ? ", then " : "Before it: ", link, k === links.length - 1 ? "." : ""]);
}
function update(page, run) {
  if (run.state === "queued") page.ahead.replaceChildren(...before(run));
  if (run.state !== "running") return;
  const { progress } = run,
    passed = run.now - run.started;
  page.title.textContent = TITLE(run);
  const stages = stagesOf(run);
  page.list.replaceChildren(
    ...stages.map(([name, state]) => el("li", { class: state, "aria-current": state === "now" ? "step" : null }, name)),
  );
  page.share = Math.max(page.share, run.share ?? 0); // of the whole run: it never goes back
  const share = run.share === undefined ? null : Math.round(100 * page.share);
  const at = 1 + stages.findIndex(([, state]) => state === "now");
  const step = at ? `Step ${at} of ${stages.length}` : "";
  page.bar.classList.toggle("unknown", share === null);
  page.bar.firstChild.style.setProperty("width", `${share ?? 100}%`);
  if (share === null) page.bar.removeAttribute("aria-valuenow");
  else page.bar.setAttribute("aria-valuenow", share);
  const left = run.left ? `about ${duration(run.left)} left` : null;
  page.detail.textContent = [step, plain(progress.detail), `${duration(passed)} so far`, left]
    .filter(Boolean)
    .join(" · ");
  if (progress.command === "cluster" && progress.bounds.length > 1)
    page.curve.replaceChildren(
      el("h3", {}, "The bound rises: the clusters explain the data better and better"),
      boundCurve(progress.bounds),
    );
  else page.curve.replaceChildren();
}
function stagesOf(run) {
  const commands = run.of ? ["compare", "report"] : run.range ? ["number", "cluster", "report"] : ["cluster", "report"];
  const at = commands.indexOf(run.progress.command);
  return commands.flatMap((name, k) => {
    const state = k < at ? "past" : k === at ? "now" : "ahead";
    const inner = k === at && run.progress.step !== name ? `: ${run.progress.step}` : "";
    return [[`${COMMANDS[name]}${inner.replace("HMMs", "models")}`, state]];
  });
}
// What the command says about a step, without what only the curve shows.
const plain = (detail) =>
  detail
    .replace(/,? ?bound -?[\d.e+-]+/, "")
    .replace(/restart 1 of 1/, "")
    .replace("HMMs", "models")
    .replace("converged", "finished");
