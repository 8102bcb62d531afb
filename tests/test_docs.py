"""The Python in README and docs runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```python" in page.read_text()
]


@pytest.mark.filterwarnings("ignore")  # examples leave the seed open, and a fit may say that it is not done
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    namespace = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    learned = vars(namespace["fit"])
    assert any(name.endswith("_") for name in learned), "the page's fit has learned nothing"
