"""The tree of successive clusterings of HMMs: to walk, cut, export and search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import InputError, ParameterError
from vhem._support.saving import Kind, Saveable, State, attributes, register
from vhem.estimators.divergence import expected_log_likelihood
from vhem.kernels import filtering as kernels
from vhem.kernels.engine import n_threads
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.hmm import infinite_if_impossible, sequences_for
from vhem.sequences import Sequences, SequencesLike


@dataclass(frozen=True)
class Node:
    """One HMM of the tree."""

    level: int  #: 0 for the inputs, 1 for the centres of the first level, …
    index: int  #: its index within the level
    name: str
    weight: float
    children: list[int]  #: indices within the level below
    hmm: HMM


class SearchResult(NamedTuple):
    """The inputs that fit each query best."""

    indices: IntArray  #: (n, k) indices of the inputs, best first; -1 if fewer were reached
    scores: FloatArray  #: (n, k) log-likelihoods (sequences) or J (HMMs); -inf if fewer were reached
    n_scored: IntArray  #: (n,) HMMs that each query was compared with, centres included


class Tree(Saveable):
    """A hierarchy of HMMs: inputs below, clusters of clusters above.

    Parameters
    ----------
    inputs : H3M
        The leaves.
    levels : list of H3M
        The centres of each level, from the one above the leaves to the top.
    parents : list of ndarray
        For every level below the top: the index of each HMM's cluster in the level above it.
    tau : int
        Length of the virtual sequences when searching for HMMs.

    Examples
    --------
    >>> import vhem
    >>> at = lambda x: vhem.HMM([1.0], [[1.0]], [[x]], [[1.0]])
    >>> inputs = vhem.H3M([at(x) for x in (0.0, 1.0, 20.0, 21.0)], ids=["a", "b", "c", "d"])
    >>> tree = vhem.HierarchicalVHEM(levels=(2, 1), random_state=0).fit(inputs).tree_
    >>> tree.to_newick()
    '((a:1,b:1)L1.0:1,(c:1,d:1)L1.1:1)L2.0;'
    >>> tree.cut(2)
    array([0, 0, 1, 1])
    >>> tree.search(at(20.2), k=1).indices
    array([[2]])
    """

    def __init__(self, inputs: H3M, levels: list[H3M], parents: list[IntArray], tau: int = 10) -> None:
        self.layers = [inputs, *levels]
        self.parents = parents
        self.tau = tau
        self._children = [
            np.split(np.argsort(parent, kind="stable"), np.cumsum(np.bincount(parent, minlength=len(above)))[:-1])
            for parent, above in zip(parents, self.layers[1:], strict=True)
        ]

    def __repr__(self) -> str:
        return f"Tree({' → '.join(str(len(layer)) for layer in self.layers)})"

    def children(self, level: int, index: int) -> IntArray:
        """Return the indices, in the level below, of the members of a centre; a leaf has none."""
        return self._children[level - 1][index] if level else np.array([], dtype=np.int64)

    def members(self, level: int, index: int) -> IntArray:
        """Return the inputs below a node."""
        return np.flatnonzero(self.labels(level) == index)

    def labels(self, level: int) -> IntArray:
        """Return the cluster of every input at a level; level 0 is the inputs themselves."""
        labels = np.arange(len(self.layers[0]))
        for parent in self.parents[:level]:
            labels = parent[labels]
        return labels

    def node(self, level: int, index: int) -> Node:
        """Return one node with its HMM."""
        layer = self.layers[level]
        children = self.children(level, index).tolist()
        return Node(level, index, self._name(level, index), float(layer.weights[index]), children, layer[index])

    def walk(self) -> Iterator[Node]:
        """Yield all nodes from the top down, every node before its children."""
        top = len(self.layers) - 1
        for index in range(len(self.layers[top])):
            yield from self._walk_below(top, index)

    def cut(self, n_clusters: int) -> IntArray:
        """Return the cluster of every input at the level that has `n_clusters` clusters."""
        sizes = [len(layer) for layer in self.layers]
        if n_clusters not in sizes[1:]:
            raise ParameterError(
                "n_clusters", n_clusters, "must be the size of a level, one of {sizes}", sizes=sizes[1:]
            )
        return self.labels(len(sizes) - 1 - sizes[::-1].index(n_clusters))

    def search(
        self, query: SequencesLike | HMM | H3M, k: int = 1, beam_width: int = 4, n_jobs: int | None = None
    ) -> SearchResult:
        """Find the inputs that fit sequences or HMMs best, without trying them all.

        From the top down, only what lies below the `beam_width` best centres of a level is considered. A wider beam
        finds more of what an exhaustive comparison would find, at a higher cost.

        Parameters
        ----------
        query : sequences, HMM or H3M
            Sequences are scored by their log-likelihood, HMMs by J, the expected log-likelihood of their sequences.
        k : int
            How many inputs to return for each query.
        beam_width : int
            Centres kept at each level.
        n_jobs : int, optional
            Threads; None uses every core.

        Returns
        -------
        SearchResult
            Indices and scores of the best inputs, and how many HMMs were compared.
        """
        k, beam_width = check_integer("k", k, 1), check_integer("beam_width", beam_width, 1)
        queries: Sequences | H3M = (
            check_h3m("query", query)
            if isinstance(query, H3M | HMM)
            else sequences_for(self.layers[0].coded(query), self.layers[0].emissions)
        )
        n = len(queries)
        n_scored = np.zeros(n, dtype=np.int64)
        top = len(self.layers) - 1
        groups = iter([(np.arange(n), np.arange(len(self.layers[top])))])
        for level in range(top, -1, -1):
            best = np.full((n, beam_width if level else k), -1, dtype=np.int64)
            scores = np.full(best.shape, -np.inf)
            for members, nodes in groups:
                found = self._score(queries if len(members) == n else queries[members], level, nodes, n_jobs)
                order = np.argsort(-found, axis=1, kind="stable")[:, : best.shape[1]]
                best[members, : order.shape[1]] = nodes[order]
                scores[members, : order.shape[1]] = np.take_along_axis(found, order, axis=1)
                n_scored[members] += len(nodes)
            groups = self._below(level, best) if level else groups
        return SearchResult(best, scores, n_scored)

    def _below(self, level: int, best: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield queries that go on below the same nodes of a level, together, and the nodes of the level below."""
        kept, group = np.unique(np.sort(best, axis=1), axis=0, return_inverse=True)
        members = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(np.bincount(group.ravel()))[:-1])
        for together, above in zip(members, kept, strict=True):
            nodes = np.sort(np.concatenate([self.children(level, node) for node in above if node >= 0]))
            if len(nodes):
                yield together, nodes

    def _score(self, queries: Sequences | H3M, level: int, nodes: IntArray, n_jobs: int | None) -> FloatArray:
        """Return the score of each query under each of some nodes of a level."""
        layer = self.layers[level]
        if isinstance(queries, H3M):
            return expected_log_likelihood(queries, layer[nodes], self.tau, n_jobs=n_jobs)
        models = layer.parameters.take(
            nodes
        )  # of tens of thousands of leaves an H3M takes longer than their likelihoods
        found = kernels.log_likelihoods(models, queries.X, queries.offsets, n_threads(n_jobs))
        return infinite_if_impossible(found, layer.emissions)

    def with_inputs(self, inputs: H3M | list[HMM], beam_width: int = 4, n_jobs: int | None = None) -> Tree:
        """Return a tree of the same centres above other inputs.

        Each input is placed below the centre of the first level that represents it best, found as :meth:`search` finds
        it. So a tree that was fitted to some thousand HMMs can hold a million, which would take hours to fit.

        Parameters
        ----------
        inputs : H3M or list of HMM
            The new leaves.
        beam_width : int
            Centres kept at each level on the way down.
        n_jobs : int, optional
            Threads; None uses every core.

        Returns
        -------
        Tree
            The new tree; this one is not changed.

        Examples
        --------
        >>> import vhem
        >>> at = lambda x: vhem.HMM([1.0], [[1.0]], [[x]], [[1.0]])
        >>> few = vhem.H3M([at(x) for x in (0.0, 1.0, 20.0, 21.0)])
        >>> tree = vhem.HierarchicalVHEM(levels=(2, 1), random_state=0).fit(few).tree_
        >>> tree.with_inputs([at(x) for x in (0.2, 0.4, 19.0, 20.5, 22.0)])
        Tree(5 → 2 → 1)
        """
        leaves = check_h3m("inputs", inputs)
        centers = Tree(self.layers[1], self.layers[2:], self.parents[1:], self.tau)
        nearest = centers.search(leaves, beam_width=beam_width, n_jobs=n_jobs).indices[:, 0]
        return Tree(leaves, self.layers[1:], [nearest, *self.parents[1:]], self.tau)

    def to_newick(self) -> str:
        """Return the tree in Newick format; every branch has length one."""
        top = len(self.layers) - 1
        roots = [self._newick(top, index) for index in range(len(self.layers[top]))]
        return f"{roots[0]};" if len(roots) == 1 else f"({','.join(f'{root}:1' for root in roots)})root;"

    def to_json(self) -> str:
        """Return the tree as JSON: nested objects with name, level, weight and children."""
        top = len(self.layers) - 1
        return json.dumps([self._nested(top, index) for index in range(len(self.layers[top]))], indent=2)

    def to_linkage(self) -> FloatArray:
        """Return a table like those of SciPy's hierarchical clustering, (n - 1, 4).

        A cluster of several is written as successive merges at the height of its level; what is still separate at the
        top is merged one step above it.
        """
        rows: list[tuple[float, float, float, float]] = []
        n = len(self.layers[0])
        ids, sizes = list(range(n)), [1] * n
        for level in range(1, len(self.layers) + 1):
            top = level == len(self.layers)
            groups = [range(len(ids))] if top else self._children[level - 1]
            merged = [
                self._merge([ids[g] for g in group], [sizes[g] for g in group], level, rows, n) for group in groups
            ]
            ids, sizes = [m[0] for m in merged], [m[1] for m in merged]
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def to_networkx(self) -> Any:
        """Return a networkx directed graph, edges from the top down, nodes named as in the Newick format."""
        try:
            import networkx as nx  # noqa: PLC0415  (an optional library)
        except ModuleNotFoundError:
            raise ModuleNotFoundError("to_networkx needs networkx: pip install networkx") from None

        graph = nx.DiGraph()
        for node in self.walk():
            graph.add_node(node.name, level=node.level, index=node.index, weight=node.weight)
            graph.add_edges_from((node.name, self._name(node.level - 1, child)) for child in node.children)
        return graph

    def _name(self, level: int, index: int) -> str:
        return str(self.layers[0].ids[index]) if level == 0 else f"L{level}.{index}"

    def _walk_below(self, level: int, index: int) -> Iterator[Node]:
        node = self.node(level, index)
        yield node
        for child in node.children:
            yield from self._walk_below(level - 1, child)

    def _newick(self, level: int, index: int) -> str:
        name = self._name(level, index)
        if any(c in name for c in " ()[]{}:;,'\t\n"):
            name = "'" + name.replace("'", "''") + "'"
        below = [f"{self._newick(level - 1, int(child))}:1" for child in self.children(level, index)]
        return f"({','.join(below)}){name}" if below else name

    def _nested(self, level: int, index: int) -> dict[str, Any]:
        weight = float(self.layers[level].weights[index])
        out: dict[str, Any] = {"name": self._name(level, index), "level": level, "index": index, "weight": weight}
        if level:
            out["children"] = [self._nested(level - 1, int(child)) for child in self.children(level, index)]
        return out

    @staticmethod
    def _merge(
        ids: list[int], sizes: list[int], height: float, rows: list[tuple[float, float, float, float]], n: int
    ) -> tuple[int, int]:
        """Merge clusters one after another; return the number and the size of the result, -1 for nothing."""
        real = [(i, s) for i, s in zip(ids, sizes, strict=True) if s]
        if not real:
            return -1, 0
        number, size = real[0]
        for other, other_size in real[1:]:
            size += other_size
            rows.append((min(number, other), max(number, other), height, size))
            number = n + len(rows) - 1
        return number, size


def _unpack(state: State) -> Tree:
    layers, parents = state["layers"], state["parents"]
    for parent, below, above in zip(parents, layers[:-1], layers[1:], strict=True):
        if parent.shape != (len(below),) or np.any((parent < 0) | (parent >= len(above))):
            raise InputError("parents do not fit the levels")
    return Tree(layers[0], layers[1:], parents, state["tau"])


register(Kind("Tree", Tree, attributes("layers", "parents", "tau"), _unpack))
