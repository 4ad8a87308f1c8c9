"""Where partial-order reduction preserves the verdicts of properties of runs."""

from __future__ import annotations

from veristream.ir.network import Network
from veristream.search.reduction.relations import Relations, relate_runs, unsupported
from veristream.search.reduction.tables import tabulate
from veristream.search.runs.interruption import is_interruptible
from veristream.search.runs.product import Product
from veristream.search.runs.stored import StoredSteps


def allows_reduction(network: Network, product: Product) -> bool:
    """Whether partial-order reduction preserves the verdict: no fairness, and a property that does not
    notice invisible steps."""
    return unsupported(network) is None and not product.is_fair and is_interruptible(product.formula)


def relations_of(product: Product) -> Relations:
    """How the actions of the network depend on each other, and which of them the property sees."""
    conditions = [*product.watch.states, *product.watch.premises]
    return relate_runs(product.network, conditions, product.automaton.actions)


def reduced_steps(product: Product, relations: Relations, memory_max_mib: int | None) -> StoredSteps:
    """The steps that the reduction leaves for this property."""
    kernel, atoms = product.kernel, product.automaton.actions
    tables = tabulate(relations, kernel.layout, 1)
    return StoredSteps(kernel, product.initial[:-1], memory_max_mib, atoms, tables)
