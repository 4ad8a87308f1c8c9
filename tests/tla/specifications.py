"""Small specifications with what is known of them; TLC counts the same in `tests/peers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Known:
    """A specification, and how many states are distinct and generated, and how deep the graph is.

    `violated` are the properties that do not hold; without any, the counts are those of the whole graph.
    """

    name: str
    body: str
    config: str
    counts: tuple[int, int, int]
    violated: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = field(default=())


SPEC: Final = "SPECIFICATION Spec\n"
QUIET: Final = SPEC + "CHECK_DEADLOCK FALSE\n"

KNOWN: Final = (
    Known(
        "counter",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == x < 3 /\ x' = x + 1
Spec == Init /\ [][Next]_x
Small == x <= 3
""",
        QUIET + "INVARIANT Small",
        (4, 4, 4),
    ),
    Known(
        "counter_deadlocks",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == x < 3 /\ x' = x + 1
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (4, 4, 4),
        ("deadlock-free",),
    ),
    Known(
        "init_and_next",
        r"""
EXTENDS Naturals
VARIABLES x, y
Begin == x \in 1..2 /\ y = x * 10
Step == x' = 3 - x /\ UNCHANGED y
""",
        "INIT Begin\nNEXT Step\n",
        (4, 6, 2),
    ),
    Known(
        "each_true_disjunct_is_a_step",
        r"""
VARIABLE x
Init == x = FALSE
Next == /\ (x = FALSE \/ x \in BOOLEAN)
        /\ x' = TRUE
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (2, 4, 2),
    ),
    Known(
        "each_witness_is_a_step",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == (\E i \in 1..3 : i > x) /\ x' = 1 - x
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (2, 6, 2),
    ),
    Known(
        "a_conclusion_is_taken_apart",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == (x = 0 => \E i \in 1..2 : i > 0) /\ x' = 1 - x
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (2, 4, 2),
    ),
    Known(
        "a_function_of_a_definition_is_taken_apart",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == /\ LET ok[n \in 0..2] == n = 0 \/ (n > 0 /\ \E m \in 0..1 : ok[n - 1]) IN ok[2]
        /\ x' = 1 - x
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (2, 9, 2),
    ),
    Known(
        "primed_set_membership",
        r"""
EXTENDS Naturals
VARIABLES x, y
Init == x = 0 /\ y = 0
Next == x' \in {0, 1} /\ y' = x' + x
Spec == Init /\ [][Next]_<<x, y>>
""",
        SPEC,
        (4, 9, 3),
    ),
    Known(
        "a_later_prime_tests",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == x' \in 0..3 /\ x' # x /\ x' \in {1, 2}
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (3, 5, 2),
    ),
    Known(
        "unchanged_of_a_definition",
        r"""
EXTENDS Naturals
VARIABLES x, y, z
rest == <<y, z>>
vars == <<x, rest>>
Init == x = 0 /\ y = 1 /\ z = 2
Next == \/ x' = 1 - x /\ UNCHANGED rest
        \/ UNCHANGED vars
Spec == Init /\ [][Next]_vars
""",
        SPEC,
        (2, 5, 2),
    ),
    Known(
        "except_of_a_record_of_functions",
        r"""
EXTENDS Naturals
CONSTANT P
VARIABLE s
Init == s = [p \in P |-> [n |-> 0, on |-> FALSE]]
Next == \E p \in P : \/ ~s[p].on /\ s' = [s EXCEPT ![p].on = TRUE]
                     \/ s[p].on /\ s[p].n < 1 /\ s' = [s EXCEPT ![p] = [n |-> @.n + 1, on |-> ~@.on]]
Spec == Init /\ [][Next]_s
""",
        QUIET + "CONSTANT P = {a, b}\n",
        (16, 25, 7),
    ),
    Known(
        "symmetric_model_values",
        r"""
EXTENDS Naturals, TLC
CONSTANT P
VARIABLE s
Init == s = [p \in P |-> 0]
Next == \E p \in P : s[p] < 2 /\ s' = [s EXCEPT ![p] = @ + 1]
Spec == Init /\ [][Next]_s
Perms == Permutations(P)
""",
        QUIET + "CONSTANT P = {a, b, c}\nSYMMETRY Perms\n",
        (10, 21, 7),
    ),
    Known(
        "a_view_hides_a_variable",
        r"""
EXTENDS Naturals
VARIABLES x, steps
Init == x = 0 /\ steps = 0
Next == x' = (x + 1) % 3 /\ steps' = steps + 1
Spec == Init /\ [][Next]_<<x, steps>>
Seen == x
""",
        SPEC + "VIEW Seen\n",
        (3, 4, 3),
    ),
    Known(
        "a_constraint_is_judged_but_not_counted",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == x' = x + 1 \/ x' = x + 2
Spec == Init /\ [][Next]_x
Few == x < 4
Small == x <= 5
""",
        SPEC + "CONSTRAINT Few\nINVARIANT Small\n",
        (4, 9, 3),
    ),
    Known(
        "a_constraint_of_steps",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == x' \in 0..5
Spec == Init /\ [][Next]_x
Slowly == x' <= x + 1
""",
        SPEC + "ACTION_CONSTRAINT Slowly\n",
        (6, 37, 6),
    ),
    Known(
        "enabled_under_a_quantifier",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Up(n) == x + n <= 4 /\ x' = x + n
Next == \E n \in 1..2 : Up(n)
Spec == Init /\ [][Next]_x
Live == (\E n \in 1..2 : ENABLED Up(n)) <=> x < 4
""",
        QUIET + "INVARIANT Live\n",
        (5, 8, 3),
    ),
    Known(
        "a_constant_operator_is_replaced",
        r"""
EXTENDS Naturals
CONSTANT Send(_, _)
VARIABLE wire
Init == wire = 0
Next == \E m \in 1..2 : Send(m, wire')
Spec == Init /\ [][Next]_wire
Put(m, new) == new = m
""",
        SPEC + "CONSTANT Send <- Put\n",
        (3, 7, 2),
    ),
    Known(
        "instances_with_parameters",
        r"""
EXTENDS Naturals
VARIABLES a, b
C(v) == INSTANCE Cell WITH cell <- v, Top <- 1
Init == C(a)!Start /\ C(b)!Start
Next == \/ C(a)!Flip /\ UNCHANGED b
        \/ C(b)!Flip /\ UNCHANGED a
Spec == Init /\ [][Next]_<<a, b>>
Fine == C(a)!Right /\ C(b)!Right
""",
        SPEC + "INVARIANT Fine\n",
        (4, 9, 3),
        modules=(
            (
                "Cell",
                r"""
EXTENDS Naturals
CONSTANT Top
VARIABLE cell
Start == cell = 0
Flip == cell' = Top - cell
Right == cell \in 0..Top
""",
            ),
        ),
    ),
    Known(
        "nat_is_replaced_everywhere",
        r"""
EXTENDS Naturals
VARIABLE x
Small == 0..3
Init == x \in Nat
Next == x' \in Nat /\ x' = x
Spec == Init /\ [][Next]_x
""",
        SPEC + "CONSTANT Nat <- Small\n",
        (4, 8, 1),
    ),
    Known(
        "messages_in_a_set",
        r"""
EXTENDS Naturals
VARIABLES sent, got
Send(m) == sent' = sent \cup {m}
Init == sent = {} /\ got = {}
Next == \/ \E n \in 1..2 : Send([type |-> "ask", n |-> n]) /\ UNCHANGED got
        \/ \E m \in sent : m.type = "ask" /\ got' = got \cup {m.n} /\ UNCHANGED sent
Spec == Init /\ [][Next]_<<sent, got>>
OnlySent == \A n \in got : [type |-> "ask", n |-> n] \in sent
""",
        SPEC + "INVARIANT OnlySent\n",
        (9, 31, 5),
    ),
    Known(
        "an_invariant_breaks",
        r"""
EXTENDS Naturals, Sequences
VARIABLE q
Init == q = <<>>
Next == q' = Append(q, Len(q))
Spec == Init /\ [][Next]_q
Short == Len(q) < 3
""",
        SPEC + "INVARIANT Short\n",
        (4, 4, 3),
        ("Short",),
    ),
    Known(
        "a_universal_conjunction_assigns",
        r"""
EXTENDS Naturals
VARIABLES a, b
Init == a = 0 /\ b = 0
Set(v, n) == v' = n
Next == \A i \in {1} : \E n \in 0..1 : Set(a, n) /\ Set(b, i - n)
Spec == Init /\ [][Next]_<<a, b>>
""",
        SPEC,
        (3, 7, 2),
    ),
    Known(
        "case_and_let_in_actions",
        r"""
EXTENDS Naturals
VARIABLE x
Init == x = 0
Next == LET up == x + 1
        IN CASE x < 2 -> x' = up
             [] x = 2 -> \E y \in {0, 3} : x' = y
             [] OTHER -> x' = x
Spec == Init /\ [][Next]_x
""",
        SPEC,
        (4, 6, 4),
    ),
    Known(
        "numbers_and_booleans_in_turn",
        r"""
EXTENDS Naturals
VARIABLES bit, flag
Init == flag \in {FALSE, TRUE} /\ bit \in {0, 1}
Next == \/ \E b \in {FALSE, TRUE} : flag' = (~b /\ flag) /\ UNCHANGED bit
        \/ \E n \in {0, 1} : bit' = 1 - n /\ UNCHANGED flag
Spec == Init /\ [][Next]_<<bit, flag>>
Kinds == bit + 1 \in 1..2 /\ (flag \/ ~flag)
""",
        SPEC + "INVARIANT Kinds\n",
        (4, 20, 1),
    ),
    Known(
        "only_assumptions",
        "EXTENDS Naturals\nASSUME 1 + 1 = 2\n",
        "",
        (0, 0, 0),
    ),
)

RUNS: Final = r"""
EXTENDS Naturals
CONSTANT P
VARIABLES x, turn
Init == x = 0 /\ turn \in P
Up == x < 2 /\ x' = x + 1 /\ UNCHANGED turn
Down == x > 0 /\ x' = x - 1 /\ UNCHANGED turn
Pass(p) == turn = p /\ turn' \in P \ {p} /\ UNCHANGED x
Next == Up \/ Down \/ \E p \in P : Pass(p)
vars == <<x, turn>>
Base == Init /\ [][Next]_vars
Weak == Base /\ WF_vars(Up)
Strong == Base /\ SF_vars(Up)
Fair == Base /\ \A p \in P : WF_vars(Pass(p))
Rises == <>(x = 1)
Tops == []<>(x = 2)
Settles == <>[](x = 2)
Leads == (x = 1) ~> (x = 2)
Visits == \A p \in P : []<>(turn = p)
Some == \E p \in P : []<>(turn = p)
Moves == []<><<Next>>_vars
Rest == ~ []<><<Up>>_x
Takes == WF_vars(Up)
"""
"""Runs that may stutter, with and without fairness."""

LIVENESS: Final = (
    ("Base", "Rises", False),
    ("Weak", "Rises", True),
    ("Strong", "Tops", False),
    ("Strong", "Rises", True),
    ("Fair", "Visits", True),
    ("Base", "Visits", False),
    ("Base", "Some", True),
    ("Base", "Moves", False),
    ("Fair", "Moves", True),
    ("Weak", "Settles", False),
    ("Weak", "Leads", False),
    ("Base", "Rest", False),
    ("Weak", "Takes", True),
    ("Base", "Takes", False),
)
"""A specification of RUNS, a property, and whether it holds."""
