// An HMM, drawn according to its number of dimensions; `behind` are members drawn faintly, `small` leaves out what needs room.
function drawModel(model, { behind = [], small = false } = {}) {
  const label = describe(model);
  if (DATA.channels) return drawChannels(model, behind, label, small);
  if (IS_MAP) return drawMap(model, behind, label);
  return DATA.dims === 1 ? drawDensities(model, behind, label) : drawProfiles(model, behind, label, small);
}
function drawMap(model, behind, label) {
  const faint = Math.min(0.75, Math.max(0.18, 10 / (behind.length + 1)));
  const places = apart(
    model.mean.map(([x, y]) => [MAP.x(x), MAP.y(y)]),
    30,
  );
  return mapPicture(
    label,
    ...behind.flatMap((m) => memberEllipses(m, faint)),
    ...model.start.flatMap((_, s) =>
      gaussians(model, s).map((g) => {
        const c = color(stateColor(model, s));
        return ellipse(g, {
          fill: c,
          "fill-opacity": 0.32 * Math.sqrt(g.w),
          stroke: c,
          "stroke-width": 2,
          "stroke-dasharray": DASHES[stateColor(model, s) % 6],
        });
      }),
    ),
    ...chain(model, places, 9),
    ...credible(model),
  );
}
// Where the means lie with a probability of 95 %, if a posterior says so: 2.45 standard deviations of theirs in a plane, of which `ellipse` draws 2.
function credible(model) {
  if (!model.unsure || !model.unsure.share) return [];
  return model.start.flatMap((_, s) => {
    const share = model.unsure.share[s] * (5.99 / 4);
    return gaussians(model, s).flatMap((g) => {
      const mean = { ...g, cov: g.cov.map((row) => row.map((v) => v * share)) };
      return [ellipse(mean, { class: "edge" }), ellipse(mean, { class: "credible" })];
    });
  });
}
function densityPaths(model, X, Y) {
  const [low, high] = MAP.bounds[0],
    steps = 160;
  return model.start.map((_, s) =>
    Array.from({ length: steps + 1 }, (_, i) => {
      const v = low + ((high - low) * i) / steps;
      const density = gaussians(model, s).reduce(
        (sum, g) =>
          sum + (g.w * Math.exp((-0.5 * (v - g.mean[0]) ** 2) / g.cov[0][0])) / Math.sqrt(2 * Math.PI * g.cov[0][0]),
        0,
      );
      return [X(v), Y ? Y(density * model.time[s]) : density * model.time[s]];
    }),
  );
}
function drawDensities(model, behind, label) {
  const width = 400,
    height = 230,
    base = 205,
    [low, high] = MAP.bounds[0];
  const X = (v) => 10 + ((v - low) / (high - low)) * (width - 20);
  const highest =
    Math.max(
      ...densityPaths(model, X, null)
        .flat()
        .map((q) => q[1]),
    ) || 1;
  const Y = (v) => base - Math.min(1.15, v / highest) * 120;
  const faint = Math.min(0.7, Math.max(0.15, 8 / (behind.length + 1)));
  const places = spread(
    model.mean.map(([x]) => X(x)),
    30,
  ).map((x) => [x, 48]);
  const areas = densityPaths(model, X, Y).map((points, s) => {
    const k = stateColor(model, s);
    return svg("path", {
      d: asPath(points),
      fill: color(k),
      "fill-opacity": 0.3,
      stroke: color(k),
      "stroke-width": 2,
      "stroke-dasharray": DASHES[k % 6],
    });
  });
  const lines = behind.flatMap((m) =>
    densityPaths(m, X, Y).map((points) => svg("path", { class: "member", d: asPath(points), opacity: faint })),
  );
  const seen = model.seen ? model.seen[0] : { ends: [0, 0], share: [] },
    bin = (seen.ends[1] - seen.ends[0]) / (seen.share.length || 1);
  const bars = seen.share.map((p, k) => {
    const x = X(seen.ends[0] + k * bin);
    if (x < 0 || x > width - 10) return null; // beyond what the states emit
    return svg("rect", { class: "seen", x, y: Y(p), width: X(low + bin) - X(low), height: base - Y(p) });
  });
  return picture(
    width,
    height,
    label,
    ...bars,
    ...lines,
    ...areas,
    ...chain(model, places, 9),
    ...axis(X, low, high, base, dimension(0)),
  );
}
function axis(X, low, high, base, name) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 2)),
    ticks = [];
  const wide = (high - low) / step > 10 ? 5 * step : (high - low) / step > 5 ? 2 * step : step;
  for (let v = Math.ceil(low / wide) * wide; v <= high; v += wide)
    ticks.push(
      svg("text", { class: "tick", x: X(v), y: base + 13, "text-anchor": "middle" }, short(Number(v.toPrecision(6)))),
    );
  return [
    svg("path", { class: "frame", d: `M${X(low)},${base}H${X(high)}` }),
    ...ticks,
    svg("text", { class: "tick", x: X(high), y: base + 24, "text-anchor": "end" }, name),
  ];
}

function drawProfiles(model, behind, label, small) {
  const [width, right] = small ? [360, 335] : [560, 350];
  const low = Math.min(...MAP.bounds.map((b) => b[0]));
  const high = Math.max(...MAP.bounds.map((b) => b[1]));
  const X = (d) => 34 + (d / Math.max(1, DATA.dims - 1)) * (right - 34);
  const Y = (v) => 190 - ((v - low) / (high - low)) * 180;
  const faint = Math.min(0.7, Math.max(0.12, 8 / (behind.length + 1)));
  const points = (values) => values.map((v, d) => [X(d), Y(inUnits(v, d))]);
  const members = behind.flatMap((m) =>
    m.mean.map((values) => svg("path", { class: "member", d: asPath(points(values)), opacity: faint })),
  );
  const content = [...members, ...profileLines(model, points), ...profileNumbers(model, right + 5, Y)];
  content.push(...profileAxes(X, Y, low, high, right));
  if (!small) content.push(...circleChain(model, 465, 105, 68));
  return picture(width, 220, label, ...content);
}
function profileLines(model, points) {
  return model.mean.flatMap((values, s) => {
    const k = stateColor(model, s);
    const above = points(values.map((v, d) => v + model.sd[s][d]));
    const below = points(values.map((v, d) => v - model.sd[s][d])).reverse();
    const band = { d: asPath([...above, ...below]) + "Z", fill: color(k), "fill-opacity": 0.14 };
    const line = {
      d: asPath(points(values)),
      stroke: color(k),
      "stroke-width": 2.2,
      "stroke-dasharray": DASHES[k % 6],
    };
    return [model.mean.length <= 4 ? svg("path", band) : null, svg("path", { ...LINE, ...line })];
  });
}
function profileNumbers(model, x, Y) {
  const ends = model.mean.map((values) => Y(inUnits(values[DATA.dims - 1], DATA.dims - 1)));
  return spread(ends, 11).map((y, s) => svg("text", { x, y: y + 4, style: { "font-weight": 700 } }, String(s + 1)));
}
function profileAxes(X, Y, low, high, right) {
  const name = (d) => (DATA.dimensionNames ? DATA.dimensionNames[d] : String(d + 1));
  const step = Math.ceil(DATA.dims / 8);
  const shown = Array.from({ length: DATA.dims }, (_, d) => d).filter((d) => d % step === 0);
  const below = { class: "tick", "text-anchor": "middle" };
  const room = (right - 34) / Math.max(1, shown.length - 1) / 6, // letters from one name to the next
    long = shown.some((d) => name(d).length > room);
  const names = shown.map((d, i) => {
    const atEnd = i ? { x: right + 22, "text-anchor": "end" } : { x: 4, "text-anchor": "start" },
      outer = long && (i === 0 || i === shown.length - 1);
    const place = outer ? atEnd : { x: X(d) };
    return svg("text", { ...below, ...place, y: long && i % 2 ? 217 : 204 }, cut(name(d), (outer ? 1.4 : 2) * room));
  });
  return [
    svg("path", { class: "frame", d: `M34,10V190H${right}` }),
    ...names,
    svg("text", { ...below, x: (34 + right) / 2, y: 217 }, DATA.dimensionNames ? "" : "dimension"),
    ...[low, 0, high].map((v) => tickAtLeft(30, Y(v), v)),
  ];
}
