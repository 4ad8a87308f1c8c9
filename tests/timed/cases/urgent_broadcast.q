A[] P.A imply t <= 0
A<> P.B
E<> P.B and t > 3
