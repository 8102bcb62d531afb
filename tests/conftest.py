"""Settings of the whole suite."""

import os

from hypothesis import settings

# Elsewhere the examples change from run to run and keep looking for faults; a checked change is judged by fixed ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
