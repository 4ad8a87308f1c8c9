"""Who hit which limit, as the parties of a cluster tell an admin."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from veristream.kabis.channels.failures import FAILURES, decode_answer
from veristream.kabis.protocol.members import Party
from veristream.kabis.wire.endpoints import Address, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role
from veristream.kabis.wire.refusals import ASK, Refusal, Refused


@dataclass(frozen=True, slots=True)
class Offender:
    """How often somebody hit a limit, as these parties tell; a party's word is no proof."""

    who: str
    limit: str
    count: int
    parties: tuple[str, ...]


async def ask_refusals(
    identity: Identity, role: Role, party: Party, timeout_s: float
) -> tuple[Refusal, ...]:
    """Returns what a party refused since it started; nothing if it does not answer."""
    server = Peer(role, party.name, party.public)
    with suppress(*FAILURES):
        async with asyncio.timeout(timeout_s):
            connection = await connect(Address.parse(party.address), identity, server)
            try:
                return decode_answer(Refused.decode, await connection.request(ASK)).refusals
            finally:
                connection.close()
    return ()


def list_offenders(told: Iterable[tuple[str, tuple[Refusal, ...]]]) -> tuple[Offender, ...]:
    """Adds up what parties tell, by name; the most frequent first."""
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    parties: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, refusals in told:
        for each in refusals:
            key = (_printable(each.who), _printable(each.limit))
            counts[key] += each.count
            parties[key].append(name)
    ordered = sorted(counts, key=lambda key: (-counts[key], key))
    return tuple(Offender(*key, counts[key], tuple(parties[key])) for key in ordered)


def _printable(text: str) -> str:
    """Returns a text without what a lying party could do to a terminal with it."""
    return "".join(each if each.isprintable() else "?" for each in text)
