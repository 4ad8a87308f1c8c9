A[] P.C imply Q.C
E<> P.D and Q.E and R.A
E<> R.B and (P.C or Q.C)
A<> Q.E
