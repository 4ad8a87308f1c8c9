A[] P.S and Q.B imply deadlock
A[] deadlock imply Q.B
E<> P.B and t == 2
A[] deadlock imply t >= 4
