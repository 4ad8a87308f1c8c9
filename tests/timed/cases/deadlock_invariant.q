A[] not deadlock
A[] deadlock imply P.B
E<> deadlock and x < 1
