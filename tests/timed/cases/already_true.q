A<> P.A
E<> P.A
P.C --> P.B
E<> P.C
P.A --> P.A
A[] P.C imply P.B
