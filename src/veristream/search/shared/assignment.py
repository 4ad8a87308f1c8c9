"""What a worker needs to know to explore its part: the network as text, and what to watch for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.state import initial_state
from veristream.ir.text.printer import print_network
from veristream.ir.text.read import read_network
from veristream.kernel.layout import Row, encode, lay_out
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach.batch import Batch, batches, code_of
from veristream.search.shared.contract import SharedPart
from veristream.search.shared.state_part import Part
from veristream.source import Source

COVERING = "zones that simulate a zone cover it"
"""Which zones a timed search keeps. A checkpoint of another rule cannot be continued: nodes would get other
numbers."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An empty part, the initial state, and the kernel, which owns the native code that the part uses."""

    part: SharedPart
    initial: Row
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Assignment:
    """A search to share. It travels as text, with a digest to check that the worker reads the same network.

    The worker calls `open_part` to create its numbered part.
    """

    open_part: Callable[[Assignment, int], Opened]
    text: str
    digest: str
    part_count: int
    memory_max_mib: int | None
    spill_folder: str | None = None
    reduced: bool = False  # by symmetry
    reach: int = 0  # of a measured clock

    def network(self, watch_of: Callable[[Network], Watch]) -> Network:
        """Returns the network; asserts that it is the one that the assignment was made for."""
        network = read_network(Source("<network>", self.text), {})
        digest = digest_of(network, watch_of(network), self.reduced, self.reach)
        assert digest == self.digest, "the worker reads another network"
        return network


def only_with(network: Network, properties: Sequence[Property]) -> Network:
    """Returns the network with these properties only."""
    return replace(network, properties=tuple(properties))


def digest_of(network: Network, watch: Watch, reduced: bool = False, reach: int = 0) -> str:
    """Returns a digest of all that must be equal on all machines; kernels may differ between machines.
    The network has only the properties that are searched for."""
    parts: list[object] = [print_network(network), watch, lay_out(network), reduced, reach]
    if network.timed:
        parts.append(COVERING)
    return sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:40]


def make_assignment(
    network: Network,
    batch: Batch,
    reduced: bool,
    part_count: int,
    memory_max_mib: int | None,
    spill_folder: str | None = None,
) -> Assignment:
    """Returns the assignment for the safety properties of one batch."""
    mine = only_with(network, [case.property for case in batch.cases])
    text, digest = print_network(mine), digest_of(mine, batch.watch(), reduced)
    return Assignment(_open_states, text, digest, part_count, memory_max_mib, spill_folder, reduced)


def _open_states(assignment: Assignment, number: int) -> Opened:
    """Returns the numbered part of a state space, with its kernel compiled or loaded."""
    network = assignment.network(lambda read: _only(read).watch())
    batch = _only(network)
    watch, plan = batch.watch(), batch.plan()
    kernel = load_kernel(network, watch)
    code = code_of(kernel, plan, assignment.reduced)
    limits = (assignment.memory_max_mib, assignment.spill_folder)
    part = Part(code, kernel.layout.word_count, plan, number, assignment.part_count, *limits)
    part.orbit = kernel.orbit
    return Opened(part, encode(kernel.layout, network, initial_state(network)), kernel)


def _only(network: Network) -> Batch:
    found = batches(network.properties)
    assert len(found) == 1, "an assignment has one batch"
    return found[0]
