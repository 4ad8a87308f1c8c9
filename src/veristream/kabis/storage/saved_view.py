"""A party's view of the chain in a file, so that a restart does not read the chain from its beginning.

The file only saves time: it is used if its checksum is right and it belongs to this chain, and the next
block must follow the one it ends with. Otherwise the view starts with the genesis.
"""

from __future__ import annotations

import json
import logging
from hashlib import sha256
from pathlib import Path
from struct import Struct

from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.codec import DIGEST_BYTES, DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.storage.chain import ChainView

_LOGGER = logging.getLogger(__name__)

_MAGIC = b"KABISVIEW4"
_LENGTH = Struct("<Q")


def save_view(path: Path, genesis: Genesis, view: ChainView) -> None:
    """Replaces the file; raises EnvironmentFailure if there is no room for it."""
    values, columns = view.dump()
    parts = [json.dumps(values).encode(), *columns]
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    body = b"".join((_MAGIC, genesis.digest(), _LENGTH.pack(len(parts)), lengths, *parts))
    replace(path, body + sha256(body).digest(), flushed=False)


def load_view(path: Path, genesis: Genesis) -> ChainView:
    """Returns the view in the file; that of the genesis if there is none that can be used."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ChainView(genesis)
    except OSError as error:
        return _begin(path, genesis, error.strerror or "it cannot be read")
    body, checksum = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    head = _MAGIC + genesis.digest()
    if not body.startswith(_MAGIC) or sha256(body).digest() != checksum:
        return _begin(path, genesis, "it is damaged, or of another version")
    if not body.startswith(head):
        return _begin(path, genesis, "it is of another chain")
    view = ChainView(genesis)
    try:
        values, *columns = _split(body[len(head) :])
        view.restore(json.loads(values), columns)
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        return _begin(path, genesis, str(error))
    return view


def _begin(path: Path, genesis: Genesis, why: str) -> ChainView:
    _LOGGER.warning("%s is not used (%s): the chain is read from its beginning", path, why)
    return ChainView(genesis)


def _split(data: bytes) -> list[bytes]:
    """Returns the parts of the file; raises ValueError if their lengths are not those of the data."""
    size = _LENGTH.size
    count = _LENGTH.unpack_from(data)[0] if len(data) >= size else 0
    if not 0 < count <= len(data) // size - 1:
        raise ValueError("the number of its parts is wrong")
    lengths = [_LENGTH.unpack_from(data, size * (each + 1))[0] for each in range(count)]
    parts, begin = [], size * (count + 1)
    for length in lengths:
        parts.append(data[begin : begin + length])
        begin += length
    if begin != len(data):
        raise ValueError("the lengths of its parts are wrong")
    return parts
