A[] P.B imply a == 2 and b == 2
A[] P.B imply c == 14 and d == 13
A[] P.B imply t[0][2] == 2 and t[1][0] == 3
A[] P.B imply t[0][1] == 0 and t[1][2] == 6
