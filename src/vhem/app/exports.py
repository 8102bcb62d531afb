"""What can be taken away from a run: the command and a Python script that repeat it, and everything in one file."""

from __future__ import annotations

import shlex
import textwrap
import zipfile
from pathlib import Path
from typing import Any

from vhem.app.jobs import OUT
from vhem.app.settings import (
    AUTO,
    COMPARE,
    Model,
    cluster_command,
    families,
    number_command,
    report_command,
    series,
    states_range,
    statistics_command,
)
from vhem.app.store import Record, Store, own_name
from vhem.cli.run_folder import RunFolder
from vhem.sequences.readers.options import extension


def commands_of(store: Store, run: Record) -> list[str]:
    """Return the commands that repeat a run, with files by their own names, for the folder that the table is in."""
    job = run.read()
    names, out = _names(store, job), Path(f"clusters-{job['clusters']}")
    table, picture = Path(names["table"]), names.get("picture")
    model = Model.of(job["model"], AUTO if job.get("probable") else job["clusters"])
    said = [number_command(table, job["roles"], model, *job["range"])] if job.get("range") else []
    said.append(cluster_command(table, job["roles"], model, out))
    if (run.folder / OUT / COMPARE).is_dir():
        said.append(statistics_command(out))
    said.append(report_command(out, job.get("look", {}), Path(picture) if picture else None, job["title"]))
    return [shlex.join(["vhem", *words]) for words in said]


def _names(store: Store, job: dict[str, Any]) -> dict[str, str]:
    """Return what the user calls the table and, if there is one, the picture: commands name them so."""
    data = store.data(job["data"])
    said, table, picture = data.read(), store.table(data), store.picture(data)
    names = {"table": table.name if said.get("joined") else own_name(said["name"], table)}
    return names if picture is None else {**names, "picture": own_name(said.get("picture_name") or "", picture)}


def script_of(store: Store, run: Record) -> str:
    """Return a Python script that does what the run's command did."""
    job, out = run.read(), RunFolder(run.folder / OUT)
    options = out.options | {"topology": out.topology}
    name = _names(store, job)["table"]
    states = states_range(job["model"].get("states", 3))
    n_states = states[0] if states[0] == states[1] else list(range(states[0], states[1] + 1))
    grouped = bool(out.summary["input"].get("groups")) and options.get("per") != "sequence"
    refined = bool(out.summary.get("refined"))
    emissions = families(job["model"].get("emissions") or {})
    said = _wrapped(commands_of(store, run))
    parts = [
        f'r"""{job["clusters"]} clusters of {name}: the same as\n\n{said}\n"""\n\nimport vhem\n',
        f"sequences = vhem.read_sequences({_reading_arguments(name, job['roles'])})",
        f"hmms = vhem.fit_hmms({_arguments_of_fit(options, n_states, grouped, emissions)})",
    ]
    if job["roles"].get("weights"):
        parts[0] = parts[0].replace("import vhem\n", "import numpy as np\n\nimport vhem\n")
        parts.append(_CASES_OF_PEOPLE if grouped else _CASES)
    if not refined:
        form = "virtual" if job["roles"].get("weights") else None
        parts.append(f"fit = vhem.VHEM({_arguments_of_vhem(job, options, out.summary['tau'], form)}).fit(hmms)")
    else:
        parts.append(
            "fit = vhem.SequenceClustering("
            f"{_arguments_of_refining(job['clusters'], options, emissions)}"
            f").fit(\n    sequences, {'groups=sequences.groups, ' if grouped else ''}hmms=hmms\n)"
        )
        if "import numpy" not in parts[0]:
            parts[0] = parts[0].replace("import vhem\n", "import numpy as np\n\nimport vhem\n")
    parts.append("for name, cluster in zip(hmms.ids, fit.labels_):\n    print(name, cluster + 1)")
    return "\n".join(parts) + "\n"


_CASES = "cases = np.array(sequences.weights)\nhmms = hmms.with_weights(cases / cases.sum())"
_CASES_OF_PEOPLE = (
    "of = np.array([hmms.ids.index(name) for name in sequences.groups])\n"
    "cases = np.bincount(of, sequences.weights) / np.bincount(of)\nhmms = hmms.with_weights(cases / cases.sum())"
)


def _wrapped(commands: list[str]) -> str:
    lines = [textwrap.fill(one, 112, subsequent_indent="        ", break_on_hyphens=False) for one in commands]
    return textwrap.indent("\n".join(lines).replace("\n        ", " \\\n        "), "    ").replace('"""', "“”")


def _reading_arguments(name: str, roles: dict[str, Any]) -> str:
    first: Any = [name, *roles["join"]] if roles.get("join") else name
    return ", ".join([repr(first), *(f"{key}={value!r}" for key, value in _reading(roles, name).items())])


_READING = ("values", "group", "decimal", "encoding", "sheet", "categories", "weights")


def _reading(roles: dict[str, Any], name: str) -> dict[str, Any]:
    if extension(Path(name)) in (".npz", ".bvh"):
        return {}
    said = {"id": [] if roles.get("one_sequence") else roles["id"]}
    if "time" in roles:
        said["time"] = roles["time"]
    said |= {key: roles[key] for key in _READING if roles.get(key)}
    return said | {"wide": series(roles)} if roles.get("wide") else said


def _named(pairs: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs.items() if value is not None)


def _arguments_of_fit(options: dict[str, Any], n_states: Any, grouped: bool, emissions: dict[str, str]) -> str:
    pairs = {
        "emissions": emissions or None,
        "n_states": n_states, "n_mix": options["mix"], "covariance_type": repr(options["covariance"]),
        "topology": repr(options["topology"]), "groups": "sequences.groups" if grouped else None,
        "n_init": options["starts"], "max_iter": options["max_iter"], "random_state": options["seed"],
        "method": None if options.get("method", "em") == "em" else repr(options["method"]),
    }  # fmt: skip
    return f"sequences, {_named(pairs)}"


def _arguments_of_vhem(job: dict[str, Any], options: dict[str, Any], tau: int, form: str | None) -> str:
    pairs = {
        "polish": None if job["model"].get("polish", True) else False, "weight_form": form and repr(form),
        "n_states": options.get("center_states"), "tau": tau, "n_virtual": options.get("virtual") or 100.0,
        "n_init": options.get("restarts"), "max_iter": options["max_iter"], "random_state": options["seed"],
    }  # fmt: skip
    return f"{job['clusters']}, {_named(pairs)}"


def _arguments_of_refining(clusters: int, options: dict[str, Any], emissions: dict[str, str]) -> str:
    states = options.get("center_states") or "int(np.ceil(np.median(hmms.n_states)))"
    kinds = f"emissions={emissions}, " if emissions else ""
    return (
        f"{clusters}, {states}, {options['mix']}, {options['covariance']!r}, {options['topology']!r}, "
        f"{kinds}random_state={options['seed']}"
    )


def write_zip(store: Store, run: Record, target: Path) -> None:
    """Write a run's folder, and how to repeat the run, to a zip file, with the table and the picture for it."""
    job = run.read()
    table = store.data(job["data"])
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted((run.folder / OUT).rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(run.folder / OUT))
        file.writestr("commands.txt", "\n".join(commands_of(store, run)) + "\n")
        file.writestr("repeat.py", script_of(store, run))
        names, picture = _names(store, job), store.picture(table)
        file.write(store.table(table), names["table"])
        for name in job["roles"].get("join", []):
            file.write(table.folder / name, name)
        if picture is not None:
            file.write(picture, names["picture"])
