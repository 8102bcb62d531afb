// The result: the report, and around it what one does with a result.
import { el } from "./drawing.js";
import { CLUSTERS } from "./parts.js";

export async function showResult(main, run) {
  const frame = el("iframe", { class: "report", src: `/api/runs/${run.id}/report`, title: `Report: ${run.data_name}, ${CLUSTERS(run)}`, sandbox: "allow-scripts allow-downloads" });
  main.replaceChildren(el("h1", { class: "title" }, `${run.data_name}: ${CLUSTERS(run)}`), frame);
}
