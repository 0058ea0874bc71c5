"""What queues do, in plain Python."""

MASK = (1 << 64) - 1


class Model:
    """First in first out, all at once: nobody is woken, everybody has gone on who can.

    Attributes
    ----------
    items : list of (int, int)
        Age and number of each element.
    ends : dict
        By who, what he got: a list of numbers, None, or the text of an error.
    """

    def __init__(self, order, capacity, least=0, seed=0):
        self.order, self.capacity, self.least, self.seed = order, capacity, least, seed
        self.items, self.puts, self.takes, self.closed, self.ends = [], [], [], False, {}
        self.count = self.draws = 0

    def put(self, who, numbers):
        self.puts.append([who, list(numbers), False])
        self.settle()

    def take(self, who, count, up_to):
        self.takes.append([who, count, up_to, []])
        self.settle()

    def close(self, who, cancel):
        if self.closed:
            self.ends[who] = "is already closed"
            return
        if cancel:
            self.closed, self.ends[who] = True, None
        else:
            self.puts.append([who, [], True])
        self.settle()

    def give_up(self, who):
        for take in self.takes:
            if take[0] == who:
                self.give_back(take)
        self.puts = [put for put in self.puts if put[0] != who]
        self.takes = [take for take in self.takes if take[0] != who]
        self.settle()

    def give_back(self, take):
        self.items = take[3] + self.items

    def numbers(self):
        return [number for _, number in self.items]

    def push(self, number):
        self.count += 1
        self.items.append((self.count, number))

    def room(self):
        return len(self.items) + 1_000_000 if self.capacity < 0 else self.capacity - len(self.items)

    def settle(self):
        moved = True
        while moved:
            moved = False
            while self.put_one():
                moved = True
            while self.take_one():
                moved = True

    def put_one(self):
        if not self.puts:
            return False
        who, numbers, closes = self.puts[0]
        if self.closed:
            self.ends[who] = "is already closed" if closes else "is closed"
        elif numbers and self.room() > 0:
            self.push(numbers.pop(0))
            return True
        elif numbers:
            return False
        else:
            self.closed |= closes
            self.ends[who] = None
        self.puts.pop(0)
        return True

    def take_one(self):
        if not self.takes:
            return False
        who, count, up_to, got = self.takes[0]
        if len(got) < count and self.items:
            got.append(self.items.pop(0))
            return True
        if len(got) < count and not self.closed:
            return False
        if len(got) == count or (up_to and got):
            self.ends[who] = [number for _, number in got]
        else:
            self.give_back(self.takes[0])
            self.ends[who] = "is closed and has insufficient elements"
        self.takes.pop(0)
        return True


class Attempt:
    """One who puts `left`, closes, or takes; `woken` when it may go on in its turn."""

    def __init__(self, who, left=(), closes=False, count=0, up_to=False):
        self.who, self.left, self.closes = who, list(left), closes
        self.count, self.up_to, self.got, self.woken = count, up_to, [], False

    @property
    def need(self):
        return len(self.left) or self.count - len(self.got)


class TurnByTurn(Model):
    """By priority, or shuffled: here it matters who has gone on before others have, so they do so in turns."""

    def __init__(self, *about):
        super().__init__(*about)
        self.ready = []

    # ---- the order of elements

    def available(self):
        return len(self.items) if self.closed else max(0, len(self.items) - self.least)

    def pop(self):
        if self.order == "priority":
            item = min(self.items, key=lambda item: (item[1] % 3, item[0]))
            self.items.remove(item)
            return item
        place = splitmix(self.seed, self.draws) * len(self.items) >> 64
        self.draws += 1
        item, self.items[place] = self.items[place], self.items[-1]
        self.items.pop()
        return place, item

    def number(self, entry):
        return entry[1] if self.order == "priority" else entry[1][1]

    def give_back(self, take):
        for entry in reversed(take.got):
            if self.order == "priority":
                self.items.append(entry)
                continue
            place, item = entry
            self.items.append(item)
            self.items[place], self.items[-1] = self.items[-1], self.items[place]
        take.got = []

    # ---- attempts

    def put(self, who, numbers):
        put = Attempt(who, numbers)
        if self.puts or (put.left and not self.closed and put.need > self.room()):
            self.puts.append(put)
        elif self.closed:
            self.ends[who] = "is closed"
        else:
            self.enter(put)
        self.settle()

    def take(self, who, count, up_to):
        take = Attempt(who, count=count, up_to=up_to)
        self.takes.append(take)
        if len(self.takes) == 1 and (self.closed or count <= self.available()):
            if count > self.available() and not (up_to and self.available()):
                self.insufficient(take)
            else:
                take.count = min(count, self.available())
                self.leave(take)
        self.settle()

    def close(self, who, cancel):
        if self.closed:
            self.ends[who] = "is already closed"
            return
        if cancel:
            self.closed, self.ends[who] = True, None
            for put in self.puts:
                self.ends[put.who] = "is already closed" if put.closes else "is closed"
            self.puts, self.ready = [], [each for each in self.ready if each.count]
        elif self.puts:
            self.puts.append(Attempt(who, closes=True))
        else:
            self.closed, self.ends[who] = True, None
        self.settle()

    def give_up(self, who):
        for take in self.takes:
            if take.who == who:
                self.give_back(take)
        for line in (self.puts, self.takes, self.ready):
            line[:] = [each for each in line if each.who != who]
        self.settle()

    def enter(self, put):
        for number in put.left:
            self.push(number)
        self.ends[put.who] = None

    def leave(self, take):
        take.got += [self.pop() for _ in range(take.need)]
        self.ends[take.who] = [self.number(entry) for entry in take.got]
        self.takes.remove(take)

    def insufficient(self, take):
        self.give_back(take)
        self.ends[take.who] = "is closed and has insufficient elements"
        self.takes.remove(take)

    # ---- turns

    def settle(self):
        self.serve()
        while self.ready:
            attempt = self.ready.pop(0)
            if attempt in self.puts:
                self.puts.remove(attempt)
                self.enter(attempt)
            else:
                self.leave(attempt)
            self.serve()

    def serve(self):
        while self.serve_puts() | self.serve_takes():
            pass

    def wake(self, attempt):
        attempt.woken = True
        self.ready.append(attempt)

    def serve_puts(self):
        changed = False
        for put in [put for put in self.puts if not put.woken]:
            woken = [put for put in self.puts if put.woken]
            if self.closed:
                self.ends[put.who] = "is already closed" if put.closes else "is closed"
                self.puts.remove(put)
            elif put.closes:
                if woken:
                    break
                self.closed = changed = True
                self.ends[put.who] = None
                self.puts.remove(put)
            elif put.need + sum(each.need for each in woken) <= self.room():
                self.wake(put)
            else:
                while not woken and len(put.left) > 1 and self.room() > 0:
                    self.push(put.left.pop(0))
                    changed = True
                break
        return changed

    def serve_takes(self):
        changed = False
        for take in [take for take in self.takes if not take.woken]:
            woken = [take for take in self.takes if take.woken]
            free = self.available() - sum(each.need for each in woken)
            if self.closed and take.need > free and not woken and take.up_to and len(take.got) + free:
                take.count = len(take.got) + free
            if take.need <= free:
                self.wake(take)
            elif woken:
                break
            elif self.closed:
                self.insufficient(take)
            else:
                if self.order == "shuffle" or self.capacity >= 0:
                    take.got += [self.pop() for _ in range(free)]
                    changed |= free > 0
                break
        return changed


def splitmix(seed, number):
    """Return 64 random bits: SplitMix64 (Steele, Lea, Flood 2014)."""
    x = seed + (number + 1) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31
