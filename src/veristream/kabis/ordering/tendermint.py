"""Tendermint consensus (arXiv 1807.04938, algorithm 1) as a pure state machine: one value per height.

`Tendermint.handle` takes an input and returns outputs to perform in order: a `Persist` must be durable
before the following `Broadcast` is sent. The machine has no clock, socket or file. Numbers in comments are
lines of algorithm 1. Where the paper is silent:

- After `Decide` the machine waits for `Start` of the next height, so that the application can apply the
  value before it proposes or validates the next one; messages of that height are kept meanwhile.
- The paper assumes gossip: a message that one correct validator has eventually reaches all. Here, `Resend`
  is fed when nothing has changed for a while; it repeats this validator's messages of its round and the
  previous one, and its proof-of-lock. Validators at a later height answer with a `Commit`.
- A proposal of an earlier value carries its proof-of-lock, so that line 28 never waits for lost prevotes.
- `timely` is checked besides `valid` only at line 23: agreement with a clock is not a property of the
  value, so it may only prevent a vote for a fresh proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from veristream.kabis.ordering import interface
from veristream.kabis.ordering.durable import Entered, Locked, Memory, Record, SignedOnce, encode_record
from veristream.kabis.ordering.log import MessageLog, RoundLog
from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    Committee,
    Message,
    Proposal,
    Signed,
    Step,
    Value,
    Vote,
    proof_fits,
    sign_bytes,
)

VERDICTS_MAX = 64
NO_HEIGHT = -1


@dataclass(frozen=True, slots=True)
class Application:
    """The application's pure callbacks; `valid` returns the same at every correct validator."""

    propose: Callable[[int, int], Value]
    valid: Callable[[Value], bool]
    timely: Callable[[Value], bool] = lambda value: True


@dataclass(frozen=True, slots=True)
class Durations:
    """Timeouts of the steps; they grow with each round, so that some round is long enough."""

    propose_ms: int = 300
    prevote_ms: int = 150
    precommit_ms: int = 150
    growth_ms: int = 100

    def of(self, step: Step, round_number: int) -> int:
        """Returns the timeout of a step in a round."""
        first = (self.propose_ms, self.prevote_ms, self.precommit_ms)[step]
        return first + round_number * self.growth_ms


@dataclass(frozen=True, slots=True)
class Identity:
    """A validator's index in the committee, and its signing function."""

    index: int
    committee: Committee
    sign: Callable[[bytes], bytes]


@dataclass(slots=True)
class Tendermint:
    """The consensus state of one validator; fields have the paper's names.

    With `identify`, who it is and who else votes depends on the height; `identity` is that of its height.
    """

    identity: Identity
    application: Application
    durations: Durations = Durations()
    memory: Memory = field(default_factory=Memory)
    identify: Callable[[int], Identity] | None = None

    height: int = NO_HEIGHT
    round: int = 0
    step: Step = Step.PROPOSE
    running: bool = False
    log: MessageLog = field(init=False)
    next_log: MessageLog = field(init=False)
    _outputs: list[interface.Output] = field(default_factory=list)
    _happened: set[int] = field(default_factory=set)  # rules applied "for the first time" in this round
    _verdicts: dict[bytes, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = self.next_log = MessageLog(NO_HEIGHT, self.identity.committee)

    @property
    def lock(self) -> Locked:
        """The locked and the valid value of this height."""
        return self.memory.lock(self.height)

    def handle(self, event: interface.Input) -> tuple[interface.Output, ...]:
        """Handles one input and returns the outputs, in the order in which to perform them."""
        match event:
            case interface.Start():
                self._start(event.height)
                self._apply_rules()
            case interface.Received():
                self._receive(event.message)
                if self.log.has_news:
                    self._apply_rules()
            case interface.Timeout():
                self._time_out(event)
                self._apply_rules()
            case interface.Resend():
                self._resend()
            case _:
                assert_never(event)
        outputs, self._outputs = tuple(self._outputs), []
        return outputs

    # Heights and rounds

    def skip(self, height: int) -> None:
        """Marks this height as decided, here or by others; `Start` begins the next one."""
        self.height, self.running = height, False
        if self.next_log.height != height + 1:
            self.next_log = MessageLog(height + 1, self._committee(height + 1))

    def _start(self, height: int) -> None:
        """Lines 10 and 52-54."""
        if height <= self.height:  # decided or running
            return
        self.height, self.running = height, True
        if self.identify is not None:
            self.identity = self.identify(height)
        self.memory.forget_before(height)
        self._verdicts.clear()
        following = self.next_log.height == height
        self.log = self.next_log if following else MessageLog(height, self.identity.committee)
        self.next_log = MessageLog(height + 1, self._committee(height + 1))
        self._go_on()

    def _committee(self, height: int) -> Committee:
        return (self.identity if self.identify is None else self.identify(height)).committee

    def _go_on(self) -> None:
        """Line 10; a restarted validator resumes this height in the step of its last message."""
        entry, signed = self.memory.entry(self.height), self.memory.signed_in(self.height)
        for reason in entry.because:
            self.log.add(reason)
        if not signed or signed[-1].step is Step.PROPOSE:
            self._begin_round(entry.round)
            return
        self._enter_round(entry.round)
        self.step = signed[-1].step
        for earlier in signed:
            self._say(earlier.message)

    def _start_round(self, number: int, because: tuple[Signed, ...]) -> None:
        """Lines 11-21 for a round after the first; the round and its reason are made durable."""
        self._remember(Entered(self.height, number, because))
        self._begin_round(number)

    def _begin_round(self, number: int) -> None:
        self._enter_round(number)
        if self.identity.committee.proposer(self.height, number) != self.identity.index:  # 14, 20
            self._schedule(Step.PROPOSE)  # 21
            return
        lock = self.lock
        value = lock.valid_value or self.application.propose(self.height, number)  # 15-18
        proposal = Proposal(self.height, number, value, lock.valid_round, self.identity.index)
        self._sign_and_say(replace(proposal, proof=lock.proof))  # 19

    def _enter_round(self, number: int) -> None:
        self.round, self.step = number, Step.PROPOSE  # 12-13
        self._happened.clear()
        self.log.enter(number)

    # Inputs

    def _receive(self, message: Message) -> None:
        match message:
            case Commit():
                self._take_commit(message)
            case Certificate():
                self._take_proof(message)
            case Proposal() | Vote():
                self._take_signed(message)
            case _:
                assert_never(message)

    def _take_signed(self, message: Signed) -> None:
        log = self._log_of(message.height)
        if log is None:
            return
        if isinstance(message, Proposal) and not self._is_well_placed(message, log.committee):
            return
        contradiction = log.add(message)
        if contradiction is not None:
            self._outputs.append(interface.Conflict(*contradiction))
        if isinstance(message, Proposal) and message.proof is not None:
            self._take_proof(message.proof)

    @staticmethod
    def _is_well_placed(proposal: Proposal, committee: Committee) -> bool:
        if proposal.sender != committee.proposer(proposal.height, proposal.round):
            return False
        return proof_fits(proposal) and (proposal.proof is None or proposal.proof.is_quorum(committee))

    def _log_of(self, height: int) -> MessageLog | None:
        if height == self.height and self.running:
            return self.log
        return self.next_log if height == self.next_log.height else None

    def _take_proof(self, proof: Certificate) -> None:
        """A proof-of-lock counts as its prevotes, but is kept as a whole so that no vote displaces it."""
        log = self._log_of(proof.height)
        if log is not None and proof.step is Step.PREVOTE and proof.is_quorum(log.committee):
            log.add_proof(proof)

    def _take_commit(self, commit: Commit) -> None:
        """Line 49 for a whole certificate; F + 1 of its senders are correct and saw the proposal."""
        certificate = commit.certificate
        if (
            self.running
            and certificate.height == self.height
            and certificate.step is Step.PRECOMMIT
            and certificate.identifier == commit.value.identifier
            and certificate.is_quorum(self.identity.committee)
            and self._is_valid(commit.value)
        ):
            self._decide(commit.value, certificate)

    def _time_out(self, event: interface.Timeout) -> None:
        if not self.running or (event.height, event.round) != (self.height, self.round):
            return
        match event.step:
            case Step.PROPOSE if self.step is Step.PROPOSE:  # 57-58
                self._vote(Step.PREVOTE, None)  # 59-60
            case Step.PREVOTE if self.step is Step.PREVOTE:  # 61-62
                self._vote(Step.PRECOMMIT, None)  # 63-64
            case Step.PRECOMMIT:  # 65-66
                self._start_round(self.round + 1, self._log_here().one_of_each(Step.PRECOMMIT))  # 67
            case _:
                return  # the step has already ended

    def _resend(self) -> None:
        if not self.running:
            return
        known: list[Message] = []
        for number in (self.round - 1, self.round):
            known.extend(self.log.round(number).messages())
        if self.lock.proof is not None and self.lock.proof.round < self.round - 1:
            known.append(self.lock.proof)
        self._outputs.extend(interface.Broadcast(message) for message in known)

    # Rules: each performs one applicable step of algorithm 1 and returns whether it did

    def _apply_rules(self) -> None:
        while self.running and any(rule() for rule in self._rules()):
            pass
        self.log.has_news = False

    def _rules(self) -> Iterable[Callable[[], bool]]:
        return (
            self._decide_by_precommits,
            self._skip_rounds,
            self._prevote_fresh,
            self._prevote_proved,
            self._lock_and_precommit,
            self._precommit_nil,
            self._wait_for_prevotes,
            self._wait_for_precommits,
        )

    def _prevote_fresh(self) -> bool:
        if self.step is not Step.PROPOSE:
            return False
        for proposal in self._log_here().proposals:  # 22
            if proposal.valid_round == NO_ROUND:
                value = proposal.value
                agreed = self._may_prevote_fresh(value)  # 23
                self._vote(Step.PREVOTE, value.identifier if agreed else None)  # 24-27
                return True
        return False

    def _may_prevote_fresh(self, value: Value) -> bool:
        lock = self.lock
        free = lock.locked_round == NO_ROUND or lock.locked_value == value
        return free and self._is_valid(value) and self.application.timely(value)

    def _prevote_proved(self) -> bool:
        if self.step is not Step.PROPOSE:
            return False
        for proposal in self._log_here().proposals:  # 28
            value, valid_round = proposal.value, proposal.valid_round
            proof = proposal.proof or self.log.proof(valid_round, value.identifier)
            if valid_round != NO_ROUND and proof is not None:
                agreed = self._may_prevote_proved(value, valid_round)  # 29
                self._vote(Step.PREVOTE, value.identifier if agreed else None)  # 30-33
                return True
        return False

    def _may_prevote_proved(self, value: Value, valid_round: int) -> bool:
        lock = self.lock
        free = lock.locked_round <= valid_round or lock.locked_value == value
        return free and self._is_valid(value)

    def _wait_for_prevotes(self) -> bool:
        enough = self._log_here().count_any(Step.PREVOTE) >= self.identity.committee.quorum
        if not enough or self.step is not Step.PREVOTE or not self._first_time(34):
            return False
        self._schedule(Step.PREVOTE)  # 35
        return True

    def _lock_and_precommit(self) -> bool:
        if self.step is Step.PROPOSE or 36 in self._happened:
            return False
        for proposal in self._log_here().proposals:  # 36
            value = proposal.value
            proof = self.log.proof(self.round, value.identifier)
            if proof is not None and self._is_valid(value) and self._first_time(36):
                self._lock_on(value, proof)
                return True
        return False

    def _lock_on(self, value: Value, proof: Certificate) -> None:
        lock = self.lock
        if self.step is Step.PREVOTE:  # 37
            lock = replace(lock, locked_value=value, locked_round=self.round)  # 38-39
        lock = replace(lock, valid_value=value, valid_round=self.round, proof=proof)  # 42-43
        self._remember(lock)
        if self.step is Step.PREVOTE:  # 37
            self._vote(Step.PRECOMMIT, value.identifier)  # 40-41

    def _precommit_nil(self) -> bool:
        enough = self._log_here().count(Step.PREVOTE, None) >= self.identity.committee.quorum
        if self.step is not Step.PREVOTE or not enough:  # 44
            return False
        self._vote(Step.PRECOMMIT, None)  # 45-46
        return True

    def _wait_for_precommits(self) -> bool:
        enough = self._log_here().count_any(Step.PRECOMMIT) >= self.identity.committee.quorum
        if not enough or not self._first_time(47):
            return False
        self._schedule(Step.PRECOMMIT)  # 48
        return True

    def _decide_by_precommits(self) -> bool:
        for number, known in self.log.rounds.items():
            for proposal in known.proposals:  # 49
                value = proposal.value
                enough = known.count(Step.PRECOMMIT, value.identifier) >= self.identity.committee.quorum
                if enough and self._is_valid(value):  # 50
                    self._decide(value, self.log.certificate(Step.PRECOMMIT, number, value.identifier))
                    return True
        return False

    def _decide(self, value: Value, certificate: Certificate) -> None:
        self.running = False  # 51; lines 52-54 follow with Start
        self._outputs.append(interface.Decide(self.height, value, certificate))

    def _skip_rounds(self) -> bool:
        number = self.log.round_to_skip_to()  # 55
        if number is None:
            return False
        self._start_round(number, self.log.round(number).one_of_each())  # 56
        return True

    # Actions of the rules

    def _log_here(self) -> RoundLog:
        return self.log.round(self.round)

    def _first_time(self, line: int) -> bool:
        if line in self._happened:
            return False
        self._happened.add(line)
        return True

    def _is_valid(self, value: Value) -> bool:
        verdict = self._verdicts.get(value.identifier)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = self._verdicts[value.identifier] = self.application.valid(value)
        return verdict

    def _schedule(self, step: Step) -> None:
        duration_ms = self.durations.of(step, self.round)
        self._outputs.append(interface.Schedule(step, self.height, self.round, duration_ms))

    def _vote(self, step: Step, identifier: bytes | None) -> None:
        self.step = step
        self._sign_and_say(Vote(step, self.height, self.round, identifier, self.identity.index))

    def _sign_and_say(self, message: Signed) -> None:
        """Signs and broadcasts; if a message was already signed for this step, repeats that one instead."""
        earlier = self.memory.signed_in_place_of(message)
        if earlier is None:
            signature = self.identity.sign(sign_bytes(self.identity.committee.chain, message))
            earlier = SignedOnce(replace(message, signature=signature))
            self._remember(earlier)
        self._say(earlier.message)

    def _say(self, message: Signed) -> None:
        self._outputs.append(interface.Broadcast(message))
        self._take_signed(message)

    def _remember(self, record: Record) -> None:
        self.memory.take(record)
        self._outputs.append(interface.Persist(self.height, encode_record(record)))
