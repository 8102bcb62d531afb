"""A clustering as one HTML file that works anywhere, offline, with nothing installed."""

from vhem.report.page import write

__all__ = ["write"]
