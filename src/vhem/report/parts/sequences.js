// A sequence with its decoded states: a path on the map in two dimensions, curves over time otherwise.
function drawSequence(sequence, model) {
  const label = `Sequence ${sequence.name}, ${count(sequence.path.length * sequence.step, "frame")}, states ${runs(
    sequence.path,
  )
    .map(([s, n]) => `${s + 1} for ${n * sequence.step}`)
    .slice(0, 40)
    .join(", ")}`;
  if (DATA.channels) return drawTimelines(sequence, model, label);
  return IS_MAP ? drawScanpath(sequence, model, label) : drawCurves(sequence, model, label);
}
function runs(path) {
  const out = [];
  path.forEach((s) => {
    if (out.length && out[out.length - 1][0] === s) out[out.length - 1][1] += 1;
    else out.push([s, 1]);
  });
  return out;
}
function drawScanpath(sequence, model, label) {
  const seen = sequence.x
    .map((row, t) => ({ row, t, s: sequence.path[t] }))
    .filter(({ row }) => row[0] !== null && row[1] !== null);
  const points = seen.map(({ row }) => [MAP.x(row[0]), MAP.y(row[1])]),
    few = seen.length <= 40,
    r = few ? 8 : 3;
  return mapPicture(
    label,
    ...memberEllipses(model, 0.9),
    svg("path", { class: "halo", d: asPath(points), "stroke-width": 4 }),
    svg("path", { class: "arrow", d: asPath(points), "stroke-width": 1.2 }),
    ...seen.flatMap(({ t, s }, i) => {
      const k = stateColor(model, s),
        [x, y] = points[i];
      return [
        svg("circle", { cx: x, cy: y, r, fill: color(k), stroke: "#222", "stroke-width": 0.8 }),
        few
          ? svg(
              "text",
              {
                x,
                y: y + 3.2,
                "text-anchor": "middle",
                style: { fill: inkOn(k), "font-size": "9px", "font-weight": 700 },
              },
              String(t + 1),
            )
          : null,
      ];
    }),
  );
}

function drawCurves(sequence, model, label) {
  const T = sequence.path.length;
  const values = sequence.x.flatMap((row) => row.map((v, d) => (v === null ? null : inUnits(v, d)))).filter((v) => v !== null);
  const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  const X = (t) => 36 + ((t + 0.5) / T) * 514;
  const Y = (v) => 150 - ((v - low) / (high - low || 1)) * 138;
  return picture(
    560,
    210,
    label,
    ...stays(sequence, model, X),
    ...Array.from({ length: DATA.dims }, (_, d) => curve(sequence, d, X, Y)),
    ...[low, high].map((v) => tickAtLeft(32, Y(v), v)),
    svg("text", { class: "tick", x: 36, y: 194 }, "1"),
    svg("text", { class: "tick", x: 550, y: 194, "text-anchor": "end" }, `${T * sequence.step} frames`),
    svg("text", { class: "tick", x: 32, y: 172, "text-anchor": "end" }, "state"),
  );
}
function stays(sequence, model, X) {
  // a coloured ground and a numbered strip for every stay in a state
  let t = 0;
  return runs(sequence.path).flatMap(([s, n]) => {
    const k = stateColor(model, s);
    const x = X(t - 0.5);
    const width = X(t + n - 0.5) - x;
    t += n;
    const number = { x: x + width / 2, y: 172, "text-anchor": "middle", style: { fill: inkOn(k), "font-weight": 700 } };
    return [
      svg("rect", { x, y: 8, width, height: 146, fill: color(k), "fill-opacity": 0.16 }),
      svg("rect", { x, y: 158, width, height: 20, fill: color(k), stroke: "#222", "stroke-width": 0.5 }),
      width > 12 ? svg("text", number, String(s + 1)) : null,
    ];
  });
}
function curve(sequence, d, X, Y) {
  const many = DATA.dims > 6;
  let pen = "M";
  let path = "";
  sequence.x.forEach((row, i) => {
    // a missing value lifts the pen
    if (row[d] !== null) path += `${pen}${X(i).toFixed(1)},${Y(inUnits(row[d], d)).toFixed(1)}`;
    pen = row[d] === null ? "M" : "L";
  });
  const dashes = DATA.dims > 1 ? DASHES[d % 6] : "";
  return svg("path", {
    class: "arrow",
    d: path,
    "stroke-width": many ? 0.8 : 1.3,
    opacity: many ? 0.6 : 1,
    "stroke-dasharray": dashes,
  });
}
