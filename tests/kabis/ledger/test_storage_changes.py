"""What a change of the storage parties may not do, and what it does to receipts and absences."""

from __future__ import annotations

from tests.kabis.chain import CHAIN, batch_of, key_of, submitted
from tests.kabis.ledger.changing import FOUNDING, Changing, change, member, replaced
from veristream.kabis.protocol.actions import Hole, SetTopic
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.outcomes import Done, Reason, Refused
from veristream.kabis.protocol.receipts import sign_storage_absence, sign_storage_receipt
from veristream.kabis.protocol.transactions import Skip, submit

WITHOUT = {party: replaced(FOUNDING, party, member("s4")) for party in ("s0", "s1", "s2")}


def test_a_party_that_alone_has_a_topic_stays_until_the_topic_is_validated() -> None:
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("logs", 1, validated=False)))
    home = Memberships(FOUNDING).party_of("logs")
    for party, after in WITHOUT.items():
        outcome = chain.preview(chain.act("admin", change(FOUNDING, after, 5), number=2))
        wanted = Refused(Reason.BAD_MEMBERS, f"{home} alone stores logs, which is not validated")
        assert outcome == (wanted if party == home else Done())
    rotated = replaced(FOUNDING, home, member(home, 1))
    assert chain.preview(chain.act("admin", change(FOUNDING, rotated, 5), number=2)) == Done()
    chain.block(chain.act("admin", SetTopic("logs", 1, validated=True), number=2))
    assert chain.preview(chain.act("admin", change(FOUNDING, WITHOUT[home], 5), number=3)) == Done()


def test_a_topic_that_is_new_while_a_change_is_pending_is_at_a_party_that_stays() -> None:
    chain = Changing()
    chain.set_members(WITHOUT["s0"], 4)
    names = [f"topic-{number}" for number in range(30)]
    homes = {chain.ledger.memberships.party_of(name) for name in names}
    assert homes == {"s4", "s1", "s2"}
    before = {name: chain.ledger.memberships.party_of(name) for name in names}
    chain.grow(5)
    assert before == {name: chain.ledger.memberships.party_of(name) for name in names}


def test_receipts_count_from_the_height_on_and_no_longer() -> None:
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    chain.set_members(WITHOUT["s0"], 5)
    batch = batch_of(b"x")

    def vouched(*names: str) -> Refused | None:
        receipts = [sign_storage_receipt(CHAIN, name, batch.digest(), key_of(name)) for name in names]
        outcome = chain.preview(submit(batch.signed, receipts))
        return outcome if isinstance(outcome, Refused) else None

    for height in (2, 3):
        chain.grow(height)
        assert vouched("s0", "s1") is None
        assert vouched("s4", "s1") == Refused(Reason.UNKNOWN_PARTY, "s4")
    chain.grow(4)
    assert vouched("s4", "s1") is None
    assert vouched("s0", "s1") == Refused(Reason.UNKNOWN_PARTY, "s0")


def test_parties_that_left_may_still_say_that_they_lack_what_they_vouched_for() -> None:
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    batch = batch_of(b"x")
    chain.block(submitted(batch, ("s0", "s1")))
    chain.set_members(WITHOUT["s0"], 5)
    chain.grow(6)
    hole = Hole("orders", 0, 0, batch.digest())

    def lacking(*names: str) -> Skip:
        told = [sign_storage_absence(CHAIN, name, batch.digest(), 6, key_of(name)) for name in names]
        return Skip(hole, tuple(told))

    assert chain.preview(lacking("s1", "s4")) == Refused(Reason.NOT_ABSENT)
    assert chain.preview(lacking("s0", "s1")) == Done()
