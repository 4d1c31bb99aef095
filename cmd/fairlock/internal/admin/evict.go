package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// Evict is "fairlock evict".
type Evict struct {
	locks.Keyspace
	output.Flags
	Name   string `arg:"" complete:"lock" help:"The lock's name."`
	Waiter string `arg:"" complete:"waiter" help:"The waiter's id, as show tells it, or the beginning of it."`
}

// Help is the long text of "fairlock evict --help".
func (*Evict) Help() string {
	return `Takes one waiter out of the line of a fair lock, named by the id that show tells. Its call returns ErrEvicted, at once
or, should its process not listen, with its next heartbeat. The beginning of an id will do if no other begins so.

  fairlock show nightly
  fairlock evict nightly 0198c5c2-7a3e-7d1b-9f0a-3c5d7e9f1a2b:4

--json: name and evicted (the waiter, as of show; of one that was not seen in line only the id).

Exit codes:
    0  it was evicted
    1  there is no such waiter, or it was granted the lock meanwhile; or of a quorum, it is not among the first 500
   64  the command line makes no sense; also an id that several begin with
   69  the server cannot be reached or used; if it may have been done all the same, standard error says so
   74  standard output cannot be written`
}

// evictedRecord is what evict has done, as JSON.
type evictedRecord struct {
	Name    string              `json:"name"`
	Name64  string              `json:"name_base64,omitempty"`
	Evicted *locks.WaiterRecord `json:"evicted"`
}

// Run is called by kong.
func (v *Evict) Run() error {
	process.DropBrokenPipes()
	s, err := v.Open(locks.Fair)
	if err != nil {
		return err
	}
	defer s.Close()
	l := s.Lockers[0]
	waiter, err := v.evict(l)
	if err != nil {
		return err
	}
	p := v.Page()
	p.Object(&evictedRecord{v.Name, look.Base64(v.Name), waiter})
	where := ""
	if waiter.Place > 0 {
		where = fmt.Sprintf(", who had place %d and waited for %s", waiter.Place, output.Span(waiter.Waited))
	}
	p.Say("%s: evicted %s%s", p.Paint(output.Bold, output.Clean(v.Name)), called(waiter), where)
	return output.Done(p.Print(), "the waiter was evicted")
}

// evict evicts the waiter, and returns who it was. A whole id need not be seen: a long line moves
// up while it is read.
func (v *Evict) evict(l locks.Locker) (*locks.WaiterRecord, error) {
	r, err := l.Look(v.Name)
	if err != nil {
		return nil, err
	}
	waiter, unseen := v.find(r)
	switch {
	case unseen != nil && !v.whole():
		return nil, unseen
	case unseen != nil:
		waiter = &locks.WaiterRecord{ID: v.Waiter}
	}
	// Only locks of this kind, and those of a quorum, have a line.
	err = l.Interface.(locks.Evicter).Evict(context.Background(), v.Name, waiter.ID)
	switch {
	case err == nil:
		return waiter, nil
	case unseen != nil && locks.NoWaiter(err):
		return nil, unseen
	}
	return nil, l.FailedChange(err, "look again, and give the whole id")
}

// whole reports whether the command line has a whole id.
func (v *Evict) whole() bool { return strings.Contains(v.Waiter, ":") }

// find returns the waiter that the command line means.
func (v *Evict) find(r *locks.Record) (*locks.WaiterRecord, error) {
	var like []*locks.WaiterRecord
	begins := v.Waiter != "" && !v.whole() // a whole id may begin another one
	for i := range r.Waiters {
		switch w := &r.Waiters[i]; {
		case w.ID == v.Waiter:
			return w, nil
		case begins && strings.HasPrefix(w.ID, v.Waiter):
			like = append(like, w)
		}
	}
	switch told := len(r.Waiters); {
	case len(like) == 0 && told < r.Waiting: // of a quorum: the library sees no more of it either
		return nil, exit.Errorf(exit.Nothing, "nobody with the id %q is among the first %d of %d who wait for %q", v.Waiter, told, r.Waiting, v.Name)
	case len(like) == 0:
		return nil, exit.Errorf(exit.Nothing, "nobody with the id %q waits for %q", v.Waiter, v.Name)
	case len(like) == 1:
		return like[0], nil
	default:
		return nil, exit.Errorf(exit.Usage, "%d waiters of %q have ids that begin with %q", len(like), v.Name, v.Waiter)
	}
}

// called names the waiter for people, with or without a note.
func called(w *locks.WaiterRecord) string {
	if who := w.Who(); who != "" {
		return who
	}
	return output.Clean(w.ID)
}

// Predict returns the names of locks, or the ids of a lock's waiters, for completion.
func (v *Evict) Predict(ctx context.Context, what string) []locks.Candidate {
	if what == "waiter" {
		return v.waiters(ctx)
	}
	return v.Names(ctx, locks.Fair)
}

// waiters returns the ids of the lock's waiters.
func (v *Evict) waiters(ctx context.Context) (all []locks.Candidate) {
	v.Hurry()
	s, err := v.Open(locks.Fair)
	if err != nil {
		return nil
	}
	defer s.Close()
	s.Notices.Mute()
	state, err := s.Lockers[0].Inspect(ctx, v.Name)
	if err != nil {
		return nil
	}
	for i, w := range locks.NewRecord(s.Lockers[0].Kind, state).Waiters {
		all = append(all, locks.Candidate{Word: w.ID, About: w.Who() + ", place " + look.Count(i+1)})
	}
	return all
}
