A[] P.B imply s.a == 5 and s.c[0] == 2 and s.c[1] == 7
A[] r.a == 1 and r.c[1] == 3
A[] P.C imply both[1].c[1] - both[0].c[1] == 4
E<> both[0].b
E<> r.b
