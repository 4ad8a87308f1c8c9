A<> P.B
A<> P.C
E[] P.A or P.B
A<> P.C and x <= 9
A<> P.B and x > 5
A<> P.B and x <= 4
A<> x >= 4
