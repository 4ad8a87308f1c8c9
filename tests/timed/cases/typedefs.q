E<> forall (i : id) seen[i]
A[] forall (i : id) P(i).B == seen[i]
A[] forall (i : id) count[i] == 5 + i + (P(i).B ? 1 : 0)
sup: last
