sup{P.A}: t
sup: t
inf{P.B}: t
