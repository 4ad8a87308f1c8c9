"""Rows: states as a fixed number of 64-bit words.

Every value is stored as its distance from the low end of its range, in as few bits as possible, and never
straddles two words. The elements of an array have a width that is a power of two, so an index becomes a
shift. A queue has one array element per message part: message k of the part is at bit k times the part's
width, so removing the oldest message is one shift to the right. Unused bits are always 0, so a state has
exactly one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from veristream.ir.expr import Type
from veristream.ir.network import ChannelKind, Network, all_variables
from veristream.ir.state import State

Row = NDArray[np.uint64]
WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """The position of `count` elements of `width` bits: element i begins `shift` + i * `width` bits after
    the start of word `word`. `low` is the value that is stored as 0."""

    word: int
    shift: int
    width: int
    count: int
    low: int

    def place(self, index: int) -> tuple[int, int]:
        """Returns word and shift of an element."""
        bit = self.shift + index * self.width
        return self.word + bit // WORD_BITS, bit % WORD_BITS


@dataclass(frozen=True, slots=True)
class QueuePart:
    """One part of a channel's messages: message k is in `chunks[k // per_chunk]`, at bit
    (k % per_chunk) * `width`; each chunk has one element per channel of an array."""

    chunks: tuple[Slot, ...]
    per_chunk: int
    width: int
    low: int


@dataclass(frozen=True, slots=True)
class QueueSlots:
    """A buffered channel: its lengths and its parts."""

    length: Slot
    parts: tuple[QueuePart, ...]
    capacity: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is in a row; a location's number is its position, and idle comes after the last."""

    word_count: int
    variables: dict[str, Slot]
    queues: dict[str, QueueSlots]
    locations: tuple[Slot, ...]
    idle: tuple[int, ...]  # per component: the number that means idle


def width_of(low: int, high: int) -> int:
    """Returns the number of bits needed for low..high."""
    return (high - low).bit_length()


def _power_of_two(width: int) -> int:
    return 0 if width == 0 else 1 << (width - 1).bit_length()


@dataclass(slots=True)
class _Packer:
    """Allocates places; parts smaller than a word go into the first word with room."""

    free: list[int]  # bits used of each word

    def place(self, width: int, count: int, low: int) -> Slot:
        if count > 1:
            width = _power_of_two(width)
        bits = width * count
        if bits > WORD_BITS:
            word = len(self.free)
            self.free += [WORD_BITS] * -(-bits // WORD_BITS)
            return Slot(word, 0, width, count, low)
        for word, used in enumerate(self.free):
            if used + bits <= WORD_BITS:
                self.free[word] = used + bits
                return Slot(word, used, width, count, low)
        self.free.append(bits)
        return Slot(len(self.free) - 1, 0, width, count, low)


def lay_out(network: Network) -> Layout:
    """Assigns a place to every part of the network's state, largest parts first."""
    wanted: list[tuple[int, int, int, object]] = []  # width, count, low, key
    for variable in all_variables(network):
        size = prod(variable.shape)
        width = width_of(variable.type.low, variable.type.high)
        wanted.append((width, size, variable.type.low, variable.name))
    for channel in network.channels:
        if channel.kind is ChannelKind.BUFFER:
            size = prod(channel.shape)
            wanted.append((width_of(0, channel.capacity), size, 0, (channel.name, "length")))
            for part, type_ in enumerate(channel.fields):
                for chunk, width in enumerate(_chunk_widths(type_, channel.capacity)):
                    wanted.append((width, size, 0, (channel.name, part, chunk)))
    slots_that_idle = _can_idle(network)
    for position, component in enumerate(network.components):
        last = len(component.locations) - (component.name not in slots_that_idle)
        wanted.append((width_of(0, last), 1, 0, position))
    packer = _Packer([])
    placed: dict[object, Slot] = {}
    for width, count, low, key in sorted(wanted, key=lambda want: -_bits(want[0], want[1])):
        placed[key] = packer.place(width, count, low)
    return Layout(
        max(1, len(packer.free)),
        {variable.name: placed[variable.name] for variable in all_variables(network)},
        _queues(network, placed),
        tuple(placed[position] for position in range(len(network.components))),
        tuple(len(component.locations) for component in network.components),
    )


def used_bits(layout: Layout) -> int:
    """Returns how many bits of the first word are used, from the lowest on."""
    slots = [*layout.variables.values(), *layout.locations]
    for queue in layout.queues.values():
        slots += [queue.length, *(chunk for part in queue.parts for chunk in part.chunks)]
    ends = [slot.shift + slot.width * slot.count for slot in slots if slot.word == 0]
    return min(WORD_BITS, max(ends, default=0))


def _can_idle(network: Network) -> set[str]:
    """Returns the components that can be idle; the others need no number for it."""
    edges = [edge for component in network.components for edge in component.edges]
    stopped = {name for edge in edges for name in edge.join + edge.kill}
    return stopped | {component.name for component in network.components if component.idle}


def _bits(width: int, count: int) -> int:
    return (_power_of_two(width) if count > 1 else width) * count


def _per_chunk(width: int, capacity: int) -> int:
    return capacity if width == 0 else min(capacity, WORD_BITS // width)


def _chunk_widths(type_: Type, capacity: int) -> list[int]:
    width = width_of(type_.low, type_.high)
    per_chunk = _per_chunk(width, capacity)
    return [min(per_chunk, capacity - first) * width for first in range(0, capacity, per_chunk)]


def _queues(network: Network, placed: dict[object, Slot]) -> dict[str, QueueSlots]:
    queues = {}
    for channel in network.channels:
        if channel.kind is not ChannelKind.BUFFER:
            continue
        parts = []
        for part, type_ in enumerate(channel.fields):
            width = width_of(type_.low, type_.high)
            count = len(_chunk_widths(type_, channel.capacity))
            chunks = tuple(placed[channel.name, part, chunk] for chunk in range(count))
            parts.append(QueuePart(chunks, _per_chunk(width, channel.capacity), width, type_.low))
        length = placed[channel.name, "length"]
        queues[channel.name] = QueueSlots(length, tuple(parts), channel.capacity)
    return queues


def encode(layout: Layout, network: Network, state: State) -> Row:
    """Encodes a state as a row."""
    words = [0] * layout.word_count
    position = 0
    for variable in all_variables(network):
        slot = layout.variables[variable.name]
        for index in range(slot.count):
            _put(words, slot, index, state.values[position] - slot.low)
            position += 1
    for (name, index), queue in zip(_queue_places(network), state.queues, strict=True):
        slots = layout.queues[name]
        _put(words, slots.length, index, len(queue))
        for k, message in enumerate(queue):
            for part, value in zip(slots.parts, message, strict=True):
                chunk, offset = divmod(k, part.per_chunk)
                stored = (value - part.low) << (offset * part.width)
                _put(words, part.chunks[chunk], index, stored)
    for component, location in enumerate(state.locations):
        number = layout.idle[component] if location < 0 else location
        _put(words, layout.locations[component], 0, number)
    return np.array(words, dtype=np.uint64)


def decode(layout: Layout, network: Network, row: Row) -> State:
    """Decodes a row to a state."""
    words = [int(word) for word in row]
    values = tuple(
        _get(words, layout.variables[variable.name], index) + layout.variables[variable.name].low
        for variable in all_variables(network)
        for index in range(layout.variables[variable.name].count)
    )
    queues = []
    for name, index in _queue_places(network):
        slots = layout.queues[name]
        messages = []
        for k in range(_get(words, slots.length, index)):
            message = []
            for part in slots.parts:
                chunk, offset = divmod(k, part.per_chunk)
                stored = _get(words, part.chunks[chunk], index) >> (offset * part.width)
                message.append((stored & ((1 << part.width) - 1)) + part.low)
            messages.append(tuple(message))
        queues.append(tuple(messages))
    numbers = [_get(words, slot, 0) for slot in layout.locations]
    locations = tuple(
        -1 if number == idle else number for number, idle in zip(numbers, layout.idle, strict=True)
    )
    return State(values, tuple(queues), locations)


def _queue_places(network: Network) -> list[tuple[str, int]]:
    return [
        (channel.name, index)
        for channel in network.channels
        if channel.kind is ChannelKind.BUFFER
        for index, _ in enumerate(product(*(range(n) for n in channel.shape)))
    ]


def _put(words: list[int], slot: Slot, index: int, stored: int) -> None:
    """Stores the bits at a place that is still 0."""
    word, shift = slot.place(index)
    if slot.width:
        words[word] |= stored << shift


def _get(words: list[int], slot: Slot, index: int) -> int:
    word, shift = slot.place(index)
    return (words[word] >> shift) & ((1 << slot.width) - 1) if slot.width else 0
