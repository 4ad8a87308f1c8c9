"""The genesis: what all parties of a chain agree on before it starts, a JSON file that they share.

It names the chain, the number of faulty parties that it tolerates (F), the validators, the storage parties,
the admins who set topics and register keys, and clients with keys registered from the start. Its digest is
the `previous` of the first block, so every certificate covers the genesis too. The digest does not cover
addresses: a party may move. Its validators and storage parties are the founding members, which ordered
actions replace (`members`). Admins are fixed for the life of the chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.protocol.codec import Coded, DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U16, U64, Name, at_most, by
from veristream.kabis.protocol.members import (
    ADDRESS_BYTES_MAX,
    Members,
    Party,
    StorageMode,
    find_double,
    is_name,
    read_mode,
    write_mode,
)
from veristream.kabis.protocol.receipts import PARTIES_MAX

VERSION_MAX = 2
"""The latest protocol version that this program knows; new chains begin with it."""
CLIENTS_MAX = 10_000
GENESIS_BYTES_MAX = 4 << 20


def _write_version(writer: Writer, version: int) -> None:
    if version != 1:
        writer.u16(version)


def _read_version(reader: Reader) -> int:
    """Takes the version, which ends the encoding; the encodings of version 1 lack it."""
    if not reader.remaining:
        return 1
    version = reader.u16()
    if version == 1:
        raise DecodeError("version 1 is not written")
    return version


def _write_closed(writer: Writer, closed: bool) -> None:
    if closed:
        writer.flag(True)


def _read_closed(reader: Reader) -> bool:
    """Takes the flag, which ends the encoding; the encodings of open ledgers lack it."""
    if not reader.remaining:
        return False
    if not reader.flag():
        raise DecodeError("that a ledger is open is not written")
    return True


@dataclass(frozen=True, slots=True)
class Genesis(Coded, kind="genesis", bytes_max=GENESIS_BYTES_MAX):
    """A chain before its first block; votes refer to validators by their position."""

    chain_id: Name
    time_ms: U64
    faults: U16
    storage_mode: Annotated[StorageMode, by(write_mode, read_mode)]
    validators: Annotated[tuple[Party, ...], at_most(PARTIES_MAX)]
    storage: Annotated[tuple[Party, ...], at_most(PARTIES_MAX)]
    admins: Annotated[tuple[Party, ...], at_most(PARTIES_MAX)]
    clients: Annotated[tuple[Party, ...], at_most(CLIENTS_MAX)] = ()
    version: Annotated[int, by(_write_version, _read_version)] = 1
    """The protocol version at the first block; an ordered action may activate a later one."""
    closed: Annotated[bool, by(_write_closed, _read_closed)] = False
    """Whether clients need a rule for whatever they read and write, until an ordered action opens it."""

    def digest(self) -> bytes:
        """The digest that the first block refers to."""
        return sha256(self.encode()).digest()

    @property
    def members(self) -> Members:
        """The founding members."""
        return Members(self.faults, self.storage_mode, self.validators, self.storage)

    @property
    def validator_keys(self) -> tuple[bytes, ...]:
        """The founding validators' public keys, in their order."""
        return tuple(party.public for party in self.validators)

    @property
    def receipts_needed(self) -> int:
        """The number of storage receipts that a batch needs from the founding storage parties."""
        return self.faults + 1

    def check(self) -> None:
        """Raises DecodeError if the genesis breaks a rule."""
        problem = find_problem(self)
        if problem:
            raise DecodeError(problem)


def find_problem(genesis: Genesis) -> str:
    """Returns the rule that the genesis breaks, in words; empty if it breaks none."""
    if not 1 <= genesis.version <= VERSION_MAX:
        return f"protocol version {genesis.version}, but this program knows 1 to {VERSION_MAX}; upgrade it"
    if genesis.closed and genesis.version == 1:
        return "a closed ledger needs protocol version 2"
    if not is_name(genesis.chain_id):
        return (
            f"the chain id {genesis.chain_id!r} is not a valid name; use letters, digits, '.', '_' and '-'"
        )
    if not 0 <= genesis.faults < PARTIES_MAX or not 0 <= genesis.time_ms < 1 << 63:
        return "F or the time is out of range"
    problem = genesis.members.find_problem()
    if problem:
        return problem
    if not genesis.admins:
        return "there is no admin, so nobody could create a topic"
    return find_double("admins and clients", genesis.admins + genesis.clients)


def to_json(genesis: Genesis) -> str:
    """Returns the genesis as the text of its file."""

    def parties(group: Iterable[Party]) -> list[dict[str, str]]:
        return [
            {"name": party.name, "public": party.public.hex()}
            | ({"address": party.address} if party.address else {})
            for party in group
        ]

    fields = {
        "kabis": "genesis/1" if genesis.version == 1 else "genesis/2",
        "chain_id": genesis.chain_id,
        "time_ms": genesis.time_ms,
        "faults": genesis.faults,
        "storage_mode": genesis.storage_mode.value,
        "validators": parties(genesis.validators),
        "storage": parties(genesis.storage),
        "admins": parties(genesis.admins),
        "clients": parties(genesis.clients),
    } | ({} if genesis.version == 1 else {"version": genesis.version})
    fields |= {"closed": True} if genesis.closed else {}
    return json.dumps(fields, indent=2) + "\n"


def from_json(text: str, name: str = "the genesis") -> Genesis:
    """Returns the genesis in the text of a file; errors call the file `name`."""
    try:
        genesis = _read_fields(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelError(
            f"{name} is not a genesis file: {reason}", hint="write one with `veristream kabis up`"
        ) from error
    problem = find_problem(genesis)
    if problem:
        raise ModelError(f"{name}: {problem}", hint="all parties need the same, complete file")
    return genesis


def load_genesis(path: Path) -> Genesis:
    """Returns the genesis in a file."""
    try:
        with path.open("rb") as file:
            data = file.read(GENESIS_BYTES_MAX + 1)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read the genesis {path}: {error.strerror}") from error
    if len(data) > GENESIS_BYTES_MAX:
        raise ModelError(f"{path} is not a genesis file: it has more than {GENESIS_BYTES_MAX} bytes")
    return from_json(data.decode("utf-8", errors="replace"), str(path))


def _read_fields(fields: Any) -> Genesis:
    if not isinstance(fields, dict) or fields.get("kabis") not in ("genesis/1", "genesis/2"):
        raise ValueError('it does not say "kabis": "genesis/1" or "genesis/2"')
    if (fields["kabis"] == "genesis/1") != ("version" not in fields):
        raise ValueError("genesis/2 needs a version, and genesis/1 has none")
    fields = {"version": 1, "closed": False, **fields}
    if type(fields["closed"]) is not bool:
        raise ValueError("closed is neither true nor false")
    for field in ("time_ms", "faults", "version"):
        if type(fields[field]) is not int:
            raise ValueError(f"{field} is not an integer")
    if not isinstance(fields["chain_id"], str):
        raise ValueError("chain_id is not a string")
    return Genesis(
        chain_id=fields["chain_id"],
        time_ms=fields["time_ms"],
        faults=fields["faults"],
        storage_mode=StorageMode(fields["storage_mode"]),
        validators=_read_parties(fields["validators"]),
        storage=_read_parties(fields["storage"]),
        admins=_read_parties(fields["admins"]),
        clients=_read_parties(fields.get("clients", [])),
        version=fields["version"],
        closed=fields["closed"],
    )


def _read_parties(listed: Any) -> tuple[Party, ...]:
    if not isinstance(listed, list) or len(listed) > CLIENTS_MAX:
        raise ValueError(f"parties must be a list of at most {CLIENTS_MAX}")
    return tuple(_read_party(item) for item in listed)


def _read_party(item: Any) -> Party:
    if not isinstance(item, dict):
        raise ValueError("a party must have a name and a public key")
    name, public, address = item["name"], item["public"], item.get("address", "")
    if not isinstance(name, str) or not isinstance(public, str) or not isinstance(address, str):
        raise ValueError("a party's name, key and address must be strings")
    if len(address) > ADDRESS_BYTES_MAX:
        raise ValueError(f"the address of {name} is longer than {ADDRESS_BYTES_MAX}")
    return Party(name, bytes.fromhex(public), address)
