package world

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fairlock/locks/fairlock"
)

// Refusal is the error that every call must return when the server cannot execute it.
type Refusal struct {
	Is   error  // if not nil, errors.Is must find it
	Says string // part of the message, or alternatives separated by |
}

func (r Refusal) in(err error) bool {
	return slices.ContainsFunc(strings.Split(r.Says, "|"), func(part string) bool { return strings.Contains(err.Error(), part) })
}

// Refuses fails unless every call of the Locker returns an error at once. The error must name the
// operation, the lock and the reason.
func (f *Faulty) Refuses(l fairlock.Interface, name string, why Refusal, options ...fairlock.LockOption) {
	f.Helper()
	for op, call := range map[string]func() error{
		"lock":    func() error { _, err := l.Lock(background, name, options...); return err },
		"trylock": func() error { _, err := l.TryLock(background, name, options...); return err },
		"do": func() error {
			return l.Do(background, name, func(context.Context, *fairlock.Lease) error {
				f.Error("Do ran its function")
				return nil
			}, options...)
		},
	} {
		f.Refused(op, name, why, call)
	}
}

// Refused is Refuses for one call.
func (f *Faulty) Refused(op, name string, why Refusal, call func() error) {
	f.Helper()
	var err error
	f.Within(Soon, op, func() { err = call() })
	var told *fairlock.Error
	switch {
	case err == nil:
		f.Errorf("%s succeeded", op)
	case !errors.As(err, &told) || told.Op != op || told.Name != name:
		f.Errorf("%s of %q says %#v", op, name, err)
	case !strings.Contains(err.Error(), op) || !strings.Contains(err.Error(), name) || !why.in(err):
		f.Errorf("%s of %q says %q; it should name %q", op, name, err, why.Says)
	case why.Is != nil && !errors.Is(err, why.Is):
		f.Errorf("%s of %q says %q, which is not %q", op, name, err, why.Is)
	}
}

// InspectRefused is Refuses for Inspect alone, because some servers refuse all calls but Inspect.
func (f *Faulty) InspectRefused(l fairlock.Interface, name string, why Refusal) {
	f.Helper()
	f.Refused("inspect", name, why, func() error { _, err := l.Inspect(background, name); return err })
}
