sup: moved
sup: last
E<> P(1, 3).B and P(0, 1).A
A[] moved == sum (i : int[0,1]) sum (j : int[1,3]) P(i, j).B
