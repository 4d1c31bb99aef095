package world

import (
	"slices"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/redistest"
)

// Took notes a lease. It fails the test if another lease of the lock was trusted in between: that
// is, at an instant between two instants at which this one was trusted.
func (f *Faulty) Took(lease *fairlock.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.leases {
		if other.Name() == lease.Name() && lease.Err() == nil && other.Err() == nil && lease.Err() == nil {
			f.Errorf("%q is trusted by %s with token %d and by %s with token %d", lease.Name(),
				other.Owner(), other.Token(), lease.Owner(), lease.Token())
		}
	}
	f.leases = append(f.leases, lease)
}

// Oldest returns the first lease that the test has received and not unlocked.
func (f *Faulty) Oldest() *fairlock.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leases[0]
}

// Ends takes a lease off the watch list, because its Unlock is about to be called.
func (f *Faulty) Ends(lease *fairlock.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases = slices.DeleteFunc(f.leases, func(l *fairlock.Lease) bool { return l == lease })
}

// Unlocks fails unless the lock is released cleanly.
func (f *Faulty) Unlocks(lease *fairlock.Lease) {
	f.Helper()
	f.Ends(lease)
	if err := lease.Unlock(background); err != nil {
		f.Fatalf("Unlock: %v; on the server:\n%s", err, redistest.Dump(f.Direct))
	}
}

// Keeps fails unless the lease is trusted and the server knows it.
func (f *Faulty) Keeps(lease *fairlock.Lease) {
	f.Helper()
	if err := lease.Err(); err != nil {
		f.Fatalf("it is not trusted: %v", err)
	}
	// The record of a run has the token of its last turn.
	if got := f.Holder(lease.Name()) - lease.Token(); got < 0 || got > max(lua.MaxRun, rules.PlainTurns) {
		f.Fatalf("the record has token %d, and not %d", lease.Token()+got, lease.Token())
	}
}
