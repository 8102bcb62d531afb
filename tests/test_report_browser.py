"""The report in a real browser: it loads alone, and every part of it answers to mouse and keyboard."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
from helpers import random_h3m

import vhem
from vhem.datasets import simulated_face, simulated_study

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

EVIL = "<script>alert(1)</script>"
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser: install Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in [*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield running
    running.quit()


def open_page(browser, path, width=1280, height=900):
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


def requests_made(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith("data:")]


def complaints(browser):
    return [entry["message"] for entry in browser.get_log("browser")]


def find(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def texts(browser, selector):
    """Return the texts of all that match, in one question to the browser."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return browser.execute_script(script, selector)


def click(browser, selector):
    """Click as a user does: in view, in the middle."""
    element = find(browser, selector)
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    element.click()


@pytest.fixture(scope="module")
def study():
    return simulated_study(n_viewers=24, n_trials=5)


@pytest.fixture(scope="module")
def flat(study, tmp_path_factory):
    """A report on three clusters of viewers, with everything in it; one viewer has a hostile name."""
    ids = [EVIL, *study.hmms.ids[1:]]
    hmms = vhem.H3M(list(study.hmms), ids=ids)
    groups = [EVIL if group == "viewer 01" else group for group in study.sequences.groups]
    fit = vhem.VHEM(3, tau=8, n_init=3, random_state=0).fit(hmms)
    path = tmp_path_factory.mktemp("report") / "flat.html"
    classes = [study.strategy_names[s] for s in study.strategies]
    vhem.report.write(path, fit, hmms, sequences=study.sequences, groups=groups, classes=classes, names=["x", "y"],
                      image=simulated_face(), title=f"Viewers {EVIL}", warnings=[EVIL])  # fmt: skip
    return path, fit, hmms


@pytest.fixture(scope="module")
def deep(study, tmp_path_factory):
    """A report on a hierarchy."""
    fit = vhem.HierarchicalVHEM((8, 4, 2), n_trees=1, n_init=2, random_state=0).fit(study.hmms)
    return vhem.report.write(tmp_path_factory.mktemp("report") / "deep.html", fit), fit


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A report on 1,000 HMMs in three levels, with sequences."""
    rng = np.random.default_rng(0)
    hmms = vhem.H3M(list(random_h3m(rng, K=1000)), ids=[f"participant {k:04d}" for k in range(1000)])
    settings = {"n_trees": 1, "n_init": 1, "max_iter": 5, "tol": 0.0}
    fit = vhem.HierarchicalVHEM((40, 12, 3), **settings, random_state=0).fit(hmms)
    sequences = [hmm.sample(1, 20, rng)[0] for hmm in hmms]
    classes = [f"class {k % 5}" for k in range(1000)]
    path = tmp_path_factory.mktemp("report") / "large.html"
    return vhem.report.write(path, fit, sequences=sequences, classes=classes, image=simulated_face())


def test_the_page_loads_alone_and_without_complaint(browser, flat):
    open_page(browser, flat[0])
    assert requests_made(browser) == [flat[0].as_uri()]
    assert complaints(browser) == []
    assert len(texts(browser, ".card")) == 3
    assert find(browser, "#cards .card svg ellipse").is_displayed()


def test_even_a_script_that_asks_for_the_network_gets_nothing(browser, flat):
    open_page(browser, flat[0])
    ask = "const done = arguments[0]; fetch('http://127.0.0.1:9/x').then(() => done('sent'), () => done('refused'))"
    assert browser.execute_async_script(ask) == "refused"
    assert any("Content Security Policy" in line for line in complaints(browser))


def test_hostile_names_are_shown_as_text(browser, flat):
    open_page(browser, flat[0])
    assert f"Viewers {EVIL}" in find(browser, "h1").text
    assert EVIL in texts(browser, "#warnings li")
    assert EVIL in texts(browser, "#table tbody th")
    cluster = int(flat[1].labels_[0])
    click(browser, f"#tree [data-node='1.{cluster}'] .label")
    click(browser, "#tree [data-node='0.0'] .label")
    assert find(browser, "#details-title").text == EVIL
    assert len(texts(browser, "script")) == 2
    assert complaints(browser) == []


def test_clicking_a_node_of_the_tree_shows_its_members(browser, flat):
    path, fit, hmms = flat
    open_page(browser, path)
    for cluster in (1, 0, 2):
        click(browser, f"#tree [data-node='1.{cluster}'] > .label")
        expected = {hmms.ids[k] for k in np.flatnonzero(fit.labels_ == cluster)}
        assert set(texts(browser, "#member-list button")) == expected
        assert find(browser, "#details-title").text == f"Cluster {cluster + 1}"
        behind = len(texts(browser, "#details ellipse.member"))
        assert behind == 3 * len(expected), "members stand behind the centre"


def test_a_member_shows_its_hmm_its_responsibilities_and_its_sequences(browser, flat, study):
    path, fit, hmms = flat
    open_page(browser, path)
    member = 7
    click(browser, f"#tree [data-node='1.{fit.labels_[member]}'] > .label")
    click(browser, f"#tree [data-node='0.{member}'] > .label")
    assert find(browser, "#details-title").text == "viewer 08"
    assert study.strategy_names[study.strategies[member]] in find(browser, "#details").text
    own = [i for i, group in enumerate(study.sequences.groups) if group == "viewer 08"]
    assert texts(browser, "#sequence-choice option") == [study.sequences.ids[i] for i in own]
    for i in own[:2]:
        path_of_states = hmms[member].decode([study.sequences[i]])[1][0]
        assert len(texts(browser, "#sequence circle")) == len(path_of_states)
        label = find(browser, "#sequence svg").get_attribute("aria-label")
        runs = [(s + 1, len(list(stay))) for s, stay in itertools.groupby(path_of_states.tolist())]
        assert label.endswith("states " + ", ".join(f"{s} for {n}" for s, n in runs))
        find(browser, "#details .pages button:last-of-type").click()


def test_levels_can_be_walked_up_and_down(browser, deep):
    path, fit = deep
    open_page(browser, path)
    click(browser, "#bars [data-node='3.1']")
    assert find(browser, "#details-title").text == "Level 3, cluster 2"
    below = [f"Level 2, cluster {k + 1}" for k in np.flatnonzero(fit.parents_[2] == 1)]
    assert texts(browser, "#details .tags:first-of-type button")[: len(below)] == below
    click(browser, "#details .tags button")
    assert find(browser, "#details-title").text == below[0]
    click(browser, "#details .path button")
    assert find(browser, "#details-title").text == "Level 3, cluster 2"
    click(browser, "#level-choice [data-level='2']")
    assert len(texts(browser, "#cards .card")) == 4
    assert complaints(browser) == []


def test_the_tree_answers_to_the_keyboard(browser, deep):
    path, fit = deep
    open_page(browser, path)
    find(browser, "#tree [data-node='3.0']").send_keys(Keys.ARROW_RIGHT)
    first = int(np.flatnonzero(fit.parents_[2] == 0)[0])
    assert find(browser, "#tree [data-node='3.0']").get_attribute("aria-expanded") == "true"
    focus = browser.switch_to.active_element
    focus.send_keys(Keys.ARROW_DOWN)
    focus = browser.switch_to.active_element
    assert focus.get_attribute("data-node") == f"2.{first}"
    focus.send_keys(Keys.ENTER)
    assert find(browser, "#details-title").text == f"Level 2, cluster {first + 1}"
    assert focus.get_attribute("aria-selected") == "true"
    focus.send_keys(Keys.ARROW_LEFT)
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert find(browser, "#tree [data-node='3.0']").get_attribute("aria-expanded") == "false"
    browser.switch_to.active_element.send_keys(Keys.END)
    assert browser.switch_to.active_element.get_attribute("data-node") == "3.1"
    assert find(browser, "#said").get_attribute("textContent") == f"Level 2, cluster {first + 1} is shown"


def test_everything_can_be_reached_by_tab_and_shows_where_it_is(browser, flat):
    open_page(browser, flat[0])
    reached, body = set(), find(browser, "body")
    body.send_keys(Keys.TAB)
    for _ in range(60):
        focus = browser.switch_to.active_element
        outline = browser.execute_script(
            "const [e] = arguments, inner = e.querySelector('.label') || e;"
            "return [getComputedStyle(e).outlineStyle, getComputedStyle(inner).outlineStyle]", focus,
        )  # fmt: skip
        assert "solid" in outline, focus.get_attribute("outerHTML")[:200]
        reached.add(browser.execute_script("return (arguments[0].closest('section') || {}).id || 'head'", focus))
        focus.send_keys(Keys.TAB)
    assert {"head", "clusters", "explore", "members"} <= reached


def test_thirty_classes_have_thirty_colours(browser, tmp_path):
    hmms = random_h3m(np.random.default_rng(0), K=30)
    fit = vhem.VHEM(2, n_init=1, max_iter=3, tol=0, random_state=0).fit(hmms)
    open_page(browser, vhem.report.write(tmp_path / "r.html", fit, hmms, classes=[f"kind {k:02d}" for k in range(30)]))
    fills = "return [...document.querySelectorAll('#bars rect')].map((r) => r.getAttribute('fill'))"
    assert len(set(browser.execute_script(fills))) == 30


def test_sorting(browser, flat):
    path, _, hmms = flat
    open_page(browser, path)
    headers = texts(browser, "#table thead th")
    assert headers[:4] == ["Name", "Cluster", "Class", "Responsibility"]
    click(browser, "#table th:nth-child(2) button")
    clusters = texts(browser, "#table tbody td:nth-child(2)")
    assert clusters == sorted(clusters)
    assert find(browser, "#table th:nth-child(2)").get_attribute("aria-sort") == "ascending"
    click(browser, "#table th:nth-child(2) button")
    assert texts(browser, "#table tbody td:nth-child(2)") == sorted(clusters, reverse=True)
    assert find(browser, "#table th:nth-child(2)").get_attribute("aria-sort") == "descending"
    click(browser, "#table th:nth-child(1) button")
    names = [name for name in texts(browser, "#table tbody th") if name != EVIL]
    assert names == sorted(name for name in hmms.ids if name != EVIL)


def test_searching_and_choosing_a_cluster(browser, flat):
    path, fit, hmms = flat
    open_page(browser, path)
    box = find(browser, "#search")
    box.send_keys("viewer 1")
    expected = [name for name in hmms.ids if "viewer 1" in name]
    assert sorted(texts(browser, "#table tbody th")) == expected
    assert find(browser, "#found").text == f"{len(expected)} of 24 members"
    box.clear()
    box.send_keys("<SCRIPT>")
    assert texts(browser, "#table tbody th") == [EVIL]
    box.clear()
    box.send_keys(Keys.SPACE)
    click(browser, "#cluster-filter option[value='1']")
    assert len(texts(browser, "#table tbody tr")) == int((fit.labels_ == 1).sum())
    click(browser, "#table tbody .link")
    assert find(browser, "#details-title").text in hmms.ids


def test_names_and_roles_for_screen_readers(browser, flat, deep):
    for path in (flat[0], deep[0]):
        open_page(browser, path)
        tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        nameless = []
        for node in tree:
            role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
            needs = {"button", "link", "image", "treeitem", "combobox", "searchbox", "region", "navigation"}
            if role in needs and not node.get("ignored") and not name.strip():
                nameless.append(node)
        assert not nameless
        roles = [node.get("role", {}).get("value") for node in tree if not node.get("ignored")]
        assert {"tree", "treeitem", "table", "heading", "main", "banner", "searchbox", "columnheader"} <= set(roles)
        ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(set(ids)) == len(ids)


CONTRAST = """
function rgb(text) { const c = text.match(/[\\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; }
function light([r, g, b]) {
  const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
}
function ground(e) {
  for (; e; e = e.parentElement) {
    const s = getComputedStyle(e), c = rgb(s.backgroundColor);
    if (s.backgroundImage !== "none") return null;
    if (c[3] === 1) return c;
  }
  return [255, 255, 255, 1];
}
const poor = [];
for (const e of document.querySelectorAll("main *, nav *, footer *")) {
  if (e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
  if (e.matches(":disabled, option") || e.offsetParent === null) continue;
  const back = ground(e);
  if (!back) continue;
  const a = light(rgb(getComputedStyle(e).color)), b = light(back);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push([e.textContent.slice(0, 40), ratio]);
}
return poor;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_their_ground(browser, flat, scheme):
    open_page(browser, flat[0])
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        assert browser.execute_script(CONTRAST) == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


STEP = """
const [selector, kind, value, done] = arguments;
const target = document.querySelector(selector);
if (kind === "click") target.click();
else { target.value = value; target.dispatchEvent(new Event(kind, { bubbles: true })); }
document.body.getBoundingClientRect();
requestAnimationFrame(() => setTimeout(done));
"""


def seconds_at_work(browser):
    """Return the CPU time of the page's thread so far."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def test_a_thousand_models_stay_responsive(browser, large):
    """Every interaction until the next frame is on screen, by the page's CPU time, lest a busy machine decide."""
    assert large.stat().st_size < 5e6
    steps = {
        "open a top node": ("#tree [data-node='3.0'] > .label", "click", None),
        "open another": ("#tree [data-node='3.1'] > .label", "click", None),
        "bar of a cluster": ("#bars [data-node='1.0']", "click", None),
        "member of it": ("#member-list button", "click", None),
        "search": ("#search", "input", "participant 09"),
        "all again": ("#search", "input", ""),
        "sort by class": ("#table th:nth-child(3) button", "click", None),
        "sort by name": ("#table th:nth-child(1) button", "click", None),
        "next page": ("#pages button:last-of-type", "click", None),
        "choose a cluster": ("#cluster-filter", "change", "3"),
        "cards of level 1": ("#level-choice [data-level='1']", "click", None),
    }
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    times = {name: [] for name in steps}
    for _ in range(2):
        open_page(browser, large)
        for name, step in steps.items():
            before = seconds_at_work(browser)
            browser.execute_async_script(STEP, *step)
            times[name].append(seconds_at_work(browser) - before)
    browser.execute_cdp_cmd("Performance.disable", {})
    assert complaints(browser) == []
    assert all(0 < min(tries) < 0.2 for tries in times.values()), times


@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_their_width_and_can_be_photographed(browser, flat, deep, tmp_path, width):
    for number, path in enumerate((flat[0], deep[0])):
        open_page(browser, path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
        target = tmp_path / f"{number}.png"
        assert browser.save_screenshot(str(target))
        pixels = pytest.importorskip("matplotlib.image").imread(target)
        assert pixels.shape[1] == width
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 200, "something is drawn"


CUT = """return [...document.querySelectorAll(".scroll caption")].filter((caption) => {
  const words = document.createRange();
  words.selectNodeContents(caption);
  return words.getBoundingClientRect().right > caption.closest(".scroll").getBoundingClientRect().right + 1;
}).map((caption) => caption.textContent)"""


@pytest.mark.parametrize("width", [1280, 400])
def test_captions_of_tables_that_scroll_are_seen_whole(browser, flat, width):
    open_page(browser, flat[0], width)
    shown = texts(browser, ".scroll caption")
    assert any("share of time in sequences of 8 frames" in caption for caption in shown)
    assert len(shown) == 3
    assert browser.execute_script(CUT) == []


@pytest.mark.parametrize("d", [1, 6])
def test_other_dimensions_are_drawn_too(browser, tmp_path, d):
    rng = np.random.default_rng(d)
    hmms = random_h3m(rng, K=8, S=3, M=2, d=d)
    fit = vhem.VHEM(2, n_init=1, max_iter=5, tol=0, random_state=0).fit(hmms)
    sequences = [hmm.sample(1, 30, rng)[0] for hmm in hmms]
    open_page(browser, vhem.report.write(tmp_path / "r.html", fit, hmms, sequences=sequences))
    click(browser, "#member-list button")
    assert len(texts(browser, "#sequence svg path.arrow")) == d
    assert len(texts(browser, ".card svg")) == 2
    assert complaints(browser) == []


@pytest.mark.parametrize("d", [1, 2, 4])
def test_sequences_without_any_value_are_drawn_empty(browser, tmp_path, d):
    hmms = random_h3m(np.random.default_rng(d), K=4, S=2, d=d)
    fit = vhem.VHEM(2, n_init=1, max_iter=5, tol=0, random_state=0).fit(hmms)
    nothing = [np.full((5, d), np.nan)] * 4
    open_page(browser, vhem.report.write(tmp_path / "r.html", fit, hmms, sequences=nothing))
    click(browser, "#member-list button")
    assert find(browser, "#sequence svg").is_displayed()
    assert complaints(browser) == []


def test_mixtures_of_sequences(browser, study, tmp_path):
    fit = vhem.MixtureOfHMMs(2, n_states=2, n_init=1, random_state=0).fit(study.sequences)
    open_page(browser, vhem.report.write(tmp_path / "r.html", fit, sequences=study.sequences))
    click(browser, "#member-list button")
    assert "centre of its cluster" in find(browser, "#details").text
    assert complaints(browser) == []


def test_channels_of_any_unit_can_be_seen_on_one_axis(browser, tmp_path):
    """Multiplying channels by 1,000 and by 0.001 must not change the profiles, nor the curves of sequences."""
    rng = np.random.default_rng(0)
    plain = [rng.normal(size=(30, 3)) + 4 * rng.integers(0, 2, size=(30, 1)) for _ in range(6)]
    drawn = []
    for units in (np.ones(3), np.array([1000.0, 1.0, 0.001])):
        sequences = vhem.Sequences([frames * units for frames in plain])
        fit = vhem.SequenceClustering(2, n_states=2, random_state=0).fit(sequences)
        path = vhem.report.write(tmp_path / f"{units[0]:g}.html", fit, sequences=sequences)
        open_page(browser, path)
        lines = "return [...document.querySelectorAll('#clusters svg path')].map((e) => e.getAttribute('d'))"
        drawn.append([np.array(re.findall(r"[-\d.]+", d), float) for d in browser.execute_script(lines)])
        assert complaints(browser) == []
        assert len(drawn[-1]) >= 8  # a band and a line for each of two states, twice
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_allclose(one, other, atol=1.5)  # of 180 pixels: numbers in a report are rounded
