"""Write the list of all warnings and errors, read off the source, for the page on debugging."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import NamedTuple

from vhem._support import errors
from vhem._support.optional import how_to_install

ROOT = Path(__file__).parents[1]
INTERNAL = re.compile(r"^\W*$")
#: What takes templates, and after how many other arguments.
TEMPLATES = {"InputError": 0, "InputTypeError": 0, "CellError": 0, "FitWarning": 0, "InputWarning": 0}
TEMPLATES |= {"warn_if_any": 1, "_warn_of_counts": 1, "ParameterError": 2}
WARNERS = ("warn_if_any", "_warn_of_counts")
FIXED = {
    "NotConvergedWarning": errors.NotConvergedWarning("…", "…", 100),
    "BoundError": errors.BoundError("…", 2.0, 1.0),
}


class Value:
    """Stands for any value in a template."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return many or (f"… {one}s" if one.isalpha() and len(one) > 1 else "…")

    def __str__(self) -> str:
        return "…"

    __repr__ = __str__


class Said(NamedTuple):
    """A message in the source."""

    kind: str
    problem: str
    cures: tuple[str, ...] = ()
    values: tuple[str, ...] = ()  #: fields of the templates that are values
    is_template: bool = False

    @property
    def text(self) -> str:
        """The message as its readers see it, with … where a value is put in."""
        if not self.is_template:
            return self.problem
        return errors.InputError(self.problem, *self.cures, **dict.fromkeys(self.values, Value())).told()


def text_of(node: ast.expr) -> str:
    """Return a string expression as its readers see it, with … where a value is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) for value in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.FormattedValue) and (put := re.match(r"how_to_install\('(\w+)'", ast.unparse(node.value))):
        return how_to_install(put[1])
    return "…"


class Source:
    """A file, and the constants that are known in it."""

    def __init__(self, path: Path) -> None:
        self.tree = ast.parse(path.read_text())
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        self._constants = vars(importlib.import_module(module))
        self._functions = [node.lineno for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        self._lines = {
            (target.id, node.lineno): text_of(node.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def templates(self, node: ast.expr) -> list[str]:
        """Return templates: written where they are used, in a line above, or constants."""
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name):
            return list(self._constants.get(node.value.id, ()))
        if not isinstance(node, ast.Name):
            return [text_of(node)]
        constant = self._constants.get(node.id)
        begin = max([line for line in self._functions if line < node.lineno], default=0)
        above = [line for name, line in self._lines if name == node.id and begin < line < node.lineno]
        local = self._lines[node.id, max(above)] if above else text_of(node)
        return [constant if isinstance(constant, str) else local]

    def said(self, call: ast.Call) -> Said:
        """Return the message of an error or a warning that is made."""
        kind = ast.unparse(call.func)
        if kind == "warnings.warn":
            return Said(ast.unparse(call.args[1]) if len(call.args) > 1 else "UserWarning", text_of(call.args[0]))
        if kind not in TEMPLATES or (kind not in WARNERS and self._constants.get(kind) is not getattr(errors, kind)):
            return Said(kind, str(FIXED[kind]) if kind in FIXED else text_of(call.args[0]))
        start = TEMPLATES[kind]
        problem, *cures = (text for node in call.args[start:] for text in self.templates(node))
        if kind == "ParameterError":
            name = text_of(call.args[0])
            problem = f"{'{name}' if name == '…' else f'{{{name}}}'} {problem}"
        values = ("name", "value", "n", *(str(keyword.arg) for keyword in call.keywords))
        return Said("FitWarning" if kind in WARNERS else kind, problem, tuple(cures), values, True)


def messages_of(path: Path) -> list[Said]:
    """Return every warning and error of a file."""
    source = Source(path)
    found: list[Said] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            found.append(source.said(node.exc))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            found.append(source.said(node.args[0] if isinstance(node.args[0], ast.Call) else node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in TEMPLATES:
            found.append(source.said(node))
    return [said for said in found if not INTERNAL.match(said.text.replace("…", ""))]


def page() -> str:
    """Return the list as Markdown, one table per part of the package."""
    lines = ["# Every message", "", "From the source; … stands for a value. Each message says what to do.", ""]
    for folder in sorted({p.parent for p in (ROOT / "src/vhem").rglob("*.py")}):
        said = [said for path in folder.glob("*.py") for said in messages_of(path)]
        rows = sorted({(one.kind, re.sub("…+", "…", one.text)) for one in said})  # two values side by side are one
        if rows:
            name = ".".join(folder.relative_to(ROOT / "src").parts)
            lines += [f"## {name}", "", "| kind | message |", "| --- | --- |"]
            lines += [f"| `{kind}` | {' '.join(text.split()).replace('|', chr(92) + '|')} |" for kind, text in rows]
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    target = ROOT / "docs" / "generated" / "messages.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(page())
