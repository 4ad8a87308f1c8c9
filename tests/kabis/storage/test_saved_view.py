"""A party's view of the chain outlives its process, and a file that is not whole is not believed."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.chain import Chain, batch_of, chain_with_topic, key_of, make_genesis, submitted
from tests.kabis.storage.test_chain import SCRIPTS, batches, certified, rotate, step, view_of
from tests.kabis.strategies import patient
from veristream.kabis.protocol.actions import LowWater, Retention, RevokeKey, SetRetention
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.storage.chain import ChainView, KeyStanding, NotNextError
from veristream.kabis.storage.saved_view import load_view, save_view


def used_chain() -> Chain:
    chain = chain_with_topic()
    chain.block(chain.register("carol"), *map(submitted, batches(6)))
    chain.block(chain.act("admin", LowWater("orders", 0, 5)), chain.act("admin", RevokeKey("carol", 0)))
    chain.block(submitted(batch_of(b"other", producer="bob", partition=1)), rotate(chain, "alice", 0))
    return chain


@given(script=SCRIPTS, more=SCRIPTS, data=st.data())
@settings(patient, max_examples=25)
def test_a_saved_view_goes_on_as_if_it_had_never_stopped(
    script: list[str], more: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chain = chain_with_topic()
    chain.block(chain.register("carol"), chain.act("admin", SetRetention("orders", Retention(3, 0))))
    pushed: list[Batch] = []
    path = tmp_path_factory.mktemp("view") / "view"
    genesis = chain.ledger.genesis
    for words in (script, more):
        for word in words:
            transaction = step(chain, word, pushed, data)
            if transaction is not None:
                chain.block(transaction)
        view = load_view(path, genesis)
        for height in range(view.height + 1, chain.ledger.height + 1):
            view.take(certified(chain, height))
        assert view.dump() == view_of(chain).dump()
        assert view.marks == view_of(chain).marks
        save_view(path, genesis, view)
    assert load_view(path, genesis).dump() == view.dump()


def test_a_view_that_was_loaded_answers_and_requires_the_next_block(tmp_path: Path) -> None:
    chain = used_chain()
    path, genesis = tmp_path / "view", chain.ledger.genesis
    save_view(path, genesis, view_of(chain))
    view = load_view(path, genesis)
    assert (view.height, view.is_current) == (4, False)
    assert view.standing("carol", key_of("carol").public) is KeyStanding.ENDED
    with pytest.raises(NotNextError):
        view.take(certified(chain, 4))
    chain.block(chain.register("dave"))
    view.take(certified(chain, 5))
    assert view.dump() == view_of(chain).dump()


def test_marks_that_came_with_a_snapshot_are_saved(tmp_path: Path) -> None:
    """They are of streams, too, of which the view has seen no batch."""
    chain = used_chain()
    view = ChainView(chain.ledger.genesis)
    view.resume(chain.ledger)
    assert len(view.marks) > len(view.dump()[0]["streams"])
    save_view(tmp_path / "view", chain.ledger.genesis, view)
    again = load_view(tmp_path / "view", chain.ledger.genesis)
    assert again.marks == view.marks and again.dump() == view.dump()


def test_every_changed_byte_and_every_cut_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chain = used_chain()
    path, genesis = tmp_path / "view", chain.ledger.genesis
    assert load_view(path, genesis).height == 0 and not caplog.records
    save_view(path, genesis, view_of(chain))
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            assert load_view(path, genesis).height == 0
            assert "the chain is read from its beginning" in caplog.records[-1].message
    path.write_bytes(whole)
    assert load_view(path, make_genesis("another")).height == 0
    assert "of another chain" in caplog.records[-1].message


@pytest.mark.parametrize("junk", [b"", b"\1", bytes(8), b"\xff" * 8, (1).to_bytes(8, "little") * 2 + b"{"])
def test_a_file_with_a_good_checksum_and_bad_contents_is_not_used(tmp_path: Path, junk: bytes) -> None:
    chain = used_chain()
    path, genesis = tmp_path / "view", chain.ledger.genesis
    save_view(path, genesis, view_of(chain))
    head = path.read_bytes()[: len(b"KABISVIEW3") + 32]
    path.write_bytes(head + junk + sha256(head + junk).digest())
    assert load_view(path, genesis).height == 0
    values = json.dumps({"height": 3}).encode()
    body = head + (1).to_bytes(8, "little") + len(values).to_bytes(8, "little") + values
    path.write_bytes(body + sha256(body).digest())
    assert load_view(path, genesis).height == 0


SAVED = {
    *("height", "marks", "topics", "_last_id", "_keys", "_ended", "_cursors", "access"),
    *("_names", "_numbers", "_admitted", "_orders", "_kept", "_retentions", "_skipped", "memberships"),
}
NOT_SAVED = {"genesis", "is_current", "_wanted", "_looked"}


def test_nothing_that_a_view_knows_is_forgotten() -> None:
    """Whoever adds to the view adds to `dump` and `restore`, and to this list."""
    assert set(vars(view_of(chain_with_topic()))) == SAVED | NOT_SAVED
