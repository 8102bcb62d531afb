"""The program that `vhem app` starts: `python -m vhem.app PORT open|no-open`."""

import sys

from vhem._support.optional import how_to_install

try:
    import platformdirs  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"vhem app needs {missing.name}, which is not installed: {how_to_install('app')}."
    ) from None

from vhem.app.serve import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), open_browser=sys.argv[2] == "open")
