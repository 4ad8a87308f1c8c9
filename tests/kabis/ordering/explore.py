"""Every run of three correct validators and a Byzantine one, for one height and few rounds.

The machines are the real ones. What makes the runs few enough to try them all, and loses none:

- A message that makes no rule fire can as well come later, with those that do. So a validator takes a step
  by hearing a *bundle* of messages that makes one rule fire, chosen among all that the others have sent.
- What is sent stays to be heard, and a message of a round matters to nobody in an earlier one, except that
  a validator may leave its round because others have. So the steps of a run can be put in order: by round,
  in it first all prevotes, then all precommits, then proofs-of-lock that come late, then all leave.
- A timeout comes whenever the messages that start it have been sent. That covers the rules for nil (44) and
  for skipping rounds (55), which do the same. A validator that leaves a round without a vote could as well
  have voted nil in it before: its locks are the same, and others need not listen.
- The Byzantine validator has voted for everything in every step, so its votes are in every bundle that
  needs them. Where it proposes, it proposes each of two values, and every value that it can show a
  proof-of-lock for.
- Two runs are one at the end of a round when validators have the same locks, values the same proofs, and
  the same values can be decided. Of those the shorter is kept, so a violation comes with a shortest way.

Two values that can be decided are a disagreement: two of three validators only have to hear of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import sha256

from tests.kabis.ordering.bench import (
    COMMITTEE,
    HEIGHT,
    PRECOMMIT,
    PREVOTE,
    PROPOSE,
    certificate,
    sign_as,
    signed,
    vote,
)
from veristream.kabis.ordering.interface import Broadcast, Decide, Input, Received, Start, Timeout
from veristream.kabis.ordering.messages import NO_ROUND, Message, Proposal, Step, Value
from veristream.kabis.ordering.tendermint import Application, Identity, Tendermint

Move = tuple[str, tuple[Input, ...]]
STAY: Move = ("stays", ())


@dataclass(frozen=True)
class Local:
    """One validator's state in a round, as far as it matters, and what it has sent in the round."""

    index: int
    round: int
    step: Step
    lock: tuple[bytes | None, int, bytes | None, int]
    has_seen_proof: bool = False
    prevote: tuple[bytes | None] | None = None
    precommit: tuple[bytes | None] | None = None
    proposal: bytes | None = None


@dataclass(frozen=True)
class Run:
    """Runs that are one: the validators, what has a proof-of-lock in which round, what can be decided."""

    validators: tuple[Local, ...]
    proofs: frozenset[tuple[int, bytes]] = frozenset()
    decidable: frozenset[bytes] = frozenset()


Way = tuple[str, ...]
Phase = Callable[[Run, Local], Iterator[Move]]


@dataclass
class Explorer:
    """All runs with this Byzantine validator and so many rounds."""

    byzantine: int
    rounds: int
    values: dict[bytes, Value] = field(default_factory=dict)
    proposals: dict[bytes, Proposal] = field(default_factory=dict)
    machines: dict[Local, Tendermint] = field(default_factory=dict)
    moved: dict[tuple[Local, str], Local] = field(default_factory=dict)
    provers: dict[tuple[int, bytes], tuple[int, ...]] = field(default_factory=dict)
    states: int = 0
    decided: set[bytes] = field(default_factory=set)

    def find_disagreement(self) -> Way | None:
        """The shortest way to two values that can be decided, if there is one."""
        runs: dict[Run, Way] = {Run(tuple(self._begin(index) for index in self._correct())): ()}
        for number in range(self.rounds):
            for phase in (self._prevote_moves, self._precommit_moves, self._late_moves):
                for place in range(len(self._correct())):
                    runs = self._take_steps(runs, phase, place)
            runs = {self._close(run, number): way for run, way in _longest_first(runs)}
            self.decided.update(*(run.decidable for run in runs))
            found = [way for run, way in runs.items() if len(run.decidable) > 1]
            if found:
                return min(found, key=len)
            runs = {self._leave(run, number): way for run, way in _longest_first(runs)}
        return None

    def _correct(self) -> list[int]:
        return [index for index in range(COMMITTEE.size) if index != self.byzantine]

    def _take_steps(self, runs: dict[Run, Way], phase: Phase, place: int) -> dict[Run, Way]:
        """The runs after one validator has taken its step of the phase."""
        following: dict[Run, Way] = {}
        for run, way in _longest_first(runs):
            local = run.validators[place]
            for name, inputs in phase(run, local):
                after = self.moved.get((local, name))
                if after is None:
                    after = self.moved[(local, name)] = self._step(local, inputs)
                validators = (*run.validators[:place], after, *run.validators[place + 1 :])
                changed = replace(run, validators=validators)
                extended = (*way, f"{local.index} {name}") if _is_heard(inputs) else way
                if changed not in following or len(extended) < len(following[changed]):
                    following[changed] = extended
        self.states += len(following)
        return following

    def _close(self, run: Run, number: int) -> Run:
        """Notes what can be decided and what has proofs-of-lock once the round is over."""
        decidable, proofs = set(run.decidable), set(run.proofs)
        for identifier in self.values:
            if len(self._voters(run, PRECOMMIT, identifier)) >= COMMITTEE.quorum:
                decidable.add(identifier)
            voters = self._voters(run, PREVOTE, identifier)
            if len(voters) >= COMMITTEE.quorum:
                self.provers[(number, identifier)] = voters
                proofs.add((number, identifier))
        return Run(run.validators, frozenset(proofs), frozenset(decidable))

    def _leave(self, run: Run, number: int) -> Run:
        after = []
        for local in run.validators:
            gone = self.moved.get((local, "leaves"))
            if gone is None:
                gone = self.moved[(local, "leaves")] = self._step(
                    local, (Timeout(PRECOMMIT, HEIGHT, number),)
                )
            after.append(gone)
        return replace(run, validators=tuple(after))

    # What a validator can do next

    def _prevote_moves(self, run: Run, local: Local) -> Iterator[Move]:
        if local.step is not PROPOSE:
            yield STAY
            return
        yield f"waits for proposal {local.round} in vain", (Timeout(PROPOSE, HEIGHT, local.round),)
        for proposal in self._proposals_of(run, local.round):
            what = proposal.value.content.decode()
            name = f"hears proposal {local.round} {what}, valid round {proposal.valid_round}"
            yield name, (Received(proposal),)

    def _precommit_moves(self, run: Run, local: Local) -> Iterator[Move]:
        assert local.step is PREVOTE
        yield f"waits for prevotes {local.round} in vain", (Timeout(PREVOTE, HEIGHT, local.round),)
        yield from self._proof_moves(run, local)

    def _late_moves(self, run: Run, local: Local) -> Iterator[Move]:
        assert local.step is PRECOMMIT
        yield STAY
        if not local.has_seen_proof:
            yield from self._proof_moves(run, local)

    def _proof_moves(self, run: Run, local: Local) -> Iterator[Move]:
        for proposal in self._proposals_of(run, local.round):
            voters = self._voters(run, PREVOTE, proposal.value.identifier)
            if len(voters) >= COMMITTEE.quorum:
                prevotes = [vote(PREVOTE, voter, local.round, proposal.value) for voter in voters]
                bundle: list[Message] = [proposal, *prevotes]
                name = f"hears prevotes {local.round} of {voters} for {proposal.value.content.decode()}"
                yield name, tuple(Received(message) for message in bundle)

    def _voters(self, run: Run, step: Step, identifier: bytes) -> tuple[int, ...]:
        said = [
            (local.index, local.prevote if step is PREVOTE else local.precommit) for local in run.validators
        ]
        return tuple(sorted([self.byzantine, *(index for index, what in said if what == (identifier,))]))

    def _proposals_of(self, run: Run, number: int) -> Iterator[Proposal]:
        proposer = COMMITTEE.proposer(HEIGHT, number)
        if proposer != self.byzantine:
            made = next(local.proposal for local in run.validators if local.index == proposer)
            assert made is not None
            yield self.proposals[made]
            return
        for name in ("x", "y"):
            yield self._byzantine_proposal(number, self._value(f"{name}{number}"), NO_ROUND, ())
        for earlier, identifier in sorted(run.proofs):
            voters = self.provers[(earlier, identifier)]
            yield self._byzantine_proposal(number, self.values[identifier], earlier, voters)

    def _byzantine_proposal(
        self, number: int, value: Value, valid_round: int, voters: tuple[int, ...]
    ) -> Proposal:
        proof = certificate(PREVOTE, voters, valid_round, value) if voters else None
        return replace(signed(Proposal(HEIGHT, number, value, valid_round, self.byzantine)), proof=proof)

    def _value(self, text: str) -> Value:
        value = Value(sha256(text.encode()).digest(), text.encode())
        return self.values.setdefault(value.identifier, value)

    # Machines

    def _begin(self, index: int) -> Local:
        application = Application(
            propose=lambda height, number: self._value(f"v{number}"), valid=lambda value: True
        )
        identity = Identity(index, COMMITTEE, lambda data: sign_as(index, data))
        nothing = Local(index, 0, PROPOSE, (None, NO_ROUND, None, NO_ROUND))
        return self._follow(nothing, Tendermint(identity, application), (Start(HEIGHT),))

    def _step(self, local: Local, inputs: tuple[Input, ...]) -> Local:
        return self._follow(local, deepcopy(self.machines[local]), inputs)

    def _follow(self, local: Local, machine: Tendermint, inputs: tuple[Input, ...]) -> Local:
        outputs = [output for given in inputs for output in machine.handle(given)]
        assert not any(isinstance(output, Decide) for output in outputs)
        lock = machine.lock
        after = Local(
            index=local.index,
            round=machine.round,
            step=machine.step,
            lock=(
                lock.locked_value and lock.locked_value.identifier,
                lock.locked_round,
                lock.valid_value and lock.valid_value.identifier,
                lock.valid_round,
            ),
            has_seen_proof=36 in machine._happened,
        )
        if machine.round == local.round:
            after = replace(
                after, prevote=local.prevote, precommit=local.precommit, proposal=local.proposal
            )
        for output in outputs:
            if isinstance(output, Broadcast):
                after = self._note_sent(after, output.message)
        self.machines.setdefault(after, machine)
        return after

    def _note_sent(self, local: Local, message: Message) -> Local:
        if isinstance(message, Proposal):
            self.proposals[message.signature] = message
            return replace(local, proposal=message.signature)
        assert getattr(message, "round", None) == local.round
        said = (message.identifier,)
        return replace(local, prevote=said) if message.step is PREVOTE else replace(local, precommit=said)


def _is_heard(inputs: tuple[Input, ...]) -> bool:
    """Whether the step belongs into a schedule: who waits in vain may as well do nothing."""
    return any(isinstance(given, Received) for given in inputs)


def _longest_first(runs: dict[Run, Way]) -> list[tuple[Run, Way]]:
    """So that where two become one key of a dictionary, the shorter stays."""
    return sorted(runs.items(), key=lambda item: -len(item[1]))
