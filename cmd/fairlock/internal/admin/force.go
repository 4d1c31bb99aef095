package admin

import (
	"context"
	"errors"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/fairlock"
)

// Force is "fairlock force".
type Force struct {
	locks.Selection
	output.Flags
	Token *int64 `placeholder:"N" help:"Only the ownership that has this token, as show tells it."`
	Name  string `arg:"" complete:"lock" help:"The lock's name."`
}

// Help is the long text of "fairlock force --help".
func (*Force) Help() string {
	return `Ends the present ownership of a lock, whoever has it, and says whose it was. Its holder is told that the lock is lost,
at once or, should its process not listen, with its next renewal; the next in line has the lock. For as long as that
takes two may believe that they have it; the token tells them apart.

It does not ask. Look first, and name what you have seen: if the lock has changed hands meanwhile, nothing is done.

  fairlock show nightly
  fairlock force --token 1764000000000001 nightly

The server compares the token as it ends the ownership; of a quorum, it is compared a round trip before. A plain lock
is meant only with --plain.

--json: name, kind, forced (the holder that was, as of ls) and next (the holder now, or null). If the server cannot
be reached any more when it was ended, there is no next.

Exit codes:
    0  it was ended
    1  nobody has the lock, or it is not the token's any more
   64  the command line makes no sense
   69  the server cannot be reached or used; if it may have been done all the same, standard error says so
   74  standard output cannot be written`
}

// forcedRecord is what force has done, as JSON.
type forcedRecord struct {
	Name   string               `json:"name"`
	Name64 string               `json:"name_base64,omitempty"`
	Kind   string               `json:"kind"`
	Forced *locks.HolderRecord  `json:"forced"`
	Next   **locks.HolderRecord `json:"next,omitempty"` // points to nil: the lock is free now; nil: it could not be looked at
}

// Run is called by kong.
func (v *Force) Run() error {
	process.DropBrokenPipes()
	s, err := v.Open(v.Kinds()...)
	if err != nil {
		return err
	}
	defer s.Close()
	l := s.Lockers[0]
	before, err := v.force(s, l)
	if err != nil {
		return err
	}
	done := &forcedRecord{Name: v.Name, Name64: look.Base64(v.Name), Kind: l.Kind, Forced: before.Holder}
	after, unseen := l.Look(v.Name)
	if unseen == nil {
		done.Next = &after.Holder
	} else {
		unseen = exit.Errorf(exit.Unavailable, "%w; the lock was forced all the same, so look before you repeat it", unseen)
	}
	return errors.Join(unseen, output.Done(v.tell(done), "the lock was forced")) // it is done, whoever has the lock now
}

// mostForces is how often force looks who has the lock, while it passes on before it is forced.
const mostForces = 10

// force ends the ownership that was asked for, and returns the lock as it was before.
func (v *Force) force(s *locks.Store, l locks.Locker) (*locks.Record, error) {
	for range mostForces {
		before, err := l.Look(v.Name)
		switch {
		case err != nil:
			return nil, err
		case before.Holder == nil:
			return nil, v.nobody(s)
		case v.Token != nil && !before.HasToken(*v.Token):
			h := before.Holder
			return nil, exit.Errorf(exit.Nothing, "%q is not held with token %d any more, but by %s (token %s)", v.Name, *v.Token, h.Who(), h.TokenOrWhy())
		}
		s.Notices.Mute() // the notice that a lock was forced
		switch err := l.Force(context.Background(), v.Name, before.Holder.Token); {
		case err == nil:
			return before, nil
		case !errors.Is(err, fairlock.ErrNotHeld):
			return nil, l.FailedChange(err, "look again, and name the token")
		}
	}
	return nil, exit.Errorf(exit.Nothing, "%q passed on each of %d times before it was forced", v.Name, mostForces)
}

// nobody returns the error that there is nothing to force. If the lock of that name is held in the
// other kind, the error says so.
func (v *Force) nobody(s *locks.Store) error {
	for _, other := range s.Lockers[1:] {
		if r, err := other.Look(v.Name); err == nil && r.Holder != nil {
			return exit.Errorf(exit.Nothing, "nobody has the %s lock %q; %s has the %s one: --plain", s.Lockers[0].Kind, v.Name, r.Holder.Who(), other.Kind)
		}
	}
	return exit.Errorf(exit.Nothing, "nobody has the %s lock %q", s.Lockers[0].Kind, v.Name)
}

func (v *Force) tell(r *forcedRecord) error {
	p := v.Page()
	p.Object(r)
	h := r.Forced
	p.Say("%s: ended the ownership of %s (token %s), who had it for %s", p.Paint(output.Bold, output.Clean(r.Name)), h.Who(), h.TokenOrWhy(), output.Span(h.Held))
	switch {
	case r.Next == nil:
	case *r.Next != nil:
		next := *r.Next
		p.Say("%s: %s has it now (token %s)", p.Paint(output.Bold, output.Clean(r.Name)), next.Who(), next.TokenOrWhy())
	default:
		p.Say("%s: nobody has it now", p.Paint(output.Bold, output.Clean(r.Name)))
	}
	return p.Print()
}
