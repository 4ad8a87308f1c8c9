sup{P.A and v == 0}: x
sup{P.A and v == 1}: x
sup{P.A and v == 2}: x
sup{P.B}: x
inf{P.B and v == 2}: x
A<> P.C
E<> P.C and x == 4
A[] P.C imply x >= v + 3
