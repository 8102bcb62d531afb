"""The music study: tags for songs and songs for tags, by VHEM-H3M and the systems it is compared with.

The paper's protocol: 13 MFCC with two orders of differences, fragments of 125 frames, a small mixture for every song
and one for every tag, the 10 best tags per song for annotation, songs ranked per tag for retrieval, tags with at least
30 songs. CAL500's audio cannot be distributed, so there are three sets of data:

- "gtzan": features of 1000 clips of 30 seconds, 17 tags, one split that keeps artists apart. Its validation part chose
  the sizes below (by VHEM's MAP and P@10), then training and validation part together are learned from, with several
  seeds.
- "cal500_intro": CAL500's own tags, on features of the first three seconds that were read off images; five folds.
  Sizes were chosen inside the training songs of the first.
- a folder with CAL500's audio and annotations, if you have them; five folds.

EM-H3M has the same fragments, states, Gaussians and components as VHEM-H3M; on "gtzan", where it is so slow that it has
one start, a smaller one with two starts is shown as well. On "gtzan", a few iterations of EM follow VHEM. HEM-GMM has
as many Gaussians as VHEM-H3M. HEM-DTM has four linear systems per song and sixteen per tag, on the same fragments, with
one start and few iterations; it runs, as the smaller EM-H3M does, only on "gtzan" unless it is asked for. HEM-GMM and
logistic regression are blind to time. Learning time is CPU seconds for all folds together, on one thread.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.datasets.music import MusicData, load_cal500, load_gtzan_features
from vhem.kernels.stopping import stoppable_threads
from vhem.metrics import annotation_scores, retrieval_scores
from vhem.studies.results import Meter, markdown_table, mean_and_spread, provenance, remembered, write
from vhem.supervised import H3MTagger

#: Precision, recall, F, MAP, AROC and P@10 on CAL500's 98 tags.
PAPER = {
    "VHEM-H3M": (0.470, 0.210, 0.258, 0.438, 0.700, 0.450),
    "EM-H3M": (0.415, 0.214, 0.248, 0.423, 0.704, 0.422),
    "HEM-DTM": (0.430, 0.202, 0.252, 0.439, 0.701, 0.453),
}
COLUMNS = {
    "precision": "P", "recall": "R", "f": "F", "average_precision": "MAP", "auc": "AROC", "precision_at_k": "P@10",
}  # fmt: skip
_DTM_NOTE = (
    "HEM-DTM has {0.dtm_song_components} linear systems of {0.dtm_states} dimensions per song and {0.dtm_components} "
    "per tag, one start, {0.dtm_iterations} iterations. "
)
CHANCE, LOGISTIC, SMALLER_EM = "chance", "logistic regression", "EM-H3M of half the size"


class MusicSettings(NamedTuple):
    """The choices of the study."""

    n_tags: int = 10
    least_songs: int = 30  #: that a tag must have
    n_folds: int = 5
    n_components: int = 1
    n_states: int = 2
    n_mix: int = 64  #: Gaussians per state
    song_components: int = 1
    song_states: int = 16
    song_mix: int = 2
    hop: int = 62
    n_init: int = 1  #: restarts of VHEM
    polish: int = 5  #: iterations of EM from VHEM's centres
    slow_n_init: int = 1  #: restarts of EM-H3M
    gaussians: int = 128  #: of a tag, for HEM-GMM
    song_gaussians: int = 32
    dtm_components: int = 16
    dtm_song_components: int = 4
    dtm_states: int = 7
    dtm_iterations: int = 10
    songs: int | None = None  #: only this many, evenly spaced, for a quick look
    n_jobs: int = 1


#: Songs of a single fragment have too few frames for many Gaussians. Its table is that of VHEM without polish.
FOR_INTROS = MusicSettings(
    n_mix=16, song_states=4, song_mix=1, n_init=2, polish=0, slow_n_init=2, gaussians=32, song_gaussians=8
)


class Fold(NamedTuple):
    """Songs to learn from, and songs to test with."""

    train: IntArray
    test: IntArray


def load(source: str, settings: MusicSettings) -> MusicData:
    """Load one of the named sets, or a folder with CAL500's audio, with the tags that enough songs have."""
    data = {"gtzan": load_gtzan_features, "cal500_intro": load_cal500}.get(source, lambda: load_cal500(source))()
    if settings.songs is not None:
        kept = np.unique(np.linspace(0, len(data.songs) - 1, settings.songs).astype(int))
        split = None if data.split is None else data.split[kept]
        soft = None if data.soft_tags is None else data.soft_tags[kept]
        data = MusicData(data.songs[kept], data.tags[kept], data.tag_names, split, soft)
    return data.often_used(settings.least_songs)


def folds(data: MusicData, n_folds: int) -> list[Fold]:
    """Return the set's own split, or random folds."""
    if data.split is not None:
        return [Fold(np.flatnonzero(np.isin(data.split, ("train", "valid"))), np.flatnonzero(data.split == "test"))]
    parts = np.array_split(np.random.default_rng(0).permutation(len(data.songs)), n_folds)
    return [Fold(np.sort(np.concatenate(parts[:k] + parts[k + 1 :])), np.sort(parts[k])) for k in range(n_folds)]


def tagger(system: str, s: MusicSettings, seed: int) -> H3MTagger:
    """Return a tagger by one of the systems."""
    h3m: dict[str, Any] = {
        "n_components": s.n_components, "n_states": s.n_states, "n_mix": s.n_mix, "song_components": s.song_components,
        "song_states": s.song_states, "song_mix": s.song_mix, "hop": s.hop, "n_init": s.n_init, "polish": s.polish,
    }  # fmt: skip
    em = {**h3m, "method": "em", "n_init": s.slow_n_init, "tol": 1e-3}
    parameters: dict[str, dict[str, Any]] = {
        "VHEM-H3M": h3m,
        "EM-H3M": em,
        SMALLER_EM: {**em, "n_components": 2, "n_states": 4, "n_mix": 8, "n_init": 2},
        "HEM-DTM": {
            "method": "dtm", "n_components": s.dtm_components, "song_components": s.dtm_song_components,
            "n_states": s.dtm_states, "hop": s.hop, "n_init": 1, "max_iter": s.dtm_iterations, "tol": 1e-3,
        },
        "HEM-GMM": {
            "method": "gmm", "n_components": s.gaussians, "song_components": s.song_gaussians,
            "n_init": 2, "tol": 1e-3,
        },
    }  # fmt: skip
    return H3MTagger(**parameters[system], random_state=seed, n_jobs=s.n_jobs)


_ONE_SEED = ("EM-H3M", SMALLER_EM, "HEM-DTM", LOGISTIC)  # too slow for more, or always the same
_SLOWEST = ("EM-H3M", SMALLER_EM)
_ONLY_GTZAN = (SMALLER_EM, "HEM-DTM")  # elsewhere only if asked for
SYSTEMS = ("VHEM-H3M", "EM-H3M", SMALLER_EM, "HEM-DTM", "HEM-GMM", LOGISTIC, CHANCE)


def probabilities(
    system: str, data: MusicData, parts: list[Fold], s: MusicSettings, seed: int
) -> tuple[list[FloatArray], dict[str, float]]:
    """Return a system's predictions for the test songs of each fold, and the cost of learning."""
    meter = Meter()
    if system in (LOGISTIC, CHANCE):
        simple = _logistic if system == LOGISTIC else _chance
        found = [simple(data, fold, seed) for fold in parts]
        return found, {"songs": 0.0, "tags": meter.seconds, "megabytes": meter.megabytes}
    model = tagger(system, s, seed)
    used = np.unique(np.concatenate([fold.train for fold in parts]))
    songs = model.learn_songs(data.songs[used])
    seconds = {"songs": meter.seconds, "tags": 0.0, "megabytes": meter.megabytes}
    found = []
    for fold in parts:
        meter = Meter()
        model.fit(songs[np.searchsorted(used, fold.train)], data.tags[fold.train])
        seconds["tags"] += meter.seconds
        seconds["megabytes"] = max(seconds["megabytes"], meter.megabytes)
        found.append(model.predict_proba(data.songs[fold.test]))
    return found, seconds


def _logistic(data: MusicData, fold: Fold, seed: int) -> FloatArray:
    """Logistic regression on the mean and deviation of each song's features, tag by tag."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (slow to import)
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    features = np.array([np.concatenate([song.mean(0), song.std(0)]) for song in data.songs])
    columns = []
    for tag in data.tags.T:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000, random_state=seed))
        columns.append(model.fit(features[fold.train], tag[fold.train]).predict_proba(features[fold.test])[:, 1])
    return np.column_stack(columns)


def _chance(data: MusicData, fold: Fold, seed: int) -> FloatArray:
    return np.random.default_rng(seed).random((len(fold.test), data.tags.shape[1]))


def evaluate(source: str, system: str, s: MusicSettings, seed: int) -> dict[str, Any]:
    """Return one system's scores on one set of data, one per fold, and the cost of learning."""
    data = load(source, s)
    parts = folds(data, s.n_folds)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        found, cost = probabilities(system, data, parts, s, seed)
    scores = []
    for fold, p in zip(parts, found, strict=True):
        truth, share = data.tags[fold.test], data.tags[fold.train].mean(axis=0)
        annotation = annotation_scores(truth, p, min(s.n_tags, truth.shape[1]), share).means()
        scores.append({**annotation, **retrieval_scores(truth, p, 10).means()})
    notes = Counter(str(w.message).split(";")[0] for w in raised)
    return {"scores": scores, **cost, "warnings": notes, "size": [len(data.songs), data.tags.shape[1], len(parts)]}


def in_own_process(*arguments: Any) -> dict[str, Any]:
    """Call `evaluate` in a fresh process, to measure its own memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(evaluate, *arguments).result()


def report(source: str, results: dict[str, list[dict[str, Any]]], settings: MusicSettings, seeds: int) -> str:
    """Return the table of one set of data as Markdown."""
    n_songs, n_tags, n_folds = next(iter(results.values()))[0]["size"]
    title = source if source in ("gtzan", "cal500_intro") else "CAL500's audio"
    division = f"{n_folds} folds" if n_folds > 1 else "one split"
    single = ", ".join(name for name in _ONE_SEED if name in results)
    over = f"{division}, one seed"
    if seeds > 1:
        over = f"{division}, {seeds} seeds" + (f" (one for {single})" if single else "")
    rows = []
    for system, runs in results.items():
        scores = [fold for run in runs for fold in run["scores"]]
        cells = [mean_and_spread([fold[key] for fold in scores]) for key in COLUMNS]
        songs, tags, peak = (float(np.mean([run[key] for run in runs])) for key in ("songs", "tags", "megabytes"))
        rows.append([system, *cells, f"{songs:.0f} + {tags:.0f}", f"{peak:.0f}"])
    rows += [[f"*paper's {name}*", *(f"{v:.3f}" for v in values), "–", "–"] for name, values in PAPER.items()]
    header = ["system", *COLUMNS.values(), "learning, CPU s: songs + tags", "memory, MB"]
    return (
        f"# Music study, {title}: {n_songs} songs, {n_tags} tags, {over}\n\n{markdown_table(header, rows)}\n\n"
        f"{settings.n_tags} tags per song. Mean over tags, then mean and standard deviation over folds and seeds. "
        "Memory is the peak growth of the process while learning. "
        f"{_DTM_NOTE.format(settings) if 'HEM-DTM' in results else ''}"
        "The paper's figures are for other data, whole songs of CAL500, and are only for orientation. "
        f"Settings: {settings._asdict()}.\n"
    )


def run(
    out: Path, source: str = "gtzan", seeds: int = 3, systems: tuple[str, ...] | None = None,
    progress: Callable[[str], Any] = print, settings: MusicSettings | None = None, own_process: bool = True,
    jobs: int = 1,
) -> list[Path]:  # fmt: skip
    """Run the study on one set of data, `jobs` parts at a time, write its table into `out`, and return the paths."""
    settings = settings or (FOR_INTROS if source == "cal500_intro" else MusicSettings())
    load(source, settings)  # an error about missing data comes before any work
    unknown = set(systems or ()) - set(SYSTEMS)
    if unknown:
        raise InputError(
            "there is no system {names}; there are {known}",
            names=", ".join(sorted(unknown)), known=", ".join(SYSTEMS),
        )  # fmt: skip
    chosen = systems or tuple(name for name in SYSTEMS if source == "gtzan" or name not in _ONLY_GTZAN)
    name = source if source in ("gtzan", "cal500_intro") else "cal500"
    work = in_own_process if own_process else evaluate

    def part(job: tuple[str, int]) -> dict[str, Any]:
        system, seed = job
        file = f"music_{name}_{system.replace(' ', '_')}_{seed}"
        found: dict[str, Any] = remembered(out, file, settings._asdict(), lambda: work(source, system, settings, seed))
        mean = {k: np.mean([fold[k] for fold in found["scores"]]) for k in COLUMNS}
        progress(f"{system}, seed {seed}: " + ", ".join(f"{COLUMNS[k]} {v:.3f}" for k, v in mean.items()))
        return found

    todo = [(system, seed) for system in chosen for seed in range(1 if system in _ONE_SEED else seeds)]
    todo.sort(key=lambda job: job[0] not in _SLOWEST)  # so that no long part is left for the end
    with stoppable_threads(jobs if own_process else 1) as pool:
        parts = list(pool.map(part, todo))
    results = {system: [found for (of, _), found in zip(todo, parts, strict=True) if of == system] for system in chosen}
    made_by = provenance({**settings._asdict(), "source": name, "seeds": seeds})
    return write(out, f"music_{name}", report(source, results, settings, seeds), {**made_by, "results": results})
