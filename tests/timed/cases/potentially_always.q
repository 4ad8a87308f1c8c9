E[] P.A or P.B
E[] P.A
E[] not P.C and x <= 2
E[] x < 2 and not P.C
A<> P.C
E<> P.C
