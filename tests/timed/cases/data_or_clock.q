inf{P.B}: x
inf{P.B and v == 0}: x
E<> P.B and v == 0 and x < 3
