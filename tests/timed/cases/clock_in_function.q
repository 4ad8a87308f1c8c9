A[] P.B imply x - y >= 2
A[] P.C imply x == y and n == 2
inf{P.B}: x
inf{P.C}: x
