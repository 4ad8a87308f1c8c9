A[] not deadlock
E<> deadlock
P.A --> P.B
P.B --> P.A
