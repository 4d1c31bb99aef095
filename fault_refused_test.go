package fairlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// refusal is what every call must say when it cannot be done.
type refusal struct {
	is   error  // if not nil, what errors.Is finds
	says string // part of the message, or several that may be, with | in between
}

func (r refusal) in(err error) bool {
	return slices.ContainsFunc(strings.Split(r.says, "|"), func(part string) bool { return strings.Contains(err.Error(), part) })
}

// refuses fails unless every call of the Locker says at once what it was, of which lock, and why it failed.
func (f *faulty) refuses(l fairlock.Interface, name string, why refusal, options ...fairlock.LockOption) {
	f.Helper()
	for op, call := range map[string]func() error{
		"lock":    func() error { _, err := l.Lock(faultCtx, name, options...); return err },
		"trylock": func() error { _, err := l.TryLock(faultCtx, name, options...); return err },
		"do": func() error {
			return l.Do(faultCtx, name, func(context.Context, *fairlock.Lease) error {
				f.Error("Do ran its function")
				return nil
			}, options...)
		},
	} {
		f.refused(op, name, why, call)
	}
}

func (f *faulty) refused(op, name string, why refusal, call func() error) {
	f.Helper()
	var err error
	f.within(faultSoon, op, func() { err = call() })
	var told *fairlock.Error
	switch {
	case err == nil:
		f.Errorf("%s succeeded", op)
	case !errors.As(err, &told) || told.Op != op || told.Name != name:
		f.Errorf("%s of %q says %#v", op, name, err)
	case !strings.Contains(err.Error(), op) || !strings.Contains(err.Error(), name) || !why.in(err):
		f.Errorf("%s of %q says %q; it should name %q", op, name, err, why.says)
	case why.is != nil && !errors.Is(err, why.is):
		f.Errorf("%s of %q says %q, which is not %q", op, name, err, why.is)
	}
}

func (f *faulty) inspectRefused(l fairlock.Interface, name string, why refusal) {
	f.Helper()
	f.refused("inspect", name, why, func() error { _, err := l.Inspect(faultCtx, name); return err })
}

func TestAnUnreachableServerIsAClearError(t *testing.T) {
	f := newFaulty(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	f.must(closed.Close())
	u := f.user(&redis.Options{Addr: closed.Addr().String()})
	why := refusal{is: syscall.ECONNREFUSED, says: "connection refused"}
	f.refuses(u.Interface, "x", why)
	f.inspectRefused(u.Interface, "x", why)
}

func TestAServerThatGoesAwayIsAClearErrorToNewcomers(t *testing.T) {
	f := newFaulty(t)
	u := f.beside()
	f.unlocks(u.locks("x"))
	f.server.Kill()
	why := refusal{says: ""}
	f.refuses(u.Interface, "x", why)
	f.inspectRefused(u.Interface, "x", why)
	f.server.Restart()
}

func TestAServerThatIsTooOldIsAClearError(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		f.all(faultproxy.Command("INFO"), faultproxy.RewriteReply(func([]byte) []byte {
			return []byte("$23\r\nredis_version:6.2.14\r\nx\r\n")
		}))
		u := f.behind()
		why := refusal{is: errors.ErrUnsupported, says: "6.2.14"}
		f.refuses(u.Interface, "x", why)
		f.inspectRefused(u.Interface, "x", why)
		f.nobody("x")
	})
}

func TestAReadOnlyReplicaIsAClearError(t *testing.T) {
	f := newFaulty(t)
	master := redistest.Start(t)
	f.must(f.direct.Do(faultCtx, "REPLICAOF", "127.0.0.1", master.Port()).Err())
	f.refuses(f.beside().Interface, "x", refusal{says: "a replica of"})
}

func TestAMissingPasswordIsAClearError(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.ConfigSet(faultCtx, "requirepass", "sesame").Err())
	defer f.direct.ConfigSet(faultCtx, "requirepass", "") // an open connection stays logged in
	u := f.beside()
	f.refuses(u.Interface, "x", refusal{says: "NOAUTH"})
	f.inspectRefused(u.Interface, "x", refusal{says: "NOAUTH"})
	wrong := f.user(&redis.Options{Addr: f.addr, Password: "open"})
	f.refuses(wrong.Interface, "x", refusal{says: "WRONGPASS"})
	f.inspectRefused(wrong.Interface, "x", refusal{says: "WRONGPASS"})
	right := f.user(&redis.Options{Addr: f.addr, Password: "sesame"})
	f.unlocks(right.locks("x"))
}

func TestAUserWhoMayNotPublishIsToldBeforeItHoldsAnything(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "mute", "on", "nopass", "+@all", "~*", "resetchannels").Err())
	u := f.user(&redis.Options{Addr: f.addr, Username: "mute", Password: "any"})
	why := refusal{says: "NOPERM"}
	f.refuses(u.Interface, "x", why)
	f.inspectRefused(u.Interface, "x", why)
	f.nobody("x")
}

func TestAUserWhoMayNotAskForInformationCanLock(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "plain", "on", "nopass", "+@all", "-info", "~fairlock:*", "&fairlock:*").Err())
	u := f.user(&redis.Options{Addr: f.addr, Username: "plain", Password: "any"})
	lease := u.locks("x")
	w := f.beside().queues("x", 1)
	f.unlocks(lease)
	f.served(w)
}

func TestAUserWhoMayNotTouchTheKeysIsToldSo(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "stranger", "on", "nopass", "+@all", "~other:*", "&*").Err())
	u := f.user(&redis.Options{Addr: f.addr, Username: "stranger", Password: "any"})
	f.refuses(u.Interface, "x", refusal{says: "NOPERM"})
	f.inspectRefused(u.Interface, "x", refusal{says: "NOPERM"})
}

func TestAPermissionToPublishThatIsTakenAwayStopsNobody(t *testing.T) {
	f := newFaulty(t)
	grant := func(channels string) {
		f.Helper()
		f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "user", "on", "nopass", "+@all", "~*", "resetchannels", channels).Err())
	}
	grant("&*")
	as := &redis.Options{Addr: f.addr, Username: "user", Password: "any"}
	a, b := f.user(as), f.user(as, fairlock.WithLease(briefLease))
	lease := a.locks("x")
	waits := []*faultWait{a.queues("x", 1), b.queues("x", 2)}
	f.heard(2)
	grant("&other:*")
	f.heard(0)
	f.unlocks(lease)
	f.within(6*time.Second, "a hand-over by heartbeat", func() { waits[0].gets() })
	grant("&*")
	f.served(waits...)
	f.nobody("x")
}

func TestAWaiterThatMayNotSubscribeIsServedAllTheSameAndTheLogSaysToWhat(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "deaf", "on", "nopass", "+@all", "-subscribe", "~*", "&*").Err())
	var log bytes.Buffer
	u := f.user(&redis.Options{Addr: f.addr, Username: "deaf", Password: "any"}, fairlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	lease := f.beside().locks("x")
	w := u.queues("x", 1)
	f.unlocks(lease)
	f.within(claim+enterInterval, "a hand-over by asking", func() { f.unlocks(w.gets()) })
	f.must(u.Close()) // nobody writes to the log any more
	if text := log.String(); !strings.Contains(text, "subscribing to fairlock:wake:") || !strings.Contains(text, "NOPERM") {
		f.Errorf("the log says %s", text)
	}
}
