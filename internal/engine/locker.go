package engine

import (
	"context"
	"iter"
)

// Interface is what Lockers of all kinds do. Use it where the caller is to choose the kind.
type Interface interface {
	Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error)
	TryLock(ctx context.Context, name string, options ...LockOption) (*Lease, error)
	Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, options ...LockOption) error
	LockAll(ctx context.Context, names []string, options ...LockOption) (*Leases, error)
	DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options ...LockOption) error
	Inspect(ctx context.Context, name string) (*State, error)
	List(ctx context.Context) iter.Seq2[*State, error]
	Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error]
	ForceUnlock(ctx context.Context, name string) error
	Close() error
	Shutdown(ctx context.Context) error
}
