A[] v <= 3
A[] not deadlock
