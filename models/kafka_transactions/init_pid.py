"""How a Kafka producer obtains its producer id: the first model of J. Vanlightly's diary.

A client sends an InitPidRequest with its transactional id (TID) to a broker. The leader of the TID's
partition of the transaction log is its coordinator: it writes the TID's next producer epoch to the log and,
once the log has committed it, answers with the producer id (PID) and that epoch. Any other broker answers
NotCoordinator, and a coordinator that still waits for the log answers ConcurrentTransactions; after either
answer the client asks again.

This model has no leadership changes, failed writes, exhausted epochs or lost messages; init_pid_faults.py
has. Clients may share a TID: client c has the TID c mod TIDS.
"""

from veristream.actions import *

CLIENTS = constant(3)
TIDS = constant(2)
BROKERS = constant(2)
PARTITIONS = constant(2)
RESTARTS = constant(2)  # the total number of restarts of clients with a PID
ENDLESS = constant(0)  # 1: clients restart forever, and epochs wrap around
EPOCHS = constant(CLIENTS + RESTARTS)  # the number of epochs; the first one assigned is 0
LOOKUP = constant(1)  # 0: clients only guess the coordinator; 2: they ask nobody else
PARK = constant(0)  # 1: a request that meets a pending transition waits instead of being refused


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


class Client(Role, count=CLIENTS):
    """A producer that needs a PID."""

    phase: Phase = Phase.READY
    pid: Maybe[Int[0, TIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1

    @action(fair="weak")
    def ask(self, broker: Broker):
        """Any client may ask any broker."""
        require(LOOKUP != 2 and self.phase == Phase.READY)
        send_request(self, broker)

    @action(fair="strong")
    def ask_the_coordinator(self):
        """Stands for FindCoordinator: a client that asks repeatedly eventually asks the right broker."""
        require(LOOKUP != 0 and self.phase == Phase.READY)
        send_request(self, leader_of(partition_of(tid_of(self))))

    @action(fair="weak")
    def receive(self):
        """Receives the answer: either the PID, or an error, after which the client asks again."""
        response = any_of(network)
        require(response.kind == Kind.INIT_PID_RESPONSE and response.client == self)
        network.remove(response)
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
        require(self.phase == Phase.HAS_PID and (ENDLESS == 1 or restarts < RESTARTS))
        self.phase = Phase.READY
        self.pid = None
        self.epoch = -1
        if ENDLESS == 0:
            restarts += 1


class Metadata(Record):
    """What a coordinator knows about a TID.

    While a transition is written but not committed, `pending` is the client that requested it.
    """

    pid: Maybe[Int[0, TIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1
    pending: Maybe[Client] = None


class Entry(Record):
    """An entry of the transaction log."""

    tid: Int[0, TIDS - 1]
    pid: Int[0, TIDS - 1]
    epoch: Int[0, EPOCHS - 1]


class Broker(Role, count=BROKERS):
    """A broker in its role as transaction coordinator, with its cache."""

    metadata: Map[Int[0, TIDS - 1], Metadata]


class Partition(Role, count=PARTITIONS):
    """A partition of the transaction log.

    It is compacted: it keeps only the last committed entry of each TID.
    """

    tail: Seq[Entry, TIDS] = []  # written but not committed
    committed_pid: Map[Int[0, TIDS - 1], Maybe[Int[0, TIDS - 1]]] = None
    committed_epoch: Map[Int[0, TIDS - 1], Int[-1, EPOCHS - 1]] = -1

    @action(fair="weak")
    def commit(self):
        """Replicates the oldest uncommitted entry; its coordinator is notified and answers."""
        require(len(self.tail) > 0)
        entry = self.tail.pop(0)
        self.committed_pid[entry.tid] = entry.pid
        self.committed_epoch[entry.tid] = entry.epoch
        complete(leader_of(self), entry)


class Connection(Role, count=CLIENTS):
    """A client's connection; a role of its own, so that fairness applies to each connection."""

    @action(fair="weak")
    def deliver(self):
        """Delivers a request to its broker."""
        request = any_of(network)
        require(request.kind == Kind.INIT_PID_REQUEST and request.client.id == self.id)
        require(PARK == 0 or request.broker.metadata[request.tid].pending is None)
        network.remove(request)
        handle(request.broker, request)


class Message(Record):
    """A request or a response."""

    kind: Kind
    client: Client
    broker: Broker
    tid: Int[0, TIDS - 1]
    code: Code = Code.OK
    pid: Maybe[Int[0, TIDS - 1]] = None
    epoch: Int[-1, EPOCHS - 1] = -1


network: Bag[Message, CLIENTS] = []
next_pid: Int[0, TIDS] = 0
restarts: Int[0, RESTARTS] = 0


def tid_of(client):
    return client.id % TIDS


def partition_of(tid):
    return Partition[tid % PARTITIONS]


def leader_of(partition):
    """Returns the leader, which never changes."""
    return Broker[partition.id % BROKERS]


def send_request(client, broker):
    client.phase = Phase.INIT_PID_SENT
    network.add(Message(kind=Kind.INIT_PID_REQUEST, client=client, broker=broker, tid=tid_of(client)))


def refuse(broker, request, code):
    network.add(
        Message(
            kind=Kind.INIT_PID_RESPONSE, client=request.client, broker=broker, tid=request.tid, code=code
        )
    )


def handle(broker, request):
    """Handles a request at a broker, up to the write."""
    if leader_of(partition_of(request.tid)) != broker:
        refuse(broker, request, Code.NOT_COORDINATOR)
    elif broker.metadata[request.tid].pending is not None:
        refuse(broker, request, Code.CONCURRENT_TRANSACTIONS)
    else:
        begin(broker, request)


def begin(broker, request):
    """Creates metadata if there is none, and writes the transition to the next epoch."""
    global next_pid
    if broker.metadata[request.tid].pid is None:
        broker.metadata[request.tid].pid = next_pid
        next_pid += 1
    epoch = next_of(broker.metadata[request.tid].epoch)
    broker.metadata[request.tid].pending = request.client
    partition_of(request.tid).tail.append(
        Entry(tid=request.tid, pid=broker.metadata[request.tid].pid, epoch=epoch)
    )


def next_of(epoch):
    if ENDLESS == 1:
        return (epoch + 1) % EPOCHS
    return epoch + 1


def complete(broker, entry):
    """Completes a committed transition: updates the metadata and answers the client."""
    client = broker.metadata[entry.tid].pending
    broker.metadata[entry.tid].epoch = entry.epoch
    broker.metadata[entry.tid].pending = None
    network.add(
        Message(
            kind=Kind.INIT_PID_RESPONSE,
            client=client,
            broker=broker,
            tid=entry.tid,
            pid=entry.pid,
            epoch=entry.epoch,
        )
    )


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
    """No two transactional ids have the same producer id, in any cache.

    [] forall b, c, s != t: b.metadata[s].pid is not None -> b.metadata[s].pid != c.metadata[t].pid
    """
    return all(
        a.metadata[s].pid is None or a.metadata[s].pid != b.metadata[t].pid
        for a in Broker
        for b in Broker
        for s in range(TIDS)
        for t in range(TIDS)
        if s != t
    )


@always
def client_has_its_pid():
    """A client's PID was committed for its own TID, with its epoch or a later one.

    [] forall c: has_pid(c) -> c.pid == committed_pid[tid(c)] and c.epoch <= committed_epoch[tid(c)]
    """
    return all(
        client.pid == partition_of(tid_of(client)).committed_pid[tid_of(client)]
        and client.epoch <= partition_of(tid_of(client)).committed_epoch[tid_of(client)]
        for client in Client
        if has_pid(client)
    )


@always
def one_coordinator():
    """Only the leader of a TID's partition knows the TID.

    [] forall b, t: b.metadata[t].pid is not None -> b == leader(partition(t))
    """
    return all(
        broker == leader_of(partition_of(tid))
        for broker in Broker
        for tid in range(TIDS)
        if broker.metadata[tid].pid is not None
    )


@transition
def epoch_never_falls(broker: Broker, tid: Int[0, TIDS - 1]):
    """An epoch never decreases, neither in a cache nor in the log.

    [] forall b, t: b.metadata[t].epoch' >= b.metadata[t].epoch
    """
    return (
        after(broker.metadata[tid].epoch) >= broker.metadata[tid].epoch
        and after(partition_of(tid).committed_epoch[tid]) >= partition_of(tid).committed_epoch[tid]
    )


@transition
def pid_stays(broker: Broker, tid: Int[0, TIDS - 1]):
    """A TID that has a producer id keeps it.

    [] forall b, t: b.metadata[t].pid is not None -> b.metadata[t].pid' == b.metadata[t].pid
    """
    return broker.metadata[tid].pid is None or after(broker.metadata[tid].pid) == broker.metadata[tid].pid


@eventually
def gets_pid(client: Client):
    """A client eventually obtains its producer id, under the fairness declared by the actions.

    <> has_pid(c), if every broker serves every connection (weak), the log commits (weak), the client
    receives its answers (weak) and, if it asks repeatedly, also asks the coordinator (strong).
    """
    return client.phase == Phase.HAS_PID


@eventually(fairness="strong-process")
def gets_pid_under_strong_fairness(client: Client):
    """The same, under strong fairness of all processes as well.

    <> has_pid(c)
    """
    return client.phase == Phase.HAS_PID


@leads_to
def request_is_answered(client: Client):
    """No request stays pending forever.

    [] (c.phase == INIT_PID_SENT -> <> c.phase != INIT_PID_SENT)
    """
    return client.phase == Phase.INIT_PID_SENT, client.phase != Phase.INIT_PID_SENT


@leads_to
def transition_is_completed(tid: Int[0, TIDS - 1]):
    """No transition stays pending forever.

    [] (exists b: b.metadata[t].pending -> <> forall b: not b.metadata[t].pending)
    """
    return (
        any(broker.metadata[tid].pending is not None for broker in Broker),
        all(broker.metadata[tid].pending is None for broker in Broker),
    )


@exists
def not_coordinator_is_answered():
    """A client may ask a broker that is not its coordinator."""
    return any(message.code == Code.NOT_COORDINATOR for message in network)


@exists
def concurrent_transactions_is_answered():
    """A client may ask while another client's transition is pending."""
    return any(message.code == Code.CONCURRENT_TRANSACTIONS for message in network)


@exists
def all_have_a_pid():
    """All clients can have their PIDs at the same time."""
    return all(has_pid(client) for client in Client)


@exists
def one_tid_held_twice():
    """Two clients can hold the same PID with different epochs: the lower one is a zombie."""
    return any(
        a.pid == b.pid and a.epoch < b.epoch for a in Client for b in Client if has_pid(a) and has_pid(b)
    )


@exists
def two_transitions_are_pending():
    """Two coordinators can have transitions pending at the same time."""
    return all(
        any(broker.metadata[tid].pending is not None for broker in Broker) for tid in range(min(TIDS, 2))
    )


@terminal
def finished():
    return all(has_pid(client) for client in Client)


no_deadlock = deadlock_free()
