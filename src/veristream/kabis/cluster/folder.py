"""The folder of a cluster on one machine: its genesis, all keys, and a folder for each party.

    DIR/genesis.json             public keys and settings; all that a third party needs
    DIR/kabis.toml               settings of all parties; optional
    DIR/members.json             who the members are since they changed; written by who reads the ledger
    DIR/clients.json             clients registered after the genesis
    DIR/keys/NAME                secret keys of the admin and the clients
    DIR/keys-1/NAME, ...         keys that replaced them, by their number on the ledger
    DIR/tls/ca.pem, ca.key       who certifies the parties for TLS, made by `kabis up --tls`; optional
    DIR/journals/NAME            events that a producer signed but does not know to be admitted
    DIR/validator-1, ...         one for each process: its key, logs, output and process id
    DIR/storage-1, ...

Anyone who can read the folder has all keys, so such a cluster is only for laptops and tests. A client's own
folder has only the genesis, the client's key and, if the members changed, `members.json`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client import known_members
from veristream.kabis.client.known_members import KnownMembers, load_members
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.cometbft.founding import Network
from veristream.kabis.kafka.settings import KafkaSettings, load_settings
from veristream.kabis.log.disk.files import flush_folder, replace
from veristream.kabis.process.settings import FILE as SETTINGS
from veristream.kabis.process.settings import Settings
from veristream.kabis.process.settings import load_settings as load_process_settings
from veristream.kabis.process.tls import read_tls
from veristream.kabis.protocol.genesis import VERSION_MAX, Genesis, load_genesis, to_json
from veristream.kabis.protocol.keys import SEED_BYTES, SecretKey, load_key, make_key, save_key
from veristream.kabis.protocol.members import Party, StorageMode, is_name
from veristream.kabis.storage.late_clients import note_client
from veristream.kabis.wire.ports import HOST, draw_ports
from veristream.kabis.wire.tls import Tls

ADMIN = "admin"
CLIENTS = ("producer", "consumer")
PARTIES_MAX = 31
KEY, NEXT_KEY = "key", "key.next"
"""Files of a party's secret key: the one in use, and the one that replaces it at a height."""


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Paths and keys of a cluster's or a client's folder."""

    path: Path

    @property
    def genesis_path(self) -> Path:
        return self.path / "genesis.json"

    @property
    def members_path(self) -> Path:
        """The file of what is known of the members; missing until a change is ordered."""
        return self.path / known_members.FILE

    @property
    def clients_path(self) -> Path:
        """The file of clients registered after the genesis, read by storage parties."""
        return self.path / "clients.json"

    @property
    def settings_path(self) -> Path:
        """The file of settings, which an operator writes; it may be missing."""
        return self.path / SETTINGS

    def settings(self) -> Settings:
        """Loads the settings; raises ModelError if they are wrong."""
        return load_process_settings(self.settings_path)

    def tls(self) -> Tls | None:
        """Returns the TLS of the folder's clients; None if it is off."""
        return read_tls(self.settings(), self.path)

    def exists(self) -> bool:
        """Whether the folder has a genesis."""
        return self.genesis_path.is_file()

    def has_parties(self) -> bool:
        """Whether the folder contains a party's key or data, and not only what a client needs."""
        parties = [self.party(seat.party.name) for seat in self.members().seats()]
        return any((party / name).exists() for party in parties for name in ("key", "blocks", "log"))

    def genesis(self) -> Genesis:
        """Loads the genesis; raises ModelError if there is none."""
        if not self.exists():
            raise ModelError(
                f"there is no cluster in {self.path}",
                hint=f"veristream kabis up --data {self.path} creates and starts one",
            )
        return load_genesis(self.genesis_path)

    def members(self) -> KnownMembers:
        """Returns the members as the folder knows them; raises ModelError if their file is damaged."""
        return load_members(self.members_path, self.genesis())

    def party(self, name: str) -> Path:
        """Returns the folder of a validator or storage party."""
        return self.path / name

    def kafka_path(self, party: str) -> Path:
        """Returns the file with the librdkafka properties of a storage party's Kafka cluster."""
        return self.party(party) / "kafka.properties"

    def kafka(self, party: str) -> KafkaSettings | None:
        """Returns the Kafka cluster of a storage party; None if its log is on disk."""
        path = self.kafka_path(party)
        return load_settings(path) if path.is_file() else None

    def key_path(self, client: str, key_epoch: int = 0) -> Path:
        """Returns the file of a secret key of the admin or a client; epoch 0 is the first key."""
        return self.path / (f"keys-{key_epoch}" if key_epoch else "keys") / client

    def key_epoch(self, client: str) -> int:
        """Returns the epoch of a client's latest key in the folder."""
        key_epoch = 0
        while self.key_path(client, key_epoch + 1).is_file():
            key_epoch += 1
        return key_epoch

    def key(self, client: str) -> SecretKey:
        """Loads the latest secret key of the admin or a client; raises ModelError if there is none."""
        path = self.key_path(client, self.key_epoch(client)) if is_name(client) else self.path
        if not is_name(client) or not path.is_file():
            raise ModelError(
                f"{self.path} has no key for {client!r}",
                hint=f"it has {', '.join(self.clients())}; veristream kabis client add NAME adds one",
            )
        return load_key(path)

    def clients(self) -> list[str]:
        """Returns the names of all keys in the folder."""
        folder = self.path / "keys"
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(path.name for path in found if is_name(path.name))  # others are half written

    def add_client(self, name: str) -> SecretKey:
        """Creates a key for a new client, which the storage parties admit from now on."""
        if not is_name(name):
            raise ModelError(f"{name!r} is not a valid name", hint="use letters, digits, '.', '_' and '-'")
        key = _find_key(self.key_path(name))
        note_client(self.clients_path, Party(name, key.public))
        return key

    def draw_key(self, name: str) -> SecretKey:
        """Returns the key that will replace a client's latest one; the same one until `adopt_key`."""
        _make_folder(self._drawn(name).parent)
        return _find_key(self._drawn(name))

    def adopt_key(self, name: str, key_epoch: int) -> None:
        """Makes the drawn key the client's key of this epoch, as registered on the ledger."""
        key = load_key(self._drawn(name))
        path = self.key_path(name, key_epoch)
        _make_folder(path.parent)
        os.replace(self._drawn(name), path)
        flush_folder(path.parent)
        note_client(self.clients_path, Party(name, key.public))

    def _drawn(self, name: str) -> Path:
        return self.path / "keys-next" / name


def count_faults(parties: int) -> int:
    """Returns F; raises ModelError unless `parties` is 3F + 1."""
    faults, rest = divmod(parties - 1, 3)
    if rest or not 1 <= parties <= PARTIES_MAX:
        raise ModelError(
            f"the number of validators must be 3F + 1, not {parties}",
            hint="4 validators tolerate one faulty one, 7 tolerate two, 10 tolerate three",
        )
    return faults


def create(
    folder: ClusterFolder, parties: int | Network, mode: StorageMode, port: int = 0, *, closed: bool = False
) -> Genesis:
    """Creates keys and genesis; parties listen on `port` and the following ones, or with 0 on free ports.

    `parties` is the number of our own validators, or an existing network with its validators and chain id.
    """
    network = parties if isinstance(parties, Network) else None
    count = parties if isinstance(parties, int) else len(parties.validators)
    faults = count_faults(count)
    stores = faults + 1 if mode is StorageMode.PAPER else 2 * faults + 1
    _make_folder(folder.path)
    validators = (
        network.validators
        if network
        else tuple(_found_party(folder, f"validator-{number + 1}") for number in range(count))
    )
    storage = tuple(_found_party(folder, f"storage-{number + 1}") for number in range(stores))
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
        version=VERSION_MAX,
        closed=closed,
    )
    replace(folder.clients_path, b"[]\n")
    return place(folder, genesis, port)


def place(folder: ClusterFolder, genesis: Genesis, port: int) -> Genesis:
    """Assigns an address to every party, from `port` on or on free ports, and writes the genesis.

    Raises ModelError once a change of the members is ordered: then the ledger has their addresses.
    """
    if folder.members_path.exists():
        raise ModelError(
            "the members have changed, so their addresses are on the ledger and --port cannot move them",
            hint="a party listens elsewhere with `listen` under [parties.NAME] in kabis.toml, behind the"
            " same address",
        )
    ours = () if is_cometbft(genesis) else genesis.validators
    count = len(ours) + len(genesis.storage)
    if port and not 1024 <= port <= 65_536 - count:
        raise ModelError(
            f"--port {port}: {count} parties need ports between 1024 and 65535",
            hint="0 chooses free ports",
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
    """Writes the genesis and creates the parties' folders."""
    replace(folder.genesis_path, to_json(genesis).encode("utf-8"))
    return genesis


def use_kafka(folder: ClusterFolder, genesis: Genesis, clusters: Sequence[KafkaSettings]) -> None:
    """Writes the Kafka properties of each storage party, in order, readable only by the owner."""
    names = [party.name for party in genesis.storage]
    if len(clusters) != len(names):
        raise ModelError(
            f"{len(clusters)} Kafka clusters are named, and there are {len(names)} storage parties",
            hint="each storage party needs its own cluster, so that it can fail independently",
        )
    on_disk = [name for name in names if any((folder.party(name) / "log").glob("*.segment"))]
    if on_disk:
        raise ModelError(
            f"{on_disk[0]} of {folder.path} keeps its log on disk",
            hint="this is fixed for the life of a chain; choose another folder with --data",
        )
    for name, settings in zip(names, clusters, strict=True):
        replace(folder.kafka_path(name), settings.encode().encode("utf-8"))


def _found_party(folder: ClusterFolder, name: str) -> Party:
    return Party(name, make_party_key(folder.party(name)).public)


def _placed(parties: Sequence[Party], addresses: Sequence[str]) -> tuple[Party, ...]:
    return tuple(changed(party, address=each) for party, each in zip(parties, addresses, strict=False))


def make_party_key(path: Path, *, is_next: bool = False) -> SecretKey:
    """Makes a party's folder and key, or the key that will replace it; or returns the one that is there."""
    _make_folder(path)
    return _find_key(path / (NEXT_KEY if is_next else KEY))


def adopt_key(path: Path, public: bytes) -> None:
    """Makes the next key of a party its key if it is this one."""
    following = path / NEXT_KEY
    with suppress(FileNotFoundError, EnvironmentFailure):  # the party itself was faster
        if following.is_file() and load_key(following).public == public:
            os.replace(following, path / KEY)
            flush_folder(path)


def _find_key(path: Path) -> SecretKey:
    """Loads a key, or creates it if missing, so that an interrupted creation can be completed."""
    if not path.exists():
        save_key(path, make_key(os.urandom(SEED_BYTES)))
    return load_key(path)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot create the folder {path}: {error.strerror}", "choose another with --data"
        ) from error
