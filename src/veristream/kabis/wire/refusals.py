"""Who hit which limit: counts by identity or address, which an admin may ask every party for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.fields import U64, at_most, text
from veristream.kabis.wire.handshake import Peer

REFUSALS_MAX = 1000
WHO_BYTES_MAX = 300
ASK = b"\xffrefusals"
"""The request for `Refused`; no party has an operation of this number."""
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Refusal(Coded, kind="wire-refusal"):
    """How often somebody hit a limit."""

    who: Annotated[str, text(WHO_BYTES_MAX)]
    limit: Annotated[str, text(WHO_BYTES_MAX)]
    count: U64


@dataclass(frozen=True, slots=True)
class Refused(Coded, kind="wire-refused"):
    """All that a party refused since it started."""

    refusals: Annotated[tuple[Refusal, ...], at_most(REFUSALS_MAX + 100)]


class Refusals:
    """Counts refusals; past a number of names, further ones are counted together.

    Only a peer that was authorized is called by its name. Anyone can claim a name with another key, and
    must not get its owner blamed.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, who: str, limit: str) -> None:
        """Counts one refusal."""
        key = (who[: WHO_BYTES_MAX // 4], limit)
        if key not in self._counts and len(self._counts) >= REFUSALS_MAX:
            key = (OTHERS, limit)
        self._counts[key] += 1

    def report(self) -> Refused:
        """Returns all counts, the largest first."""
        ordered = sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))
        return Refused(tuple(Refusal(who, limit, count) for (who, limit), count in ordered))


def call_peer(peer: Peer) -> str:
    """Returns how an authorized peer is called in reports."""
    return f"{peer.role.name.lower()} {peer.name}"


def call_address(host: str) -> str:
    """Returns how a caller is called who is not authorized."""
    return f"address {host}"
