A[] P.B imply x == 0
E<> Q.Q1
A<> P.C
