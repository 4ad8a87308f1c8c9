"""The violating run through a fair component, in terms of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from veristream.ir.state import State
from veristream.kernel.layout import Row
from veristream.search.runs.fairness import FairComponent
from veristream.search.runs.graph import NONE, Graph, source_of
from veristream.search.runs.lasso import STEPS_SHOWN, loop_edges
from veristream.search.runs.product import Edge, Lasso, Product


class Nodes(Protocol):
    """The nodes of an explored product, and how each was found."""

    def row(self, index: int) -> Row: ...
    def rows_to(self, index: int) -> list[Row]: ...


def lasso_of(
    product: Product, explored: Nodes, graph: Graph, fair: FairComponent, prefix: Sequence[Edge] = ()
) -> Lasso:
    """A violating run that ends in the component; `prefix` leads to the first state explored."""
    return _Finding(product, explored, graph, fair).lasso(list(prefix))


@dataclass(frozen=True, slots=True)
class _Finding:
    product: Product
    explored: Nodes
    graph: Graph
    fair: FairComponent

    def lasso(self, prefix: list[Edge]) -> Lasso:
        entry = int(self.fair.nodes[0])
        stem = self.product.edges_along(self.explored.rows_to(entry))
        loop = loop_edges(self.graph, self.fair, self.product.all_marks, self.product.units, entry)
        alike = self._alike()
        return Lasso(
            prefix + stem,
            [self._edge(edge, alike.get(edge)) for edge in loop],
            self.fair.step_count,
        )

    def _edge(self, edge: int, number: int | None = None) -> Edge:
        before = self.explored.row(int(source_of(self.graph, edge)))
        after = self.explored.row(int(self.graph.targets[edge]))
        return self.product.edge(before, after, int(self.graph.entries[edge]), number)

    def _alike(self) -> dict[int, int]:
        """For each edge whose step a fair run must take: how many steps before its own have the same states
        and action, so that the replay takes each of them and not one for all."""
        fair = self.fair
        if fair.step_of is None or fair.step_count > STEPS_SHOWN:
            return {}
        inner = [int(edge) for edge in np.nonzero(fair.step_of != NONE)[0]]
        groups: dict[tuple[State, State, int], set[int]] = {}
        kinds = {}
        for number in inner:
            edge = self._edge(number)
            kinds[number] = (edge.before, edge.after, edge.action)
            groups.setdefault(kinds[number], set()).add(int(fair.step_of[number]))
        return {
            number: sum(other < fair.step_of[number] for other in groups[kind])
            for number, kind in kinds.items()
        }
