E<> P.D
E<> P.D and x - y > 1
E<> P.B and x - y > 10
inf{P.D}: y
