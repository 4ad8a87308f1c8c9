E<> t == 8 and P.x == 0
E<> t == 7 and (P.x < 1 or P.x > 1)
E<> t > 1000
A<> t > 5
E[] t <= 5
A[] t < 100
A[] not deadlock
