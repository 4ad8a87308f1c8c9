sup: v
inf: v
sup{P.A}: v
sup{P.A}: x
sup{P.B}: x
inf{P.B}: x
inf{P.C}: x
inf: x
