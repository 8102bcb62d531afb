// Pieces that several pages use.
import { byId, el } from "./drawing.js";
import { say } from "./api.js";

export const problem = (text, ...more) => el("div", { class: "problem", role: "alert" }, el("p", {}, text), ...more);
export const section = (title, ...content) => {
  const id = `t-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...content);
};
export const button = (text, onclick, attributes = {}) =>
  el("button", { type: "button", class: "button", onclick, ...attributes }, text);
export const primary = (text, onclick, attributes = {}) =>
  button(text, onclick, { class: "button main", ...attributes });
export const tiles = (pairs) =>
  el(
    "dl",
    { class: "tiles plain" },
    pairs
      .filter(([value]) => value !== null && value !== undefined)
      .map(([value, name]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
export function duration(seconds) {
  if (seconds < 1.5) return "a second";
  if (seconds < 59.5) return `${Math.round(seconds)} seconds`;
  if (seconds < 600) {
    const tens = Math.round(seconds / 10),
      rest = 10 * (tens % 6),
      minutes = Math.floor(tens / 6);
    return `${minutes} minute${minutes > 1 ? "s" : ""}${rest ? ` ${rest} seconds` : ""}`;
  }
  if (seconds < 5400) return `${Math.round(seconds / 60)} minutes`;
  return `${(seconds / 3600).toPrecision(2)} hours`;
}
export function ago(at) {
  const seconds = Date.now() / 1000 - at;
  if (seconds < 60) return "just now";
  if (seconds < 86400) return new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return new Date(at * 1000).toLocaleDateString();
}
// Run an action of a button; what it cannot do is said beside it.
export async function attempt(place, action) {
  place.querySelectorAll(":scope > .problem").forEach((old) => old.remove());
  try {
    await action();
  } catch (fault) {
    place.append(problem(fault.message));
    say(fault.message);
  }
}
// A place to drop a file on, which is also a button that opens the file dialog.
export function dropZone({ label, hint, accept, onfile, onfiles = null, small = false }) {
  const multiple = Boolean(onfiles);
  const input = el("input", { type: "file", accept, multiple, class: "unseen", tabindex: -1, "aria-label": label });
  const zone = el(
    "button",
    { type: "button", class: small ? "drop small" : "drop", onclick: () => input.click() },
    el("strong", {}, label),
    hint ? el("span", {}, hint) : null,
  );
  const take = (files) => {
    if (files.length > 1 && onfiles) onfiles([...files]);
    else if (files.length) onfile(files[0]);
  };
  input.addEventListener("change", () => take(input.files));
  zone.addEventListener("dragover", () => zone.classList.add("over"));
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    zone.classList.remove("over");
    take(event.dataTransfer.files);
  });
  return el("div", {}, zone, input);
}
export function CLUSTERS(run) {
  if (run.clusters) return run.clusters === 1 ? "1 cluster" : `${run.clusters} clusters`;
  return run.range
    ? `${run.range[0]} to ${run.range[1]} clusters, chosen automatically`
    : "as many clusters as are probable";
}
export const TITLE = (run) => `${run.of ? "Statistics of " : ""}${run.data_name}: ${CLUSTERS(run)}`;
export const STATES = { queued: "waiting", running: "running", done: "done", failed: "failed", stopped: "stopped" };

// Have the header count the runs again.
export const recount = () => window.dispatchEvent(new Event("recount"));

const STEPS = ["Data", "Model", "Run", "Result"];
// Show in the header how far the user has come.
export function markStep(current) {
  const item = (name, k) =>
    el("li", { "aria-current": k === current ? "step" : null, class: k < current ? "past" : null }, name);
  byId("steps").replaceChildren(...(current === null ? [] : STEPS.map(item)));
}
