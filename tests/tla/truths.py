"""Formulas that are true: one for each construct of TLA+ that has a value, and for each trap in it."""

from __future__ import annotations

from typing import Final

DEFINITIONS: Final = r"""
EXTENDS Integers, Sequences, FiniteSets, TLC, Bags

RECURSIVE Factorial(_)
Factorial(n) == IF n = 0 THEN 1 ELSE n * Factorial(n - 1)
RECURSIVE Sum(_)
Sum(S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN x + Sum(S \ {x})
fib[n \in Nat] == IF n < 2 THEN n ELSE fib[n - 1] + fib[n - 2]
pair[i, j \in 1..3] == 10 * i + j
Twice(F(_), x) == F(F(x))
Second(a, b) == b
a ++ b == (a * 10) + b
Unused(a) == 7
Point == [x : 0..1, y : 0..1]
f == [i \in 1..3 |-> i * i]
r == [name |-> "anna", age |-> 7]
nested == [p |-> [q |-> <<1, 2>>], z |-> 0]
"""

TRUTHS: Final = (
    # numbers
    r"7 \div 2 = 3 /\ (-7) \div 2 = -4 /\ -7 \div 2 = -3 /\ 7 % 2 = 1 /\ -7 % 2 = 1",
    r"2 ^ 10 = 1024 /\ 3 - 5 = -2 /\ -(-4) = 4",
    r"1..3 = {1, 2, 3} /\ 3..1 = {}",
    r"\b101 = 5 /\ \hFF = 255",
    r"2 \in Nat /\ -2 \notin Nat /\ -2 \in Int",
    # logic
    r"(FALSE => 1 = 2) /\ (TRUE <=> TRUE) /\ ~(TRUE <=> FALSE)",
    r"\A x \in {} : FALSE",
    r"~ \E x \in {} : TRUE",
    r"\A x, y \in 1..2, z \in 3..4 : x + y <= z + 1",
    r"\E <<a, b>> \in {<<1, 2>>, <<3, 4>>} : a + b = 7",
    r"IF 1 > 2 THEN 1 \div 0 = 1 ELSE TRUE",
    r"(CASE 1 = 2 -> 10 [] 2 = 2 -> 20 [] OTHER -> 30) = 20",
    r"(CASE 1 = 2 -> 10 [] OTHER -> 30) = 30",
    r"(1 = 2 \/ TRUE) /\ ~(TRUE /\ FALSE)",
    r"FALSE \/ (TRUE /\ \A b \in BOOLEAN : b \/ ~b)",
    # sets
    r"{1, 2, 2} = {2, 1} /\ Cardinality({1, 1}) = 1",
    r"{1, 2} \cup {2, 3} = 1..3 /\ {1, 2} \cap {2, 3} = {2} /\ {1, 2} \ {2, 3} = {1}",
    r"{1} \subseteq 1..3 /\ ~({4} \subseteq 1..3)",
    r"SUBSET {1, 2} = {{}, {1}, {2}, {1, 2}}",
    r"{1, 3} \in SUBSET (1..3) /\ {4} \notin SUBSET (1..3)",
    r"{-1, 5} \in SUBSET Int /\ {-1} \notin SUBSET Nat",
    r"UNION {{1}, {2, 3}, {}} = 1..3",
    r"{x \in 1..5 : x % 2 = 1} = {1, 3, 5}",
    r"{x * x : x \in -2..2} = {0, 1, 4}",
    r"{x + y : x \in 1..2, y \in {10, 20}} = {11, 12, 21, 22}",
    r"{<<x, y>> \in (1..2) \X (1..2) : x < y} = {<<1, 2>>}",
    r"Cardinality((1..2) \X (1..3) \X {0}) = 6 /\ <<1, 3, 0>> \in (1..2) \X (1..3) \X {0}",
    r"<<<<1, 2>>, 3>> \in ((1..2) \X (1..2)) \X {3}",
    r"-1 \in Nat \cup {-1} /\ -2 \notin Nat \cup {-1} /\ 0 \notin Nat \ {0}",
    r"{{1, 2}, {2, 1}} = {{1, 2}}",
    r"IsFiniteSet({1}) /\ Cardinality(SUBSET (1..4)) = 16",
    r"{} \in SUBSET {} /\ UNION {} = {}",
    # CHOOSE
    r"(CHOOSE x \in {3, 1, 2} : x > 1) = 2",
    r"(CHOOSE x \in 1..9 : x * x = 49) = 7",
    r"(CHOOSE t \in {<<2, 1>>, <<1, 9>>, <<1, 2>>} : TRUE) = <<1, 2>>",
    r"(CHOOSE s \in SUBSET {1, 2, 3} : Cardinality(s) = 2) = {1, 2}",
    r"(CHOOSE q \in [a : {2, 1}, b : {5, 4}] : TRUE) = [a |-> 1, b |-> 4]",
    r'(CHOOSE s \in {"b", "a"} : TRUE) = "a"',
    r"(CHOOSE g \in [1..2 -> {3, 4}] : TRUE) = <<3, 3>>",
    # functions
    r"f[2] = 4 /\ DOMAIN f = 1..3 /\ f = <<1, 4, 9>>",
    r"pair[2, 3] = 23 /\ pair[<<2, 3>>] = 23",
    r"fib[20] = 6765",
    r"[i \in {} |-> i] = <<>> /\ [{} -> 1..2] = {<<>>}",
    r"[1..2 -> {0, 1}] = {<<0, 0>>, <<0, 1>>, <<1, 0>>, <<1, 1>>}",
    r"Cardinality([{5, 6} -> 1..3]) = 9",
    r"[i \in {0, 1} |-> i] # <<0, 1>>",
    r"[f EXCEPT ![2] = 0] = <<1, 0, 9>>",
    r"[f EXCEPT ![2] = @ + 1, ![3] = @ * 2] = <<1, 5, 18>>",
    r"[f EXCEPT ![1] = 10, ![1] = @ + 1][1] = 11",
    r"[f EXCEPT ![9] = 0] = f",
    r"[nested EXCEPT !.p.q[2] = @ + 5].p.q = <<1, 7>>",
    r"[nested EXCEPT !.p = [q |-> 0], !.z = 3] = [p |-> [q |-> 0], z |-> 3]",
    r"[pair EXCEPT ![1, 2] = 0][<<1, 2>>] = 0",
    r"f \in [1..3 -> Nat] /\ f \notin [1..3 -> 1..8] /\ f \notin [1..2 -> Nat]",
    r"[x \in 1..2, y \in {5} |-> x + y][2, 5] = 7",
    r"[<<x, y>> \in {<<1, 2>>} |-> x + y][1, 2] = 3",
    r"(1 :> 2 @@ 1 :> 3)[1] = 2 /\ (1 :> 2 @@ 5 :> 3)[5] = 3",
    r'DOMAIN <<>> = {} /\ DOMAIN r = {"name", "age"}',
    # records
    r'r.name = "anna" /\ r["age"] = 7 /\ r = [age |-> 7, name |-> "anna"]',
    r"[x |-> 0, y |-> 1] \in Point /\ [x |-> 0, y |-> 2] \notin Point",
    r"Cardinality(Point) = 4 /\ [x |-> 0] \notin Point",
    r"[x |-> 1] # [y |-> 1]",
    r'[n |-> 1, to |-> "a"] \in [n : Nat, to : STRING]',
    # tuples and sequences
    r'"a" \notin DOMAIN <<>> /\ "a" \notin 2..1',
    r"Len(<<>>) = 0 /\ Head(<<1, 2>>) = 1 /\ Tail(<<1, 2>>) = <<2>> /\ Append(<<1>>, 2) = <<1, 2>>",
    r"<<1>> \o <<2, 3>> = <<1, 2, 3>> /\ SubSeq(<<1, 2, 3>>, 2, 3) = <<2, 3>>",
    r"SubSeq(<<1>>, 2, 1) = <<>>",
    r"<<1, 2>> \in Seq(Nat) /\ <<-1>> \notin Seq(Nat) /\ <<>> \in Seq({})",
    r"SelectSeq(<<1, 2, 3, 4>>, LAMBDA x : x % 2 = 0) = <<2, 4>>",
    r"<<1, <<2>>>>[2][1] = 2",
    r'"ab" \o "c" = "abc" /\ Len("abc") = 3',
    r"SortSeq(<<3, 1, 2>>, LAMBDA x, y : x > y) = <<3, 2, 1>>",
    # operators
    r"Factorial(5) = 120 /\ Sum({1, 2, 3}) = 6",
    r"Twice(LAMBDA x : x + 1, 5) = 7 /\ Twice(Factorial, 3) = 720",
    r"Second(1 \div 0, 2) = 2 /\ Unused(Head(<<>>)) = 7",
    r"1 ++ 2 = 12",
    r"LET x == 3 y == x + 1 IN x * y = 12",
    r"LET g(a, b) == a - b IN g(5, 3) = 2",
    r"LET RECURSIVE down(_) down(n) == IF n = 0 THEN 0 ELSE 10 * down(n - 1) + n IN down(3) = 123",
    r"LET h[n \in 0..4] == IF n = 0 THEN 0 ELSE n + h[n - 1] IN h[4] = 10",
    r"LET bad == 1 \div 0 IN TRUE",
    r"LET x == 1 IN LET z == x + 1 IN \A y \in {z} : y = 2",
    # strings, model checking operators, bags
    r'"a" # "b" /\ "a\"b" = "a\"b" /\ "x" \in STRING',
    r"Permutations({1, 2}) = {<<1, 2>>, <<2, 1>>}",
    r'Assert(TRUE, "never said") /\ PrintT("") /\ Print("", TRUE)',
    r"BagIn(1, SetToBag({1, 2})) /\ ~BagIn(3, SetToBag({1, 2})) /\ BagCardinality(SetToBag({1, 2})) = 2",
    r"CopiesIn(1, SetToBag({1}) (+) SetToBag({1, 2})) = 2 /\ SetToBag({1}) (-) SetToBag({1}) = EmptyBag",
    r'ToString(<<1, "a", {TRUE}>>) = "<<1, \"a\", {TRUE}>>"',
)
