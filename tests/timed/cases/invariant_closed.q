E<> P.B
A[] P.A imply x <= 5
A<> P.B
E[] P.A
inf{P.B}: x
sup{P.A}: x
