E<> P.C
E<> P.D
A[] P.C imply x - y >= 49
inf{P.B}: x
