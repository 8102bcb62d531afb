// The result: the report, and around it what one does with a result.
import { COLORS, count, el } from "./drawing.js";
import { get, post, remove, say, send, watch } from "./api.js";
import { ago, attempt, button, CLUSTERS, dropZone, duration, primary, problem, recount } from "./parts.js";
import { ACCEPT } from "./start.js";

const FILES = {
  "report.html": "Report (HTML)",
  "labels.csv": "Who is in which cluster (csv)",
  "centers.vhem": "Model: the clusters (.vhem)",
  "hmms.vhem": "Models of the members (.vhem)",
  "summary.txt": "Summary (text)",
  "summary.json": "Summary (JSON)",
};

export async function showResult(main, run, part) {
  const about = await get(`/api/runs/${run.id}/about`);
  const page = { main, run, about, panel: el("div", {}), open: null };
  page.frame = el("iframe", {
    class: "report",
    src: reportOf(run, part),
    title: `Report: ${run.data_name}, ${CLUSTERS(run)}`,
    sandbox: "allow-scripts allow-downloads",
  });
  const tabs = [
    ["Take away", takeAway],
    ["Names and colours", looks],
    ["Statistics", statistics],
    ["Compare", comparing],
  ];
  const buttons = tabs.map(([name, draw]) =>
    button(name, () => toggle(page, name, draw, buttons), { "aria-expanded": "false" }),
  );
  main.replaceChildren(
    el("h1", { class: "title" }, `${run.data_name}: ${CLUSTERS(run)}`),
    el(
      "div",
      { class: "toolbar" },
      slider(page),
      buttons,
      el("a", { class: "button", href: `#/new/${run.id}` }, "New people"),
      el("a", { class: "button", href: `#/model/${run.data}` }, "Run again"),
      el("a", { class: "button", href: reportOf(run), target: "_blank", rel: "noopener" }, "Report in a new tab"),
    ),
    page.panel,
    why(run) || "",
    page.frame,
  );
  if (part === "statistics" || about.testing) buttons[2].click();
}
// The address of the report; what is after # is a section of it.
const reportOf = (run, part) => `/api/runs/${run.id}/report?${Math.round(run.ended)}${part ? `#${part}` : ""}`;
// Which numbers of clusters were tried, and why this one was kept.
function why(run) {
  if (run.odds) {
    const shown = Object.entries(run.odds).filter(([, p]) => p >= 0.005);
    const words = shown.map(([k, p]) => `${k}: ${p.toFixed(2)}`).join(", ");
    return el(
      "p",
      { class: "hint" },
      `${CLUSTERS(run)}, the most probable number (probability by number of clusters: ${words}).`,
    );
  }
  if (!run.numbers) return null;
  const { n_clusters, stability } = run.numbers;
  const tried = n_clusters.map((k, i) => `${k}: ${stability[i].toFixed(2)}`).join(", ");
  const best = Math.max(...stability);
  const near = stability.filter((one) => one >= best - 0.02).length;
  const tie =
    near > 1
      ? " Numbers within 0.02 of the best agree equally well; of these, the largest was taken, because it shows the most detail that can be relied on."
      : "";
  const nothing = run.numbers.separation && run.numbers.separation.nothing;
  const caution =
    best < 0.7
      ? " None is stable: there may be no clusters in these data."
      : nothing
        ? " But the clusters are hardly separate: people may differ gradually. Test them under Statistics."
        : "";
  return el(
    "p",
    { class: "hint" },
    `${CLUSTERS(run)}, because different halves of the people agree best on this number (agreement by number of clusters: ${tried}; 1 is perfect).${tie}${caution}`,
  );
}
function toggle(page, name, draw, buttons) {
  page.open = page.open === name ? null : name;
  buttons.forEach((b) => b.setAttribute("aria-expanded", String(b.textContent === page.open)));
  page.panel.replaceChildren(...(page.open ? [draw(page)] : []));
}
function slider({ run, about }) {
  if (about.siblings.length < 2) return null;
  const at = about.siblings.findIndex((one) => one.clusters === run.clusters);
  const shown = el("output", {}, String(run.clusters));
  const input = el("input", {
    type: "range",
    id: "k",
    min: 0,
    max: about.siblings.length - 1,
    step: 1,
    value: at,
    "aria-label": "Number of clusters",
    "aria-valuetext": CLUSTERS(run),
  });
  input.addEventListener("input", () => {
    shown.textContent = String(about.siblings[input.value].clusters);
    input.setAttribute("aria-valuetext", `${shown.textContent} clusters`);
  });
  input.addEventListener("change", () => (location.hash = `#/run/${about.siblings[input.value].id}`));
  return el("label", {}, "Clusters", input, shown);
}
function panelOf(id, title, ...content) {
  const heading = `${id}-title`;
  return el("section", { class: "panel", "aria-labelledby": heading }, el("h2", { id: heading }, title), ...content);
}
function takeAway({ run, about }) {
  const link = (href, text) => el("li", {}, el("a", { class: "button", href, download: "" }, text));
  const files = about.files.filter((name) => FILES[name]);
  const copy = (text) =>
    button("Copy", async (event) => {
      await navigator.clipboard.writeText(text);
      event.target.textContent = "Copied";
      say("Copied");
    });
  const commands = about.commands.join("\n");
  return panelOf(
    "take",
    "Take away",
    el(
      "ul",
      { class: "downloads" },
      link(`/api/runs/${run.id}/zip`, "Everything (zip)"),
      files
        .sort((a, b) => Object.keys(FILES).indexOf(a) - Object.keys(FILES).indexOf(b))
        .map((name) => link(`/api/runs/${run.id}/file/${name}`, FILES[name])),
      link(`/api/runs/${run.id}/script`, "Python script that repeats it"),
    ),
    el("h3", {}, "The same on the command line, in the folder of your table or of the unzipped file"),
    el("div", { class: "copy" }, el("pre", { tabindex: 0 }, el("code", { id: "commands" }, commands)), copy(commands)),
    el("p", { class: "muted" }, "Figures are saved with the buttons below each of them in the report."),
  );
}
function looks(page) {
  const { run, about } = page,
    look = run.look || {};
  const names = about.sizes.map((n, k) =>
    el("input", {
      value: (look.names || [])[k] || "",
      placeholder: `Cluster ${k + 1}`,
      maxlength: 80,
      "aria-label": `Name of cluster ${k + 1}, ${count(n, "member")}`,
    }),
  );
  const colors = Array.from({ length: about.colors }, (_, k) =>
    el("input", {
      type: "color",
      value: ((look.colors || [])[k] || COLORS[k % COLORS.length]).toLowerCase(),
      "aria-label": `Colour ${k + 1} of states`,
    }),
  );
  const panel = panelOf("look", "Names and colours");
  const crop = about.dims === 2 ? cropper(page, look) : null;
  const apply = primary("Apply", () =>
    attempt(panel, async () => {
      apply.disabled = true;
      apply.textContent = "Drawing …";
      const chosen = colors.map((c) => c.value),
        usual = chosen.every((c, k) => c === COLORS[k % COLORS.length].toLowerCase());
      try {
        page.run.look = {
          names: names.map((n) => n.value),
          colors: usual ? [] : chosen,
          crop: crop ? crop.value() : null,
        };
        await post(`/api/runs/${run.id}/look`, page.run.look);
        page.frame.src = `/api/runs/${run.id}/report?${Date.now()}`;
        page.about = await get(`/api/runs/${run.id}/about`);
        say("The report has been drawn again.");
      } finally {
        apply.disabled = false;
        apply.textContent = "Apply";
      }
    }),
  );
  panel.append(
    el("h3", {}, "Names of the clusters"),
    el(
      "div",
      { class: "fields" },
      names.map((input, k) => el("label", {}, `${k + 1}`, input)),
    ),
    el("h3", {}, "Colours of the states"),
    el("p", { class: "hint" }, "States that are alike share a colour, in the order in which they first appear."),
    el(
      "div",
      { class: "fields" },
      colors.map((input, k) => el("label", {}, `${k + 1}`, input)),
    ),
    ...(crop
      ? [
          el("h3", {}, "Part of the picture that is shown"),
          el("p", { class: "hint" }, about.picture ? "Drag over the part to show, or type its edges." : "Type its edges."),
          crop.node,
        ]
      : []),
    el("div", { class: "onward" }, apply),
  );
  return panel;
}
// Choose the part of the picture by dragging over it, or by typing its edges.
function cropper({ run, about }, look) {
  const labels = ["left", "right", "bottom", "top"];
  const inputs = labels.map((name, k) =>
    el("input", {
      type: "number",
      step: "any",
      class: "narrow",
      value: look.crop ? look.crop[k] : "",
      placeholder: "all",
      "aria-label": `Edge: ${name}`,
    }),
  );
  const fields = el(
    "div",
    { class: "fields" },
    inputs.map((input, k) => el("label", {}, labels[k], input)),
    button("Show all", () => {
      inputs.forEach((input) => (input.value = ""));
      document.querySelectorAll(".crop i").forEach((box) => box.removeAttribute("style"));
    }),
  );
  const value = () => (inputs.every((input) => input.value !== "") ? inputs.map((input) => Number(input.value)) : null);
  if (!about.picture) return { node: fields, value };
  const image = el("img", {
    src: `/api/data/${run.data}/picture`,
    alt: "The picture that was looked at; drag over the part to show",
    draggable: "false",
  });
  const box = el("i", {}),
    place = el("div", { class: "crop" }, image, box);
  let from = null;
  const at = (event) => {
    const edge = image.getBoundingClientRect();
    return [
      Math.min(1, Math.max(0, (event.clientX - edge.left) / edge.width)),
      Math.min(1, Math.max(0, (event.clientY - edge.top) / edge.height)),
    ];
  };
  const draw = ([x, y], [u, v]) => {
    const style = { left: Math.min(x, u), top: Math.min(y, v), width: Math.abs(u - x), height: Math.abs(v - y) };
    Object.entries(style).forEach(([key, share]) => box.style.setProperty(key, `${100 * share}%`));
    const w = image.naturalWidth,
      h = image.naturalHeight;
    [Math.min(x, u) * w, Math.max(x, u) * w, Math.max(y, v) * h, Math.min(y, v) * h].forEach(
      (edge, k) => (inputs[k].value = Math.round(edge)),
    );
  };
  const shown = () => {
    const w = image.naturalWidth,
      h = image.naturalHeight;
    if (look.crop && w) draw([look.crop[0] / w, look.crop[3] / h], [look.crop[1] / w, look.crop[2] / h]);
  };
  image.addEventListener("load", shown);
  place.addEventListener("pointerdown", (event) => {
    from = at(event);
    place.setPointerCapture(event.pointerId);
  });
  place.addEventListener("pointermove", (event) => from && draw(from, at(event)));
  place.addEventListener("pointerup", () => (from = null));
  return { node: el("div", {}, place, fields), value };
}
const TABLES = {
  "tables.docx": "Tables (Word)",
  "tables.xlsx": "Tables (Excel)",
  "tables.tex": "Tables (LaTeX)",
  "methods.txt": "Methods paragraph",
  "results.txt": "Results in words",
};
function statistics(page) {
  const { run, about } = page,
    tests = el("div", {}),
    panel = panelOf("statistics", "Statistics", tests, covariates(run));
  if (about.testing) follow(page, tests);
  else if (about.statistics) found(page, tests);
  else offer(page, tests);
  return panel;
}
// Start the tests, and stay here.
const test = (page, place, text) =>
  primary(text, () =>
    attempt(place, async () => {
      page.about.testing = (await post(`/api/runs/${page.run.id}/statistics`)).id;
      recount();
      follow(page, place);
    }),
  );
function offer(page, place) {
  const { about } = page;
  const time = about.expected
    ? `This takes up to about ${duration(about.expected)}.`
    : "This takes much longer than the run did.";
  place.replaceChildren(
    el("h3", {}, "Are the clusters more than chance, and how do they differ?"),
    el(
      "p",
      {},
      `The whole clustering is repeated on up to ${about.draws} simulated data sets, fewer where the answer is clear, so p is never below ${about.smallest_p.toPrecision(2)}; on the command line you can draw more. ${time} You can go on meanwhile.`,
    ),
    el("div", { class: "onward" }, test(page, place, "Test the clusters")),
  );
}
function found(page, place) {
  const { run, about } = page;
  const link = (name) =>
    el("li", {}, el("a", { class: "button", href: `/api/runs/${run.id}/file/${name}`, download: "" }, TABLES[name]));
  const go = button("Show the section in the report", () => {
    page.frame.src = `/api/runs/${run.id}/report?${Date.now()}#statistics`;
    page.frame.scrollIntoView();
  });
  place.replaceChildren(
    el("h3", {}, "Are the clusters more than chance, and how do they differ?"),
    ...about.statistics.sentences.map((sentence) => el("p", {}, sentence)),
    el("ul", { class: "downloads" }, about.statistics.files.map(link)),
    el("div", { class: "fields" }, go, test(page, place, "Test them again")),
  );
}
// Say how far the tests are; once they are done, show what they found.
function follow(page, place) {
  const id = page.about.testing,
    said = el("p", { class: "busy", role: "status" }, "Testing the clusters …");
  place.replaceChildren(
    said,
    el("p", { class: "muted" }, "You can go on meanwhile, or close the page. ", el("a", { href: `#/run/${id}` }, "Progress")),
  );
  watch(async () => {
    const job = await get(`/api/runs/${id}`);
    if (["queued", "running"].includes(job.state)) {
      const left = job.left ? `: about ${duration(job.left)} left` : "";
      said.textContent = job.state === "queued" ? "The tests wait for another run." : `Testing the clusters${left} …`;
      return 1000;
    }
    page.about = await get(`/api/runs/${page.run.id}/about`);
    if (job.state === "done") {
      page.frame.src = `/api/runs/${page.run.id}/report?${Date.now()}`;
      found(page, place);
      say("The statistics are done.");
    } else {
      offer(page, place);
      place.prepend(problem(job.error || "The tests were stopped."));
    }
    return null;
  });
}
// A table about the people: what goes with the clusters?
function covariates(run) {
  const place = el("div", {});
  const upload = (file) =>
    attempt(place, async () => {
      answer.replaceChildren(el("p", { class: "muted busy", role: "status" }, `Reading ${file.name} …`));
      try {
        const made = await send(`/api/data?name=${encodeURIComponent(file.name)}`, file);
        const { table, sentence } = await post(`/api/runs/${run.id}/associate`, { data: made.id }).finally(() =>
          remove(`/api/data/${made.id}`),
        );
        answer.replaceChildren(el("p", {}, sentence), grid(table), el("p", { class: "hint" }, table.note));
        say(sentence);
      } catch (fault) {
        answer.replaceChildren();
        throw fault;
      }
    });
  const answer = el("div", {});
  place.append(
    el("h3", {}, "What goes with the clusters?"),
    el("p", {}, "Age, a score, a diagnosis: drop a table with one row per person, named as in the table of the run."),
    dropZone({ label: "Drop a table about the people", accept: ACCEPT, small: true, onfile: upload }),
    answer,
  );
  return place;
}
const grid = ({ title, columns, rows }) =>
  el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    el(
      "table",
      { class: "statistics" },
      el("caption", {}, title),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map((name) => (name ? el("th", { scope: "col" }, name) : el("td", {}))),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            row.map((cell, k) => (k ? el("td", {}, cell) : el("th", { scope: "row" }, cell))),
          ),
        ),
      ),
    ),
  );
function comparing({ run, about }) {
  const same = about.others.filter((other) => other.data === run.data),
    foreign = about.others.filter((other) => other.data !== run.data);
  if (!about.others.length)
    return el("section", { class: "panel" }, el("p", {}, "There is no other finished run yet."));
  const option = (other) => el("option", { value: other.id }, `${CLUSTERS(other)}, ${other.words}, ${ago(other.made)}`);
  const choice = el(
    "select",
    { id: "other" },
    same.map(option),
    foreign.length
      ? el(
          "optgroup",
          { label: "Of other tables" },
          foreign.map((other) => el("option", { value: other.id }, `${other.data_name}: ${CLUSTERS(other)}`)),
        )
      : null,
  );
  return panelOf(
    "compare",
    "Compare with another run",
    el(
      "div",
      { class: "fields" },
      el("label", {}, "Run", choice),
      primary("Side by side", () => (location.hash = `#/compare/${run.id}/${choice.value}`)),
    ),
  );
}
