"""How a Kafka producer obtains its producer id despite faults, which the diary's first model omits.

It extends init_pid.py:
- the leadership of a log partition moves: the new leader loads its state from the log, the old one learns
  of it later, drops its state, and answers its pending requests with an error or not at all;
- writes to the log fail, and a failed write may stay in the log and be committed nevertheless;
- the log is down for a while and commits nothing;
- epochs run out: the TID then gets a new PID with epoch 0;
- messages are lost, and an impatient client sends its request a second time.

Every fault has a budget, so that the model is finite. Client c has the TID c mod TIDS.
"""

from veristream.actions import *

CLIENTS = constant(2)
TIDS = constant(1)
BROKERS = constant(2)
PARTITIONS = constant(1)
RESTARTS = constant(0)  # the number of restarts of clients with a PID
FAULTS = constant(2)  # the total number of faults; the next five are the maxima of each kind
MOVES = constant(2)  # changes of leadership
FAILURES = constant(1)  # failed writes
OUTAGES = constant(1)  # outages of the log
LOSSES = constant(1)  # lost messages
REPEATS = constant(1)  # requests that are resent too early
EPOCHS = constant(2)  # the number of epochs of a PID
PIDS = constant(2 * TIDS + FAULTS)  # the number of available PIDs; needing more is an error of the model
LOOKUP = constant(1)  # 2: clients ask nobody but the coordinator
KILLS = constant(0)  # 1: leadership moves since the leader is killed, which forgets everything
RECOVERS = constant(1)  # 0: a log that is down stays down
EARLY = constant(0)  # 1: a faulty coordinator that answers before the log has committed
ROTATE = constant(1)  # 0: a faulty coordinator that lets epochs wrap around


class Phase(Enum):
    """A client as a state machine."""

    READY = 0
    INIT_PID_SENT = 1
    HAS_PID = 2


class Kind(Enum):
    """The kinds of messages."""

    INIT_PID_REQUEST = 0
    INIT_PID_RESPONSE = 1


class Code(Enum):
    """The result in an answer; requests ignore it."""

    OK = 0
    NOT_COORDINATOR = 1
    CONCURRENT_TRANSACTIONS = 2
    LOAD_IN_PROGRESS = 3
    NOT_AVAILABLE = 4


class Client(Role, count=CLIENTS):
    """A producer that needs a PID."""

    phase: Phase = Phase.READY
    pid: Maybe[Int[0, PIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1

    @action(fair="weak")
    def ask(self, broker: Broker):
        """Any client may ask any broker."""
        require(LOOKUP != 2 and self.phase == Phase.READY)
        self.phase = Phase.INIT_PID_SENT
        send_request(self, broker)

    @action(fair="strong")
    def ask_the_coordinator(self):
        """Stands for FindCoordinator: a client that asks repeatedly eventually asks the right broker."""
        require(self.phase == Phase.READY)
        self.phase = Phase.INIT_PID_SENT
        send_request(self, partition_of(tid_of(self)).leader)

    @action
    def repeat(self, broker: Broker):
        """Resends the request although it or its answer is still in flight."""
        global repeats
        require(self.phase == Phase.INIT_PID_SENT and may_fail(repeats, REPEATS))
        repeats += 1
        send_request(self, broker)

    @action(fair="weak")
    def time_out(self):
        """Stops waiting, once nothing is in flight any more."""
        require(self.phase == Phase.INIT_PID_SENT and not under_way(self))
        self.phase = Phase.READY

    @action(fair="weak")
    def receive(self):
        """Receives an answer; ignores it if the client no longer waits for one."""
        response = any_of(network)
        require(response.kind == Kind.INIT_PID_RESPONSE and response.client == self)
        network.remove(response)
        if self.phase == Phase.INIT_PID_SENT:
            if response.code == Code.OK:
                self.phase = Phase.HAS_PID
                self.pid = response.pid
                self.epoch = response.epoch
            else:
                self.phase = Phase.READY

    @action
    def restart(self):
        """The process ends and is replaced by another with the same TID."""
        global restarts
        require(self.phase == Phase.HAS_PID and restarts < RESTARTS)
        restarts += 1
        self.phase = Phase.READY
        self.pid = None
        self.epoch = -1


class Metadata(Record):
    """What a coordinator knows about a TID.

    While a transition to `to_pid` and `to_epoch` is written but not completed, `pending` is the client
    that requested it; `acked` is set once the log has committed it.
    """

    pid: Maybe[Int[0, PIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1
    pending: Maybe[Client] = None
    to_pid: Maybe[Int[0, PIDS - 1]] = None
    to_epoch: Int[-1, EPOCHS - 1] = -1
    acked: bool = False


class Broker(Role, count=BROKERS):
    """A broker in its role as coordinator: its cache, and the partitions that it believes it leads."""

    owned: Set[Int[0, PARTITIONS - 1]] = set()
    metadata: Map[Int[0, TIDS - 1], Metadata]

    @action(fair="weak")
    def load(self, partition: Partition):
        """A new leader reads the whole log, including uncommitted entries."""
        require(partition.leader == self and partition.id not in self.owned)
        self.owned.add(partition.id)
        for tid in range(TIDS):
            if partition_of(tid) == partition:
                self.metadata[tid].pid = partition.committed_pid[tid]
                self.metadata[tid].epoch = partition.committed_epoch[tid]
        for entry in partition.tail:
            self.metadata[entry.tid].pid = entry.pid
            self.metadata[entry.tid].epoch = entry.epoch

    @action(fair="weak")
    def resign(self, partition: Partition, tells: bool):
        """An old leader learns that it was deposed, and notifies the waiting clients or does not."""
        require(partition.leader != self and partition.id in self.owned)
        for tid in range(TIDS):
            if tells and partition_of(tid) == partition and self.metadata[tid].pending is not None:
                refuse(self, self.metadata[tid].pending, tid, Code.NOT_COORDINATOR)
        drop(self, partition)

    @action(fair="weak")
    def complete(self, tid: Int[0, TIDS - 1]):
        """Completes a committed transition: updates the metadata and answers the client."""
        require(self.metadata[tid].pending is not None and self.metadata[tid].acked)
        self.metadata[tid].pid = self.metadata[tid].to_pid
        self.metadata[tid].epoch = self.metadata[tid].to_epoch
        grant(self, tid)
        forget_transition(self, tid)


class Entry(Record):
    """An entry of the transaction log; `awaited` while the coordinator that wrote it waits for it."""

    tid: Int[0, TIDS - 1]
    pid: Int[0, PIDS - 1]
    epoch: Int[0, EPOCHS - 1]
    awaited: bool


TAIL = TIDS * (MOVES + 1) + FAILURES


class Partition(Role, count=PARTITIONS):
    """A partition of the transaction log.

    It is compacted: it keeps only the last committed entry of each TID.
    """

    leader: Broker = Broker[0]
    online: bool = True
    tail: Seq[Entry, TAIL] = []  # written but not committed
    committed_pid: Map[Int[0, TIDS - 1], Maybe[Int[0, PIDS - 1]]] = None
    committed_epoch: Map[Int[0, TIDS - 1], Int[-1, EPOCHS - 1]] = -1

    @action(fair="weak")
    def commit(self):
        """Replicates the oldest uncommitted entry and notifies a coordinator that waits for it."""
        require(self.online and len(self.tail) > 0)
        entry = self.tail.pop(0)
        self.committed_pid[entry.tid] = entry.pid
        self.committed_epoch[entry.tid] = entry.epoch
        if entry.awaited:
            self.leader.metadata[entry.tid].acked = True

    @action
    def fail(self, stays: bool):
        """The newest write fails; the entry may stay in the log, as when only the wait times out."""
        global failures
        require(may_fail(failures, FAILURES) and len(self.tail) > 0 and self.tail[-1].awaited)
        failures += 1
        tid = self.tail[-1].tid
        refuse(self.leader, self.leader.metadata[tid].pending, tid, Code.NOT_AVAILABLE)
        forget_transition(self.leader, tid)
        if stays:
            self.tail[-1].awaited = False
        else:
            self.tail.pop()

    @action
    def move(self, broker: Broker, kept: Int[0, TAIL]):
        """Another broker becomes leader; it has a prefix of the uncommitted entries."""
        global moves
        require(may_fail(moves, MOVES) and broker != self.leader and kept <= len(self.tail))
        moves += 1
        if KILLS == 1:
            drop(self.leader, self)
        self.leader = broker
        for _ in range(TAIL):
            if len(self.tail) > kept:
                self.tail.pop()
        for position in range(TAIL):
            if position < len(self.tail):
                self.tail[position].awaited = False
        # A new leader starts over, even one that has not noticed that it was deposed in between.
        drop(broker, self)

    @action
    def go_down(self):
        """Too few replicas are available: nothing is committed until the log recovers."""
        global outages
        require(may_fail(outages, OUTAGES) and self.online)
        outages += 1
        self.online = False

    @action(fair="weak")
    def recover(self):
        require(RECOVERS == 1 and not self.online)
        self.online = True


class Connection(Role, count=CLIENTS):
    """A client's connection; a role of its own, so that fairness applies to each connection."""

    @action(fair="weak")
    def deliver(self):
        """Delivers a request to its broker."""
        request = any_of(network)
        require(request.kind == Kind.INIT_PID_REQUEST and request.client.id == self.id)
        network.remove(request)
        handle(request.broker, request)


class Message(Record):
    """A request or a response."""

    kind: Kind
    client: Client
    broker: Broker
    tid: Int[0, TIDS - 1]
    code: Code = Code.OK
    pid: Maybe[Int[0, PIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1


network: Bag[Message, CLIENTS + REPEATS] = []
next_pid: Int[0, PIDS] = 0
restarts: Int[0, RESTARTS] = 0
moves: Int[0, MOVES] = 0
failures: Int[0, FAILURES] = 0
outages: Int[0, OUTAGES] = 0
losses: Int[0, LOSSES] = 0
repeats: Int[0, REPEATS] = 0


@action
def lose():
    """Loses a message, a request or an answer."""
    global losses
    message = any_of(network)
    require(may_fail(losses, LOSSES))
    losses += 1
    network.remove(message)


def may_fail(count, count_max):
    """Whether one more fault of a kind is within the budgets."""
    return count < count_max and moves + failures + outages + losses + repeats < FAULTS


def tid_of(client):
    return client.id % TIDS


def partition_of(tid):
    return Partition[tid % PARTITIONS]


def under_way(client):
    """Whether a request of the client or its answer is still in flight or pending."""
    return any(message.client == client for message in network) or any(
        broker.metadata[tid].pending == client for broker in Broker for tid in range(TIDS)
    )


def send_request(client, broker):
    network.add(Message(kind=Kind.INIT_PID_REQUEST, client=client, broker=broker, tid=tid_of(client)))


def refuse(broker, client, tid, code):
    network.add(Message(kind=Kind.INIT_PID_RESPONSE, client=client, broker=broker, tid=tid, code=code))


def grant(broker, tid):
    network.add(
        Message(
            kind=Kind.INIT_PID_RESPONSE,
            client=broker.metadata[tid].pending,
            broker=broker,
            tid=tid,
            pid=broker.metadata[tid].pid,
            epoch=broker.metadata[tid].epoch,
        )
    )


def forget_transition(broker, tid):
    broker.metadata[tid].pending = None
    broker.metadata[tid].to_pid = None
    broker.metadata[tid].to_epoch = -1
    broker.metadata[tid].acked = False


def drop(broker, partition):
    """Removes everything that the broker knows about a partition."""
    broker.owned.discard(partition.id)
    for tid in range(TIDS):
        if partition_of(tid) == partition:
            broker.metadata[tid].pid = None
            broker.metadata[tid].epoch = -1
            forget_transition(broker, tid)


def handle(broker, request):
    """Handles a request at a broker, up to the write."""
    partition = partition_of(request.tid)
    if partition.id not in broker.owned:
        if partition.leader == broker:
            refuse(broker, request.client, request.tid, Code.LOAD_IN_PROGRESS)
        else:
            refuse(broker, request.client, request.tid, Code.NOT_COORDINATOR)
    elif broker.metadata[request.tid].pending is not None:
        refuse(broker, request.client, request.tid, Code.CONCURRENT_TRANSACTIONS)
    else:
        begin(broker, request.client, request.tid)


def begin(broker, client, tid):
    """Creates metadata if there is none, and writes the transition to the next epoch."""
    if broker.metadata[tid].pid is None:
        broker.metadata[tid].pid = next_pid
        take_pid()
    if broker.metadata[tid].epoch < EPOCHS - 1:
        broker.metadata[tid].to_pid = broker.metadata[tid].pid
        broker.metadata[tid].to_epoch = broker.metadata[tid].epoch + 1
    elif ROTATE == 1:
        broker.metadata[tid].to_pid = next_pid
        broker.metadata[tid].to_epoch = 0
        take_pid()
    else:
        broker.metadata[tid].to_pid = broker.metadata[tid].pid
        broker.metadata[tid].to_epoch = 0
    broker.metadata[tid].pending = client
    broker.metadata[tid].acked = EARLY == 1
    # Writes of a broker that is no longer leader reach no replica.
    if partition_of(tid).leader == broker:
        partition_of(tid).tail.append(
            Entry(
                tid=tid,
                pid=broker.metadata[tid].to_pid,
                epoch=broker.metadata[tid].to_epoch,
                awaited=EARLY == 0,
            )
        )


def take_pid():
    """Consumes a producer id; ids are unique in the whole cluster."""
    global next_pid
    next_pid += 1


def has_pid(client):
    return client.phase == Phase.HAS_PID


@always
def pair_held_once():
    """A producer id and epoch are never held by two live producers.

    [] forall a != b: has_pid(a) and has_pid(b) -> (a.pid, a.epoch) != (b.pid, b.epoch)
    """
    return all(
        a.pid != b.pid or a.epoch != b.epoch
        for a in Client
        for b in Client
        if a.id < b.id and has_pid(a) and has_pid(b)
    )


@always
def pid_has_one_tid():
    """No two transactional ids have the same producer id, in any cache or log.

    [] forall b, c, s != t: b.metadata[s].pid is not None -> b.metadata[s].pid != c.metadata[t].pid,
    and the same for committed entries
    """
    return all(
        (a.metadata[s].pid is None or a.metadata[s].pid != b.metadata[t].pid)
        and (committed_pid(s) is None or committed_pid(s) != committed_pid(t))
        for a in Broker
        for b in Broker
        for s in range(TIDS)
        for t in range(TIDS)
        if s != t
    )


def committed_pid(tid):
    return partition_of(tid).committed_pid[tid]


def committed_epoch(tid):
    return partition_of(tid).committed_epoch[tid]


@always
def held_pair_is_committed():
    """The log has a client's PID with the same or a later epoch, or has a later PID.

    [] forall c: has_pid(c) -> (c.pid, c.epoch) <= (committed_pid[tid(c)], committed_epoch[tid(c)])
    """
    return all(
        committed_pid(tid_of(client)) is not None
        and (
            client.pid < committed_pid(tid_of(client))
            or (
                client.pid == committed_pid(tid_of(client))
                and client.epoch <= committed_epoch(tid_of(client))
            )
        )
        for client in Client
        if has_pid(client)
    )


@transition
def epoch_never_falls(tid: Int[0, TIDS - 1]):
    """The epoch of a producer id never decreases in the log.

    [] forall t: committed_pid[t]' == committed_pid[t] -> committed_epoch[t]' >= committed_epoch[t]
    """
    return after(committed_pid(tid)) != committed_pid(tid) or after(
        committed_epoch(tid)
    ) >= committed_epoch(tid)


@transition
def cached_epoch_never_falls(broker: Broker, tid: Int[0, TIDS - 1]):
    """The epoch of a producer id never decreases in the cache of a coordinator.

    [] forall b, t: b.metadata[t].pid' == b.metadata[t].pid -> b.metadata[t].epoch' >= b.metadata[t].epoch
    """
    return (
        after(broker.metadata[tid].pid) != broker.metadata[tid].pid
        or after(broker.metadata[tid].epoch) >= broker.metadata[tid].epoch
    )


@always
def one_coordinator_answers():
    """At most one broker waits for a write of a TID that can still be committed.

    [] forall p, e in p.tail: e.awaited -> p.leader.metadata[e.tid].pending is not None
    """
    return all(
        partition.leader.metadata[entry.tid].pending is not None
        for partition in Partition
        for entry in partition.tail
        if entry.awaited
    )


def is_alone(client):
    """Whether no other client has the same TID."""
    return all(tid_of(other) != tid_of(client) for other in Client if other.id != client.id)


@always
def not_fenced_by_itself():
    """A client that does not share its TID holds the newest epoch: it never fences itself.

    [] forall c: is_alone(c) and has_pid(c) -> (c.pid, c.epoch) == (committed_pid, committed_epoch)[tid(c)]
    """
    return all(
        client.pid == committed_pid(tid_of(client)) and client.epoch == committed_epoch(tid_of(client))
        for client in Client
        if is_alone(client) and has_pid(client)
    )


@eventually
def gets_pid(client: Client):
    """A client eventually obtains its producer id, under the fairness declared by the actions.

    <> has_pid(c), if every broker serves every connection, loads, resigns and completes (weak), the log
    commits and recovers (weak), the client receives its answers and times out if none can arrive (weak)
    and, if it asks repeatedly, also asks the coordinator (strong). Faults are not fair.
    """
    return client.phase == Phase.HAS_PID


@leads_to
def request_is_answered(client: Client):
    """No request stays pending forever: it is answered, or given up as lost.

    [] (c.phase == INIT_PID_SENT -> <> c.phase != INIT_PID_SENT)
    """
    return client.phase == Phase.INIT_PID_SENT, client.phase != Phase.INIT_PID_SENT


@leads_to
def transition_is_completed(broker: Broker, tid: Int[0, TIDS - 1]):
    """No transition stays pending forever, if the log recovers.

    [] (b.metadata[t].pending is not None -> <> b.metadata[t].pending is None)
    """
    return broker.metadata[tid].pending is not None, broker.metadata[tid].pending is None


@leads_to
def completed_or_down(broker: Broker, tid: Int[0, TIDS - 1]):
    """Only a log that is down keeps a transition pending.

    [] (b.metadata[t].pending is not None -> <> (b.metadata[t].pending is None or not partition(t).online))
    """
    return (
        broker.metadata[tid].pending is not None,
        broker.metadata[tid].pending is None or not partition_of(tid).online,
    )


@exists
def all_have_a_pid():
    """All clients can have their PIDs at the same time."""
    return all(has_pid(client) for client in Client)


@exists
def epochs_run_out():
    """A coordinator writes a new PID for a TID that has used up its epochs."""
    return any(
        broker.metadata[tid].to_pid is not None and broker.metadata[tid].to_pid != broker.metadata[tid].pid
        for broker in Broker
        for tid in range(TIDS)
    )


@exists
def leader_moves_while_pending():
    """A request is pending at a broker that is no longer leader and does not know it."""
    return any(
        broker.metadata[tid].pending is not None and partition_of(tid).leader != broker
        for broker in Broker
        for tid in range(TIDS)
    )


@exists
def two_brokers_believe():
    """Two brokers believe they lead the same partition."""
    return any(sum(1 for broker in Broker if partition.id in broker.owned) > 1 for partition in Partition)


@exists
def deposed_leader_answers_ok():
    """A leader that is deposed between commit and answer still answers, which is correct."""
    return any(
        broker.metadata[tid].acked and partition_of(tid).leader != broker
        for broker in Broker
        for tid in range(TIDS)
    )


@exists
def failed_write_is_committed():
    """An entry that was reported to a client as failed is still in the log."""
    return (
        failures > 0
        and moves == 0
        and any(not entry.awaited for partition in Partition for entry in partition.tail)
    )


@exists
def load_in_progress_is_answered():
    """A client may ask a leader that has not read the log yet."""
    return any(message.code == Code.LOAD_IN_PROGRESS for message in network)


@exists
def granted_and_lost():
    """The log has committed the pair, but the answer to its client was lost."""
    return any(
        client.phase == Phase.INIT_PID_SENT
        and not under_way(client)
        and committed_epoch(tid_of(client)) >= 0
        and all(other.phase != Phase.HAS_PID for other in Client)
        for client in Client
    )


@exists
def unheard_epoch_is_kept(client: Client):
    """The log keeps an epoch that no client was given: the client of a TID of its own gets the next one."""
    return is_alone(client) and has_pid(client) and client.epoch > 0


@exists
def fences_itself(client: Client):
    """A client whose TID nobody shares holds an epoch, and its coordinator has given a later one."""
    return is_alone(client) and any(
        broker.metadata[tid_of(client)].pid == client.pid
        and broker.metadata[tid_of(client)].epoch > client.epoch
        for broker in Broker
        if has_pid(client)
    )


@exists
def unheard_pid_is_lost(client: Client):
    """The log loses a PID that no client was given: the client of the only TID gets another one."""
    return TIDS == 1 and is_alone(client) and has_pid(client) and client.pid > 0


@terminal
def finished():
    return all(has_pid(client) for client in Client)


no_deadlock = deadlock_free()
