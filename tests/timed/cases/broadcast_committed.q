A[] P.S == Q.S
A[] P.B imply R.seen == 2
P.S --> Q.B
E<> P.S and R.seen == 0
