"""The first page that a newcomer reads: its commands are run as they stand, and print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_cli import run

from vhem.report.images import embedded

PAGE = (Path(__file__).parents[1] / "docs" / "start.md").read_text(encoding="utf-8")
BLOCKS = [re.sub(r"^ {4}", "", block, flags=re.M) for block in re.findall(r"(?:^ {4}.*\n)+", PAGE, re.M)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def missing_lines(block, shown):
    """Return the lines of a block of the page that were not shown, in its order; … stands for any others."""
    left = iter(shown.splitlines())
    return [line for line in block.splitlines() if line != "…" and line not in left]


@pytest.mark.slow
def test_the_page_says_what_is_printed(folder):
    shown, n_commands, n_outputs = "", 0, 0
    for block in BLOCKS:
        commands = [line for line in block.splitlines() if line.startswith("vhem ")]
        if commands:
            shown = "".join(run(*shlex.split(line)[1:]).stdout for line in commands)
            n_commands += len(commands)
        elif "pip install" not in block:
            written = "".join(path.read_text() for path in sorted(folder.glob("*.csv")))
            assert missing_lines(block, shown) == [] or missing_lines(block, written) == [], block
            n_outputs += 1
    assert n_commands >= 6
    assert n_outputs >= 4
    assert "data:image/png" in (folder / "out" / "report.html").read_text(encoding="utf-8")


def test_lines_that_are_not_shown_are_found():
    assert missing_lines("a\n…\nc\n", "a\nb\nc\n") == []
    assert missing_lines("a\nd\n", "a\nb\nc\n") == ["d"]
    assert missing_lines("c\na\n", "a\nb\nc\n") == ["a"]


def test_the_face_beside_the_table(folder):
    shown = run("demo", "--table", "fixations.csv").stdout
    assert "face.png: the face they looked at" in shown
    assert embedded(folder / "face.png")[1:] == (320, 400)
    run("demo", "--table", "fixations.csv")  # again, over its own
    (folder / "face.png").write_bytes(b"somebody's own")
    assert "face.png already exists" in run("demo", "--table", "fixations.csv", code=1).stderr
    assert (folder / "face.png").read_bytes() == b"somebody's own"
