E<> P.B
A[] x < 5
E<> x > 4
A[] not deadlock
sup: x
