E<> P.C
E<> P.B and y - x > -29999
sup{P.A}: x
inf{P.B}: x
