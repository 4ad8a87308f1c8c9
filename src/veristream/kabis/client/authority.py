"""Whether the ledger still accepts a client's key, and what the client may read and write."""

from __future__ import annotations

from collections.abc import Iterable

from veristream.kabis.client.errors import KeyEndedError, NoRightError
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Ending
from veristream.kabis.protocol.actions import to_read, to_write
from veristream.kabis.protocol.transactions import Author

_ENDED = {
    Ending.REVOKED: "revoked",
    Ending.REPLACED: "replaced by a newer one",
    Ending.FENCED: "fenced: two batches with one sequence number are signed with it",
}


def find_key_problem(ledger: Ledger, author: Author) -> KeyEndedError | None:
    """Returns why the ledger admits nothing that the author signs, or None if it does."""
    key = ledger.key(author.name, author.key_epoch)
    if key is None:
        return KeyEndedError(author.name, author.key_epoch, "not registered")
    if key.public != author.signer.public:
        return KeyEndedError(author.name, author.key_epoch, "not the one on the ledger")
    if key.ending is not None:
        return KeyEndedError(author.name, author.key_epoch, _ENDED[key.ending])
    return None


def require_writer(ledger: Ledger, author: Author, topic: str) -> None:
    """Raises NoRightError unless the author may write to a topic."""
    if not ledger.may(author.name, to_write(topic)):
        raise NoRightError(f"{author.name} needs {to_write(topic)}")


def require_reader(ledger: Ledger, author: Author, topics: Iterable[str]) -> None:
    """Raises NoRightError unless the author may read these topics."""
    for right in map(to_read, topics):
        if not ledger.may(author.name, right):
            raise NoRightError(f"{author.name} needs {right}")
