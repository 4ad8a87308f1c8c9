"""Larger files in the style of PAT's users: all are read with the intended meaning."""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random

import pytest

from tests.unit.languages.csp.reading import read
from veristream.errors import ModelError
from veristream.languages.csp.syntax import (
    Atomic,
    Case,
    Choice,
    Conditional,
    Guard,
    Hide,
    Input,
    Parallel,
    Prefix,
    Reaches,
    Refines,
    Replicated,
    Satisfies,
    Sequence,
    Simple,
    Specification,
)

PHILOSOPHERS = """//@@Dining philosophers@@
#define N 5;

Philosopher(i) = take.i.(i+1)%N -> take.i.i -> eat.i -> put.i.(i+1)%N -> put.i.i -> Philosopher(i);
Fork(i) = take.i.i -> put.i.i -> Fork(i) [] take.(i-1)%N.i -> put.(i-1)%N.i -> Fork(i);
#alphabet Fork {take.i.i, put.i.i, take.(i-1)%N.i, put.(i-1)%N.i};
Table() = || x:{0..N-1} @ (Philosopher(x) || Fork(x));

Fair() = Table() \\ {x:{1..N-1}@eat.x, x:{0..N-1};y:{0..N-1}@take.x.y, x:{0..N-1};y:{0..N-1}@put.x.y};
Eats() = eat.0 -> Eats();

#assert Table() deadlockfree;
#assert Table() |= []<> eat.0;
#assert Table() |= [](eat.0 -> <> eat.1) && []<>eat.2;
#assert Fair() refines Eats();
#assert Fair() refines <F> Eats();
#assert Eats() refines <FD> Fair();
"""

PROTOCOL = """/* A key exchange in the manner of Needham and Schroeder, with an intruder
   who reads, keeps and fakes messages. */
enum {Alice, Bob, Mallory, NonceA, NonceB, NonceM};
channel first 0;   // first!receiver.nonce.sender.key
channel last 0;
var aliceStarted = false; var bobDone = false;
var knows[6] = [true(3), false(2), true];

Initiator(me, other, mine) =
    start{ if (me == Alice && other == Bob) { aliceStarted = true; } } ->
    first!other.mine.me.other ->
    first?me.mine.theirs.me ->
    last!other.theirs.other -> Skip;

Responder(me, mine) =
    first?me.theirs.other.me ->
    first!other.theirs.mine.other ->
    last?me.mine.me -> finish{ if (other == Alice) bobDone = true; } -> Skip;

Intruder() =
    ([] n:{NonceA..NonceM} @ ([knows[n]] first!Bob.n.Alice.Bob -> Intruder()))
 [] ([] n:{NonceA..NonceM} @ ([knows[n] == true] last!Bob.n.Bob -> Intruder()))
 [] first?to.one.two.key -> read{
        if (key == Mallory) {
            knows[one] = true;
            if (two > Mallory) { knows[two] = true; }
        }
    } -> Intruder()
 [] last?to.one.key -> read2{ if (key == Mallory) { knows[one] = true; } } -> Intruder();

System = (Initiator(Alice, Bob, NonceA) [] Initiator(Alice, Mallory, NonceA)) ||| Responder(Bob, NonceB)
         ||| Intruder;

#define started (aliceStarted == true);
#define done bobDone;
#define leaked knows[NonceB];
#assert System |= [] ( ([] !done) || (!done U started) );
#assert System reaches leaked;
#assert System deadlockfree;
"""

READERS = """#define R 3;
#define W 2;
var reading = 0; var writing:{0..W} = 0;

Reader(i) = [writing == 0] startread.i{reading++;} -> stopread.i{reading--;} -> Reader(i);
Writer(i) = [reading == 0 && writing == 0] startwrite.i{writing = writing + 1;}
            -> stopwrite.i{writing = writing - 1} -> Writer(i);

Readers() = ||| x:{0..R-1} @ Reader(x);
Writers() = |||x:{0..W-1}@Writer(x);
System() = Readers() ||| Writers();

#define exclusive !(reading > 0 && writing > 0) && writing <= 1;
#define crowd reading == R;
#assert System() |= [] exclusive;
#assert System() reaches crowd;
#assert System() deadlockfree;
#assert System() nonterminating;
#assert System() |= []<>startwrite.0;
"""

BRIDGE = """// Four people, one torch: at most two cross at a time, at the pace of the slower.
#define PEOPLE 4;
#define LIMIT 17;
enum {home, away};
var side[PEOPLE]; var pace[PEOPLE] = [1, 2, 5, 10];
var torch = home; var minutes = 0;
#define cross(p, to) { side[p] = to; };
#define later(p, q) (minutes + pace[p] * (pace[p] >= pace[q]) + pace[q] * (pace[q] > pace[p]));

Pair(p, q) = [p < q && torch == home && side[p] == home && side[q] == home] over.p.q{
        call(cross, p, away); call(cross, q, away);
        minutes = call(later, p, q); torch = away;
    } -> Crossing();
Back(p) = [torch == away && side[p] == away]
    back.p{ call(cross, p, home); minutes = minutes + pace[p]; torch = home } -> Crossing();
Crossing() = [minutes <= LIMIT] (
        ([] p:{0..PEOPLE-1}; q:{0..PEOPLE-1} @ Pair(p, q))
     [] ([] p:{0..PEOPLE-1} @ Back(p))
    );

#define over_there && p:{0..PEOPLE-1}@(side[p] == away);
#define in_time over_there && minutes <= LIMIT;
#assert Crossing() reaches in_time;
#assert Crossing() reaches over_there with min(minutes);
#assert Crossing() reaches over_there with max(0 - minutes);
"""

STACK = """// A stack whose top is changed by compare-and-swap, and what it should look like from outside.
#define USERS 2;
#define ROOM 2;
var top = 0;            // of the implementation
var seen[USERS];
var depth:{0..ROOM};    // of the specification
var got[USERS];

Put(u) = call_put.u -> TryPut(u);
TryPut(u) = look.u{ seen[u] = top; } -> (
        ifa (seen[u] == top) {
            swap.u{ if (top < ROOM) { top++; }; seen[u] = top; } -> end_put.u.seen[u] -> Skip
        } else { retry.u -> TryPut(u) }
    );
Take(u) = call_take.u -> TryTake(u);
TryTake(u) = look.u{seen[u] = top} -> (
        if (seen[u] == 0) { end_take.u.0 -> Skip }
        else {
            (ifa (seen[u] != top) { retry.u -> TryTake(u) }
             else { swap.u{ top--; seen[u] = top; } -> tau -> end_take.u.(seen[u]+1) -> Skip })
        });
User(u) = (Put(u)[]Take(u));User(u);
Implementation() = (|||u:{0..USERS-1}@User(u)) \\ {look.0, swap.0, retry.0, look.1, swap.1, retry.1};

OncePut(u) = call_put.u -> now.u{ if (depth < ROOM) depth++; got[u] = depth; } -> end_put.u.got[u] -> Skip;
OnceTake(u) = call_take.u -> now.u{ got[u] = depth; if (depth > 0) {depth = depth - 1} }
              -> end_take.u.got[u] -> Skip;
Client(u) = (OncePut(u)[]OnceTake(u));Client(u);
Specification() = (|||u:{0..USERS-1}@Client(u)) \\{u:{0..USERS-1}@now.u};

#assert Implementation() refines Specification();
#assert Specification() refines Implementation();
"""

ELECTION = """// Leader election in a ring, with one buffer between neighbours.
#define N 4;
#define none -1;
channel ring[N] N;
var id[N] = [3, 1, 0, 2];
var leader[N] = [none(N)];
var rounds = 0;
#define won(i) leader[i] == id[i];
#define announce(i) { leader[i] = id[i]; rounds++; };

Node(i) = ring[(i+1)%N]!id[i] -> Wait(i);
Wait(i) = ring[i]?heard -> case {
              heard > id[i]: ring[(i+1)%N]!heard -> Wait(i)
              heard < id[i]: drop.i -> Wait(i)
              default: elected.i{ call(announce, i); } -> Skip
          };
Ring() = ||| x:{0..N-1} @ Node(x);
Watched() = Ring() interrupt crash -> Stop;

#define one (&& i:{0..N-1}@(leader[i] == none || i == 0));
#define some || i:{0..N-1}@(leader[i] == id[i]);
#define first call(won, 0) && !call(cfull, ring[0]) && call(ccount, ring[1]) <= call(csize, ring[1]);
#assert Ring() |= <> some;
#assert Ring() |= [] one;
#assert Ring() reaches first;
#assert Ring() |= [] ("ring[1]!3" -> <> elected.0);
#assert Watched() deadlockfree;
"""

PETERSON = """// Peterson's filter: on every level one waits, so that at most one passes the last.
#define N 3;
hvar level[N]; hvar victim[N];
var inside = 0; var worst;

Process(i) = Filter(i, 1); enter.i{
        inside++;
        var k = 0; var high = 0;
        while (k < N) {
            if (level[k] > high) { high = level[k]; }
            else if (level[k] == high) { ; }
            k = k + 1;
        }
        if (inside > worst) worst = inside; else { worst = worst; }
    } -> leave.i{level[i] = 0; inside--;} -> Process(i);
Filter(i, l) =
    case {
        l == N: Skip
        default: raise.i.l{level[i] = l; victim[l] = i} -> Wait(i, l)
    };
Wait(i, l) = [victim[l] != i || (&& k:{0..N-1}@(k == i || level[k] < l))] pass.i.l -> Filter(i, l+1);
Peterson() = Process(0) ||| Process(1) ||| Process(2);

#define bad inside > 1;
#assert Peterson() reaches bad;
#assert Peterson() |= [] !bad;
#assert Peterson() |= []<> enter.0;
#assert Peterson() divergencefree;
#assert Peterson() deterministic;
"""

KEYLESS = """#define N 2; // owners
enum {far, near, inside};
enum {off, on};
enum {unlocked, locked, open};
var owner[N]; var engine = off; var door = locked;
var key = 0; var moving = false; var fuel:{0..10} = 10;

Owner(i) = [owner[i] == far] towards.i{owner[i] = near;} -> Owner(i)
    [] [owner[i] == near] away.i{owner[i] = far;} -> Owner(i)
    [] [owner[i] == near && door == open && !moving] getin.i{owner[i] = inside;} -> Owner(i)
    [] [owner[i] == inside && door == open && moving == false] getout.i{owner[i] = near;} -> Owner(i);
Door(i) = [key == i && owner[i] == near && door == locked] unlock.i{door = unlocked;} -> Door(i)
    [] [owner[i] == near && door == unlocked] (opened.i{door = open;} -> Door(i) <> jammed.i -> Door(i))
    [] [door == open] atomic{close{door = unlocked;} -> check -> Skip}; Door(i)
    [] ifb (door == unlocked && owner[i] == near) { lock.i{door = locked;} -> Door(i) };
Motor(i) = [owner[i] == inside && engine == off && fuel != 0] turnon.i{engine = on;} -> Motor(i)
    [] [engine == on && !moving] startdrive.i{moving = true;} -> Motor(i)
    [] [moving && fuel != 0] drive.i{fuel--; if (fuel == 0) {engine = off; moving = false;}} -> Motor(i)
    [*] [moving] stop.i{moving = false} -> assert(engine == on || fuel == 0); Motor(i);

Car() = (||| i:{0..N-1}@(Owner(i) ||| Door(i) ||| Motor(i)));

#define runaway moving && owner[0] == far && owner[1] == far;
#define lockedin owner[0] == inside && door == locked && owner[1] == far;
#define empty fuel == 0;
#assert Car() deadlockfree;
#assert Car() reaches runaway;
#assert Car() reaches lockedin;
#assert Car() |= [](startdrive.0 -> <>(stop.0 || empty));
#assert Car() |= [] (turnon.0 -> !unlock.1 U close);
"""


def names_of(spec: Specification) -> list[str]:
    return [definition.name for definition in spec.definitions]


def kinds_of(spec: Specification) -> list[type]:
    return [type(assertion.claim) for assertion in spec.assertions]


def test_dining_philosophers() -> None:
    spec = read(PHILOSOPHERS)
    assert names_of(spec) == ["Philosopher", "Fork", "Table", "Fair", "Eats"]
    assert kinds_of(spec) == [Simple, Satisfies, Satisfies, Refines, Refines, Refines]
    assert len(spec.definitions[1].alphabet or ()) == 4
    table = spec.definitions[2].body
    assert isinstance(table, Replicated) and isinstance(table.body, Parallel) and not table.body.interleave
    assert isinstance(spec.definitions[3].body, Hide)


def test_a_protocol_with_an_intruder() -> None:
    spec = read(PROTOCOL)
    assert names_of(spec) == ["Initiator", "Responder", "Intruder", "System"]
    assert [variable.boolean for variable in spec.variables] == [True, True, True]
    intruder = spec.definitions[2].body
    assert isinstance(intruder, Choice)
    assert [type(branch) for branch in intruder.branches] == [Replicated, Replicated, Input, Input]
    system = spec.definitions[3].body
    assert isinstance(system, Parallel) and len(system.branches) == 3


def test_readers_and_writers() -> None:
    spec = read(READERS, R=5)
    assert names_of(spec) == ["Reader", "Writer", "Readers", "Writers", "System"]
    assert (spec.variables[1].low, spec.variables[1].high) == (0, 2)
    assert kinds_of(spec) == [Satisfies, Reaches, Simple, Simple, Satisfies]


def test_crossing_a_bridge() -> None:
    spec = read(BRIDGE)
    claims = [assertion.claim for assertion in spec.assertions]
    assert [claim.direction for claim in claims if isinstance(claim, Reaches)] == [None, "min", "max"]
    crossing = spec.definitions[2].body
    assert isinstance(crossing, Guard) and isinstance(crossing.process, Choice)
    assert all(isinstance(branch, Replicated) for branch in crossing.process.branches)


def test_a_stack_and_its_specification() -> None:
    spec = read(STACK)
    assert kinds_of(spec) == [Refines, Refines]
    user = spec.definitions[4].body
    assert isinstance(user, Sequence) and isinstance(user.first, Choice)
    loop = spec.definitions[1].body
    assert isinstance(loop, Prefix) and isinstance(loop.then, Conditional) and loop.then.atomic


def test_leader_election() -> None:
    spec = read(ELECTION)
    assert spec.variables[1].initial == (-1,) * 4
    assert (spec.channels[0].shape, spec.channels[0].capacity) == ((4,), 4)
    wait = spec.definitions[1].body
    assert isinstance(wait, Input) and isinstance(wait.then, Case) and len(wait.then.branches) == 2
    assert read(ELECTION.replace("[3, 1, 0, 2]", "[0..2]"), N=3).channels[0].shape == (3,)


def test_peterson() -> None:
    spec = read(PETERSON)
    assert kinds_of(spec) == [Reaches, Satisfies, Satisfies, Simple, Simple]
    process = spec.definitions[0].body
    assert isinstance(process, Sequence) and isinstance(process.second, Prefix)
    assert len(process.second.program or ()) == 5


def test_a_keyless_car() -> None:
    spec = read(KEYLESS)
    assert names_of(spec) == ["Owner", "Door", "Motor", "Car"]
    door = spec.definitions[1].body
    assert isinstance(door, Choice)
    assert [type(branch) for branch in door.branches] == [Guard, Guard, Sequence, Guard]
    assert isinstance(door.branches[2], Sequence)
    closing = door.branches[2].first
    assert isinstance(closing, Guard) and isinstance(closing.process, Atomic)
    motor = spec.definitions[2].body
    assert isinstance(motor, Choice) and isinstance(motor.branches[2], Choice)
    assert motor.branches[2].kind == "external"


MODELS = [PHILOSOPHERS, PROTOCOL, READERS, BRIDGE, STACK, ELECTION, PETERSON, KEYLESS]


@pytest.mark.parametrize("seed", range(len(MODELS)))
def test_a_mutant_is_read_or_raises_a_model_error(seed: int) -> None:
    random = Random(seed)
    words = re.findall(r"\w+|\s+|[^\w\s]", MODELS[seed])
    for _ in range(40):
        mutant = list(words)
        for _ in range(random.choice([1, 1, 2, 3])):
            here, there = random.randrange(len(mutant)), random.randrange(len(mutant))
            match random.randrange(3):
                case 0:
                    del mutant[here]
                case 1:
                    mutant.insert(here, mutant[there])
                case _:
                    mutant[here], mutant[there] = mutant[there], mutant[here]
        with suppress(ModelError):
            read("".join(mutant))
