"""How the documentation is built: `make docs`."""

import os
import re
from importlib.metadata import version as installed_version
from pathlib import Path

from vhem import datasets

ROOT = Path(__file__).parents[1]
if (ROOT / "../shared/data").is_dir():
    os.environ.setdefault("VHEM_DATA", str((ROOT / "../shared/data").resolve()))


def data_at_hand(script):
    """Whether the data sets that an example loads are there; one without them is shown but not run."""
    for loader in re.findall(r"\bload_\w+(?=\()", script.read_text()):
        try:
            getattr(datasets, loader)()
        except FileNotFoundError:
            return False
    return True


RUNNABLE = [script.name for script in sorted((ROOT / "examples").glob("*.py")) if data_at_hand(script)]

project = "vhem"
author = "The vhem developers"
copyright = "The vhem developers"
release = version = installed_version("vhem")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # formulas are drawn without a network too
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold functions, which are no news to anybody

autosummary_generate = True
numpydoc_show_class_members = False  # the template of classes shows them in full
templates_path = ["_templates"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the parameters below tell the types, in words

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": "|".join(re.escape(name) for name in RUNNABLE),
    "abort_on_example_error": True,
    "remove_config_comments": True,  # thumbnails are named where an example cannot run for want of its data
    "show_memory": False,
    "capture_repr": (),  # what is printed, not the value of a last line that draws
}

smartquotes = False  # options and code must survive being copied
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "pydata_sphinx_theme"
html_title = f"vhem {release}"
html_show_sourcelink = False
# Pages without siblings, and those with wide tables, have the whole width.
WIDE = [
    "start",
    "idea",
    "choices",
    "formulas",
    "performance",
    "alternatives",
    "coming_from",
    "debugging",
    "architecture",
    "extending",
    "comparison",
    "studies/*",
]
html_sidebars = {page: [] for page in WIDE}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
