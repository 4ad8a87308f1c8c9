E<> P.Error
E<> P.L4 and x2 - x1 > 2 and x4 - x3 < 2
E<> P.L4 and x2 - x1 > 2 and x4 - x3 > 2
E<> P.L4 and x2 - x1 < 1 and x4 - x3 < 1
A[] P.L4 imply x2 - x1 <= 3
