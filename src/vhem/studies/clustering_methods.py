"""The ways of clustering that the study compares, each at its defaults or as its authors recommend.

Of ours, the number of states and the topology are chosen inside (``n_states="auto"``). The others get one standardised
series per item; those that refuse unequal lengths get series stretched to the median length, and the table says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from vhem._support.arrays import FloatArray, IntArray
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.ppk import PPKClustering
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.studies.clustering_data import Items

Predict = Callable[[Items], IntArray]


class Found(NamedTuple):
    """The cluster of each item, and a way to assign new ones."""

    labels: IntArray
    predict: Predict | None = None
    note: str = ""


@dataclass(frozen=True)
class Method:
    """One way of clustering."""

    fit: Callable[[Items, int, int], Found]  #: of the items, the number of clusters and a seed
    package: str = ""  #: that it needs
    takes_gaps: bool = False  #: whether missing values are allowed
    takes_lengths: bool = True  #: whether lengths may differ
    takes_groups: bool = False  #: whether several sequences may make up an item
    assigns_new: bool = True
    has_centers: bool = False  #: centres that can be looked at


# -- ours


def _options(items: Items, seed: int) -> dict[str, Any]:
    emissions = f"categorical:{items.n_categories}" if items.n_categories else "gaussian"
    return {"emissions": emissions, "random_state": seed, "n_jobs": 1}


def _chosen_shape(items: Items, K: int, seed: int) -> dict[str, Any]:
    """Return the number of states and the topology that `SequenceClustering` would choose of the values alone."""
    clusterer = SequenceClustering(K, "auto", slopes=False, **_options(items, seed))
    chosen = clusterer.choose_shape(items.sequences, groups=items.owner)
    return {"n_states": chosen.n_states, "topology": chosen.topology}


def _said(n_states: int, topology: str) -> str:
    return f"{n_states} states, {topology}"


def sequence_clustering(items: Items, K: int, seed: int) -> Found:
    """`SequenceClustering`, which also chooses the number of states."""
    fit = SequenceClustering(K, "auto", **_options(items, seed)).fit(items.sequences, groups=items.owner)
    said = _said(fit.n_states_, fit.topology_) + (", with slopes" if len(fit.slopes_) else "")
    return Found(fit.labels_, lambda new: fit.predict(new.sequences, new.owner), said)


def vhem_on_hmms(items: Items, K: int, seed: int) -> Found:
    """One HMM per item, clustered by `VHEM`, which does not see the sequences."""
    shape = _chosen_shape(items, K, seed)
    hmms = fit_hmms(items.sequences, groups=items.owner, **shape, **_options(items, seed))
    fit = VHEM(K, random_state=seed, n_jobs=1).fit(hmms)
    return Found(fit.labels_, lambda new: _by_likelihood(fit.centers_, new), _said(**shape))


def em_h3m(items: Items, K: int, seed: int) -> Found:
    """`MixtureOfHMMs` on the sequences; an item belongs where its sequences do together."""
    shape = _chosen_shape(items, K, seed)
    fit = MixtureOfHMMs(K, **shape, **_options(items, seed)).fit(items.sequences)
    return Found(_by_likelihood(fit.model_, items), lambda new: _by_likelihood(fit.model_, new), _said(**shape))


def sc_ppk(items: Items, K: int, seed: int) -> Found:
    """One HMM per item, spectral clustering by the probability product kernel."""
    shape = _chosen_shape(items, K, seed)
    hmms = fit_hmms(items.sequences, groups=items.owner, **shape, **_options(items, seed))
    fit = PPKClustering(K, length=10, random_state=seed, n_jobs=1).fit(hmms)
    return Found(fit.labels_, lambda new: _by_likelihood(fit.centers_, new), _said(**shape))


def _by_likelihood(model: Any, items: Items) -> IntArray:
    with np.errstate(divide="ignore"):
        logits = np.tile(np.log(model.weights), (len(items.truth), 1))
    np.add.at(logits, items.owner, model.log_likelihoods(items.sequences))
    return np.asarray(logits.argmax(axis=1))


# -- features and k-means


def _kmeans(features: Callable[[Items], FloatArray], items: Items, K: int, seed: int) -> Found:
    made = features(items)
    scaler = StandardScaler().fit(made)
    means = KMeans(K, n_init=10, random_state=seed).fit(scaler.transform(made))
    return Found(means.labels_, lambda new: means.predict(scaler.transform(features(new))))


def means_and_deviations(items: Items, K: int, seed: int) -> Found:
    """k-means on each channel's mean and standard deviation."""
    return _kmeans(lambda x: np.array([np.r_[s.mean(0), s.std(0)] for s in x.as_series()]), items, K, seed)


def resampled_values(items: Items, K: int, seed: int) -> Found:
    """k-means on the values of series stretched to one length; channels are standardised, values are not."""
    scale, length = Standard.of(items), _common_length(items)

    def features(new: Items) -> FloatArray:
        return stretched(scale.applied(new), length).reshape(len(new.truth), -1)

    means = KMeans(K, n_init=10, random_state=seed).fit(features(items))
    return Found(means.labels_, lambda new: means.predict(features(new)))


def catch22(items: Items, K: int, seed: int) -> Found:
    """k-means on the 22 features of catch22, per channel."""
    return _kmeans(_catch22, items, K, seed)


def catch22_hdbscan(items: Items, K: int, seed: int) -> Found:
    """HDBSCAN on the same features: it finds its own number of clusters, and leaves items out."""
    del K, seed
    return Found(HDBSCAN(copy=True).fit_predict(StandardScaler().fit_transform(_catch22(items))))


def _catch22(items: Items) -> FloatArray:
    features = _imported("pycatch22").catch22_all
    rows = [np.concatenate([features(column.tolist())["values"] for column in x.T]) for x in items.as_series()]
    return np.asarray(np.nan_to_num(np.array(rows)))


def r_clustering(items: Items, K: int, seed: int) -> Found:
    """Random convolutions, principal components that explain one per cent each, and k-means: R-Clustering's recipe."""
    panel = Panel.of(items)
    rocket = _imported("aeon.transformations.collection.convolution_based").MiniRocket
    convolve, scaler = rocket(n_kernels=500, random_state=seed, n_jobs=1), StandardScaler()
    features = scaler.fit_transform(convolve.fit_transform(panel.made(items)))
    components = PCA(random_state=seed).fit(features)
    n = max(1, int((components.explained_variance_ratio_ >= 0.01).sum()))
    means = KMeans(K, n_init=10, random_state=seed).fit(components.transform(features)[:, :n])

    def predict(new: Items) -> IntArray:
        found = components.transform(scaler.transform(convolve.transform(panel.made(new))))
        return np.asarray(means.predict(found[:, :n]))

    return Found(means.labels_, predict, panel.note)


# -- distances and barycentres


def aeon(name: str, **options: Any) -> Callable[[Items, int, int], Found]:
    """Return a method of aeon's, for series of equal length."""

    def fit(items: Items, K: int, seed: int) -> Found:
        panel = Panel.of(items)
        fitted = getattr(_imported("aeon.clustering"), name)(n_clusters=K, random_state=seed, **options)
        fitted.fit(panel.made(items))
        return Found(fitted.labels_, lambda new: fitted.predict(panel.made(new)), panel.note)

    return fit


def tslearn(name: str, **options: Any) -> Callable[[Items, int, int], Found]:
    """Return a method of tslearn's, which fills series up to the longest."""

    def fit(items: Items, K: int, seed: int) -> Found:
        scale, as_dataset = Standard.of(items), _imported("tslearn.utils").to_time_series_dataset
        fitted = getattr(_imported("tslearn.clustering"), name)(n_clusters=K, random_state=seed, **options)
        labels = fitted.fit_predict(as_dataset(scale.applied(items)))
        return Found(labels, lambda new: fitted.predict(as_dataset(scale.applied(new))))

    return fit


def _imported(module: str) -> Any:
    """Return a module of a package that only some methods need."""
    return importlib.import_module(module)


class Standard(NamedTuple):
    """The mean and standard deviation of each channel."""

    mean: FloatArray
    deviation: FloatArray

    @staticmethod
    def of(items: Items) -> Standard:
        """Return those of all frames."""
        frames = np.concatenate(items.as_series())
        deviation = frames.std(axis=0)
        return Standard(frames.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    def applied(self, items: Items) -> list[FloatArray]:
        """Return one standardised series per item."""
        return [(x - self.mean) / self.deviation for x in items.as_series()]


def _common_length(items: Items) -> int:
    return int(np.median([len(x) for x in items.as_series()]))


def stretched(series: list[FloatArray], length: int) -> FloatArray:
    """Return series stretched or shrunk to one length by linear interpolation, (n, length, d)."""
    made = np.empty((len(series), length, series[0].shape[1]))
    for i, x in enumerate(series):
        at = np.linspace(0, len(x) - 1, length)
        made[i] = np.stack([np.interp(at, np.arange(len(x)), column) for column in x.T], axis=1)
    return made


class Panel(NamedTuple):
    """Series of one length, standardised, as (n, d, T); new ones get the scale and the length of the first."""

    scale: Standard
    length: int
    note: str  #: whether series had to be stretched

    @staticmethod
    def of(items: Items) -> Panel:
        """Return how these items become series of one length."""
        differ = len({len(x) for x in items.as_series()}) > 1
        return Panel(Standard.of(items), _common_length(items), "stretched" if differ else "")

    def made(self, items: Items) -> FloatArray:
        """Return the items as such series; convolutions need nine frames."""
        series = self.scale.applied(items)
        same = not self.note and {len(x) for x in series} == {self.length}
        made = np.stack(series) if same else stretched(series, max(self.length, 9))
        return np.ascontiguousarray(made.transpose(0, 2, 1))


_OURS = {"takes_gaps": True, "takes_groups": True, "has_centers": True}
_AEON = {"package": "aeon", "takes_lengths": False, "has_centers": True}
METHODS: dict[str, Method] = {
    "SequenceClustering": Method(sequence_clustering, **_OURS),  # type: ignore[arg-type]
    "VHEM on HMMs": Method(vhem_on_hmms, **_OURS),  # type: ignore[arg-type]
    "EM-H3M": Method(em_h3m, **_OURS),  # type: ignore[arg-type]
    "SC-PPK": Method(sc_ppk, **_OURS),  # type: ignore[arg-type]
    "k-means, mean and sd": Method(means_and_deviations),
    "k-means, resampled": Method(resampled_values, takes_lengths=False, has_centers=True),
    "k-means, catch22": Method(catch22, "pycatch22"),
    "HDBSCAN, catch22": Method(catch22_hdbscan, "pycatch22", assigns_new=False),
    "R-Clustering": Method(r_clustering, "aeon", takes_lengths=False),
    "KASBA": Method(aeon("KASBA"), **_AEON),  # type: ignore[arg-type]
    "k-means, DTW (aeon)": Method(aeon("TimeSeriesKMeans", distance="dtw"), **_AEON),  # type: ignore[arg-type]
    "k-means, MSM (aeon)": Method(aeon("TimeSeriesKMeans", distance="msm"), **_AEON),  # type: ignore[arg-type]
    "k-SC": Method(aeon("KSpectralCentroid"), **_AEON),  # type: ignore[arg-type]
    "k-Shape": Method(aeon("KShape"), **_AEON),  # type: ignore[arg-type]
    "k-means, DBA (tslearn)": Method(tslearn("TimeSeriesKMeans", metric="dtw"), "tslearn", has_centers=True),
}
