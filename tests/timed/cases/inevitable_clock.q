A<> t >= 100
A<> P.B and t > 10
A<> P.A and P.x >= 1
A<> P.A and P.x > 1
A<> t == 1 and P.B
