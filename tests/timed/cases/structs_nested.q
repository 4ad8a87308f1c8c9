A[] P.B imply P.m.x == 2 and P.m.y == 4
A[] l.from.x == 1
E<> n == 24
