A[] P.U imply x <= 0
E<> P.U and Q.B
A[] P.U imply Q.A
P.U --> P.B
A<> P.U
