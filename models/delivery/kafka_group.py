"""What Kafka's settings promise to a consumer group: one partition, two members, commits and rebalances.

The coordinator gives the partition to one member at a time, and starts it at the committed offset. Members
poll, process and commit; they are killed, or stand still for so long that the coordinator takes the
partition from them without their knowledge.
"""

from veristream.actions import *

AUTO_COMMIT = constant(True)  # enable.auto.commit: the position is committed, processed or not
FENCED = constant(True)  # 0: the coordinator accepts commits of earlier generations
RECORDS = constant(3)
POLLED = constant(2)  # max.poll.records
MEMBERS = constant(2)
KILLS = constant(1)
PAUSES = constant(1)

kills: Int[0, KILLS] = 0
pauses: Int[0, PAUSES] = 0
generation: Int[0, KILLS + PAUSES + MEMBERS] = 0
committed: Int[0, RECORDS] = 0
processed: Set[Int[0, RECORDS - 1]] = set()


class Member(Role, count=MEMBERS):
    alive: bool = True
    paused: bool = False
    holds: bool = False  # as the member believes
    generation: Int[0, KILLS + PAUSES + MEMBERS] = 0
    position: Int[0, RECORDS] = 0  # of the next record to fetch
    done: Int[0, RECORDS] = 0  # all below are processed

    @action(fair="weak")
    def poll(self):
        """Returns up to `POLLED` records; a commit by timer happens here too, before the fetch."""
        require(self.alive and not self.paused and self.holds and self.done == self.position)
        require(self.position < RECORDS)
        self.position = min(RECORDS, self.position + POLLED)

    @action(fair="weak")
    def process(self):
        require(self.alive and not self.paused and self.done < self.position)
        processed.add(self.done)
        self.done += 1

    @action
    def commit(self):
        """The timer commits what was returned to the application; an application commits what is done."""
        global committed
        offset = self.position if AUTO_COMMIT else self.done
        require(self.alive and not self.paused and self.holds and offset != committed)
        if not FENCED or self.generation == generation:
            committed = offset
        else:
            self.holds = False

    @action
    def kill(self):
        global kills
        require(self.alive and kills < KILLS and any(other.alive for other in Member if other != self))
        kills += 1
        self.alive = False

    @action
    def pause(self):
        global pauses
        require(self.alive and not self.paused and pauses < PAUSES)
        pauses += 1
        self.paused = True

    @action(fair="weak")
    def resume(self):
        require(self.paused)
        self.paused = False

    @action(fair="weak")
    def learn(self):
        """A member that is back learns that it has lost the partition."""
        require(self.alive and not self.paused and self.holds and self.generation != generation)
        self.holds = False

    @action(fair="weak")
    def take(self):
        """A rebalance: the holder of the last generation is dead, or has not been heard of for too long."""
        global generation
        require(self.alive and not self.paused and not self.holds)
        require(
            all(
                not (other.holds and other.generation == generation) or not other.alive or other.paused
                for other in Member
            )
        )
        require(generation < KILLS + PAUSES + MEMBERS)
        generation += 1
        self.generation = generation
        self.holds = True
        self.position = committed
        self.done = committed


@always
def committed_is_processed():
    """A commit covers only what a member has processed."""
    return all(record in processed for record in range(RECORDS) if record < committed)


@always
def one_member_holds():
    """No two living members believe that they hold the partition."""
    return sum(one.alive and one.holds for one in Member) <= 1


@transition
def commits_never_move_back():
    return after(committed) >= committed


@exists
def all_is_committed_after_a_rebalance():
    return committed == RECORDS and generation > 1
