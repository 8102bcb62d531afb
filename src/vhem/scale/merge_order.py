"""The tree of reductions: summaries of parts wait until there are enough of them, and are merged."""

from __future__ import annotations

from vhem.scale.condense import Plan, Summary, generator_for, reduced

_RESTARTS = 3  # of VHEM in a merge

Levels = list[list[Summary | None]]


def with_part(levels: Levels, summary: Summary | None, index: int, plan: Plan) -> Levels:
    """Return the tree with the summary of part `index` added; None stands for a part that was skipped.

    `fan_in` nodes of a level become one of the next. Which parts meet in a node depends only on their numbers.
    """
    levels = [list(level) for level in levels]
    for depth in range(len(levels) + 1):
        if depth == len(levels):
            levels.append([])
        levels[depth].append(summary)
        if len(levels[depth]) < plan.fan_in:
            break
        index //= plan.fan_in
        summary = merged(levels[depth], plan, depth + 1, index)
        levels[depth] = []
    return levels


def merged(nodes: list[Summary | None], plan: Plan, depth: int, index: int) -> Summary | None:
    """Return one summary that represents several."""
    there = [node for node in nodes if node is not None]
    if not there:
        return None
    return reduced(
        Summary.pooled(there), plan.n_intermediate, plan, generator_for(plan, depth, index), n_init=_RESTARTS
    )


def everything(levels: Levels) -> Summary | None:
    """Return all HMMs that wait anywhere in the tree: together they represent all the data."""
    there = [node for level in reversed(levels) for node in level if node is not None]
    return Summary.pooled(there) if there else None
