E<> P.B and b and x > 5
E<> P.B and b and x == 5
E<> P.B and not b and x > 5
E<> P.A and b and x > 5
A[] P.A and b and x > 5 imply deadlock
