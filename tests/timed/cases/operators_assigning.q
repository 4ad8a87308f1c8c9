A[] P.B imply a == 3
A[] P.B imply b == 1
A[] P.B imply c == 2 and d == 3 and e == 8
A[] P.B imply f == 32
A[] P.B imply g == 6 and h == 9
