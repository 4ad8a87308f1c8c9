"""Validators change: those of a height decide it, others observe, and no old certificate counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.kabis.chain import CHAIN, VALIDATORS, Chain, key_of, make_genesis
from tests.kabis.ledger.changing import FOUNDING, certify_block, change, member, replaced, seven
from tests.kabis.ledger.changing import Changing as ChangingLedger
from tests.kabis.ordering.network import Network, Node, recover, restore
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.messages import MessageError, Step, Vote, sign_bytes
from veristream.kabis.ordering.seats import LEAVING_HEIGHTS, OBSERVER, Seats
from veristream.kabis.ordering.store import to_commit
from veristream.kabis.ordering.validator import Settings, ValidatorCore, to_commit_certificate
from veristream.kabis.protocol.actions import Action, SetTopic
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.keys import SecretKey
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Done

SECOND = replaced(FOUNDING, "v0", member("v4"))
NEWCOMERS = ("v4", "v7", "v8", "v9")


@dataclass
class Member(Node):
    """A validator that goes by its name, with one key or several."""

    name: str = ""
    keys: tuple[SecretKey, ...] = ()

    def restart(self) -> None:
        ledger = Ledger(make_genesis())
        restore(ledger, self.commits.get)
        keys = self.keys or (key_of(self.name),)
        memory = recover(self.records)
        self.validator = ValidatorCore(self.name, keys, ledger, self.commits.get, memory, self.settings)
        self.validator.others = tuple(
            number for number in range(len(VALIDATORS) + len(NEWCOMERS)) if number != self.index
        )


class Changing(Network):
    """The founding validators, and those that may join; numbers are those of `names`."""

    names = (*VALIDATORS, *NEWCOMERS)

    def __init__(self, rotating: str = "") -> None:
        super().__init__()
        self.chain = Chain()
        self.nodes = [
            Member(
                number,
                Settings(),
                name=name,
                keys=(key_of(name), key_of(name, 1)) if name == rotating else (),
            )
            for number, name in enumerate(self.names)
        ]
        for node in self.nodes:
            self.do(node.index, node.validator.begin(self.now_ms))

    def act(self, action: Action, index: int = 1) -> None:
        outcome = self.submit(index, self.chain.act("admin", action).encode())
        assert outcome == Done()

    def certified(self, height: int, index: int = 1) -> CertifiedBlock:
        commit = self.nodes[index].commits[height]
        return CertifiedBlock(Block.decode(commit.value.content), to_commit_certificate(commit.certificate))

    def voters(self, height: int) -> set[str]:
        members = self.nodes[1].validator.ledger.members_at(height)
        certificate = self.certified(height).certificate
        return {members.validators[voter].name for voter in certificate.voters}


def change_members(network: Changing, after: Members, ahead: int = 4) -> int:
    """Orders the members and waits until they are in force; returns the height."""
    ledger = network.nodes[1].validator.ledger
    height = ledger.height + ahead
    network.act(change(ledger.members, after, height))
    network.pass_time(3000)
    assert ledger.height >= height - 1
    return height


def topic(number: int) -> SetTopic:
    return SetTopic(f"topic-{number}", 1, validated=True)


def test_a_change_takes_effect_on_an_idle_chain_and_the_new_set_decides() -> None:
    network = Changing()
    network.act(topic(1))
    height = change_members(network, SECOND)
    assert network.nodes[1].validator.ledger.height == height - 1, "an idle chain stops at the change"
    network.act(topic(2))
    network.pass_time(2000)
    assert network.heights[1:5] == [height] * 4
    assert "v0" not in network.voters(height) and "v4" not in network.voters(height - 1)
    network.down = {1}
    network.act(topic(3), index=2)
    network.pass_time(3000)
    assert {"v2", "v3", "v4"} == {
        SECOND.validators[voter].name for voter in network.certified(height + 1, 2).certificate.voters
    }


def test_four_become_seven_and_tolerate_two() -> None:
    network = Changing()
    height = change_members(network, seven(FOUNDING))
    network.act(topic(1))
    network.pass_time(2000)
    joined = [number for number, name in enumerate(network.names) if name != "v4"]
    assert {network.heights[number] for number in joined} == {height}
    assert len(network.voters(height)) >= 5
    network.down = {0, 5}
    network.act(topic(2))
    network.pass_time(5000)
    assert network.heights[1] == height + 1


def test_a_removed_validator_observes_and_knows_that_it_has_left() -> None:
    network = Changing()
    height = change_members(network, SECOND)
    core = network.nodes[0].validator
    assert (core.seats.left_at, core.seats.votes_at(height)) == (height, False)
    assert core.seats.identity(height).index == OBSERVER
    assert core.seats.identity(height - 1).index == 0
    assert network.nodes[4].validator.seats.left_at is None
    signed = len(network.nodes[0].records)
    network.act(topic(1))
    network.pass_time(3000)
    assert network.heights[0] == height, "it still follows"
    assert len(network.nodes[0].records) == signed, "it signs nothing more"


def test_a_vote_of_who_is_not_in_force_is_refused() -> None:
    network = Changing()
    height = change_members(network, SECOND)
    vote = Vote(Step.PREVOTE, height, 0, None, 0)
    for name, good in (("v0", False), ("v4", True)):
        signature = key_of(name).sign(sign_bytes(CHAIN, vote))
        signed = replace(vote, signature=signature)
        if good:
            network.nodes[1].validator.hear(4, signed, network.now_ms)
        else:
            with pytest.raises(MessageError, match="not signed by validator 0"):
                network.nodes[1].validator.hear(0, signed, network.now_ms)


def test_a_certificate_of_the_old_set_is_refused_after_the_change() -> None:
    network = Changing()
    height = change_members(network, SECOND)
    ledger = network.nodes[1].validator.ledger
    block = ledger.propose([], network.now_ms, "v1")
    forged, true = certify_block(block, FOUNDING), certify_block(block, SECOND)
    with pytest.raises(MessageError, match="not signed by validator 0"):
        network.nodes[1].validator.hear(0, to_commit(forged), network.now_ms)
    network.nodes[1].validator.hear(0, to_commit(true), network.now_ms)
    assert ledger.height == height
    follower = Follower(make_genesis())
    for each in range(1, height):
        follower.follow(network.certified(each), 1)
    with pytest.raises(FalseBlockError):
        follower.follow(forged, 1)
    assert follower.follow(true, 1) is not None


def test_a_key_is_rotated_without_a_pause() -> None:
    network = Changing(rotating="v2")
    height = change_members(network, replaced(FOUNDING, "v2", member("v2", 1)))
    core = network.nodes[2].validator
    assert core.seats.signer.public == key_of("v2", 1).public
    network.down = {0}
    network.act(topic(1))
    network.pass_time(3000)
    assert network.heights[1] == height
    assert network.voters(height) == {"v1", "v2", "v3"}
    assert core.seats.left_at is None


def test_a_validator_without_the_key_of_a_height_observes() -> None:
    network = Changing()
    height = change_members(network, replaced(FOUNDING, "v2", member("v2", 1)))
    core = network.nodes[2].validator
    assert not core.seats.votes_at(height)
    core.seats.learn(key_of("v2", 1))
    assert core.seats.identity(height).index == 2


def test_a_validator_that_was_down_joins_through_two_changes() -> None:
    network = Changing()
    network.down = {7}
    change_members(network, SECOND)
    network.act(topic(1))
    network.down = {7, 0}
    network.pass_time(500)
    height = change_members(network, seven(SECOND))
    network.down = {0, 7, 5}
    network.act(topic(2))
    network.pass_time(1000)
    network.down = {0}
    network.pass_time(8000)
    assert network.heights[7] == network.heights[1] >= height
    follower = Follower(make_genesis())
    for each in range(1, network.heights[1] + 1):
        follower.follow(network.certified(each), 1)
    assert len(follower.ledger.succession.heights) == 2


def test_votes_are_remembered_across_a_restart_at_the_change() -> None:
    network = Changing()
    height = change_members(network, SECOND)
    network.act(topic(1))
    for number in range(5):
        signed = len(network.nodes[number].records)
        network.nodes[number].restart()
        network.do(number, network.nodes[number].validator.begin(network.now_ms))
        assert len(network.nodes[number].records) == signed
    network.act(topic(2))
    network.pass_time(3000)
    assert network.heights[1:5] == [height + 1] * 4


def test_who_is_admitted_and_linked() -> None:
    chain, after = ChangingLedger(), replaced(SECOND, "v2", member("v2", 1))
    seats = Seats(chain.ledger, "v1", key_of("v1"), lambda *_: None, lambda content: content)
    assert set(seats.others()) == {"v0", "v2", "v3"}
    assert not seats.admits("v4", key_of("v4").public) and not seats.admits("v1", key_of("v1").public)
    chain.set_members(after, 4)
    assert set(seats.others()) == {"v0", "v2", "v3", "v4"}
    keys = {"v4": (0,), "v2": (0, 1), "v0": (0,)}
    for name, admitted in keys.items():
        found = tuple(epoch for epoch in range(3) if seats.admits(name, key_of(name, epoch).public))
        assert found == admitted
    chain.grow(3)
    assert chain.ledger.members == after
    assert [party.public for party in seats.others()["v2"]] == [
        key_of("v2", 1).public,
        key_of("v2").public,
    ], "it may not know its new key yet"
    assert seats.admits("v0", key_of("v0").public), "who left may learn that it has"
    assert set(seats.others()) == {"v0", "v2", "v3", "v4"}
    chain.grow(4 + LEAVING_HEIGHTS)
    assert not seats.admits("v0", key_of("v0").public) and not seats.admits("v2", key_of("v2").public)
    assert set(seats.others()) == {"v2", "v3", "v4"}


def test_later_members_that_are_proved_are_talked_to_until_the_ledger_knows_them() -> None:
    """A ledger at height 0, all of whose validators may be gone, or have other keys."""
    behind, chain = ChangingLedger(), ChangingLedger()
    after = replaced(SECOND, "v2", member("v2", 1))
    chain.set_members(after, 4)
    chain.grow(4)
    succession = chain.ledger.succession
    seats = Seats(behind.ledger, "v1", key_of("v1"), lambda *_: None, lambda content: content)
    assert not seats.admits("v4", key_of("v4").public)
    seats.expect(succession.heights[-1], succession.latest)
    assert set(seats.others()) == {"v0", "v2", "v3", "v4"}
    assert seats.admits("v4", key_of("v4").public)
    assert [seats.admits("v2", key_of("v2", epoch).public) for epoch in range(3)] == [True, True, False]
    assert seats.members(1) == behind.ledger.members, "who votes is what the ledger says"
    assert seats.signer.public == key_of("v1").public
    behind.set_members(SECOND, 4)  # in its own ledger others came, which no honest quorum lets happen
    behind.grow(4)
    assert not seats.admits("v2", key_of("v2", 1).public), "the ledger is past that height"
