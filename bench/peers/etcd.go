package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdPeer is the recipe that comes with etcd's client.
var etcdPeer = Peer{
	Name: "etcd", Server: Etcd, Module: "go.etcd.io/etcd/client/v3",
	Most: map[string]Limit{
		"handover": {1_024, "a session for each waiter: setting thousands up takes longer than the measurement"},
		"waiters":  {1_000, "a session for each waiter: setting tens of thousands up takes longer than the measurement"},
		"burst":    {1_000, "a session for each waiter: setting tens of thousands up takes longer than the measurement"},
		"leases":   {1_000, "writes to disk for each: setting 100,000 up takes minutes"},
	},
	Open: func(c Config) (Locker, error) { return newEtcd(c) },
	About: "one client; a session tells the waiters of one name apart, so there are as many as wait for one name at once; " +
		"its data on a file system in memory where there is one; a line of none where the workload has one: TryLock",
}

// etcdLocker gives each concurrent user of a name its own session: users of one session would share
// the lock.
type etcdLocker struct {
	client *clientv3.Client
	ttl    int // seconds

	mu       sync.Mutex // guards all below
	sessions []*concurrency.Session
	users    map[string]*etcdUsers
}

// etcdUsers has the sessions that are busy with one name: all below next that are not back.
type etcdUsers struct {
	next int
	back []int
}

func newEtcd(c Config) (*etcdLocker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	l := &etcdLocker{client: client, ttl: max(1, int(c.Lease/time.Second)), users: map[string]*etcdUsers{}}
	if err := l.grow(max(1, c.Waiters)); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return l, nil
}

// grow makes n sessions, some at a time.
func (l *etcdLocker) grow(n int) error {
	var all sync.WaitGroup
	failed := make(chan error, n)
	room := make(chan struct{}, 64)
	for range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			s, err := concurrency.NewSession(l.client, concurrency.WithTTL(l.ttl))
			if err != nil {
				failed <- err
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sessions = append(l.sessions, s)
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// take returns a session that nobody uses for name.
func (l *etcdLocker) take(name string) (*concurrency.Session, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[name]
	if u == nil {
		u = &etcdUsers{}
		l.users[name] = u
	}
	if n := len(u.back); n > 0 {
		i := u.back[n-1]
		u.back = u.back[:n-1]
		return l.sessions[i], i, nil
	}
	if u.next == len(l.sessions) {
		l.mu.Unlock()
		err := l.grow(1)
		l.mu.Lock()
		if err != nil {
			return nil, 0, err
		}
	}
	i := u.next
	u.next++
	return l.sessions[i], i, nil
}

func (l *etcdLocker) giveBack(name string, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[name].back = append(l.users[name].back, i)
}

// Lock cannot tell when it begins to wait. But the lock that it returns knows its place.
func (l *etcdLocker) Lock(ctx context.Context, name string, _ func()) (Lock, error) {
	return l.lock(ctx, name, (*concurrency.Mutex).Lock)
}

// Try asks once.
func (l *etcdLocker) Try(ctx context.Context, name string, _ int) (Lock, error) {
	lock, err := l.lock(ctx, name, (*concurrency.Mutex).TryLock)
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, ErrRefused
	}
	return lock, err
}

func (l *etcdLocker) lock(ctx context.Context, name string, how func(*concurrency.Mutex, context.Context) error) (Lock, error) {
	session, i, err := l.take(name)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(session, name)
	if err := how(m, ctx); err != nil {
		l.giveBack(name, i)
		return nil, err
	}
	return etcdHeld{l, name, i, m}, nil
}

// Close closes the client. The sessions end by themselves.
func (l *etcdLocker) Close() error { return l.client.Close() }

type etcdHeld struct {
	locker  *etcdLocker
	name    string
	session int
	mutex   *concurrency.Mutex
}

// Unlock releases.
func (h etcdHeld) Unlock(ctx context.Context) error {
	err := h.mutex.Unlock(ctx)
	h.locker.giveBack(h.name, h.session)
	return err
}

// Place returns the revision at which etcd wrote the call down. etcd orders waiters by it.
func (h etcdHeld) Place() int64 {
	owner := h.mutex.IsOwner()
	return owner.GetCompare().GetCreateRevision()
}
