import { el } from "./drawing.js";
export async function showNew(main) {
  main.replaceChildren(el("p", {}, "…"));
}
