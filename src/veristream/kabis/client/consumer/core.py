"""The decisions of a consumer, without a clock, a socket or a thread: inputs in, outputs out.

It follows certified blocks to learn which batches were admitted and at which indices, fetches the batches
from storage parties, checks them against the admitted headers, and delivers their events in the order of
the indices. The guarantees are those of table 1 in the paper:

- `validate=True` on a validated topic: *extended*. The header's signature is verified, once per batch, and
  the events are those under its Merkle root.
- `validate=True` on a topic that is not validated: nothing is delivered.
- `validate=False`: *basic*, for both kinds. The topic's one storage party is read and trusted, in the
  order of its log and by its offsets, which are not the validated indices.

A batch that the ledger skipped is left out. A party that denies having a batch for which it gave a receipt
is asked to sign that; when all who gave receipts have signed, the consumer submits the skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from veristream.errors import ModelError
from veristream.kabis.client.consumed import Consumed, Place, decode_events
from veristream.kabis.client.consumer import outputs
from veristream.kabis.client.consumer.membership import Membership, Voice
from veristream.kabis.client.consumer.outputs import Output, Ticket
from veristream.kabis.client.consumer.plain_reading import PLAIN_BYTES, Answer, PlainReader
from veristream.kabis.client.consumer.validated_reading import (
    Patience,
    PendingBatch,
    ValidatedReader,
    explain_missing,
)
from veristream.kabis.client.errors import NoGroupError, NotAssignedError
from veristream.kabis.client.fetching import (
    Standing,
    WrongAnswerError,
    check_answer,
    find_forgery,
    origin_of,
)
from veristream.kabis.client.options import ConsumerOptions, Start
from veristream.kabis.ledger.follower import Change, Follower
from veristream.kabis.protocol.actions import CommitOffsets, Hole, LeaveGroup
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.receipts import StorageAbsence
from veristream.kabis.protocol.transactions import Author, Signed, Skip, skip

NEVER_MS = 1 << 62
EXPECTED_BYTES = 1024
"""The assumed size of an event before any has arrived; batches in flight are counted with it."""


class ConsumerCore:
    """The consumer of one client; `author` signs for its group, and is None without one."""

    def __init__(self, follower: Follower, author: Author | None, options: ConsumerOptions) -> None:
        self.follower = follower
        self.standing = Standing(options.nearest)
        self._patience = Patience(options.fetch_timeout_ms)
        self.attention = False
        self.next_ms = NEVER_MS
        self.buffered_bytes = 0
        self.delivered = 0
        self._event_bytes = EXPECTED_BYTES
        self._genesis = follower.genesis
        self._ledger = follower.ledger
        self._options = options
        self._parties = self.standing.meet(self._ledger)
        self._readers: dict[Place, ValidatedReader | PlainReader] = {}
        self._paused: set[Place] = set()
        self._topics: tuple[str, ...] = ()
        self._assigned: set[Place] | None = None
        self._started = False
        self._stale = True
        self._turn = 0
        self._voice: Voice | None = None
        self._membership: Membership | None = None
        if options.group is not None:
            if author is None:
                raise ModelError("a consumer in a group needs a key", hint="give it an author")
            self._voice = Voice(follower, author, options.submit_timeout_ms)
            self._membership = Membership(follower, self._voice, author, options.group, options.instance)
        self._consumed: dict[Place, int] = {}
        self._commit_ms = 0
        self._out: list[Output] = []

    # What to read.

    def subscribe(self, topics: Iterable[str], now_ms: int) -> list[Output]:
        """Reads these topics and no others: all of their partitions, or the group's share of them."""
        if isinstance(topics, str):
            raise ModelError(f"{topics!r} is one topic", hint=f"subscribe([{topics!r}])")
        self._topics = tuple(sorted(set(topics)))
        self._assigned, self._stale = None, True
        return self.tick(now_ms)

    def assign(self, places: Iterable[Place], now_ms: int) -> list[Output]:
        """Reads these partitions and no others, regardless of the group."""
        self._topics = ()
        self._assigned, self._stale = set(places), True
        return self.tick(now_ms)

    def unsubscribe(self, now_ms: int) -> list[Output]:
        """Stops reading, and leaves the group."""
        self._topics, self._assigned, self._stale = (), None, True
        if self._membership is not None and self._membership.member is not None:
            self.leave()
        return self.tick(now_ms)

    def leave(self) -> Ticket | None:
        """Leaves the group, if the consumer is in one."""
        self._topics = ()
        if self._voice is None or self._membership is None or self._membership.member is None:
            return None
        return self._voice.say(LeaveGroup(self._membership.group, self._membership.instance))

    def assignment(self) -> set[Place]:
        """The partitions that this consumer reads."""
        return set(self._readers)

    def _wanted_places(self) -> set[Place]:
        if self._assigned is not None:
            return self._assigned
        if self._membership is not None:
            return self._membership.assignment() if self._topics else set()
        policies = {topic: self._ledger.topic(topic) for topic in self._topics}
        return {
            (topic, partition)
            for topic, policy in policies.items()
            if policy is not None
            for partition in range(policy.partitions)
        }

    def _rebalance(self) -> None:
        """Starts to read partitions that are newly assigned, and drops those that no longer are."""
        places = self._wanted_places()
        for place in [place for place in self._readers if place not in places]:
            self.buffered_bytes -= self._readers.pop(place).drop()
            self._paused.discard(place)
            self._consumed.pop(place, None)
        for place in sorted(places - self._readers.keys()):
            self._readers[place] = self._begin(place)

    def _begin(self, place: Place) -> ValidatedReader | PlainReader:
        """Starts at the group's commit, or else where the options say."""
        committed = self.committed(place) if self._options.group is not None else None
        if not self._options.validate:
            plain = PlainReader(place)
            plain.seek_to(self._options.start, committed)
            return plain
        partition = self._ledger.partition(*place)
        start = partition.low_water if self._options.start is Start.BEGINNING else partition.next_index
        # A commit past the end is an offset of consumers that do not validate.
        index = start if committed is None or committed > partition.next_index else committed
        reader = ValidatedReader(place, index, index)
        reader.check_low_water(partition.low_water)
        return reader

    # Positions.

    def position(self, place: Place) -> int | None:
        """Returns the next index to deliver; None until the storage party has reported the end."""
        return self._reader(place).position

    def seek(self, place: Place, index: int, now_ms: int) -> list[Output]:
        """Continues from an index or offset. Raises BelowLowWaterError below the low-water mark."""
        reader = self._reader(place)
        self.buffered_bytes -= reader.drop()
        reader.seek(index)
        self._consumed.pop(place, None)
        if isinstance(reader, ValidatedReader):
            reader.check_low_water(self._ledger.partition(*place).low_water)
            if reader.failure is not None:
                raise reader.failure
        return self.tick(now_ms)

    def seek_to(self, places: Iterable[Place], start: Start, now_ms: int) -> list[Output]:
        """Continues from the beginning or the end of partitions."""
        for place in places:
            reader = self._reader(place)
            self.buffered_bytes -= reader.drop()
            self._consumed.pop(place, None)
            if isinstance(reader, PlainReader):
                reader.seek_to(start)
            else:
                partition = self._ledger.partition(*place)
                reader.seek(partition.low_water if start is Start.BEGINNING else partition.next_index)
        return self.tick(now_ms)

    def pause(self, places: Iterable[Place]) -> None:
        """Delivers nothing from these partitions until they are resumed."""
        self._paused.update(self._reader(place).place for place in places)

    def resume(self, places: Iterable[Place], now_ms: int) -> list[Output]:
        """Delivers from these partitions again."""
        self._paused.difference_update(places)
        return self.tick(now_ms)

    def paused(self) -> set[Place]:
        """The partitions that are paused."""
        return set(self._paused)

    def committed(self, place: Place) -> int | None:
        """Returns the position that the group committed in a partition, or None."""
        if self._options.group is None:
            raise NoGroupError
        return self._ledger.committed(self._options.group, *place)

    def commit(self, offsets: Mapping[Place, int] | None = None) -> Ticket:
        """Commits positions of the group to the ledger, by default those after the last delivery."""
        if self._voice is None or self._membership is None:
            raise NoGroupError
        if offsets is None:
            offsets = self._positions()
        ordered = tuple((*place, index) for place, index in sorted(offsets.items()))
        membership = self._membership
        return self._voice.say(
            CommitOffsets(membership.group, membership.instance, membership.generation, ordered)
        )

    def _positions(self) -> dict[Place, int]:
        """Returns a position that the ledger accepts, which is not past the admitted events."""
        positions = {}
        for place, reader in self._readers.items():
            policy = self._ledger.topic(place[0])
            if reader.position is not None and policy is not None:
                end = self._ledger.partition(*place).next_index
                positions[place] = min(reader.position, end) if policy.validated else reader.position
        return positions

    def _reader(self, place: Place) -> ValidatedReader | PlainReader:
        reader = self._readers.get(place)
        if reader is None:
            raise NotAssignedError(*place)
        return reader

    # Taking.

    def take(self, count_max: int) -> list[Consumed]:
        """Returns the next events, one partition after the other. Raises the failure of a partition."""
        places = [place for place in self._readers if place not in self._paused]
        self._raise_problem(places)
        self._consumed = self._positions()
        self._turn += 1
        turn = self._turn % max(1, len(places))
        taken: list[Consumed] = []
        for place in places[turn:] + places[:turn]:
            reader = self._readers[place]
            before = reader.position
            events, freed = reader.take(count_max - len(taken))
            taken += events
            self.buffered_bytes -= freed
            # Holes are passed over without an event, and there may be events behind them.
            self.attention = self.attention or reader.position != before
        self.delivered += len(taken)
        return taken

    def _raise_problem(self, places: Iterable[Place]) -> None:
        if self._membership is not None and self._membership.problem is not None:
            raise self._membership.problem
        for place in places:
            failure = self._readers[place].failure
            if failure is not None:
                raise failure

    # Inputs; each returns the outputs to perform.

    def start(self, now_ms: int) -> list[Output]:
        """The ledger has reached the height that the validators report."""
        self._started = True
        self._parties = self.standing.meet(self._ledger)
        self._commit_ms = now_ms + (self._options.auto_commit_ms or 0)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> list[Output]:
        """Time has passed, or events were taken."""
        self.attention = False
        self.next_ms = NEVER_MS
        if self._started:
            self._keep_membership(now_ms)
            if self._stale:
                self._stale = False
                self._rebalance()
            for reader in self._readers.values():
                if isinstance(reader, ValidatedReader):
                    self._refill(reader, now_ms)
                else:
                    self._ask_plain(reader, now_ms)
        return self._drain()

    def block(self, certified: CertifiedBlock, now_ms: int) -> list[Output]:
        """A block was decided. Raises FalseBlockError if it was not."""
        followed = self.follower.follow(certified, now_ms)
        if followed is None:
            return []
        if self._voice is not None:
            self._out += self._voice.heard(followed)
        for change in followed.changes:
            self._changed(change)
        for reader in self._readers.values():
            if isinstance(reader, ValidatedReader):  # an admin or retention may have raised the mark
                reader.check_low_water(self._ledger.partition(*reader.place).low_water)
        self._stale = True
        self._parties = self.standing.meet(self._ledger)
        return self.tick(now_ms)

    def _changed(self, change: Change) -> None:
        match change.transaction:
            case Skip(hole) | Signed(action=Hole() as hole):
                _, wanted = self._find((hole.topic, hole.partition), hole.first_index)
                if wanted is not None and wanted.events is None:
                    wanted.events = []
                    self._out.append(outputs.Ready())
            case _:
                pass

    def fetched(self, wanted: outputs.Fetch, answer: bytes | Absent | Below, now_ms: int) -> list[Output]:
        """A party answered the request for a batch."""
        reader, entry = self._find(wanted.place, wanted.first_index)
        if reader is None or entry is None or entry.events is not None:
            return []
        if isinstance(answer, bytes):
            try:
                self._accept(reader, entry, answer)
                if self._patience.hear(wanted.party, now_ms, entry.asked.get(wanted.party)):
                    self.standing.demote(wanted.party, now_ms)
            except WrongAnswerError as error:
                self.standing.suspect(wanted.party, wanted.digest, str(error), now_ms)
                entry.failed.add(wanted.party)
        else:
            self._missing(entry, wanted, answer, now_ms)
        self._refill(reader, now_ms)
        return self._drain()

    def fetch_failed(self, wanted: outputs.Fetch, why: str, now_ms: int) -> list[Output]:
        """A party did not answer, or sent something unreadable."""
        reader, entry = self._find(wanted.place, wanted.first_index)
        if reader is not None and entry is not None:
            self.standing.suspect(wanted.party, wanted.digest, why, now_ms)
            entry.failed.add(wanted.party)
            self._refill(reader, now_ms)
        return self._drain()

    def absent(self, wanted: outputs.AskAbsence, statement: StorageAbsence | None) -> list[Output]:
        """A party signed that it lacks a batch for which it gave a receipt; None if it did not sign."""
        _, entry = self._find(wanted.place, wanted.first_index)
        if entry is None or statement is None:
            return []
        entry.absences[wanted.party] = statement
        if not entry.confessing and entry.absences.keys() >= set(entry.admission.parties):
            entry.confessing = True
            hole = Hole(*wanted.place, wanted.first_index, entry.admission.digest)
            transaction = skip(hole, entry.absences.values()).encode()
            self._out += [
                outputs.Submit(number, transaction) for number in range(self._ledger.members.faults + 1)
            ]
        return self._drain()

    def fetched_plain(self, wanted: outputs.FetchPlain, part: Answer | None, now_ms: int) -> list[Output]:
        """Events of a topic that is not validated; None if the party did not answer."""
        place = (wanted.place.topic, wanted.place.partition)
        reader = self._readers.get(place)
        if not isinstance(reader, PlainReader):
            return []
        if part is None:
            reader.asked = None
            reader.again_ms = now_ms + self._options.retry_ms
        else:
            reader.answered(wanted.offset, part, self._options.sealers.get(place[0]))
        if reader.ready:
            self._out.append(outputs.Ready())
        self._ask_plain(reader, now_ms)
        return self._drain()

    def close(self) -> list[Output]:
        """Fails what is not on the ledger yet."""
        if self._voice is not None:
            self._out += self._voice.silence()
        return self._drain()

    # Consequences.

    def _drain(self) -> list[Output]:
        drained, self._out = self._out, []
        return drained

    def _find(self, place: Place, first_index: int) -> tuple[ValidatedReader | None, PendingBatch | None]:
        reader = self._readers.get(place)
        if not isinstance(reader, ValidatedReader):
            return None, None
        return reader, reader.find(first_index)

    def _note(self, when_ms: int) -> None:
        self.next_ms = min(self.next_ms, when_ms)

    def _refill(self, reader: ValidatedReader, now_ms: int) -> None:
        """Extends the window, and asks for each batch in it that no party is about to return."""
        options = self._options
        if reader.place in self._paused:
            return
        if reader.failure is None and len(reader.window) <= options.prefetch_batches // 2:
            room = options.prefetch_batches - len(reader.window)
            for admission in islice(self._ledger.admissions(*reader.place, reader.fetch_index), room):
                expected_bytes = admission.signed.header.count * self._event_bytes
                if reader.window and self.buffered_bytes + expected_bytes > options.buffer_bytes:
                    break
                self.buffered_bytes += expected_bytes
                reader.fetch_index = admission.next_index
                parties = self.standing.order(admission, self._parties, now_ms)
                events: list[Consumed] | None = [] if admission.skipped else None
                reader.window.append(PendingBatch(admission, parties, expected_bytes, events))
        for wanted in reader.window:
            if wanted.events is None:
                self._ask(reader, wanted, now_ms)
        if reader.ready:
            self._out.append(outputs.Ready())

    def _ask(self, reader: ValidatedReader, wanted: PendingBatch, now_ms: int) -> None:
        party = wanted.next_party(now_ms, self._patience)
        if party is not None:
            wanted.leave_late(self.standing, now_ms, self._options.fetch_timeout_ms)
            wanted.asked[party] = now_ms
            admission = wanted.admission
            self._out.append(outputs.Fetch(party, reader.place, admission.first_index, admission.digest))
        elif wanted.is_over(now_ms, self._patience):
            parties = self.standing.order(wanted.admission, self._parties, now_ms)
            wanted.begin_again(now_ms + self._options.retry_ms, parties)
        self._note(wanted.due_ms(self._patience))

    def _accept(self, reader: ValidatedReader, wanted: PendingBatch, data: bytes) -> None:
        admission = wanted.admission
        batch = check_answer(admission, data)
        reader.failure = find_forgery(admission, self._ledger, self.follower.verify)
        if reader.failure is not None:
            return
        sealer = self._options.sealers.get(reader.place[0])
        events = decode_events(batch.leaves, admission.first_index, origin_of(admission), sealer)
        if reader.position > admission.first_index:
            events = [event for event in events if event.index >= reader.position]
        wanted.events = events
        self.buffered_bytes += len(data) - wanted.size_bytes
        wanted.size_bytes = len(data)
        self._event_bytes = (3 * self._event_bytes + len(data) // len(batch.leaves)) // 4 + 1

    def _missing(
        self, wanted: PendingBatch, asked: outputs.Fetch, answer: Absent | Below, now_ms: int
    ) -> None:
        party, admission = asked.party, wanted.admission
        wanted.failed.add(party)
        if party not in admission.parties:
            return
        self.standing.suspect(party, admission.digest, explain_missing(answer), now_ms)
        last = self.follower.last
        if isinstance(answer, Absent) and last is not None and party not in wanted.absences:
            signed, where = admission.signed, (asked.place, asked.first_index)
            self._out.append(outputs.AskAbsence(party, *where, signed, last.certificate))

    def _ask_plain(self, reader: PlainReader, now_ms: int) -> None:
        if reader.place in self._paused or not reader.wants_more:
            return
        if reader.again_ms > now_ms:
            self._note(reader.again_ms)
            return
        place = PartitionName(*reader.place)
        party = self._ledger.memberships.party_of(place.topic)
        wait_ms = 0 if reader.position is None else self._options.wait_ms
        self._out.append(outputs.FetchPlain(party, place, reader.ask(), PLAIN_BYTES, wait_ms))

    def _keep_membership(self, now_ms: int) -> None:
        if self._voice is None or self._membership is None:
            return
        if self._topics:
            self._note(self._membership.keep(self._topics, self._options.session_ms, now_ms))
            self._out += self._membership.point_out(now_ms)
            self._commit_in_time(now_ms)
        wanted, again_ms = self._voice.advance(now_ms)
        self._out += wanted
        if again_ms is not None:
            self._note(again_ms)

    def _commit_in_time(self, now_ms: int) -> None:
        """Commits what earlier pulls delivered, because the program has processed those events."""
        every_ms = self._options.auto_commit_ms
        if every_ms is None:
            return
        if self._commit_ms <= now_ms:
            self._commit_ms = now_ms + every_ms
            news = {
                place: index
                for place, index in self._consumed.items()
                if place in self._readers and self.committed(place) != index
            }
            if news and self._voice is not None and not self._voice.is_saying(CommitOffsets):
                self.commit(news)
        self._note(self._commit_ms)
