package fairlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/fairlock/locks/fairlock"
)

// vault keeps the password that is right at present, and tells those who subscribe of the next one.
type vault struct {
	mu        sync.Mutex // guards all below
	password  string
	listeners map[auth.CredentialsListener]bool
}

func (v *vault) credentials() (user, password string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return "app", v.password
}

// Subscribe makes it a StreamingCredentialsProvider.
func (v *vault) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners[l] = true
	return auth.NewBasicCredentials("app", v.password), func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.listeners, l)
		return nil
	}, nil
}

func (v *vault) rotate(password string) {
	v.mu.Lock()
	v.password = password
	var told []auth.CredentialsListener
	for l := range v.listeners {
		told = append(told, l)
	}
	v.mu.Unlock()
	for _, l := range told {
		l.OnNext(auth.NewBasicCredentials("app", password))
	}
}

func TestThoseWhoHoldAndWaitGoOnWhenThePasswordRotatesAndOldConnectionsEnd(t *testing.T) {
	for name, from := range map[string]func(*redis.Options, *vault){
		"a provider": func(o *redis.Options, v *vault) { o.CredentialsProvider = v.credentials },
		"a provider with a context": func(o *redis.Options, v *vault) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				user, password := v.credentials()
				return user, password, nil
			}
		},
		"a stream": func(o *redis.Options, v *vault) { o.StreamingCredentialsProvider = v },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t)
			v := &vault{listeners: map[auth.CredentialsListener]bool{}}
			rotate := func(password string) {
				f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "app", "reset", "on", "+@all", "~*", "&*", ">"+password).Err())
				v.rotate(password)
			}
			rotate("first")
			user := func() *faultUser {
				o := &redis.Options{Addr: f.addr}
				from(o, v)
				return f.user(o, fairlock.WithLease(time.Second))
			}
			lease := user().locks("x")
			w := user().queues("x", 1)
			f.heard(1)
			for _, password := range []string{"second", "third"} {
				rotate(password)
				f.must(f.direct.Do(faultCtx, "CLIENT", "KILL", "USER", "app").Err())
				f.renewedAfter(lease)
			}
			f.heard(1)
			w.waits()
			f.must(lease.Err())
			f.unlocks(lease)
			f.within(claim, "the hand-over", func() { f.unlocks(w.gets()) })
		})
	}
}

// renewedAfter returns when the lease has been renewed on connections that are made from now on.
func (f *faulty) renewedAfter(lease *fairlock.Lease) {
	f.Helper()
	for range 2 { // the first may have been under way
		until := lease.Deadline()
		f.until("the lease is renewed", func() bool { return lease.Deadline().After(until) || lease.Err() != nil })
	}
	f.must(lease.Err())
}

func TestAPasswordThatIsWrongAfterARotationIsAClearError(t *testing.T) {
	f := newFaulty(t)
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "app", "on", "+@all", "~*", "&*", ">first").Err())
	u := f.user(&redis.Options{Addr: f.addr, Username: "app", Password: "first"})
	f.unlocks(u.locks("x"))
	f.must(f.direct.Do(faultCtx, "ACL", "SETUSER", "app", "resetpass", ">second").Err())
	f.must(f.direct.Do(faultCtx, "CLIENT", "KILL", "USER", "app").Err())
	f.refuses(u.Interface, "x", refusal{says: "WRONGPASS"})
}
