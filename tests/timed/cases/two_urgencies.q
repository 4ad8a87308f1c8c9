inf{P.B}: t
sup{P.A}: t
inf{P.C}: t
sup{P.B}: t
A<> P.C
