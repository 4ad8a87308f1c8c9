E<> P.B and Q.T
E<> P.A and R.B
A<> Q.T
