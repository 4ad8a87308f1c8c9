E<> deadlock
A[] deadlock imply x >= 3
E<> deadlock and x > 3
A<> P.B
