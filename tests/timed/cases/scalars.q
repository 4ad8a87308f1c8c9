A[] forall (i : name) forall (j : name) P(i).In and P(j).In imply i == j
A[] forall (i : name) P(i).In imply owner == i
E<> exists (i : name) P(i).In
A[] forall (i : name) P(i).Out
A[] not deadlock
