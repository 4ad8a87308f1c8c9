E<> P.B
E[] P.A
A<> P.B
A[] not deadlock
