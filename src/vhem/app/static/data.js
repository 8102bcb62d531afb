// The table: what was understood, the role of every column, what is wrong and the ways out, pictures.
import { categoryColor, COLORS, count, el, short } from "./drawing.js";
import { get, post, remove, say, send } from "./api.js";
import { attempt, button, dropZone, primary, problem, section, tiles } from "./parts.js";
import { drawSequences, histogram, isPlane } from "./pictures.js";
import { ACCEPT, sendAll } from "./start.js";

const ROLES = [
  ["value", "value", "what was measured"],
  ["group", "person", "who it was measured on; all sequences of a person share a model"],
  ["id", "sequence", "rows with the same entry are one sequence, such as a trial"],
  ["category", "category", "a kind instead of a number: a page, a word, an answer"],
  ["time", "time", "rows of a sequence are sorted by it"],
  ["weights", "weight", "how much a sequence counts"],
  ["", "not used", ""],
];
// In a wide table the moments are chosen together, as series.
const WIDE = [
  ["id", "name", "names the sequence of the row"],
  ["group", "person", "who the rows are about; all sequences of a person share a model"],
  ["weights", "weight", "how much a sequence counts"],
  ["", "not used", ""],
];

export async function showData(main, id) {
  const table = await get(`/api/data/${id}`);
  const page = { id, table, roles: table.roles, main, found: null, picture: null };
  if (table.picture) page.picture = await loaded(`/api/data/${id}/picture`);
  main.replaceChildren(
    el("h1", { class: "title" }, table.name),
    el("p", { role: "status", class: "muted busy" }, "Looking at the table …"),
  );
  await look(page);
}
function loaded(src) {
  return new Promise((done) => {
    const image = new Image();
    image.addEventListener("load", () => done(image));
    image.addEventListener("error", () => done(null));
    image.src = `${src}?${Date.now()}`;
  });
}
// First the beginning of a large table, then all of it.
export async function look(page) {
  const turn = (page.turn = (page.turn || 0) + 1);
  const ask = (whole) => post(`/api/data/${page.id}/look`, { roles: page.roles, whole, keep: true });
  page.main.setAttribute("aria-busy", "true");
  try {
    let found = await ask(false);
    if (turn !== page.turn) return;
    show(page, found);
    if (found.partial) {
      found = await ask(true);
      if (turn !== page.turn) return;
      show(page, found);
    }
    say(found.problem ? found.problem.text : sentence(found));
  } catch (fault) {
    page.main.append(problem(fault.message));
  } finally {
    page.main.removeAttribute("aria-busy");
  }
}
export function sentence(found) {
  const { facts, roles } = found;
  const who = facts.people
    ? `${count(facts.sequences, "sequence")} of ${facts.people === 1 ? "1 person" : `${facts.people.toLocaleString("en")} people`}`
    : count(facts.sequences, "sequence");
  const what = roles.values.length > 6 ? `${roles.values.length} values` : roles.values.join(", ");
  if (roles.wide) {
    const [, first, last] = roles.wide[0];
    return `${who}. Every row is a sequence, of ${what}: its moments are the columns ${first} to ${last}.`;
  }
  return `${who}. Every row has ${what}${roles.time ? `; rows are sorted by ${roles.time}` : ""}.`;
}
function show(page, found) {
  page.found = found;
  page.hadTime ||= Boolean(found.roles && found.roles.time);
  const focused = document.activeElement && document.activeElement.id;
  const parts = [el("h1", { class: "title" }, page.table.name)];
  if (page.table.demo)
    parts.push(
      el(
        "p",
        { class: "hint" },
        "A simulated study: 40 people looked at faces. Some look at the eyes, some at the nose, some all over. Who is who?",
      ),
    );
  if (found.problem) parts.push(trouble(page, found));
  if (found.facts) parts.push(understood(page, found));
  if (found.columns.length) parts.push(columns(page, found));
  if (found.facts) parts.push(pictures(page, found));
  parts.push(onward(page, found));
  page.main.replaceChildren(...parts);
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
}
function understood(page, found) {
  const { facts, channels } = found,
    many = facts.rows.toLocaleString("en");
  const lengths = facts.shortest === facts.longest ? String(facts.shortest) : `${facts.shortest} to ${facts.longest}`;
  const notes = found.notes.map((note) => el("li", {}, note));
  return el(
    "section",
    { "aria-label": "What was understood", id: "understood", "data-whole": String(!found.partial) },
    tiles([
      [facts.sequences.toLocaleString("en"), facts.sequences === 1 ? "sequence" : "sequences"],
      [facts.people ? facts.people.toLocaleString("en") : null, facts.people === 1 ? "person" : "people"],
      [many, "observations"],
      [lengths, "per sequence"],
      [String(found.roles.values.length), found.roles.values.length === 1 ? "value per row" : "values per row"],
      [facts.missing ? facts.missing.toLocaleString("en") : "none", "missing values"],
    ]),
    el(
      "p",
      { class: "understood" },
      sentence(found),
      found.partial
        ? el("span", { class: "muted busy" }, " So far from the first rows; the rest is being read …")
        : null,
    ),
    notes.length ? el("div", { class: "notice" }, el("strong", {}, "Worth a look"), el("ul", {}, notes)) : null,
    channels.length <= 12
      ? el(
          "p",
          { class: "muted" },
          channels
            .map(
              (c) =>
                `${c.name}: ${c.categories ? `${c.kinds} categories (${c.categories.slice(0, 6).join(", ")}${c.kinds > 6 ? ", …" : ""})` : c.low === null ? "empty" : `${short(c.low)} to ${short(c.high)}`}${c.kinds && !c.categories ? `, ${c.kinds} different whole numbers` : ""}${c.missing ? `, ${c.missing.toLocaleString("en")} missing` : ""}`,
            )
            .join(" · "),
        )
      : null,
  );
}
function roleOf(roles, name) {
  if (!roles) return "";
  if (roles.group === name) return "group";
  if ((roles.id || []).includes(name)) return "id";
  if (roles.time === name) return "time";
  if (roles.weights === name) return "weights";
  if ((roles.categories || []).includes(name)) return "category";
  return (roles.values || []).includes(name) ? "value" : "";
}
// Turn the roles of all columns into what the reader takes: a person is part of what names a sequence.
function asRoles(page, chosen) {
  const of = (role) => Object.keys(chosen).filter((name) => chosen[name] === role);
  const [group] = of("group"),
    ids = of("id"),
    kept = page.roles;
  if (page.found.roles && page.found.roles.wide)
    return {
      ...kept,
      id: ids,
      group: group || null,
      weights: of("weights")[0] || null,
      one_sequence: !ids.length,
      wide: page.found.roles.wide,
    };
  const together = group ? [group, ...ids] : ids;
  return {
    ...kept,
    id: together,
    group: group && ids.length ? group : null,
    time: of("time")[0] || (page.hadTime ? "" : null),
    values: Object.keys(chosen).filter((name) => ["value", "category"].includes(chosen[name])),
    categories: of("category"),
    weights: of("weights")[0] || null,
    one_sequence: !together.length,
  };
}
function change(page, name, role) {
  const chosen = rolesNow(page);
  if (["group", "time", "weights"].includes(role))
    Object.keys(chosen).forEach((other) => chosen[other] === role && (chosen[other] = role === "group" ? "id" : ""));
  chosen[name] = role;
  page.chosen = chosen;
  page.roles = asRoles(page, chosen);
  look(page);
}
function columns(page, found) {
  const now = found.roles || page.roles;
  if (page.roles.wide && found.problem) now.wide = page.roles.wide;
  const bad = new Map((found.problem ? found.problem.cells : []).map((cell) => [cell.column, cell]));
  const wide = now.wide || page.roles.wide,
    choices = wide ? WIDE : ROLES,
    moments = momentsOf(wide, found.columns);
  const head = found.columns.map(({ name, numeric }, k) => {
    if (moments.has(name))
      return el(
        "th",
        { scope: "col", class: bad.has(name) ? "bad" : null },
        el("span", { class: "name" }, name),
        el("small", { class: "moment" }, moments.get(name)),
      );
    const role = page.chosen ? page.chosen[name] : roleOf(now, name);
    const options = choices.map(([key, text]) => el("option", { value: key, selected: key === role }, text));
    const select = el(
      "select",
      {
        id: `role-${k}`,
        class: `role ${role || "none"}`,
        "aria-label": `Role of column ${name}`,
        onchange: (event) => change(page, name, event.target.value),
      },
      options,
    );
    return el(
      "th",
      { scope: "col", class: bad.has(name) ? "bad" : null },
      el("span", { class: "name" }, name),
      el("small", { class: "muted" }, numeric ? "numbers" : "text"),
      select,
    );
  });
  const body = found.head.map((row) =>
    el(
      "tr",
      {},
      row.map((cell, k) => {
        const { name } = found.columns[k];
        return el("td", { class: `of-${moments.has(name) ? "value" : roleOf(now, name) || "none"}` }, cell);
      }),
    ),
  );
  const keys = choices
    .filter(([key]) => key)
    .map(([key, text, meaning]) =>
      el("li", {}, el("b", { class: `swatch ${key}` }), el("strong", {}, text), ` ${meaning}`),
    );
  return section(
    "Columns",
    layout(page, found, wide),
    el("p", { class: "hint" }, "Choose what each column is by clicking below its name."),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "First rows of the table" },
      el("table", { class: "preview" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)),
    ),
    el("ul", { class: "legend" }, keys),
    readingChoices(page, found),
    joined(page),
  );
}
// Which moment of which series a column of a wide table is.
function momentsOf(wide, columns) {
  const names = columns.map(({ name }) => name),
    found = new Map();
  for (const [series, first, last] of wide || [])
    names
      .slice(names.indexOf(first), names.indexOf(last) + 1)
      .forEach((name, k) => found.set(name, `moment ${k + 1} of ${series}`));
  return found;
}
// Whether a row is an observation or a whole sequence; and in the latter case, which columns are its moments.
function layout(page, found, wide) {
  const names = found.columns.map(({ name }) => name);
  const read = (roles) => {
    page.chosen = null;
    page.roles = roles;
    look(page);
  };
  const reading = () =>
    Object.fromEntries(["decimal", "encoding", "sheet"].map((key) => [key, page.roles[key]]).filter(([, v]) => v));
  const free = names.filter((name) => !["id", "group", "weights"].includes(roleOf(found.roles || {}, name)));
  const set = (series, categories) =>
    read({
      ...page.roles,
      ...(found.roles && wide ? asRoles(page, rolesNow(page)) : reading()),
      long: false,
      values: [],
      time: null,
      wide: series,
      categories,
    });
  const row = el(
    "label",
    {},
    "Every row is",
    el(
      "select",
      {
        id: "layout",
        onchange: (event) =>
          event.target.value === "wide"
            ? set(
                found.likely.length
                  ? found.likely
                  : [["state", free[0] || names[0], free[free.length - 1] || names[0]]],
                [],
              )
            : read({ ...reading(), long: true }),
      },
      el("option", { value: "long", selected: !wide }, "one observation"),
      el("option", { value: "wide", selected: Boolean(wide) }, "a whole sequence"),
    ),
  );
  return el(
    "div",
    { class: "layout" },
    el("div", { class: "fields" }, row),
    wide ? seriesOf(page, found, wide, names, set) : null,
  );
}
function seriesOf(page, found, wide, names, set) {
  const coded = new Set((found.roles && found.roles.categories) || page.roles.categories || []);
  const change = (k, at, value) => {
    const series = wide.map((one) => [...one]);
    if (at === 0 && coded.delete(series[k][0])) coded.add(value);
    series[k][at] = value;
    set(
      series,
      [...coded].filter((name) => series.some(([own]) => own === name)),
    );
  };
  const ends = (k, at, label) =>
    el(
      "select",
      {
        id: `series-${k}-${at}`,
        "aria-label": `${label} of series ${k + 1}`,
        onchange: (event) => change(k, at, event.target.value),
      },
      names.map((name) => el("option", { value: name, selected: name === wide[k][at] }, name)),
    );
  const rows = wide.map(([name], k) =>
    el(
      "div",
      { class: "fields" },
      el(
        "label",
        {},
        "Series",
        el("input", {
          id: `series-${k}-0`,
          value: name,
          maxlength: 60,
          class: "medium",
          onchange: (event) => change(k, 0, event.target.value),
        }),
      ),
      el("label", {}, "from", ends(k, 1, "First column")),
      el("label", {}, "to", ends(k, 2, "Last column")),
      el(
        "label",
        {},
        el("input", {
          id: `series-${k}-categories`,
          type: "checkbox",
          checked: coded.has(name) || Boolean(joinedOf(page).length && found.channels && found.channels[k].categories),
          onchange: (event) => {
            coded[event.target.checked ? "add" : "delete"](name);
            set(wide, [...coded]);
          },
        }),
        "categories",
      ),
      wide.length > 1
        ? button(
            "Remove",
            () =>
              set(
                wide.filter((_, other) => other !== k),
                [...coded],
              ),
            { class: "button quiet", "aria-label": `Remove series ${name}` },
          )
        : null,
    ),
  );
  const last = names.indexOf(wide[wide.length - 1][2]) + 1,
    long = names.indexOf(wide[0][2]) - names.indexOf(wide[0][1]);
  const more = () => {
    const begin = Math.min(last, Math.max(0, names.length - 1 - long));
    set(
      [...wide, [`series${wide.length + 1}`, names[begin], names[Math.min(names.length - 1, begin + long)]]],
      [...coded],
    );
  };
  return el("div", {}, rows, button("Add a series that runs beside it", more, { class: "button quiet" }));
}
function rolesNow(page) {
  return Object.fromEntries(
    page.found.columns.map(({ name }) => [
      name,
      page.chosen ? page.chosen[name] : roleOf(page.found.roles || page.roles, name),
    ]),
  );
}
const joinedOf = (page) => page.table.joined || [];
// Other tables that are read together with this one.
function joined(page) {
  const place = el("div", {}),
    others = joinedOf(page);
  const changed = async () => {
    page.table = await get(`/api/data/${page.id}`);
    await look(page);
  };
  const add = (files) =>
    attempt(place, async () => {
      const said = el("div", {});
      place.append(said);
      const ids = await sendAll(said, files).finally(() => said.remove());
      await post(`/api/data/${page.id}/join`, { data: ids });
      await changed();
    });
  place.append(
    el(
      "p",
      {},
      others.length
        ? `Read together with ${others.join(", ")}, by id. Each table's values are used as they are found in it.`
        : "If other files say something else about the same sequences, with the same ids, join them: work in one table and family in another, say.",
    ),
    others.length
      ? button("Read this table alone", () =>
          attempt(place, async () => (await post(`/api/data/${page.id}/separate`), await changed())),
        )
      : "",
    dropZone({
      label: "Drop a table to join",
      hint: "it needs the same columns of ids",
      accept: ACCEPT,
      small: true,
      onfile: (file) => add([file]),
      onfiles: add,
    }),
  );
  return el(
    "details",
    {
      class: "fold",
      open: Boolean(others.length || page.joining),
      ontoggle: (event) => (page.joining = event.target.open),
    },
    el("summary", {}, "Further tables about the same sequences"),
    place,
  );
}
// How the file is read, for files where that may be in doubt.
function readingChoices(page, found) {
  const set = (key) => (event) => {
    page.roles = { ...page.roles, [key]: event.target.value || null };
    look(page);
  };
  const choice = (key, label, options) =>
    el(
      "label",
      {},
      label,
      el(
        "select",
        { id: `choice-${key}`, onchange: set(key) },
        options.map(([value, text]) => el("option", { value, selected: (page.roles[key] || "") === value }, text)),
      ),
    );
  const choices = [
    choice("decimal", "Decimal sign", [
      ["", "detect it"],
      [".", "point: 3.5"],
      [",", "comma: 3,5"],
    ]),
  ];
  if (found.sheets && found.sheets.length > 1)
    choices.unshift(
      choice(
        "sheet",
        "Sheet",
        found.sheets.map((name, k) => [k ? name : "", name]),
      ),
    );
  else if (!(found.sheets || []).length)
    choices.push(
      choice("encoding", "Text encoding", [
        ["", "UTF-8"],
        ["cp1252", "Windows (cp1252)"],
        ["latin-1", "Latin 1"],
      ]),
    );
  return el(
    "details",
    { class: "fold", open: Boolean(page.opened), ontoggle: (event) => (page.opened = event.target.open) },
    el("summary", {}, "How the file is read"),
    el("div", { class: "fields" }, choices),
  );
}
function trouble(page, found) {
  const { text, cells, more } = found.problem,
    box = problem(text);
  if (cells.length) {
    const rows = cells.map((cell) =>
      el("tr", {}, el("td", {}, String(cell.row)), el("td", {}, cell.column), el("td", {}, el("code", {}, cell.value))),
    );
    const n = cells.length + more;
    box.append(
      el(
        "p",
        {},
        "Ways out: correct the table and drop it again; give the column another role below; check the decimal sign under “How the file is read”; or",
      ),
      primary(`Treat ${n === 1 ? "this cell" : `these ${n} cells`} as missing`, () =>
        attempt(box, async () => {
          const made = await post(`/api/data/${page.id}/empty`, { roles: page.roles, column: cells[0].column });
          location.hash = `#/data/${made.id}`;
        }),
      ),
      el(
        "table",
        { class: "cells" },
        el(
          "caption",
          {},
          `${count(n, "cell")} that ${n === 1 ? "is not a number" : "are not numbers"}${more ? `; the first ${cells.length}` : ""}`,
        ),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["Row", "Column", "Content"].map((name) => el("th", { scope: "col" }, name)),
          ),
        ),
        el("tbody", {}, rows),
      ),
    );
  }
  box.append(el("p", {}, el("a", { href: "#/" }, "Use another file")));
  return box;
}
// What the colours of a curve, or of cells, mean.
function keysOf(channel, d) {
  const key = (background, name) => el("li", {}, el("b", { style: { background } }), name);
  if (!channel.categories) return [key(COLORS[(d + 4) % 8], channel.name)];
  return channel.categories.slice(0, 24).map((name, k) => key(categoryColor(k), `${channel.name}: ${name}`));
}
function pictures(page, found) {
  const drawn = drawSequences(found, page.picture, null);
  const place = el("div", {});
  const change = async (action) => {
    await action();
    page.picture = await loaded(`/api/data/${page.id}/picture`);
    show(page, page.found);
  };
  place.append(
    page.picture
      ? button("Remove the picture", () => attempt(place, () => change(() => remove(`/api/data/${page.id}/picture`))))
      : dropZone({
          label: "Drop the picture that people looked at",
          hint: "PNG or JPEG; sequences and results are drawn over it",
          accept: ".png,.jpg,.jpeg",
          small: true,
          onfile: (file) =>
            attempt(place, () =>
              change(() => send(`/api/data/${page.id}/picture?name=${encodeURIComponent(file.name)}`, file)),
            ),
        }),
  );
  return section(
    "A few sequences",
    el("div", { class: "thumbs" }, drawn),
    isPlane(found) ? place : el("ul", { class: "keys" }, found.channels.slice(0, 8).flatMap(keysOf)),
    el("h3", {}, "How long they are"),
    found.facts.shortest === found.facts.longest
      ? el("p", {}, `All have ${count(found.facts.longest, "observation")}.`)
      : el("div", { class: "figure" }, histogram(found.lengths)),
  );
}
function onward(page, found) {
  const ready = found.facts && !found.problem;
  return el(
    "div",
    { class: "onward" },
    ready
      ? primary("Continue", () => (location.hash = `#/model/${page.id}`))
      : el("p", { class: "muted" }, "Solve the problem above to continue."),
  );
}
