// Every figure can be enlarged, and saved as SVG or PNG, as it is shown.
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "opacity",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
];
function figureTools(drawn) {
  const tool = (text, meaning, onclick) =>
    el("button", { type: "button", class: "tool", title: meaning, "aria-label": meaning, onclick }, text);
  return el(
    "div",
    { class: "tools" },
    tool("Enlarge", "Enlarge this figure", () => enlarge(drawn)),
    tool("SVG", "Save this figure as SVG", () => saveSvg(drawn)),
    tool("PNG", "Save this figure as PNG", () => savePng(drawn)),
  );
}
// A copy that looks the same without this page's style.
function standalone(drawn) {
  const copy = drawn.cloneNode(true),
    own = [drawn, ...drawn.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")];
  own.forEach((node, k) => {
    const seen = getComputedStyle(node);
    STYLES.forEach((name) => copies[k].style.setProperty(name, seen.getPropertyValue(name)));
    copies[k].removeAttribute("class");
  });
  const { width, height } = drawn.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  copy.prepend(svg("rect", { width, height, fill: paper }));
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}
function figureName(drawn) {
  const heading = drawn.closest(".card, #details, section");
  const name = (heading && heading.querySelector("h3, h2")) || document.querySelector("h1");
  return (
    name.firstChild.textContent
      .trim()
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .slice(0, 60) || "figure"
  );
}
function saveSvg(drawn) {
  download(new Blob([standalone(drawn).text], { type: "image/svg+xml" }), `${figureName(drawn)}.svg`);
}
function savePng(drawn) {
  const { text, width, height } = standalone(drawn),
    image = new Image(),
    scale = Math.max(2, 1200 / width);
  image.addEventListener("load", () => {
    const canvas = el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, `${figureName(drawn)}.png`));
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}
function download(blob, name) {
  const href = URL.createObjectURL(blob),
    link = el("a", { href, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}
// A figure over the whole page: the wheel, + and − zoom, dragging and the arrow keys move.
function enlarge(drawn) {
  const copy = drawn.cloneNode(true),
    whole = drawn.viewBox.baseVal,
    at = { x: 0, y: 0, zoom: 1 };
  const show = () => {
    const w = whole.width / at.zoom,
      h = whole.height / at.zoom;
    at.x = Math.min(Math.max(at.x, 0), whole.width - w);
    at.y = Math.min(Math.max(at.y, 0), whole.height - h);
    copy.setAttribute("viewBox", `${at.x} ${at.y} ${w} ${h}`);
  };
  const zoom = (factor) => {
    const before = at.zoom;
    at.zoom = Math.min(12, Math.max(1, at.zoom * factor));
    at.x += (whole.width / before - whole.width / at.zoom) / 2;
    at.y += (whole.height / before - whole.height / at.zoom) / 2;
    show();
  };
  const move = (dx, dy) => {
    at.x += (dx * whole.width) / at.zoom;
    at.y += (dy * whole.height) / at.zoom;
    show();
  };
  const keys = {
    "+": () => zoom(1.4),
    "-": () => zoom(1 / 1.4),
    ArrowLeft: () => move(-0.1, 0),
    ArrowRight: () => move(0.1, 0),
    ArrowUp: () => move(0, -0.1),
    ArrowDown: () => move(0, 0.1),
  };
  const button = (text, meaning, onclick) =>
    el("button", { type: "button", class: "button", "aria-label": meaning, onclick }, text);
  const dialog = el(
    "dialog",
    { class: "large", "aria-label": "Enlarged figure" },
    el(
      "div",
      { class: "bar" },
      button("+", "Zoom in", keys["+"]),
      button("−", "Zoom out", keys["-"]),
      button("Close", "Close", () => dialog.close()),
    ),
    copy,
  );
  dialog.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  copy.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  });
  copy.addEventListener("pointermove", (event) => {
    if (event.buttons) move(-event.movementX / copy.clientWidth, -event.movementY / copy.clientHeight);
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
