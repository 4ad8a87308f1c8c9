A[] (forall (j : job_t) Job(j).done) imply time >= LEAST
A[] forall (j : job_t) Job(j).work imply Job(j).x <= 4
