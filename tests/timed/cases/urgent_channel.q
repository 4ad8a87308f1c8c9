A[] Q.Ready imply t <= 10
E<> P.B and t < 3
E<> P.B and t <= 3
A<> P.B
sup{P.A}: t
inf{P.B}: t
