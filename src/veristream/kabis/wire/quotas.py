"""Quotas at a party's door: how much one identity, one address and all callers together may take."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

from veristream.errors import EnvironmentFailure, ModelError

FILES_WANTED = 1 << 16
"""The process never asks for more open files than this, even if the system allows it."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a party grants; an identity is a registered key, or all anonymous callers of one address.

    `connections_for_parties` places are kept for validators, storage parties and admins. `files_reserved`
    open files are kept for the party's own logs, and are never used for connections. Bytes that are
    *unsent* belong to answers which the peer has not read yet. A client that breaks the rules of the wire
    is refused for `ban_s`. A validator takes and returns fewer bytes than a storage party: every validator
    judges each transaction several times, and votes wait while it reads blocks for an answer.
    """

    connections_max: int = 4096
    connections_for_parties: int = 64
    connections_per_identity: int = 128
    half_open_max: int = 512
    half_open_per_address: int = 256
    handshakes_per_s: float = 500.0
    files_reserved: int = 256
    requests_per_identity: int = 1024
    request_bytes_per_identity: int = 64 << 20
    unsent_bytes_per_identity: int = 32 << 20
    bytes_per_s: float = float(256 << 20)
    transactions_per_s: float = 1000.0
    transaction_bytes_per_s: float = float(2 << 20)
    answer_bytes_per_s: float = float(1 << 30)
    block_bytes_per_s: float = float(8 << 20)
    requests_per_s: float = 2000.0
    ban_s: float = 5.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ModelError(f"the quota {name} must be positive", hint="leave it out for the default")

    def of_validator(self) -> Quotas:
        """Returns the quotas of a validator: clients send transactions to it, and read blocks."""
        return replace(
            self,
            requests_per_s=min(self.requests_per_s, self.transactions_per_s),
            bytes_per_s=min(self.bytes_per_s, self.transaction_bytes_per_s),
            answer_bytes_per_s=min(self.answer_bytes_per_s, self.block_bytes_per_s),
        )

    def places(self, files: int) -> int:
        """Returns how many connections fit the limit of open files. Raises EnvironmentFailure if none."""
        places = min(self.connections_max, files - self.files_reserved)
        if places <= 0:
            raise EnvironmentFailure(
                f"the system allows {files} open files, and {self.files_reserved} are reserved for logs",
                "raise the limit of open files (ulimit -n), or lower files_reserved",
            )
        return places


def raise_file_limit() -> int:
    """Raises the limit of open files as far as the system lets us; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS may allow less than its hard limit says
            return soft
        return wanted
    return file_limit()


def file_limit() -> int:
    """Returns how many files this process may open."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FILES_WANTED if soft == resource.RLIM_INFINITY else min(soft, FILES_WANTED)
