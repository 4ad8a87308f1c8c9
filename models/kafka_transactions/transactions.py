"""Kafka's transactions: one transactional id, before and after KIP-890.

Several producers share one transactional id; each call of InitProducerId fences the earlier producers,
which are then zombies. A coordinator keeps the transaction's state in the transaction log. The partitions
keep records and, per producer id, the epoch and whether a transaction is open. The last partition holds
the consumer group's offsets: consumed offsets are committed together with produced records.

Three constants say how much of KIP-890 is in force, as in Kafka 4.1:

- CLIENT and VERSION. The newer protocol needs both: a client that speaks it (Produce 12, EndTxn 5) and the
  feature transaction.version=2. Every end of a transaction then increments the epoch, markers carry the
  new one, and a write adds its partition implicitly, through the leader's request to the coordinator.
  Otherwise the producer adds a partition with AddPartitionsToTxn before it writes there, and keeps its
  epoch from one transaction to the next. Version 1 only changes the format of the transaction log.
- VERIFY. Before a record of the older protocol opens a transaction, the leader asks the coordinator whether
  the transaction is ongoing there. In both protocols it holds a guard that a marker removes; without
  VERIFY no guard is compared.

BUMP is KIP-360: a producer that has given up a write asks for a new epoch once the abort is answered. The
newer protocol does not need it.

A partition refuses an old epoch with INVALID_PRODUCER_EPOCH (47), and so does a leader that the coordinator
answers with PRODUCER_FENCED. If the epoch is current but the transaction is not ongoing at the partition,
the error is INVALID_TXN_STATE (48), or TRANSACTION_ABORTABLE (120) as of Produce 11.

The model omits what the properties do not need: sequence numbers (a late write is assumed to be next in
sequence), more than one write of a transaction to a partition, and exhausted epochs (`init_pid_faults`
has those).
"""

from veristream.actions import *

CLIENT = constant(0)  # 0: speaks the older protocol to every broker; 1: the newer one, where it can
VERSION = constant(0)  # transaction.version of the cluster: 0, 1 or 2
VERIFY = constant(False)  # transaction.partition.verification.enable
BUMP = constant(False)  # 1: a producer takes a new epoch after it has given up a write
PRODUCERS = constant(2)  # sharing the transactional id; later ones fence earlier ones
TRANSACTIONS = constant(2)  # the total of all producers
PARTITIONS = constant(2)  # the last one holds the consumer group's offsets
FAILOVERS = constant(0)  # of the coordinator
GUARD = constant(1)  # 0: a leader does not notice a marker that arrives after its request
SAME_EPOCH = constant(1)  # 0: a leader takes any open transaction for that of the current write
STEERED = constant(False)  # 1: only runs that a proxy beside the client can steer: see `is_due`
READ_COMMITTED = constant(True)  # isolation.level of the consumer; 0: read_uncommitted

EPOCH_MAX = PRODUCERS * (1 + FAILOVERS) + TRANSACTIONS - 1
LOG_MAX = 2 * TRANSACTIONS + FAILOVERS
MARKERS_MAX = TRANSACTIONS + FAILOVERS


class Phase(Enum):
    """The phases of a producer; in those with -ING it waits for the coordinator."""

    NEW = 0
    INITIALIZING = 1
    READY = 2
    IN_TRANSACTION = 3
    ADDING = 4
    COMMITTING = 5
    ABORTING = 6
    FENCED = 7
    GIVING_UP = 8  # aborts a transaction with a write that was not acknowledged, and then takes a new epoch


class State(Enum):
    """The coordinator's states of a transaction."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class Fate(Enum):
    """The coordinator's decision about a transaction."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2


class Api(Enum):
    """The requests to the coordinator."""

    INIT_PRODUCER_ID = 0
    ADD_PARTITION = 1
    END_COMMIT = 2
    END_ABORT = 3


class Kind(Enum):
    """The records in a partition."""

    DATA = 0
    COMMIT = 1
    ABORT = 2


class Entry(Record):
    """A record of a log; `transaction` is the one in which it was written, 0 for markers."""

    kind: Kind
    transaction: Int[0, TRANSACTIONS]


# Ghost variables: an observer's knowledge of each transaction, on which no action depends.
begun: Int[0, TRANSACTIONS] = 0
fate: Map[Int[1, TRANSACTIONS], Fate] = Fate.OPEN


class Partition(Role, count=PARTITIONS):
    """A partition's leader: the log, and its state for the one producer id."""

    log: Seq[Entry, LOG_MAX] = []
    stable: Int[0, LOG_MAX] = 0  # the last stable offset; a transaction is open if it is not the end
    epoch: Int[-1, EPOCH_MAX] = -1
    generation: Int[0, FAILOVERS] = 0
    marked: Int[0, MARKERS_MAX] = 0  # the number of markers written; each invalidates earlier guards

    @action
    def verify_write(self):
        """KIP-890: before a write opens a transaction, the leader asks the coordinator."""
        write = any_of(writes)
        require(asks() and is_due(write) and write.to == self and write.guard is None)
        require(write.epoch >= self.epoch and not is_open_to(self, write))
        require(
            not is_newer() or write.epoch != Coordinator[0].epoch or not is_ending(Coordinator[0].state)
        )
        writes.remove(write)
        if is_allowed(write):
            if is_newer():
                Coordinator[0].include({one for one in Partition if one == self}, write.transaction)
            writes.add(replace(write, guard=self.marked))

    @action
    def append_write(self):
        """Appends a write to the log and acknowledges it; the first one opens a transaction."""
        write = any_of(writes)
        require(is_due(write) and write.to == self and write.epoch >= self.epoch)
        require(not asks() or is_open_to(self, write) or holds_guard(self, write))
        writes.remove(write)
        self.log.append(Entry(Kind.DATA, write.transaction))
        self.epoch = write.epoch
        if write.sender.transaction == write.transaction:
            write.sender.acked.add(self)

    @action
    def refuse_write(self):
        """Refuses a write with an old epoch or an invalid guard."""
        write = any_of(writes)
        require(is_due(write) and write.to == self)
        require(
            write.epoch < self.epoch
            or (write.guard is not None and not is_open_to(self, write) and not holds_guard(self, write))
        )
        writes.remove(write)

    @action(fair="weak")
    def write_marker(self):
        """Ends the transaction and advances the last stable offset; fences an old coordinator."""
        marker = any_of(markers)
        require(marker.to == self)
        markers.remove(marker)
        if marker.generation >= self.generation and marker.epoch >= self.epoch:
            self.log.append(Entry(marker.kind, 0))
            self.stable = len(self.log)
            self.epoch = marker.epoch
            self.generation = marker.generation
            self.marked += 1
            if marker.generation == Coordinator[0].generation:
                Coordinator[0].unmarked.discard(self)


def is_newer():
    """Whether the newer protocol is spoken, in which each transaction has its own epoch."""
    return CLIENT == 1 and VERSION == 2


def asks():
    """Whether a leader asks the coordinator before a write opens a transaction."""
    return is_newer() or VERIFY


def is_due(write):
    """Whether the write may arrive. In a steered run it does so only while its sender is in no call."""
    return not STEERED or not is_waiting(write.sender.phase)


def is_open(partition):
    """Whether records wait for a marker."""
    return partition.stable < len(partition.log)


def is_open_to(partition, write):
    """Whether the open transaction is the write's own, so that the leader need not ask."""
    return is_open(partition) and (SAME_EPOCH == 0 or write.epoch == partition.epoch)


def is_ending(state):
    return state in [State.PREPARE_COMMIT, State.PREPARE_ABORT]


def is_allowed(write):
    """The coordinator's answer to a leader: whether the write's transaction is ongoing at the partition."""
    if is_newer():
        return write.epoch == Coordinator[0].epoch
    return (
        write.epoch == Coordinator[0].epoch
        and Coordinator[0].state == State.ONGOING
        and write.to in Coordinator[0].partitions
    )


def holds_guard(partition, write):
    """Whether the coordinator has approved the write and no marker was written since."""
    return write.guard is not None and (GUARD == 0 or not VERIFY or write.guard == partition.marked)


class Producer(Role, count=PRODUCERS):
    phase: Phase = Phase.NEW
    epoch: Int[-1, EPOCH_MAX] = -1
    transaction: Int[0, TRANSACTIONS] = 0
    adding: Maybe[Partition] = None
    added: Set[Partition] = set()
    sent: Set[Partition] = set()
    acked: Set[Partition] = set()

    @action(fair="weak")
    def initialize(self):
        """Asks for the producer id and a new epoch; in a fixed order, since producers are symmetric."""
        require(self.phase == Phase.NEW)
        require(all(other.phase != Phase.NEW for other in Producer if other.id < self.id))
        self.phase = Phase.INITIALIZING
        self.ask()

    @action
    def begin_transaction(self):
        global begun
        require(self.phase == Phase.READY and begun < TRANSACTIONS)
        begun += 1
        self.transaction = begun
        self.phase = Phase.IN_TRANSACTION

    @action
    def add_partition(self, partition: Partition):
        """AddPartitionsToTxn, which the older protocol requires of the producer."""
        require(not is_newer() and self.phase == Phase.IN_TRANSACTION and partition not in self.added)
        self.phase = Phase.ADDING
        self.adding = partition
        self.ask()

    @action
    def produce(self, partition: Partition):
        """Sends a write, or, to the last partition, the consumed offset."""
        require(self.phase == Phase.IN_TRANSACTION and partition not in self.sent)
        require(is_newer() or partition in self.added)
        self.sent.add(partition)
        writes.add(Write(partition, self, self.epoch, self.transaction))

    @action
    def commit(self):
        """Requires that everything sent is acknowledged."""
        require(self.phase == Phase.IN_TRANSACTION and self.sent != set() and self.acked == self.sent)
        self.phase = Phase.COMMITTING
        self.ask()

    @action
    def abort(self):
        """Possible at any time, also when the producer gives up waiting for an acknowledgement."""
        require(self.phase == Phase.IN_TRANSACTION and (is_newer() or self.added != set()))
        gives_up = BUMP and not is_newer() and self.acked != self.sent
        self.phase = Phase.GIVING_UP if gives_up else Phase.ABORTING
        self.ask()

    @action(fair="weak")
    def receive_answer(self):
        answer = any_of(answers)
        require(answer.to == self)
        answers.remove(answer)
        if not answer.ok:
            self.phase = Phase.FENCED
            self.leave_transaction()
        elif self.phase == Phase.ADDING:
            self.phase = Phase.IN_TRANSACTION
            self.added = self.added | {partition for partition in Partition if partition == self.adding}
            self.adding = None
        elif self.phase == Phase.GIVING_UP:
            self.phase = Phase.INITIALIZING
            self.leave_transaction()
            self.ask()
        else:
            self.phase = Phase.READY
            self.epoch = answer.epoch
            self.leave_transaction()

    @action(fair="weak")
    def retry(self):
        """Asks again after the answer was lost."""
        require(is_waiting(self.phase))
        require(all(call.sender != self for call in calls))
        require(all(answer.to != self for answer in answers))
        self.ask()

    def ask(self):
        calls.add(Call(request_of(self.phase), self, self.epoch, self.adding))

    def leave_transaction(self):
        self.transaction = 0
        self.adding = None
        self.added.clear()
        self.sent.clear()
        self.acked.clear()


def is_waiting(phase):
    """Whether a producer waits for the coordinator."""
    return phase in [Phase.INITIALIZING, Phase.ADDING, Phase.COMMITTING, Phase.ABORTING, Phase.GIVING_UP]


def request_of(phase):
    if phase == Phase.INITIALIZING:
        return Api.INIT_PRODUCER_ID
    if phase == Phase.ADDING:
        return Api.ADD_PARTITION
    return Api.END_COMMIT if phase == Phase.COMMITTING else Api.END_ABORT


class Call(Record):
    """A request from a producer to the coordinator."""

    api: Api
    sender: Producer
    epoch: Int[-1, EPOCH_MAX]
    partition: Maybe[Partition] = None


class Answer(Record):
    """The coordinator's answer."""

    to: Producer
    ok: bool
    epoch: Int[-1, EPOCH_MAX]


class Write(Record):
    """A produce request; `guard` is set by the leader once the coordinator has approved."""

    to: Partition
    sender: Producer
    epoch: Int[-1, EPOCH_MAX]
    transaction: Int[1, TRANSACTIONS]
    guard: Maybe[Int[0, MARKERS_MAX]] = None


class Marker(Record):
    """A request to end the transaction at a partition, from the coordinator of a generation."""

    to: Partition
    kind: Kind
    epoch: Int[-1, EPOCH_MAX]
    generation: Int[0, FAILOVERS]


calls: Bag[Call, PRODUCERS] = []
answers: Bag[Answer, PRODUCERS] = []
writes: Bag[Write, PARTITIONS * TRANSACTIONS] = []
markers: Bag[Marker, PARTITIONS * (FAILOVERS + 1)] = []


class Coordinator(Role):
    """The transaction coordinator; the transaction log holds its state except `unmarked`."""

    generation: Int[0, FAILOVERS] = 0
    state: State = State.EMPTY
    epoch: Int[-1, EPOCH_MAX] = -1
    previous: Int[-1, EPOCH_MAX] = -1  # of the last executed EndTxn, to recognise its repetition
    transaction: Int[0, TRANSACTIONS] = 0
    partitions: Set[Partition] = set()
    unmarked: Set[Partition] = set()  # have not yet acknowledged the marker

    @action(fair="weak")
    def grant_producer_id(self):
        """InitProducerId without an active transaction: increments the epoch, which fences the others.

        A producer that has an epoch sends it along, and is itself refused if it was fenced.
        """
        call = any_of(calls)
        require(call.api == Api.INIT_PRODUCER_ID and (is_idle(self.state) or is_fenced(call)))
        calls.remove(call)
        if not is_fenced(call) and (call.epoch == -1 or call.epoch == self.epoch):
            self.epoch += 1
            self.previous = call.epoch
            self.state = State.EMPTY
        answers.add(Answer(call.sender, not is_fenced(call), self.epoch))

    @action(fair="weak")
    def fence_ongoing(self):
        """InitProducerId during a transaction: aborts it first, while the caller waits."""
        call = any_of(calls)
        require(call.api == Api.INIT_PRODUCER_ID and self.state == State.ONGOING and not is_fenced(call))
        self.end_by_itself()

    @action(fair="weak")
    def time_out(self):
        """Aborts a transaction that takes too long, with a new epoch, which fences its producer."""
        require(self.state == State.ONGOING)
        self.end_by_itself()

    @action(fair="weak")
    def add_to_transaction(self):
        """AddPartitionsToTxn; the caller waits while the previous transaction is still being ended."""
        call = any_of(calls)
        require(call.api == Api.ADD_PARTITION)
        require(call.epoch != self.epoch or is_idle(self.state) or self.state == State.ONGOING)
        calls.remove(call)
        if call.epoch == self.epoch:
            self.include({one for one in Partition if one == call.partition}, call.sender.transaction)
        answers.add(Answer(call.sender, call.epoch == self.epoch, call.epoch))

    @action(fair="weak")
    def end_transaction(self):
        """EndTxn: logs the decision, which is final."""
        call = any_of(calls)
        require(call.api in [Api.END_COMMIT, Api.END_ABORT])
        wanted = Fate.COMMITTED if call.api == Api.END_COMMIT else Fate.ABORTED
        # A producer without a partition has nothing to end, except that KIP-890 increments the epoch.
        starts = call.epoch == self.epoch and (
            self.state == State.ONGOING or (is_newer() and wanted == Fate.ABORTED and is_idle(self.state))
        )
        again = call.epoch == self.previous and is_ended(self.state, wanted)
        require(starts or again or call.epoch != self.epoch)
        calls.remove(call)
        if starts:
            if self.state != State.ONGOING:
                self.transaction = call.sender.transaction
            self.decide(wanted, is_newer())
            self.previous = call.epoch
        answers.add(Answer(call.sender, starts or again, self.epoch))

    @action(fair="weak")
    def complete(self):
        """Logs the end of a transaction once all markers are written."""
        require(self.state in [State.PREPARE_COMMIT, State.PREPARE_ABORT] and self.unmarked == set())
        self.state = State.COMPLETE_COMMIT if self.state == State.PREPARE_COMMIT else State.COMPLETE_ABORT
        self.transaction = 0
        self.partitions.clear()

    @action
    def fail_over(self, messages_lost: bool):
        """Another broker takes over: it reads the log and resumes ending a transaction."""
        require(self.generation < FAILOVERS)
        self.generation += 1
        if messages_lost:
            answers.clear()
            markers.clear()
        if self.state in [State.PREPARE_COMMIT, State.PREPARE_ABORT]:
            self.unmarked = self.partitions
            self.send_markers()

    def include(self, partitions, transaction):
        """Adds partitions to the ongoing transaction; the first one starts it."""
        self.state = State.ONGOING
        self.transaction = transaction
        self.partitions = self.partitions | partitions

    def end_by_itself(self):
        self.decide(Fate.ABORTED, True)
        self.previous = -1

    def decide(self, wanted, raises_epoch):
        """Decides the transaction's fate and sends markers to its partitions."""
        fate[self.transaction] = wanted
        if raises_epoch:
            self.epoch += 1
        self.state = State.PREPARE_COMMIT if wanted == Fate.COMMITTED else State.PREPARE_ABORT
        self.unmarked = self.partitions
        self.send_markers()

    def send_markers(self):
        kind = Kind.COMMIT if self.state == State.PREPARE_COMMIT else Kind.ABORT
        for partition in Partition:
            if partition in self.partitions:
                markers.add(Marker(partition, kind, self.epoch, self.generation))


def is_fenced(call):
    """Whether the sender has an epoch, but neither the current one nor that of the request it repeats."""
    return call.epoch != -1 and call.epoch not in [Coordinator[0].epoch, Coordinator[0].previous]


def is_idle(state):
    """Whether no transaction is ongoing or being ended."""
    return state in [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]


def is_ended(state, wanted):
    """Whether the transaction has this fate, so that a repeated EndTxn is answered but not repeated."""
    if wanted == Fate.COMMITTED:
        return state in [State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    return state in [State.PREPARE_ABORT, State.COMPLETE_ABORT]


class Consumer(Role):
    """Reads with isolation level read_committed, unless the constant says otherwise."""

    read: Map[Partition, Set[Int[1, TRANSACTIONS]]] = set()

    @action(fair="weak")
    def poll(self, partition: Partition):
        """Fetches up to the last stable offset and skips aborted records; or fetches whatever is there."""
        readable = {
            n
            for n in range(1, TRANSACTIONS + 1)
            if (
                was_ended(partition, n, Kind.COMMIT)
                if READ_COMMITTED
                else Entry(Kind.DATA, n) in partition.log
            )
        }
        require(not readable <= self.read[partition])
        self.read[partition] = readable


def was_ended(partition, number, kind):
    """Whether the first marker after the transaction's record is of this kind."""
    return any(
        first < last
        and last < len(partition.log)
        and partition.log[first] == Entry(Kind.DATA, number)
        and partition.log[last].kind == kind
        and all(partition.log[k].kind == Kind.DATA for k in range(LOG_MAX) if first < k and k < last)
        for first in range(LOG_MAX)
        for last in range(LOG_MAX)
    )


@always
def no_hanging_transaction(partition: Partition):
    """If a transaction is open at a partition, the coordinator knows of it and will write its marker."""
    return not is_open(partition) or (
        partition in Coordinator[0].partitions
        and (Coordinator[0].state == State.ONGOING or partition in Coordinator[0].unmarked)
    )


@leads_to
def last_stable_offset_moves_on(partition: Partition):
    """An open transaction is eventually closed, so that readers are not blocked forever."""
    return is_open(partition), not is_open(partition)


@always
def aborted_is_never_read(number: Int[1, TRANSACTIONS], partition: Partition):
    """A read_committed consumer never reads records of an aborted transaction."""
    return number not in Consumer[0].read[partition] or fate[number] != Fate.ABORTED


@always
def all_or_nothing(number: Int[1, TRANSACTIONS], here: Partition, there: Partition):
    """If a transaction is read at one partition, none of it is dropped at another."""
    return number not in Consumer[0].read[here] or not was_ended(there, number, Kind.ABORT)


@leads_to
def committed_is_read(number: Int[1, TRANSACTIONS], partition: Partition):
    """Everything a committed transaction wrote is eventually read, at every partition."""
    return (
        fate[number] == Fate.COMMITTED and Entry(Kind.DATA, number) in partition.log,
        number in Consumer[0].read[partition],
    )


@transition
def fenced_never_commits(number: Int[1, TRANSACTIONS]):
    """A transaction is committed only for the producer with the highest epoch at that time."""
    return (
        fate[number] == Fate.COMMITTED
        or after(fate[number]) != Fate.COMMITTED
        or any(
            producer.transaction == number
            and producer.epoch == Coordinator[0].epoch
            and all(other.epoch <= producer.epoch for other in Producer)
            for producer in Producer
        )
    )


@transition
def decision_stands(number: Int[1, TRANSACTIONS]):
    """A decision is never changed, whichever coordinator takes over."""
    return fate[number] == Fate.OPEN or after(fate[number]) == fate[number]


@transition
def epochs_never_fall():
    return (
        after(Coordinator[0].epoch) >= Coordinator[0].epoch
        and all(after(partition.epoch) >= partition.epoch for partition in Partition)
        and all(after(producer.epoch) >= producer.epoch for producer in Producer)
    )


@always
def epoch_has_one_holder(one: Producer, other: Producer):
    """No two producers hold the producer id with the same epoch."""
    return one == other or one.epoch == -1 or one.epoch != other.epoch


@leads_to
def transaction_ends():
    """Every transaction of the coordinator is completed, even if producers and coordinators fail."""
    return not is_idle(Coordinator[0].state), is_idle(Coordinator[0].state)


@leads_to
def producer_id_is_given(producer: Producer):
    """A producer that asks for the producer id obtains it."""
    return producer.phase == Phase.INITIALIZING, producer.phase == Phase.READY


@exists
def commit_is_read_everywhere():
    """Data and consumed offset of one transaction are read."""
    return any(
        all(number in Consumer[0].read[partition] for partition in Partition)
        for number in range(1, TRANSACTIONS + 1)
    )


@exists
def abort_drops_a_write(partition: Partition, number: Int[1, TRANSACTIONS]):
    return was_ended(partition, number, Kind.ABORT)


@exists
def failover_between_markers():
    """A new coordinator ends a transaction of which only some markers were written."""
    return (
        Coordinator[0].generation > 0
        and is_ending(Coordinator[0].state)
        and any(
            is_open(one) and not is_open(other) and other.marked > 0 and other.generation == 0
            for one in Coordinator[0].partitions
            for other in Coordinator[0].partitions
        )
    )


@exists
def marker_written_twice(partition: Partition):
    """After a failover a partition receives the same marker again."""
    return any(
        partition.log[k].kind != Kind.DATA and partition.log[k + 1].kind != Kind.DATA
        for k in range(LOG_MAX - 1)
        if k + 1 < len(partition.log)
    )


@exists
def zombie_is_fenced(producer: Producer):
    return producer.phase == Phase.FENCED


@exists
def granted_epoch_is_not_heard(producer: Producer):
    """A coordinator grants an epoch and fails before it has told the producer, which gets the next one."""
    asking = sum(1 for other in Producer if other.phase != Phase.NEW)
    return begun == 0 and producer.phase == Phase.READY and producer.epoch >= asking


@exists
def failover_while_fencing(older: Producer, younger: Producer):
    """A younger producer's epoch is lost with its coordinator; the older producer is fenced anyway."""
    return (
        Coordinator[0].generation > 0
        and older.phase == Phase.FENCED
        and older.epoch == 0
        and younger.phase == Phase.READY
        and younger.epoch > 1
    )


@exists
def late_write_meets_newer_epoch():
    return any(write.epoch < write.to.epoch for write in writes)


def was_given_up(number):
    """Whether the coordinator has completed the transaction as an aborted one."""
    return fate[number] == Fate.ABORTED and Coordinator[0].transaction != number


@always
def late_write_has_an_older_epoch(producer: Producer):
    """Once a producer goes on after a transaction, its late writes are not of the coordinator's epoch."""
    return producer.phase not in [Phase.READY, Phase.IN_TRANSACTION] or all(
        write.epoch < Coordinator[0].epoch
        for write in writes
        if write.sender == producer and write.transaction != producer.transaction
    )


@exists
def late_write_is_in_flight():
    """A write has not arrived when its transaction is aborted and all markers are written."""
    return any(was_given_up(write.transaction) for write in writes)


@exists
def late_write_is_accepted(partition: Partition, number: Int[1, TRANSACTIONS]):
    """Such a write is appended, so that no marker of its transaction will follow."""
    return was_given_up(number) and any(
        partition.stable <= k and k < len(partition.log) and partition.log[k] == Entry(Kind.DATA, number)
        for k in range(LOG_MAX)
    )


@exists
def two_commits_are_read(partition: Partition):
    return len(Consumer[0].read[partition]) == TRANSACTIONS
