"""The rules for transactions: one function for each kind.

A rule checks everything first and changes the state last, so a refused transaction changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import assert_never

from veristream.kabis.ledger.access import change_access
from veristream.kabis.ledger.context import (
    Context,
    is_entitled,
    require_admin,
    require_member,
    require_reader,
    require_right,
    require_turn,
)
from veristream.kabis.ledger.group_rules import (
    commit_offsets,
    evict,
    join_group,
    leave_group,
    topic_changed,
)
from veristream.kabis.ledger.membership import find_storage_key, set_members
from veristream.kabis.ledger.retention import drop_oldest, retain, set_retention
from veristream.kabis.ledger.state import (
    Account,
    Accusation,
    Admission,
    Cursor,
    Ending,
    Key,
    Partition,
    Protocol,
    State,
    Topic,
)
from veristream.kabis.protocol import actions, transactions
from veristream.kabis.protocol.actions import to_write
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import VERSION_MAX
from veristream.kabis.protocol.keys import SignatureError, Verify, possession_bytes
from veristream.kabis.protocol.members import MemberRole, is_name
from veristream.kabis.protocol.outcomes import (
    Admitted,
    Already,
    Done,
    Outcome,
    Reason,
    RefusedError,
    require,
)
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt

PARTITIONS_MAX = 10_000
COVERING_STEPS_MAX = 1000
ROTATIONS_MAX = 1000
"""How often a client may replace its own key, from version 2 on: the ledger keeps all keys for ever."""
EMPTY_PARTITION = Partition(0, 0, 0, ZERO_DIGEST)
FRESH_CURSOR = Cursor(0, ZERO_DIGEST, 0)


def apply_transaction(context: Context, transaction: transactions.Transaction) -> Outcome:
    """Applies the transaction and returns its outcome; its changes to the state are pending."""
    try:
        match transaction:
            case transactions.Submit():
                return _count(context, transaction.signed.header.producer, _submit(context, transaction))
            case transactions.Signed():
                return _count(context, transaction.author, _signed(context, transaction))
            case transactions.Skip():
                return _skip(context, transaction)
            case transactions.Evict():
                entitled = is_entitled(context, transaction)
                return evict(context.state, context.time_ms, transaction, entitled=entitled)
            case transactions.BatchConflict():
                return _batch_conflict(context, transaction)
            case transactions.VoteConflict():
                return _vote_conflict(context, transaction)
            case _:
                assert_never(transaction)
    except RefusedError as refusal:
        return refusal.refused


def _count(context: Context, name: str, outcome: Outcome) -> Outcome:
    if isinstance(outcome, Admitted | Done):
        context.counts[name] += 1
    return outcome


def _submit(context: Context, transaction: transactions.Submit) -> Outcome:
    state, signed, header = context.state, transaction.signed, transaction.signed.header
    require(header.chain_id == context.genesis.chain_id, Reason.OTHER_CHAIN, header.chain_id)
    topic = state.topics.get(header.topic)
    require(topic is not None, Reason.UNKNOWN_TOPIC, header.topic)
    assert topic is not None
    stream = (header.producer, header.topic, header.partition)
    cursor = state.cursors.get(stream) or FRESH_CURSOR
    digest = signed.digest()
    if header.first_sequence < cursor.next_sequence and _find_admitted(state, signed) == digest:
        return Already()
    require(topic.validated, Reason.UNVALIDATED_TOPIC, header.topic)
    require(header.partition < topic.partitions, Reason.UNKNOWN_PARTITION, str(header.partition))
    public = require_key(context, header.producer, header.key_epoch).public
    _require_signed(signed, public, context.verify)
    require_right(context, header.producer, to_write(header.topic))
    if header.first_sequence < cursor.next_sequence:
        known = find_covering(state, signed)
        raise RefusedError(Reason.OLD if known is None else Reason.CONFLICT, str(header.first_sequence))
    require(header.first_sequence == cursor.next_sequence, Reason.EARLY, str(header.first_sequence))
    require(header.previous == cursor.last, Reason.WRONG_PREVIOUS)
    require_turn(context, header.producer)
    members = context.members
    for receipt in transaction.receipts:
        party = members.find(MemberRole.STORAGE, receipt.party)
        _require_statement(context, receipt, digest, None if party is None else party.public)
    require(len(transaction.receipts) >= members.receipts_needed, Reason.TOO_FEW_RECEIPTS)
    return _admit(context, transaction, cursor, digest)


def _admit(context: Context, transaction: transactions.Submit, cursor: Cursor, digest: bytes) -> Admitted:
    state, header = context.state, transaction.signed.header
    place = (header.topic, header.partition)
    partition = state.partitions.get(place) or EMPTY_PARTITION
    first_index = partition.next_index
    stream = (header.producer, *place)
    state.cursors.put(stream, Cursor(header.next_sequence, digest, header.first_sequence))
    state.partitions.put(
        place,
        replace(
            partition,
            next_index=first_index + header.count,
            chain=_extend(partition.chain, b"admitted", digest, first_index),
        ),
    )
    state.sequences.put((*stream, header.first_sequence), first_index)
    admission = Admission(
        first_index=first_index,
        signed=transaction.signed,
        digest=digest,
        parties=tuple(receipt.party for receipt in transaction.receipts),
        height=context.height,
        time_ms=context.time_ms,
        earlier_sequence=cursor.last_first_sequence if cursor.next_sequence else None,
    )
    state.admissions.put((*place, first_index), admission)
    state.kept.put(place, (state.kept.get(place) or 0) + 1)
    retain(state, place, context.time_ms)
    return Admitted(first_index, header.count)


def _signed(context: Context, transaction: transactions.Signed) -> Outcome:
    state, name = context.state, transaction.author
    account = state.accounts.get(name)
    require(account is not None, Reason.UNKNOWN_KEY, name)
    assert account is not None
    digest = sha256(transaction.encode()).digest()
    if transaction.number == account.number and digest == account.last:
        return Already()
    public = require_key(context, name, transaction.key_epoch).public
    try:
        transaction.verify(context.genesis.chain_id, public, context.verify)
    except SignatureError:
        raise RefusedError(Reason.BAD_SIGNATURE, name) from None
    require(transaction.number > account.number, Reason.REPLAYED, str(transaction.number))
    require_turn(context, name)
    outcome = _act(context, transaction)
    if isinstance(outcome, Done):
        # Read the account again: the action may have changed it too.
        account = state.accounts.get(name)
        assert account is not None
        state.accounts.put(name, replace(account, number=transaction.number, last=digest))
    return outcome


def _act(context: Context, transaction: transactions.Signed) -> Outcome:
    state, name = context.state, transaction.author
    match transaction.action:
        case actions.SetTopic() as action:
            require_admin(context, name, action.topic)
            return _set_topic(context, action)
        case actions.RegisterKey() as action:
            require_admin(context, name)
            return _register_key(context, action)
        case actions.RotateKey(public, possession):
            new_epoch = transaction.key_epoch + 1
            few = state.version < 2 or new_epoch <= ROTATIONS_MAX
            require(few, Reason.TOO_MANY, f"keys of {name}; an admin may register another")
            return _register_key(context, actions.RegisterKey(name, new_epoch, public, possession))
        case actions.RevokeKey() as action:
            if action.name != name:
                require_admin(context, name)
            return _revoke_key(context, action)
        case actions.JoinGroup() as action:
            require_reader(context, name, action.group, action.topics)
            return join_group(state, context.time_ms, name, action)
        case actions.LeaveGroup() as action:
            return leave_group(state, name, action)
        case actions.CommitOffsets() as action:
            require_member(context, (action.group, name, action.instance))
            return commit_offsets(state, context.time_ms, name, action)
        case actions.LowWater() as action:
            require_admin(context, name, action.topic)
            return _raise_low_water(state, action)
        case actions.Hole() as action:
            require_admin(context, name, action.topic)
            return _make_hole(state, action, _require_admission(state, action))
        case actions.Upgrade() as action:
            require_admin(context, name)
            return _upgrade(context, action)
        case actions.SetRetention() as action:
            require_admin(context, name, action.topic)
            return set_retention(state, action)
        case actions.Grant() | actions.Revoke() | actions.SetRole() | actions.SetClosed() as action:
            require_admin(context, name)
            require(state.version >= 2, Reason.OLD_VERSION, "access rules need version 2")
            return change_access(state, context.height, action)
        case actions.SetMembers() as action:
            require_admin(context, name)
            return set_members(context, action)
        case actions.SetQuota(quota):
            require_admin(context, name)
            require(state.version >= 2, Reason.OLD_VERSION, "quotas need version 2")
            if state.quota == quota:
                return Already()
            state.quotas.put((), quota)
            return Done()
        case _:
            assert_never(transaction.action)


def _upgrade(context: Context, action: actions.Upgrade) -> Outcome:
    known = f"version {action.version}; it knows 1 to {VERSION_MAX}"
    require(action.version <= VERSION_MAX, Reason.UNKNOWN_VERSION, known)
    version = context.state.version
    require(action.version > version, Reason.OUT_OF_RANGE, f"the chain has version {version}")
    require(action.height > context.height, Reason.OUT_OF_RANGE, f"height {action.height} has passed")
    planned = Protocol(version, action.version, action.height)
    if context.state.protocol.get(()) == planned:
        return Already()
    context.state.protocol.put((), planned)
    return Done()


def _set_topic(context: Context, action: actions.SetTopic) -> Outcome:
    state = context.state
    require(is_name(action.topic), Reason.BAD_NAME, action.topic)
    require(1 <= action.partitions <= PARTITIONS_MAX, Reason.OUT_OF_RANGE, str(action.partitions))
    before = state.topics.get(action.topic)
    after = Topic(action.partitions, action.validated)
    if before == after:
        return Already()
    require(
        before is None or after.partitions >= before.partitions, Reason.OUT_OF_RANGE, "fewer partitions"
    )
    state.topics.put(action.topic, after)
    if before is None or before.partitions != after.partitions:
        topic_changed(state, action.topic)
    return Done()


def _register_key(context: Context, action: actions.RegisterKey) -> Outcome:
    state, name = context.state, action.name
    require(is_name(name), Reason.BAD_NAME, name)
    account = state.accounts.get(name)
    key_epoch = 0 if account is None else account.key_epoch + 1
    require(action.key_epoch == key_epoch, Reason.WRONG_EPOCH, f"{action.key_epoch}, not {key_epoch}")
    require(state.publics.get(action.public) is None, Reason.KEY_IN_USE, name)
    message = possession_bytes(context.genesis.chain_id, name, key_epoch)
    try:
        context.verify(action.public, message, action.possession)
    except SignatureError:
        raise RefusedError(Reason.BAD_SIGNATURE, f"the new key of {name}") from None
    if account is None:
        account = Account(key_epoch, 0, ZERO_DIGEST, 0)
    else:
        end_key(context, name, account.key_epoch, Ending.REPLACED)
    state.accounts.put(name, replace(account, key_epoch=key_epoch))
    state.keys.put((name, key_epoch), Key(action.public, context.height))
    state.publics.put(action.public, (name, key_epoch))
    return Done()


def _revoke_key(context: Context, action: actions.RevokeKey) -> Outcome:
    key = context.state.keys.get((action.name, action.key_epoch))
    require(key is not None, Reason.UNKNOWN_KEY, action.name)
    assert key is not None
    if key.ended_height is not None:
        return Already()
    end_key(context, action.name, action.key_epoch, Ending.REVOKED)
    return Done()


def end_key(context: Context, name: str, key_epoch: int, ending: Ending) -> None:
    """Ends a key with this block, unless it has already ended."""
    key = context.state.keys.get((name, key_epoch))
    assert key is not None, f"the account of {name} without its key"
    if key.ended_height is None:
        context.state.keys.put((name, key_epoch), replace(key, ended_height=context.height, ending=ending))


def _raise_low_water(state: State, action: actions.LowWater) -> Outcome:
    place = (action.topic, action.partition)
    partition = state.partitions.get(place)
    require(partition is not None, Reason.UNKNOWN_PARTITION, action.topic)
    assert partition is not None
    if action.index == partition.low_water:
        return Already()
    require(partition.low_water < action.index <= partition.next_index, Reason.OUT_OF_RANGE)
    oldest = partition.oldest
    while oldest < action.index:
        admission = state.admissions.get((*place, oldest))
        assert admission is not None, "an index without its batch"
        if admission.next_index > action.index:
            break
        drop_oldest(state, place, admission)
        oldest = admission.next_index
    state.partitions.put(place, replace(partition, low_water=action.index, oldest=oldest))
    return Done()


def _skip(context: Context, transaction: transactions.Skip) -> Outcome:
    state, hole = context.state, transaction.hole
    admission = _require_admission(state, hole)
    if admission.skipped:
        return Already()
    for absence in transaction.absences:
        public = find_storage_key(context, absence.party, absence.height)
        _require_statement(context, absence, hole.digest, public)
        require(absence.height >= admission.height, Reason.STALE_ABSENCE, absence.party)
    confessed = {absence.party for absence in transaction.absences}
    require(confessed.issuperset(admission.parties), Reason.NOT_ABSENT)
    outcome = _make_hole(state, hole, admission)
    for party in admission.parties:
        _accuse(context, "storage", party, transaction)
    return outcome


def _make_hole(state: State, hole: actions.Hole, admission: Admission) -> Outcome:
    if admission.skipped:
        return Already()
    place = (hole.topic, hole.partition)
    partition = state.partitions.get(place)
    assert partition is not None, "a batch without its partition"
    chain = _extend(partition.chain, b"skipped", hole.digest, hole.first_index)
    state.partitions.put(place, replace(partition, chain=chain))
    state.admissions.put((*place, hole.first_index), replace(admission, skipped=True))
    return Done()


def _batch_conflict(context: Context, transaction: transactions.BatchConflict) -> Outcome:
    first, second = transaction.first.header, transaction.second.header
    require(first.chain_id == second.chain_id == context.genesis.chain_id, Reason.OTHER_CHAIN)
    same = (first.producer, first.key_epoch, first.topic, first.partition) == (
        second.producer,
        second.key_epoch,
        second.topic,
        second.partition,
    )
    overlap = first.first_sequence < second.next_sequence and second.first_sequence < first.next_sequence
    require(same and overlap and first != second, Reason.NO_CONFLICT)
    key = context.state.keys.get((first.producer, first.key_epoch))
    require(key is not None, Reason.UNKNOWN_KEY, first.producer)
    assert key is not None
    _require_signed(transaction.first, key.public, context.verify)
    _require_signed(transaction.second, key.public, context.verify)
    accused = f"{first.producer}/{first.key_epoch}"
    if context.state.accusations.get(("producer", accused)):
        return Already()
    end_key(context, first.producer, first.key_epoch, Ending.FENCED)
    _accuse(context, "producer", accused, transaction)
    return Done()


def _vote_conflict(context: Context, transaction: transactions.VoteConflict) -> Outcome:
    first, second = transaction.first, transaction.second
    validators = context.state.members_at(context.genesis, first.height).validators
    require(first.validator < len(validators), Reason.UNKNOWN_VALIDATOR, str(first.validator))
    same = (first.validator, first.kind, first.height, first.round_number) == (
        second.validator,
        second.kind,
        second.height,
        second.round_number,
    )
    require(same and first.block_id != second.block_id, Reason.NO_CONFLICT)
    party = validators[first.validator]
    for vote in (first, second):
        try:
            vote.verify(context.genesis.chain_id, party.public, context.verify)
        except SignatureError:
            raise RefusedError(Reason.BAD_SIGNATURE, party.name) from None
    if context.state.accusations.get(("validator", party.name)):
        return Already()
    _accuse(context, "validator", party.name, transaction)
    return Done()


def require_key(context: Context, name: str, key_epoch: int) -> Key:
    """Returns the key; raises RefusedError unless it is valid at this height."""
    key = context.state.keys.get((name, key_epoch))
    require(key is not None, Reason.UNKNOWN_KEY, f"{name}, epoch {key_epoch}")
    assert key is not None
    require(key.registered_height < context.height, Reason.KEY_NOT_YET_VALID, name)
    require(key.valid_at(context.height), Reason.KEY_ENDED, f"{name}, epoch {key_epoch}")
    return key


def _require_signed(signed: SignedHeader, public: bytes, check: Verify) -> None:
    try:
        signed.verify(public, check)
    except SignatureError:
        raise RefusedError(Reason.BAD_SIGNATURE, signed.header.producer) from None


def _require_statement(
    context: Context, statement: StorageReceipt | StorageAbsence, digest: bytes, public: bytes | None
) -> None:
    require(public is not None, Reason.UNKNOWN_PARTY, statement.party)
    assert public is not None
    require(statement.digest == digest, Reason.WRONG_RECEIPT, statement.party)
    try:
        statement.verify(context.genesis.chain_id, public, context.verify)
    except SignatureError:
        raise RefusedError(Reason.BAD_SIGNATURE, statement.party) from None


def _require_admission(state: State, hole: actions.Hole) -> Admission:
    admission = state.admissions.get((hole.topic, hole.partition, hole.first_index))
    require(admission is not None and admission.digest == hole.digest, Reason.NO_SUCH_BATCH)
    assert admission is not None
    return admission


def _find_admitted(state: State, signed: SignedHeader) -> bytes | None:
    """Returns the digest of the admitted batch with the same first sequence number, or None."""
    header = signed.header
    cursor = state.cursors.get((header.producer, header.topic, header.partition))
    if cursor is not None and cursor.last_first_sequence == header.first_sequence:
        return cursor.last
    admission = _find_admission(state, signed, header.first_sequence)
    return None if admission is None else admission.digest


def find_covering(state: State, signed: SignedHeader) -> Admission | None:
    """Returns the admitted batch that contains this one's first sequence number, if it is still known.

    A batch that starts at another sequence number is found only among the stream's last thousand, which
    bounds the work that a client can cause.
    """
    header = signed.header
    exact = _find_admission(state, signed, header.first_sequence)
    if exact is not None:
        return exact
    cursor = state.cursors.get((header.producer, header.topic, header.partition))
    sequence = None if cursor is None else cursor.last_first_sequence
    for _ in range(COVERING_STEPS_MAX):
        earlier = None if sequence is None else _find_admission(state, signed, sequence)
        if earlier is None:
            return None
        known = earlier.signed.header
        if known.first_sequence <= header.first_sequence < known.next_sequence:
            return earlier
        sequence = earlier.earlier_sequence
    return None


def _find_admission(state: State, signed: SignedHeader, first_sequence: int) -> Admission | None:
    header = signed.header
    place = (header.topic, header.partition)
    index = state.sequences.get((header.producer, *place, first_sequence))
    return None if index is None else state.admissions.get((*place, index))


def _accuse(context: Context, role: str, name: str, transaction: transactions.Transaction) -> None:
    accusation = Accusation(context.height, sha256(transaction.encode()).digest())
    if context.state.accusations.get((role, name)) is None:
        context.state.accusations.put((role, name), accusation)


def _extend(chain: bytes, what: bytes, digest: bytes, first_index: int) -> bytes:
    return sha256(chain + digest + first_index.to_bytes(8, "big") + what).digest()
