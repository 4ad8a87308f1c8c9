"""`veristream kabis member` as processes, until a change of the members is complete."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.kabis.kills.changes import MARGINS_BLOCKS, Change
from veristream.kabis.client.known_members import KnownMembers
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.operations.membership import is_copied
from veristream.kabis.protocol.members import MemberRole, Party

LAST_WORDS_BYTES = 2000


def find_member(known: KnownMembers, name: str) -> Party | None:
    """The member in force of this name."""
    found = (known.in_force.find(role, name) for role in MemberRole)
    return next((party for party in found if party is not None), None)


@dataclass(slots=True)
class Ordering:
    """A change that the admin has ordered. A command that is killed, or fails, is followed by another.

    After one that did not succeed, `member list` says whether the change is in force, and completes it.
    It is complete once all storage parties in force say that they have what was admitted before.
    """

    cluster: Cluster
    change: Change
    log: Path
    ordered: int = 0
    _before: KnownMembers = field(init=False)
    _process: subprocess.Popen[bytes] | None = None
    _lists: bool = False

    def __post_init__(self) -> None:
        self._before = self.cluster.folder.members()
        self._order()

    def _order(self) -> None:
        """Has the admin order the change, further ahead each time."""
        margin = MARGINS_BLOCKS[min(self.ordered, len(MARGINS_BLOCKS) - 1)]
        self.ordered += 1
        self._begin(*self.change.words, "--in", str(margin))

    def _begin(self, *words: str) -> None:
        command = [sys.executable, "-m", "veristream.cli", "kabis", "member", *words]
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(words)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                [*command, "--data", str(self.cluster.folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> bool:
        """Kills the command that runs; returns False if it is done."""
        if self._process is None or self._process.poll() is not None:
            return False
        self._process.kill()
        self._process.wait()
        return True

    def step(self) -> bool:
        """Returns whether the change is complete; begins another command if one is needed for that."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return False
        in_force = self._is_in_force()
        if in_force and code == 0 and not {*self.change.leaving} & self.cluster.find().keys():
            return is_copied(self.cluster, self.cluster.folder.members())
        if self._lists and not in_force:
            self._lists = False
            self._order()
        else:
            self._lists = True
            self._begin("list")
        return False

    def _is_in_force(self) -> bool:
        """Whether the folder knows it to be in force."""
        known, change = self.cluster.folder.members(), self.change
        rotated = [(find_member(known, name), find_member(self._before, name)) for name in change.rotated]
        return (
            all(find_member(known, name) is not None for name in change.joining)
            and all(find_member(known, name) is None for name in change.leaving)
            and all(now is not None and now != before for now, before in rotated)
        )

    def last_words(self) -> str:
        """What the commands printed last."""
        return self.log.read_text(encoding="utf-8")[-LAST_WORDS_BYTES:]
