"""A cluster on one machine: a process for each validator and each storage party, over one folder.

    with Cluster(ClusterFolder(Path("kabis-data"))) as cluster:
        cluster.create()        # creates keys and genesis unless the folder has them
        cluster.start()         # returns when all parties answer
        ...                     # `access.py` has the clients
                                # on exit, stops the parties it started

One host is one trust domain: use this on laptops, for tests and demonstrations. Nothing is lost when
parties are stopped, killed (-9) or restarted from the same folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError, suggest
from veristream.kabis.client.known_members import Seat
from veristream.kabis.cluster import folder as folders
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.group import ProcessGroup
from veristream.kabis.cluster.liars import LYING_STORES, LYING_VALIDATORS
from veristream.kabis.cluster.processes import Running
from veristream.kabis.cluster.restarts import forget_history, hold, let_go
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.cometbft.founding import found, read_network, readdress
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.process.settings import Settings
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import MemberRole, StorageMode

START_PATIENCE_S = 60.0
SUPERVISOR = "supervisor"
"""The folder of the process that restarts parties of a cluster in the background."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How to start parties: `faults` by party name; `flush` is the flush policy of the logs.

    An attended party ends with the process that started it.
    """

    attended: bool = True
    faults: Mapping[str, str] | None = None
    flush: str = "always"
    repair: bool = False

    def fault_of(self, name: str) -> str | None:
        return (self.faults or {}).get(name)


class Cluster(ProcessGroup):
    """The parties of a folder; on exit, the context manager stops those that this object started."""

    STOP_PATIENCE_S = 15.0

    def __init__(self, folder: ClusterFolder) -> None:
        super().__init__()
        self.folder = folder

    @property
    def genesis(self) -> Genesis:
        """The chain's genesis, with the addresses of all parties."""
        return self.folder.genesis()

    @property
    def settings(self) -> Settings:
        """The settings in the folder; raises ModelError if they are wrong."""
        settings = self.folder.settings()
        known = [seat.party.name for seat in self.seats()]
        for name in settings.parties:
            if name not in known:
                raise ModelError(
                    f"{self.folder.settings_path} has settings of {name!r}, which is no party here",
                    hint=suggest(name, known, f"the parties are {', '.join(known)}"),
                )
        return settings

    def create(
        self,
        parties: int | None = None,
        mode: StorageMode | None = None,
        port: int | None = None,
        *,
        closed: bool = False,
    ) -> Genesis:
        """Creates keys and genesis unless the folder has them; a given port moves all parties.

        By default there are four validators and 2F + 1 storage parties, and the ledger is open.
        """
        if not self.folder.exists():
            made = (self.folder, parties or 4, mode or StorageMode.TOLERANT, port or 0)
            return folders.create(*made, closed=closed)
        genesis = self.genesis
        if closed and not genesis.closed:
            raise ModelError(
                f"the ledger in {self.folder.path} was founded open",
                hint="veristream kabis access close closes it",
            )
        if is_cometbft(genesis):
            found(genesis)
        validators = self.folder.members().latest.validators
        if parties not in (None, len(validators)) or mode not in (None, genesis.storage_mode):
            raise ModelError(
                f"the cluster in {self.folder.path} has {len(validators)} validators and"
                f" {genesis.storage_mode.value} storage parties",
                hint="choose another folder with --data; `veristream kabis member --help` says how the"
                " members of a chain change",
            )
        if port is None:
            return genesis
        if self.find():
            raise ModelError(
                f"parties of {self.folder.path} are running and cannot change ports",
                hint=f"veristream kabis down --data {self.folder.path}",
            )
        return folders.place(self.folder, genesis, port)

    def create_over(
        self,
        nodes: Sequence[str],
        mode: StorageMode | None = None,
        port: int | None = None,
        *,
        closed: bool = False,
    ) -> Genesis:
        """Creates keys and genesis with existing CometBFT nodes as validators, or updates their addresses.

        The first call submits the genesis to the nodes; later calls require that they have it.
        """
        network = read_network(nodes)
        if self.folder.exists():
            folders.write_genesis(self.folder, readdress(self.genesis, network))
            return self.create(None, mode, port, closed=closed)
        made = (self.folder, network, mode or StorageMode.TOLERANT, port or 0)
        genesis = folders.create(*made, closed=closed)
        try:
            found(genesis)
        except ModelError:  # the chain has another genesis, so this one is useless
            self.folder.genesis_path.unlink()
            raise
        return genesis

    def use_kafka(self, clusters: Sequence[KafkaSettings]) -> None:
        """Sets the Kafka cluster of each storage party; raises ModelError if parties are running."""
        if self.find():
            raise ModelError(
                f"parties of {self.folder.path} are running, so their logs cannot move",
                hint=f"veristream kabis down --data {self.folder.path}",
            )
        folders.use_kafka(self.folder, self.genesis, clusters)

    # Processes

    def seats(self) -> tuple[Seat, ...]:
        """Returns all parties that run as our processes, or did, in the order in which they became members.

        A party that joined later is ours if its key is here. The folder may be behind the ledger.
        """
        ours = self.folder.members().seats()
        if is_cometbft(self.genesis):
            ours = tuple(seat for seat in ours if seat.role is MemberRole.STORAGE)
        return tuple(seat for seat in ours if not seat.begin or self.has_key(seat.party.name))

    def has_key(self, name: str) -> bool:
        """Whether a party's key is in the folder."""
        return (self.folder.party(name) / folders.KEY).is_file()

    def seat(self, name: str) -> Seat:
        """Returns the seat of a party of ours."""
        return next(seat for seat in self.seats() if seat.party.name == name)

    def names(self) -> list[str]:
        """Returns the parties that should run as our processes: members in force, and those who join."""
        height = self.folder.members().height + 1
        return [seat.party.name for seat in self.seats() if not seat.is_former(height)]

    def former(self) -> list[str]:
        """Returns the parties of ours that have left."""
        names = self.names()
        return [seat.party.name for seat in self.seats() if seat.party.name not in names]

    def find(self) -> dict[str, Running]:
        """Returns the parties that are running, former ones too, no matter who started them."""
        found = {name: self.find_one(name) for name in (*self.names(), *self.former())}
        return {name: running for name, running in found.items() if running is not None}

    def folder_of(self, name: str) -> Path:
        """Returns a party's folder."""
        return self.folder.party(name)

    def start(self, how: StartOptions = StartOptions(), names: Iterable[str] | None = None) -> None:
        """Starts parties, by default all, and waits until they answer; if one fails, stops all of them."""
        chosen = self.names() if names is None else list(names)
        check_faults(self.seats(), how.faults or {})
        _ = self.settings  # a mistake in them is told before anything starts
        up = [name for name, _ in self.find().items() if name in chosen]
        if up:
            raise ModelError(
                f"already running in {self.folder.path}: {', '.join(up)}",
                hint=f"veristream kabis down --data {self.folder.path} stops them",
            )
        for name in chosen:
            forget_history(self.folder.party(name))
        try:
            self.launch(how, chosen)
            self._wait_for(chosen)
        except BaseException:
            self.stop(chosen)
            raise

    def launch(self, how: StartOptions, names: Iterable[str]) -> None:
        """Starts parties without waiting for them to answer."""
        for name in names:
            folder = self.folder.party(name)
            (folder / "ready").unlink(missing_ok=True)
            command = self.command(name, how)
            self.running[name] = processes.start(name, command, folder, attended=how.attended)
            let_go(folder)  # only now, so that a supervisor never finds it neither held nor running

    def find_supervisor(self) -> Running | None:
        """Returns the process that restarts the parties in the background; None if there is none."""
        return processes.find(self.folder.party(SUPERVISOR))

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops parties on purpose, by default all and the supervisor; returns those it stopped."""
        chosen = [*self.names(), *self.former()] if names is None else list(names)
        supervisor = self.find_supervisor() if names is None else None
        if supervisor is not None:
            processes.stop([supervisor], self.STOP_PATIENCE_S)
        for name in chosen:
            hold(self.folder.party(name))
        return super().stop(chosen)

    def kill(self, name: str) -> None:
        """Kills a party on purpose, so that no supervisor restarts it."""
        hold(self.folder.party(name))
        super().kill(name)

    def command(self, name: str, how: StartOptions) -> list[str]:
        """Returns the command that runs a party."""
        folder, seat = self.folder.party(name).resolve(), self.seat(name)
        is_validator = seat.role is MemberRole.VALIDATOR
        fault, listen = how.fault_of(name), self.settings.party(name).listen
        own = ["--name", name] if is_validator else ["--party", name, "--key", str(folder / "key")]
        if listen or seat.begin or not is_validator:  # the genesis has the others
            own += ["--listen", listen or seat.party.address]
        if not is_validator:
            own += [
                "--clients",
                str(self.folder.clients_path.resolve()),
                "--follow",
            ]
            own += ["--repair"] if how.repair else []
            kafka = self.folder.kafka(name)
            if kafka is not None:
                properties = str(self.folder.kafka_path(name).resolve())
                own += ["--log", f"kafka={kafka.bootstrap}", "--kafka-properties", properties]
        return [
            *(
                sys.executable,
                "-m",
                "veristream.kabis.cluster.party",
                "validator" if is_validator else "storage",
            ),
            *(["--attended"] if how.attended else []),
            *(["--fault", fault] if fault else []),
            *("--settings", str(self.folder.settings_path.resolve()), "--log-folder", str(folder)),
            *("--genesis", str(self.folder.genesis_path.resolve()), "--flush", how.flush),
            *("--folder", str(folder if is_validator else folder / "log")),
            *("--ready", str(folder / "ready")),
            *("--metrics-port", str(self.settings.metrics_port(name, self._number(name)))),
            *own,
        ]

    def _number(self, name: str) -> int:
        """Returns a number that a party keeps when members come and go."""
        return [seat.party.name for seat in self.seats()].index(name)

    def _wait_for(self, names: Iterable[str]) -> None:
        deadline_s = time.monotonic() + START_PATIENCE_S
        waiting = list(names)
        while waiting:
            waiting = [name for name in waiting if not self._is_ready(name)]
            if waiting and time.monotonic() > deadline_s:
                raise EnvironmentFailure(
                    f"{', '.join(waiting)} did not answer within {START_PATIENCE_S:.0f} s",
                    f"look at {self.folder.party(waiting[0]) / 'log.txt'}",
                )
            time.sleep(processes.POLL_S if waiting else 0.0)

    def _is_ready(self, name: str) -> bool:
        running, folder = self.running[name], self.folder.party(name)
        if not running.is_alive():
            self._tell_failure(name)
        return processes.read_ready(folder) == running.pid

    def _tell_failure(self, name: str) -> None:
        """Raises the last error that a party printed, as ModelError or EnvironmentFailure."""
        message, hint = processes.last_words(self.folder.party(name))
        if message.startswith("cannot listen"):
            message = f"{message.partition(': ')[0]}: {message.rpartition(': ')[2]}"  # the address once
            hint = "stop the program that listens there, or move the parties with --port 0"
        text = f"{name} did not start: {message or 'no message'}"
        if self.running[name].exit_code == 2:
            raise ModelError(text, hint=hint)
        raise EnvironmentFailure(text, hint or f"look at {self.folder.party(name) / 'log.txt'}")

    def restart(self, name: str, how: StartOptions = StartOptions()) -> None:
        """Restarts a party, optionally with a fault."""
        self.stop([name])
        self.start(how, [name])

    def ended(self) -> dict[str, str]:
        """Returns the parties started by this object that ended by themselves, with their last messages."""
        gone = [name for name, running in self.running.items() if not running.is_alive()]
        return {name: processes.last_words(self.folder.party(name))[0] for name in gone}


def check_faults(seats: Iterable[Seat], faults: Mapping[str, str]) -> None:
    """Raises ModelError if a party does not exist or cannot have the fault."""
    kinds: dict[MemberRole, list[str]] = {
        MemberRole.VALIDATOR: [*LYING_VALIDATORS],
        MemberRole.STORAGE: [*LYING_STORES],
    }
    can = {seat.party.name: kinds[seat.role] for seat in seats}
    for name, fault in faults.items():
        if name not in can:
            raise ModelError(f"there is no party {name!r}", hint=f"choose one of {', '.join(can)}")
        if fault not in can[name]:
            raise ModelError(f"{name} has no fault {fault!r}", hint=f"choose one of {', '.join(can[name])}")
