"""The folder that a run of `vhem fit`, `cluster`, `tree` or `mixture` leaves behind, and how to read it.

=============== ======== =========================================================================================
file            written  what
=============== ======== =========================================================================================
run.toml        always   the command, its options and the versions used: ``vhem COMMAND --config run.toml`` runs
                by all   it again
summary.txt     all      the results, for people
summary.json    all      the same for programs
hmms.vhem       all but  H3M: the HMMs that were clustered, one per sequence or group, named by it; of a command that
                mixture  was given a model, a copy of it
centers.vhem    cluster, H3M: the centre of each cluster, with the clusters' weights; of `tree`, those of the top level;
                tree,    of `mixture`, its components
                mixture
labels.csv      the same columns id, cluster (1, 2, …), probability, and p1, p2, …: the probability of each cluster;
                of data in parts, also part: the file, since ids of two files may be equal. Last, name: of the cluster,
                if `vhem report --cluster-name` or the app gave it one.
                         Rows in the order of hmms.vhem; of `mixture`, one per sequence. Of `tree`: id and a column
                         level1, level2, … per level, from the lowest
restarts.json   cluster, how each restart of the clustering went: init, bounds (one per iteration) and converged; of
                mixture  `tree`, that is in tree.vhem
tree.vhem       tree     HierarchicalVHEM, with all levels
=============== ======== =========================================================================================

Clusters are numbered from 1 in everything that people read, including the ids in centers.vhem, and from 0 in Python, so
cluster 1 is ``centers[0]``. The headers of model files say what made them, as run.toml does, and `typical_length`, the
median length of the sequences behind the models. All files are written whole or not at all, run.toml last: a folder
with it is complete. A finished run with other settings is replaced only on demand.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import tomllib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tomli_w
import typer

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputTypeError
from vhem._support.saving import Saveable
from vhem.cli.shared import TableOptions
from vhem.em.topology import topology_of
from vhem.estimators.hierarchy import HierarchicalVHEM
from vhem.files import describe, load, write_labels
from vhem.files.atomic import atomic_write
from vhem.files.labels import as_written, harmless
from vhem.models import H3M
from vhem.report.fit_facts import History, histories
from vhem.scale.tasks import PartLabels
from vhem.sequences import Sequences
from vhem.sequences.readers.read import read_with_roles
from vhem.studies.results import provenance

RUN, SUMMARY_TEXT, SUMMARY_JSON = "run.toml", "summary.txt", "summary.json"
HMMS, CENTERS, TREE, LABELS = "hmms.vhem", "centers.vhem", "tree.vhem", "labels.csv"
RESTARTS, REPORT, PICTURES = "restarts.json", "report.html", "pictures"
NAME = "name"  # the column of labels.csv with the names of clusters, if they have any
COMPARE, ASSOCIATE = "compare", "associate"  # folders of statistics
_DRAWN = ("centers*", "cluster[0-9]*", "responsibilities", "hierarchy")  # in the folder of pictures
_WITHOUT_EFFECT = ("jobs", "dask", "checkpoint_every")  # options that do not change the result


class Labels(NamedTuple):
    """What labels.csv says."""

    ids: list[str]  #: as text, in the order of the rows
    labels: IntArray  #: (n,) clusters from 0; of a tree, (n, levels), the lowest level first
    responsibilities: FloatArray | None  #: (n, K) probability of each cluster; none for a tree
    names: list[str]  #: of the clusters, "" if one has none; empty if none has


T = TypeVar("T")


class RunFolder:
    """A folder that a command left behind; its files are read on demand.

    Parameters
    ----------
    path : str or Path
        The folder.

    Attributes
    ----------
    path : Path
        The folder.
    command : str
        "fit", "cluster", "tree" or "mixture".
    options : dict
        The command's options; includes the path of the data as `data`.
    made_with : dict
        Versions and engine.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / RUN).is_file():
            raise FileNotFoundError(
                f"{self.path} is not the folder of a finished run: it has no {RUN}. Make one with "
                f"`vhem cluster DATA --clusters K -o {'out' if self.path.is_file() else self.path}`."
            )
        run = tomllib.loads((self.path / RUN).read_text(encoding="utf-8"))
        self.command: str = run["command"]
        self.options: dict[str, Any] = run["options"]
        self.made_with: dict[str, Any] = run["made_with"]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The numbers of summary.json."""
        found = json.loads((self.path / SUMMARY_JSON).read_text(encoding="utf-8"))
        return dict(found)

    @cached_property
    def hmms(self) -> H3M:
        """The HMMs that were learned or clustered."""
        return self._loaded(HMMS, H3M)

    @cached_property
    def centers(self) -> H3M:
        """The centres of the clusters."""
        return self._loaded(CENTERS, H3M)

    @property
    def topology(self) -> str:
        """The topology of the HMMs: what was asked for, or what was chosen together with the number of states."""
        asked = str(self.options.get("topology", "auto"))
        if asked != "auto":
            return asked
        chosen = self.options.get("states") == "auto"
        return topology_of(self.hmms.startprob, self.hmms.transmat) if chosen else "ergodic"

    @cached_property
    def tree(self) -> HierarchicalVHEM:
        """The hierarchy that `vhem tree` made."""
        return self._loaded(TREE, HierarchicalVHEM)

    @cached_property
    def feature_names(self) -> list[str] | None:
        """Names of the dimensions, if known."""
        return describe(self.path / (CENTERS if (self.path / CENTERS).exists() else HMMS)).feature_names

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the headers of its model files say about how they were made."""
        return describe(self.path / (CENTERS if (self.path / CENTERS).exists() else HMMS)).about

    @cached_property
    def restarts(self) -> list[History]:
        """How the restarts of the clustering went; empty if that was not kept."""
        if not (self.path / RESTARTS).is_file():
            return []
        return [History(**row) for row in json.loads((self.path / RESTARTS).read_text(encoding="utf-8"))]

    @cached_property
    def labels(self) -> Labels:
        """The clusters that were found."""
        with open(self._file(LABELS), newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        ids = [as_written(row[0]) for row in rows]
        if header[1] != "cluster":
            return Labels(ids, np.array([[int(k) - 1 for k in row[1:]] for row in rows]), None, [])
        end = len(header) - (header[-1] in (NAME, "part"))
        shares = np.array([[float(p) for p in row[3:end]] for row in rows])
        labels = np.array([int(row[1]) - 1 for row in rows])
        names = {k: as_written(row[-1]) for k, row in zip(labels, rows, strict=True)} if header[-1] == NAME else {}
        return Labels(ids, labels, shares, [names.get(k, "") for k in range(end - 3)] if names else [])

    def name_clusters(self, names: Sequence[str]) -> None:
        """Write the names of the clusters to labels.csv, in a last column; cluster 1 has the first name."""
        path = self._file(LABELS)
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        if header[1] != "cluster" or header[-1] == "part":  # a tree, or sequences in parts
            return
        end = len(header) - (header[-1] == NAME)
        called = {str(k + 1): harmless(name) for k, name in enumerate(names)}
        with atomic_write(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            last = [NAME] if any(names) else []
            writer.writerow(header[:end] + last)
            writer.writerows(row[:end] + [called.get(row[1], "")] * len(last) for row in rows)
        self.__dict__.pop("labels", None)

    @property
    def table(self) -> TableOptions:
        """How the run's table was read."""
        known = {field.name for field in dataclasses.fields(TableOptions)}
        return TableOptions(**{key: value for key, value in self.options.items() if key in known})

    def sequences(self) -> Sequences:
        """Read the run's sequences again; they are not kept, since they may be large."""
        given = Path(self.options["data"])
        if (given / RUN).is_file():  # the HMMs of another run, which knows where its sequences are
            return RunFolder(given).sequences()
        if given.suffix in (".vhem", ".mat", ".json"):
            raise FileNotFoundError(f"{self.path} was made from models, {given}, and has no sequences.")
        return read_with_roles(given, self.table.reading()).sequences

    def _loaded(self, name: str, wanted: type[T]) -> T:
        found = load(self._file(name))
        if not isinstance(found, wanted):
            raise InputTypeError(
                "{path} holds {kind}, not {wanted}",
                path=self.path / name, kind=type(found).__name__, wanted=wanted.__name__,
            )  # fmt: skip
        return found

    def _file(self, name: str) -> Path:
        if not (self.path / name).is_file():
            raise FileNotFoundError(f"{self.path} has no {name}: `vhem {self.command}` does not write it.")
        return self.path / name


class RunWriter:
    """Writes the folder of a run; run.toml, which makes it complete, comes last.

    Parameters
    ----------
    ctx : typer.Context
        Context of the command, whose name and options are recorded.
    out : Path
        The folder; made when there is something to write.
    overwrite : bool
        Whether a finished run with other settings may be replaced.
    """

    def __init__(self, ctx: typer.Context, out: Path, overwrite: bool) -> None:
        self.path = out
        self._run = recorded(ctx)
        self._written: set[str] = set()
        _check_free(out, self._run, overwrite)

    def begin(self, feature_names: list[str] | None, typical_length: int | None) -> None:
        """Make the folder; from now on, what an older run left is no longer complete."""
        self._feature_names = feature_names
        known = {} if typical_length is None else {"typical_length": typical_length}
        self._about = {**self._run, **known}
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / RUN).unlink(missing_ok=True)

    def model(self, name: str, model: Saveable) -> None:
        """Write a model."""
        model.save(self.path / name, self._feature_names, self._about)
        self._written.add(name)

    def centers(self, centers: H3M) -> None:
        """Write the centres, named like their clusters: 1, 2, …."""
        self.model(CENTERS, centers.with_ids(range(1, len(centers) + 1)))

    def restarts(self, fit: Any) -> None:
        """Write how the restarts of a fit went."""
        with atomic_write(self.path / RESTARTS, "w") as file:
            json.dump([history._asdict() for history in histories(fit)], file)
        self._written.add(RESTARTS)

    def labels(self, ids: list[Any], labels: IntArray, responsibilities: FloatArray | None = None) -> None:
        """Write labels.csv."""
        write_labels(self.path / LABELS, ids, labels, responsibilities, first=1)
        self._written.add(LABELS)

    def labels_of_parts(self, parts: Iterable[PartLabels], n_clusters: int) -> IntArray:
        """Write labels.csv part by part, and return how many sequences each cluster has."""
        sizes = np.zeros(n_clusters, dtype=np.int64)
        with atomic_write(self.path / LABELS, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["id", "cluster", "probability", *(f"p{k + 1}" for k in range(n_clusters)), "part"])
            for part in parts:
                best = part.responsibilities[np.arange(len(part.ids)), part.labels]
                columns = ((part.labels + 1).tolist(), best.tolist(), *part.responsibilities.T.tolist())
                named = [harmless(part.name)] * len(part.ids)  # equal ids in two files are two sequences
                writer.writerows(zip(map(harmless, part.ids), *columns, named, strict=True))
                sizes += np.bincount(part.labels, minlength=n_clusters)
        self._written.add(LABELS)
        return sizes

    def finish(self, text: str, numbers: dict[str, Any]) -> None:
        """Write the summaries and run.toml, and remove what an older run left; pictures of the same result stay."""
        older = self.path / SUMMARY_JSON
        same = older.exists() and older.read_text(encoding="utf-8") == json.dumps(numbers, indent=1, ensure_ascii=False)
        with atomic_write(self.path / SUMMARY_TEXT, "w") as file:
            file.write(text + "\n")
        with atomic_write(self.path / SUMMARY_JSON, "w") as file:
            json.dump(numbers, file, indent=1, ensure_ascii=False)
        for name in {HMMS, CENTERS, TREE, LABELS, RESTARTS} - self._written:
            (self.path / name).unlink(missing_ok=True)
        if not same:
            self._remove_pictures()
        with atomic_write(self.path / RUN) as file:
            tomli_w.dump(self._run, file)
        self._written |= {SUMMARY_TEXT, SUMMARY_JSON, RUN}

    def told(self) -> str:
        """Return a line that lists the files written."""
        return f"Written to {self.path}: {', '.join(sorted(self._written))}."

    def _remove_pictures(self) -> None:
        """Remove the report and the pictures that `vhem report` and `vhem plot` made of an older run."""
        stale = [self.path / REPORT] if (self.path / REPORT).exists() else []
        stale += [path for name in _DRAWN for path in (self.path / PICTURES).glob(f"{name}.*")]
        for path in stale:
            path.unlink()
        if stale:
            which = ", ".join(str(path.relative_to(self.path)) for path in stale)
            typer.echo(
                f"note: removed {which}, which showed an older run. `vhem report {self.path}` makes a new report.",
                err=True,
            )


def _check_free(out: Path, run: dict[str, Any], overwrite: bool) -> None:
    """Refuse a folder that holds a finished run with other settings."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file; --out must name a folder for the results.")
    if overwrite or not (out / RUN).is_file():
        return
    older, now = RunFolder(out), run["options"]
    names = sorted({*older.options, *now} - set(_WITHOUT_EFFECT))
    changed = [
        f"{name} {older.options.get(name, 'not given')}, now {now.get(name, 'not given')}"
        for name in names
        if (older.options.get(name) or None) != (now.get(name) or None)
    ]
    if older.command != run["command"]:
        what = f"of `vhem {older.command}`"
    elif changed:
        what = f"with other settings ({'; '.join(changed[:3])}{' …' if len(changed) > 3 else ''})"
    else:
        return
    raise FileExistsError(
        f"{out} holds a finished run {what}. Choose another folder with -o, or replace that run with --overwrite."
    )


def recorded(ctx: typer.Context) -> dict[str, Any]:
    """Return the options of a command and the versions used; paths are made absolute, so that it can be repeated."""
    skipped = ("config", "json", "quiet", "progress", "overwrite")
    given = {key: value for key, value in ctx.params.items() if value not in (None, (), []) and key not in skipped}
    options = {key: _as_toml(value) for key, value in given.items()}
    if str(options.get("clusters")).isdecimal():  # a range is text, a number is a number
        options["clusters"] = int(options["clusters"])
    made = provenance({})
    made_with = {**made["versions"], "engine": made["engine"]}
    return {"command": str(ctx.info_name), "options": options, "made_with": made_with}


def _as_toml(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_toml(one) for one in value]
    return str(value.resolve()) if isinstance(value, Path) else value


def record(ctx: typer.Context, path: Path) -> None:
    """Write a record of how a file was made next to it, as run.toml does for a folder."""
    with atomic_write(path) as file:
        tomli_w.dump(recorded(ctx), file)
