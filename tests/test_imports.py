"""Imports point one way: from a room to those below it, and never in a circle."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "vhem"

#: The rooms from the ground up; rooms of one floor do not know each other. `files` is below the estimators, which
#: register themselves: a file knows models by their kind alone. `metrics` needs arrays only, and taggers use it.
FLOORS = [
    ("_support",),
    ("metrics", "audio"),
    ("emissions",),
    ("kernels",),
    ("executors", "sequences", "show_versions"),
    ("models",),
    ("files",),
    ("em",),
    ("bayes",),
    ("estimators",),
    ("supervised", "scale", "datasets"),
    ("inference",),
    ("plotting", "report"),
    ("paper",),
    ("vhem",),  # the package itself: its __init__ collects the public names
    ("demo", "studies"),
    ("cli",),
    ("app",),
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def name_of(path):
    parts = ["vhem", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def imports_of(path):
    """Yield the modules of vhem that a module imports, wherever it does so: in functions, or only for types."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "vhem")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; write it from vhem on."
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            if node.module.split(".")[0] == "vhem":
                yield from (name if name in MODULES else node.module for name in whole)


ARROWS = {name: set(imports_of(path)) for name, path in MODULES.items()}


def room_of(name):
    return name.split(".")[1] if "." in name else "vhem"


def test_modules_know_only_the_rooms_below_their_own():
    arrows = {(name, other) for name, others in ARROWS.items() for other in others if room_of(name) != room_of(other)}
    upwards = {(name, other) for name, other in arrows if FLOOR[room_of(other)] >= FLOOR[room_of(name)]}
    assert not upwards


def test_no_modules_import_each_other_in_a_circle():
    circle = []
    try:
        TopologicalSorter(ARROWS).prepare()
    except CycleError as found:
        circle = found.args[1]
    assert not circle


def test_only_the_command_knows_the_studies():
    users = {room_of(name) for name, others in ARROWS.items() if "studies" in map(room_of, others)}
    assert users <= {"studies", "cli"}
