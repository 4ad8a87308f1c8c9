A[] P0.B imply m[0][0] == 5 and m[0][2] == 7
A[] P0.B imply m[1][1] == 10
A[] P1.A imply Q.A and m[1][2] == 0
