A[] not P.C
