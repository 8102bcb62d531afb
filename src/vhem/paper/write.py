"""Tables as csv, xlsx, LaTeX and Word, in one folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vhem._support.optional import how_to_install
from vhem.files.atomic import atomic_write
from vhem.files.labels import harmless, write_columns
from vhem.inference.comparison import Comparison
from vhem.inference.tables import Table, typeset

_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
          "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "²": "$^2$", "χ": r"$\chi$", "η": r"$\eta$",
          "ε": r"$\varepsilon$", "–": "--", "→": r"$\to$", "°": r"$^\circ$", "∞": r"$\infty$", "×": r"$\times$",
          "<": "$<$", ">": "$>$", "\N{MINUS SIGN}": "$-$"}  # fmt: skip
_LINE = 85  # letters that fit on a line of LaTeX
_WIDE = 7  # columns above which a page is turned
_TOGETHER = 30  # rows that are kept on one page, with their note


def write_comparison(folder: str | os.PathLike[str], found: Comparison, methods: str) -> list[Path]:
    """Write what can be said about a clustering: tables in four formats, the sentences and the Methods paragraph.

    Parameters
    ----------
    folder : str or Path
        Where to; made if it is missing.
    found : Comparison
        What :func:`vhem.inference.compare_clusters` found.
    methods : str
        The Methods paragraph.

    Returns
    -------
    list of Path
        The files. Without openpyxl or python-docx (the extra `paper`), those formats are left out.

    Examples
    --------
    >>> import tempfile
    >>> from vhem.inference import Comparison, Table
    >>> from vhem.paper import write_comparison
    >>> found = Comparison([Table("t", "A table", ["a", "b"], [["1", "2"]])], ["It was so."], [], "")
    >>> sorted(path.name for path in write_comparison(tempfile.mkdtemp(), found, "We did it."))[:3]
    ['methods.txt', 'results.txt', 'statistics.json']
    """
    out = Path(folder)
    written = write_tables(out, found.tables, [*found.sentences, *found.warnings], methods)
    for name, text in (
        ("methods.txt", methods + "\n"),
        ("results.txt", "\n".join([*found.sentences, *found.warnings]) + "\n"),
        ("statistics.json", found._replace(methods=methods).as_json()),
    ):
        with atomic_write(out / name, "w") as file:
            file.write(text)
        written.append(out / name)
    return written


def write_tables(
    folder: str | os.PathLike[str], tables: Sequence[Table], results: Sequence[str] = (), methods: str = ""
) -> list[Path]:
    """Write tables as csv, one file each, and all of them as tables.xlsx, tables.tex and tables.docx.

    Parameters
    ----------
    folder : str or Path
        Where to; made if it is missing.
    tables : list of Table
        The tables.
    results : list of str
        Sentences for the Word file.
    methods : str
        The Methods paragraph for the Word file.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> from vhem.inference import Table
    >>> from vhem.paper import write_tables
    >>> paths = write_tables(tempfile.mkdtemp(), [Table("age", "Age", ["n", "p"], [["9", ".05"]])])
    >>> [path.name for path in paths][:2]
    ['age.csv', 'tables.tex']
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        written.append(out / f"{table.name}.csv")
        write_columns(written[-1], _columns(table))
    with atomic_write(out / "tables.tex", "w") as file:
        file.write("\n\n".join(latex(table) for table in tables) + "\n")
    written.append(out / "tables.tex")
    for name, write in (("tables.xlsx", _write_xlsx), ("tables.docx", _write_docx)):
        try:
            write(out / name, tables, results, methods)
        except ModuleNotFoundError:
            continue
        written.append(out / name)
    return written


def what_is_missing() -> str:
    """Return how to get the formats that cannot be written, or nothing."""
    missing = []
    for module, name in (("openpyxl", "Excel"), ("docx", "Word")):
        try:
            __import__(module)
        except ModuleNotFoundError:
            missing.append(name)
    return f"no {' and '.join(missing)} files: {how_to_install('paper')}" if missing else ""


def _columns(table: Table) -> dict[str, list[Any]]:
    names = [name or f"column {k + 1}" if table.columns.count(name) == 1 else f"{name or 'column'} {k + 1}"
             for k, name in enumerate(table.columns)]  # fmt: skip
    cells = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(names)
    return {name: list(column) for name, column in zip(names, cells, strict=True)}


def latex(table: Table) -> str:
    r"""Return a table as LaTeX, for the packages booktabs and, if it is wide, array.

    Examples
    --------
    >>> print(latex(Table("t", "Effect & size", ["", "p"], [["age", "< .001"]], "n = 9")))
    \begin{table}
    \caption{Effect \& size}
    \label{tab:t}
    \begin{tabular}{ll}
    \toprule
     & p \\
    \midrule
    age & $<$ .001 \\
    \bottomrule
    \end{tabular}
    \par\footnotesize\textit{Note.} n = 9
    \end{table}
    """
    form, size = _latex_columns(table)
    rows = [" & ".join(map(_escaped, row)) + r" \\" for row in table.rows]
    head = " & ".join(map(_escaped, table.columns)) + r" \\"
    note = [rf"\par\footnotesize\textit{{Note.}} {_escaped(table.note)}"] if table.note else []
    return "\n".join([
        r"\begin{table}", rf"\caption{{{_escaped(table.title)}}}", rf"\label{{tab:{table.name}}}",
        *([size] if size else []), rf"\begin{{tabular}}{{{form}}}", r"\toprule", head, r"\midrule", *rows,
        r"\bottomrule", r"\end{tabular}", *note, r"\end{table}",
    ])  # fmt: skip


def _latex_columns(table: Table) -> tuple[str, str]:
    """Return the form of the columns, and the size of letters before it.

    Columns are as wide as their texts or, if that is too wide for a page, shares of it, but wide enough for every word.
    """
    n = len(table.columns)
    if sum(_longest(table)) + 3 * n <= _LINE:
        return "l" * n, ""
    shares = _shares(table)
    form = r">{\raggedright\arraybackslash}p{\dimexpr%.3f\linewidth-2\tabcolsep\relax}"
    return "".join(form % (share / sum(shares)) for share in shares), r"\footnotesize\setlength{\tabcolsep}{2pt}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in typeset(text))


def _write_xlsx(path: Path, tables: Sequence[Table], results: Sequence[str], methods: str) -> None:
    """Write one sheet per table, numbers as numbers."""
    del results, methods
    from openpyxl import Workbook  # noqa: PLC0415  (an extra)
    from openpyxl.styles import Font  # noqa: PLC0415

    book = Workbook()
    book.remove(book.active)
    for table in tables:
        sheet = book.create_sheet(table.name[:31])
        sheet.append(table.columns)
        for cell in sheet[1]:
            cell.font = Font(bold=True)
        for row in table.rows:
            sheet.append([_as_cell(text) for text in row])
        sheet.append([])
        sheet.append([harmless(table.note)])
        for k, column in enumerate(zip(table.columns, *table.rows, strict=True)):
            width = min(max(len(text) for text in column) + 2, 48)
            sheet.column_dimensions[sheet.cell(1, k + 1).column_letter].width = width
    book.save(path)


def _as_cell(text: str) -> Any:
    try:
        return float(text) if text.strip() else text
    except ValueError:
        return harmless(text)


def _write_docx(path: Path, tables: Sequence[Table], results: Sequence[str], methods: str) -> None:
    """Write Methods, results and tables in the style of the APA: a number, an italic title, rules above and below."""
    from docx import Document  # noqa: PLC0415  (an extra)
    from docx.shared import Pt  # noqa: PLC0415

    document: Any = Document()
    document.styles["Normal"].font.name, document.styles["Normal"].font.size = "Times New Roman", Pt(11)
    for heading, paragraphs in (("Methods", [methods] if methods else []), ("Results", list(results))):
        if paragraphs:
            document.add_heading(heading, 1)
        for text in paragraphs:
            document.add_paragraph(typeset(text))
    for k, table in enumerate(tables):
        _add_table(document, k + 1, table)
    document.save(str(path))


def _add_table(document: Any, number: int, table: Table) -> None:
    from docx.shared import Pt  # noqa: PLC0415

    section = _section_for(table, document)
    label = document.add_paragraph()
    label.paragraph_format.keep_with_next = True
    label.paragraph_format.space_before = Pt(18)
    label.add_run(f"Table {number}").bold = True
    title = document.add_paragraph()
    title.paragraph_format.keep_with_next = True
    title.add_run(table.title).italic = True
    _add_grid(document, table, _widths(table, section.page_width - section.left_margin - section.right_margin))
    if table.note:
        note = document.add_paragraph()
        note.add_run("Note. ").italic = True
        note.add_run(table.note)
        for run in note.runs:
            run.font.size = Pt(9)


def _section_for(table: Table, document: Any) -> Any:
    """Return the document's last section, or a new one if the page must be turned for this table."""
    from docx.enum.section import WD_ORIENT, WD_SECTION  # noqa: PLC0415

    section, wide = document.sections[-1], len(table.columns) > _WIDE
    turned = section.page_width > section.page_height
    if wide != turned:
        section = document.add_section(WD_SECTION.NEW_PAGE)
        section.orientation = WD_ORIENT.LANDSCAPE if wide else WD_ORIENT.PORTRAIT
        section.page_width, section.page_height = section.page_height, section.page_width
    return section


def _add_grid(document: Any, table: Table, widths: list[int]) -> None:
    from docx.shared import Pt  # noqa: PLC0415

    grid = document.add_table(len(table.rows) + 1, len(table.columns))
    grid.autofit = False
    for column, width in zip(grid.columns, widths, strict=True):
        column.width = width
    for r, row in enumerate([table.columns, *table.rows]):
        for c, text in enumerate(row):
            cell = grid.cell(r, c)
            cell.text, cell.width = typeset(text), widths[c]
            cell.paragraphs[0].paragraph_format.space_after = Pt(1)
            cell.paragraphs[0].paragraph_format.keep_with_next = len(table.rows) <= _TOGETHER
            for run in cell.paragraphs[0].runs:
                run.font.size = Pt(9)
            _rules(cell, top=r == 0, bottom=r in (0, len(table.rows)))


def _widths(table: Table, whole: int) -> list[int]:
    """Return the widths of the columns."""
    shares = _shares(table)
    return [int(whole * share / sum(shares)) for share in shares]


def _shares(table: Table) -> list[int]:
    """Return the widths of the columns in letters: in proportion to their longest texts, with room for every word."""
    words = [max(len(word) for text in column for word in text.split() or [""]) for column in _by_column(table)]
    return [max(word + 3, min(whole, 24)) for word, whole in zip(words, _longest(table), strict=True)]


def _longest(table: Table) -> list[int]:
    """Return the length of the longest text of every column."""
    return [max(len(text) for text in column) for column in _by_column(table)]


def _by_column(table: Table) -> list[tuple[str, ...]]:
    """Return the texts of every column, its name first."""
    return list(zip(table.columns, *table.rows, strict=True))


def _rules(cell: Any, top: bool, bottom: bool) -> None:
    """Draw a rule above or below a cell; Word has no other way than its XML."""
    from docx.oxml import OxmlElement  # noqa: PLC0415
    from docx.oxml.ns import qn  # noqa: PLC0415

    borders = OxmlElement("w:tcBorders")
    for edge, wanted in (("top", top), ("bottom", bottom)):
        if wanted:
            rule = OxmlElement(f"w:{edge}")
            for key, value in (("val", "single"), ("sz", "8"), ("color", "000000")):
                rule.set(qn(f"w:{key}"), value)
            borders.append(rule)
    cell._tc.get_or_add_tcPr().append(borders)
