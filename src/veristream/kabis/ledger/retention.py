"""Retention: how much of a topic the ledger keeps, a setting that admins order.

Whenever a batch is admitted to a partition, its oldest batches beyond the topic's limits are released: the
low-water mark rises above them, and the ledger forgets them. So the state stays bounded, and every replica
releases the same batches with the same block. A partition that gets no batches releases none, and the last
batch always stays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from veristream.kabis.ledger.state import Admission, State
from veristream.kabis.protocol.actions import Retention, SetRetention
from veristream.kabis.protocol.outcomes import Already, Done, Outcome, Reason, require

RELEASED_MAX = 16
"""How many batches one admission releases at most, which bounds its work if the limits were lowered."""
NO_RETENTION = Retention(0, 0)

Place = tuple[str, int]


def set_retention(state: State, action: SetRetention) -> Outcome:
    """Sets the limits of a topic."""
    require(state.version >= 2, Reason.OLD_VERSION, "retention needs version 2")
    require(state.topics.get(action.topic) is not None, Reason.UNKNOWN_TOPIC, action.topic)
    if (state.retentions.get(action.topic) or NO_RETENTION) == action.retention:
        return Already()
    if action.retention == NO_RETENTION:
        state.retentions.drop(action.topic)
    else:
        state.retentions.put(action.topic, action.retention)
    return Done()


def retain(state: State, place: Place, time_ms: int) -> None:
    """Releases the oldest batches of a partition that are beyond its topic's limits."""
    retention = state.retentions.get(place[0])
    if retention is None:
        return
    partition = state.partitions.get(place)
    assert partition is not None, "a batch without its partition"
    oldest = partition.oldest
    for _ in range(RELEASED_MAX):
        admission = state.admissions.get((*place, oldest))
        assert admission is not None, "an index without its batch"
        kept = state.kept.get(place) or 0
        if not _is_beyond(retention, kept, time_ms - admission.time_ms):
            break
        drop_oldest(state, place, admission)
        oldest = admission.next_index
    if oldest != partition.oldest:
        low_water = max(partition.low_water, oldest)
        state.partitions.put(place, replace(partition, low_water=low_water, oldest=oldest))


class KeptBatches:
    """The batches that the ledger keeps of one partition, for those who follow blocks without a ledger.

    It releases a batch with the same block as the ledger, or later if it has not seen all batches.
    """

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._ends = array("Q")
        self._times = array("Q")

    def admit(self, next_index: int, time_ms: int, retention: Retention) -> int:
        """Adds the batch that ends at an index; returns the index below which it releases everything."""
        self._ends.append(next_index)
        self._times.append(time_ms)
        count, released = len(self._ends), 0
        while released < RELEASED_MAX and _is_beyond(
            retention, count - released, time_ms - self._times[released]
        ):
            released += 1
        mark = self._ends[released - 1] if released else 0
        self.let_go(mark)
        return mark

    def columns(self) -> tuple[bytes, ...]:
        """Returns everything as bytes, for `restore`."""
        return self._ends.tobytes(), self._times.tobytes()

    def restore(self, columns: Sequence[bytes]) -> None:
        """Takes over columns; raises ValueError if they do not fit together."""
        ends, times = columns
        self._ends, self._times = array("Q", ends), array("Q", times)
        if len(ends) != len(times):
            raise ValueError("columns of different lengths")

    def let_go(self, index: int) -> None:
        """Forgets the batches wholly below an index."""
        count = bisect_right(self._ends, index)
        if count:
            del self._ends[:count]
            del self._times[:count]


def _is_beyond(retention: Retention, kept: int, age_ms: int) -> bool:
    """Returns whether the oldest of the batches kept is to be released; never the last one."""
    return kept > 1 and (0 < retention.batches < kept or 0 < retention.kept_ms < age_ms)


def drop_oldest(state: State, place: Place, admission: Admission) -> None:
    """Forgets the oldest batch of a partition."""
    header = admission.signed.header
    state.admissions.drop((*place, admission.first_index))
    state.sequences.drop((header.producer, *place, header.first_sequence))
    state.kept.put(place, (state.kept.get(place) or 0) - 1)
