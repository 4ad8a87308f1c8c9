inf{P.B}: x
sup{P.A}: x
E<> P.C and x - y <= 1 and x > 3
E<> P.C and x - y > 1
