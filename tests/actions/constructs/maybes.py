"""None among numbers, enums and roles: it equals only itself, whatever number encodes it."""

from veristream.actions import *


class Mode(Enum):
    OFF = 0
    ON = 1


class Player(Role, count=2):
    friend: Maybe[Player] = None
    score: Maybe[Int[0, 3]] = None
    rank: Maybe[Int[2, 3]] = None
    plain: Int[-1, 3] = -1
    mode: Maybe[Mode] = None

    @action
    def befriend(self, other: Maybe[Player]):
        require(self.friend != other)
        self.friend = other
        if other is not None and other.friend is None:
            other.plain = 1

    @action
    def gain(self):
        require(self.score is None or self.score < 3)
        self.score = 0 if self.score is None else self.score + 1
        self.rank = None if self.score < 2 else self.score
        self.plain = max(self.plain, self.score)

    @action
    def copy(self):
        """The ranges differ, and so do the numbers for None."""
        require(self.plain >= 0)
        self.score = self.rank
        self.plain = -1
        self.mode = Mode.ON if self.rank == self.score else None

    @action
    def fall(self):
        """-1 is not None: this fails."""
        require(self.mode is Mode.ON and self.rank is None)
        self.score = self.plain

    @action
    def use(self):
        """Fails where there is no score."""
        require(self.mode == Mode.ON and self.friend == self)
        self.plain = self.score

    @always
    def none_is_no_number(self):
        return not (self.score == self.plain and self.score is None) and self.rank not in {0, 1}


ranks: Set[Int[1, 3]] = {2}


@action
def collect():
    p = any_of(Player)
    require(p.rank in ranks and p.friend is not None)
    ranks.add(p.rank - 1)


@always
def friends():
    return all(p.friend is None or p.friend.plain >= -1 for p in Player)
