"""What Kafka's settings promise of one partition: a producer, a replicated log, crashes and lost answers.

One producer sends numbered records, several at a time, to the partition's leader. The leader appends them,
followers copy its log, and the producer is answered as `ACKS` says. Replicas crash and return with the log
they had; a follower may be slow, until the leader removes it from the replicas in sync; connections to the
leader are cut, with all requests and answers that are on the way.

Real brokers are run under the same settings by `veristream reproduce --real kafka`.
"""

from veristream.actions import *

ACKS = constant(2)  # an answer is sent 0: never, sending counts; 1: once the leader has it; 2: all in sync
MIN_ISR = constant(2)  # min.insync.replicas
UNCLEAN = constant(False)  # unclean.leader.election.enable
IDEMPOTENT = constant(True)  # enable.idempotence
RETRIES = constant(1)  # of a record
IN_FLIGHT = constant(2)  # max.in.flight.requests.per.connection
RECORDS = constant(2)
REPLICAS = constant(3)
CRASHES = constant(1)
CUTS = constant(1)

LOG_MAX = RECORDS * (RETRIES + 1)


class Fate(Enum):
    """What the producer knows of a record."""

    NEW = 0
    WAITING = 1  # sent, or to be sent again
    ACKNOWLEDGED = 2
    INDEFINITE = 3


class Answer(Record):
    record: Int[0, RECORDS - 1]
    ok: bool


crashes: Int[0, CRASHES] = 0
cuts: Int[0, CUTS] = 0
started: bool = False
requests: Seq[Int[0, RECORDS - 1], IN_FLIGHT] = []
answers: Seq[Answer, IN_FLIGHT] = []
unanswered: Seq[
    Int[0, RECORDS - 1], IN_FLIGHT
] = []  # appended, and to be answered when all in sync have it


class Broker(Role, count=REPLICAS):
    log: Seq[Int[0, RECORDS - 1], LOG_MAX] = []
    up: bool = True

    @action(fair="weak")
    def append(self):
        """The leader takes the next request; with too few replicas in sync it refuses `acks=all`."""
        require(leader == self and len(requests) > 0 and len(answers) + len(unanswered) < IN_FLIGHT)
        record = requests[0]
        refused = ACKS == 2 and len(in_sync) < MIN_ISR
        early = IDEMPOTENT and any(k < record and k not in self.log for k in range(RECORDS))
        requests.pop(0)
        if refused or early:
            answers.append(Answer(record, False))
        else:
            if not (IDEMPOTENT and record in self.log):
                self.log.append(record)
            if ACKS == 1:
                answers.append(Answer(record, True))
            if ACKS == 2:
                unanswered.append(record)

    @action(fair="weak")
    def answer(self):
        """All replicas in sync have the record, and they are enough."""
        require(leader == self and len(unanswered) > 0)
        require(all(unanswered[0] in one.log for one in in_sync))
        answers.append(Answer(unanswered[0], len(in_sync) >= MIN_ISR))
        unanswered.pop(0)

    @action
    def copy(self):
        """A follower drops what the leader does not have, and copies what comes next."""
        require(leader is not None and leader != self and self.up and self.log != leader.log)
        same = len(self.log) < len(leader.log) and all(
            self.log[k] == leader.log[k] for k in range(LOG_MAX) if k < len(self.log)
        )
        if same:
            self.log.append(leader.log[len(self.log)])
        else:
            self.log.pop()

    @action
    def rejoin(self):
        require(leader is not None and self.up and self not in in_sync and self.log == leader.log)
        in_sync.add(self)

    @action
    def fall_behind(self):
        """The leader removes a follower that is too slow."""
        require(leader is not None and leader != self and self in in_sync and self.log != leader.log)
        in_sync.discard(self)

    @action
    def crash(self):
        global crashes, leader
        require(started and self.up and crashes < CRASHES)
        crashes += 1
        self.up = False
        if leader == self:
            leader = None
            requests.clear()
            answers.clear()
            unanswered.clear()
        elif len(in_sync) > 1:
            in_sync.discard(self)

    @action(fair="weak")
    def restart(self):
        require(not self.up and leader is not None)
        self.up = True

    @action(fair="weak")
    def lead(self):
        """An election; without an unclean one, the last replica in sync is waited for."""
        global in_sync, leader, started
        require(leader is None)
        require(not started or self in in_sync or (UNCLEAN and all(not one.up for one in in_sync)))
        require(self.up or all(not one.up for one in in_sync))
        self.up = True
        leader = self
        if not started:
            in_sync = {one for one in Broker}  # noqa: C416
        elif self in in_sync:
            in_sync = {one for one in in_sync if one.up or one == self}
        else:
            in_sync = {one for one in Broker if one == self}
        started = True


leader: Maybe[Broker] = None
in_sync: Set[Broker] = set()


class Producer(Role):
    fate: Map[Int[0, RECORDS - 1], Fate] = Fate.NEW
    tries: Map[Int[0, RECORDS - 1], Int[0, RETRIES + 1]] = 0
    out: Set[Int[0, RECORDS - 1]] = set()  # in a request whose answer may still come

    @action(fair="weak")
    def send(self, record: Int[0, RECORDS - 1]):
        """In order, but for records that are sent again."""
        require(leader is not None and record not in self.out and self.tries[record] <= RETRIES)
        require(self.fate[record] in [Fate.NEW, Fate.WAITING])
        require(len(self.out) < IN_FLIGHT and len(requests) < IN_FLIGHT)
        require(all(self.tries[k] > 0 for k in range(RECORDS) if k < record))
        require(all(k in self.out or self.fate[k] != Fate.WAITING for k in range(RECORDS) if k < record))
        requests.append(record)
        self.tries[record] += 1
        if ACKS == 0:
            self.fate[record] = Fate.ACKNOWLEDGED
        else:
            self.fate[record] = Fate.WAITING
            self.out.add(record)

    @action(fair="weak")
    def receive_answer(self):
        require(len(answers) > 0)
        answer = answers[0]
        answers.pop(0)
        self.out.discard(answer.record)
        if answer.ok:
            self.fate[answer.record] = Fate.ACKNOWLEDGED
        elif self.tries[answer.record] > RETRIES:
            self.fate[answer.record] = Fate.INDEFINITE

    @action(fair="weak")
    def notice_loss(self):
        """The connection is gone, and with it the answers."""
        require(len(requests) == 0 and len(answers) == 0 and len(unanswered) == 0 and self.out != set())
        for record in range(RECORDS):
            if record in self.out and self.tries[record] > RETRIES:
                self.fate[record] = Fate.INDEFINITE
        self.out.clear()

    @action
    def cut(self):
        """The connection breaks; the leader still has what it appended."""
        global cuts
        require(cuts < CUTS and self.out != set())
        cuts += 1
        requests.clear()
        answers.clear()
        unanswered.clear()


@always
def acknowledged_is_stored(record: Int[0, RECORDS - 1]):
    """Whoever leads has every acknowledged record."""
    return (
        leader is None
        or Producer[0].fate[record] != Fate.ACKNOWLEDGED
        or (ACKS == 0 and record in requests)
        or record in leader.log
    )


@always
def stored_once():
    """No record is twice in the log of a leader."""
    return leader is None or all(
        leader.log[k] != leader.log[n]
        for k in range(LOG_MAX)
        for n in range(LOG_MAX)
        if k < n and n < len(leader.log)
    )


@always
def stored_in_order():
    """A record is not stored for the first time after a later one."""
    return leader is None or all(
        leader.log[k] <= leader.log[n]
        or any(leader.log[i] == leader.log[n] for i in range(LOG_MAX) if i < k)
        for k in range(LOG_MAX)
        for n in range(LOG_MAX)
        if k < n and n < len(leader.log)
    )


@exists
def all_is_acknowledged():
    return all(Producer[0].fate[record] == Fate.ACKNOWLEDGED for record in range(RECORDS))


@exists
def leader_changes_with_acknowledged_records():
    """A crash, and a new leader that has what was acknowledged before."""
    return crashes > 0 and leader is not None and len(leader.log) == RECORDS and not Broker[0].up
