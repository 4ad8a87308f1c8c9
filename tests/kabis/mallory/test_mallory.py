"""A registered client attacks, and honest ones go on: nothing is lost, nobody dies, memory is bounded.

Latencies are printed (`-s`), and not asserted: they depend on the machine.
`bench/kabis_mallory.py` compares them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator

import pytest

from tests.kabis.session.console import Console
from veristream.kabis.cluster.access import Access
from veristream_testing.mallory.arena import (
    PATIENCE_S,
    Arena,
    attacked,
    call_attacker,
    opened,
    percentile,
)
from veristream_testing.mallory.attacks import ATTACKS
from veristream_testing.mallory.target import Target, find_targets

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("mallory")]

EVENTS = 20
MEMORY_MAX_MIB = 400
"""An undisturbed party has about 40. One identity may make it hold 64 MiB of requests, as much of frames
that have no end, 32 MiB of answers, and what the C library keeps of freed memory."""
NAMES = [attack.__name__ for attack in ATTACKS]

HERE = "address 127.0.0.1"
RULES = "broken rules of the wire"
BLAMED = {
    "half_open": (HERE, "half-open connections"),
    "slow_loris": (HERE, ""),
    "garbage": (HERE, "bad handshake"),
    "strangers": (HERE, "refused key"),
    "impostor": (HERE, "refused key"),
    "all_connections": ("", "connections"),
    "oversized": ("", RULES),
    "forged": ("", RULES),
    "replayed": ("", RULES),
    "votes": ("", RULES),
    "pings": ("", RULES),
    "unfinished": ("", RULES),
    "request_flood": ("", ""),
    "junk_flood": ("", ""),
    "phantoms": ("", "refused requests"),
    "orphans": ("", "refused requests"),
    "join_spam": ("", ""),
    "large_groups": ("", "rate of requests"),
    "group_thief": ("", "bad transactions"),
    "usurper": ("", "bad transactions"),
    "forgeries": ("", "bad transactions"),
    "false_receipts": ("", "bad transactions"),
    "unknown_kinds": ("", "bad transactions"),
}
"""Who is named for which limit; without a name it is the attacker, and without a limit any. The others stay
within their quotas."""


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with opened(tmp_path_factory.mktemp("mallory") / "cluster", [*NAMES, "nessie"]) as arena:
        arena.work(EVENTS)
        latencies = arena.work(EVENTS)
        sys.stdout.write(f"\nundisturbed: p99 {percentile(latencies):.0f} ms\n")
        yield arena


def require_unharmed(arena: Arena) -> int:
    """Returns the memory of the largest party."""
    assert arena.cluster.ended() == {}
    memory = arena.memory_mib()
    assert max(memory.values()) < MEMORY_MAX_MIB, memory
    return max(memory.values())


def count_blame(arena: Arena, who: str, limit: str) -> int:
    """How often `kabis status` says that somebody hit a limit."""
    status = json.loads(Console(arena.cluster.folder.path).do("status", "--json").output)
    return sum(
        each["count"] for each in status["offenders"] if each["who"] == who and limit in each["limit"]
    )


@pytest.mark.parametrize("attack", NAMES)
def test_honest_clients_go_on(arena: Arena, attack: str) -> None:
    who, limit = BLAMED.get(attack, ("", ""))
    who = who or f"producer {call_attacker(attack)}"
    before = count_blame(arena, who, limit) if who == HERE else 0
    with attacked(arena, attack) as goes_on:
        latencies = arena.work(EVENTS)
        if attack in BLAMED:
            deadline_s = time.monotonic() + PATIENCE_S
            while count_blame(arena, who, limit) <= before:
                assert time.monotonic() < deadline_s, f"{who} is not named"
                time.sleep(0.2)
        assert goes_on()
    memory = require_unharmed(arena)
    sys.stdout.write(f"\n{attack}: p99 {percentile(latencies):.0f} ms; at most {memory} MiB\n")


def test_a_revoked_key_has_to_leave_every_party(arena: Arena) -> None:
    console = Console(arena.cluster.folder.path)
    nessie = call_attacker("nessie")
    access = Access(arena.cluster.folder)

    async def hold(target: Target) -> None:
        (reader, _writer), _session = await target.enter(access.identity(nessie, target.me.role))
        held.append(target.party.name)
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(1 << 16):
                pass

    held: list[str] = []

    async def test() -> None:
        targets = find_targets(arena.cluster.folder, nessie)
        holding = [asyncio.ensure_future(hold(each)) for each in targets]
        while len(held) < len(targets):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(console.do, "key", "revoke", nessie)
        await asyncio.gather(*holding)

    asyncio.run(test())
    arena.work(EVENTS)
    require_unharmed(arena)
    assert count_blame(arena, f"producer {nessie}", "ended key") > 0
