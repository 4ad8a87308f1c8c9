"""A validator takes its next key as soon as the file is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kabis.chain import key_of, make_genesis
from veristream.errors import ModelError
from veristream.kabis.cluster.validator_process import Options, _settle_key, _watch_membership
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.seats import Seats
from veristream.kabis.ordering.store import RecordStore
from veristream.kabis.protocol.keys import SecretKey, save_key
from veristream.kabis.wire.endpoints import Address


class Known(Seats):
    """Others know this validator by its latest key: its own ledger is behind."""

    @property
    def signer(self) -> SecretKey:
        return key_of("v0", 1) if self.has(key_of("v0", 1).public) else key_of("v0")


def test_a_validator_that_is_behind_needs_no_block_to_find_its_next_key(tmp_path: Path) -> None:
    """Others refuse its old key, so it gets no block that would tell it of the change."""
    save_key(tmp_path / "key", key_of("v0"))
    ready = tmp_path / "ready"
    options = Options(make_genesis(), "v0", tmp_path / "key", tmp_path, Address("127.0.0.1", 0), ready)
    seats = Known(Ledger(make_genesis()), 0, key_of("v0"), lambda *_: None, lambda block: block)

    async def watch() -> None:
        node: Any = SimpleNamespace(
            validator=SimpleNamespace(seats=seats), wait_for_block=asyncio.Event().wait
        )
        watching = asyncio.ensure_future(_watch_membership(options, node))
        await asyncio.sleep(0)
        save_key(tmp_path / "key.next", key_of("v0", 1))
        async with asyncio.timeout(60):
            await watching

    asyncio.run(watch())
    assert seats.has(key_of("v0", 1).public)


def settle(folder: Path, *voted: int) -> None:
    """Settles the key of a validator with a new key, but without blocks, that voted at some heights."""
    save_key(folder / "key", key_of("v0", 1))
    options = Options(
        make_genesis(), "v0", folder / "key", folder, Address("127.0.0.1", 0), folder / "ready"
    )
    ledger = Ledger(make_genesis())
    seats = Seats(ledger, 0, key_of("v0", 1), lambda *_: None, lambda block: block)
    with Log(folder / "records") as log:
        records = RecordStore(log)
        records.recover(1)
        for height in voted:
            records.append(height, b"a vote")
        node: Any = SimpleNamespace(validator=SimpleNamespace(seats=seats), ledger=ledger, records=records)
        _settle_key(options, node)


def test_a_key_that_is_not_in_force_is_that_of_somebody_else(tmp_path: Path) -> None:
    for number, voted in enumerate([(), (1,)]):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(ModelError, match="the key is not that of 'v0'"):
            settle(tmp_path / str(number), *voted)


def test_a_validator_whose_blocks_were_moved_away_may_have_a_later_key(tmp_path: Path) -> None:
    settle(tmp_path, 1, 2)
