A[] Zero.B and not One.B imply w == 43
A[] One.B and not Zero.B imply w == 53
A[] v == 0 and i == 7
A[] forall (i : int[0,2]) i <= 2
