sup{P.A and b}: x
sup{P.A and !b}: x
sup{b}: y
E<> !b and y > 100
A<> P.B
