inf{P.C}: y
sup{P.C}: y
A[] P.E imply y == 2
E<> P.B and x < 3
