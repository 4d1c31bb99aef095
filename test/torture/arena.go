package torture

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
)

// seats is how many workers there are at any time.
const seats = 6

// saboteurs is the database user with all rights, whatever rights the other users have.
const saboteurs = "saboteur"

// everybody is the seat of a trouble that affects all.
const everybody = -1

// arena is a server, and the seats of its workers.
type arena struct {
	venue
	server *redistest.Server
	admin  *redis.Client
	seats  [seats]*seat
	losses []loss
	stalls *stalls
}

// seat is a worker's place. A killed worker has a successor on the same proxy.
type seat struct {
	number  int
	proxy   *faultproxy.Proxy // nil: its worker is connected directly
	worker  *workers.Process
	life    *life
	stopped bool
	frozen  bool
	apart   bool // the worker is cut off for long
	spared  bool // or was, and must live to see what comes of that
}

// life is one worker process.
type life struct {
	Process string
	Seat    int
	Born    int64
	Killed  int64         // just before the kill; 0: the process ended in good order
	Dead    int64         // when the process was certainly gone; 0: it ended in good order
	Timeout time.Duration // of the process's client
	journal string
	lockers map[int]*closes // the Lockers that were closed, by number
	stills  []stretch       // in which the process stood still
}

// trouble is something that the saboteur did, to one seat or to everybody.
type trouble struct {
	Kind     string
	Seat     int
	Node     int // what happened to this node of a quorum, or before it, counting from 1
	From, To int64
}

// inTime sorts troubles by when they began.
func inTime(troubles []*trouble) {
	slices.SortStableFunc(troubles, func(a, b *trouble) int { return cmp.Compare(a.From, b.From) })
}

// loss is a loss of the server's data, at some time between From and To. Journal is what the server
// had written until then.
type loss struct {
	From, To int64
	Journal  string
}

func newArena(t testing.TB, seed uint64, dir string) *arena {
	t.Helper()
	a := &arena{venue: newVenue(t, seed, dir)}
	// A killed server loses nothing that it answered, because the operating system keeps what was
	// written. Data is lost only when the saboteur takes the journal away.
	a.server = redistest.Start(t, slices.Concat(workers.JournalArgs(dir), []string{
		"--enable-debug-command", "yes", "--user", saboteurs, "on", "nopass", "~*", "&*", "+@all",
	})...)
	a.admin = a.server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.Username, o.Password = true, saboteurs, "any" })
	a.stalls = watchMachine(a.admin)
	for i := range seats {
		a.seats[i] = &seat{number: i}
		if i < seats-1 {
			a.seats[i].proxy = faultproxy.New(t, a.server.Addr())
			a.seats[i].proxy.Forget()
		}
		a.fill(a.seats[i])
	}
	return a
}

// fill starts a worker.
func (a *arena) fill(s *seat) {
	a.t.Helper()
	addr := a.server.Addr()
	if s.proxy != nil {
		addr = s.proxy.Addr()
	}
	a.hire(s, addr, nil)
}

// kill kills a worker.
func (s *seat) kill() {
	s.life.Killed = now()
	s.worker.Kill()
	s.life.Dead = now()
}

// journalDir is where a server keeps its journal, inside its directory.
const journalDir = "appendonlydir"

// wipe deletes a killed server's data.
func (a *arena) wipe(from int64) {
	a.t.Helper()
	kept := filepath.Join(a.dir, fmt.Sprint("lost-", len(a.losses)))
	err := os.Mkdir(kept, 0o700)
	if err == nil {
		err = os.Rename(filepath.Join(a.dir, journalDir), filepath.Join(kept, journalDir))
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.losses = append(a.losses, loss{From: from, Journal: kept})
}

func now() int64 { return time.Now().UnixNano() }
