// What a setting does, in thumbnails.
import { COLORS, svg } from "./drawing.js";

const thumb = (label, ...content) =>
  svg("svg", { viewBox: "0 0 120 70", class: "thumb", role: "img", "aria-label": label }, ...content);
const dot = (x, y, c, r = 4) => svg("circle", { cx: x, cy: y, r, fill: COLORS[c] });
const threeStates = (y) => [25, 60, 95].map((x, c) => dot(x, y, c, 9));
const blob = (cx, cy, rx, ry, c, turn = 0) =>
  svg("ellipse", {
    cx,
    cy,
    rx,
    ry,
    transform: `rotate(${turn} ${cx} ${cy})`,
    fill: COLORS[c],
    "fill-opacity": 0.3,
    stroke: COLORS[c],
    "stroke-width": 2,
  });
const line = (d, width = 1.6) => svg("path", { d, fill: "none", stroke: "var(--arrow)", "stroke-width": width });
const tip = (x, y, turn) =>
  svg("path", { d: "M-5,-3.5L1,0L-5,3.5Z", class: "head", transform: `translate(${x} ${y}) rotate(${turn})` });
const cloud = (x, y, c) =>
  [
    [0, 0],
    [8, 5],
    [-7, 6],
    [3, -8],
    [-5, -6],
    [11, -4],
  ].map(([dx, dy]) => dot(x + dx, y + dy, c, 3));
const fewStates = (n, c) =>
  Array.from({ length: n }, (_, k) =>
    blob(18 + (84 / Math.max(1, n - 1)) * k * (n > 1), 35 + (k % 2 ? -10 : 10) * (n > 1), 12, 12, c[k]),
  );
// The shape of a distribution, as bars.
export const shape = (heights, label) =>
  thumb(
    label,
    ...heights.map((h, k) =>
      svg("rect", {
        x: 8 + (k * 104) / heights.length,
        y: 62 - h,
        width: 104 / heights.length - 2,
        height: h,
        fill: COLORS[4],
      }),
    ),
  );
export const THUMBS = {
  clusters: () => thumb("Three groups of dots", ...cloud(26, 24, 0), ...cloud(62, 48, 1), ...cloud(96, 22, 2)),
  auto: () =>
    thumb(
      "Groups of dots, and a question mark",
      ...cloud(26, 24, 0),
      ...cloud(62, 48, 1),
      ...cloud(96, 22, 2),
      svg("text", { x: 60, y: 26, "text-anchor": "middle", style: { "font-size": "22px", "font-weight": 700 } }, "?"),
    ),
  states: () =>
    thumb(
      "Three states, visited one after another",
      ...fewStates(3, [0, 1, 2]),
      line("M30,41L48,30M72,30L90,41", 2),
      tip(49, 29, -30),
      tip(91, 42, 30),
    ),
  someStates: () =>
    thumb(
      "A model of two states and one of four",
      blob(24, 18, 11, 11, 0),
      blob(58, 18, 11, 11, 1),
      blob(14, 52, 9, 9, 0),
      blob(44, 52, 9, 9, 1),
      blob(74, 52, 9, 9, 2),
      blob(104, 52, 9, 9, 5),
      line("M36,18H45M24,52H33M54,52H63M84,52H93", 1.8),
      tip(47, 18, 0),
      tip(35, 52, 0),
      tip(65, 52, 0),
      tip(95, 52, 0),
    ),
  several: () =>
    thumb(
      "The same dots in two and in four groups",
      ...cloud(22, 20, 0),
      ...cloud(44, 44, 0),
      ...cloud(38, 8, 1).slice(0, 0),
      line("M60,8V62", 1),
      ...cloud(80, 18, 1),
      ...cloud(104, 26, 2),
      ...cloud(84, 52, 5),
    ),
  diag: () => thumb("An upright ellipse", blob(40, 35, 26, 14, 4), blob(90, 35, 12, 24, 5)),
  full: () => thumb("A tilted ellipse", blob(40, 35, 30, 11, 4, -35), blob(92, 35, 26, 10, 5, 50)),
  ergodic: () =>
    thumb(
      "States with arrows in both directions",
      ...threeStates(35),
      line("M33,29Q42,22 51,29M51,41Q42,48 33,41M68,29Q77,22 86,29M86,41Q77,48 68,41M92,24Q60,-6 28,24"),
      tip(52, 30, 40),
      tip(32, 40, 220),
      tip(87, 30, 40),
      tip(67, 40, 220),
      tip(28, 25, 135),
    ),
  "left-right": () =>
    thumb(
      "States with arrows in one direction",
      ...threeStates(35),
      line("M35,35H48M70,35H83", 2.2),
      tip(50, 35, 0),
      tip(85, 35, 0),
    ),
  "left-right-skip": () =>
    thumb(
      "States with arrows in one direction that may skip one",
      ...threeStates(40),
      line("M35,40H48M70,40H83M28,30Q60,0 90,30", 2),
      tip(50, 40, 0),
      tip(85, 40, 0),
      tip(91, 31, 45),
    ),
  tau: () =>
    thumb(
      "A short and a long sequence",
      line("M10,24H55", 3),
      dot(10, 24, 0),
      dot(25, 24, 1),
      dot(40, 24, 0),
      dot(55, 24, 2),
      line("M10,50H110", 3),
      ...[10, 25, 40, 55, 70, 85, 100, 110].map((x, k) => dot(x, 50, k % 3)),
    ),
  mix: () => thumb("One state made of two ellipses", blob(44, 35, 24, 14, 4, 20), blob(80, 35, 20, 13, 4, -30)),
  starts: () =>
    thumb(
      "Several climbs, one of which reaches the top",
      line("M8,60C30,58 40,40 110,38"),
      line("M8,60C25,50 40,26 110,24"),
      line("M8,60C20,30 40,12 110,10", 3),
    ),
  learning: () =>
    thumb(
      "One best value, or all that are probable",
      line("M10,60H50M30,60V14", 2.4),
      dot(30, 14, 5),
      line("M64,60C76,60 78,18 88,18S100,60 112,60Z", 2.4),
    ),
  seed: () =>
    thumb(
      "Two dice",
      svg("rect", { x: 22, y: 18, width: 32, height: 32, rx: 6, fill: "none", stroke: COLORS[4], "stroke-width": 2 }),
      dot(38, 34, 4),
      svg("rect", { x: 66, y: 18, width: 32, height: 32, rx: 6, fill: "none", stroke: COLORS[5], "stroke-width": 2 }),
      dot(75, 27, 5),
      dot(89, 41, 5),
    ),
  polish: () =>
    thumb(
      "A border between two groups is drawn again",
      ...cloud(34, 36, 0),
      ...cloud(84, 34, 1),
      svg("path", {
        d: "M60,6C52,30 68,40 58,66",
        fill: "none",
        stroke: "var(--arrow)",
        "stroke-width": 2,
        "stroke-dasharray": "4 3",
      }),
    ),
  per: () => thumb("Several sequences of one person", dot(22, 35, 5, 8), line("M36,20H108M36,35H96M36,50H104", 3)),
};
