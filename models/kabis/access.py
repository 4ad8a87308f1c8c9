"""Access rules: who may write, read and join is ordered like everything else.

On a closed ledger, a client may do what a grant allows, until a revocation takes effect with its block;
on an open one, also what nobody was ever granted. A write or a join is admitted by a block, and
validators judge it by the rules in force before that block. A read is answered by a storage party,
which follows the chain at its own pace. The abstractions:

- A block has one transaction. Clients are Byzantine: they submit anything at any time, so nothing needs
  to be submitted before it is ordered. The administrator's rules are arbitrary.
- A validator votes for a block after the ones that it has applied, and a quorum of votes orders it; the
  Byzantine validator votes for everything.
- Storage parties have a payload before its identifier is ordered. A Byzantine party shows what it has
  to anybody, and no rule prevents that, so only correct parties are modelled: payloads must be
  encrypted to be kept from a party.
"""

from veristream.actions import *

CLIENTS = constant(2)
PARTIES = constant(1)
HONEST = constant(3)
BYZANTINE = constant(1)
QUORUM = constant(3)
HEIGHTS = constant(4)

AT_BLOCK = constant(True)  # 0: rules are applied when a transaction is submitted, not when it is ordered
UP_TO_DATE = constant(True)  # 0: validators that are behind vote by the rules that they know
CHECKS_JOINS = constant(True)  # 0: anybody joins a group
CLOSED = constant(True)  # 0: what nobody was ever granted is allowed to everybody
STAYS_RESTRICTED = constant(True)  # 0: on an open ledger, the last revocation allows everybody again
FOLLOWS = constant(True)  # 0: a party answers by the rules that it knows, however old they are


class Kind(Enum):
    GRANT = 0
    REVOKE = 1
    USE = 2  # a batch is written, or a group joined


class Right(Enum):
    WRITE = 0
    READ = 1
    JOIN = 2


class Client(Role, count=CLIENTS, symmetric=True):
    """A registered client, which nobody trusts."""

    queued: Set[Right] = set()  # what was allowed when it was submitted
    read: Set[Int[0, HEIGHTS - 1]] = set()  # the batches that it was given

    @action
    def submit(self, right: Right):
        require(not AT_BLOCK and right != Right.READ and right not in self.queued)
        require(has(self, right, len(log)))
        self.queued.add(right)

    @action(fair="weak")
    def write(self):
        require(len(log) < HEIGHTS and is_admitted(self, Right.WRITE))
        log.append(Entry(Kind.USE, Right.WRITE, self))

    @action(fair="weak")
    def join(self):
        require(len(log) < HEIGHTS and (is_admitted(self, Right.JOIN) or not CHECKS_JOINS))
        log.append(Entry(Kind.USE, Right.JOIN, self))


class Entry(Record):
    kind: Kind
    right: Right
    client: Client


log: Seq[Entry, HEIGHTS] = []


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


@action
def rule(kind: Kind, right: Right, client: Client):
    """The administrator grants or revokes a right."""
    require(len(log) < HEIGHTS and kind != Kind.USE)
    require(is_granted(client, right, len(log)) == (kind == Kind.REVOKE))
    log.append(Entry(kind, right, client))


class Validator(Role, count=HONEST, symmetric=True):
    """A correct validator."""

    height: Int[0, HEIGHTS] = 0

    @action(fair="weak")
    def follow(self):
        require(self.height < len(log))
        self.height += 1


class Party(Role, count=PARTIES):
    """A correct storage party."""

    height: Int[0, HEIGHTS] = 0

    @action(fair="weak")
    def apply(self):
        require(self.height < len(log))
        self.height += 1

    @action(fair="weak")
    def serve(self, client: Client, batch: Int[0, HEIGHTS - 1]):
        """Gives a batch to a client, once it has applied the block that admitted the batch."""
        require(is_batch(batch) and batch not in client.read and (self.height > batch or not FOLLOWS))
        require(has(client, Right.READ, self.height))
        client.read.add(batch)


def is_batch(index):
    return index < len(log) and log[index].kind == Kind.USE and log[index].right == Right.WRITE


def has(client, right, height):
    """Whether a client may do this after so many blocks."""
    return is_granted(client, right, height) or (not CLOSED and not is_restricted(right, height))


def is_restricted(right, height):
    """Whether an open ledger needs a grant for this."""
    return any(
        index < height
        and index < len(log)
        and log[index].kind == Kind.GRANT
        and log[index].right == right
        and (STAYS_RESTRICTED or any(is_granted(client, right, height) for client in Client))
        for index in range(HEIGHTS)
    )


def is_granted(client, right, height):
    """Whether a grant is in force after this many blocks."""
    return any(
        index < height
        and index < len(log)
        and log[index] == Entry(Kind.GRANT, right, client)
        and not any(
            index < later
            and later < height
            and later < len(log)
            and log[later] == Entry(Kind.REVOKE, right, client)
            for later in range(HEIGHTS)
        )
        for index in range(HEIGHTS)
    )


def is_admitted(client, right):
    """Whether a quorum votes for a block with the client's transaction."""
    return (
        sum(votes(one, client, right) for one in Validator) + BYZANTINE >= QUORUM
        if AT_BLOCK
        else right in client.queued
    )


def votes(validator, client, right):
    return (validator.height == len(log) or not UP_TO_DATE) and has(client, right, validator.height)


@always
def writes_with_a_grant():
    """A batch is admitted only if its writer had a grant right before its block."""
    return all(
        not is_batch(index) or has(log[index].client, Right.WRITE, index) for index in range(HEIGHTS)
    )


@always
def joins_with_a_grant():
    return all(
        index >= len(log)
        or log[index].kind != Kind.USE
        or log[index].right != Right.JOIN
        or has(log[index].client, Right.JOIN, index)
        for index in range(HEIGHTS)
    )


@always
def reads_with_a_grant(client: Client, batch: Int[1, HEIGHTS - 1]):
    """A client has read a batch only if it had a grant when the batch was admitted, or later."""
    return batch not in client.read or any(
        batch < height and height <= len(log) and has(client, Right.READ, height)
        for height in range(HEIGHTS + 1)
    )


@always
def revocation_allows_nothing(client: Client, right: Right):
    """Nobody may do after a revocation what they were not allowed to do before it."""
    return all(
        index >= len(log)
        or log[index].kind != Kind.REVOKE
        or has(client, right, index)
        or not has(client, right, index + 1)
        for index in range(HEIGHTS)
    )


@leads_to
def grant_admits(client: Client):
    """A client with a grant gets its batch in, unless the grant is revoked or the log is full."""
    return has(client, Right.WRITE, len(log)), (
        not has(client, Right.WRITE, len(log)) or len(log) == HEIGHTS
    )


@leads_to
def grant_shows(client: Client, batch: Int[1, HEIGHTS - 1]):
    """A client with a grant gets every batch, unless the grant is revoked."""
    return is_batch(batch) and has(client, Right.READ, len(log)), (
        batch in client.read or not has(client, Right.READ, len(log))
    )


@exists
def revoked_client_has_read():
    """A client keeps what it read before its grant was revoked."""
    return any(len(client.read) > 0 and not has(client, Right.READ, len(log)) for client in Client)


@exists
def read_after_a_late_grant():
    """A grant also shows what was admitted before it."""
    return any(
        1 in client.read and log[2] == Entry(Kind.GRANT, Right.READ, client)
        for client in Client
        if len(log) > 2
    )


@exists
def one_client_writes_and_another_may_not():
    return is_batch(1) and any(not has(client, Right.WRITE, 1) for client in Client)


@exists
def validator_is_behind():
    """A batch is admitted while a correct validator does not know its writer's grant."""
    return is_batch(1) and any(one.height == 0 for one in Validator)
