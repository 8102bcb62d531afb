"""How good a clustering is: how sure its labels are, and how well clusters are separated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.metrics import silhouette_samples

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import Count, InputError
from vhem.em.parameters import documented
from vhem.inference.associate import Members
from vhem.inference.groups import squared_distances
from vhem.inference.tables import Table, number
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m


class Quality(NamedTuple):
    """How sure and how separate clusters are."""

    sizes: IntArray  #: (K,)
    classification: FloatArray  #: (K, K) mean responsibility of each cluster (columns) for members of each (rows)
    certainty: float  #: 1 - entropy of the responsibilities / its largest value: 1 is sure, 0 is chance
    silhouette: float  #: mean over members: 1 is separate, 0 is on the border, below 0 is nearer to another cluster
    silhouettes: FloatArray  #: (n,)

    def table(self) -> Table:
        """Return the classification table with the mean silhouette of each cluster."""
        K = len(self.sizes)
        columns = ["cluster", "members", *(f"mean probability of {k + 1}" for k in range(K))]
        rows = [
            [str(k + 1), str(n), *(number(p) for p in row)]
            for k, (n, row) in enumerate(zip(self.sizes.tolist(), self.classification.tolist(), strict=True))
        ]
        return Table("quality", "How sure the clusters are", columns, rows, self.sentence())

    def sentence(self) -> str:
        """Return both measures as a paper states them."""
        said = f"Members were assigned with a certainty of {number(self.certainty, 2)} (1 is sure, 0 is chance)"
        if np.isnan(self.silhouette):
            return f"{said}."
        return f"{said}; their mean silhouette was {number(self.silhouette, 2)} (1 is separate, 0 is on the border)."


@documented
def clustering_quality(
    fit: Any, hmms: H3M | list[HMM] | None = None, tau: int = 10, n_jobs: int | None = None
) -> Quality:
    """Say how sure the labels of a clustering are, and how well its clusters are separated.

    Parameters
    ----------
    fit : SequenceClustering, VHEM or Members
        The clustering.
    hmms : H3M or list of HMM, optional
        The HMMs that were clustered; a SequenceClustering knows them.
    tau : int
        Length of the virtual sequences that HMMs are compared by.
    <n_jobs>

    Returns
    -------
    Quality
        Classification table, certainty, and silhouettes on the square root of the symmetrised divergence.

    Examples
    --------
    >>> from vhem import VHEM
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import clustering_quality
    >>> study = simulated_study()
    >>> found = clustering_quality(VHEM(3, random_state=0).fit(study.hmms), study.hmms)
    >>> round(found.certainty, 2), round(found.silhouette, 2)
    (1.0, 0.42)
    """
    members = fit if isinstance(fit, Members) else Members([], fit.labels_, fit.responsibilities_)
    h3m = check_h3m("hmms", getattr(fit, "hmms_", None) if hmms is None else hmms)
    labels, shares = np.asarray(members.labels), np.asarray(members.responsibilities)
    if len(h3m) != len(labels):
        raise InputError("there are {n:HMM} for {m} labels", "give those that were clustered", n=Count(len(h3m)),
                         m=len(labels))  # fmt: skip
    K = shares.shape[1]
    sizes = np.bincount(labels, minlength=K)
    table = np.stack([shares[labels == k].mean(axis=0) if sizes[k] else np.full(K, np.nan) for k in range(K)])
    certainty = 1.0 if K == 1 else float(1 + xlogy(shares, shares).sum() / (len(shares) * np.log(K)))
    each = silhouettes(squared_distances(h3m, tau, n_jobs), labels)
    return Quality(sizes, table, certainty, float(each.mean()), each)


def silhouettes(squares: FloatArray, labels: IntArray) -> FloatArray:
    """Return the silhouette of every member, by scikit-learn; NaN if there is one cluster, or one member in each."""
    if not 2 <= len(np.unique(labels)) < len(labels):
        return np.full(len(labels), np.nan)
    distances = np.sqrt(squares)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(silhouette_samples(distances, labels, metric="precomputed"))
