package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
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

// arena is a server, the resource, and the seats of the workers. It belongs to the test's own
// goroutine.
type arena struct {
	schedule
	t        testing.TB
	dir      string // of the journals of the server and the workers
	server   *redistest.Server
	admin    *redis.Client
	resource *resource
	seats    [seats]*seat
	lives    []*life
	losses   []loss
	stalls   *stalls
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

// loss is a loss of the server's data, at some time between From and To. Journal is what the server
// had written until then.
type loss struct {
	From, To int64
	Journal  string
}

func newArena(t testing.TB, seed uint64, dir string) *arena {
	t.Helper()
	a := &arena{schedule: schedule{random: rand.New(rand.NewPCG(seed, 0))}, t: t, dir: dir}
	// A killed server loses nothing that it answered, because the operating system keeps what was
	// written. Data is lost only when the saboteur takes the journal away.
	a.server = redistest.Start(t, slices.Concat(workers.JournalArgs(dir), []string{
		"--enable-debug-command", "yes", "--user", saboteurs, "on", "nopass", "~*", "&*", "+@all",
	})...)
	a.admin = a.server.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.Username, o.Password = true, saboteurs, "any" })
	a.resource = newResource(t)
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
	name := fmt.Sprintf("p%d", len(a.lives))
	o := orders{
		Process: name, Addr: a.server.Addr(), Resource: a.resource.listener.Addr().String(),
		Journal: filepath.Join(a.dir, name+".jsonl"), Seed: a.random.Uint64(),
		Timeout: []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second}[a.random.IntN(3)], Obeys: a.random.IntN(2) == 0,
	}
	if s.proxy != nil {
		o.Addr = s.proxy.Addr()
	}
	told, err := json.Marshal(o)
	if err != nil {
		a.t.Fatal(err)
	}
	s.life = &life{Process: name, Seat: s.number, Born: now(), Timeout: o.Timeout, journal: o.Journal}
	a.lives = append(a.lives, s.life)
	s.worker = workers.Launch(a.t, name, environment+"="+string(told), func(out io.Reader) { _, _ = io.Copy(io.Discard, out) })
	s.stopped = false
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

// write saves what the saboteur did beside the journals, for whoever keeps those.
func (a *arena) write() {
	a.t.Helper()
	text, err := json.MarshalIndent(struct {
		Lives    []*life
		Troubles []*trouble
		Losses   []loss
	}{a.lives, a.troubles, a.losses}, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(a.dir, "sabotage.json"), text, 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// ok ends the test if a step failed that nobody disturbs.
func (a *arena) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func now() int64 { return time.Now().UnixNano() }
