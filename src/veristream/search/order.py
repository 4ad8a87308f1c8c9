"""What a worker has to know to explore its part: the network as text, and what to watch for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from veristream.ir.network import Network
from veristream.ir.read import read_network
from veristream.ir.state import initial_state
from veristream.ir.text import print_network
from veristream.kernel.emit import Watch
from veristream.kernel.layout import Row, encode, lay_out
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.part import Part
from veristream.search.safety import Batch, batches, code_of
from veristream.source import Source


@dataclass(frozen=True, slots=True)
class Order:
    """A search to share: it travels as text, and its digest tells whether it arrived whole."""

    text: str
    properties: tuple[str, ...]
    digest: str
    reduced: bool
    part_count: int
    memory_max_mib: int | None
    spill_folder: str | None = None


def make_order(
    network: Network,
    batch: Batch,
    reduced: bool,
    part_count: int,
    memory_max_mib: int | None,
    spill_folder: str | None = None,
) -> Order:
    """The order for the properties of one batch."""
    properties = tuple(case.property for case in batch.cases)
    text = print_network(replace(network, properties=properties))
    digest = _digest(network, batch.watch())
    names = tuple(one.name for one in properties)
    return Order(text, names, digest, reduced, part_count, memory_max_mib, spill_folder)


@dataclass(frozen=True, slots=True)
class Opened:
    """A part with the kernel whose code it runs."""

    part: Part
    kernel: Kernel
    initial: Row


def open_part(order: Order, number: int) -> Opened:
    """The numbered part, with its kernel compiled or loaded."""
    network = read_network(Source("<network>", order.text), {})
    batch = _only(batches(network.properties))
    watch, plan = batch.watch(), batch.plan()
    assert _digest(network, watch) == order.digest, "the worker reads the network in another way"
    kernel = load_kernel(network, watch)
    code = code_of(kernel, plan, order.reduced)
    limits = (order.memory_max_mib, order.spill_folder)
    part = Part(code, kernel.layout.word_count, plan, number, order.part_count, *limits)
    return Opened(part, kernel, encode(kernel.layout, network, initial_state(network)))


def _digest(network: Network, watch: Watch) -> str:
    """Of all that must be alike wherever a part is explored: not of the kernel, since machines differ."""
    parts = (replace(network, properties=()), watch, lay_out(network))
    return sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:40]


def _only(found: Sequence[Batch]) -> Batch:
    assert len(found) == 1, "an order is for one batch"
    return found[0]
