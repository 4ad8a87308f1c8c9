sup: seen[0]
inf: seen[2]
E<> P3.B
