"""Changes of the validator set: how validators switch, and how light clients follow them.

A change is ordered like any other transaction: the block that orders it is certified by the set in
force, and the next set takes over `DELAY` heights later. A light client need not read every block. It
trusts one set, accepts any later block with a certificate of that set, and accepts a certificate of the
next set only after one of its own set for the block that ordered the change. The abstractions:

- Agreement of one set at one height is Tendermint's (`tendermint.py`): the correct members of a set
  sign one block of a height, whichever it is. Nothing is assumed of two sets at one height.
- Set n has the correct validators n, n + 1 and n + 2, and one Byzantine member of its own, whose
  signature is always there: each change replaces one correct validator, and the two sets have the
  others in common.
- The fault bound holds while a set is in force and for `SAFE` units of time after. Then all keys of the
  set may leak, and whoever has them certifies anything: the long-range attack. Time passes at any
  moment; a block has the time at which it was certified.
- A client that has seen no block of the last `TRUST` units of time trusts nobody (weak subjectivity),
  and gets the newest block from its operator.
- Properties compare the last accepted blocks. A client may pause anywhere, and nobody waits for it, so
  two clients that ever accept different blocks of one height can also do so at the same time.
"""

from veristream.actions import *

HEIGHTS = constant(5)
SETS = constant(3)
CLIENTS = constant(2)
BYZANTINE = constant(1)  # of each set, while it is in force
QUORUM = constant(3)
DELAY = constant(2)  # the next set certifies from this many heights after the change; 0: the change itself
TIMES = constant(3)
TRUST = constant(1)  # for how long after the time of its last block a client trusts that block's set
SAFE = constant(2)  # for how long after a set's last block its keys do not leak

EXPIRES = constant(True)  # 0: a client trusts its last block for ever
BLOCK_TIME = constant(True)  # 0: a client's trust starts when it receives a block, not at the block's time
LEAVES_OLD = constant(True)  # 0: a client that knows the next set still accepts certificates of older ones
PROVEN = constant(True)  # 0: a client accepts a set that another set did not certify
OPERATED = constant(True)  # 0: nobody gives a client that was away too long a newer block

NEVER = HEIGHTS + DELAY + 1


class Block(Enum):
    NONE = 0
    PLAIN = 1
    CHANGE = 2  # orders the next set
    FORGED = 3  # what no correct validator signs


chain: Map[Int[0, HEIGHTS], Block] = Block.NONE  # what correct validators know to be certified
certified: Map[Int[0, HEIGHTS], Map[Int[0, SETS - 1], Block]] = Block.NONE
times: Map[Int[0, HEIGHTS], Int[0, TIMES]] = 0  # the start of the chain has height 0 and time 0
current: Int[1, HEIGHTS] = 1  # the height that validators work on
now: Int[0, TIMES] = 0
leaked: Set[Int[0, SETS - 1]] = set()


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


@action
def tick():
    global now
    require(now < TIMES)
    now += 1


@action
def leak(number: Int[0, SETS - 1]):
    """All keys of a set that left long ago fall into one hand."""
    require(number not in leaked and is_unsafe(number))
    leaked.add(number)


class Validator(Role, count=SETS + 2):
    """A correct validator."""

    vote: Block = Block.NONE  # at the current height

    @action(fair="weak")
    def sign(self, block: Block):
        """Signs the block of the current height that its set agrees on, once."""
        require(block in (Block.PLAIN, Block.CHANGE) and self.vote == Block.NONE)
        number = set_for(current, block)
        require(block == Block.PLAIN or may_change(current))
        require(is_member(self, number))
        require(
            all(
                one.vote == Block.NONE or one.vote == block or set_for(current, one.vote) != number
                for one in Validator
            )
        )
        self.vote = block
        if sum(one.vote == block for one in Validator) + BYZANTINE >= QUORUM:
            certify(number, block)


@action(fair="weak")
def begin():
    """Validators go on to the next height."""
    global current
    require(current < HEIGHTS and chain[current] != Block.NONE)
    current += 1
    for one in Validator:
        one.vote = Block.NONE


def certify(number, block):
    certified[current][number] = block
    if chain[current] == Block.NONE:
        chain[current] = block
        times[current] = now


class Client(Role, count=CLIENTS, symmetric=True):
    """A light client."""

    height: Int[0, HEIGHTS] = 0  # of the last block that it accepted
    block: Block = Block.NONE
    signer: Int[0, SETS - 1] = 0  # the set that certified the block
    trusted: Int[0, SETS - 1] = 0
    until: Int[0, NEVER] = NEVER  # the height from which the next set is in force, once it is known
    since: Int[0, TIMES] = 0

    @action(fair="weak")
    def follow(self, height: Int[1, HEIGHTS], block: Block):
        """Accepts a later block that is certified by the set that it trusts."""
        require(self.height < height and height < self.until and is_fresh(self))
        require(can_show(height, self.trusted, block))
        self.accept(height, block, self.trusted)

    @action(fair="weak")
    def learn(self, height: Int[1, HEIGHTS]):
        """Learns of the next set from the set that it trusts; the block may be an old one."""
        require(self.until == NEVER and is_fresh(self) and self.trusted < SETS - 1)
        require(can_show(height, self.trusted, Block.CHANGE) and height + DELAY > self.height)
        self.until = height + DELAY

    @action(fair="weak")
    def switch(self, height: Int[1, HEIGHTS], block: Block):
        """Accepts the first block of the next set."""
        require(self.height < height and self.until <= height and is_fresh(self))
        require(can_show(height, self.trusted + 1, block))
        self.take_over()
        self.accept(height, block, self.trusted)

    @action(fair="weak")
    def switch_at_once(self, height: Int[1, HEIGHTS]):
        """Accepts the change itself with a certificate of the next set."""
        require(DELAY == 0 and self.height < height and is_fresh(self) and self.trusted < SETS - 1)
        require(can_show(height, self.trusted + 1, Block.CHANGE))
        self.take_over()
        self.accept(height, Block.CHANGE, self.trusted)

    @action
    def follow_an_older_set(self, height: Int[1, HEIGHTS], block: Block, number: Int[0, SETS - 1]):
        require(not LEAVES_OLD and number < self.trusted and self.height < height and is_fresh(self))
        require(can_show(height, number, block))
        self.accept(height, block, number)

    @action
    def follow_a_stranger(self, height: Int[1, HEIGHTS]):
        """Accepts a block of a set that its members have made up."""
        require(not PROVEN and self.height < height and is_fresh(self))
        self.accept(height, Block.FORGED, self.trusted)

    @action(fair="weak")
    def ask_the_operator(self):
        """Starts again from the newest block, which somebody whom the client trusts has told it."""
        require(OPERATED and not is_fresh(self))
        self.height = newest()
        self.block = chain[newest()]
        self.signer = set_at(newest())
        self.trusted = set_at(newest())
        self.until = next_after(newest())
        self.since = now

    def accept(self, height, block, number):
        self.height = height
        self.block = block
        self.signer = number
        self.since = times[height] if BLOCK_TIME else now

    def take_over(self):
        self.trusted += 1
        self.until = NEVER


def set_at(height):
    """Returns the set in force at a height, by the changes that the chain has ordered."""
    return sum(chain[index] == Block.CHANGE and index + DELAY <= height for index in range(HEIGHTS + 1))


def set_for(height, block):
    """Returns the set whose members sign this block; without a delay, that depends on the block."""
    return sum(
        chain[index] == Block.CHANGE and index < height and index + DELAY <= height
        for index in range(HEIGHTS + 1)
    ) + (1 if DELAY == 0 and block == Block.CHANGE else 0)


def is_member(validator, number):
    return number <= validator.id and validator.id <= number + 2


def may_change(height):
    """Whether there is a next set, and no other change waits for its height."""
    return sum(chain[index] == Block.CHANGE for index in range(HEIGHTS + 1)) < SETS - 1 and not any(
        index < height and height < index + DELAY and chain[index] == Block.CHANGE
        for index in range(HEIGHTS + 1)
    )


def is_unsafe(number):
    """Whether the last block of the set was certified so long ago that the set's keys may leak."""
    return any(
        chain[index] != Block.NONE
        and set_at(index) == number
        and set_at(index + 1) > number
        and times[index] + SAFE <= now
        for index in range(HEIGHTS + 1)
    )


def newest():
    """Returns the height of the newest certified block; 0 is the start of the chain."""
    return current if chain[current] != Block.NONE else current - 1


def next_after(height):
    """Returns the height at which the next set takes over, as far as it is known at a height."""
    return NEVER - sum(
        NEVER - index - DELAY
        if chain[index] == Block.CHANGE and index <= height and height < index + DELAY
        else 0
        for index in range(HEIGHTS + 1)
    )


def can_show(height, number, block):
    """Whether somebody has a certificate of the set for the block."""
    return block != Block.NONE and (certified[height][number] == block or number in leaked)


def is_fresh(client):
    return not EXPIRES or now <= client.since + TRUST


@always
def one_block_a_height(height: Int[1, HEIGHTS]):
    """No two blocks of one height are certified by sets that are within the fault bound."""
    return all(
        certified[height][number] == Block.NONE or certified[height][number] == chain[height]
        for number in range(SETS)
    )


@always
def clients_agree(one: Client, other: Client):
    """No two clients accept different blocks of one height."""
    return one.height != other.height or one.block == other.block


@always
def accepted_is_on_the_chain(client: Client):
    return client.block == chain[client.height]


@always
def signer_was_in_force(client: Client):
    """The set that certified an accepted block was in force at its height."""
    return client.signer == set_at(client.height)


@always
def knows_the_next_set(client: Client):
    """If a client knows when the next set takes over, it is right."""
    return client.until == NEVER or set_at(client.until) == client.trusted + 1


@transition
def goes_forward(client: Client):
    return after(client.height) >= client.height and after(client.trusted) >= client.trusted


@leads_to
def gets_to_the_newest_set(client: Client, number: Int[1, SETS - 1]):
    """Every client gets to the newest set once that set has certified a block."""
    return set_at(newest()) == number, client.trusted >= number


@leads_to
def chain_goes_on(height: Int[1, HEIGHTS]):
    """Validators certify every height, whatever they change."""
    return current >= height, chain[height] != Block.NONE


@exists
def each_set_certifies():
    return any(certified[height][SETS - 1] != Block.NONE for height in range(HEIGHTS + 1))


@exists
def client_passes_a_change():
    """A client has accepted a block after a change, and does not know of the change yet."""
    return any(
        client.until == NEVER and client.trusted == 0 and client.height == 2 and chain[1] == Block.CHANGE
        for client in Client
    )


@exists
def client_follows_while_old_keys_are_leaked():
    return 0 in leaked and any(client.trusted == SETS - 1 and is_fresh(client) for client in Client)


@exists
def client_is_away_too_long():
    """A client still trusts the first set when that set's keys have leaked, but it accepts nothing."""
    return 0 in leaked and any(client.trusted == 0 and not is_fresh(client) for client in Client)
