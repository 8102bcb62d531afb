"""vhem fit: one HMM per sequence or group."""

from __future__ import annotations

import typer

from vhem._support.phrases import Count
from vhem.cli import in_words as summary
from vhem.cli.inputs import read_sequences_only
from vhem.cli.learning import forget_parts, learned
from vhem.cli.run_folder import HMMS, RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import Data, LearningOptions, Out, Overwrite, RunOptions, TableOptions, expanded


@expanded
def fit(
    ctx: typer.Context,
    data: Data,
    out: Out,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    overwrite: Overwrite = False,
) -> None:
    """Learn one HMM per sequence, or per group of sequences.

    The folder gets hmms.vhem, which `vhem cluster`, `tree`, `score`, `convert` and `info` take, and a summary. An
    interrupted run resumes when the same command is given again.

    For example:

        vhem fit fixations.csv --id subject,trial --values x,y --group subject -o people

        vhem fit gestures/ --states 1-6 --covariance full -o gestures-hmms
    """
    with Session(run.quiet, run.progress) as session:
        writer = RunWriter(ctx, out, overwrite)
        found = read_sequences_only(data, table.reading())
        hmms = learned(found, out, learning, run, session)
        sizes = {int(s): int((hmms.n_states == s).sum()) for s in sorted(set(hmms.n_states.tolist()))}
        numbers = {
            "input": summary.of_input(found),
            "hmms": len(hmms),
            "states": {str(s): n for s, n in sizes.items()},
            "notes": session.gather_warnings(),
        }
        spread = ", ".join(f"{n} with {Count(s):state}" for s, n in sizes.items())
        text = f"{summary.input_text(found)}\n{Count(len(hmms)):HMM} learned: {spread}."
        writer.begin(found.feature_names, found.typical_length)
        writer.model(HMMS, hmms)
        writer.finish(text, numbers)
        forget_parts(out)
    show(f"{text}\n{writer.told()}", numbers, run.json)
