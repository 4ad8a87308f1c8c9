A[] x[0] <= 3 and i == 0 or x[1] <= 3 and i == 1
A[] not deadlock
A[] x[0] == x[1] or i == 1
E<> i == 1 and x[1] - x[0] == 3
