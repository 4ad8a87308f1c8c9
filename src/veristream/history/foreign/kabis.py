"""The chain of a Kabis cluster as a history: what was admitted, what is stored, what groups committed.

An admitted event is an acknowledged message whose offset is its validated index. One reader, the storage
parties together, receives every event of which one of them has the batch that its producer signed. Times
are those of blocks. The blocks are verified and replayed as a client does; a block that cannot follow is an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.history.events import NONE, Operation, Outcome
from veristream.history.foreign.recording import Place, Recording
from veristream.history.manifest import Manifest, Process
from veristream.kabis.audit.disk import (
    block_segments,
    read_blocks,
    read_history,
    read_whole,
    storage_segments,
)
from veristream.kabis.ledger.follower import Change, FalseBlockError, Follower
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, LeaveGroup, SetTopic
from veristream.kabis.protocol.genesis import Genesis, load_genesis
from veristream.kabis.protocol.outcomes import Admitted
from veristream.kabis.protocol.transactions import Evict, Signed, Submit

STORAGE: Final = "storage parties"
_HOST: Final = "chain"
_MemberId = tuple[str, str]
_Assignment = Mapping[tuple[str, int], _MemberId]


def import_chain(folder: Path, recording: Recording) -> Manifest:
    """Adds all events of the chain in a cluster's folder, and returns the manifest without the names."""
    genesis = load_genesis(folder / "genesis.json")
    segments = block_segments(folder, genesis)
    names = read_history(genesis, segments).storage_names()
    kept = frozenset(
        digest for segment in storage_segments(folder, names) for digest in read_whole(segment)
    )
    chain = _Chain(recording, genesis, kept)
    follower = Follower(genesis)
    for segment in segments:
        for certified in read_blocks(segment):
            height = certified.block.header.height
            try:
                followed = follower.follow(certified, 0)
            except FalseBlockError as error:
                raise ModelError(
                    f"{segment.path}: block {height} cannot follow: {error}",
                    hint="see what is wrong with the chain: veristream kabis audit",
                ) from error
            if followed is None:
                raise ModelError(
                    f"{segment.path}: block {height} comes twice", hint="copy the folder again"
                )
            for change in followed.changes:
                chain.take(follower, change, certified.block.header.time_ms)
    if not follower.ledger.height:
        raise ModelError(f"`{folder}` has no block", hint="import it when the cluster has run")
    chain.read_to_end(follower)
    return Manifest(
        source="kabis",
        processes=(),
        streams=(),
        transactions_recorded=False,
        workload="chain",
        settings={"chain": genesis.chain_id, "height": str(follower.ledger.height)},
    )


@dataclass(slots=True)
class _Chain:
    """Turns what the ledger's transactions did into events."""

    recording: Recording
    genesis: Genesis
    kept: frozenset[bytes]
    _held: dict[str, _Assignment] = field(default_factory=dict)
    _received: dict[Place, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    _places: dict[tuple[str, int], Place] = field(default_factory=dict)

    def take(self, follower: Follower, change: Change, time_ms: int) -> None:
        """Adds the events of one transaction."""
        time_ns = (time_ms - self.genesis.time_ms) * 1_000_000
        match change.transaction, change.effect:
            case Submit() as submit, Admitted(first_index):
                self._admit(submit, first_index, time_ns)
            case Signed(author=name, action=CommitOffsets() as commit), _:
                self._commit(name, commit, time_ns)
            case Signed(action=JoinGroup(group=group) | LeaveGroup(group=group)) | Evict(group=group), _:
                self._reassign(follower, group, time_ns)
            case Signed(action=SetTopic()), _:
                for group in list(self._held):
                    self._reassign(follower, group, time_ns)
            case _:
                pass

    def read_to_end(self, follower: Follower) -> None:
        """Adds all receipts of the storage parties, and up to where each partition goes."""
        reader = self.recording.process(Process(STORAGE, _HOST))
        end_ns = (follower.ledger.time_ms + 1 - self.genesis.time_ms) * 1_000_000
        for (topic, number), place in sorted(self._places.items()):
            named = {"stream": place[0], "partition": place[1]}
            call = (reader, self.recording.call(reader))
            for first_index, count, producer, sequence in self._received.get(place, ()):
                for each in range(count):
                    message = {
                        "producer": producer,
                        "number": sequence + each,
                        "offset": first_index + each,
                    }
                    self.recording.put(call, Operation.RECEIVE, Outcome.OK, end_ns, **named, **message)
            partition = follower.ledger.partition(topic, number)
            if not partition.next_index:
                continue  # nothing was admitted, perhaps since the topic is not validated
            call = (reader, self.recording.call(reader))
            self.recording.put(call, Operation.READ_TO_END, Outcome.INVOKE, end_ns, **named)
            span = {"number": partition.low_water, "offset": partition.next_index}
            self.recording.put(call, Operation.READ_TO_END, Outcome.OK, end_ns, **named, **span)

    def _place(self, topic: str, partition: int) -> Place:
        place = (self.recording.stream(topic), partition)
        self._places.setdefault((topic, partition), place)
        return place

    def _admit(self, submit: Submit, first_index: int, time_ns: int) -> None:
        header = submit.signed.header
        place = self._place(header.topic, header.partition)
        producer = self.recording.process(Process(header.producer, _HOST))
        call = (producer, self.recording.call(producer))
        for each in range(header.count):
            self.recording.put(
                call, Operation.SEND, Outcome.OK, time_ns,
                stream=place[0], partition=place[1], offset=first_index + each,
                producer=producer, number=header.first_sequence + each, epoch=header.key_epoch,
            )  # fmt: skip
        if submit.signed.digest() in self.kept:
            batch = (first_index, header.count, producer, header.first_sequence)
            self._received.setdefault(place, []).append(batch)

    def _member(self, group: str, member: _MemberId) -> int:
        number = self.recording.group(group)
        name = f"{member[0]}/{member[1]} of {group}"
        return self.recording.process(Process(name, _HOST, member_of=number))

    def _commit(self, name: str, commit: CommitOffsets, time_ns: int) -> None:
        process, group = (
            self._member(commit.group, (name, commit.instance)),
            self.recording.group(commit.group),
        )
        for topic, partition, index in commit.offsets:
            place, call = self._place(topic, partition), (process, self.recording.call(process))
            for outcome in (Outcome.INVOKE, Outcome.OK):
                self.recording.put(
                    call, Operation.COMMIT, outcome, time_ns, stream=place[0], partition=place[1],
                    offset=index, group=group, epoch=commit.generation,
                )  # fmt: skip

    def _reassign(self, follower: Follower, name: str, time_ns: int) -> None:
        """Adds what changed hands: partitions are revoked before others get them."""
        before, after = self._held.get(name, {}), dict(follower.ledger.assignment(name))
        self._held[name] = after
        group, generation = self.recording.group(name), follower.ledger.generation(name)
        moves = [
            (operation, key, member)
            for operation, now, other in (
                (Operation.REVOKE, before, after),
                (Operation.ASSIGN, after, before),
            )
            for key, member in sorted(now.items())
            if other.get(key) != member
        ]
        for operation, (topic, partition), member in moves:
            process, place = self._member(name, member), self._place(topic, partition)
            committed = follower.ledger.committed(name, topic, partition)
            offset = committed if operation is Operation.ASSIGN and committed is not None else NONE
            self.recording.put(
                (process, self.recording.call(process)), operation, Outcome.OK, time_ns,
                stream=place[0], partition=place[1], offset=offset, group=group, epoch=generation,
            )  # fmt: skip
