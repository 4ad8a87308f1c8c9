"""The folder of a cluster on one machine: its genesis, everybody's keys, and a folder for each party.

    DIR/genesis.json             what all parties and clients share, and all that a third party needs
    DIR/clients.json             clients that were registered after the genesis
    DIR/keys/NAME                the secret keys of the admin and the clients
    DIR/journals/NAME            what a producer signed and does not yet know to be admitted
    DIR/validator-1, ...         one for each process: its key, its logs, what it said, which process it is
    DIR/storage-1, ...

All keys in one folder is what makes it a laptop's cluster: whoever can read the folder is everybody.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.genesis import Genesis, Party, StorageMode, is_name, load_genesis, to_json
from veristream.kabis.keys import SEED_BYTES, SecretKey, load_key, make_key, save_key
from veristream.kabis.storage.disk import replace

ADMIN = "admin"
CLIENTS = ("producer", "consumer")
HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Where free ports are looked for: below those that systems give to outgoing connections."""
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

    def key_path(self, client: str) -> Path:
        """The secret key of the admin or of a client."""
        return self.path / "keys" / client

    def key(self, client: str) -> SecretKey:
        """The secret key of the admin or of a client, by name."""
        path = self.key_path(client)
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
        listed = json.loads(self.clients_path.read_text(encoding="utf-8"))
        entry = {"name": name, "public": key.public.hex()}
        if entry not in listed:
            replace(self.clients_path, json.dumps([*listed, entry], indent=2).encode() + b"\n")
        return key


def count_faults(parties: int) -> int:
    """F, for so many parties; raises ModelError unless they are 3F + 1."""
    faults, rest = divmod(parties - 1, 3)
    if rest or not 1 <= parties <= PARTIES_MAX:
        raise ModelError(
            f"{parties} parties stand no whole number of faulty ones: 3F + 1 are needed",
            hint="4 parties stand one faulty party, 7 stand two, 10 stand three",
        )
    return faults


def create(folder: ClusterFolder, parties: int, mode: StorageMode, port: int = 0) -> Genesis:
    """Makes keys and genesis; parties listen from `port` on, or with 0 wherever it is free now."""
    faults = count_faults(parties)
    stores = faults + 1 if mode is StorageMode.PAPER else 2 * faults + 1
    _make_folder(folder.path)
    validators = tuple(_make_party(folder, f"validator-{number + 1}") for number in range(parties))
    storage = tuple(_make_party(folder, f"storage-{number + 1}") for number in range(stores))
    _make_folder(folder.path / "keys")
    keys = {name: _find_key(folder.key_path(name)) for name in (ADMIN, *CLIENTS)}
    genesis = Genesis(
        chain_id=f"kabis-{os.urandom(4).hex()}",
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
    count = len(genesis.validators) + len(genesis.storage)
    if port and not 1024 <= port <= 65_536 - count:
        raise ModelError(
            f"--port {port}: {count} parties do not fit between 1024 and 65535 from there on",
            hint="0 chooses ports that are free",
        )
    ports = range(port, port + count) if port else draw_ports(count)
    addresses = [f"{HOST}:{each}" for each in ports]
    genesis = changed(
        genesis,
        validators=_placed(genesis.validators, addresses),
        storage=_placed(genesis.storage, addresses[len(genesis.validators) :]),
    )
    replace(folder.genesis_path, to_json(genesis).encode("utf-8"))
    return genesis


def draw_ports(count: int) -> list[int]:
    """Ports on loopback where nobody listens now."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(PORTS, len(PORTS)):
            each = stack.enter_context(socket.socket())
            try:
                each.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise EnvironmentFailure(
        f"no {count} ports are free on {HOST}", "end what listens there, or choose them with --port"
    )


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
