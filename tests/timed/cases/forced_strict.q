A<> P.B
E[] P.A
