"""Write the list of all warnings and errors, read off the source, for the page on debugging."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from vhem._support.optional import how_to_install

ROOT = Path(__file__).parents[1]
INTERNAL = re.compile(r"^\W*$")


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


def messages_of(path: Path) -> list[tuple[str, str]]:
    """Return the kind and text of every warning and error that a file raises."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            kind = ast.unparse(node.exc.func)
            found.append((kind, text_of(node.exc.args[0])))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            kind = ast.unparse(node.args[1]) if len(node.args) > 1 else "UserWarning"
            found.append((kind, text_of(node.args[0])))
    once = [(kind, re.sub("…+", "…", text)) for kind, text in found]  # two values side by side
    return [(kind, text) for kind, text in once if not INTERNAL.match(text.replace("…", ""))]


def page() -> str:
    """Return the list as Markdown, one table per part of the package."""
    lines = ["# Every message", "", "Read off the source; … stands for a value. What to do is part of the message.", ""]
    for folder in sorted({p.parent for p in (ROOT / "src/vhem").rglob("*.py")}):
        rows = sorted({row for path in folder.glob("*.py") for row in messages_of(path)})
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
