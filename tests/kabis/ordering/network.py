"""Four validators with real keys and ledgers, in one thread; messages arrive in the order of sending."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.kabis.chain import START_MS, VALIDATORS, key_of, make_genesis
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.interface import Persist, Schedule, Timeout
from veristream.kabis.ordering.messages import Commit
from veristream.kabis.ordering.peers import PeerMessage, decode_peer_message, encode_peer_message
from veristream.kabis.ordering.validator import (
    Accused,
    Action,
    Committed,
    Send,
    Settings,
    ValidatorCore,
)
from veristream_testing.simulation.votes import recover, restore


@dataclass
class Node:
    """A validator with its disk."""

    index: int
    settings: Settings
    records: list[bytes] = field(default_factory=list)
    commits: dict[int, Commit] = field(default_factory=dict)
    committed: list[Committed] = field(default_factory=list)
    accused: list[Accused] = field(default_factory=list)
    validator: ValidatorCore = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Rebuilds the validator from what is on its disk."""
        ledger = Ledger(make_genesis())
        restore(ledger, self.commits.get)
        signer = key_of(VALIDATORS[self.index])
        memory = recover(self.records)
        self.validator = ValidatorCore(self.index, signer, ledger, self.commits.get, memory, self.settings)


class Network:
    """The validators, and what is under way between them."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now_ms = START_MS + 1_000
        self.nodes = [Node(index, settings or Settings()) for index in range(len(VALIDATORS))]
        self.down: set[int] = set()
        self.messages: deque[tuple[int, int, PeerMessage]] = deque()
        self.timeouts: list[tuple[int, int, Timeout]] = []
        for node in self.nodes:
            self.do(node.index, node.validator.begin(self.now_ms))

    def submit(self, index: int, encoded: bytes) -> object:
        """Gives a transaction to one validator, and lets everything come to rest."""
        outcome, actions = self.nodes[index].validator.submit(encoded, self.now_ms)
        self.do(index, actions)
        self.settle()
        return outcome

    def settle(self) -> None:
        """Delivers messages until there are none."""
        for _ in range(100_000):
            if not self.messages:
                return
            self.deliver(*self.messages.popleft())
        raise AssertionError("the validators never come to rest")

    def deliver(self, sender: int, receiver: int, message: PeerMessage) -> None:
        """Brings one message to its receiver."""
        if receiver not in self.down:
            arrived = decode_peer_message(encode_peer_message(message))
            self.do(receiver, self.nodes[receiver].validator.hear(sender, arrived, self.now_ms))

    def pass_time(self, duration_ms: int, every_ms: int = 50) -> None:
        """Lets time pass, with the timeouts and ticks that come."""
        for _ in range(0, duration_ms, every_ms):
            self.now_ms += every_ms
            due = [timer for timer in self.timeouts if timer[0] <= self.now_ms]
            self.timeouts = [timer for timer in self.timeouts if timer[0] > self.now_ms]
            for _, index, timeout in due:
                if index not in self.down:
                    self.do(index, self.nodes[index].validator.time_out(timeout, self.now_ms))
            for node in self.nodes:
                if node.index not in self.down:
                    self.do(node.index, node.validator.tick(self.now_ms))
            self.settle()

    def do(self, index: int, actions: tuple[Action, ...]) -> None:
        """Does what a validator wants done."""
        node = self.nodes[index]
        for action in actions:
            match action:
                case Persist():
                    node.records.append(action.record)
                case Schedule():
                    timeout = Timeout(action.step, action.height, action.round)
                    self.timeouts.append((self.now_ms + action.duration_ms, index, timeout))
                case Send():
                    others = [other for other in range(len(self.nodes)) if other != index]
                    receivers = others if action.receiver is None else [action.receiver]
                    self.messages.extend((index, receiver, action.message) for receiver in receivers)
                case Committed():
                    node.commits[action.block.header.height] = action.commit
                    node.committed.append(action)
                case Accused():
                    node.accused.append(action)

    @property
    def heights(self) -> list[int]:
        """How far each ledger is."""
        return [node.validator.ledger.height for node in self.nodes]

    def states(self, *indices: int) -> set[bytes]:
        """The hashes of the ledgers."""
        return {
            self.nodes[index].validator.ledger.state_hash() for index in indices or range(len(self.nodes))
        }
