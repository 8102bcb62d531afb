"""For tests and doctests alike: pictures do not pile up, and examples on data that are not there are passed over."""

import re
import sys

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip the docstring examples of loaders whose data are not at hand."""
    try:
        return (yield)
    except Exception as error:
        first = getattr(error, "failures", [error])[0]
        cause = getattr(first, "exc_info", (None, None))[1]
        if re.fullmatch(r"vhem\.datasets\.\w+\.load_\w+", item.name) and isinstance(cause, FileNotFoundError):
            pytest.skip(str(cause))
        raise


@pytest.fixture(autouse=True)
def close_figures():
    """Close what a test drew, lest matplotlib warn of too many open figures."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


def pytest_collection_modifyitems(items):
    """Leave the examples of vhem.audio to the slow tests, where its tests are: librosa compiles its loops first."""
    for item in items:
        if item.name.startswith("vhem.audio."):
            item.add_marker(pytest.mark.slow)
