P(0).In --> P(1).In
P(1).In --> P(0).In
A<> P(1).In
A<> P(1).In and P(1).x > 1
