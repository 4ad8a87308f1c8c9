sup: x[1]
A[] P.B imply x[0] >= 2 and x[1] >= 2 and x[2] >= 2
E<> P.B and x[0] == 2 and x[1] == 6
E<> P.B and x[0] - x[1] > 4
E<> P.A and x[0] - x[1] > 5
