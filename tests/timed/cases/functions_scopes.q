A[] P.B imply P.x == 42
A[] P.B imply x == 16
A[] y == 0
