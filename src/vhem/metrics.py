"""How well clusters agree with known classes: what scikit-learn does not have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def purity(classes: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of inputs that belong to the commonest class of their cluster.

    Examples
    --------
    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1])
    0.75
    """
    classes, labels = np.unique(np.asarray(classes), return_inverse=True)[1], np.asarray(labels)
    return sum(int(np.bincount(classes[labels == k]).max()) for k in np.unique(labels)) / len(labels)


def best_attainable_rand(classes: npt.ArrayLike, n_clusters: int) -> float:
    """Return the highest Rand index that any clustering into `n_clusters` can have with these classes.

    With fewer clusters than classes, classes must be merged, which the Rand index counts as errors. Splitting a class
    costs more than merging it whole where classes are about equally large, so only whole classes are merged here.

    Examples
    --------
    >>> round(best_attainable_rand(["a", "a", "b", "b", "c", "c"], 3), 3)
    1.0
    >>> round(best_attainable_rand(["a", "a", "b", "b", "c", "c"], 2), 3)
    0.733
    """
    sizes = [int(size) for size in np.unique(np.asarray(classes), return_counts=True)[1]]
    n = sum(sizes)
    together = min(sum(g * (g - 1) // 2 for g in groups) for groups in _groupings(sizes, n_clusters))
    same_class = sum(size * (size - 1) // 2 for size in sizes)
    return 1.0 - (together - same_class) / (n * (n - 1) / 2)


def _groupings(sizes: list[int], n_groups: int) -> Iterator[list[int]]:
    """Yield the sizes of the groups for every way to put the classes into at most `n_groups` groups."""
    if not sizes:
        yield []
        return
    for groups in _groupings(sizes[1:], n_groups):
        for g in range(len(groups)):
            yield [*groups[:g], groups[g] + sizes[0], *groups[g + 1 :]]
        if len(groups) < n_groups:
            yield [*groups, sizes[0]]
