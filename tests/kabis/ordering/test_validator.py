"""Validators with real keys and ledgers: blocks, catching up, restarts, evidence, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kabis.chain import CHAIN, START_MS, VALIDATORS, Chain, batch_of, key_of, make_genesis, submitted
from tests.kabis.ordering.network import Network, Node
from veristream.errors import EnvironmentFailure
from veristream.kabis.ordering.interface import Schedule, Timeout
from veristream.kabis.ordering.mempool import ALTERNATIVES_MAX
from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    MessageError,
    Proposal,
    Signed,
    Step,
    Value,
    Vote,
    sign_bytes,
)
from veristream.kabis.ordering.peers import (
    TRANSACTIONS_PER_OFFER_MAX,
    Ask,
    Offer,
    decode_peer_message,
    encode_peer_message,
)
from veristream.kabis.ordering.validator import Committed, Send, Settings, to_commit_certificate
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.codec import DecodeError, domain_tag
from veristream.kabis.protocol.keys import verify
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Reason, Refused
from veristream.kabis.protocol.receipts import SignedVote, VoteKind, vote_bytes
from veristream.kabis.protocol.transactions import VoteConflict
from veristream_testing.simulation.votes import restore

TOPIC = Chain().act("admin", SetTopic("orders", 2, validated=True), number=1).encode()


def signed(message: Signed) -> Signed:
    signer = key_of(VALIDATORS[message.sender])
    return replace(message, signature=signer.sign(sign_bytes(CHAIN, message)))


def running(settings: Settings | None = None) -> Network:
    """Validators that have decided the block with the topic."""
    network = Network(settings)
    assert network.submit(0, TOPIC) == Done()
    assert network.heights == [1, 1, 1, 1]
    return network


def test_a_submitted_transaction_is_in_a_block_of_every_validator() -> None:
    network = running()
    batch = batch_of(b"one", b"two")
    assert network.submit(2, submitted(batch).encode()) == Admitted(0, 2)
    assert network.heights == [2, 2, 2, 2] and len(network.states()) == 1
    effects = {node.committed[-1].effects for node in network.nodes}
    assert effects == {(Admitted(0, 2),)}


def test_no_block_is_made_while_there_is_nothing_to_order() -> None:
    network = running()
    network.pass_time(10_000)
    assert network.heights == [1, 1, 1, 1]


def test_one_validator_alone_does_not_begin_a_height_at_once() -> None:
    network = running()
    validator = network.nodes[0].validator
    for number in range(5):
        assert validator.hear(3, signed(Vote(Step.PREVOTE, 2, number, None, 3)), network.now_ms) == ()
    validator.tick(network.now_ms + 999)
    assert not validator.machine.running
    validator.tick(network.now_ms + 1_000)  # perhaps we have missed something
    assert validator.machine.running


def test_a_height_that_two_are_at_begins() -> None:
    network = running()
    validator = network.nodes[0].validator
    for sender in (1, 3):
        validator.hear(sender, signed(Vote(Step.PREVOTE, 2, 0, None, sender)), network.now_ms)
    assert validator.machine.running


def test_a_proposal_begins_a_height_if_it_has_transactions_that_take_effect() -> None:
    network = running()
    validator = network.nodes[0].validator
    empty = network.nodes[2].validator.ledger.propose([], network.now_ms, "v2")
    validator.hear(2, proposed(network, empty), network.now_ms)
    assert not validator.machine.running
    validator.hear(2, proposed(network, next_block(network, network.now_ms)), network.now_ms)
    assert validator.machine.running


def test_a_block_in_the_name_of_another_is_refused() -> None:
    network = running()
    block = next_block(network, network.now_ms)
    other = replace(block, header=replace(block.header, proposer="v1"))
    with pytest.raises(MessageError, match="another proposer"):
        network.nodes[0].validator.hear(2, proposed(network, other), network.now_ms)


def test_certificates_are_those_of_receipts() -> None:
    network = running()
    for node in network.nodes:
        certificate = to_commit_certificate(node.commits[1].certificate)
        certificate.verify(CHAIN, make_genesis().validator_keys, verify)


def test_batches_of_a_producer_may_come_in_any_order() -> None:
    network = running()
    first = batch_of(b"one")
    second = batch_of(b"two", sequence=1, previous=first.digest())
    outcome = network.submit(1, submitted(second).encode())
    assert isinstance(outcome, Refused) and outcome.reason is Reason.EARLY
    assert network.submit(3, submitted(first).encode()) == Admitted(0, 1)
    orders = [
        [effect for committed in node.committed for effect in committed.effects] for node in network.nodes
    ]
    assert orders == [[Done(), Admitted(0, 1), Admitted(1, 1)]] * 4


def test_what_has_no_effect_is_not_passed_on() -> None:
    network = running()
    validator = network.nodes[0].validator
    assert validator.submit(TOPIC, network.now_ms) == (Already(), ())
    outcome, actions = validator.submit(b"nonsense", network.now_ms)
    assert (outcome.reason, actions) == (Reason.MALFORMED, ())
    batch = submitted(batch_of(b"one")).encode()
    network.submit(0, batch)
    assert validator.submit(batch, network.now_ms) == (Already(), ())
    assert len(validator.mempool) == 0


def test_three_validators_go_on_without_the_fourth_which_then_catches_up() -> None:
    network = running()
    network.down.add(3)
    batch = batch_of(b"0")
    for number in range(1, 41):
        network.submit(0, submitted(batch).encode())
        network.pass_time(1_500)  # rounds of the missing proposer take their time
        batch = batch_of(b"%d" % number, sequence=number, previous=batch.digest())
    heights = network.heights
    assert heights[3] == 1 and min(heights[:3]) > 40
    network.down.clear()
    network.pass_time(3_000)
    assert len(set(network.heights)) == 1 and len(network.states()) == 1
    assert network.heights[0] >= heights[0]


def test_a_restarted_validator_goes_on_from_its_disk() -> None:
    network = running()
    for index in range(4):
        node = network.nodes[index]
        before = node.validator.ledger.state_hash()
        node.restart()
        assert node.validator.ledger.state_hash() == before
        network.do(index, node.validator.begin(network.now_ms))
    assert network.submit(1, submitted(batch_of(b"one")).encode()) == Admitted(0, 1)
    assert network.heights == [2, 2, 2, 2]


def test_all_restart_in_the_middle_of_a_height() -> None:
    network = running()
    outcome, actions = network.nodes[2].validator.submit(
        submitted(batch_of(b"one")).encode(), network.now_ms
    )
    network.do(2, actions)
    for _ in range(12):
        sender, receiver, message = network.messages.popleft()
        network.do(receiver, network.nodes[receiver].validator.hear(sender, message, network.now_ms))
    network.messages.clear()
    network.timeouts.clear()
    for node in network.nodes:
        node.restart()
        network.do(node.index, node.validator.begin(network.now_ms))
    network.pass_time(5_000)
    assert len(network.states()) == 1 and outcome == Admitted(0, 1)
    assert [effect for committed in network.nodes[0].committed for effect in committed.effects][:2] == [
        Done(), Admitted(0, 1),
    ]  # fmt: skip


def test_who_has_signed_in_a_height_says_it_again_at_once() -> None:
    network = running()
    node = network.nodes[0]
    block = next_block(network, network.now_ms)
    network.do(0, node.validator.hear(2, proposed(network, block), network.now_ms))
    node.restart()
    said = [action.message for action in node.validator.begin(network.now_ms) if isinstance(action, Send)]
    assert said == [signed(Vote(Step.PREVOTE, 2, 0, block.block_id(), 0))]


def test_a_decided_block_is_taken_with_its_certificate() -> None:
    network = running()
    validator = network.nodes[0].validator
    block = next_block(network, network.now_ms)
    votes = [signed(Vote(Step.PRECOMMIT, 2, 0, block.block_id(), sender)) for sender in (1, 2, 3)]
    signatures = tuple((vote.sender, vote.signature) for vote in votes)
    certificate = Certificate(Step.PRECOMMIT, 2, 0, block.block_id(), signatures)
    commit = Commit(proposed(network, block).value, certificate)
    with pytest.raises(MessageError):
        validator.hear(3, replace(commit, certificate=replace(certificate, round=1)), network.now_ms)
    assert validator.ledger.height == 1
    done = validator.hear(3, commit, network.now_ms)
    assert [type(action) for action in done] == [Committed] and done[0].block == block
    assert (validator.ledger.height, validator.machine.running) == (2, False)
    assert validator.hear(3, commit, network.now_ms) == ()


def test_who_is_behind_asks_on_with_the_next_tick_and_otherwise_seldom() -> None:
    network = running()
    network.submit(0, submitted(batch_of(b"one")).encode())
    late = Node(3, Settings()).validator
    late.begin(network.now_ms)

    def asked(now_ms: int) -> list[object]:
        return [action.message for action in late.tick(now_ms) if isinstance(action, Send)]

    network.now_ms += 10_000
    assert [asked(network.now_ms) for _ in range(9)] == [[]] * 9
    assert asked(network.now_ms) == [Ask(1)]
    late.hear(0, network.nodes[0].commits[1], network.now_ms)
    assert late.ledger.height == 1
    assert asked(network.now_ms + 1_000) == [Ask(2)]
    assert asked(network.now_ms + 2_000) == []


def test_answers_are_asked_on_at_once_as_long_as_they_are_full() -> None:
    network = running(Settings(commits_per_answer=1))
    network.submit(0, submitted(batch_of(b"one")).encode())
    late = Node(3, Settings(commits_per_answer=1)).validator
    vote = Vote(Step.PREVOTE, 3, 0, None, 0, bytes(64))
    assert late.hear(0, vote, network.now_ms) == (Send(0, Ask(1)),)
    done = late.hear(0, network.nodes[0].commits[1], network.now_ms)
    assert done[1:] == (Send(0, Ask(2)),)
    done = late.hear(0, network.nodes[0].commits[2], network.now_ms)
    assert done[1:] == (Send(0, Ask(3)),) and late.ledger.height == 2


def test_who_is_stuck_offers_its_transactions_again() -> None:
    network = running()
    network.down.update((1, 2, 3))
    batch = submitted(batch_of(b"one")).encode()
    network.submit(0, batch)
    validator = network.nodes[0].validator
    assert Send(None, Offer((batch,))) not in validator.tick(network.now_ms)
    assert Send(None, Offer((batch,))) in validator.tick(network.now_ms + 100)


def test_a_proposal_that_comes_after_it_was_given_up_makes_us_wait_longer() -> None:
    network = running()
    validator = network.nodes[0].validator
    begin_height(network)
    validator.time_out(Timeout(Step.PROPOSE, 2, 0), network.now_ms)
    proposal = proposed(network, next_block(network, network.now_ms))
    for _ in range(3):  # it counts once
        validator.hear(2, proposal, network.now_ms)
        assert validator.pace.factor == 1.5


def test_two_votes_of_one_validator_end_up_on_the_ledger() -> None:
    network = running()
    votes = [signed(Vote(Step.PREVOTE, 2, 0, what, 3)) for what in (None, b"\x07" * 32)]
    for message in votes:
        network.do(0, network.nodes[0].validator.hear(3, message, network.now_ms))
    network.settle()
    network.pass_time(3_000)
    assert len(network.nodes[0].accused) == 1
    assert len(network.states()) == 1
    evidence = network.nodes[1].committed[1].block.transactions
    assert len(evidence) == 1 and network.nodes[1].committed[1].effects == (Done(),)


def test_a_second_vote_that_comes_after_the_decision_is_held_against_its_sender() -> None:
    network = running()
    validator = network.nodes[0].validator
    [known] = [
        vote
        for vote in validator.machine.log.round(0).first_votes.values()
        if (vote.sender, vote.step) == (3, Step.PRECOMMIT)
    ]
    assert validator.hear(3, known, network.now_ms) == (), "the same again says nothing"
    other = replace(known, identifier=None)
    with pytest.raises(MessageError):
        validator.hear(3, other, network.now_ms)  # the signature is not of this vote
    assert not network.nodes[0].accused
    for message in (signed(other), signed(replace(other, identifier=b"\x07" * 32))):
        network.do(0, validator.hear(3, message, network.now_ms))
    network.settle()
    assert len(network.nodes[0].accused) == 1, "once is enough"
    assert network.heights == [2, 2, 2, 2] and len(network.states()) == 1
    for node in network.nodes:
        assert list(node.validator.ledger.accusations()) == [("validator", "v3")]


def proposed(network: Network, block: Block) -> Proposal:
    """The block as a proposal of the proposer of round 0 at height 2."""
    value = Value(block.block_id(), block.encode())
    return signed(Proposal(2, 0, value, NO_ROUND, 2))


def prevote_of(network: Network, block: Block) -> bytes | None:
    """What validator 0 prevotes when the block is proposed."""
    actions = network.nodes[0].validator.hear(2, proposed(network, block), network.now_ms)
    votes = [action.message for action in actions if isinstance(action, Send)]
    assert [vote.step for vote in votes] == [Step.PREVOTE]
    return votes[0].identifier


def begin_height(network: Network) -> None:
    """Validator 0 has something to order, of another partition than `next_block`."""
    batch = submitted(batch_of(b"other", partition=1)).encode()
    network.nodes[0].validator.submit(batch, network.now_ms)


def next_block(network: Network, clock_ms: int) -> Block:
    batch = submitted(batch_of(b"one")).encode()
    return network.nodes[2].validator.ledger.propose([batch], clock_ms, "v2")


@pytest.mark.parametrize(
    ("off_ms", "agreed"), [(0, True), (-10_000, True), (10_000, True), (10_001, False)]
)
def test_a_block_far_from_the_clock_is_not_voted_for(off_ms: int, agreed: bool) -> None:
    network = running()
    network.now_ms += 100_000
    block = next_block(network, network.now_ms + off_ms)
    assert prevote_of(network, block) == (block.block_id() if agreed else None)


def test_a_block_of_old_time_is_voted_for_only_if_the_chain_leaves_no_choice() -> None:
    network = running()
    time_ms = network.nodes[0].validator.ledger.time_ms
    network.now_ms = time_ms - 60_000  # our clock is behind the chain
    block = next_block(network, network.now_ms)
    assert block.header.time_ms == time_ms + 1
    assert prevote_of(network, block) == block.block_id()


def test_a_block_that_the_ledger_refuses_is_not_voted_for() -> None:
    network = running()
    begin_height(network)
    block = next_block(network, network.now_ms)
    wrong = replace(block, header=replace(block.header, state=bytes(32)))
    assert prevote_of(network, wrong) is None


def test_forged_messages_are_refused() -> None:
    network = running()
    validator = network.nodes[0].validator
    vote = signed(Vote(Step.PREVOTE, 2, 0, None, 3))
    block = next_block(network, network.now_ms)
    proposal = proposed(network, block)
    wrong = [
        replace(vote, sender=2),
        replace(proposal, value=Value(proposal.value.identifier, b"no block")),
        replace(proposal, value=Value(bytes(32), proposal.value.content)),
        Commit(proposal.value, Certificate(Step.PRECOMMIT, 2, 0, block.block_id(), ((0, bytes(64)),) * 3)),
    ]
    for message in wrong:
        with pytest.raises(MessageError):
            validator.hear(3, message, network.now_ms)
    assert not validator.machine.running


def test_answers_are_limited() -> None:
    network = running()
    validator = network.nodes[0].validator
    late = signed(Vote(Step.PREVOTE, 1, 1, None, 3))

    def answers(message: object) -> int:
        return len(validator.hear(3, message, network.now_ms))

    network.now_ms += 1_000
    assert [answers(Ask(1)), answers(Ask(1)), answers(late)] == [1, 0, 0]
    assert [answers(Ask(0)), answers(Ask(2)), answers(Ask(1 << 40))] == [0, 0, 0]
    network.now_ms += 1_000
    assert answers(late) == 1


def test_questions_are_limited() -> None:
    network = running()
    validator = network.nodes[0].validator
    ahead = Vote(Step.PREVOTE, 9, 0, None, 3, bytes(64))  # not even verified: it is of no use now
    asked = [validator.hear(3, ahead, network.now_ms) for _ in range(5)]
    assert asked == [(Send(3, Ask(2)),), (), (), (), ()]


def test_what_has_become_useless_is_forgotten_and_begins_no_height() -> None:
    network = running()
    rival = submitted(batch_of(b"rival")).encode()
    validator = network.nodes[0].validator
    validator.mempool.add(rival, network.now_ms, validator._judge)
    network.submit(1, submitted(batch_of(b"one")).encode())
    network.pass_time(3_000)
    assert [len(node.validator.mempool) for node in network.nodes] == [0, 0, 0, 0]
    assert network.heights == [2, 2, 2, 2]


def test_a_producer_that_contradicts_itself_is_put_on_the_ledger() -> None:
    network = running()
    network.submit(1, submitted(batch_of(b"one")).encode())
    outcome = network.submit(3, submitted(batch_of(b"another")).encode())
    assert isinstance(outcome, Refused) and outcome.reason is Reason.CONFLICT
    assert network.heights == [3, 3, 3, 3]
    for node in network.nodes:
        assert list(node.validator.ledger.accusations()) == [("producer", "alice/0")]


@pytest.mark.parametrize(
    ("parties", "reason"), [(("s0",), Reason.TOO_FEW_RECEIPTS), (("s0", "s1"), Reason.BAD_SIGNATURE)]
)
def test_an_early_batch_is_verified_at_once(parties: tuple[str, ...], reason: Reason) -> None:
    network = running()
    early = batch_of(b"later", sequence=5)
    transaction = submitted(early, parties)
    forged = replace(transaction.receipts[-1], signature=bytes(64))
    transaction = replace(transaction, receipts=(*transaction.receipts[:-1], forged))
    outcome, actions = network.nodes[0].validator.submit(transaction.encode(), network.now_ms)
    assert (outcome.reason, actions) == (reason, ())
    assert len(network.nodes[0].validator.mempool) == 0


def test_false_receipts_do_not_take_the_places_of_an_early_batch() -> None:
    network = running()
    validator = network.nodes[0].validator
    early, other = batch_of(b"later", sequence=5), batch_of(b"other", sequence=5)
    good = submitted(early)
    first, second = good.receipts
    forged = [replace(second, signature=bytes((number,)) * 64) for number in range(ALTERNATIVES_MAX)]
    lies = [*forged, replace(second, party="s9"), submitted(other).receipts[1]]
    for lie in lies:
        outcome, _ = validator.submit(replace(good, receipts=(first, lie)).encode(), network.now_ms)
        assert isinstance(outcome, Refused) and outcome.reason is not Reason.EARLY
    assert len(validator.mempool) == 0
    outcome, _ = validator.submit(good.encode(), network.now_ms)
    assert isinstance(outcome, Refused) and outcome.reason is Reason.EARLY
    assert len(validator.mempool) == 1


def test_offers_are_taken_but_not_passed_on() -> None:
    network = running()
    validator = network.nodes[0].validator
    actions = validator.hear(3, Offer((submitted(batch_of(b"one")).encode(),)), network.now_ms)
    assert len(validator.mempool) == 1
    assert [type(action) for action in actions] == [Schedule]
    assert validator.hear(3, Offer((TOPIC,)), network.now_ms) == ()  # decided already: no fault of theirs


def of_kind(kind: str) -> bytes:
    return domain_tag(kind) + b"what only a newer version reads"


def with_unknown_action() -> bytes:
    """A signed action of a kind that nobody knows yet, otherwise well-formed."""
    known = Chain().act("admin", SetTopic("orders", 2, validated=True)).encode()
    name = domain_tag(SetTopic.KIND)[4:]
    assert known.count(name) == 1
    return known.replace(name, name[:-1] + b"x")


@pytest.mark.parametrize("newer", [of_kind("freeze"), of_kind("set-quota"), with_unknown_action()])
def test_an_unknown_kind_of_transaction_is_dropped_and_not_punished(newer: bytes) -> None:
    network = Network()
    validator = network.nodes[0].validator
    assert validator.hear(3, Offer((newer,)), network.now_ms) == ()
    assert (validator.unknown, len(validator.mempool)) == (1, 0)
    outcome, _ = validator.submit(newer, network.now_ms)
    assert isinstance(outcome, Refused) and outcome.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "junk",
    [of_kind("submit"), of_kind("Freeze"), of_kind(""), of_kind("a" * 80), b"\0\0\0\x0ckabis/0/open", b""],
)
def test_what_only_looks_like_a_newer_kind_is_junk(junk: bytes) -> None:
    network = Network()
    with pytest.raises(MessageError, match="invalid transaction"):
        network.nodes[0].validator.hear(3, Offer((junk,)), network.now_ms)


def test_an_offer_of_junk_is_refused() -> None:
    network = running()
    batch = submitted(batch_of(b"one", signer=key_of("mallory")))
    for junk in (b"nonsense", batch.encode()):
        with pytest.raises(MessageError, match="invalid transaction"):
            network.nodes[0].validator.hear(3, Offer((junk,)), network.now_ms)
    assert len(network.nodes[0].validator.mempool) == 0


def test_evidence_about_a_later_height_is_no_junk() -> None:
    """Its validators may be others, whom whoever lags behind does not know yet."""

    def conflict(height: int) -> VoteConflict:
        votes = []
        for block_id in (b"\1" * 32, b"\2" * 32):
            message = vote_bytes(CHAIN, VoteKind.PREVOTE, height, 0, block_id)
            signature = key_of("v9").sign(message)
            votes.append(SignedVote(0, VoteKind.PREVOTE, height, 0, block_id, signature))
        return VoteConflict(*votes)

    validator = Network().nodes[0].validator
    assert validator.hear(3, Offer((conflict(validator.height + 1).encode(),)), 0) == ()
    assert len(validator.mempool) == 0
    with pytest.raises(MessageError, match="invalid transaction"):
        validator.hear(3, Offer((conflict(validator.height).encode(),)), 0)


def test_a_store_with_a_wrong_block_is_reported() -> None:
    network = running()
    node = network.nodes[0]
    node.commits[2] = node.commits[1]
    with pytest.raises(EnvironmentFailure, match="stored block 2"):
        restore(Node(0, Settings()).validator.ledger, node.commits.get)


def test_time_on_the_chain_starts_with_the_genesis() -> None:
    assert running().nodes[0].committed[0].block.header.time_ms == START_MS + 1_000


def test_messages_of_peers_survive_their_encoding() -> None:
    for message in (Ask(7), Offer((b"one", b"")), signed(Vote(Step.PREVOTE, 1, 0, None, 3))):
        encoded = encode_peer_message(message)
        assert decode_peer_message(encoded) == message
        for wrong in [encoded + b"0", *(encoded[:cut] for cut in range(len(encoded)))]:
            with pytest.raises(DecodeError):
                decode_peer_message(wrong)
    with pytest.raises(ValueError, match="items"):
        encode_peer_message(Offer((b"",) * (TRANSACTIONS_PER_OFFER_MAX + 1)))
