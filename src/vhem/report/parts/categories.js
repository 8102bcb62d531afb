// Sequences of categories: one coloured line each (index plot), the shares at every moment, and single sequences over time.
const MOST_LINES = 300;
const categoryKeys = (channel) =>
  el(
    "ul",
    { class: "keys" },
    channel.names.map((name, k) => el("li", {}, el("b", { style: { background: categoryColor(k) } }), name)),
  );
const compared = (a, b) => {
  for (let t = 0; t < Math.min(a.length, b.length); t += 1) if (a[t] !== b[t]) return (a[t] ?? -1) - (b[t] ?? -1);
  return a.length - b.length;
};
// The categories of some members' sequences, in pictures; nothing for other channels.
function categoryParts(leaves) {
  const chosen = new Set(leaves),
    own = (DATA.sequences || []).filter((s) => chosen.has(s.of));
  if (!DATA.channels || !own.length) return [];
  return DATA.channels.flatMap((channel, c) => {
    if (!channel.names) return [];
    const rows = own.map((s) => s.x.map((frame) => frame[c])).sort(compared);
    return [
      el("h4", {}, `Sequences of ${channel.name}`),
      el("div", { class: "figure" }, indexPlot(rows, channel)),
      el("div", { class: "figure" }, distributionPlot(rows, channel)),
      categoryKeys(channel),
    ];
  });
}
function indexPlot(rows, channel) {
  const every = Math.ceil(rows.length / MOST_LINES),
    shown = rows.filter((_, i) => i % every === 0),
    T = Math.max(...shown.map((row) => row.length));
  const X = (t) => 44 + (t / T) * 506,
    thick = Math.min(12, Math.max(0.7, 180 / shown.length)),
    height = thick * shown.length;
  const lines = shown.flatMap((row, i) =>
    stretches(row)
      .filter(([v]) => v !== null)
      .map(([v, from, to]) =>
        svg("rect", { x: X(from), y: 6 + i * thick, width: X(to) - X(from), height: thick + 0.15, fill: categoryColor(v) }),
      ),
  );
  const label = `${count(rows.length, "sequence")} of ${channel.name}, one line each, sorted from the start`;
  const note = every > 1 ? `1 in ${every} of ${count(rows.length, "sequence")}, sorted` : `${count(rows.length, "sequence")}, sorted`;
  return picture(560, height + 24, label, ...lines, ...timeTicks(X, T, height + 20, note));
}
function distributionPlot(rows, channel) {
  const T = Math.max(...rows.map((row) => row.length)),
    X = (t) => 44 + (t / T) * 506,
    Y = (p) => 126 - 120 * p;
  const counts = Array.from({ length: T }, (_, t) => channel.names.map((_, k) => rows.filter((row) => row[t] === k).length));
  const below = counts.map(() => 0);
  const bands = channel.names.map((_, k) => {
    const bars = counts.map((n, t) => {
      const total = n.reduce((a, b) => a + b, 0) || 1,
        from = below[t];
      below[t] += n[k] / total;
      return [t, from, below[t]];
    });
    const path = bars
      .filter(([, from, to]) => to > from)
      .map(([t, from, to]) => `M${X(t).toFixed(1)},${Y(from).toFixed(1)}V${Y(to).toFixed(1)}H${(X(t + 1) + 0.1).toFixed(1)}V${Y(from).toFixed(1)}Z`);
    return svg("path", { d: path.join(""), fill: categoryColor(k) });
  });
  const label = `Share of every category of ${channel.name} at each moment`;
  return picture(560, 150, label, ...bands, shareAtLeft(40, Y(1) + 4, "100 %"), shareAtLeft(40, Y(0), "0 %"), ...timeTicks(X, T, 142, "shares over time"));
}
const timeTicks = (X, T, y, note) => [
  svg("text", { class: "tick", x: X(0), y }, "1"),
  svg("text", { class: "tick", x: (X(0) + X(T)) / 2, y, "text-anchor": "middle" }, note),
  svg("text", { class: "tick", x: X(T), y, "text-anchor": "end" }, String(T)),
];
// One sequence: a strip of categories or a curve for every channel, and the states below.
function drawTimelines(sequence, model, label) {
  const T = sequence.path.length,
    X = (t) => 66 + (t / T) * 486;
  let y = 4;
  const content = DATA.channels.flatMap((channel, c) => {
    const values = sequence.x.map((frame) => frame[c]),
      tall = channel.names ? 26 : 60,
      name = svg("text", { class: "tick", x: 62, y: y + tall / 2 + 3, "text-anchor": "end" }, channel.name.slice(0, 10));
    const drawn = channel.names ? strip(values, X, y, tall, categoryColor) : [timeline(values, X, y, tall)];
    y += tall + 6;
    return [name, ...drawn];
  });
  const states = strip(sequence.path, X, y, 18, (s) => color(stateColor(model, s)));
  content.push(svg("text", { class: "tick", x: 62, y: y + 13, "text-anchor": "end" }, "state"), ...states);
  return picture(560, y + 40, label, ...content, ...timeTicks(X, T, y + 33, ""));
}
const strip = (values, X, y, height, fill) =>
  stretches(values)
    .filter(([v]) => v !== null)
    .map(([v, from, to]) => svg("rect", { x: X(from), y, width: X(to) - X(from), height, fill: fill(v), stroke: "#444", "stroke-width": 0.3 }));
function timeline(values, X, y, height) {
  const seen = values.filter((v) => v !== null),
    low = Math.min(...seen),
    high = Math.max(...seen);
  const points = values.map((v, t) => [X(t + 0.5), y + height - ((v - low) / (high - low || 1)) * height]);
  return svg("path", { class: "arrow", d: asPath(points.filter((_, t) => values[t] !== null)), "stroke-width": 1.2 });
}
