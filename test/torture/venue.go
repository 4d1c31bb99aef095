package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlock/locks/test/workers"
)

// venue is what a single server and a quorum have in common: the resource, the processes, and the
// troubles. It belongs to the test's own goroutine.
type venue struct {
	schedule
	t        testing.TB
	dir      string // of the journals
	resource *resource
	lives    []*life
}

func newVenue(t testing.TB, seed uint64, dir string) venue {
	t.Helper()
	return venue{schedule: schedule{random: rand.New(rand.NewPCG(seed, 0))}, t: t, dir: dir, resource: newResource(t)}
}

// hire starts a worker in a seat, for the server at addr or for the nodes of a quorum.
func (v *venue) hire(s *seat, addr string, nodes []string) {
	v.t.Helper()
	name := fmt.Sprintf("p%d", len(v.lives))
	o := orders{
		Process: name, Addr: addr, Nodes: nodes, Resource: v.resource.listener.Addr().String(),
		Journal: filepath.Join(v.dir, name+".jsonl"), Seed: v.random.Uint64(),
		Timeout: []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second}[v.random.IntN(3)], Obeys: v.random.IntN(2) == 0,
	}
	told, err := json.Marshal(o)
	v.ok(err)
	s.life = &life{Process: name, Seat: s.number, Born: now(), Timeout: o.Timeout, journal: o.Journal}
	v.lives = append(v.lives, s.life)
	s.worker = workers.Launch(v.t, name, environment+"="+string(told), func(out io.Reader) { _, _ = io.Copy(io.Discard, out) })
	s.stopped = false
}

// dismiss lets the workers end their calls, all but the last. That one is killed in the middle of
// its work. dismiss returns how long the others took.
func (v *venue) dismiss(seats []*seat) time.Duration {
	v.t.Helper()
	time.Sleep(peace)
	began, last := time.Now(), seats[len(seats)-1]
	for _, s := range seats[:len(seats)-1] {
		s.worker.Dismiss()
	}
	for _, s := range seats[:len(seats)-1] {
		if s.worker.Gone(time.Until(began.Add(ending))) {
			s.worker.Quit()
		} else {
			s.worker.Kill() // its journal tells what the worker waits for
		}
	}
	took := time.Since(began)
	last.kill()
	return took
}

// saves writes what the saboteur did beside the journals, for whoever keeps those.
func (v *venue) saves(losses []loss) {
	v.t.Helper()
	inTime(v.troubles)
	text, err := json.MarshalIndent(struct {
		Lives    []*life
		Troubles []*trouble
		Losses   []loss `json:",omitempty"`
	}{v.lives, v.troubles, losses}, "", "\t")
	v.ok(err)
	v.ok(os.WriteFile(filepath.Join(v.dir, "sabotage.json"), text, 0o600))
}

// ok ends the test if a step failed that nobody disturbs.
func (v *venue) ok(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}
