A[] P.B imply a == 120
A[] P.B imply b == 12
A[] P.B imply c == 15
A[] P.B imply d == -90
A[] P.B imply e == 30
E<> P.B
