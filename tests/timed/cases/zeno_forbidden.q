A<> P.B
E[] P.A
A<> x >= 3
