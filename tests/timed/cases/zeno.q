E[] P.A
A<> P.B
A[] not deadlock or P.B
P.A --> P.B
E[] x < 1
