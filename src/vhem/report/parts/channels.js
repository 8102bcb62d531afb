// HMMs whose states do not emit Gaussians: a panel per channel, with bars of categories or counts, curves, or roses of angles.
const PANEL = { width: 270, height: 150, left: 46, base: 118 };
function drawChannels(model, behind, label, small) {
  const columns = Math.min(small ? 1 : 2, DATA.channels.length),
    rows = Math.ceil(DATA.channels.length / columns),
    room = small ? 0 : 190;
  const panels = DATA.channels.flatMap((channel, c) => {
    const shift = `translate(${(c % columns) * PANEL.width} ${Math.floor(c / columns) * (PANEL.height + 12)})`;
    return svg("g", { transform: shift }, channelPanel(channel, model.channels[c], model, behindOf(behind, c)));
  });
  const height = rows * (PANEL.height + 12);
  if (!small) panels.push(...circleChain(model, columns * PANEL.width + 95, Math.max(height / 2, 92), 52));
  return picture(columns * PANEL.width + room, Math.max(height, small ? 0 : 185), label, ...panels);
}
const behindOf = (behind, c) => behind.slice(0, 40).flatMap((m) => (m.channels ? m.channels[c] : []));

function channelPanel(channel, shares, model, faint) {
  const title = svg("text", { class: "tick", x: PANEL.left, y: 11, style: { "font-weight": 700 } }, channel.name);
  const kinds = { bars: drawBars, counts: channel.values.length > 40 ? drawChannelCurves : drawBars, rose: drawRose };
  return [title, ...(kinds[channel.kind] || drawChannelCurves)(channel, shares, model, faint)];
}
const shareAtLeft = (x, y, text) => svg("text", { class: "tick", x, y: y + 3, "text-anchor": "end" }, text);
function highest(channel) {
  // the highest share of a channel in any cluster: panels are there to be compared
  const c = DATA.channels.indexOf(channel);
  channel.top ??= Math.max(...DATA.layers.slice(1).flat().flatMap((m) => (m.channels ? m.channels[c].flat() : [])), 1e-12);
  return channel.top;
}
function upright(channel, shares) {
  const top = Math.max(...shares.flat(), highest(channel)) * 1.05;
  return [top, (p) => PANEL.base - (Math.min(p, top) / top) * (PANEL.base - 20)];
}
function drawBars(channel, shares, model) {
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
    const shown = name.length > 16 ? `${name.slice(0, 15)}…` : name;
    const place = { class: "tick", x, y: PANEL.base + 10, "text-anchor": "middle", style: { "font-size": `${size}px` } };
    return svg("text", { ...place, ...turn }, shown);
  });
  const axis = svg("path", { class: "frame", d: `M${PANEL.left},20V${PANEL.base}H${PANEL.width - 10}` });
  return [...(channel.names ? bands(n, step) : []), ...bars, axis, ...names, shareAtLeft(PANEL.left - 3, Y(top / 1.05), percent(top / 1.05)), shareAtLeft(PANEL.left - 3, Y(0), "0 %")];
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
function drawChannelCurves(channel, shares, model, faint) {
  const [, Y] = upright(channel, shares),
    low = channel.values[0],
    high = channel.values[channel.values.length - 1] || 1;
  const X = (v) => PANEL.left + ((v - low) / (high - low || 1)) * (PANEL.width - PANEL.left - 10);
  const points = (row) => row.map((p, k) => [X(channel.values[k]), Y(p)]);
  const lines = faint.map((row) => svg("path", { class: "member", d: asPath(points(row)), opacity: 0.3 }));
  const areas = shares.map((row, s) => {
    const c = color(stateColor(model, s)),
      d = asPath([[X(low), PANEL.base], ...points(row), [X(high), PANEL.base]]);
    return svg("path", { d, fill: c, "fill-opacity": 0.3, stroke: c, "stroke-width": 1.8 });
  });
  return [...lines, ...areas, ...axis(X, low, high, PANEL.base, "")];
}
function drawRose(channel, shares, model) {
  const top = Math.max(...shares.flat(), highest(channel)),
    [x, y, r] = [PANEL.width / 2, 78, 56];
  const shapes = shares.map((row, s) => {
    const c = color(stateColor(model, s));
    const points = row.map((p, k) => {
      const far = r * (0.15 + (0.85 * p) / top);
      return [x + far * Math.cos(channel.values[k]), y - far * Math.sin(channel.values[k])];
    });
    return svg("path", { d: `${asPath(points)}Z`, fill: c, "fill-opacity": 0.3, stroke: c, "stroke-width": 1.8 });
  });
  const marks = [[1, 0, "0°"], [0, 1, "90°"], [-1, 0, "180°"], [0, -1, "−90°"]].map(([dx, dy, name]) =>
    svg("text", { class: "tick", x: x + (r + 13) * dx, y: y - (r + 8) * dy + 3, "text-anchor": "middle" }, name),
  );
  return [svg("circle", { class: "frame", cx: x, cy: y, r }), ...shapes, ...marks];
}
