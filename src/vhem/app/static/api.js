// Questions to the server. An answer that is an error becomes an exception with a sentence in it.
import { byId } from "./drawing.js";

export class Refusal extends Error {}

async function ask(method, path, body, headers) {
  let answer;
  try {
    answer = await fetch(path, { method, body, headers, credentials: "same-origin" });
  } catch {
    byId("offline").hidden = false;
    throw new Refusal("The app does not answer.");
  }
  byId("offline").hidden = answer.status !== 401;
  const text = await answer.text();
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    told = { error: text };
  }
  if (!answer.ok) throw new Refusal(told.error || "The app could not do that.");
  return told;
}
export const get = (path) => ask("GET", path);
export const remove = (path) => ask("DELETE", path);
export const post = (path, content = {}) =>
  ask("POST", path, JSON.stringify(content), { "content-type": "application/json" });
export const send = (path, file) => ask("POST", path, file, { "content-type": "application/octet-stream" });

export function say(text) {
  byId("said").textContent = text;
}
// Ask again and again while the page is shown; `ask` returns how many milliseconds to wait, or null to end.
let watching = 0;
export function watch(question) {
  const mine = ++watching;
  const turn = async () => {
    if (mine !== watching) return;
    let wait = 2000;
    try {
      wait = await question();
    } catch (fault) {
      if (!(fault instanceof Refusal)) throw fault;
    }
    if (wait !== null && mine === watching) setTimeout(turn, wait);
  };
  turn();
}
export function unwatch() {
  watching += 1;
}
