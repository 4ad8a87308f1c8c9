"""Workers and jobs, both symmetric: any worker takes any job, and remembers the workers it met."""

from veristream.actions import *


class Job(Role, count=2, symmetric=True):
    pass


class Worker(Role, count=2, symmetric=True):
    job: Maybe[Job] = None
    met: Map[Worker, bool] = False

    @action
    def take(self):
        j = any_of(Job)
        require(self.job is None and owner[j] is None)
        self.job = j
        owner[j] = self

    @action
    def meet(self):
        other = any_of(Worker)
        require(other != self and self.job is not None and other.job is not None)
        self.met[other] = True

    @action
    def finish(self):
        require(self.job is not None and not finished(self.job))
        done[self.job].add(self)
        owner[self.job] = None
        self.job = None


owner: Map[Job, Maybe[Worker]] = None
done: Map[Job, Set[Worker]] = set()


def finished(j):
    return len(done[j]) >= 2


@always
def one_owner():
    return all(w.job is None or owner[w.job] == w for w in Worker)


@always
def nobody_meets_twice():
    return sum(1 for w in Worker for v in Worker if w.met[v]) < 2


@exists
def all_done():
    return all(finished(j) for j in Job)
