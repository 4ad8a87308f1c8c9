A[] not deadlock
A[] deadlock imply P.A and x > 3
E<> P.A and x == 3 and not deadlock
