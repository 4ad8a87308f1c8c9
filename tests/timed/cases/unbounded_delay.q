A<> P.B
E[] P.A
E<> P.C
P.B --> P.C
E[] not P.C
