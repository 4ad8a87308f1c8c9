A<> P.B
E[] P.A
E<> P.B
