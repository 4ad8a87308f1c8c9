"""Validators that refuse a client: how many must, and what a client believes of their reasons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.kabis.chain import make_genesis
from veristream.kabis.client.errors import RefusedClientError
from veristream.kabis.client.following import ask_height
from veristream.kabis.ordering.asking import HasHeight, Validators
from veristream.kabis.ordering.requests import Evidence
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.wire.connection import PeerRefusedError

SAME = "the key is replaced"


class Refusing(Validators):
    """Four validators, each of which fails in its own way, one round after the other."""

    def __init__(self, *rounds: Sequence[Exception]) -> None:
        super().__init__(make_genesis())
        self.rounds = list(rounds)
        self.asked = 0

    async def status_of(self, validator: int) -> HasHeight:
        number, self.asked = divmod(self.asked, 4)[0], self.asked + 1
        raise self.rounds[number][validator]

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        raise NotImplementedError

    async def evidence_of(self, validator: int) -> Evidence:
        raise NotImplementedError

    def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        raise NotImplementedError

    def _is_reached(self, validator: int) -> bool:
        return False

    async def close(self) -> None:
        pass


def refused(*reasons: str | None) -> list[Exception]:
    return [TimeoutError("late") if each is None else PeerRefusedError(each) for each in reasons]


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        (refused(SAME, SAME, SAME, SAME), SAME),
        (refused("a lie", SAME, SAME, None), SAME),
        (refused("a", "b", None, None), "they give different reasons"),
        (refused("bell\x07", "bell\x07", None, None), "bell"),
        (refused("x" * 999, "x" * 999, None, None), "x" * 200),
    ],
)
def test_more_refusals_than_liars_count_and_a_reason_that_one_correct_validator_gives(
    problems: Sequence[Exception], expected: str
) -> None:
    with pytest.raises(PeerRefusedError) as raised:
        asyncio.run(Refusing(problems).status())
    assert str(raised.value) == expected


def test_one_refusal_may_be_a_lie() -> None:
    with pytest.raises(TimeoutError, match="late"):
        asyncio.run(Refusing(refused("a lie", None, None, None)).status())


def test_a_client_gives_up_when_it_is_refused_twice_in_a_row() -> None:
    late, all_ = refused(None, None, None, None), refused(SAME, SAME, SAME, SAME)
    validators = Refusing(all_, late, all_, all_)
    with pytest.raises(RefusedClientError, match="the validators refuse this client: the key is replaced"):
        asyncio.run(ask_height(validators))
    assert validators.asked == 16
