sup: n
A[] P.B imply n == 2
A[] false and n == 0 imply false
A[] n == 2 imply P.B
