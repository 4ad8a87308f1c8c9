A[] not deadlock
A[] deadlock imply Q.B
A[] Q.B imply deadlock
