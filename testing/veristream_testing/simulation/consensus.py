"""Simulates the consensus in one process under a seeded scenario with faults, and checks its properties.

Checked during the run: agreement (one value per height), validity (the value is valid and was proposed),
integrity (one decision per height and validator), certificates verify, no correct validator contradicts
itself even after crashes, and no correct validator is accused. Checked at the end: after the network has
healed, every correct validator decides every height.

Every message is encoded, decoded and verified once when it is sent, because this depends only on the
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from random import Random
from typing import assert_never

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ordering.durable import SignedOnce
from veristream.kabis.ordering.interface import (
    Broadcast,
    Conflict,
    Decide,
    Input,
    Output,
    Persist,
    Received,
    Resend,
    Schedule,
    Start,
    Timeout,
)
from veristream.kabis.ordering.messages import (
    Certificate,
    Commit,
    Committee,
    Message,
    MessageError,
    Proposal,
    Step,
    Value,
    Verifier,
    Vote,
    height_of,
)
from veristream.kabis.ordering.tendermint import Application, Durations, Identity, Tendermint
from veristream.kabis.protocol.keys import SignatureError
from veristream_testing.simulation.byzantine import Byzantine, make_value
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.encoding import decode_message, encode_message
from veristream_testing.simulation.hosts import CrashingHost, HostWorld
from veristream_testing.simulation.scenario import Scenario
from veristream_testing.simulation.votes import recover
from veristream_testing.simulation.world import ViolationError, statement_of

CHAIN = "simulation"
RESEND_MS = 100
LIMIT_MS = 60_000
DURATIONS = Durations(propose_ms=40, prevote_ms=20, precommit_ms=20, growth_ms=10)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the violation, if any, and statistics."""

    violation: str | None
    inputs: int
    rounds: int
    restarts: int
    conflicts: int
    refused: int
    ended_ms: int
    trace: tuple[str, ...]


@dataclass(slots=True)
class Host(CrashingHost):
    """A host that runs the consensus alone."""

    machine: Tendermint
    disk: Disk = field(default_factory=Disk)
    decided: list[Commit] = field(default_factory=list)
    stood_at: tuple[int, int, Step] | None = None

    @property
    def height(self) -> int:
        """The current height; the first is 1."""
        return len(self.decided) + 1


class Simulation(HostWorld[Host]):
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, tracing: bool = False) -> None:
        super().__init__(scenario, Random(f"run/{scenario.seed}"))
        self.committee = Committee(CHAIN, scenario.size)
        self.verifier = Verifier(self.committee, _check_signature, lambda content: sha256(content).digest())
        self.trace: list[str] | None = [] if tracing else None
        self.inputs = self.rounds = self.conflicts = self.refused = 0
        self._verified: dict[Message, Message] = {}
        self._values: set[bytes] = set()
        self._first_decisions: dict[int, bytes] = {}
        self.byzantine = {
            index: self._make_byzantine(index, strategy) for index, strategy in self.inventive.items()
        }
        self.hosts = {number: self._make_host(number, index) for number, index in self.list_hosts().items()}
        self._undecided = {host.number for host in self.hosts.values() if host.index not in self.liars}

    def run(self) -> Outcome:
        """Runs until the end or the first violation."""
        violation = None
        try:
            self._begin()
            self.run_until(LIMIT_MS, lambda: not self._undecided)
            self._check_termination()
        except ViolationError as found:
            violation = str(found)
        return Outcome(
            violation=violation,
            inputs=self.inputs,
            rounds=self.rounds,
            restarts=self.restarts,
            conflicts=self.conflicts,
            refused=self.refused,
            ended_ms=self.now_ms,
            trace=tuple(self.trace or ()),
        )

    # Participants

    def _make_byzantine(self, index: int, strategy: ValidatorFault) -> Byzantine:
        random = Random(f"byzantine/{self.scenario.seed}/{index}")
        return Byzantine(index, self.committee, _signer(index), strategy, random)

    def _make_host(self, number: int, index: int) -> Host:
        return Host(number, index, self._make_machine(number, index, 1, []))

    def _make_machine(self, number: int, index: int, life: int, records: Iterable[bytes]) -> Tendermint:
        def propose(height: int, round_number: int) -> Value:
            value = make_value(f"ok/{height}/{round_number}/host {number}, life {life}")
            self._values.add(value.identifier)
            return value

        def valid(value: Value) -> bool:
            return value.content.startswith(b"ok/%d/" % self.hosts[number].height)

        identity = Identity(index, self.committee, _signer(index))
        return Tendermint(identity, Application(propose, valid), DURATIONS, recover(records))

    def _begin(self) -> None:
        self.plan_crashes()
        for host in self.hosts.values():
            self.at(self.random.randint(0, 20), self._starter(host))
            self.at(RESEND_MS + host.number, self._ticker(host))

    # Events

    def _starter(self, host: Host) -> Callable[[], None]:
        return lambda: self._give(host, Start(host.height))

    def _ticker(self, host: Host) -> Callable[[], None]:
        def tick() -> None:
            stands_at = (host.machine.height, host.machine.round, host.machine.step)
            if host.up and stands_at == host.stood_at:
                self._give(host, Resend())
            host.stood_at = stands_at
            self.at(self.now_ms + RESEND_MS, tick)

        return tick

    def revive(self, host: Host) -> None:
        """Starts the machine from the records on disk."""
        host.machine = self._make_machine(host.number, host.index, host.lives, host.disk.recover())
        self._note("host %d restarts", host.number)
        self._give(host, Start(host.height))

    def _give(self, host: Host, event: Input) -> None:
        """Feeds an input to a host and performs the outputs, unless it crashes in between."""
        if not host.up or host.height > self.scenario.heights:
            return
        self.inputs += 1
        for output in host.machine.handle(event):
            if not self.survives(host):
                return
            self._do(host, output)
        self.rounds = max(self.rounds, host.machine.round)

    def lose(self, host: Host) -> None:
        """Loses unsynced records."""
        self._note("host %d dies", host.number)
        host.disk.crash(self.random)

    def _do(self, host: Host, output: Output) -> None:
        match output:
            case Persist():
                host.disk.append(output.record)
            case Broadcast():
                host.disk.sync()
                self.check_consistent(host.number, host.index, output.message)
                self._broadcast(host, output.message)
            case Schedule():
                self._schedule(host, output)
            case Decide():
                host.disk.sync()
                self._decide(host, output)
            case Conflict():
                self._check_conflict(output)
            case _:
                assert_never(output)

    def _schedule(self, host: Host, wanted: Schedule) -> None:
        timeout = Timeout(wanted.step, wanted.height, wanted.round)

        def expire() -> None:
            self._note("host %d: timeout %s of round %d", host.number, wanted.step.name, wanted.round)
            self._give(host, timeout)

        self.ring(host, wanted.duration_ms, expire)

    def _decide(self, host: Host, decision: Decide) -> None:
        self._note("host %d decides %s", host.number, decision.value.identifier.hex()[:4])
        if host.index not in self.liars:
            self._check_decision(host, decision)
        host.decided.append(Commit(decision.value, decision.certificate))
        if host.height > self.scenario.heights:
            self._undecided.discard(host.number)
        self.at(self.now_ms, self._starter(host))

    # The network

    def _broadcast(self, host: Host, message: Message) -> None:
        message = self._from_host(host, message)
        for other in self.hosts.values():
            if other is not host:
                self._post(host.number, other, message)
        for byzantine in self.byzantine.values():
            self.send_to_liar(self._hearer(byzantine, message))

    def _hearer(self, byzantine: Byzantine, message: Message) -> Callable[[], None]:
        def hear() -> None:
            for saying in byzantine.hear(message, self.now_ms):
                self.at(
                    self.now_ms + saying.after_ms, self._sayer(byzantine, saying.message, saying.receivers)
                )

        return hear

    def _sayer(
        self, byzantine: Byzantine, message: Message, receivers: frozenset[int]
    ) -> Callable[[], None]:
        def say() -> None:
            try:
                verified = self._through_the_wire(message)
            except MessageError:
                self.refused += 1
                return
            if isinstance(message, Proposal):
                self._values.add(message.value.identifier)
            for host in self.hosts.values():
                if host.index in receivers:
                    self._post(byzantine.index, host, verified)

        return say

    def _from_host(self, host: Host, message: Message) -> Message:
        try:
            return self._through_the_wire(message)
        except MessageError as error:
            raise ViolationError(
                f"verification: host {host.number} sends what is refused: {error}"
            ) from error

    def _through_the_wire(self, message: Message) -> Message:
        arrived = self._verified.get(message)
        if arrived is None:
            arrived = decode_message(encode_message(message))
            self.verifier.verify(arrived)
            self._verified[message] = arrived
        return arrived

    def _post(self, sender: int, host: Host, message: Message) -> None:
        self.send(sender, host.number, message, lambda: self._deliver(sender, host, message))

    def _deliver(self, sender: int, host: Host, message: Message) -> None:
        if not host.up:
            return
        height = height_of(message)
        if self.trace is not None:
            self._note("%d to host %d: %s", sender, host.number, describe(message))
        if height < host.height and not isinstance(message, Commit) and sender in self.hosts:
            answer = self._from_host(host, host.decided[height - 1])
            self._post(host.number, self.hosts[sender], answer)
        self._give(host, Received(message))

    # Checks

    def _check_decision(self, host: Host, decision: Decide) -> None:
        height, identifier = decision.height, decision.value.identifier
        if height != host.height:
            raise ViolationError(
                f"integrity: host {host.number} at height {host.height} decides height {height}"
            )
        if self._first_decisions.setdefault(height, identifier) != identifier:
            raise ViolationError(f"agreement: host {host.number} decides another value at height {height}")
        if not decision.value.content.startswith(b"ok/%d/" % height) or identifier not in self._values:
            raise ViolationError(f"validity: {decision.value.content!r} is decided at height {height}")
        if decision.certificate.height != height:
            raise ViolationError(
                f"certificate: it is of height {decision.certificate.height}, not {height}"
            )
        try:
            self.verifier.verify(Commit(decision.value, decision.certificate))
        except MessageError as error:
            raise ViolationError(f"certificate: {error}") from error

    def _check_conflict(self, conflict: Conflict) -> None:
        self.conflicts += 1
        first, second = conflict.first, conflict.second
        if first.sender not in self.liars:
            raise ViolationError(f"accountability: correct validator {first.sender} is accused")
        same = (first.sender, first.height, first.round, SignedOnce(first).step)
        if same != (second.sender, second.height, second.round, SignedOnce(second).step):
            raise ViolationError("accountability: the evidence is of different places")
        if statement_of(first) == statement_of(second):
            raise ViolationError("accountability: the evidence is no contradiction")

    def _check_termination(self) -> None:
        if self._undecided:
            at = {number: self.hosts[number].height for number in sorted(self._undecided)}
            raise ViolationError(f"termination: {LIMIT_MS} ms are over, these hosts are at heights {at}")

    def _note(self, form: str, *arguments: object) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now_ms:6} " + form % arguments)


def run(scenario: Scenario, tracing: bool = False) -> Outcome:
    """Runs a scenario."""
    return Simulation(scenario, tracing).run()


def describe(message: Message) -> str:
    """Describes a message: kind, sender, height/round and value."""
    match message:
        case Proposal():
            what = f"{message.value.identifier.hex()[:4]}, valid round {message.valid_round}"
            return f"proposal of {message.sender}, {message.height}/{message.round}: {what}"
        case Vote():
            what = "nil" if message.identifier is None else message.identifier.hex()[:4]
            return (
                f"{message.step.name.lower()} of {message.sender}, {message.height}/{message.round}: {what}"
            )
        case Certificate():
            voters = [sender for sender, _ in message.signatures]
            what = f"{message.height}/{message.round}: {message.identifier.hex()[:4]}"
            return f"{message.step.name.lower()}s of {voters}, {what}"
        case Commit():
            return "commit by " + describe(message.certificate)
        case _:
            assert_never(message)


def _signer(index: int) -> Callable[[bytes], bytes]:
    """Returns a keyed hash instead of a signature; sufficient because only the simulation holds keys."""
    key = b"validator %d" % index
    return lambda message: blake2b(message, key=key).digest()


def _check_signature(index: int, message: bytes, signature: bytes) -> None:
    if _signer(index)(message) != signature:
        raise SignatureError("not this validator's")
