E<> Low.L1 and High.H0 and x < 2
E<> Low.L1 and High.H0 and x >= 2
E<> Low.L1 and High.H1
