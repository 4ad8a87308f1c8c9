E<> P.ByB
E<> P.ByA
E<> P.Alone
