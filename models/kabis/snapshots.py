"""Snapshots and pruning: how validators and clients start without the whole chain.

The state after block h has its root in the header of block h + 1, which a quorum certifies. A validator
keeps a snapshot of its state, drops the blocks below it, and gives both to whoever starts. The
abstractions:

- The state after a block is its height, and a false one is marked. Agreement on blocks is Tendermint's
  (`tendermint.py`): a block is certified once enough validators have voted, whatever is in it.
- The Byzantine validator has every block and every snapshot that it likes, stale or forged, and its
  vote always counts. None of what it does is fair.
- A validator's records of votes are not part of the snapshot. `durability.py` covers what happens if
  they are lost.
- A client keeps the height of its last state as a checkpoint, and may lose everything else at any time.
  It may load an older snapshot and read on from there, but it opens only at its checkpoint or after.
- A validator that has nothing yet, because it has just joined, is one that is far behind.
"""

from veristream.actions import *

HONEST = constant(3)
BYZANTINE = constant(1)
QUORUM = constant(3)
HEIGHTS = constant(3)
LOSSES = constant(1)  # how many times validators lose blocks
RESTARTS = constant(1)  # of the client
EXPORTS = constant(1)  # of receipts; at most 1

PROVEN_BY = constant(QUORUM)  # the signatures that a snapshot's root needs
COVERED = constant(True)  # 0: blocks are dropped before a snapshot covers them
CHECKPOINTS = constant(True)  # 0: a client forgets how far it was
VOTES_APART = constant(True)  # 0: a snapshot's height replaces the records of votes
WHOLE = constant(True)  # 0: a receipt refers to the chain instead of containing header and certificate

NOTHING = -1

receipt: Int[0, HEIGHTS] = 0  # the height of an exported receipt
losses: Int[0, LOSSES] = 0


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


class Validator(Role, count=HONEST, symmetric=True):
    """A correct validator; it has the blocks above `base` up to `height`."""

    height: Int[0, HEIGHTS] = 0
    base: Int[0, HEIGHTS] = 0
    snapshot: Int[0, HEIGHTS] = 0  # the height of its snapshot; 0 is the start of the chain
    voted: Int[0, HEIGHTS] = 0  # the last vote on record
    sent: Int[0, HEIGHTS] = 0  # the last vote that others have seen
    twice: bool = False
    forged: bool = False

    @action(fair="weak")
    def vote(self):
        """Votes for the next block, once."""
        require(self.height < HEIGHTS and self.voted <= self.height)
        if self.sent > self.height:
            self.twice = True
        self.voted = self.height + 1
        self.sent = max(self.sent, self.height + 1)

    @action(fair="weak")
    def apply(self):
        """Applies the next block, which it has or gets from a correct validator."""
        require(self.height < HEIGHTS and is_kept(self.height + 1))
        self.height += 1

    @action
    def apply_from_the_byzantine(self):
        """Applies the next block, which carries its certificate, from whoever has it."""
        require(self.height < HEIGHTS and is_certified(self.height + 1))
        self.height += 1

    @action
    def take(self):
        """Takes a snapshot of its state, once the next header has its root."""
        require(self.snapshot < self.height and is_proven(self.height))
        self.snapshot = self.height

    @action
    def prune(self):
        """Drops all blocks that the snapshot covers."""
        require(self.base < (self.snapshot if COVERED else self.height))
        self.base = self.snapshot if COVERED else self.height

    @action(fair="weak")
    def install(self, number: Int[1, HEIGHTS]):
        """Starts from a snapshot of a correct validator."""
        require(self.height < number and is_proven(number))
        require(any(one.snapshot == number for one in Validator))
        self.start_from(number)

    @action
    def install_from_the_byzantine(self, number: Int[1, HEIGHTS], forge: bool):
        require(self.height < number and (BYZANTINE >= PROVEN_BY if forge else is_proven(number)))
        self.start_from(number)
        self.forged = forge

    @action
    def lose_blocks(self):
        """A disk fails, and the validator starts again from its snapshot."""
        global losses
        require(losses < LOSSES and self.snapshot < self.height)
        losses += 1
        self.start_from(self.snapshot)

    def start_from(self, number):
        self.height = number
        self.base = number
        self.snapshot = number
        if not VOTES_APART:
            self.voted = number


class Client(Role):
    state: Int[NOTHING, HEIGHTS] = NOTHING
    checkpoint: Int[0, HEIGHTS] = 0
    open: bool = False
    forged: bool = False
    restarts: Int[0, RESTARTS] = 0

    @action(fair="weak")
    def load(self, number: Int[0, HEIGHTS]):
        """Loads a snapshot of a correct validator; the start of the chain needs no proof."""
        require(self.state < number and (number == 0 or is_proven(number)))
        require(number == 0 or any(one.snapshot == number for one in Validator))
        self.state = number

    @action
    def load_from_the_byzantine(self, number: Int[1, HEIGHTS], forge: bool):
        """Loads a stale snapshot, or a forged one."""
        require(self.state < number and (BYZANTINE >= PROVEN_BY if forge else is_proven(number)))
        self.state = number
        self.forged = forge

    @action(fair="weak")
    def follow(self):
        """Reads the next block from a correct validator."""
        require(self.state != NOTHING and self.state < HEIGHTS and is_kept(self.state + 1))
        self.state += 1

    @action
    def follow_the_byzantine(self):
        require(self.state != NOTHING and self.state < HEIGHTS and is_certified(self.state + 1))
        self.state += 1

    @action(fair="weak")
    def begin(self):
        """Opens: from here on, the application sees the state."""
        require(not self.open and self.state != NOTHING)
        require(not CHECKPOINTS or self.state >= self.checkpoint)
        self.open = True

    @action
    def save(self):
        require(self.open and self.checkpoint < self.state)
        self.checkpoint = self.state

    @action
    def export(self):
        """Exports a receipt of the block that it has just read."""
        global receipt
        require(EXPORTS > 0 and self.open and receipt == 0 and self.state > 0 and is_kept(self.state))
        receipt = self.state

    @action
    def restart(self):
        require(self.restarts < RESTARTS and self.state != NOTHING)
        self.restarts += 1
        self.state = NOTHING
        self.open = False


def is_certified(height):
    """Whether a quorum has voted for the block."""
    return sum(one.sent >= height for one in Validator) + BYZANTINE >= QUORUM


def is_proven(height):
    """Whether the root of the state after this block is in a header with enough signatures."""
    return sum(one.sent > height for one in Validator) + BYZANTINE >= PROVEN_BY


def is_kept(height):
    """Whether the block is certified, and a correct validator has it."""
    return is_certified(height) and (
        any(one.base < height and height <= one.height for one in Validator)
        or not any(one.height >= height for one in Validator)
    )


def newest():
    """Returns the height of the newest certified block."""
    return sum(is_certified(height + 1) for height in range(HEIGHTS))


@always
def state_was_certified(client: Client):
    """No client accepts a state that no quorum has certified."""
    return not client.forged and client.state <= newest()


@always
def validators_start_from_certified_states(one: Validator):
    return not one.forged and one.height <= newest()


@always
def no_rollback(client: Client):
    """An open client is never behind its own checkpoint."""
    return not client.open or client.state >= client.checkpoint


@always
def votes_once(one: Validator):
    """No validator votes again at a height at which others have seen its vote."""
    return not one.twice


@always
def no_vote_is_forgotten(one: Validator):
    return one.voted >= one.sent


@always
def pruned_is_covered(one: Validator):
    """Every block that a validator has dropped is below a snapshot that it keeps."""
    return one.base <= one.snapshot


@always
def receipt_is_verifiable():
    """A receipt can be verified whatever validators have dropped."""
    return receipt == 0 or (is_certified(receipt) and (WHOLE or is_kept(receipt)))


@leads_to
def client_opens(client: Client):
    """Every client opens, from a snapshot or from the start."""
    return not client.open, client.open


@leads_to
def validator_catches_up(one: Validator, height: Int[1, HEIGHTS]):
    return newest() >= height, one.height >= height


@leads_to
def client_catches_up(client: Client, height: Int[1, HEIGHTS]):
    return newest() >= height, client.state >= height


@exists
def all_have_pruned():
    """Nobody has the first block any more, and a client starts."""
    return all(one.base > 0 for one in Validator) and any(client.state == NOTHING for client in Client)


@exists
def opens_from_a_snapshot():
    """A client that was never at the start of the chain is open."""
    return all(one.base > 0 for one in Validator) and any(client.open for client in Client)


@exists
def stale_snapshot_is_loaded():
    """A client that restarts loads what is older than its checkpoint, and does not open there."""
    return any(client.state > 0 and client.state < client.checkpoint for client in Client)


@exists
def receipt_outlives_its_block():
    return receipt == 1 and all(one.base >= 1 for one in Validator)


@exists
def validator_joins_by_snapshot():
    """A validator that has never voted starts without the first block, which nobody has."""
    return any(
        one.sent == 0 and one.base > 0 and all(other.base > 0 for other in Validator) for one in Validator
    )


@exists
def vote_is_on_record_although_blocks_are_lost():
    return losses > 0 and any(one.voted > one.height + 1 for one in Validator)
