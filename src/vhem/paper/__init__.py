"""Tables, a Methods paragraph and figures for a paper."""

from vhem.paper.methods import methods_paragraph
from vhem.paper.write import write_comparison, write_tables

__all__ = ["methods_paragraph", "write_comparison", "write_tables"]
