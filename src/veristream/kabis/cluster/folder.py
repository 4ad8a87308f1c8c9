"""The folder of a cluster on one machine: its genesis, everybody's keys, and a folder for each party.

    DIR/genesis.json             what all parties and clients share, and all that a third party needs
    DIR/clients.json             clients that were registered after the genesis
    DIR/keys/NAME                the secret keys of the admin and the clients
    DIR/keys-1/NAME, ...         those that replaced them, by the number that the ledger gives them
    DIR/journals/NAME            what a producer signed and does not yet know to be admitted
    DIR/validator-1, ...         one for each process: its key, its logs, what it said, which process it is
    DIR/storage-1, ...

All keys in one folder is what makes it a laptop's cluster: whoever can read the folder is everybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.cometbft.founding import Network
from veristream.kabis.kafka.settings import KafkaSettings, load_settings
from veristream.kabis.log.disk.files import flush_folder, replace
from veristream.kabis.protocol.genesis import Genesis, Party, StorageMode, is_name, load_genesis, to_json
from veristream.kabis.protocol.keys import SEED_BYTES, SecretKey, load_key, make_key, save_key
from veristream.kabis.storage.late_clients import note_client
from veristream.kabis.wire.ports import HOST, draw_ports

ADMIN = "admin"
CLIENTS = ("producer", "consumer")
PARTIES_MAX = 31


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Where everything of a cluster is."""

    path: Path

    @property
    def genesis_path(self) -> Path:
        """The file that all share."""
        return self.path / "genesis.json"

    @property
    def clients_path(self) -> Path:
        """The file that names clients who came later, for the storage parties."""
        return self.path / "clients.json"

    def exists(self) -> bool:
        """Whether a cluster was ever made here."""
        return self.genesis_path.is_file()

    def has_parties(self) -> bool:
        """Whether the folder contains a party's key or data, and not only what a client needs."""
        genesis = self.genesis()
        parties = [self.party(each.name) for each in (*genesis.validators, *genesis.storage)]
        return any((party / name).exists() for party in parties for name in ("key", "blocks", "log"))

    def genesis(self) -> Genesis:
        """The genesis; says how to make one if there is none."""
        if not self.exists():
            raise ModelError(
                f"there is no cluster in {self.path}",
                hint=f"veristream kabis up --data {self.path} makes one and starts it",
            )
        return load_genesis(self.genesis_path)

    def party(self, name: str) -> Path:
        """The folder of one validator or storage party."""
        return self.path / name

    def kafka_path(self, party: str) -> Path:
        """Where a storage party's Kafka is, as librdkafka's properties, if its log is in one."""
        return self.party(party) / "kafka.properties"

    def kafka(self, party: str) -> KafkaSettings | None:
        """The Kafka of a storage party; None if it keeps its log on its own disk."""
        path = self.kafka_path(party)
        return load_settings(path) if path.is_file() else None

    def key_path(self, client: str, key_epoch: int = 0) -> Path:
        """A secret key of the admin or of a client: the first, or one that replaced another."""
        return self.path / (f"keys-{key_epoch}" if key_epoch else "keys") / client

    def key_epoch(self, client: str) -> int:
        """Which of a client's keys is the latest: each that replaced another has the next number."""
        key_epoch = 0
        while self.key_path(client, key_epoch + 1).is_file():
            key_epoch += 1
        return key_epoch

    def key(self, client: str) -> SecretKey:
        """The latest secret key of the admin or of a client, by name."""
        path = self.key_path(client, self.key_epoch(client)) if is_name(client) else self.path
        if not is_name(client) or not path.is_file():
            raise ModelError(
                f"{self.path} has no key of {client!r}",
                hint=f"it has {', '.join(self.clients())}; veristream kabis client add NAME makes one more",
            )
        return load_key(path)

    def clients(self) -> list[str]:
        """Everybody whose key is here."""
        folder = self.path / "keys"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def add_client(self, name: str) -> SecretKey:
        """A key for one more client, whom the storage parties will let in from now on."""
        if not is_name(name):
            raise ModelError(f"{name!r} is no name", hint="letters, digits, '.', '_' and '-'")
        key = _find_key(self.key_path(name))
        note_client(self.clients_path, Party(name, key.public))
        return key

    def draw_key(self, name: str) -> SecretKey:
        """The key that is to replace a client's latest one; the same until it has (`adopt_key`)."""
        _make_folder(self._drawn(name).parent)
        return _find_key(self._drawn(name))

    def adopt_key(self, name: str, key_epoch: int) -> None:
        """Has the drawn key be the client's: the ledger has it under this number."""
        key = load_key(self._drawn(name))
        path = self.key_path(name, key_epoch)
        _make_folder(path.parent)
        os.replace(self._drawn(name), path)
        flush_folder(path.parent)
        note_client(self.clients_path, Party(name, key.public))

    def _drawn(self, name: str) -> Path:
        return self.path / "keys-next" / name


def count_faults(parties: int) -> int:
    """F, for so many parties; raises ModelError unless they are 3F + 1."""
    faults, rest = divmod(parties - 1, 3)
    if rest or not 1 <= parties <= PARTIES_MAX:
        raise ModelError(
            f"{parties} parties stand no whole number of faulty ones: 3F + 1 are needed",
            hint="4 parties stand one faulty party, 7 stand two, 10 stand three",
        )
    return faults


def create(folder: ClusterFolder, parties: int | Network, mode: StorageMode, port: int = 0) -> Genesis:
    """Makes keys and genesis; parties listen from `port` on, or with 0 wherever it is free now.

    The parties are so many of our own, or the validators of an existing network with its chain id.
    """
    network = parties if isinstance(parties, Network) else None
    count = parties if isinstance(parties, int) else len(parties.validators)
    faults = count_faults(count)
    stores = faults + 1 if mode is StorageMode.PAPER else 2 * faults + 1
    _make_folder(folder.path)
    validators = (
        network.validators
        if network
        else tuple(_make_party(folder, f"validator-{number + 1}") for number in range(count))
    )
    storage = tuple(_make_party(folder, f"storage-{number + 1}") for number in range(stores))
    _make_folder(folder.path / "keys")
    keys = {name: _find_key(folder.key_path(name)) for name in (ADMIN, *CLIENTS)}
    genesis = Genesis(
        chain_id=network.chain_id if network else f"kabis-{os.urandom(4).hex()}",
        time_ms=time.time_ns() // 1_000_000,
        faults=faults,
        storage_mode=mode,
        validators=validators,
        storage=storage,
        admins=(Party(ADMIN, keys[ADMIN].public),),
        clients=tuple(Party(name, keys[name].public) for name in CLIENTS),
    )
    replace(folder.clients_path, b"[]\n")
    return place(folder, genesis, port)


def place(folder: ClusterFolder, genesis: Genesis, port: int) -> Genesis:
    """Gives every party an address, from `port` on or wherever it is free, and writes the genesis."""
    ours = () if is_cometbft(genesis) else genesis.validators
    count = len(ours) + len(genesis.storage)
    if port and not 1024 <= port <= 65_536 - count:
        raise ModelError(
            f"--port {port}: {count} parties do not fit between 1024 and 65535 from there on",
            hint="0 chooses ports that are free",
        )
    ports = range(port, port + count) if port else draw_ports(count)
    addresses = [f"{HOST}:{each}" for each in ports]
    genesis = changed(
        genesis,
        validators=_placed(ours, addresses) or genesis.validators,
        storage=_placed(genesis.storage, addresses[len(ours) :]),
    )
    return write_genesis(folder, genesis)


def write_genesis(folder: ClusterFolder, genesis: Genesis) -> Genesis:
    """Puts a genesis with its parties' addresses where everybody finds it."""
    replace(folder.genesis_path, to_json(genesis).encode("utf-8"))
    return genesis


def use_kafka(folder: ClusterFolder, genesis: Genesis, clusters: Sequence[KafkaSettings]) -> None:
    """Notes for each storage party, in their order, which Kafka has its log; for the owner's eyes only."""
    names = [party.name for party in genesis.storage]
    if len(clusters) != len(names):
        raise ModelError(
            f"{len(clusters)} Kafka clusters are named, and there are {len(names)} storage parties",
            hint="each storage party has a cluster of its own, or it could not fail alone",
        )
    on_disk = [name for name in names if any((folder.party(name) / "log").glob("*.segment"))]
    if on_disk:
        raise ModelError(
            f"{on_disk[0]} of {folder.path} keeps its log on disk",
            hint="that stays so for the life of a chain; choose another folder with --data",
        )
    for name, settings in zip(names, clusters, strict=True):
        replace(folder.kafka_path(name), settings.encode().encode("utf-8"))


def _placed(parties: Sequence[Party], addresses: Sequence[str]) -> tuple[Party, ...]:
    return tuple(changed(party, address=each) for party, each in zip(parties, addresses, strict=False))


def _make_party(folder: ClusterFolder, name: str) -> Party:
    _make_folder(folder.party(name))
    return Party(name, _find_key(folder.party(name) / "key").public)


def _find_key(path: Path) -> SecretKey:
    """The key in a file, made if it is not there: a cluster half made is made whole by another try."""
    if not path.exists():
        save_key(path, make_key(os.urandom(SEED_BYTES)))
    return load_key(path)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot make the folder {path}: {error.strerror}", "choose another with --data"
        ) from error
