"""The handshake and the frames, without a socket: who proves what, and that nothing else is believed."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult_base

from veristream.kabis.protocol.codec import Octets
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.wire import handshake
from veristream.kabis.wire.handshake import (
    BUFFER_BYTES,
    LENGTH_BYTES,
    MAC_BYTES,
    ClientHandshake,
    Identity,
    Role,
    Secrets,
    ServerHandshake,
    Session,
    Splitter,
    WireError,
)

CHAIN = "chain"
SERVER = Identity(CHAIN, Role.STORAGE, "store", make_key(b"s" * 32))
CLIENT = Identity(CHAIN, Role.PRODUCER, "alice", make_key(b"c" * 32))
MALLORY = make_key(b"m" * 32)
EDGES = [BUFFER_BYTES - LENGTH_BYTES + step for step in (-1, 0, 1, LENGTH_BYTES)]


def draw(letter: bytes) -> Secrets:
    return Secrets.draw(letter * 64)


def client_side(identity: Identity = CLIENT, *, encrypt: bool = False) -> ClientHandshake:
    return ClientHandshake(identity, SERVER.peer, draw(b"1"), encrypt=encrypt)


def server_side(identity: Identity = SERVER, *, encrypt: bool = False) -> ServerHandshake:
    return ServerHandshake(identity, draw(b"2"), encrypt=encrypt)


def sessions(*, encrypt_client: bool = False, encrypt_server: bool = False) -> tuple[Session, Session]:
    client, server = client_side(encrypt=encrypt_client), server_side(encrypt=encrypt_server)
    proof, mine = client.finish(server.answer(client.hello))
    return mine, server.finish(proof)


@pytest.mark.parametrize(
    ("encrypt_client", "encrypt_server"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_both_sides_know_each_other_and_understand_each_other(
    encrypt_client: bool, encrypt_server: bool
) -> None:
    client, server = sessions(encrypt_client=encrypt_client, encrypt_server=encrypt_server)
    assert client.peer == SERVER.peer and server.peer == CLIENT.peer
    assert client.encrypted == server.encrypted == (encrypt_client or encrypt_server)
    for payload in (b"", b"x", bytes(range(256)) * 100):
        frame = client.seal(payload)
        assert int.from_bytes(frame[:LENGTH_BYTES], "big") == len(frame) - LENGTH_BYTES
        assert server.open(frame[LENGTH_BYTES:]) == payload
        assert client.open(server.seal(payload)[LENGTH_BYTES:]) == payload
    assert (payload in frame) is not client.encrypted


def test_a_server_with_another_key_or_name_is_not_accepted() -> None:
    for other in (replace(SERVER, signer=MALLORY), replace(SERVER, name="other")):
        client = client_side()
        with pytest.raises(WireError, match="expected was storage 'store'"):
            client.finish(server_side(other).answer(client.hello))


class Forger:
    """Signs with one key and shows another."""

    public = SERVER.signer.public

    def sign(self, message: bytes) -> bytes:
        return MALLORY.sign(message)


def test_a_server_that_does_not_hold_its_key_is_found_out() -> None:
    client = client_side()
    with pytest.raises(WireError, match="did not sign this handshake"):
        client.finish(server_side(replace(SERVER, signer=Forger())).answer(client.hello))


def test_a_client_that_does_not_hold_its_key_is_found_out() -> None:
    client, server = client_side(replace(CLIENT, signer=Forger())), server_side()
    proof, _session = client.finish(server.answer(client.hello))
    with pytest.raises(WireError, match="did not sign this handshake"):
        server.finish(proof)


def test_another_chain_is_refused_by_both() -> None:
    client, server = client_side(replace(CLIENT, chain_id="another")), server_side()
    answer = server.answer(client.hello)
    with pytest.raises(WireError, match="the server is of the chain 'chain'"):
        client.finish(answer)
    with pytest.raises(WireError, match="the client is of the chain 'another'"):
        server.finish(b"")


def test_a_chain_that_is_only_claimed_is_found_out() -> None:
    """A client of another chain that says ours: its signature speaks of the other one."""
    client, server = client_side(), server_side()
    liar = client_side()
    liar._identity = replace(CLIENT, chain_id="another")
    answer = server.answer(client.hello)
    ours = handshake._client_bytes("another", client.hello, answer, CLIENT.peer)
    proof = handshake._Proof(CLIENT.peer, CLIENT.signer.sign(ours)).encode()
    with pytest.raises(WireError, match="did not sign"):
        server.finish(proof)


def test_a_proof_of_an_earlier_handshake_is_worth_nothing() -> None:
    client, server = client_side(), server_side()
    proof, _ = client.finish(server.answer(client.hello))
    again = ServerHandshake(SERVER, draw(b"3"))
    again.answer(client.hello)
    with pytest.raises(WireError, match="did not sign"):
        again.finish(proof)


def test_an_answer_of_an_earlier_handshake_is_worth_nothing() -> None:
    answer = server_side().answer(client_side().hello)
    later = ClientHandshake(CLIENT, SERVER.peer, draw(b"4"))
    with pytest.raises(WireError, match="did not sign"):
        later.finish(answer)


def test_swapped_ephemeral_keys_are_noticed() -> None:
    """A man in the middle puts his own ephemeral key into both shares."""
    own = crypto_scalarmult_base(b"e" * 32)
    client, server = client_side(), server_side()
    hello = replace(handshake._Hello.decode(client.hello), ephemeral=own)
    answer = server.answer(hello.encode())
    with pytest.raises(WireError, match="did not sign"):
        client.finish(answer)
    client, server = client_side(), server_side()
    answered = handshake._Answer.decode(server.answer(client.hello))
    swapped = replace(answered, hello=replace(answered.hello, ephemeral=own)).encode()
    with pytest.raises(WireError, match="did not sign"):
        client.finish(swapped)


def test_somebody_else_cannot_take_the_place_of_the_client() -> None:
    """Mallory answers in her own name a handshake that Alice began: she holds no key that fits."""
    client, server = client_side(), server_side()
    answer = server.answer(client.hello)
    _proof, alice = client.finish(answer)
    mallory = replace(CLIENT, name="mallory", signer=MALLORY)
    asked = handshake._client_bytes(CHAIN, client.hello, answer, mallory.peer)
    other = server.finish(handshake._Proof(mallory.peer, MALLORY.sign(asked)).encode())
    assert other.peer == mallory.peer
    with pytest.raises(WireError):
        other.open(alice.seal(b"in whose name?")[LENGTH_BYTES:])


def test_a_downgrade_is_noticed() -> None:
    client, server = client_side(encrypt=True), server_side()
    hello = replace(handshake._Hello.decode(client.hello), encrypt=False)
    with pytest.raises(WireError, match="did not sign"):
        client.finish(server.answer(hello.encode()))


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_an_ephemeral_key_of_low_order_is_refused(point: bytes) -> None:
    client, server = client_side(), server_side()
    hello = replace(handshake._Hello.decode(client.hello), ephemeral=point).encode()
    answer = server.answer(hello)
    asked = handshake._client_bytes(CHAIN, hello, answer, CLIENT.peer)
    with pytest.raises(WireError, match="ephemeral key of the other side is invalid"):
        server.finish(handshake._Proof(CLIENT.peer, CLIENT.signer.sign(asked)).encode())


def test_the_signatures_of_the_two_sides_cannot_be_exchanged() -> None:
    """What a server signs never passes for what a client signs, with the same party on both sides."""
    first, second = server_side(), server_side()
    client = ClientHandshake(SERVER, SERVER.peer, draw(b"1"))
    proof = handshake._Answer.decode(first.answer(client.hello)).proof.encode()
    second.answer(client.hello)
    with pytest.raises(WireError, match="did not sign"):
        second.finish(proof)


@pytest.mark.parametrize("encrypt", [False, True])
def test_frames_are_taken_once_whole_and_in_order(encrypt: bool) -> None:
    def fresh() -> tuple[list[bytes], Session]:
        client, server = sessions(encrypt_client=encrypt)
        return [client.seal(b"frame %d" % number)[LENGTH_BYTES:] for number in range(3)], server

    frames, server = fresh()
    assert [server.open(frame) for frame in frames] == [b"frame 0", b"frame 1", b"frame 2"]
    for order in ((0, 0), (1,), (0, 2)):
        frames, server = fresh()
        for place in order[:-1]:
            server.open(frames[place])
        with pytest.raises(WireError, match="replayed"):
            server.open(frames[order[-1]])
    frame = fresh()[0][0]
    for place in range(len(frame)):
        for bit in range(8):
            changed = bytearray(frame)
            changed[place] ^= 1 << bit
            with pytest.raises(WireError):
                sessions(encrypt_client=encrypt)[1].open(bytes(changed))
    with pytest.raises(WireError):
        sessions(encrypt_client=encrypt)[1].open(frame[:-1])
    assert sessions(encrypt_client=encrypt)[1].open(frame) == b"frame 0"


def test_a_frame_of_one_direction_is_none_of_the_other() -> None:
    client, server = sessions()
    with pytest.raises(WireError):
        client.open(client.seal(b"mirror")[LENGTH_BYTES:])
    assert server.open(sessions()[0].seal(b"same secrets, same keys")[LENGTH_BYTES:])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_message_of_the_handshake_never_opens_a_session(data: st.DataObject) -> None:
    client, server = client_side(), server_side()
    messages = [client.hello]
    messages.append(server.answer(messages[0]))
    messages.append(client.finish(messages[1])[0])
    which = data.draw(st.integers(0, 2))
    changed = bytearray(messages[which])
    place = data.draw(st.integers(0, len(changed) - 1))
    changed[place] ^= data.draw(st.integers(1, 255))
    messages[which] = bytes(changed)
    with pytest.raises(WireError):
        shake_hands(client_side(), server_side(), messages, which)


def shake_hands(
    client: ClientHandshake, server: ServerHandshake, messages: list[bytes], which: int
) -> None:
    """Both sides go on as far as they do; one message of three is not what was sent."""
    answer = server.answer(messages[0])
    proof, _session = client.finish(messages[1] if which == 1 else answer)
    server.finish(messages[2] if which == 2 else proof)


@settings(max_examples=500, deadline=None)
@given(junk=st.binary(max_size=300))
def test_junk_raises_only_wire_errors(junk: bytes) -> None:
    server = server_side()
    with pytest.raises(WireError):
        server.answer(junk)
    server.answer(client_side().hello)
    with pytest.raises(WireError):
        server.finish(junk)
    with pytest.raises(WireError):
        client_side().finish(junk)
    for encrypt in (False, True):
        with pytest.raises(WireError):
            sessions(encrypt_client=encrypt)[1].open(junk)


def feed(splitter: Splitter, data: bytes) -> int:
    """Gives it as much as it has room for, as a transport does, and says how much that is."""
    room = splitter.room()
    count = min(len(room), len(data))
    room[:count] = data[:count]
    splitter.fill(count)
    return count


def cut(splitter: Splitter, stream: bytes, cuts: list[int]) -> list[Octets]:
    """The frames of a stream that arrives in pieces."""
    found, at, turn = [], 0, 0
    while at < len(stream):
        at += feed(splitter, stream[at : at + cuts[turn % len(cuts)]])
        turn += 1
        while (frame := splitter.next()) is not None:
            found.append(frame)
    return found


@given(payloads=st.lists(st.binary(max_size=50)), cuts=st.lists(st.integers(1, 200), min_size=1))
def test_a_stream_is_cut_into_the_same_frames_however_it_arrives(
    payloads: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(handshake.prefix, payloads))
    splitter = Splitter(50)
    assert cut(splitter, stream, cuts) == payloads and not splitter.partial


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3 * BUFFER_BYTES) | st.sampled_from(EDGES), max_size=6),
    cuts=st.lists(st.integers(1, 2 * BUFFER_BYTES) | st.just(4), min_size=1, max_size=4),
)
def test_large_frames_are_cut_as_well_and_stay_as_they_were(sizes: list[int], cuts: list[int]) -> None:
    payloads = [bytes((number,)) * size for number, size in enumerate(sizes, 1)]
    stream = b"".join(map(handshake.prefix, payloads))
    splitter = Splitter(3 * BUFFER_BYTES)
    if sum(cuts) < 1000:
        cuts.append(BUFFER_BYTES)
    assert cut(splitter, stream, cuts) == payloads and not splitter.partial


def test_several_frames_that_wait_do_not_fill_the_buffer_for_good() -> None:
    """Whoever does not take frames out may still be given bytes."""
    splitter = Splitter(BUFFER_BYTES)
    stream = handshake.prefix(bytes(BUFFER_BYTES // 2 - LENGTH_BYTES)) * 6
    at = 0
    while at < len(stream):
        at += feed(splitter, stream[at:])
    assert [len(splitter.next() or b"") for _ in range(7)] == [BUFFER_BYTES // 2 - LENGTH_BYTES] * 6 + [0]


def test_a_frame_that_is_too_long_is_refused_by_its_length_alone() -> None:
    splitter = Splitter(1000)
    feed(splitter, (1001).to_bytes(LENGTH_BYTES, "big"))
    with pytest.raises(WireError, match="a frame of 1001 bytes, at most 1000"):
        splitter.next()


def test_to_announce_a_large_frame_wins_no_memory() -> None:
    large = 16 << 20
    splitter = Splitter(large)
    announced = large.to_bytes(LENGTH_BYTES, "big")
    feed(splitter, announced)
    assert splitter.next() is None
    for held in (LENGTH_BYTES, BUFFER_BYTES, 2 * BUFFER_BYTES, 3 * BUFFER_BYTES):
        if held > LENGTH_BYTES:
            feed(splitter, bytes(BUFFER_BYTES - (LENGTH_BYTES if held == BUFFER_BYTES else 0)))
        splitter.room()
        assert splitter.held_bytes <= max(BUFFER_BYTES, 2 * held)
    trusted = Splitter(large)
    assert [len(frame) for frame in cut(trusted, announced + bytes(large), [1 << 30])] == [large]
    feed(trusted, announced)
    assert trusted.next() is None
    assert len(trusted.room()) == large, "as much came whole before"


def test_secrets_are_as_long_as_they_must_be() -> None:
    assert Secrets.draw(os.urandom(64)) != Secrets.draw(os.urandom(64))
    with pytest.raises(ValueError, match="64 random bytes"):
        Secrets.draw(b"short")
    assert len(sessions()[0].seal(b"")) == LENGTH_BYTES + MAC_BYTES
