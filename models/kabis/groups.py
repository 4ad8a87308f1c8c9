"""Consumer groups on the validation channel: partition ownership and commits.

Kafka's group coordinator is one broker; in Kabis it could be Byzantine, so joins, leaves and commits are
ordered identifiers too. Each join or leave starts a generation; the owner of a partition follows from the
members of the generation by a public rule. Members read the channel at their own pace, so one may still
act for a past generation.
"""

from veristream.actions import *

GENERATIONS = constant(3)
EVENTS = constant(2)  # of each partition
COORDINATOR = constant(False)  # 1: a Byzantine coordinator tells each member what it owns
FENCING = constant(
    2
)  # validators accept a commit from 0: any member, 1: the owner, 2: the owner in the current generation
RESUMES = constant(True)  # 0: a new owner starts from the first event, as in the prototype

BY_OWNER = 1
BY_GENERATION = 2


class Member(Role, count=2):
    known: Int[0, GENERATIONS] = 0  # the last generation that it has read
    told: Map[Int[0, 1], bool] = False  # the partitions assigned by the coordinator
    position: Map[Int[0, 1], Int[0, EVENTS]] = 0

    @action
    def join(self):
        require(generation < GENERATIONS and self not in members[generation])
        begin({one for one in Member if one == self or one in members[generation]})

    @action
    def leave(self):
        """Leaves voluntarily, or because the others have ordered that it is dead, rightly or not."""
        require(generation < GENERATIONS and self in members[generation])
        begin({one for one in Member if one != self and one in members[generation]})

    @action(fair="weak")
    def read(self, first: bool, second: bool):
        """Reads the next generation and takes over partitions that it did not own before."""
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
        """Commits a position; validators may check the owner and the generation."""
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
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


def begin(those):
    """Orders the start of a generation."""
    global generation
    members[generation + 1] = those
    for partition in range(2):
        begun_at[generation + 1][partition] = committed[partition]
    generation += 1


def is_owner(member, partition, number):
    """The rule: a single member owns both partitions; of two, each owns the one with its number."""
    return member in members[number] and (member.id == partition or len(members[number]) == 1)


def owns(member, partition):
    """Whether the member believes that it owns the partition."""
    return member.told[partition] if COORDINATOR else is_owner(member, partition, member.known)


@always
def one_owner_a_generation(partition: Int[0, 1]):
    """No two members in the same generation own the same partition."""
    return all(
        one == other or one.known != other.known or not owns(one, partition) or not owns(other, partition)
        for one in Member
        for other in Member
    )


@always
def begins_at_the_commit(member: Member, partition: Int[0, 1]):
    """The owner of a partition is not behind what was committed before its generation started."""
    return not owns(member, partition) or member.position[partition] >= begun_at[member.known][partition]


@transition
def commits_never_fall(partition: Int[0, 1]):
    return after(committed[partition]) >= committed[partition]


@transition
def committed_is_not_delivered_again(member: Member, partition: Int[0, 1]):
    """A member that is up to date does not redeliver committed events, even after a restart."""
    return (
        after(member.position[partition]) == member.position[partition]
        or member.known != generation
        or after(member.known) != member.known
        or member.position[partition] >= committed[partition]
    )


@leads_to
def member_is_told(member: Member):
    """Every member eventually learns of the current generation."""
    return member.known < generation, member.known == generation


@exists
def two_generations_at_once():
    """Two members own one partition in different generations: one is a zombie."""
    return any(
        owns(Member[0], partition) and owns(Member[1], partition) and Member[0].known != Member[1].known
        for partition in range(2)
    )


@exists
def partition_comes_back():
    """A member owns a partition again after the other has committed to it in between."""
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
