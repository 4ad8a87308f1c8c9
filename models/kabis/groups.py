"""Consumer groups on the validation channel: who owns a partition, and whose commit counts.

Kafka's group coordinator is one broker; in Kabis it could be Byzantine, so joins, leaves and commits are
ordered identifiers too. Each join or leave begins a generation; the owner of a partition follows from the
members of the generation by a rule that everybody knows. Members read the channel at their own pace, so one
may act for a generation that is over.
"""

from veristream.actions import *

GENERATIONS = constant(3)
EVENTS = constant(2)  # of each partition
COORDINATOR = constant(False)  # 1: a Byzantine coordinator tells each member what it owns
FENCING = constant(
    2
)  # a commit is ordered if 0: anybody, 1: the owner, 2: one that knows the generation sends it
RESUMES = constant(True)  # 0: a new owner begins with the first event, as the prototype does

BY_OWNER = 1
BY_GENERATION = 2


class Member(Role, count=2):
    known: Int[0, GENERATIONS] = 0  # the last generation that it has read of
    told: Map[Int[0, 1], bool] = False  # what the coordinator says that it owns
    position: Map[Int[0, 1], Int[0, EVENTS]] = 0

    @action
    def join(self):
        require(generation < GENERATIONS and self not in members[generation])
        begin({one for one in Member if one == self or one in members[generation]})

    @action
    def leave(self):
        """Of its own will, or because the others have ordered that it is dead, which it need not be."""
        require(generation < GENERATIONS and self in members[generation])
        begin({one for one in Member if one != self and one in members[generation]})

    @action(fair="weak")
    def read(self, first: bool, second: bool):
        """Of the next generation; it takes over what it did not own before."""
        require(self.known < generation and (COORDINATOR or not (first or second)))
        self.known += 1
        self.told[0] = first
        self.told[1] = second
        for partition in range(2):
            if owns(self, partition) and not is_owner(self, partition, self.known - 1):
                self.position[partition] = begun_at[self.known][partition] if RESUMES else 0

    @action(fair="weak")
    def deliver(self, partition: Int[0, 1]):
        require(owns(self, partition) and self.position[partition] < EVENTS)
        self.position[partition] += 1

    @action
    def commit(self, partition: Int[0, 1]):
        """Validators look at the generation in which it is ordered, and in which it was sent."""
        require(owns(self, partition) and committed[partition] != self.position[partition])
        require(FENCING < BY_OWNER or COORDINATOR or is_owner(self, partition, generation))
        require(FENCING < BY_GENERATION or self.known == generation)
        committed[partition] = self.position[partition]


generation: Int[0, GENERATIONS] = 0
members: Map[Int[0, GENERATIONS], Set[Member]] = set()
committed: Map[Int[0, 1], Int[0, EVENTS]] = 0
begun_at: Map[Int[0, GENERATIONS], Map[Int[0, 1], Int[0, EVENTS]]] = 0  # what was committed before


@action
def idle():
    """Nothing happens: what is not fair may stay away for ever, also where nothing else is possible."""
    require(True)


def begin(those):
    """Orders the beginning of a generation."""
    global generation
    members[generation + 1] = those
    for partition in range(2):
        begun_at[generation + 1][partition] = committed[partition]
    generation += 1


def is_owner(member, partition, number):
    """The rule: alone one owns both partitions, together each owns the one of its number."""
    return member in members[number] and (member.id == partition or len(members[number]) == 1)


def owns(member, partition):
    """As the member believes."""
    return member.told[partition] if COORDINATOR else is_owner(member, partition, member.known)


@always
def one_owner_a_generation(partition: Int[0, 1]):
    """No two members that know of the same generation own a partition together."""
    return all(
        one == other or one.known != other.known or not owns(one, partition) or not owns(other, partition)
        for one in Member
        for other in Member
    )


@always
def begins_at_the_commit(member: Member, partition: Int[0, 1]):
    """Whoever owns a partition is not behind what was committed before its generation began."""
    return not owns(member, partition) or member.position[partition] >= begun_at[member.known][partition]


@transition
def commits_never_fall(partition: Int[0, 1]):
    return after(committed[partition]) >= committed[partition]


@transition
def committed_is_not_delivered_again(member: Member, partition: Int[0, 1]):
    """A member that is up to date delivers nothing that was committed, also after a restart."""
    return (
        after(member.position[partition]) == member.position[partition]
        or member.known != generation
        or after(member.known) != member.known
        or member.position[partition] >= committed[partition]
    )


@leads_to
def member_is_told(member: Member):
    """Whoever joins learns of it."""
    return member.known < generation, member.known == generation


@exists
def two_generations_at_once():
    """Two members own one partition, in different generations: a zombie."""
    return any(
        owns(Member[0], partition) and owns(Member[1], partition) and Member[0].known != Member[1].known
        for partition in range(2)
    )


@exists
def partition_comes_back():
    """A member owns a partition again, and the other has committed to it in between."""
    return (
        generation == 3
        and is_owner(Member[0], 1, 1)
        and is_owner(Member[1], 1, 2)
        and is_owner(Member[0], 1, 3)
        and begun_at[3][1] > begun_at[2][1]
    )


@exists
def handed_over_with_a_commit():
    return any(
        member.known > 1 and member.position[1] == 1 and begun_at[member.known][1] == 1 for member in Member
    )
