A[] P.B imply a == -3
A[] P.B imply b == -1
A[] P.B imply c == 35
A[] P.B imply d == 10
A[] P.B imply e == 17
A[] P.B imply f == 4
A[] P.B imply g == 22
A[] P.B imply p and q and r
