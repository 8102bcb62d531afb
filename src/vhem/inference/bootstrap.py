"""bootstrap_test: whether data without these clusters would look as if they had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_integer
from vhem._support.errors import ParameterError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference.null_model import null_model
from vhem.inference.permutations import SMALLEST
from vhem.inference.pipeline import Study, check_pipeline, run_again
from vhem.inference.tables import Table, number, p_value, p_words
from vhem.sequences import SequencesLike

WHY = (
    "More clusters always fit better, whether or not there are kinds of people; therefore the gain is compared with "
    "that in data drawn from the smaller number of clusters, on which the whole clustering was run again."
)


class BootstrapTest(NamedTuple):
    """Whether K clusters explain more than chance, compared with fewer."""

    n_clusters: int
    null_clusters: int
    gain: float  #: in the bound on the log-likelihood, in nats
    null_gains: FloatArray  #: the same in data drawn from the null model
    p: float
    stopped: bool  #: whether drawing ended early, because p could no longer be small
    varied: bool = True  #: whether people of the null model vary about their cluster's HMM

    def table(self) -> Table:
        """Return the test as a table of one row."""
        columns = ["clusters", "gain (nats)", "gain by chance", "95th percentile", "data sets drawn", "p"]
        row = [
            f"{self.n_clusters} against {self.null_clusters}", number(self.gain, 1),
            number(float(self.null_gains.mean()), 1), number(float(np.quantile(self.null_gains, 0.95)), 1),
            str(len(self.null_gains)), p_value(self.p),
        ]  # fmt: skip
        return Table("bootstrap", "Gain of the clusters over chance (parametric bootstrap)", columns, [row], WHY)

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        verdict = "fitted better" if self.p <= 0.05 else "did not fit significantly better"
        few = "one cluster" if self.null_clusters == 1 else f"{self.null_clusters} clusters"
        people = "people who vary gradually" if self.varied else "people who all follow their cluster's HMM"
        return (
            f"{self.n_clusters} clusters {verdict} than expected by chance if there were {few} of {people} (gain "
            f"{self.gain:.1f} nats, {float(self.null_gains.mean()):.1f} expected by chance, {p_words(self.p)}, "
            f"parametric bootstrap with {len(self.null_gains)} data sets)."
        )


@documented
def bootstrap_test(
    estimator: SequenceClustering | int,
    sequences: SequencesLike,
    groups: Iterable[Any] | None = None,
    null_clusters: int = 1,
    n_bootstrap: int = 199,
    stop_after: int = 10,
    random_state: RandomState = None,
    callback: Callable[[float], None] | None = None,
) -> BootstrapTest:
    """Test whether there are K clusters rather than fewer, by a parametric bootstrap of the whole clustering.

    The null model has `null_clusters` centres, and people who vary about them as much as they do in the data: their
    means, variances and transitions are random effects. Studies of the same size are drawn from it and clustered from
    the beginning, with K and with `null_clusters` clusters. p is the share of studies whose bound gains as much as that
    of the data.

    Parameters
    ----------
    <clustering>
    <sequences>
    <people>
    null_clusters : int
        Clusters of the null model: 1 asks whether there are clusters at all, K - 1 whether one less would do (the
        bootstrap likelihood-ratio test).
    n_bootstrap : int
        Studies to draw, at most. The smallest p is 1 / (n_bootstrap + 1).
    stop_after : int
        Stop when so many studies have gained as much as the data: p is then their share, and known well enough to say
        that it is not small (Besag and Clifford, Biometrika 78:301-304, 1991).
    <random_state>
    <share_done>

    Returns
    -------
    BootstrapTest
        The gain, those by chance, and p.

    Examples
    --------
    >>> from vhem import SequenceClustering
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import bootstrap_test
    >>> study = simulated_study(n_viewers=18, n_trials=5)
    >>> found = bootstrap_test(SequenceClustering(3), study.sequences, n_bootstrap=3, random_state=0)
    >>> found.p
    0.25
    """
    study, rng = Study.of(sequences, groups), generator(random_state)
    model = check_pipeline(estimator, study)
    check_integer("n_bootstrap", n_bootstrap, 1)
    check_integer("stop_after", stop_after, 1)
    K, few = model.n_clusters, check_integer("null_clusters", null_clusters, 1)
    if few >= K:
        raise ParameterError("null_clusters", few, "must be less than the number of clusters, {k}", k=K)
    if study.n < SMALLEST * K:
        raise ParameterError(
            "n_clusters", K, "is {value}, but there are only {n} subjects: {least} per cluster are needed",
            n=study.n, least=SMALLEST,
        )  # fmt: skip
    seed = int(rng.integers(2**31))
    small = run_again(model, study, few, seed)
    gain = run_again(model, study, K, seed).bound - small.bound
    null, gains, above = null_model(study, small), list[float](), 0
    while len(gains) < n_bootstrap and above < stop_after:
        drawn = null.draw(rng)
        gains.append(run_again(model, drawn, K, seed).bound - run_again(model, drawn, few, seed).bound)
        above += gains[-1] >= gain
        if callback is not None:
            callback(max(len(gains) / n_bootstrap, above / stop_after))
    stopped = above >= stop_after
    p = above / len(gains) if stopped else (above + 1) / (len(gains) + 1)
    return BootstrapTest(K, few, float(gain), np.array(gains), float(p), stopped, null.effects is not None)
