E<> P.B and x == 0
E<> P.C
E<> P.D
