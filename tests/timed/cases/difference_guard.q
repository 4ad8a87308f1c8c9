E<> P.C
E<> P.D
A[] P.C imply x - y >= 3
E<> P.C and x < 3
E<> P.D and y - x < -3
