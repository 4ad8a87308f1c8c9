E<> P.C
E<> P.D
E<> P.C and x == 1 and y > 0 and y < 1
