E<> P.B or P.C
E<> deadlock
