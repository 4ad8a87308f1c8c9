A[] P.C imply x[0] - x[2] >= 2
E<> P.C and x[1] - x[2] < 2
E<> P.C and x[0] - x[1] > 5
A[] forall (i : int[0,1]) x[i] >= x[i + 1] or P.A or P.B
