"""Where the command begins: outside the package, so that Ctrl-C during its import ends in one line too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command `vhem`."""
    try:
        from vhem.cli import app  # noqa: PLC0415  (takes a second, in which people press Ctrl-C)
    except KeyboardInterrupt:
        print("vhem: interrupted. Nothing was written.", file=sys.stderr)
        raise SystemExit(130) from None
    app()
