// HMMs whose states do not emit Gaussians: a panel per channel, with bars of categories or counts, curves, or roses of angles.
const PANEL = { width: 270, height: 150, left: 46, base: 118 };
function drawChannels(model, behind, label, small) {
  const columns = Math.min(small ? 1 : 2, DATA.channels.length),
    rows = Math.ceil(DATA.channels.length / columns),
    room = small ? 0 : 190;
  const panels = DATA.channels.flatMap((channel, c) => {
    const shift = `translate(${(c % columns) * PANEL.width} ${Math.floor(c / columns) * (PANEL.height + 12)})`;
    const seen = model.seen ? model.seen[c] : null;
    return svg("g", { transform: shift }, channelPanel(channel, scaled(model, c), model, behindOf(behind, c), seen));
  });
  const height = rows * (PANEL.height + 12);
  if (!small) panels.push(...circleChain(model, columns * PANEL.width + 95, Math.max(height / 2, 92), 52));
  return picture(columns * PANEL.width + room, Math.max(height, small ? 0 : 185), label, ...panels);
}
const behindOf = (behind, c) => behind.slice(0, 40).flatMap((m) => (m.channels ? scaled(m, c) : []));
// Categories are shown as probabilities in each state; other densities by the share of time, so that states add up to what was observed.
const scaled = (model, c) =>
  DATA.channels[c].kind === "bars" ? model.channels[c] : model.channels[c].map((row, s) => row.map((p) => p * model.time[s]));

function channelPanel(channel, shares, model, faint, seen) {
  const title = svg("text", { class: "tick", x: PANEL.left, y: 11, style: { "font-weight": 700 } }, channel.name);
  const kinds = { bars: drawBars, counts: channel.values.length > 40 ? drawChannelCurves : drawBars, rose: drawRose };
  return [title, ...(kinds[channel.kind] || drawChannelCurves)(channel, shares, model, faint, seen)];
}
const shareAtLeft = (x, y, text) => svg("text", { class: "tick", x, y: y + 3, "text-anchor": "end" }, text);
function highest(channel) {
  // the highest share of a channel in any cluster: panels are there to be compared
  const c = DATA.channels.indexOf(channel);
  const shown = (m) => (m.channels ? [...scaled(m, c).flat(), ...(m.seen ? m.seen[c].share : [])] : []);
  channel.top ??= Math.max(...DATA.layers.slice(1).flat().flatMap(shown), 1e-12);
  return channel.top;
}
function upright(channel, shares) {
  const top = Math.max(...shares.flat(), highest(channel)) * 1.05;
  return [top, (p) => PANEL.base - (Math.min(p, top) / top) * (PANEL.base - 20)];
}
function drawBars(channel, shares, model, faint, seen) {
  const [top, Y] = upright(channel, shares),
    n = channel.values.length,
    step = (PANEL.width - PANEL.left - 10) / n,
    width = (0.82 * step) / shares.length;
  const bar = (k, s, x) =>
    svg("rect", {
      x,
      y: Y(shares[s][k]),
      width: Math.max(width, 0.5),
      height: PANEL.base - Y(shares[s][k]),
      fill: color(stateColor(model, s)),
      stroke: "#444",
      "stroke-width": 0.3,
    });
  const grey = seenBars(seen, (k) => [PANEL.left + (k + 0.03) * step, 0.94 * step], Y);
  const bars = channel.values.flatMap((_, k) => {
    // only bars that can be seen take up room, so that they stand over their label
    const seen = shares.map((_, s) => s).filter((s) => shares[s][k] > top / 200);
    return seen.map((s, place) => bar(k, s, PANEL.left + (k + 0.5) * step + (place - seen.length / 2) * width));
  });
  const every = channel.names ? 1 : Math.ceil(n / 8),
    size = n > 12 ? 7 : 9;
  const names = channel.values.map((v, k) => {
    if (k % every) return null;
    const x = PANEL.left + (k + 0.5) * step;
    const name = channel.names ? channel.names[k] : String(v);
    const turned = channel.names && (n > 3 || name.length > 7);
    const turn = turned ? { transform: `rotate(-35 ${x} ${PANEL.base + 10})`, "text-anchor": "end" } : {};
    const shown = cut(name, 16);
    const place = { class: "tick", x, y: PANEL.base + 10, "text-anchor": "middle", style: { "font-size": `${size}px` } };
    return svg("text", { ...place, ...turn }, shown);
  });
  const axis = svg("path", { class: "frame", d: `M${PANEL.left},20V${PANEL.base}H${PANEL.width - 10}` });
  return [...(channel.names && !seen ? bands(n, step) : []), ...grey, ...bars, axis, ...names, shareAtLeft(PANEL.left - 3, Y(top / 1.05), percent(top / 1.05)), shareAtLeft(PANEL.left - 3, Y(0), "0 %")];
}
// What was observed, in grey behind the states: a bar for each value or bin, at `place`.
function seenBars(seen, place, Y) {
  return (seen ? seen.share : []).map((p, k) => {
    const [x, width] = place(k);
    return svg("rect", { class: "seen", x, y: Y(p), width, height: PANEL.base - Y(p) });
  });
}
// A faint ground behind every second category, which shows where one ends and the next begins.
const bands = (n, step) =>
  Array.from({ length: Math.floor(n / 2) }, (_, k) =>
    svg("rect", {
      x: PANEL.left + (2 * k + 1) * step,
      y: 20,
      width: step,
      height: PANEL.base - 20,
      fill: "currentColor",
      "fill-opacity": 0.06,
    }),
  );
function drawChannelCurves(channel, shares, model, faint, seen) {
  const [top, straight] = upright(channel, shares),
    low = channel.values[0],
    high = channel.values[channel.values.length - 1] || 1,
    counts = channel.kind === "counts";
  // Many counts have most of their mass near zero and a long tail: roots of both axes show the two.
  const bend = counts ? (share) => Math.sqrt(Math.max(share, 0)) : (share) => share;
  const X = (v) => PANEL.left + bend((v - low) / (high - low || 1)) * (PANEL.width - PANEL.left - 10);
  const Y = (p) => straight(top * bend(Math.min(p, top) / top));
  const bin = seen ? (seen.ends[1] - seen.ends[0]) / seen.share.length : 0;
  const place = (k) => {
    const left = X(seen.ends[0] + k * bin);
    return [left, X(seen.ends[0] + (k + 1) * bin) - left];
  };
  const points = (row) => row.map((p, k) => [X(channel.values[k]), Y(p)]);
  const lines = faint.map((row) => svg("path", { class: "member", d: asPath(points(row)), opacity: 0.3 }));
  const areas = shares.map((row, s) => {
    const c = color(stateColor(model, s)),
      d = asPath([[X(low), PANEL.base], ...points(row), [X(high), PANEL.base]]);
    return svg("path", { d, fill: c, "fill-opacity": 0.3, stroke: c, "stroke-width": 1.8 });
  });
  return [...seenBars(seen, place, Y), ...lines, ...areas, ...axis(X, low, high, PANEL.base, counts ? "square-root scales" : "")];
}
function drawRose(channel, shares, model, faint, seen) {
  const top = Math.max(...shares.flat(), highest(channel)),
    [x, y, r] = [PANEL.width / 2, 78, 56];
  const at = (p, angle) => {
    const far = r * (0.15 + (0.85 * p) / top);
    return [x + far * Math.cos(angle), y - far * Math.sin(angle)];
  };
  const sector = seen ? (2 * Math.PI) / seen.share.length : 0;
  const sectors = (seen ? seen.share : []).map((p, k) => {
    const arc = [0, 0.25, 0.5, 0.75, 1].map((part) => at(p, -Math.PI + (k + part) * sector));
    return svg("path", { class: "seen", d: `${asPath([[x, y], ...arc])}Z` });
  });
  const shapes = shares.map((row, s) => {
    const c = color(stateColor(model, s));
    const points = row.map((p, k) => at(p, channel.values[k]));
    return svg("path", { d: `${asPath(points)}Z`, fill: c, "fill-opacity": 0.3, stroke: c, "stroke-width": 1.8 });
  });
  const sides = [
    [1, 0, "0°", "start"],
    [0, 1, "90°", "middle"],
    [-1, 0, "180°", "end"],
    [0, -1, "−90°", "middle"],
  ];
  const marks = sides.map(([dx, dy, name, anchor]) =>
    svg("text", { class: "tick", x: x + (r + 5) * dx, y: y - (r + 8) * dy + 3, "text-anchor": anchor }, name),
  );
  return [svg("circle", { class: "frame", cx: x, cy: y, r }), ...sectors, ...shapes, ...marks];
}
