inf{Guest(1).Inside and Guest(2).Inside}: t
sup{Guest(2).Outside}: t
E<> Guest(2).Inside and Guest(1).Outside
A[] not deadlock
A<> Guest(1).Inside
E<> Guest(1).Inside and Guest(2).Inside and t == 11
