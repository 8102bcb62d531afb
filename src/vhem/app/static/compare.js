import { el } from "./drawing.js";
export async function showComparison(main) {
  main.replaceChildren(el("p", {}, "…"));
}
