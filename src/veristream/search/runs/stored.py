"""The steps of a network, stored as searches of runs need them.

The first property to visit a state computes its steps; every other one finds them. So several properties of
one network compute its transition relation once between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veristream.ir.property import Occurs, Property, Silent
from veristream.ir.walk import walk
from veristream.kernel.layout import Row
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.kernel.watched.inside import inside_of
from veristream.search.limits import Limits
from veristream.search.memory import Reserve, reserve
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Exploration, Plan, begin
from veristream.search.reduction.tables import Tables
from veristream.search.runs import pairs as native
from veristream.search.runs.pairs import Steps
from veristream.search.runs.product import Product, formula_of

ActionAtom = Occurs | Silent
ATOMS_MAX = 31
"""How many action propositions an entry has room for."""


class StoredSteps:
    """States and their steps, found on demand; `atoms` are the action propositions that entries have bits
    for. With tables of a partial-order reduction, some steps are left out."""

    def __init__(
        self,
        kernel: Kernel,
        initial: Row,
        memory_max_mib: int | None,
        atoms: tuple[ActionAtom, ...],
        tables: Tables | None = None,
    ) -> None:
        self.kernel = kernel  # owns the code
        code = Code(kernel.successors, 0, 0, 0, 0 if tables is None else tables.address)
        self.system: Exploration = begin(code, initial, Plan(), 1, memory_max_mib)
        self.system.tables = tables
        self.atoms = atoms
        limit = min(self.system.budget // 12, (1 << 32) - 2)
        spans, targets, entries = 16 * self.system.arena_size, 4 * limit, 8 * limit
        self.memory: tuple[Reserve, ...] = (reserve(spans), reserve(targets), reserve(entries))
        first, second, third = (part.address for part in self.memory)
        self.steps = Steps(first, second, third, limit, np.zeros(native.STEP_TALLY_COUNT, np.int64))

    @property
    def byte_count(self) -> int:
        """Memory in use for states, table and steps."""
        return (
            self.system.byte_count + 16 * self.system.state_count + 12 * int(self.steps.tally[native.STEPS])
        )


class Sharing:
    """What the searches for the properties of one network share, one after the other."""

    def __init__(self, properties: Sequence[Property]) -> None:
        self.left = len(properties)
        self.atoms = _atoms_of(properties)
        self.stored: StoredSteps | None = None
        self.failed = False

    def begin_property(self) -> None:
        """Notes that the search for one more of the properties begins."""
        self.left -= 1

    def stored_for(self, product: Product, limits: Limits) -> StoredSteps | None:
        """The steps stored so far, on which the product may be searched; None if other properties are not
        worth storing any, or if this one needs more."""
        if self.failed or not self._fits(product, limits) or (self.stored is None and self.left == 0):
            return None
        if self.stored is None:
            self.stored = _store(product, self.atoms, limits)
        return self.stored

    def drop(self) -> None:
        """Frees the steps; nothing is stored any more."""
        self.stored, self.failed = None, True

    def _fits(self, product: Product, limits: Limits) -> bool:
        return (
            not product.is_fair
            and (limits.workers or 1) == 1
            and set(product.automaton.actions) <= set(self.atoms)
            and not inside_of(product.network, Watch(actions=product.automaton.actions)).tests
        )


def _atoms_of(properties: Sequence[Property]) -> tuple[ActionAtom, ...]:
    """The action propositions of properties of runs, as many as an entry has room for."""
    formulas = tuple(formula_of(one) for one in properties)
    found = dict.fromkeys(node for node in walk(formulas) if isinstance(node, Occurs | Silent))
    return tuple(found)[:ATOMS_MAX]


def _store(product: Product, atoms: tuple[ActionAtom, ...], limits: Limits) -> StoredSteps:
    kernel = load_kernel(product.network, Watch(actions=atoms))
    return StoredSteps(kernel, product.initial[:-1], limits.memory_max_mib, atoms)
