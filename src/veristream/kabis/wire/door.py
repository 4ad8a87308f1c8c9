"""A party's door: who may enter, and who has to leave if there is no more room.

A caller is *half open* until it has proved its key and was authorized. Half-open callers are few in total
and by address; if there is one too many, one of the address with the most of them goes, by lot, and first
of those that have said nothing. So who proves a key at once gets in while others knock for nothing.
An open connection has a place of its own: parties keep theirs whatever clients do, and if all places of
clients are taken, the identity with the most connections loses one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from veristream.kabis.wire.handshake import Peer, Role
from veristream.kabis.wire.quotas import Quotas
from veristream.kabis.wire.refusals import Refusals, call_address, call_peer
from veristream.kabis.wire.turns import Bucket, Served, Share, Turns

_PARTIES = frozenset({Role.VALIDATOR, Role.STORAGE, Role.ADMIN})
REFUSED_COST = 9
"""What a request that the party refused counts beside itself: no honest client sends many of them."""
_ADDRESSES_MAX = 10_000
_SHARES_KEPT = 10_000


class Entrant(Served, Protocol):
    """A connection at the door."""

    host: str

    @property
    def has_spoken(self) -> bool:
        """Whether it has sent a complete first message."""


@dataclass(slots=True)
class Door:
    """Counts connections; `draw` chooses one of several by lot, and `clock` returns seconds."""

    quotas: Quotas
    places: int
    turns: Turns
    clock: Callable[[], float]
    draw: Callable[[Sequence[Entrant]], Entrant]
    refusals: Refusals = field(default_factory=Refusals)
    everybody: dict[Entrant, None] = field(default_factory=dict)  # in the order in which they came
    _half_open: dict[str, dict[Entrant, None]] = field(default_factory=dict)
    _shares: dict[object, Share] = field(default_factory=dict)
    _entered: dict[Entrant, Share] = field(default_factory=dict)
    _clients: int = 0
    _knocks: dict[str, Bucket] = field(default_factory=dict)

    @property
    def half_open_max(self) -> int:
        """How many may be half open in total."""
        return max(1, min(self.quotas.half_open_max, self.places // 4))

    @property
    def open_max(self) -> int:
        """How many places there are for open connections."""
        return self.places - self.half_open_max

    @property
    def clients_max(self) -> int:
        """How many of them clients may take."""
        return max(1, self.open_max - min(self.quotas.connections_for_parties, self.places // 4))

    # Half open

    def knock(self, host: str) -> bool:
        """Whether a caller from this address may begin a handshake now."""
        now = self.clock()
        rate = self._knocks.get(host)
        if rate is None:
            if len(self._knocks) >= _ADDRESSES_MAX:
                self._knocks.clear()  # rather than to grow without end; every address starts afresh
            rate = self._knocks[host] = Bucket.full(self.quotas.handshakes_per_s, now)
        if rate.wait_s(now) > 0:
            self.refusals.note(call_address(host), "rate of handshakes")
            return False
        rate.take(1)
        return True

    def enter(self, entrant: Entrant) -> None:
        """Notes a caller; if there are too many half-open ones, one of them has to go."""
        self.everybody[entrant] = None
        here = self._half_open.setdefault(entrant.host, {})
        here[entrant] = None
        if len(here) > self.quotas.half_open_per_address:
            self._turn_away(entrant.host, entrant)
        elif sum(map(len, self._half_open.values())) > self.half_open_max:
            self._turn_away(max(self._half_open, key=lambda host: len(self._half_open[host])), entrant)

    def _turn_away(self, host: str, newcomer: Entrant) -> None:
        """Cuts off one of an address; the newcomer had no time to speak yet, so it is not its turn."""
        here = [each for each in self._half_open[host] if each is not newcomer] or [newcomer]
        silent = [each for each in here if not each.has_spoken]
        victim = self.draw(silent or here)
        self.refusals.note(call_address(host), "half-open connections")
        self._forget_half_open(victim)
        victim.abort()

    def _forget_half_open(self, entrant: Entrant) -> None:
        here = self._half_open.get(entrant.host, {})
        here.pop(entrant, None)
        if not here:
            self._half_open.pop(entrant.host, None)

    # Open

    def admit(self, entrant: Entrant, peer: Peer) -> str | None:
        """Gives an authorized peer a place; returns why not if there is none."""
        self._forget_half_open(entrant)
        share = self._share_of(peer, entrant.host)
        if share.banned_until > self.clock():
            return self._refuse(share, f"{share.who} broke the rules of the wire, and has to wait", "ban")
        if len(share.connections) >= self.quotas.connections_per_identity:
            return self._refuse(share, f"{share.who} has {len(share.connections)} connections, the most")
        if len(self._entered) >= self.open_max or (
            not share.is_party and self._clients >= self.clients_max
        ):
            rival = self._largest(parties=share.is_party)
            if rival is None or len(rival.connections) <= len(share.connections) + 1:
                return self._refuse(share, "all places are taken")
            self.refusals.note(rival.who, "connections")
            loser = next(entered for entered, share in self._entered.items() if share is rival)
            loser.abort()
            self._give_up_place(loser)
        self._entered[entrant] = share
        share.connections[entrant] = None
        self._clients += not share.is_party
        return None

    def _refuse(self, share: Share, why: str, limit: str = "connections") -> str:
        self.refusals.note(share.who, limit)
        return why

    def blame(self, peer: Peer, limit: str) -> None:
        """Notes that the party refused a request of a client; a flood of such requests slows down."""
        self.refusals.note(call_peer(peer), limit)
        share = self._shares.get((peer.public, peer.role in _PARTIES))
        if share is not None and not share.is_party:
            share.requests_rate.take(REFUSED_COST)

    def ban(self, share: Share) -> None:
        """Refuses new connections of a client for a while, because it broke the rules."""
        self.refusals.note(share.who, "broken rules of the wire")
        if not share.is_party:  # validators judge each other's messages, and ban those who lie
            share.banned_until = self.clock() + self.quotas.ban_s

    def _largest(self, *, parties: bool) -> Share | None:
        among = (share for share in self._entered.values() if parties or not share.is_party)
        return max(among, key=lambda share: len(share.connections), default=None)

    def _share_of(self, peer: Peer, host: str) -> Share:
        anonymous, is_party = peer.role is Role.ANONYMOUS, peer.role in _PARTIES
        key: object = host if anonymous else (peer.public, is_party)
        share = self._shares.get(key)
        if share is None:
            if len(self._shares) >= _SHARES_KEPT:
                self._shares = {key: each for key, each in self._shares.items() if each.connections}
            now, quotas = self.clock(), self.quotas
            share = self._shares[key] = Share(
                who=call_address(host) if anonymous else call_peer(peer),
                quotas=quotas,
                requests_rate=Bucket.full(quotas.requests_per_s, now),
                bytes_rate=Bucket.full(quotas.bytes_per_s, now),
                answers_rate=Bucket.full(quotas.answer_bytes_per_s, now),
                note=self.refusals.note,
                is_party=is_party,
            )
        return share

    def share_of(self, entrant: Entrant) -> Share | None:
        """Returns the share of an open connection."""
        return self._entered.get(entrant)

    def leave(self, entrant: Entrant) -> None:
        """Forgets a connection that ended."""
        self.everybody.pop(entrant, None)
        self._give_up_place(entrant)

    def _give_up_place(self, entrant: Entrant) -> None:
        self._forget_half_open(entrant)
        share = self._entered.pop(entrant, None)
        if share is not None:
            share.connections.pop(entrant, None)
            self._clients -= not share.is_party
            share.drain()
