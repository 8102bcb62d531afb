"""README and docs: the Python in them runs, and the names and commands they speak of exist."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

import vhem
from vhem.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "generated" not in p.parts)]
MODULES = [
    f"vhem{part}"
    for part in (
        "",
        ".bayes",
        ".datasets",
        ".executors",
        ".files",
        ".inference",
        ".paper",
        ".plotting",
        ".report",
        ".scale",
    )
]
LONG = ["number.md"]  # pages that are run with the slow tests
RECORDS = ["vhem._support.saving", "vhem.files.model_files"]  # classes that only hold something, with documented fields


@pytest.mark.filterwarnings("ignore")  # examples leave the seed open, and a fit may say that it is not done
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=page.name)
        for page in PAGES
        if "```python" in page.read_text()
    ],
)
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks, namespace = re.findall(r"```python\n(.*?)```", page.read_text(), re.S), {}
    for block in blocks:
        exec(compile(block, str(page), "exec", dont_inherit=True), namespace)
    assert "vhem" in namespace


def exists(name):
    """Whether a dotted name such as `vhem.plotting.plot_hmm` can be found."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page):
    names = set(re.findall(r"\bvhem(?:\.\w+)+(?=[(`\]\s,;:])", re.sub(r"\S*https?://\S+", "", page.read_text())))
    names = {name for name in names if not re.search(r"\.(py|md|vhem|csv|toml|html|json)$", name)}
    assert sorted(name for name in names if not exists(name)) == []


def test_names_that_do_not_exist_are_found():
    assert exists("vhem.VHEM.fit")
    assert exists("vhem.datasets.simulated_study")
    assert not exists("vhem.NoSuchThing")


def documented_commands(page):
    """Return the command lines that call `vhem`, in code blocks and in code within text, as lists of words."""
    code = re.findall(r"^(?: {4}|\$ |    \$ )(vhem .*)$|^(vhem .*)$|`(vhem [a-z][^`]*)`", page.read_text(), re.M)
    lines = [next(filter(None, groups)).split("#")[0] for groups in code]
    return [line.replace("\\", " ").split() for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    for words in documented_commands(page):
        command = typer.main.get_command(app)
        for word in words[1:]:
            if word.startswith("-"):
                known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
                assert word.split("=")[0] in {*known, "--help"}, f"{page.name}: {' '.join(words)}: no option {word}"
            elif hasattr(command, "commands") and re.fullmatch(r"[a-z]+", word):
                assert word in command.commands, f"{page.name}: {' '.join(words)}: no command {word}"
                command = command.commands[word]


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.rst").read_text()
    sections = re.split(r"currentmodule:: ([\w.]+)", reference)[1:]
    listed = {f"{module}.{name}" for module, text in zip(sections[::2], sections[1::2], strict=True) for name in
              re.findall(r"^   (\w+)$", text, re.M)}  # fmt: skip
    modules = {module: importlib.import_module(module) for module in MODULES}
    public = {f"{module}.{name}" for module, content in modules.items() for name in content.__all__}
    again = {f"{module}.{name}" for module in MODULES[1:] for name in vhem.__all__}  # listed as vhem.name
    assert sorted(public - listed - again - {"vhem.bayes", "vhem.inference", "vhem.plotting", "vhem.report"}) == []
    assert sorted(name for name in listed if not exists(name)) == []


def test_everything_that_does_something_has_an_example():
    for module in [*MODULES, "vhem.audio", "vhem.metrics"]:
        content = importlib.import_module(module)
        for name in getattr(content, "__all__", [n for n in vars(content) if not n.startswith("_")]):
            thing = getattr(content, name)
            record = isinstance(thing, type) and (issubclass(thing, (Exception, tuple)) or thing.__module__ in RECORDS)
            ours = inspect.isroutine(thing) or isinstance(thing, type)
            if ours and thing.__module__.startswith(module) and not record:
                assert ">>>" in thing.__doc__, f"{module}.{name} has no example"


def test_the_version_is_one():
    assert f'version = "{vhem.__version__}"' in (ROOT / "pyproject.toml").read_text()
