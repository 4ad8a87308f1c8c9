A[] n > 0 imply order[0] == 1
E<> order[1] == 2 and order[2] == 3
E<> order[1] == 3 and order[2] == 2
A<> n == 3
