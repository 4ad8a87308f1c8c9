"""A cluster, producers and a consumer under kills: strike, start again, look at what became of events.

Parties are processes as `veristream kabis up` starts them, producers are processes with a journal, changes
of the members are commands. Who starts parties again is the trial, at the times of the plan, or a
supervisor, as soon as it may; the same starts those who join. The consumer lives through all of it in the
process of the test, and carries on where it was.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.kabis.kills.changes import Members
from tests.kabis.kills.commands import Ordering
from tests.kabis.kills.notes import Notes, NotesReader, Place
from tests.kabis.kills.oracle import Delivered, find_problems
from tests.kabis.kills.plan import COMMAND, Kind, Round, Shape
from tests.kabis.kills.producing import PARTITIONS, PATIENCE_S, TOPIC
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.client.administration import act_all
from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.cluster.restarts import Policy, is_held
from veristream.kabis.cluster.status import ask_validator, read_status
from veristream.kabis.operations.supervisor import Supervisor
from veristream.kabis.protocol.actions import Action, RegisterKey, SetTopic
from veristream.kabis.protocol.transactions import prove_possession
from veristream.kabis.wire.handshake import Role

ROOT = Path(__file__).parents[3]
PRODUCERS = ("anna", "bert", "cleo")
PLAIN = Shape(validators=4, prunes=False, supervised=False)
PRUNING = "[snapshots]\nevery_blocks = 20\nkeep_blocks = 40\nsegment_bytes = 65536\n"
"""Small, so that a validator that was down for a while, and every client that comes, needs a snapshot."""
LEFT = "is no longer a validator"
EAGER = Policy(first_s=0.1, last_s=0.5, failures_max=1000)


class FoundProblemsError(AssertionError):
    """The history is not as it must be."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"{len(problems)} problems; the first are:\n" + "\n".join(problems[:10]))
        self.problems = tuple(problems)


@dataclass(slots=True)
class Trial:
    """Everybody of a cluster, and what the consumer was delivered so far; `kills` counts by role."""

    cluster: Cluster
    consumer: KabisConsumer
    notes: Path
    producers: tuple[str, ...]
    hasty: bool = False
    supervised: bool = False
    supervisor: Supervisor | None = None
    told_by_supervisor: list[str] = field(default_factory=list)
    ordering: Ordering | None = None
    changes: int = 0
    left: set[str] = field(default_factory=set)
    readers: dict[str, NotesReader] = field(init=False)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    delivered: list[Delivered] = field(default_factory=list)
    kills: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("validator", "storage", "producer", COMMAND), 0)
    )

    def __post_init__(self) -> None:
        self.readers = {name: NotesReader(self.notes / name) for name in self.producers}
        if self.supervised:
            self.supervisor = Supervisor(
                self.cluster, StartOptions(), self.told_by_supervisor.append, EAGER
            )

    @property
    def members(self) -> Members:
        """Everybody who can be killed: the members in force, as the folder knows them, and producers."""
        members = self.cluster.folder.members().in_force
        validators = tuple(party.name for party in members.validators)
        storage = tuple(party.name for party in members.storage)
        return Members(validators, storage, self.producers, members.faults)

    def told(self) -> dict[str, Notes]:
        """What the producers have noted until now; the next call adds to it."""
        return {name: reader.read() for name, reader in self.readers.items()}

    # Killing and starting.

    def strike(self, victims: Iterable[str]) -> list[str]:
        """Kills all of them that run at once, and waits until they are gone; returns who was killed.

        None may have ended before. Who does not run has left or not joined yet, or a supervisor, which may
        wait before it restarts what was killed just now, has not restarted it.
        """
        self._require_alive()
        names = list(victims)
        struck = {name: self._process(name) for name in names if self._is_running(name)}
        for process in struck.values():
            process.kill()
        if COMMAND in names and self.ordering is not None and self.ordering.kill():
            self.kills[COMMAND] += 1
        for name, process in struck.items():
            process.communicate(timeout=PATIENCE_S)
            self.kills[self._role(name)] += 1
            (self.running if name in self.producers else self.cluster.running).pop(name)
        return list(struck)

    def _is_running(self, name: str) -> bool:
        if name in self.producers:
            return name in self.running
        party = self.cluster.running.get(name)
        return party is not None and party.is_alive()

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        process = self.running[name] if name in self.producers else self.cluster.running[name].child
        assert process is not None, "all were started here"
        return process

    def _role(self, name: str) -> str:
        return "producer" if name in self.producers else name.partition("-")[0]

    def launch(self, names: Iterable[str]) -> None:
        """Starts parties and producers, and does not wait for anything."""
        for name in names:
            if name not in self.producers:
                self.cluster.launch(StartOptions(), [name])
                continue
            words = [str(self.cluster.folder.path), name, str(self.notes / name)]
            command = [sys.executable, "-m", "tests.kabis.kills.producing", *words]
            with self._log(name).open("ab") as log:
                self.running[name] = subprocess.Popen(
                    command + ["--hasty"] * self.hasty,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=ROOT,
                )

    def _log(self, name: str) -> Path:
        return self.notes / f"{name}.log"

    def _last_words(self, name: str) -> str:
        return self._log(name).read_text(encoding="utf-8")[-2000:]

    def end(self) -> None:
        """Ends the producers and the command that run; the parties end with their cluster."""
        if self.ordering is not None:
            self.ordering.kill()
        for name in list(self.running):
            process = self.running.pop(name)
            process.kill()
            process.communicate(timeout=PATIENCE_S)

    # A round.

    def run(self, each: Round) -> None:
        """Strikes as the round says, has everybody come back, and looks at the history."""
        if each.change is not None:
            self.ordering = Ordering(self.cluster, each.change, self._log(COMMAND))
            self.left |= {*each.change.leaving}
        self._supervise(each.after_s)
        struck = self.strike(each.victims)
        time.sleep(each.down_s)
        if each.again_s is not None:
            self.launch(name for name in struck if name in self.producers or not self.supervisor)
            self._supervise(each.again_s)
            # Who joins may run only now.
            struck += [name for name in self.strike(each.victims) if name not in struck]
        producers = [name for name in struck if name in self.producers]
        parties = [name for name in struck if name not in self.producers]
        if each.producers_last:
            self.start(parties)
            self.check()
            self.launch(producers)
        elif each.kind is Kind.WITHIN:
            self.launch(producers)
            self.wait_for_progress()  # without the parties, unless a supervisor is quick
            self.check()
            self.start(parties)
        else:
            self.launch(producers)
            self.start(parties)
        self._complete_change()
        self.wait_for_progress()
        self.check()

    def _complete_change(self) -> None:
        """Waits until the change of the round, if any, is in force, and those who left are down."""
        ordering = self.ordering
        if ordering is None:
            return

        def is_done() -> bool:
            self._require_alive()
            self._supervise()
            return ordering.step()

        if not wait_until(is_done, PATIENCE_S):
            raise FoundProblemsError([f"{ordering.change} is not complete: {ordering.last_words()}"])
        for name in ordering.change.leaving:
            self.cluster.running.pop(name, None)
        self.ordering, self.changes = None, self.changes + 1

    @property
    def _leaving(self) -> tuple[str, ...]:
        """Who leaves in this round, and therefore may end by itself."""
        return () if self.ordering is None else self.ordering.change.leaving

    def start(self, parties: Sequence[str]) -> None:
        """Has parties come back and waits until they answer; if there is a supervisor, it restarts them.

        Those that leave may have left meanwhile, and nobody waits for them.
        """
        staying = [name for name in parties if name not in self._leaving]
        if self.supervisor is None:
            self.launch(name for name in parties if name in self._leaving)
            self.cluster.start(names=staying)
        elif not wait_until(lambda: self._are_back(staying), PATIENCE_S):
            raise FoundProblemsError([f"not restarted: {staying}; {self.told_by_supervisor[-5:]}"])

    def _are_back(self, parties: Sequence[str]) -> bool:
        self._supervise()
        running, folder = self.cluster.running, self.cluster.folder
        return all(
            name in running and processes.read_ready(folder.party(name)) == running[name].pid
            for name in parties
        )

    def _supervise(self, seconds: float = 0.0) -> None:
        """Has the supervisor, if there is one, look after the parties for so long, or once.

        Without one, who joins is started here, as an operator would.
        """
        until_s = time.monotonic() + seconds
        while True:
            if self.supervisor is not None:
                self.supervisor.step()
            elif self.ordering is not None:
                self.launch(filter(self._is_new, self.ordering.change.joining))
            if time.monotonic() >= until_s:
                return
            time.sleep(0.02)

    def _is_new(self, name: str) -> bool:
        """Whether it joins, and nobody has started it yet."""
        return name in self.cluster.names() and processes.read_pid(self.cluster.folder_of(name)) is None

    def wait_for_progress(self) -> None:
        """Waits until every producer that runs was told of an event that it pushed from now on."""
        last = {name: max(self.told()[name].pushed, default=-1) for name in self.running}

        def is_done() -> bool:
            self._require_alive()
            self._supervise()
            told = self.told()
            return all(max(told[name].acknowledged, default=-1) > number for name, number in last.items())

        if not wait_until(is_done, PATIENCE_S):
            ended, waiting = self.cluster.ended(), self._who_waits(last)
            raise FoundProblemsError([f"no progress for {PATIENCE_S} s; {ended}; {waiting}"])

    def _who_waits(self, last: Mapping[str, int]) -> str:
        """Says who waits for an event after its last one, and how far each party is."""
        told = self.told()
        waiting = [name for name, each in last.items() if max(told[name].acknowledged, default=-1) <= each]
        parties = read_status(self.cluster.folder).parties
        heights = {each.name: each.height for each in parties if each.role == "validator"}
        silent = [each.name for each in parties if not each.answers]
        return f"waiting: {waiting}, silent: {silent}, heights: {heights}"

    def _require_alive(self) -> None:
        gone = [name for name, process in self.running.items() if process.poll() is not None]
        problems = [f"{name} ended by itself: {self._last_words(name)}" for name in gone]
        problems += [
            f"{name} ended by itself: {words}"
            for name, words in self.cluster.ended().items()
            if not self._has_left(name)
        ]
        # Of those that were killed here, the supervisor does not learn how they ended.
        problems += [
            each
            for each in self.told_by_supervisor
            if (" with exit code " in each or " by " in each)
            and not (LEFT in each and each.split()[0] in self.left)
        ]
        if problems:
            raise FoundProblemsError(problems)

    def _has_left(self, name: str) -> bool:
        """Whether a party that ended leaves in this round: it was stopped, or says that it has left.

        A party that is stopped before it has begun ends by the signal itself.
        """
        ended, folder = self.cluster.running[name], self.cluster.folder_of(name)
        was_stopped = ended.exit_code == 0 or (ended.exit_code == -signal.SIGTERM and is_held(folder))
        return name in self._leaving and (was_stopped or LEFT in processes.last_words(folder)[0])

    # Looking.

    def check(self, patience_s: float = PATIENCE_S) -> None:
        """Pulls until everything acknowledged so far is here; raises what is wrong with the history."""
        acknowledged = self._acknowledged()
        wanted = {place for places in acknowledged.values() for place in places.values()}
        self.delivered += pull_all(self.consumer, wanted - places_of(self.delivered), patience_s)
        self._require(acknowledged, self.delivered)

    def wait_for_validators(self, height: int) -> None:
        """Waits until every validator in force has this block; one that is far behind takes a snapshot."""
        members = self.cluster.folder.members().in_force
        identity = Access(self.cluster.folder).identity(ADMIN, Role.ADMIN)
        behind = {party.name: party for party in members.validators}

        def is_done() -> bool:
            self._require_alive()
            self._supervise()
            for name, party in list(behind.items()):
                with suppress(*FAILURES):
                    if asyncio.run(ask_validator(identity, party))[0].height >= height:
                        del behind[name]
            return not behind

        if not wait_until(is_done, PATIENCE_S):
            raise FoundProblemsError([f"not at block {height}: {[*behind]}"])

    def check_from_beginning(self, ends: Sequence[int]) -> None:
        """A consumer that knows nothing gets the history that another lived through, up to the ends."""
        acknowledged = self._acknowledged()
        wanted = {place for places in acknowledged.values() for place in places.values()}
        wanted |= {(partition, index) for partition, end in enumerate(ends) for index in range(end)}
        with reading(self.cluster.folder) as consumer:
            delivered = pull_all(consumer, wanted, PATIENCE_S)
        self._require(acknowledged, delivered)
        assert wanted <= places_of(delivered), "what stands on disk is not delivered"
        self.delivered += pull_all(self.consumer, wanted - places_of(self.delivered), PATIENCE_S)
        for partition in range(PARTITIONS):
            ours, theirs = (of_partition(each, partition) for each in (self.delivered, delivered))
            assert ours[: len(theirs)] == theirs[: len(ours)], "two consumers, two histories"

    def _acknowledged(self) -> dict[str, dict[int, Place]]:
        return {name: dict(notes.acknowledged) for name, notes in self.told().items()}

    def _require(
        self, acknowledged: Mapping[str, dict[int, Place]], delivered: Sequence[Delivered]
    ) -> None:
        now = self.told()  # what was pushed meanwhile may have been delivered meanwhile
        known = {name: Notes(notes.pushed, acknowledged[name], notes.failed) for name, notes in now.items()}
        problems = find_problems(known, delivered)
        if problems:
            raise FoundProblemsError(problems)


def places_of(delivered: Iterable[Delivered]) -> set[Place]:
    """Where events stand."""
    return {(event.partition, event.index) for event in delivered}


def of_partition(delivered: Iterable[Delivered], partition: int) -> list[Delivered]:
    """The events of one partition."""
    return [event for event in delivered if event.partition == partition]


def pull_all(consumer: KabisConsumer, wanted: Iterable[Place], patience_s: float) -> list[Delivered]:
    """Pulls until everything that is wanted is here, or patience ends; gives what came."""
    missing, found = set(wanted), []
    deadline_s = time.monotonic() + patience_s
    while missing and time.monotonic() < deadline_s:
        for event in consumer.pull(0.1):
            assert event.validated and event.producer is not None and event.value is not None
            found.append(Delivered(event.partition, event.index, event.producer, event.value))
            missing.discard((event.partition, event.index))
    return found


def wait_until(is_done: Callable[[], bool], patience_s: float) -> bool:
    """Whether it came to be in time."""
    deadline_s = time.monotonic() + patience_s
    while not is_done():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def reading(folder: ClusterFolder) -> Iterator[KabisConsumer]:
    """A consumer that validates and reads from the beginning."""
    with closing(Access(folder).consumer()) as consumer:
        consumer.open(PATIENCE_S)
        consumer.subscribe([TOPIC])
        yield consumer


@contextmanager
def opened(
    folder: Path,
    producers: tuple[str, ...] = PRODUCERS,
    *,
    hasty: bool = False,
    shape: Shape = PLAIN,
) -> Iterator[Trial]:
    """A new cluster whose producers push; all of its processes are gone in the end."""
    (folder / "notes").mkdir()
    with Cluster(ClusterFolder(folder / "cluster")) as cluster:
        cluster.create(shape.validators)
        if shape.prunes:
            cluster.folder.settings_path.write_text(PRUNING, encoding="utf-8")
        cluster.start()
        _prepare(cluster.folder, producers)
        with reading(cluster.folder) as consumer:
            trial = Trial(cluster, consumer, folder / "notes", producers, hasty, shape.supervised)
            try:
                trial.launch(producers)
                trial.wait_for_progress()
                yield trial
            finally:
                trial.end()
                cluster.stop()  # a command may have started who joins


def _prepare(folder: ClusterFolder, producers: Iterable[str]) -> None:
    access = Access(folder)
    actions: list[Action] = [SetTopic(TOPIC, PARTITIONS, validated=True)]
    for name in producers:
        key = folder.add_client(name)
        proof = prove_possession(access.genesis.chain_id, name, 0, key)
        actions.append(RegisterKey(name, 0, key.public, proof))
    act_all(access.genesis, access.admin(), access.author(ADMIN), actions)
