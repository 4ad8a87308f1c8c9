A[] P.B imply total == 6
A[] P.C imply a[0] == 0
E<> all
A[] P.C imply some
sup: sum (i : int[0,2]) a[i]
inf: sum (i : int[0,2]) a[i]
A[] exists (i : int[0,2]) forall (j : int[0,2]) a[i] >= a[j]
