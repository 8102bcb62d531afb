"""Options that several commands share, each group in one place.

A command takes a group as one argument annotated with its class, and is decorated with `expanded`, which shows the
fields as separate options::

    @expanded
    def fit(data: Data, out: Out, table: TableOptions, run: RunOptions) -> None: ...
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from vhem._support.errors import InputError
from vhem.em.topology import TOPOLOGIES
from vhem.emissions import CHOICES
from vhem.sequences.readers.options import Options


def _option(*names: str, help: str, panel: str, **settings: Any) -> Any:
    return typer.Option(
        *names, help=help, rich_help_panel=panel, show_default=settings.pop("show_default", False), **settings
    )


LONGEST_TAU = 50  #: unless set higher: long recordings repeat themselves, and a long τ hardens assignments
_TABLE, _LEARNING, _RUN = "Reading tables", "Learning HMMs", "Running"


def listed(names: list[str] | None) -> list[str] | None:
    """Return what was written as `--values x,y` or `--values x --values y`."""
    return None if not names else [name.strip() for part in names for name in part.split(",") if name.strip()]


def several(option: str, text: str) -> list[int]:
    """Return the numbers that were written as 3, 1-5 or 2,4.

    Examples
    --------
    >>> several("--clusters", "2-4")
    [2, 3, 4]
    """
    try:
        if "-" not in text:
            return [int(part) for part in text.split(",")]
        low, high = (int(part) for part in text.split("-"))
        if low <= high:
            return list(range(low, high + 1))
    except ValueError:
        pass
    cures = ["give the numbers to choose from, such as 1-6"] if text == "auto" else []
    raise InputError("{option} must be like 3, 1-5 or 2,4, got {text!r}", *cures, option=option, text=text)


def named_lists(parts: list[str] | None) -> dict[str, list[str] | None] | None:
    """Return columns, perhaps each with a list: what was written as `page,action` or `page=search+cart,action`.

    Examples
    --------
    >>> named_lists(["page=search+cart,action"])
    {'page': ['search', 'cart'], 'action': None}
    """
    found: dict[str, list[str] | None] = {}
    for part in listed(parts) or []:
        name, given, names = part.partition("=")
        found[name.strip()] = [one.strip() for one in names.split("+")] if given else None
    return found or None


def families_by_columns(parts: list[str] | None) -> str | dict[str, str]:
    """Return one family, or families by columns: what was written as `x,y=gaussian`, `key=categorical`.

    Examples
    --------
    >>> families_by_columns(["x,y=gaussian", "clicks=poisson"])
    {'x,y': 'gaussian', 'clicks': 'poisson'}
    """
    if not parts:
        return "gaussian"
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    pairs = [part.rpartition("=") for part in parts]
    if not all(given for _, given, _ in pairs):
        raise InputError("--emissions must be one family, or name columns, as in --emissions x,y=gaussian")
    return {columns.strip(): family.strip() for columns, _, family in pairs}


def _wide(parts: list[str] | None) -> str | dict[str, str] | None:
    """Return the columns of a wide table, as `read_sequences` takes them: by channel if channels are named."""
    if not parts:
        return None
    if not any("=" in part for part in parts):
        return ",".join(parts)
    pairs = [part.partition("=") for part in parts]
    if not all(given for _, given, _ in pairs):
        raise InputError("--wide must name every channel, as in --wide work=w1:w9 --wide home=h1:h9, or none")
    return {name.strip(): columns for name, _, columns in pairs}


def _slopes(parts: list[str] | None) -> str | list[str]:
    """Return the columns whose slopes are wanted, as `Sequences.with_slopes` takes them."""
    names = listed(parts) or []
    return "auto" if names == ["auto"] else names


@dataclasses.dataclass
class TableOptions:
    """How a table is read."""

    id: Annotated[
        list[str] | None,
        _option(
            "--id",
            help="Column(s) that identify the sequence of each row: subject,trial. Guessed if clear.",
            panel=_TABLE,
        ),
    ] = None
    time: Annotated[
        str | None, _option("--time", help='Column to sort the rows of a sequence by; "": none.', panel=_TABLE)
    ] = None
    values: Annotated[
        list[str] | None,
        _option("--values", help="Columns of values: x,y. Default: all other numeric columns.", panel=_TABLE),
    ] = None
    group: Annotated[
        str | None, _option("--group", help="Column that groups sequences, such as the person.", panel=_TABLE)
    ] = None
    categories: Annotated[
        list[str] | None,
        _option(
            "--categories",
            help="Columns that hold categories: page,action. Also page=search+cart+paid: only these, in this order.",
            panel=_TABLE,
        ),
    ] = None
    other: Annotated[
        str | None,
        _option("--other", help="What categories that are not listed, or not known, count as.", panel=_TABLE),
    ] = None
    weights: Annotated[
        str | None, _option("--weights", help="Column with a case weight per sequence.", panel=_TABLE)
    ] = None
    wide: Annotated[
        list[str] | None,
        _option(
            "--wide",
            help="Each row is a sequence; its columns: first:last or a pattern. Also channel=first:last.",
            panel=_TABLE,
        ),
    ] = None
    slopes: Annotated[
        list[str] | None,
        _option(
            "--slopes",
            help="Columns whose slopes become channels too: x,y. auto: those that change smoothly.",
            panel=_TABLE,
        ),
    ] = None
    join: Annotated[
        list[Path] | None,
        _option("--join", help="A further table of the same sequences, as another channel; by id.", panel=_TABLE),
    ] = None
    one_sequence: Annotated[
        bool, _option("--one-sequence", help="Each file is one sequence, without an id column.", panel=_TABLE)
    ] = False
    decimal: Annotated[str, _option("--decimal", help='"." or ","; detected if not given.', panel=_TABLE)] = "auto"
    encoding: Annotated[str | None, _option("--encoding", help="Text encoding; UTF-8 if not given.", panel=_TABLE)] = (
        None
    )
    sheet: Annotated[
        str | None, _option("--sheet", help="Sheet of a spreadsheet; the first if not given.", panel=_TABLE)
    ] = None

    def reading(self) -> Options:
        """Return the options as `read_sequences` knows them."""
        names = [] if self.one_sequence else listed(self.id)
        return Options(
            names, self.time, listed(self.values), self.group, self.decimal, self.encoding,
            0 if self.sheet is None else self.sheet, named_lists(self.categories), self.other, self.weights,
            _wide(self.wide), tuple(self.join or ()), _slopes(self.slopes),
        )  # fmt: skip


@dataclasses.dataclass
class LearningOptions:
    """How HMMs are learned from sequences."""

    states: Annotated[
        str,
        _option(
            "--states",
            "-s",
            panel=_LEARNING,
            show_default=True,
            help="States per HMM: 3; 1-5 to choose for each by BIC; with `cluster`, auto: what suits the clusters.",
        ),
    ] = "3"
    emissions: Annotated[
        list[str] | None,
        _option(
            "--emissions", panel=_LEARNING,
            help=f"What states emit: {', '.join(CHOICES)}; or by columns, as in x,y=gaussian (repeat for others).",
        ),
    ] = None  # fmt: skip
    mix: Annotated[
        int, _option("--mix", help="Gaussians (or others) per state.", panel=_LEARNING, min=1, show_default=True)
    ] = 1
    covariance: Annotated[
        str, _option("--covariance", help="Form of the covariances: diag or full.", panel=_LEARNING, show_default=True)
    ] = "diag"
    topology: Annotated[
        str,
        _option(
            "--topology", panel=_LEARNING, show_default=True,
            help=f"Possible transitions: {', '.join(TOPOLOGIES)}; auto: ergodic, or with --states auto what suits.",
        ),
    ] = "auto"  # fmt: skip
    method: Annotated[
        str,
        _option(
            "--method", help="em: maximum likelihood; vb: variational Bayes, which chooses --states by its bound.",
            panel=_LEARNING, show_default=True,
        ),
    ] = "em"  # fmt: skip
    starts: Annotated[
        int,
        _option("--starts", help="Restarts of learning; the best is kept.", panel=_LEARNING, min=1, show_default=True),
    ] = 5
    max_iter: Annotated[
        int,
        _option(
            "--max-iter", help="Maximum number of iterations, in learning and in clustering.", panel=_LEARNING, min=1,
            show_default=True,
        ),
    ] = 100  # fmt: skip
    per: Annotated[
        str,
        _option(
            "--per", help="One HMM per sequence or per group; auto: per group if there are groups.", panel=_LEARNING
        ),
    ] = "auto"
    checkpoint_every: Annotated[
        int,
        _option(
            "--checkpoint-every", help="HMMs learned between checkpoints.", panel=_LEARNING, min=1, show_default=True
        ),
    ] = 1000

    def __post_init__(self) -> None:
        if self.per not in ("auto", "sequence", "group"):
            raise InputError("--per must be auto, sequence or group, got {per!r}", per=self.per)
        if self.method not in ("em", "vb"):
            raise InputError("--method must be em or vb, got {method!r}", method=self.method)
        if self.topology == "auto" and self.states != "auto":
            self.topology = "ergodic"

    def emitted(self) -> str | dict[str, str]:
        """Return the emissions as estimators take them."""
        return families_by_columns(self.emissions)

    def shape(self) -> dict[str, Any]:
        """Return the number of states and the topology, once they are chosen."""
        return {"states": int(self.states), "topology": self.topology}

    def n_states(self) -> int | list[int]:
        """Return the number of states, or the numbers to choose from."""
        numbers = several("--states", self.states)
        return numbers[0] if len(numbers) == 1 else numbers


def _configured(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a run.toml as defaults; command-line options take precedence."""
    if path is None:
        return None
    file = path / "run.toml" if path.is_dir() else path
    try:
        run = tomllib.loads(file.read_text(encoding="utf-8"))
        command, options = run.get("command"), dict(run["options"])
    except OSError:
        raise InputError("{file} cannot be read", file=file) from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as fault:
        why = "it has no part [options]" if isinstance(fault, KeyError) else fault
        raise InputError("{file} is not a configuration file: {why}", file=file, why=why) from None
    known = {parameter.name for parameter in ctx.command.params}
    if command is not None and command != ctx.info_name:
        raise InputError(
            "{file} was written by `vhem {command}`, not by `vhem {info_name}`",
            file=file, command=command, info_name=ctx.info_name,
        )  # fmt: skip
    if unknown := sorted(set(options) - known):
        raise InputError("{file} has unknown options: {names}", file=file, names=", ".join(unknown))
    ctx.default_map = options
    return path


@dataclasses.dataclass
class RunOptions:
    """How a command runs and what it prints."""

    seed: Annotated[
        int,
        _option(
            "--seed", help="Random seed; the same seed gives the same result.", panel=_RUN, min=0, show_default=True
        ),
    ] = 0
    jobs: Annotated[
        int | None, _option("--jobs", "-j", help="Number of threads; all cores if not given.", panel=_RUN)
    ] = None
    json: Annotated[bool, _option("--json", help="Print the summary as JSON.", panel=_RUN)] = False
    quiet: Annotated[bool, _option("--quiet", "-q", help="Show no progress.", panel=_RUN)] = False
    progress: Annotated[
        str,
        _option(
            "--progress",
            help="auto: a bar, or lines of text; json: one JSON object per line, for programs.",
            panel=_RUN,
        ),
    ] = "auto"
    config: Annotated[
        Path | None,
        _option(
            "--config", "-c", help="A run.toml, or the folder of a run, to repeat; other options take precedence.",
            panel=_RUN, is_eager=True, callback=_configured,
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.progress not in ("auto", "json"):
            raise InputError("--progress must be auto or json, got {progress!r}", progress=self.progress)


Data = Annotated[
    Path,
    typer.Argument(
        help="A table (csv, tsv, parquet, xls, xlsx), an npz or BVH file, or a folder of such files.",
        show_default=False,
    ),
]
DataOrModels = Annotated[
    Path,
    typer.Argument(
        help="Sequences (a table, npz, a folder) or HMMs (.vhem, .mat, .json, the folder of a run).", show_default=False
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", show_default=False)]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a finished run with other settings in that folder.")
]
Tau = Annotated[
    int | None,
    typer.Option(
        "--tau",
        min=1,
        help=f"Length of the virtual sequences. Default: the sequences' median length, at most {LONGEST_TAU}; 10 if "
        "unknown.",
        show_default=False,
    ),
]
Restarts = Annotated[
    int | None, typer.Option("--restarts", min=1, help="Restarts of the clustering.", show_default=False)
]
Virtual = Annotated[
    float | None,
    typer.Option(
        "--virtual",
        help="Virtual sequences per HMM; more make assignments harder. By default 100; HMMs without their sequences "
        "count as much as the data behind them, if that is known.",
        show_default=False,
    ),
]
CenterStates = Annotated[
    int | None,
    typer.Option(
        "--center-states", min=1, help="States per centre; by default the median of the HMMs'.", show_default=False
    ),
]


Dask = Annotated[
    str | None,
    typer.Option(
        "--dask", help="Run on a Dask cluster: the address of its scheduler, tcp://…", metavar="ADDRESS",
        rich_help_panel=_RUN, show_default=False,
    ),
]  # fmt: skip


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its option groups as separate parameters."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        for key, hint in get_type_hints(groups[name], include_extras=True).items():
            default = getattr(groups[name], key)
            parameters.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))

    def run(**given: Any) -> None:
        for name, kind in groups.items():
            fields = [field.name for field in dataclasses.fields(kind)]
            given[name] = kind(**{key: given.pop(key) for key in fields})
        command(**given)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
