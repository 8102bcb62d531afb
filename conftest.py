"""For tests and doctests alike: pictures do not pile up."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close what a test drew, lest matplotlib warn of too many open figures."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
