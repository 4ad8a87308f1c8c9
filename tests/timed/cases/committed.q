E<> P.S and Q.B
A[] P.S imply t <= 0
E<> P.T and t > 7
A[] not deadlock
