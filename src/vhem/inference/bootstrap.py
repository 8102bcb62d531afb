"""bootstrap_test: whether data without these clusters would look as if they had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import comb

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_integer
from vhem._support.errors import ParameterError
from vhem._support.phrases import capitalized, in_letters
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference.null_model import null_model
from vhem.inference.permutations import SMALLEST
from vhem.inference.pipeline import Fitted, Study, check_pipeline, run_again
from vhem.inference.tables import Table, number, p_value, p_words
from vhem.sequences import SequencesLike

WHY = (
    "More clusters always fit better, whether or not there are kinds of people; therefore the gain is compared with "
    "that in data drawn from the smaller number of clusters, on which the whole clustering was run again."
)

_TRIES = 3  # to learn the smaller number of clusters
_FEW = 3  # data sets that gained as much, at least, before drawing stops
_LOOK, _FIRST, _MANY = 0.4, 39, 69  # drawing stops if none of two fifths, or of the first 39, did; if many are wanted


class BootstrapTest(NamedTuple):
    """Whether K clusters explain more than chance, compared with fewer."""

    n_clusters: int
    null_clusters: int
    gain: float  #: in the bound on the log-likelihood, in nats
    null_gains: FloatArray  #: the same in data drawn from the null model
    p: float
    stopped: bool  #: whether drawing ended early, because the answer was clear

    def table(self) -> Table:
        """Return the test as a table of one row."""
        columns = ["clusters", "gain (nats, all data)", "mean gain by chance", "largest gain by chance",
                   "gained as much by chance", "p"]  # fmt: skip
        above = int((self.null_gains >= self.gain).sum())
        row = [
            f"{self.n_clusters} against {self.null_clusters}", number(self.gain, 1),
            number(float(self.null_gains.mean()), 1), number(float(self.null_gains.max()), 1),
            f"{above} of {len(self.null_gains)}", p_value(self.p),
        ]  # fmt: skip
        title = "Gain of the clusters over chance (parametric bootstrap)"
        return Table("bootstrap", title, columns, [row], WHY + self._precision())

    def _precision(self) -> str:
        """Say how well p is known, if it is near the usual level."""
        if not 0.02 < self.p < 0.1:
            return ""
        error = (self.p * (1 - self.p) / len(self.null_gains)) ** 0.5
        return f" p is known to within about ± {error:.2f} (one standard error); more data sets tell it better."

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        verdict = "fitted better" if self.p <= 0.05 else "did not fit significantly better"
        many = capitalized(in_letters(self.n_clusters))
        few = f"{in_letters(self.null_clusters)} cluster{'s' if self.null_clusters > 1 else ''}"
        return (
            f"{many} clusters {verdict} than expected by chance if there were only {few} whose members "
            f"differ gradually (gain {self.gain:.1f} nats, {float(self.null_gains.mean()):.1f} expected by chance, "
            f"{p_words(self.p)}, parametric bootstrap with {len(self.null_gains)} data sets)."
        )


class Stopping(NamedTuple):
    """When to stop drawing, and what p then is.

    Drawing ends when so many data sets have gained as much as the data that p is not small (Besag and Clifford 1991),
    or after a first look if none has. p adds up the probabilities, if nothing is there, of the outcome and of all that
    speak more for clusters: none at the look, few of all data sets, and then the later the last of too many came. So
    the level is exact: with 69 data sets, the look and three that gained as much, p is at most .05 in 4.9 % of cases.
    """

    most: int  #: data sets
    stop_after: int  #: data sets that gained as much

    @staticmethod
    def of(most: int, stop_after: int | None = None) -> Stopping:
        """Return the rule; by default drawing stops when p can hardly be below .05 any more."""
        return Stopping(most, max(_FEW, (most + 1) // 20) if stop_after is None else stop_after)

    @property
    def look(self) -> int:
        """After how many data sets to stop if none has gained as much; 0: never, since p would not be small."""
        return max(_FIRST, int(np.ceil(_LOOK * (self.most + 1))) - 1) if self.most >= _MANY else 0

    @property
    def smallest_p(self) -> float:
        """The p-value if no data set gains as much as the data."""
        return 1 / ((self.look or self.most) + 1)

    def is_over(self, n: int, above: int) -> bool:
        """Whether n data sets are enough, of which some gained as much as the data."""
        return n >= self.most or above >= self.stop_after or (n == self.look > 0 and above == 0)

    def share_done(self, n: int, above: int) -> float:
        """Return how far the drawing has come."""
        return max(n / (self.most if above or not self.look else self.look), above / self.stop_after)

    def p(self, n: int, above: int) -> float:
        """Return the p-value of an outcome."""
        if above >= self.stop_after:
            return above / n + self._stopped_at_look(n - 1)
        if not self.look or n < self.most:
            return (above + 1) / (n + 1)
        outcomes = np.arange(1, above + 1)
        none_before = comb(self.most - self.look, outcomes) / comb(self.most, outcomes)
        return float(1 / (self.look + 1) + (1 - none_before).sum() / (self.most + 1))

    def _stopped_at_look(self, n: int) -> float:
        """Return how probable it is that n data sets, had all been drawn, had too many, though none at the look."""
        later = n - self.look
        if not self.look or later < self.stop_after:
            return 0.0
        outcomes = np.arange(self.stop_after, later + 1)
        return float((comb(later, outcomes) / comb(n, outcomes)).sum() / (n + 1))


@documented
def bootstrap_test(
    estimator: SequenceClustering | int,
    sequences: SequencesLike,
    groups: Iterable[Any] | None = None,
    null_clusters: int = 1,
    n_bootstrap: int = 199,
    stop_after: int | None = None,
    random_state: RandomState = None,
    callback: Callable[[float], None] | None = None,
) -> BootstrapTest:
    """Test whether there are K clusters rather than fewer, by a parametric bootstrap of the whole clustering.

    The null model has `null_clusters` centres, and people who vary about them as much as they do in the data: what
    their states emit and their transitions are random effects. Studies of the same size are drawn from it and clustered
    from the beginning, with K and with `null_clusters` clusters. p is the share of studies whose bound gains as much as
    that of the data.

    Parameters
    ----------
    <clustering>
    <sequences>
    <people>
    null_clusters : int
        Clusters of the null model: 1 asks whether there are clusters at all, K - 1 whether one less would do (the
        bootstrap likelihood-ratio test).
    n_bootstrap : int
        Studies to draw, at most. Of 69 or more, only 39 (of 99 or more, two fifths) are drawn if none of these gains as
        much as the data, and p is then one divided by one more than that. p takes account of the look, so that the test
        keeps its level.
    stop_after : int, optional
        Stop when so many studies have gained as much as the data: p is then about their share (Besag and Clifford,
        Biometrika 78:301-304, 1991). By default a twentieth of `n_bootstrap`, at least 3: p can hardly be below .05 any
        more.
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
    model, study = check_pipeline(estimator, study)
    check_integer("n_bootstrap", n_bootstrap, 1)
    if stop_after is not None:
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
    gain, small = _gain(model, study, K, few, seed)
    null, gains, above, rule = null_model(study, small), list[float](), 0, Stopping.of(n_bootstrap, stop_after)
    while not rule.is_over(len(gains), above):
        gains.append(_gain(model, null.draw(rng), K, few, seed, gain)[0])
        above += gains[-1] >= gain
        if callback is not None:
            callback(rule.share_done(len(gains), above))
    p, stopped = rule.p(len(gains), above), len(gains) < n_bootstrap
    return BootstrapTest(K, few, gain, np.array(gains), p, stopped)


def _gain(
    model: SequenceClustering, study: Study, K: int, few: int, seed: int, least: float = -np.inf
) -> tuple[float, Fitted]:
    """Return the gain of K clusters over fewer, and the fewer.

    Fewer clusters that ended in a poor local optimum would leave much to gain. So they are learned several times, and
    the best are taken; but only while the gain is at least as large as it must be to count.
    """
    many = run_again(model, study, K, seed)
    small = run_again(model, study, few, seed, many.hmms)
    for again in range(1, _TRIES):
        if many.bound - small.bound < least:
            break
        small = max(small, run_again(model, study, few, seed + again, many.hmms), key=lambda fit: fit.bound)
    return float(many.bound - small.bound), small
