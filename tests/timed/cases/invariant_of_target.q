A[] P.B imply y <= 2
E<> P.C and y > 100
E<> P.B and x > 2
