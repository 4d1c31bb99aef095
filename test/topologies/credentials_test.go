package topologies

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// vault keeps the present password, and tells its subscribers of the next one.
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

// Subscribe makes vault a StreamingCredentialsProvider.
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
	tests := make(map[string]func(*testing.T))
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
		tests[name] = func(t *testing.T) {
			f := world.NewFaulty(t)
			v := &vault{listeners: map[auth.CredentialsListener]bool{}}
			rotate := func(password string) {
				f.Must(f.Direct.Do(context.Background(), "ACL", "SETUSER", "app", "reset", "on", "+@all", "~*", "&*", ">"+password).Err())
				v.rotate(password)
			}
			rotate("first")
			user := func() *world.User {
				o := &redis.Options{Addr: f.Addr}
				from(o, v)
				return f.User(o, fairlock.WithLease(world.CalmLease))
			}
			lease := user().Locks("x")
			w := user().Queues("x", 1)
			f.Heard(1)
			for _, password := range []string{"second", "third"} {
				rotate(password)
				f.Must(f.Direct.Do(context.Background(), "CLIENT", "KILL", "USER", "app").Err())
				f.RenewedAfter(lease)
			}
			f.Heard(1)
			w.Waits()
			f.Must(lease.Err())
			f.Unlocks(lease)
			f.Within(world.Claim, "the hand-over", func() { f.Unlocks(w.Gets()) })
		}
	}
	world.Together(t, tests)
}

func TestAPasswordThatIsWrongAfterARotationIsAClearError(t *testing.T) {
	f := world.NewFaulty(t)
	f.Must(f.Direct.Do(context.Background(), "ACL", "SETUSER", "app", "on", "+@all", "~*", "&*", ">first").Err())
	u := f.User(&redis.Options{Addr: f.Addr, Username: "app", Password: "first"})
	f.Unlocks(u.Locks("x"))
	f.Must(f.Direct.Do(context.Background(), "ACL", "SETUSER", "app", "resetpass", ">second").Err())
	f.Must(f.Direct.Do(context.Background(), "CLIENT", "KILL", "USER", "app").Err())
	f.Refuses(u.Interface, "x", world.Refusal{Says: "WRONGPASS"})
}
