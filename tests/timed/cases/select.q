E<> v == 30
E<> v == 21
sup: v
inf{P.Done}: v
A[] P.Done imply v == 10 or v == 11 or v == 30 or v == 31
