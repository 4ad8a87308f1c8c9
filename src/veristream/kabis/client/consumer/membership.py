"""A consumer's actions on the ledger, each signed with the next number, and its membership in a group."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.client.consumer import outputs
from veristream.kabis.client.consumer.outputs import Output, Ticket
from veristream.kabis.client.errors import ClosedError, CommitRefusedError, NoRightError
from veristream.kabis.client.pushes import Failure
from veristream.kabis.ledger.follower import Followed, Follower
from veristream.kabis.ledger.groups import Member
from veristream.kabis.protocol.actions import Action, CommitOffsets, JoinGroup, to_join, to_read
from veristream.kabis.protocol.outcomes import NOT_YET, Already, Reason, Refused
from veristream.kabis.protocol.records import murmur2
from veristream.kabis.protocol.transactions import Author, Evict, sign_action

REJOIN_MS = 200
"""How long to wait before joining again, after the group refused or removed this member."""


@dataclass(slots=True)
class _Pending:
    action: Action
    ticket: Ticket
    transaction: bytes = b""
    validators_asked: int = 0
    submit_ms: int = 0


class Voice:
    """Writes actions to the ledger in order; signs an action again if another took its number.

    Several consumers of one client share the client's numbers. An action goes to F+1 validators and, until
    a block contains it, to others.
    """

    def __init__(self, follower: Follower, author: Author, submit_timeout_ms: int) -> None:
        self._follower = follower
        self._author = author
        self._submit_timeout_ms = submit_timeout_ms
        self._waiting: deque[_Pending] = deque()
        self._first_validator = murmur2(author.name.encode("utf-8"))

    def say(self, action: Action) -> Ticket:
        """Queues an action for the ledger."""
        ticket = Ticket()
        self._waiting.append(_Pending(action, ticket))
        return ticket

    def is_saying(self, kind: type[Action]) -> bool:
        """Whether such an action is queued."""
        return any(isinstance(pending.action, kind) for pending in self._waiting)

    def heard(self, followed: Followed) -> list[Output]:
        """Looks for the current action in a block."""
        if self._waiting and self._waiting[0].transaction in followed.block.transactions:
            return [self._settle(None)]
        return []

    def advance(self, now_ms: int) -> tuple[list[Output], int | None]:
        """Returns what to send or settle now, and when to call again."""
        wanted: list[Output] = []
        while self._waiting:
            pending = self._waiting[0]
            failure = self._prepare(pending, now_ms)
            if failure is None and pending.transaction:
                wanted.extend(self._send(pending, now_ms))
                return wanted, pending.submit_ms
            wanted.append(self._settle(failure))
        return wanted, None

    def _prepare(self, pending: _Pending, now_ms: int) -> Failure | None:
        """Signs the action if necessary; returns a failure if the ledger will never accept it."""
        ledger, author = self._follower.ledger, self._author
        problem = find_key_problem(ledger, author)
        if problem is not None:
            return problem
        for _ in range(2):
            if not pending.transaction:
                account = ledger.account(author.name)
                assert account is not None, "a key without an account"
                pending.transaction = sign_action(author, account.number + 1, pending.action).encode()
                pending.submit_ms = 0
            match ledger.preview(pending.transaction, self._follower.time_ms(now_ms)):
                case Refused(Reason.REPLAYED):
                    pending.transaction = b""
                case Refused(Reason.NO_RIGHT, detail):
                    return NoRightError(detail)
                case Refused(reason) as refused if reason not in NOT_YET:
                    return CommitRefusedError(str(refused))
                case Already():
                    pending.transaction = b""
                    return None
                case _:
                    break
        return None

    def _send(self, pending: _Pending, now_ms: int) -> list[Output]:
        if pending.submit_ms > now_ms:
            return []
        members = self._follower.ledger.members
        pending.submit_ms = now_ms + self._submit_timeout_ms
        first = self._first_validator + pending.validators_asked
        pending.validators_asked += members.faults + 1
        return [
            outputs.Submit((first + number) % len(members.validators), pending.transaction)
            for number in range(members.faults + 1)
        ]

    def silence(self) -> list[Output]:
        """Fails all actions that are not on the ledger."""
        return [self._settle(ClosedError()) for _ in range(len(self._waiting))]

    def _settle(self, failure: Failure | None) -> Output:
        ticket = self._waiting.popleft().ticket
        ticket.done, ticket.failure = True, failure
        return outputs.Settle(ticket)


class Membership:
    """One consumer's membership in a group: joining, staying, and evicting members that are gone."""

    def __init__(self, follower: Follower, voice: Voice, author: Author, group: str, instance: str) -> None:
        self._follower = follower
        self._voice = voice
        self._author = author
        self.group = group
        self.instance = instance
        self._join = Ticket()
        self._join_ms = 0
        self._evicted_ms: dict[tuple[str, str, int], int] = {}

    @property
    def problem(self) -> Failure | None:
        """Why the group refuses this member, or None."""
        return self._join.failure

    @property
    def member(self) -> Member | None:
        """This member on the ledger, or None."""
        return self._follower.ledger.member(self.group, (self._author.name, self.instance))

    @property
    def generation(self) -> int:
        """The group's current generation."""
        return self._follower.ledger.generation(self.group)

    def assignment(self) -> set[tuple[str, int]]:
        """Returns the partitions assigned to this member."""
        assigned = self._follower.ledger.assignment(self.group)
        ours = (self._author.name, self.instance)
        return {place for place, member in assigned.items() if member == ours}

    def keep(self, topics: tuple[str, ...], session_ms: int, now_ms: int) -> int:
        """Joins the group unless it is a member for these topics, and renews its session in time.

        Returns when to call again.
        """
        member = self.member
        if member is None or member.topics != topics:
            if not self._voice.is_saying(JoinGroup) and self._join_ms <= now_ms:
                self._join = self._voice.say(JoinGroup(self.group, self.instance, topics, session_ms))
                self._join_ms = now_ms + REJOIN_MS
            return max(now_ms + 1, self._join_ms)
        heard_ms = self._follower.time_ms(now_ms) - member.seen_ms
        if heard_ms >= session_ms // 3:
            if not self._voice.is_saying(CommitOffsets):
                self._voice.say(CommitOffsets(self.group, self.instance, self.generation, ()))
            return now_ms + session_ms // 3
        return now_ms + session_ms // 3 - heard_ms

    def point_out(self, now_ms: int) -> list[Output]:
        """Requests the eviction of each member whose session has expired, or that lost a right, once."""
        faults, time_ms = self._follower.ledger.members.faults, self._follower.time_ms(now_ms)
        wanted: list[Output] = []
        pointed_out = {}
        for member in self._follower.ledger.group(self.group).members:
            silence = (member.name, member.instance, member.seen_ms)
            again_ms = self._evicted_ms.get(silence, 0)
            if time_ms > member.seen_ms + member.session_ms or not self._is_entitled(member):
                if again_ms <= now_ms:
                    again_ms = now_ms + member.session_ms
                    transaction = Evict(self.group, member.name, member.instance).encode()
                    wanted += [outputs.Submit(number, transaction) for number in range(faults + 1)]
                pointed_out[silence] = again_ms
        self._evicted_ms = pointed_out
        return wanted

    def _is_entitled(self, member: Member) -> bool:
        rights = (to_join(self.group), *map(to_read, member.topics))
        return all(self._follower.ledger.may(member.name, right) for right in rights)
