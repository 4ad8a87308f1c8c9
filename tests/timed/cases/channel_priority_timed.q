E<> P.ByA and x < 5
E<> P.ByA and x >= 5
E<> P.ByB and x == 5
sup{P.ByA}: x
