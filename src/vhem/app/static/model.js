// The model: how many clusters and states, and the rest folded away; every choice with a sentence and a picture.
import { el } from "./drawing.js";
import { get, post } from "./api.js";
import { attempt, duration, primary, section } from "./parts.js";
import { shape, THUMBS } from "./thumbs.js";

const whole = (value, otherwise) =>
  value === "" || value === undefined || Number.isNaN(Number(value)) ? otherwise : Number(value);

export async function showModel(main, id) {
  const table = await get(`/api/data/${id}`);
  if (!table.facts) {
    location.hash = `#/data/${id}`;
    return;
  }
  const items = table.facts.people || table.facts.sequences;
  const page = {
    id,
    table,
    items,
    chosen: {
      mode: items > 6 ? "auto" : "one",
      k: Math.min(3, items),
      low: 2,
      high: Math.min(6, Math.max(2, items - 1)),
      ...read(table.model),
    },
  };
  page.estimate = el("p", { class: "estimate", role: "status" }, " ");
  const run = el("div", { class: "onward" });
  run.append(
    page.estimate,
    primary("Run", () => attempt(run, () => start(page))),
  );
  const who = table.facts.people ? "people" : "sequences";
  main.replaceChildren(
    el("h1", { class: "title" }, "What should be found?"),
    el(
      "p",
      { class: "hint" },
      `The defaults are a good start. ${table.name} has ${items.toLocaleString("en")} ${who}.`,
    ),
    el(
      "form",
      { id: "model", onsubmit: (event) => event.preventDefault(), oninput: () => reestimate(page) },
      clusters(page, who),
      states(page),
      more(page),
    ),
    run,
  );
  reestimate(page);
}
const read = (model) => (model ? { ...model.page, model } : { model: {} });

// A number of the page, which is sent under `key`; empty means the default.
function number(page, key, { low = 1, high = 1000, placeholder = "automatic", label }) {
  const value = page.chosen.model[key];
  return el("input", {
    type: "number",
    inputmode: "numeric",
    min: low,
    max: high,
    step: 1,
    value: value ?? "",
    placeholder,
    "aria-label": label,
    oninput: (event) => (page.chosen.model[key] = whole(event.target.value, undefined)),
  });
}
function pages(page, key, low, high, label) {
  return el("input", {
    type: "number",
    min: low,
    max: high,
    value: page.chosen[key],
    "aria-label": label,
    class: "narrow",
    oninput: (event) => (page.chosen[key] = whole(event.target.value, null)),
    onfocus: (event) => event.target.closest(".option").querySelector("input[type=radio]").click(),
  });
}
function option(page, group, value, title, words, picture, ...fields) {
  const now = group === "mode" || group === "statesMode" ? page.chosen[group] : page.chosen.model[group];
  const pick = () =>
    group === "mode" || group === "statesMode" ? (page.chosen[group] = value) : (page.chosen.model[group] = value);
  const radio = el("input", { type: "radio", name: group, value, checked: now === value, onchange: pick });
  return el(
    "div",
    { class: "option" },
    el("label", {}, radio, picture(), el("strong", {}, title), el("span", { class: "muted" }, words)),
    fields.length ? el("div", { class: "fields" }, fields) : null,
  );
}
function clusters(page, who) {
  const top = Math.min(1000, page.items);
  return section(
    "How many clusters?",
    el(
      "div",
      { class: "options", role: "radiogroup", "aria-label": "Number of clusters" },
      option(
        page,
        "mode",
        "auto",
        "Find out",
        `Tries several numbers and keeps the one at which different halves of the ${who} agree best.`,
        THUMBS.auto,
        el("span", {}, "from "),
        pages(page, "low", 1, top, "Smallest number of clusters to try"),
        " to ",
        pages(page, "high", 1, top, "Largest number of clusters to try"),
        el("label", {}, "by", counting(page)),
      ),
      option(
        page,
        "mode",
        "one",
        "I know",
        "One run with the number that you give.",
        THUMBS.clusters,
        pages(page, "k", 1, top, "Number of clusters"),
      ),
      option(
        page,
        "mode",
        "range",
        "Show me several",
        "One run for each; afterwards a slider moves between them.",
        THUMBS.several,
        el("span", {}, "from "),
        pages(page, "low", 1, top, "Smallest number of clusters"),
        " to ",
        pages(page, "high", 1, top, "Largest number of clusters"),
      ),
    ),
  );
}
// How the number of clusters is found.
function counting(page) {
  return select("How the number of clusters is found", page.chosen, "counting", [
    ["stability", "agreement of halves"],
    ["probable", "probability (Bayes; up to 8)"],
  ]);
}
// A list to choose `chosen[name]` from; options are pairs of a value and its text.
function select(label, chosen, name, options) {
  return el(
    "select",
    { "aria-label": label, onchange: (event) => (chosen[name] = event.target.value) },
    options.map(([value, text]) => el("option", { value, selected: chosen[name] === value }, text)),
  );
}
function states(page) {
  page.chosen.statesMode = Array.isArray(page.chosen.model.states) ? "range" : "one";
  page.chosen.states ??= Array.isArray(page.chosen.model.states) ? 3 : (page.chosen.model.states ?? 3);
  page.chosen.statesLow ??= 1;
  page.chosen.statesHigh ??= 5;
  return section(
    "How many states?",
    el(
      "p",
      { class: "hint" },
      "A state is a place or a phase that sequences come back to: a region that is looked at, a posture, a mood. Models go from state to state.",
    ),
    el(
      "div",
      { class: "options", role: "radiogroup", "aria-label": "Number of states" },
      option(
        page,
        "statesMode",
        "one",
        "A number",
        "Three is a good start; more show finer detail and need more data.",
        THUMBS.states,
        pages(page, "states", 1, 50, "Number of states"),
      ),
      option(
        page,
        "statesMode",
        "range",
        "As many as needed",
        "Every model takes the number that suits its own data best (BIC).",
        THUMBS.someStates,
        el("span", {}, "from "),
        pages(page, "statesLow", 1, 50, "Smallest number of states"),
        " to ",
        pages(page, "statesHigh", 1, 50, "Largest number of states"),
      ),
    ),
  );
}
function more(page) {
  const m = page.chosen.model;
  m.covariance ??= "diag";
  m.topology ??= "ergodic";
  const setting = (title, words, picture, field) =>
    el(
      "div",
      { class: "setting" },
      picture(),
      el("div", {}, el("strong", {}, title), el("p", { class: "muted" }, words)),
      field,
    );
  const { values, categories } = page.table.understood,
    numbers = values.some((name) => !(categories || []).includes(name)); // else states have no shape
  const grouped = page.table.facts.people !== null && page.table.facts.people !== undefined;
  return el(
    "details",
    { class: "fold card" },
    el("summary", {}, "More settings (the defaults are good)"),
    numbers ? el("h3", {}, "Shape of a state") : null,
    numbers
      ? el(
          "div",
          { class: "options", role: "radiogroup", "aria-label": "Shape of a state" },
          option(
            page,
            "covariance",
            "diag",
            "Upright",
            "Values vary independently within a state. Needs less data.",
            THUMBS.diag,
          ),
          option(
            page,
            "covariance",
            "full",
            "Tilted",
            "Values may rise and fall together within a state.",
            THUMBS.full,
          ),
        )
      : null,
    el("h3", {}, "Ways between states"),
    el(
      "div",
      { class: "options", role: "radiogroup", "aria-label": "Ways between states" },
      option(
        page,
        "topology",
        "ergodic",
        "Any",
        "From every state to every other: for behaviour that returns.",
        THUMBS.ergodic,
      ),
      option(
        page,
        "topology",
        "left-right",
        "Forwards",
        "From one phase to the next, never back: for gestures, letters, courses of events.",
        THUMBS["left-right"],
      ),
    ),
    kinds(page),
    el("h3", {}, "Fine points"),
    grouped
      ? setting(
          "One model per",
          "A person's sequences together, or every sequence on its own.",
          THUMBS.per,
          select("One model per", m, "per", [
            ["auto", "person"],
            ["sequence", "sequence"],
          ]),
        )
      : null,
    setting(
      "How models are learned",
      "Most likely: the usual way. Bayesian: safer where there are few observations per model; it finds the number of states itself if you give several.",
      THUMBS.learning,
      select("How models are learned", m, "method", [
        ["em", "most likely (EM)"],
        ["vb", "Bayesian (VB)"],
      ]),
    ),
    setting(
      "Length of comparison (τ)",
      "Models are compared by the sequences they would produce, of this length. By default the typical length of yours.",
      THUMBS.tau,
      number(page, "tau", { high: 100000, label: "Length of comparison" }),
    ),
    numbers
      ? setting(
          "Parts per state",
          "A state may consist of several ellipses if its values do not form a single cloud.",
          THUMBS.mix,
          number(page, "mix", { high: 20, placeholder: "1", label: "Parts per state" }),
        )
      : null,
    setting(
      "States of a centre",
      "By default as many as the members' models have.",
      THUMBS.states,
      number(page, "center_states", { high: 100, label: "States of a centre" }),
    ),
    setting(
      "Attempts at each model",
      "Learning starts several times and keeps the best; more are safer and slower.",
      THUMBS.starts,
      number(page, "starts", { high: 200, placeholder: "5", label: "Attempts at each model" }),
    ),
    setting(
      "Attempts at the clusters",
      "The same for the clusters.",
      THUMBS.starts,
      number(page, "restarts", { label: "Attempts at the clusters" }),
    ),
    setting(
      "Refine on the sequences",
      "After clustering the models, look at the sequences once more and correct the borders.",
      THUMBS.polish,
      el("input", {
        type: "checkbox",
        "aria-label": "Refine on the sequences",
        checked: m.polish !== false,
        onchange: (event) => (m.polish = event.target.checked),
      }),
    ),
    setting(
      "Seed",
      "The same seed gives the same result; another one shows whether chance mattered.",
      THUMBS.seed,
      number(page, "seed", { low: 0, high: 2 ** 31 - 1, placeholder: "0", label: "Seed" }),
    ),
  );
}
// What states emit, value by value: the family of distributions.
const KINDS = {
  gaussian: [
    "measurement",
    "Numbers that scatter about a mean: places, sizes, degrees.",
    [2, 8, 22, 42, 52, 42, 22, 8, 2],
  ],
  categorical: ["category", "One of several kinds.", [20, 0, 44, 0, 12, 0, 30]],
  bernoulli: ["yes or no", "0 or 1: something happens, or does not.", [0, 18, 0, 0, 0, 46, 0]],
  poisson: ["count", "How often something happens.", [10, 30, 44, 38, 22, 10, 4, 1]],
  negativebinomial: ["uneven count", "Counts that vary more than by chance.", [44, 30, 22, 16, 12, 9, 7, 5, 4]],
  exponential: ["waiting time", "Positive; short times are the most common.", [52, 38, 27, 19, 13, 9, 6, 4]],
  gamma: ["duration or amount", "Positive, with a typical size.", [4, 30, 46, 38, 26, 16, 9, 5, 3]],
  "zero-gamma": ["amount or nothing", "Zero, or positive: rain, spending.", [50, 0, 8, 26, 30, 22, 12, 6]],
  beta: ["share", "Between 0 and 1.", [6, 16, 28, 38, 44, 44, 36, 20]],
  vonmises: ["direction", "An angle in radians, which begins again after a turn.", [36, 20, 8, 4, 2, 4, 8, 20, 36]],
  "vonmises:degrees": ["direction in degrees", "An angle in degrees.", [36, 20, 8, 4, 2, 4, 8, 20, 36]],
};
function kinds(page) {
  const { values, categories } = page.table.understood,
    chosen = (page.chosen.model.emissions ??= {});
  if (values.length > 20) return null;
  const usual = (name) => ((categories || []).includes(name) ? "categorical" : "gaussian");
  const row = (name) => {
    const now = chosen[name] || usual(name),
      place = el("div", { class: "setting" });
    const change = (event) => {
      values.forEach((other) => (chosen[other] ??= usual(other)));
      chosen[name] = event.target.value;
      place.replaceWith(row(name));
      document.getElementById(`kind-${values.indexOf(name)}`).focus();
    };
    const options = Object.entries(KINDS).map(([key, [label]]) =>
      el("option", { value: key, selected: key === now }, label),
    );
    const id = `kind-${values.indexOf(name)}`,
      [, words, bars] = KINDS[now];
    place.append(
      shape(bars, words),
      el("div", {}, el("strong", {}, name), el("p", { class: "muted" }, words)),
      el("select", { id, "aria-label": `Kind of ${name}`, onchange: change }, options),
    );
    return place;
  };
  return el("div", {}, el("h3", {}, "Kind of each value"), values.map(row));
}
function wish(page) {
  const c = page.chosen;
  const model = { ...c.model, states: c.statesMode === "range" ? [c.statesLow, c.statesHigh] : c.states };
  model.page = {
    mode: c.mode,
    counting: c.counting,
    k: c.k,
    low: c.low,
    high: c.high,
    states: c.states,
    statesLow: c.statesLow,
    statesHigh: c.statesHigh,
  };
  return {
    data: page.id,
    mode: c.mode !== "auto" ? "given" : c.counting === "probable" ? "probable" : "auto",
    clusters: c.mode === "one" ? c.k : [c.low, c.high],
    model,
  };
}
function reestimate(page) {
  clearTimeout(page.timer);
  page.timer = setTimeout(async () => {
    try {
      const { seconds } = await post("/api/estimate", wish(page));
      page.estimate.textContent = `Takes about ${duration(seconds)}.`;
    } catch (fault) {
      page.estimate.textContent = fault.message;
    }
  }, 150);
}
async function start(page) {
  const { ids } = await post("/api/runs", wish(page));
  location.hash = `#/run/${ids[0]}`;
}
