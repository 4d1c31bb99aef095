package java

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// fairWait is the wait of a call that names none: fairLockWaitTimeout.
const fairWait = 300_000 // ms

func order(s *stage) {
	a, _ := s.thread("holder")
	returns(s.T, a.Lock(Fair, s.x))
	var all []*Thread
	var waits []*Call
	var line []string
	for i := range 8 {
		th, owner := s.thread(strconv.Itoa(i))
		all, line = append(all, th), append(line, owner)
		waits = append(waits, th.Lock(Fair, s.x))
		s.inLine(s.x, line...)
	}
	returns(s.T, a.Unlock(Fair, s.x))
	for i := range all {
		returns(s.T, waits[i])
		if at := slices.IndexFunc(waits[i+1:], (*Call).returned); at >= 0 {
			s.Fatalf("number %d was served beside number %d", i+1+at, i)
		}
		returns(s.T, all[i].Unlock(Fair, s.x))
	}
}

func (c *Call) returned() bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// stand puts an owner that no program has into the line, until its deadline.
func (s *stage) stand(name, owner string, deadline time.Time) {
	s.Helper()
	must(s.T, s.rdb.RPush(s.Context(), queue(name), owner).Err())
	at := redis.Z{Score: float64(deadline.UnixMilli()), Member: owner}
	must(s.T, s.rdb.ZAdd(s.Context(), deadlined(name), at).Err())
}

func tries(s *stage) {
	a, _ := s.thread("a")
	b, _ := s.thread("b")
	returns(s.T, a.Lock(Fair, s.x))
	is(s.T, false, b.TryLock(Fair, s.x).Bool)
	if n := s.rdb.Exists(s.Context(), queue(s.x), deadlined(s.x)).Val(); n != 0 {
		s.Error("it stands in line")
	}
	s.stand(s.x, "dead:1", time.Now().Add(time.Hour))
	returns(s.T, a.Unlock(Fair, s.x))
	is(s.T, false, b.TryLock(Fair, s.x).Bool)
	must(s.T, s.rdb.Del(s.Context(), queue(s.x), deadlined(s.x)).Err())
	is(s.T, true, b.TryLock(Fair, s.x).Bool)
	returns(s.T, b.Unlock(Fair, s.x))
}

func givesUp(s *stage) {
	a, _ := s.thread("a")
	b, first := s.thread("b")
	c, second := s.thread("c")
	next := s.overhear()
	returns(s.T, a.Lock(Fair, s.x))
	gives := b.TryLockWait(Fair, s.x, 5*time.Second)
	s.inLine(s.x, first)
	waits := c.Lock(Fair, s.x)
	until(s.T, "both are in line, or the first has given up", func() bool {
		return strings.Contains(strings.Join(s.rdb.LRange(s.Context(), queue(s.x), 0, -1).Val(), " "), second)
	})
	is(s.T, false, gives.Bool)
	s.inLine(s.x, second)
	returns(s.T, a.Unlock(Fair, s.x), waits, c.Unlock(Fair, s.x))
	if got := next(); got != channel(s.x)+":"+second+" 0" { // of the unlock; nothing came before it
		s.Errorf("published %q", got)
	}
}

func deadlines(s *stage) {
	a, _ := s.thread("a")
	var line []string
	arrives := func(wait func(*Thread) *Call) (*Thread, *Call) {
		th, owner := s.thread(strconv.Itoa(len(line)))
		line = append(line, owner)
		call := wait(th)
		s.inLine(s.x, line...)
		return th, call
	}
	before := time.Now().UnixMilli()
	returns(s.T, a.LockLease(Fair, s.x, time.Hour))
	b, first := arrives(func(th *Thread) *Call { return th.TryLockWait(Fair, s.x, 90*time.Second) })
	after := time.Now().UnixMilli()
	c, second := arrives(func(th *Thread) *Call { return th.Lock(Fair, s.x) })
	d, third := arrives(func(th *Thread) *Call { return th.Lock(Fair, s.x) })

	at := s.deadline(s.x, line[0])
	// Java reads its clock before the script reads what is left of the lease.
	if hour := time.Hour.Milliseconds(); at < before+hour+90_000-(after-before)-5 || at > after+hour+90_000+5 {
		s.Errorf("the first deadline is %d ms after the beginning", at-before)
	}
	s.after(at, line[1:], fairWait, 2*fairWait)
	returns(s.T, a.Unlock(Fair, s.x))
	is(s.T, true, first.Bool) // and all others lose its 90 s
	s.after(at-90_000, line[1:], fairWait, 2*fairWait)
	returns(s.T, b.Unlock(Fair, s.x), second)
	s.after(at-90_000-fairWait, line[2:], 2*fairWait)
	returns(s.T, c.Unlock(Fair, s.x), third, d.Unlock(Fair, s.x))
}

// cancels: one that stands in line before and one behind are what the cancel changes, or not.
func cancels(s *stage) {
	s.cancel(func(th *Thread) *Call { return th.TryLockWait(Fair, s.x, 8*time.Second) }, 8000)
}

func seconds(s *stage) {
	s.cancel(func(th *Thread) *Call { return th.TryLockSeconds(Fair, s.x, 8) }, 8)
}

// cancel has a thread wait for 8 s in vain, and checks what it adds to the deadline of the one
// before it, and what it takes from the one behind it.
func (s *stage) cancel(waits func(*Thread) *Call, adds int64) {
	s.Helper()
	a, _ := s.thread("a")
	b, waiter := s.thread("b")
	at := time.Now().Add(time.Hour)
	returns(s.T, a.Lock(Fair, s.x))
	s.stand(s.x, "ahead:1", at)
	gives := waits(b)
	s.inLine(s.x, "ahead:1", waiter)
	s.after(at.UnixMilli(), []string{waiter}, adds)
	s.stand(s.x, "behind:1", at.Add(time.Hour))
	is(s.T, false, gives.Bool)
	s.after(at.UnixMilli(), []string{"ahead:1", "behind:1"}, 0, time.Hour.Milliseconds()-8000)
	must(s.T, s.rdb.Del(s.Context(), queue(s.x), deadlined(s.x)).Err())
	returns(s.T, a.Unlock(Fair, s.x))
}

// after fails the test unless the owners have these deadlines, counted from first.
func (s *stage) after(first int64, owners []string, deadlines ...int64) {
	s.Helper()
	for i, owner := range owners {
		if got := s.deadline(s.x, owner) - first; got != deadlines[i] {
			s.Errorf("the deadline of %s is %d ms after the first, want %d", owner, got, deadlines[i])
		}
	}
}

func interrupted(s *stage) {
	a, _ := s.thread("a")
	b, waiter := s.thread("b")
	returns(s.T, a.LockLease(Fair, s.x, time.Hour)) // no watchdog, which would run scripts
	asked := s.scripts()
	waits := b.LockInterruptibly(Fair, s.x)
	// An interrupt before that would leave the subscription for as long as the JVM lives.
	until(s.T, "it has asked, listened, and asked again", func() bool { return s.scripts() >= asked+2 })
	returns(s.T, b.Interrupt())
	<-waits.Done()
	// If its reply was still on the way, it is inside a RedisException.
	if err := waits.Err(s.Context()); err == nil || !strings.Contains(err.Error(), "InterruptedException") {
		s.Error(err)
	}
	if line := s.rdb.LRange(s.Context(), queue(s.x), 0, -1).Val(); !slices.Equal(line, []string{waiter}) {
		s.Errorf("in line: %q", line)
	}
	is(s.T, true, b.TryLockLease(Fair, s.x+"y", time.Second, time.Minute).Bool) // the thread goes on
	returns(s.T, b.Unlock(Fair, s.x+"y"), a.Unlock(Fair, s.x))
	returns(s.T, b.Lock(Fair, s.x), b.Unlock(Fair, s.x)) // it has kept its turn
}

// scripts returns how many scripts the server has run.
func (s *stage) scripts() int {
	s.Helper()
	return redistest.Scripts(s.T, s.rdb)
}

// asks returns when many more scripts have run than a waiter needs.
func (s *stage) asks() {
	s.Helper()
	began, asked := time.Now(), s.scripts()
	until(s.T, "it has asked 500 times", func() bool { return s.scripts() > asked+500 })
	s.Logf("it asked 500 times in %v", time.Since(began))
}

func busy(s *stage) {
	a, waiter := s.thread("a")
	s.stand(s.x, "dead:1", time.Now().Add(time.Hour))
	waits := a.Lock(Fair, s.x)
	s.inLine(s.x, "dead:1", waiter)
	s.asks()
	must(s.T, s.rdb.ZRem(s.Context(), deadlined(s.x), "dead:1").Err())
	must(s.T, s.rdb.LRem(s.Context(), queue(s.x), 1, "dead:1").Err())
	returns(s.T, waits, a.Unlock(Fair, s.x))
}

func swept(s *stage) {
	a, _ := s.thread("a")
	s.stand(s.x, "dead:1", time.Now().Add(-time.Second))
	s.stand(s.x, "dead:2", time.Now().Add(-time.Hour))
	is(s.T, true, a.TryLock(Fair, s.x).Bool)
	if n := s.rdb.Exists(s.Context(), queue(s.x), deadlined(s.x)).Val(); n != 0 {
		s.Error("the dead are still in line")
	}
	returns(s.T, a.Unlock(Fair, s.x))
}

// endless: the hold is one that no Redisson makes, but another program might.
func endless(s *stage) {
	a, _ := s.thread("a")
	b, _ := s.thread("b")
	must(s.T, s.rdb.HSet(s.Context(), s.x, "other:1", 1).Err())
	waits := a.Lock(Fair, s.x)
	s.asks()
	must(s.T, s.rdb.Del(s.Context(), s.x).Err())
	returns(s.T, waits, a.Unlock(Fair, s.x))

	must(s.T, s.rdb.HSet(s.Context(), s.x, "other:1", 1).Err())
	asked := s.scripts()
	waits = b.Lock(Plain, s.x)
	until(s.T, "it has asked, listened, and asked again", func() bool { return s.scripts() == asked+2 })
	must(s.T, s.rdb.Del(s.Context(), s.x).Err())
	time.Sleep(200 * time.Millisecond) // that something never happens has no event
	if s.scripts() != asked+2 {
		s.Error("it asked without a message")
	}
	must(s.T, s.rdb.Publish(s.Context(), channel(s.x), "0").Err())
	returns(s.T, waits, b.Unlock(Plain, s.x))
}
