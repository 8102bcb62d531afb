"""The app in a real browser: the whole way, with mouse and keyboard, and nothing that leaves this machine."""

import http.server
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from app_server import RunningApp, finished_run, wait_for
from helpers import faces_folder
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from test_app import write_table
from test_app_tables import write_lives
from test_report_browser import EVIL, browser, complaints, requests_made

from vhem.app import settings

__all__ = ["browser"]  # a fixture

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    running = RunningApp(tmp_path_factory.mktemp("app"), processes=True)
    yield running
    running.close()


@pytest.fixture
def page(browser, app):
    """The start page, at a desk's width; afterwards nothing has been complained about, nor asked for elsewhere."""
    resize(browser, 1280)
    if browser.current_url.startswith(f"http://127.0.0.1:{app.port}"):
        go(browser, "#/")
    else:
        browser.get(app.address)
    find(browser, ".drop")
    browser.get_log("browser")
    browser.get_log("performance")
    yield browser
    assert complaints(browser) == []
    asked = requests_made(browser)
    assert [url for url in asked if not re.match(rf"http://127\.0\.0\.1:{app.port}/|data:|blob:|about:", url)] == []


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def go(browser, place):
    browser.execute_script("location.hash = arguments[0]", place)


def find(browser, selector):
    """Return an element once it is there."""
    return wait_for(lambda: next(iter(browser.find_elements(By.CSS_SELECTOR, selector)), None))


IN_VIEW = """const all = [...document.querySelectorAll("main button:not(:disabled), main a, summary")];
    const found = all.find((e) => e.innerText.trim().startsWith(arguments[0]));
    if (found) found.scrollIntoView({ block: "center" });
    return found;"""


def press(browser, text):
    """Click the button or link that begins with a text, as a user does: in view, in the middle."""

    def pressed():
        try:
            element = browser.execute_script(IN_VIEW, text)
            if element is not None:
                element.click()
        except (StaleElementReferenceException, NoSuchElementException):
            return False  # the page has just been drawn again
        return element is not None

    wait_for(pressed)


def text_of(browser, selector="main"):
    return browser.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def shown(browser, *texts):
    """Wait until the page has one of some texts."""
    wait_for(lambda: any(text in text_of(browser) for text in texts))


def drop(browser, path, place="input[type=file]"):
    """Give a file to the page, as the file dialog does."""
    find(browser, place).send_keys(str(path.resolve()))


def set_number(browser, label, value):
    field = find(browser, f"input[aria-label='{label}']")
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", field)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(str(value))


def run_quickly(browser, clusters=2, states=2):
    """From the page of a table to a run with few states."""
    press(browser, "Continue")
    find(browser, "#model")
    set_number(browser, "Number of clusters", clusters)
    set_number(browser, "Number of states", states)
    press(browser, "Run")


def in_report(browser):
    """Enter the frame of the report."""
    browser.switch_to.frame(find(browser, "iframe.report"))
    return find(browser, ".card svg, .card")


def barriers(browser):
    """Return what axe finds to be a serious obstacle."""
    if not browser.execute_script("return Boolean(window.axe)"):
        browser.execute_script(AXE.read_text(encoding="utf-8"))
    ask = """const done = arguments[0];
        axe.run(document, { iframes: false }).then((found) => done(found.violations))"""
    found = browser.execute_async_script(ask)
    return [(v["id"], v["nodes"][0]["html"][:120]) for v in found if v["impact"] in ("serious", "critical")]


@pytest.fixture(scope="module")
def way(browser, app):
    """The whole way from the start to the report of the example, by clicks; what was seen, and the run."""
    resize(browser, 1280)
    browser.get("about:blank")
    browser.get_log("performance")  # of the browser's own first page
    browser.get(app.address)
    begin = time.monotonic()
    press(browser, "Try it with an example")
    find(browser, "#understood[data-whole=true]")
    seen = {"data": text_of(browser), "drawn": len(browser.find_elements(By.CSS_SELECTOR, ".thumbs svg image"))}
    press(browser, "Continue")
    find(browser, "#model")
    wait_for(lambda: "Takes about" in text_of(browser))
    seen["estimate"] = text_of(browser, ".estimate")
    set_number(browser, "Number of clusters", 3)
    press(browser, "Run")
    find(browser, ".stages, iframe.report")
    seen["run"] = text_of(browser)
    in_report(browser)
    seen["cards"] = len(browser.find_elements(By.CSS_SELECTOR, "#cards .card"))
    browser.switch_to.default_content()
    seen["step"] = find(browser, ".steps [aria-current]").text
    print(f"from the start to the report: {time.monotonic() - begin:.0f} s")
    seen["complaints"], seen["asked"] = complaints(browser), requests_made(browser)
    return {**seen, "id": browser.current_url.rpartition("/")[2]}


@pytest.fixture
def small(way):
    """A finished run, for what comes after it."""
    return way["id"]


@pytest.fixture(scope="module")
def both(app, way):
    """The same, with three and with four clusters."""
    job = app.get(f"/api/runs/{way['id']}")
    return way["id"], finished_run(app, job["data"], 4, **job["model"])


def test_from_the_example_to_a_report(way, app):
    assert "597 sequences of 40 people" in way["data"]
    assert way["drawn"] == 6
    assert re.search(r"Takes about \d+ (second|minute)", way["estimate"])
    assert "Writing the report" in way["run"]
    assert (way["cards"], way["step"]) == (3, "Result")
    assert way["complaints"] == []
    assert {url for url in way["asked"] if not re.match(rf"http://127\.0\.0\.1:{app.port}/|data:|blob:", url)} == set()


def test_a_broken_table_is_explained_and_can_be_corrected(page, tmp_path):
    path = tmp_path / "broken.csv"
    lines = [f"s{k // 8},{k % 8},{k % 5}.5,{k % 3}.25\n" for k in range(64)]
    lines[10] = "s1,2,oops,0.25\n"
    lines[20] = "s2,4,n.a.,0.25\n"
    path.write_text("subject,frame,x,y\n" + "".join(lines))
    drop(page, path)
    shown(page, "row 12")
    assert "Row\tColumn\tContent\n12\tx\t'oops'\n22\tx\t'n.a.'" in text_of(page, ".problem")
    assert not [b for b in page.find_elements(By.CSS_SELECTOR, "button") if b.text == "Continue"]
    press(page, "Treat these 2 cells as missing")
    find(page, "#understood[data-whole=true]")
    assert "8 sequences" in text_of(page)
    assert "2\nmissing values" in text_of(page)


def test_categories_are_drawn_as_cells_with_names(page, tmp_path):
    rows = [f"p{k // 6},{k % 6},{('search', 'cart')[k % 6 // 3]}\n" for k in range(24)]
    (tmp_path / "pages.csv").write_text("person,time,page\n" + "".join(rows))
    drop(page, tmp_path / "pages.csv")
    find(page, "#understood[data-whole=true]")
    assert len(page.find_elements(By.CSS_SELECTOR, ".thumbs svg rect:not(.frame)")) == 4 * 2  # a cell per stretch
    assert {"page: cart", "page: search"} == set(text_of(page, ".keys").splitlines())


@pytest.fixture(scope="module")
def lives(app, tmp_path_factory):
    """A wide table that the app has."""
    path = write_lives(tmp_path_factory.mktemp("lives") / "lives.csv", before="age ")
    return json.loads(app.ask("POST", "/api/data?name=lives.csv", path.read_bytes())[2])["id"]


def test_a_wide_table_is_recognised_and_its_series_are_changed(page, lives):
    go(page, f"#/data/{lives}")
    shown(page, "its moments are the columns age 1 to age 8")
    assert text_of(page, ".preview").count("moment") == 8
    Select(find(page, "#series-0-2")).select_by_visible_text("age 6")
    shown(page, "its moments are the columns age 1 to age 6")
    Select(find(page, "select[aria-label='Role of column weight']")).select_by_visible_text("weight")
    wait_for(lambda: page.find_elements(By.CSS_SELECTOR, ".role.weights"))
    assert "age 6" in text_of(page, ".understood")
    Select(find(page, "#layout")).select_by_visible_text("one observation")
    shown(page, "per sequence\n1\n")
    Select(find(page, "#layout")).select_by_visible_text("a whole sequence")
    shown(page, "its moments are the columns")


def test_several_files_are_put_together(page, tmp_path):
    for k in range(3):
        (tmp_path / f"person{k}.csv").write_text("trial,x\n" + "".join(f"{i // 4},{i % 4}.5\n" for i in range(8)))
    find(page, "input[type=file]").send_keys("\n".join(str(tmp_path / f"person{k}.csv") for k in range(3)))
    shown(page, "3 files: what are they to each other?")
    assert barriers(page) == []
    press(page, "Put them below one another")
    find(page, "#understood[data-whole=true]")
    assert "6 sequences of 3 people" in text_of(page)


@pytest.mark.slow
def test_statistics_to_their_end(page, app, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "DRAWS", 10)
    drop(page, write_table(tmp_path / "tested.csv"))
    run_quickly(page)
    find(page, "iframe.report")
    press(page, "Statistics")
    press(page, "Test the clusters")
    shown(page, "You can go on meanwhile")
    shown(page, "Show the section in the report")
    assert "parametric bootstrap with" in text_of(page, ".panel")
    links = [a.get_attribute("href") for a in page.find_elements(By.CSS_SELECTOR, ".panel .downloads a")]
    assert {"tables.docx", "tables.xlsx", "methods.txt"} <= {link.rpartition("/")[2] for link in links}
    press(page, "Show the section in the report")
    in_report(page)
    section = wait_for(lambda: next(iter(page.find_elements(By.ID, "statistics")), None))
    assert wait_for(lambda: page.execute_script("return location.hash")) == "#statistics"
    assert "bootstrap" in section.text
    page.switch_to.default_content()
    press(page, "Take away")
    assert "vhem compare clusters-2 --bootstrap 10" in text_of(page, "#commands")


def test_stopped_runs_are_resumed_from_the_list(page, app):
    job = {"data": "0" * 12, "data_name": "old.csv", "clusters": 2, "range": None, "made": 1.0, "state": "stopped"}
    run, statistics = app.store.new_run(), app.store.new_run()
    run.write({**job, "data_name": "first.csv"})
    statistics.write({**job, "of": run.id})
    go(page, "#/runs")
    shown(page, "first.csv")
    buttons = [b.get_attribute("aria-label") for b in page.find_elements(By.CSS_SELECTOR, ".rows button")]
    assert {"Resume: first.csv: 2 clusters", "Resume: Statistics of old.csv: 2 clusters"} < set(buttons)
    go(page, f"#/run/{statistics.id}")
    shown(page, "Back to the clusters")
    assert "Change the settings" not in text_of(page)
    for record in (run, statistics):
        record.remove()


def test_roles_are_changed_by_choosing_them(page, tmp_path):
    path = write_table(tmp_path / "roles.csv")
    drop(page, path)
    find(page, "#understood[data-whole=true]")
    assert find(page, "select[aria-label='Role of column viewer']").get_attribute("value") == "group"
    find(page, "select[aria-label='Role of column y']").send_keys("n")  # not used
    wait_for(lambda: "Every row has x." in text_of(page))
    assert page.switch_to.active_element.get_attribute("aria-label") == "Role of column y"  # the keyboard stays there
    find(page, "select[aria-label='Role of column trial']").send_keys("n")
    wait_for(lambda: "12 sequences" in text_of(page))


def reload_and_open_again(page):
    """A run goes on when its page is loaded again, and two tabs show the same."""
    wait_for(lambda: "#/run/" in page.current_url)
    address, first = page.current_url, page.current_window_handle
    page.refresh()
    find(page, ".stages, iframe.report")
    page.switch_to.new_window("tab")
    page.get(address)
    find(page, "iframe.report")
    page.close()
    page.switch_to.window(first)
    find(page, "iframe.report")


@pytest.mark.slow
def test_script_in_names_is_only_text_and_tabs_come_and_go(page, tmp_path):
    column = EVIL.replace(",", "")
    path = tmp_path / f"{EVIL.replace('/', '')}.csv"
    rows = [f"<img src=x onerror=alert(1)>{k // 20},{k // 10},{k % 7}.5\n" for k in range(120)]
    path.write_text(f"person,trial,{column}\n" + "".join(rows))
    drop(page, path)
    find(page, "#understood[data-whole=true]")
    assert column in [e.text for e in page.find_elements(By.CSS_SELECTOR, ".preview .name")]
    assert "<img src=x" in text_of(page, ".preview")
    assert page.find_elements(By.CSS_SELECTOR, "main script, main img") == []
    run_quickly(page)
    reload_and_open_again(page)
    in_report(page)
    assert "<img src=x onerror=alert(1)>" in page.execute_script("return document.querySelector('#table').innerText")
    page.switch_to.default_content()


@pytest.mark.slow
def test_what_is_done_with_a_result(page, app, small):
    go(page, f"#/run/{small}")
    find(page, "iframe.report")
    press(page, "Take away")
    assert "vhem cluster fixations.csv --id=viewer,trial" in text_of(page, "#commands")
    links = [a.get_attribute("href") for a in page.find_elements(By.CSS_SELECTOR, ".downloads a")]
    assert {link.rpartition("/")[2] for link in links} >= {"zip", "labels.csv", "centers.vhem", "script", "report.html"}
    press(page, "Names and colours")
    find(page, "input[placeholder='Cluster 1']").send_keys("Eyes first")
    press(page, "Apply")
    wait_for(lambda: "drawn again" in page.execute_script("return document.getElementById('said').textContent"))
    in_report(page)
    wait_for(lambda: "Eyes first" in text_of(page, "body"))
    assert page.execute_script("return document.domain") == ""  # the report cannot act as the app
    page.switch_to.default_content()


def test_figures_are_enlarged_and_saved(page, small, tmp_path):
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    go(page, f"#/run/{small}")
    in_report(page)
    tools = wait_for(lambda: page.find_elements(By.CSS_SELECTOR, "#cards .card:first-child .tool"))
    assert [tool.text for tool in tools] == ["Enlarge", "SVG", "PNG"]
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", tools[0])
    tools[0].click()
    large = find(page, "dialog.large svg")
    before = large.get_dom_attribute("viewBox")
    page.switch_to.active_element.send_keys("+")
    assert float(large.get_dom_attribute("viewBox").split()[2]) < float(before.split()[2])
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    wait_for(lambda: not page.find_elements(By.CSS_SELECTOR, "dialog"))
    tools[1].click()
    tools[2].click()
    page.switch_to.default_content()
    svg = wait_for(lambda: next(tmp_path.glob("*.svg"), None)).read_text()
    assert svg.startswith("<svg")
    assert "ellipse" in svg
    assert "var(--" not in svg
    png = wait_for(lambda: next(tmp_path.glob("*.png"), None))
    assert wait_for(lambda: png.read_bytes()[:4]) == b"\x89PNG"


ATTACK = """<!doctype html><link rel="icon" href="data:,"><iframe src="{app}/"></iframe><script type="module">
    const send = (path, given) => fetch("{app}" + path, {{ mode: "no-cors", credentials: "include", ...given }});
    await send("/api/demo", {{ method: "POST" }}).catch(() => 0);
    await send("/api/data?name=evil.csv", {{ method: "POST", body: "id,x\\na,1\\n" }}).catch(() => 0);
    await send("/api/overview").catch(() => 0);
    const socket = new WebSocket("{app}/".replace("http", "ws"));
    socket.onopen = () => (document.title = "let in");
    socket.onclose = () => (document.title ||= "refused");
</script>"""


@pytest.fixture
def foreign(app):
    """The address of a page on another port of this machine, whose requests carry the app's cookie."""

    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.format(app=f"http://127.0.0.1:{app.port}").encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_page_on_another_port_gets_nothing_although_the_cookie_is_sent(browser, app, foreign):
    browser.get(app.address)
    find(browser, ".drop")  # it has the cookie now
    before = {record.id for record in (*app.store.all_data(), *app.store.all_runs())}
    browser.get_log("performance")
    browser.get(foreign)
    wait_for(lambda: browser.title == "refused")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    told = {(m["method"], m["params"].get("requestId")): m["params"] for m in events}
    sent = {own: p["request"]["url"] for (kind, own), p in told.items() if kind == "Network.requestWillBeSent"}
    asked = {
        url.rpartition("/")[2]: own for own, url in sent.items() if url.startswith(f"http://127.0.0.1:{app.port}/")
    }
    assert set(asked) == {"", "demo", "data?name=evil.csv", "overview"}
    assert {told["Network.responseReceivedExtraInfo", own]["statusCode"] for own in asked.values()} == {403}
    cookies = told["Network.requestWillBeSentExtraInfo", asked["demo"]]["associatedCookies"]
    assert [c["cookie"]["name"] for c in cookies if not c["blockedReasons"]] == [app.keys.name]
    assert {record.id for record in (*app.store.all_data(), *app.store.all_runs())} == before
    browser.get("about:blank")
    complaints(browser)


def test_barriers_would_be_found(page):
    page.execute_script("document.querySelector('main').insertAdjacentHTML('beforeend', '<input><img src=\"data:,\">')")
    found = {kind for kind, _ in barriers(page)}
    page.refresh()
    assert found >= {"image-alt", "label"}


def scheme(browser, name):
    """Have the browser prefer light or dark pages."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def check(page, place):
    """A page has no barrier, and nothing sticks out of it."""
    wide = page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{place} sticks out by {wide} pixels"
    assert barriers(page) == [], place


@pytest.fixture
def odd_runs(app, small):
    """Runs in every other state, which only their descriptions know."""
    job = {key: value for key, value in app.store.run(small).read().items() if key != "id"}
    ends = {"failed": {"error": "Not enough rows."}, "stopped": {}}
    made = {state: app.store.new_run() for state in ends}
    for state, more in ends.items():
        made[state].write({**job, **more, "state": state, "made": 1.0})
    yield [f"#/run/{record.id}" for record in made.values()]
    for record in made.values():
        record.remove()


@pytest.mark.parametrize(("width", "colours"), [
    (400, "light"), (1600, "dark"),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [(400, "dark"), (1280, "light"), (1600, "light")]),
])  # fmt: skip
def test_no_barriers_and_nothing_sticks_out(page, app, both, odd_runs, lives, width, colours):
    data = app.get(f"/api/runs/{both[0]}")["data"]
    places = {"#/": ".drop", f"#/data/{data}": "#understood[data-whole=true]", f"#/model/{data}": "#model"}
    places |= {"#/runs": ".rows", f"#/new/{both[0]}/{data}": "main a.button", f"#/data/{lives}": "#series-0-1"}
    places |= dict.fromkeys(odd_runs, ".onward .button")
    resize(page, width)
    scheme(page, colours)
    try:
        for place, sign in places.items():
            go(page, place)
            find(page, sign)
            page.execute_script("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
            check(page, place)
        go(page, f"#/run/{both[0]}")
        find(page, "iframe.report")
        for tab in ("Take away", "Names and colours", "Statistics", "Compare"):
            press(page, tab)
            check(page, tab)
        go(page, f"#/compare/{both[0]}/{both[1]}")
        page.switch_to.frame(find(page, f"iframe[src*='{both[1]}']"))
        find(page, ".pair")
        check(page, "comparison")
    finally:
        page.switch_to.default_content()
        scheme(page, "light")


def test_the_way_by_keyboard(page):
    def tab_to(text):
        for _ in range(40):
            page.switch_to.active_element.send_keys(Keys.TAB)
            if page.switch_to.active_element.text.startswith(text):
                return page.switch_to.active_element
        raise AssertionError(f"the keyboard does not reach {text}")

    page.execute_script("document.activeElement.blur()")
    tab_to("Try it with an example").send_keys(Keys.ENTER)
    find(page, "#understood[data-whole=true]")
    tab_to("Continue").send_keys(Keys.ENTER)
    find(page, "#model")
    assert page.switch_to.active_element.tag_name == "main"  # where those who listen go on
    tab_to("Run")


@pytest.mark.slow
def test_the_spreadsheet_of_the_emhmm_toolbox(page):
    drop(page, faces_folder() / "demodata.xls")
    find(page, "#understood[data-whole=true]")
    assert re.search(r"\d+ sequences of 10 people", text_of(page))
    drop(page, faces_folder() / "ave_face120.png", "input[accept*=png]")
    wait_for(lambda: page.find_elements(By.CSS_SELECTOR, ".thumbs svg image"))
    run_quickly(page, clusters=2, states=3)
    in_report(page)
    assert page.find_elements(By.CSS_SELECTOR, "#cards .card svg image")
    page.switch_to.default_content()


def test_a_slider_moves_between_numbers_of_clusters(page, both):
    go(page, f"#/run/{both[0]}")
    find(page, "#k").send_keys(Keys.ARROW_RIGHT)
    shown(page, "fixations.csv: 4 clusters")
    assert page.current_url.endswith(both[1])
    find(page, "#k").send_keys(Keys.ARROW_LEFT)
    shown(page, "fixations.csv: 3 clusters")


def test_two_runs_are_compared(page, both):
    go(page, f"#/run/{both[0]}")
    find(page, "iframe.report")
    press(page, "Compare")
    press(page, "Side by side")
    shown(page, "Two runs side by side")
    page.switch_to.frame(find(page, "iframe.report"))
    wait_for(lambda: len(page.find_elements(By.CSS_SELECTOR, ".pair")) == 4)
    assert "of 40 members are in clusters that correspond" in text_of(page, "#sentence")
    page.switch_to.default_content()


@pytest.mark.slow
def test_new_people(page, app, small, tmp_path):
    go(page, f"#/new/{small}")
    shown(page, "New people")
    drop(page, write_table(tmp_path / "new.csv", n_viewers=4, n_trials=2))
    press(page, "Find their clusters")
    find(page, "section table")
    assert len(page.find_elements(By.CSS_SELECTOR, "section:first-of-type tbody tr")) == 4


@pytest.mark.slow
def test_stopping_in_the_middle_and_a_killed_process(page, app, tmp_path):
    drop(page, write_table(tmp_path / "stop.csv", n_viewers=40, n_trials=30))
    find(page, "#understood[data-whole=true]")
    press(page, "Continue")
    find(page, "#model")
    set_number(page, "Number of clusters", 2)
    press(page, "More settings")
    set_number(page, "Attempts at each model", 200)
    press(page, "Run")
    find(page, ".bar[aria-valuenow]")
    press(page, "Stop")
    assert "Stopping" in text_of(page) or "Stopped" in text_of(page)  # it answers at once
    shown(page, "Stopped. What was finished is kept.")
    press(page, "Resume")
    run = page.current_url.rpartition("/")[2]
    pid = wait_for(lambda: (now := app.get(f"/api/runs/{run}"))["state"] == "running" and now.get("pid"))
    os.kill(pid, signal.SIGKILL)
    shown(page, "was killed from outside (SIGKILL)")


@pytest.mark.slow
def test_a_table_of_a_million_rows(page, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(300, 80, size=(1_000_000, 2)).round(2).astype(str)
    path = tmp_path / "million.csv"
    people, trials = (np.char.mod(form, np.arange(1_000_000) // n) for form, n in (("s%d", 10_000), ("%d", 50)))
    lines = map(",".join, zip(people, trials, x[:, 0], x[:, 1], strict=True))
    path.write_text("subject,trial,x,y\n" + "\n".join(lines) + "\n")
    small = tmp_path / "small.csv"
    small.write_text("subject,trial,x,y\n" + "".join(f"s{k // 20},{k // 10},{k % 7}.5,{k % 3}.5\n" for k in range(400)))
    page.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    work, begin = {}, time.monotonic()
    for table in (small, path):
        go(page, "#/")
        before = work_of(page)
        begin = time.monotonic()
        drop(page, table)
        first = find(page, "#understood").get_dom_attribute("data-whole")
        seen = time.monotonic() - begin
        find(page, "#understood[data-whole=true]")
        work[table] = work_of(page) - before
    print(f"first look after {seen:.1f} s, all of it after {time.monotonic() - begin:.1f} s; the page's work: {work}")
    assert first == "false"  # the beginning is shown while the rest is read
    assert "20,000 sequences of 100 people" in text_of(page)
    assert work[path] < 12 * work[small]  # with 2,500 times as many rows: the page is free to answer


def work_of(page):
    """Return the seconds of processor time that the page's thread, which answers the user, has spent."""
    metrics = page.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


@pytest.mark.slow
def test_the_page_says_when_the_app_is_gone(browser, tmp_path):
    app = RunningApp(tmp_path)
    browser.get(app.address)
    find(browser, ".drop")
    assert not find(browser, "#offline").is_displayed()
    app.close()
    wait_for(lambda: browser.find_element(By.ID, "offline").is_displayed())
    browser.get("about:blank")
