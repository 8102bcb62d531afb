// The chain: numbered discs, arrows as wide as their probability, a ring whose dark part is the probability of starting there.
function chain(model, places, radius, outwards) {
  const arrows = [],
    discs = [];
  places.forEach(([x, y], s) => {
    places.forEach((to, t) => {
      const p = model.next[s][t];
      if (p < 0.05) return;
      if (s !== t) arrows.push(...arrow([x, y], to, p, radius));
      else {
        const [ux, uy] = outwards ? outwards[s] : [0, -1];
        const loop = {
          cx: x + ux * radius * 1.55,
          cy: y + uy * radius * 1.55,
          r: radius * 0.85,
          "stroke-width": 0.6 + 4 * p,
        };
        arrows.push(
          svg("circle", { class: "halo", ...loop, "stroke-width": 2 + 4 * p }),
          svg("circle", { class: "arrow", ...loop }),
        );
      }
    });
    const k = stateColor(model, s);
    discs.push(
      svg("circle", { class: "ring", cx: x, cy: y, r: radius * 1.32 }),
      wedge(x, y, radius * 1.32, model.start[s]),
      svg("circle", { cx: x, cy: y, r: radius, fill: color(k), stroke: "#222", "stroke-width": 0.8 }),
      svg(
        "text",
        {
          x,
          y: y + radius * 0.38,
          "text-anchor": "middle",
          style: { fill: inkOn(k), "font-size": `${radius * 1.15}px`, "font-weight": 700 },
        },
        String(s + 1),
      ),
    );
  });
  return [...arrows, ...discs];
}
function apart(places, gap) {
  // discs that would overlap are moved apart
  const out = places.map((place) => [...place]);
  for (let round = 0; round < 60; round += 1)
    for (let a = 0; a < out.length; a += 1)
      for (let b = 0; b < a; b += 1) {
        let dx = out[a][0] - out[b][0],
          dy = out[a][1] - out[b][1],
          far = Math.hypot(dx, dy);
        if (far >= gap) continue;
        if (far < 1e-6) [dx, dy, far] = [Math.cos(a), Math.sin(a), 1];
        const push = (gap - Math.min(far, gap)) / 2 / far;
        out[a] = [out[a][0] + dx * push, out[a][1] + dy * push];
        out[b] = [out[b][0] - dx * push, out[b][1] - dy * push];
      }
  return out;
}
function arrow([x1, y1], [x2, y2], p, radius) {
  const dx = x2 - x1,
    dy = y2 - y1,
    far = Math.hypot(dx, dy) || 1;
  const bend = 0.18,
    cx = (x1 + x2) / 2 - dy * bend,
    cy = (y1 + y2) / 2 + dx * bend;
  const towards = (x, y, length) => {
    const d = Math.hypot(cx - x, cy - y) || 1;
    return [x + ((cx - x) / d) * length, y + ((cy - y) / d) * length];
  };
  if (far < 2.5 * radius) return [];
  const head = 4 + 5 * p,
    from = towards(x1, y1, radius * 1.35),
    tip = towards(x2, y2, radius * 1.4),
    neck = towards(x2, y2, radius * 1.4 + head);
  const ux = (tip[0] - neck[0]) / head,
    uy = (tip[1] - neck[1]) / head,
    half = 1.6 + 3 * p;
  const curve = `M${from.map((v) => v.toFixed(1))}Q${cx.toFixed(1)},${cy.toFixed(1)} ${neck.map((v) => v.toFixed(1))}`;
  const corners = [tip, [neck[0] - uy * half, neck[1] + ux * half], [neck[0] + uy * half, neck[1] - ux * half]];
  const points = corners.map((c) => c.map((v) => v.toFixed(1)).join(",")).join(" ");
  return [
    svg("path", { class: "halo", d: curve, "stroke-width": 2 + 4.4 * p }),
    svg("polygon", { class: "halo", points, "stroke-width": 1.4, "stroke-linejoin": "round" }),
    svg("path", { class: "arrow", d: curve, "stroke-width": 0.6 + 4.4 * p }),
    svg("polygon", { class: "head", points }),
  ];
}
function wedge(x, y, radius, part) {
  if (part < 0.005) return null;
  if (part > 0.995) return svg("circle", { class: "wedge", cx: x, cy: y, r: radius });
  const angle = 2 * Math.PI * part,
    end = [x + radius * Math.sin(angle), y - radius * Math.cos(angle)];
  return svg("path", {
    class: "wedge",
    d: `M${x},${y}V${y - radius}A${radius},${radius} 0 ${part > 0.5 ? 1 : 0} 1 ${end}Z`,
  });
}

function spread(places, gap) {
  // discs side by side if they would overlap
  const order = places.map((x, k) => [x, k]).sort((a, b) => a[0] - b[0]),
    out = [];
  let last = -Infinity;
  order.forEach(([x, k]) => {
    last = Math.max(x, last + gap);
    out[k] = last;
  });
  const shift = out.reduce((sum, x, k) => sum + x - places[k], 0) / out.length;
  return out.map((x) => x - shift);
}

function circleChain(model, x, y, radius) {
  const S = model.start.length,
    angle = (s) => -Math.PI / 2 + (2 * Math.PI * s) / S;
  const outwards = model.start.map((_, s) => [Math.cos(angle(s)), Math.sin(angle(s))]);
  return chain(
    model,
    outwards.map(([ux, uy]) => (S > 1 ? [x + radius * ux, y + radius * uy] : [x, y])),
    Math.min(11, 36 / Math.sqrt(S)),
    outwards,
  );
}
