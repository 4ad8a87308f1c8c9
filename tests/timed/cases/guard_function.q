sup: held[0] + held[1] + held[2]
A[] forall (i : int[0,2]) held[i] <= 2
E<> deadlock and held[1] == 1
A[] deadlock imply held[0] + held[1] + held[2] == 5
