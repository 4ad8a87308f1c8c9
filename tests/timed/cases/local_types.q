sup: P(1).at
sup: P(3).at
sup{P(1).A}: P(1).x
sup: total
E<> P(1).A and P(2).A and P(3).x > 2
