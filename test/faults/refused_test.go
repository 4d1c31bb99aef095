package faults

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestAnUnreachableServerIsAClearError(t *testing.T) {
	f := newFaulty(t)
	u := f.User(&redis.Options{Addr: "127.0.0.1:1"})
	why := world.Refusal{Is: syscall.ECONNREFUSED, Says: "connection refused"}
	f.Refuses(u.Interface, "x", why)
	f.InspectRefused(u.Interface, "x", why)
}

func TestAServerThatGoesAwayIsAClearErrorToNewcomers(t *testing.T) {
	f := newFaulty(t)
	u := f.Beside()
	f.Unlocks(u.Locks("x"))
	f.Server.Kill()
	why := world.Refusal{Says: ""}
	f.Refuses(u.Interface, "x", why)
	f.InspectRefused(u.Interface, "x", why)
	f.Server.Restart()
}

func TestAServerThatIsTooOldIsAClearError(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		f.All(faultproxy.Command("INFO"), faultproxy.RewriteReply(func([]byte) []byte {
			return []byte("$23\r\nredis_version:6.2.14\r\nx\r\n")
		}))
		u := f.Behind()
		why := world.Refusal{Is: errors.ErrUnsupported, Says: "6.2.14"}
		f.Refuses(u.Interface, "x", why)
		f.InspectRefused(u.Interface, "x", why)
		f.nobody("x")
	})
}

func TestAReadOnlyReplicaIsAClearError(t *testing.T) {
	f := newFaulty(t)
	master := redistest.Start(t)
	f.Must(f.Direct.Do(background, "REPLICAOF", "127.0.0.1", master.Port()).Err())
	f.Refuses(f.Beside().Interface, "x", world.Refusal{Says: "a replica of"})
}

func TestAMissingPasswordIsAClearError(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.ConfigSet(background, "requirepass", "sesame").Err())
	defer f.Direct.ConfigSet(background, "requirepass", "") // an open connection stays logged in
	u := f.Beside()
	f.Refuses(u.Interface, "x", world.Refusal{Says: "NOAUTH"})
	f.InspectRefused(u.Interface, "x", world.Refusal{Says: "NOAUTH"})
	wrong := f.User(&redis.Options{Addr: f.Addr, Password: "open"})
	f.Refuses(wrong.Interface, "x", world.Refusal{Says: "WRONGPASS"})
	f.InspectRefused(wrong.Interface, "x", world.Refusal{Says: "WRONGPASS"})
	right := f.User(&redis.Options{Addr: f.Addr, Password: "sesame"})
	f.Unlocks(right.Locks("x"))
}

func TestAUserWhoMayNotPublishIsToldBeforeItHoldsAnything(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.Do(background, "ACL", "SETUSER", "mute", "on", "nopass", "+@all", "~*", "resetchannels").Err())
	u := f.User(&redis.Options{Addr: f.Addr, Username: "mute", Password: "any"})
	why := world.Refusal{Says: "NOPERM"}
	f.Refuses(u.Interface, "x", why)
	f.InspectRefused(u.Interface, "x", why)
	f.nobody("x")
}

func TestAUserWhoMayNotAskForInformationCanLock(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.Do(background, "ACL", "SETUSER", "plain", "on", "nopass", "+@all", "-info", "~fairlock:*", "&fairlock:*").Err())
	u := f.User(&redis.Options{Addr: f.Addr, Username: "plain", Password: "any"})
	lease := u.Locks("x")
	w := f.Beside().Queues("x", 1)
	f.Unlocks(lease)
	f.Served(w)
}

func TestAUserWhoMayNotTouchTheKeysIsToldSo(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.Do(background, "ACL", "SETUSER", "stranger", "on", "nopass", "+@all", "~other:*", "&*").Err())
	u := f.User(&redis.Options{Addr: f.Addr, Username: "stranger", Password: "any"})
	f.Refuses(u.Interface, "x", world.Refusal{Says: "NOPERM"})
	f.InspectRefused(u.Interface, "x", world.Refusal{Says: "NOPERM"})
}

func TestAPermissionToPublishThatIsTakenAwayStopsNobody(t *testing.T) {
	f := newFaulty(t)
	grant := func(channels string) {
		f.Helper()
		f.Must(f.Direct.Do(background, "ACL", "SETUSER", "user", "on", "nopass", "+@all", "~*", "resetchannels", channels).Err())
	}
	grant("&*")
	as := &redis.Options{Addr: f.Addr, Username: "user", Password: "any"}
	a, b := f.User(as), f.User(as, fairlock.WithLease(world.CalmLease))
	lease := a.Locks("x")
	waits := []*world.Wait{a.Queues("x", 1), b.Queues("x", 2)}
	f.Heard(2)
	grant("&other:*")
	f.Heard(0)
	f.Unlocks(lease)
	f.Within(world.Claim+world.EnterInterval, "a hand-over by heartbeat", func() { waits[0].Gets() })
	grant("&*")
	f.Served(waits...)
	f.nobody("x")
}

func TestAWaiterThatMayNotSubscribeIsServedAllTheSameAndTheLogSaysToWhat(t *testing.T) {
	f := newFaulty(t)
	f.Must(f.Direct.Do(background, "ACL", "SETUSER", "deaf", "on", "nopass", "+@all", "-subscribe", "~*", "&*").Err())
	var log bytes.Buffer
	u := f.User(&redis.Options{Addr: f.Addr, Username: "deaf", Password: "any"}, fairlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	lease := f.Beside().Locks("x")
	w := u.Queues("x", 1)
	f.Unlocks(lease)
	f.Within(world.Claim+world.EnterInterval, "a hand-over by asking", func() { f.Unlocks(w.Gets()) })
	f.Must(u.Close()) // nobody writes to the log from here on
	if text := log.String(); !strings.Contains(text, "subscribing to fairlock:wake:") || !strings.Contains(text, "NOPERM") {
		f.Errorf("the log says %s", text)
	}
}
