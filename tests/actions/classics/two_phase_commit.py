"""Two-phase commit: a transaction manager makes all resource managers commit, or all abort.

`TwoPhase.tla` of J. Gray and L. Lamport, *Consensus on transaction commit* (2006), action by action.
The TLA+ examples list 288 states for three resource managers, the module itself 50,816 for six. It is
consistent, and it blocks: a resource manager that is prepared waits forever if the transaction
manager stops.
"""

from veristream.actions import *

MANAGERS = constant(3)


class Progress(Enum):
    WORKING = 0
    PREPARED = 1
    COMMITTED = 2
    ABORTED = 3


class Decision(Enum):
    COMMIT = 0
    ABORT = 1


class Resource(Role, count=MANAGERS):
    progress: Progress = Progress.WORKING

    @action(fair="weak")
    def prepare(self):
        require(self.progress == Progress.WORKING)
        self.progress = Progress.PREPARED
        votes.add(self)

    @action
    def choose_to_abort(self):
        require(self.progress == Progress.WORKING)
        self.progress = Progress.ABORTED

    @action(fair="weak")
    def hear_commit(self):
        require(Decision.COMMIT in announced)
        self.progress = Progress.COMMITTED

    @action(fair="weak")
    def hear_abort(self):
        require(Decision.ABORT in announced)
        self.progress = Progress.ABORTED


# Messages stay forever: what was sent may be received later, again, or never.
votes: Set[Resource] = set()
announced: Set[Decision] = set()


class Manager(Role):
    """No fairness: the transaction manager may stop at any time."""

    decision: Maybe[Decision] = None
    prepared: Set[Resource] = set()

    @action
    def receive_vote(self):
        sender = any_of(votes)
        require(self.decision is None)
        self.prepared.add(sender)

    @action
    def commit(self):
        require(self.decision is None and len(self.prepared) == MANAGERS)
        self.decision = Decision.COMMIT
        announced.add(Decision.COMMIT)

    @action
    def abort(self):
        require(self.decision is None)
        self.decision = Decision.ABORT
        announced.add(Decision.ABORT)


def is_done(r):
    return r.progress in {Progress.COMMITTED, Progress.ABORTED}


@always
def consistent():
    return not any(
        r.progress == Progress.COMMITTED and s.progress == Progress.ABORTED
        for r in Resource
        for s in Resource
    )


@always
def commits_only_if_all_prepared():
    committed = any(r.progress == Progress.COMMITTED for r in Resource)
    return not committed or len(votes) == MANAGERS


@transition
def a_decision_stands(r: Resource):
    return not is_done(r) or after(r.progress) == r.progress


@exists
def all_commit():
    return all(r.progress == Progress.COMMITTED for r in Resource)


@leads_to
def what_is_decided_is_done(r: Resource):
    return announced != set(), is_done(r)


@leads_to
def nobody_blocks(r: Resource):
    """Violated, the weakness of the protocol: nothing comes from a manager that stopped."""
    return r.progress == Progress.PREPARED, is_done(r)
