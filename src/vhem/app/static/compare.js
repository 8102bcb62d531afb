// Two runs side by side: a page of the report's kind, in a frame of its own.
import { el } from "./drawing.js";
import { problem } from "./parts.js";

export async function showComparison(main, one, other) {
  const address = `/api/compare/${one}/${other}`;
  const title = el("h1", { class: "title" }, "Two runs side by side");
  const back = el(
    "p",
    {},
    el("a", { href: `#/run/${one}` }, "Back to the first"),
    " · ",
    el("a", { href: `#/run/${other}` }, "Go to the second"),
  );
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    main.replaceChildren(title, problem(told.error || "These runs cannot be compared."), back);
    return;
  }
  main.replaceChildren(
    title,
    back,
    el("iframe", {
      class: "report",
      src: address,
      title: "Comparison of two runs",
      sandbox: "allow-scripts allow-downloads",
    }),
  );
}
