"""How workers divide the zones of a timed network, in native code.

The fingerprint of a discrete state decides which part it belongs to, together with all its zones, so that
the owner alone compares zones of a state. Zones that a worker finds for other parts wait in one outbox
each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.zones import includes
from veristream.native.loop import loop
from veristream.native.primitives import load_word
from veristream.search.reach.visited import same_row

# Counters of a part; the last two are the end of its level, and the depth of the zones that arrive.
SENT, SPARED, LEVEL_END, COMING, SHARING_TALLY = range(5)


class ZoneSharing(NamedTuple):
    """How zones are divided, and the records that wait for other parts.

    A record is a row, a zone in whole words, the number of its parent and the entry that led to it.
    `lately` remembers zones that were sent recently: a zone that one of them includes is not sent.
    """

    part: int
    part_count: int
    owners: NDArray[np.uint16]  # the part of each own node's parent
    outboxes: NDArray[np.int64]  # the records of each part, one after the other
    outbox_bounds: NDArray[np.int32]  # the same memory, to write zones into
    used: NDArray[np.int64]  # per part: records in its outbox
    lately: NDArray[np.int64]  # rows with a zone each, by fingerprint
    lately_bounds: NDArray[np.int32]  # the same memory
    tally: NDArray[np.int64]


@loop
def zone_words(n: int) -> int:
    """The words that a zone takes."""
    return (n * n + 1) >> 1


@loop
def record_words(word_count: int, n: int) -> int:
    """The words of a record."""
    return word_count + zone_words(n) + 2


@loop
def _write(words, bounds, at, word_count, n, row, zone):  # type: ignore[no-untyped-def]
    """Writes a row and a zone from the numbered word on."""
    for k in range(word_count):
        words[at + k] = load_word(row + 8 * k)
    first = 2 * (at + word_count)
    for k in range(n * n):
        bounds[first + k] = zone[k]


@loop
def _is_known(sharing, word_count, n, row, print_, zone):  # type: ignore[no-untyped-def]
    """Whether a zone that includes this one was sent recently; remembers this one if not."""
    size = word_count + zone_words(n) + 1  # the last word says that something is there
    places = sharing.lately.size // size
    at = size * ((print_ & 0xFFFFFFFF) * places >> 32)
    if sharing.lately[at + size - 1] != 0 and same_row(
        sharing.lately.ctypes.data + 8 * at, row, word_count
    ):
        first = 2 * (at + word_count)
        if includes(sharing.lately_bounds[first : first + n * n], zone, n):
            return True
    _write(sharing.lately, sharing.lately_bounds, at, word_count, n, row, zone)
    sharing.lately[at + size - 1] = 1
    return False


@loop
def send_zone(sharing, word_count, n, row, print_, zone, parent, entry, owner):  # type: ignore[no-untyped-def]
    """Puts the zone into its owner's outbox, unless one that includes it was sent recently; returns False
    if there is no room."""
    size = record_words(word_count, n)
    room = sharing.outboxes.size // sharing.part_count
    if (sharing.used[owner] + 1) * size > room:
        return False
    if _is_known(sharing, word_count, n, row, print_, zone):
        sharing.tally[SPARED] += 1
        return True
    at = owner * room + sharing.used[owner] * size
    _write(sharing.outboxes, sharing.outbox_bounds, at, word_count, n, row, zone)
    sharing.outboxes[at + size - 2] = parent
    sharing.outboxes[at + size - 1] = entry
    sharing.used[owner] += 1
    sharing.tally[SENT] += 1
    return True
