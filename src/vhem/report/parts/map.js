// The frame that pictures in one or two dimensions share, and what is drawn in it.
// In more dimensions each has a zero and a unit of its own, so that all of them can be seen on one axis: mean and spread over the states of all centres, as in vhem.plotting.
const SCALES = Array.from({ length: DATA.channels || DATA.dims < 3 ? 0 : DATA.dims }, (_, d) => {
  const states = DATA.layers[1].flatMap((m) => m.mean.map((x, s) => [x[d], m.sd[s][d]]));
  const zero = states.reduce((sum, [mean]) => sum + mean, 0) / states.length;
  const square = states.reduce((sum, [mean, sd]) => sum + sd ** 2 + (mean - zero) ** 2, 0) / states.length;
  return { zero, unit: Math.sqrt(square) || 1 };
});
const inUnits = (value, d) => (SCALES.length ? (value - SCALES[d].zero) / SCALES[d].unit : value);
const MAP = (() => {
  // one frame for all pictures in one or two dimensions
  const centers = DATA.layers[1];
  if (DATA.channels) return { bounds: [] };
  // Profiles show one standard deviation at most, and only means where there are many states.
  const reach = DATA.dims < 3 ? 2.8 : Math.max(...centers.map((m) => m.start.length)) <= 4 ? 1.1 : 0.3;
  const bounds = Array.from({ length: DATA.dims }, (_, d) => {
    const low = Math.min(...centers.flatMap((m) => m.mean.map((x, s) => x[d] - reach * m.sd[s][d])));
    const high = Math.max(...centers.flatMap((m) => m.mean.map((x, s) => x[d] + reach * m.sd[s][d])));
    return [inUnits(low, d), high > low ? inUnits(high, d) : inUnits(low, d) + 1];
  });
  if (DATA.dims !== 2) return { bounds };
  let [[left, right], [bottom, top]] = bounds;
  const edges = DATA.crop || DATA.extent;
  if (edges) [left, right, bottom, top] = edges;
  const ratio = Math.abs((top - bottom) / (right - left));
  const width = 320,
    height = edges || (ratio > 0.3 && ratio < 3) ? Math.min(width * ratio, 460) : 240;
  const wide = edges || (ratio > 0.3 && ratio < 3) ? height / ratio : width;
  return {
    bounds,
    width,
    height,
    left,
    right,
    bottom,
    top,
    offset: (width - wide) / 2,
    wide,
    x: (v) => (width - wide) / 2 + ((v - left) / (right - left)) * wide,
    y: (v) => height - ((v - bottom) / (top - bottom)) * height,
    sx: wide / (right - left),
    sy: -height / (top - bottom),
  };
})();
const LINE = { fill: "none", "stroke-linejoin": "round" };
const DASHES = ["", "7 2.5", "2 2", "8 2.5 2 2.5", "4 2", "12 4"];

function describe(model) {
  const states = model.start.map((start, s) => {
    const next = model.next[s].map((p, t) => [p, t]).sort((a, b) => b[0] - a[0])[0];
    const where = DATA.channels
      ? `, ${model.words[s].join("; ")}`
      : DATA.dims <= 3 ? `, mean ${model.mean[s].map((x, d) => `${dimension(d)} ${short(x)}`).join(", ")}` : "";
    return `State ${s + 1}: ${percent(model.time[s])} of the time${where}, starts ${percent(start)}, next most often state ${next[1] + 1} (${percent(next[0])}).`;
  });
  return `HMM with ${count(model.start.length, "state")}. ${states.join(" ")}`;
}

function gaussians(model, s) {
  if (model.parts)
    return model.parts.weight[s]
      .map((w, m) => ({ w, mean: model.parts.mean[s][m], cov: model.parts.cov[s][m] }))
      .filter((g) => g.w > 0);
  const v = model.sd[s].map((x) => x * x);
  return [
    {
      w: 1,
      mean: model.mean[s],
      cov:
        DATA.dims === 2
          ? [
              [v[0], 0],
              [0, v[1]],
            ]
          : [[v[0]]],
    },
  ];
}

function ellipse(g, attributes) {
  const a = g.cov[0][0] * MAP.sx ** 2,
    b = g.cov[0][1] * MAP.sx * MAP.sy,
    c = g.cov[1][1] * MAP.sy ** 2;
  const middle = (a + c) / 2,
    apart = Math.hypot((a - c) / 2, b);
  const angle = (Math.atan2(2 * b, a - c) * 90) / Math.PI;
  const x = MAP.x(g.mean[0]),
    y = MAP.y(g.mean[1]);
  const radii = { rx: 2 * Math.sqrt(middle + apart), ry: 2 * Math.sqrt(Math.max(middle - apart, 0)) };
  return svg("ellipse", { cx: x, cy: y, ...radii, transform: `rotate(${angle.toFixed(2)} ${x} ${y})`, ...attributes });
}
// Over an image, which may be light or dark, thin lines have a light edge.
const memberEllipses = (model, opacity) =>
  model.start.flatMap((_, s) =>
    gaussians(model, s).flatMap((g) => [
      DATA.image ? ellipse(g, { class: "edge", opacity: 0.4 * opacity }) : null,
      ellipse(g, { class: "member", opacity }),
    ]),
  );

function picture(width, height, label, ...content) {
  const drawn = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: DATA.image ? "on-image" : null },
    ...content,
  );
  return el("div", { class: "picture" }, drawn, figureTools(drawn));
}
// A picture on the map: background, content and frame.
const mapPicture = (label, ...content) =>
  picture(MAP.width, MAP.height + 18, label, withinMap(...background(), ...content), ...mapFrame());
// What is drawn on a map, cut at its edges.
function withinMap(...content) {
  const size = { width: `${MAP.wide}px`, height: `${MAP.height}px` }; // as a style: that of the page is for whole pictures
  const place = { x: MAP.offset, y: 0, width: MAP.wide, height: MAP.height, style: size };
  return svg("svg", { ...place, viewBox: `${MAP.offset} 0 ${MAP.wide} ${MAP.height}` }, ...content);
}
function background() {
  if (!DATA.image) return [];
  const [left, right, bottom, top] = DATA.extent;
  return [
    svg("image", {
      href: DATA.image,
      x: Math.min(MAP.x(left), MAP.x(right)),
      y: Math.min(MAP.y(bottom), MAP.y(top)),
      width: Math.abs(MAP.x(right) - MAP.x(left)),
      height: Math.abs(MAP.y(top) - MAP.y(bottom)),
      preserveAspectRatio: "none",
      opacity: 0.85,
    }),
  ];
}
function mapFrame() {
  const y = MAP.height,
    x = MAP.offset;
  return [
    svg("rect", { class: "frame", x: x + 0.5, y: 0.5, width: MAP.wide - 1, height: y - 1 }),
    svg("text", { class: "tick", x, y: y + 13 }, short(Number(MAP.left.toPrecision(3)))),
    svg(
      "text",
      { class: "tick", x: x + MAP.wide / 2, y: y + 13, "text-anchor": "middle" },
      `${dimension(0)} across, ${dimension(1)} ${MAP.top < MAP.bottom ? "down" : "up"}`,
    ),
    svg(
      "text",
      { class: "tick", x: x + MAP.wide, y: y + 13, "text-anchor": "end" },
      short(Number(MAP.right.toPrecision(3))),
    ),
  ];
}
const asPath = (points) =>
  points.length ? "M" + points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L") : "";
function tickAtLeft(x, y, value) {
  return svg("text", { class: "tick", x, y: y + 4, "text-anchor": "end" }, short(Number(value.toPrecision(3))));
}
