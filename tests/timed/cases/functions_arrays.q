A[] not P.A imply a[0] == 1 and a[1] == 2 and a[2] == 3 and a[3] == 4
A[] P.C imply low == 4 and high == 1
A[] P.C imply total == 30
