E<> Q.B
E<> t > 0
A[] not deadlock
E[] P.S
A<> P.T
