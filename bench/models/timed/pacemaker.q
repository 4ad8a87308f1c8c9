A[] not Quick.early
A[] Slow.next imply Slow.t <= TLRI
