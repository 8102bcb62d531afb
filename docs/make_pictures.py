"""Make the pictures of README and docs: `make pictures`.

Needs Debian's chromium and chromium-driver, and the extra `dev`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import vhem
from vhem import datasets, demo, plotting
from vhem.datasets import simulated_face, simulated_study

FOLDER = Path(__file__).parent / "images"
_WIDTH = 1180
# The app on a machine that does nothing else: the time that a run takes depends on it.
_APP = "import os; os.getloadavg = lambda: (0.0, 0.0, 0.0); from vhem.app.serve import serve; serve(0, False)"


def _browser() -> Any:
    """Start a browser without a window."""
    from selenium import webdriver  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for option in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--hide-scrollbars",
    ):
        options.add_argument(option)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def report_picture(path: Path) -> None:
    """Photograph the report that the demo writes."""
    with tempfile.TemporaryDirectory() as folder:
        demo.main(Path(folder) / "demo.html")
        browser = _browser()
        try:
            browser.get((Path(folder) / "demo.html").as_uri())
            _resize(browser, 1000)
            browser.execute_script("document.querySelector(\"#bars [data-node='1.1']\").click()")
            _resize(browser, browser.execute_script("return document.querySelector('#members').offsetTop"))
            browser.save_screenshot(str(path))
        finally:
            browser.quit()
    _with_few_colours(path)


def app_pictures(folder: Path) -> None:
    """Photograph the app on its way from the example to the report."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-c", _APP]
        app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_DATA_HOME": home})
        browser = _browser()
        try:
            assert app.stdout is not None
            browser.get(app.stdout.readline().strip())
            _resize(browser, 900)
            _press(browser, "Try it with an example")
            _appears(browser, "#understood[data-whole=true]")
            _photograph(
                browser,
                folder / "app_data.png",
                "document.querySelector('.thumbs').getBoundingClientRect().bottom + 30",
            )
            _press(browser, "Continue")
            _appears(browser, ".estimate")
            time.sleep(2)  # until the time is estimated
            _photograph(browser, folder / "app_model.png", "document.querySelector('main').offsetHeight + 60")
            _press(browser, "Run")
            browser.switch_to.frame(_appears(browser, "iframe.report", 300))
            _appears(browser, "#cards svg ellipse")
            browser.switch_to.default_content()
            _photograph(browser, folder / "app_result.png", "1090")
        finally:
            browser.quit()
            app.send_signal(signal.SIGINT)
            app.wait(120)


def _photograph(browser: Any, path: Path, height: str) -> None:
    browser.execute_script("window.scrollTo(0, 0)")
    _resize(browser, int(browser.execute_script(f"return {height} + window.scrollY")))
    time.sleep(1)
    browser.save_screenshot(str(path))
    _resize(browser, 900)
    _with_few_colours(path)


def _appears(browser: Any, selector: str, seconds: float = 60.0) -> Any:
    from selenium.webdriver.support.wait import WebDriverWait  # noqa: PLC0415

    return WebDriverWait(browser, seconds).until(lambda b: b.find_element("css selector", selector))


def _press(browser: Any, text: str) -> None:
    """Press a button once it is there."""
    from selenium.webdriver.support.wait import WebDriverWait  # noqa: PLC0415

    script = "return [...document.querySelectorAll('main button')].find((b) => b.textContent === arguments[0])"
    button = WebDriverWait(browser, 60).until(lambda b: b.execute_script(script, text))
    browser.execute_script("arguments[0].click()", button)


def _resize(browser: Any, height: int) -> None:
    size = {"width": _WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _with_few_colours(path: Path) -> None:
    """Keep 256 colours, which makes the file a third of its size."""
    from PIL import Image  # noqa: PLC0415  (comes with matplotlib)

    Image.open(path).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)


def plots_picture(path: Path) -> None:
    """Draw one picture of every kind."""
    mpl.use("Agg")
    study, face = simulated_study(), simulated_face()
    fit = vhem.VHEM(3, tau=8, random_state=0).fit(study.hmms)
    tree = vhem.HierarchicalVHEM((6, 3), tau=8, random_state=0).fit(study.hmms)
    strategies = [study.strategy_names[s] for s in study.strategies]
    figure, axes = plt.subplots(3, 3, figsize=(15, 13), constrained_layout=True)
    members = study.hmms[fit.labels_ == 1]
    plotting.plot_hmm(fit.centers_[0], axes[0, 0], image=face).set_title("plot_hmm")
    plotting.plot_cluster(fit.centers_[1], members, axes[0, 1], image=face).set_title("plot_cluster")
    plotting.plot_sequence(study.hmms[0], study.sequences[1], axes[0, 2], image=face).set_title("plot_sequence")
    waves = vhem.HMM(
        [1, 0, 0], [[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]], np.array([[0.0], [4.0], [9.0]]), np.ones((3, 1))
    )
    plotting.plot_hmm(waves, axes[1, 0]).set_title("plot_hmm, one dimension")
    plotting.plot_sequence(waves, waves.sample(1, 90, 0)[0], axes[1, 1]).set_title("plot_sequence")
    plotting.plot_transitions(fit.centers_[2], axes[1, 2]).set_title("plot_transitions")
    plotting.plot_j_matrix(fit.transform(study.hmms), fit.labels_, axes[2, 0]).set_title("plot_j_matrix")
    plotting.plot_bounds(fit, axes[2, 1]).set_title("plot_bounds")
    plotting.plot_hierarchy(tree.tree_, strategies, axes[2, 2]).set_title("plot_hierarchy")
    _save(figure, path)


def idea_pictures(folder: Path) -> None:
    """Draw the pictures of docs/idea.md."""
    mpl.use("Agg")
    study, face = simulated_study(random_state=0), simulated_face()
    fit = vhem.VHEM(3, tau=8, random_state=0).fit(study.hmms)

    hmm = vhem.HMM(
        [0.6, 0.3, 0.1],
        [[0.3, 0.6, 0.1], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]],
        means=[[108, 163], [210, 164], [160, 222]],
        covars=[[220, 160], [240, 150], [260, 200]],
    )
    figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
    plotting.plot_hmm(hmm, axes[0], image=face).set_title("The model")
    sequence = hmm.sample(1, 10, random_state=2)[0]
    plotting.plot_sequence(hmm, sequence, axes[1], image=face).set_title("A sequence it might produce")
    _save(figure, folder / "idea_model.png")

    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    plotting.plot_j_matrix(fit.transform(study.hmms), fit.labels_, axis)
    axis.set_title("40 viewers: how likely is each one's gaze under three HMMs?")
    _save(figure, folder / "idea_likelihood.png")

    figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
    for j, axis in enumerate(axes):
        members = study.hmms[fit.labels_ == j]
        plotting.plot_cluster(fit.centers_[j], members, axis, image=face).set_title(f"Cluster {j + 1}")
    _save(figure, folder / "idea_clusters.png")

    tree = vhem.HierarchicalVHEM((8, 3), tau=8, random_state=0).fit(study.hmms).tree_
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    plotting.plot_hierarchy(tree, [study.strategy_names[s] for s in study.strategies], axis)
    _save(figure, folder / "idea_hierarchy.png")


def thumbnails(folder: Path) -> None:
    """Draw the gallery's thumbnails of examples whose data come with other packages, if these are installed."""
    with contextlib.suppress(FileNotFoundError):
        sessions = datasets.load_clicks().sequences
        sessions = sessions[np.flatnonzero(sessions.lengths >= 3)[:400]]
        labels = vhem.SequenceClustering(3, n_states=3, random_state=0).fit_predict(sessions)
        figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
        plotting.plot_index(sessions, labels, axis, order="end", columns=3)
        _save(figure, folder / "clicks.png")
    with contextlib.suppress(FileNotFoundError):
        town = datasets.load_measles().sequences[0]
        hmm = vhem.fit_hmms([town], n_states=3, emissions="negativebinomial", random_state=0)[0]
        figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
        plotting.plot_sequence(hmm, town, axis)
        _save(figure, folder / "measles.png")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=80)
    plt.close(figure)
    _with_few_colours(path)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    app_pictures(FOLDER)
    report_picture(FOLDER / "report.png")
    plots_picture(FOLDER / "plots.png")
    idea_pictures(FOLDER)
    thumbnails(FOLDER)
