A[] slow <= 7 and fast <= 2
E<> m == 3 and n == 0
E<> n == 1
E<> n == 2
