A[] v == 1 and P.A imply s <= 0
A[] v == 1 imply t >= 5
E<> P.A and t > 20
A<> P.B
R.B --> P.B
