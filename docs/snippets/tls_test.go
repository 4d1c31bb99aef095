package snippets_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// overTLS is the guide's client.
func overTLS(addr, caFile, certFile, keyFile string) (*redis.Client, error) {
	//guide:operations.md
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, errors.New("no certificate in " + caFile)
	}
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{own}
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
	//guide:end
	return rdb, nil
}

func TestTheGuidesClientWaitsOverTLS(t *testing.T) {
	authority := redistest.NewAuthority(t)
	s := redistest.StartTLS(t, authority, "--tls-auth-clients", "yes")
	rdb, err := overTLS(s.TLSAddr, s.CAFile, s.CertFile, s.KeyFile)
	must(t, err)
	defer rdb.Close()
	locker := fairlock.New(rdb)
	defer locker.Close()
	handsOver(t, locker, take(t, locker, "x"))
}

func TestTheGuidesClientGoesOnWithTheNextPassword(t *testing.T) {
	s := redistest.Start(t)
	admin := s.Client(t)
	addr := s.Addr()
	var secret atomic.Value
	//guide:operations.md
	rdb := redis.NewClient(&redis.Options{Addr: addr, CredentialsProvider: func() (user, password string) {
		return "app", secret.Load().(string)
	}})
	//guide:end
	defer rdb.Close()
	rotate := func(password string) {
		must(t, admin.Do(t.Context(), "ACL", "SETUSER", "app", "resetpass", "on", "+@all", "~*", "&*", ">"+password).Err())
		secret.Store(password)
	}
	rotate("first")
	locker := fairlock.New(rdb)
	defer locker.Close()
	lease := take(t, locker, "x")
	rotate("second")
	must(t, admin.Do(t.Context(), "CLIENT", "KILL", "USER", "app").Err())
	handsOver(t, locker, lease)
}

// handsOver unlocks for one that waits, who hears of it before it would ask by itself.
func handsOver(t *testing.T, locker *fairlock.Locker, lease *fairlock.Lease) {
	t.Helper()
	queued, next := make(chan struct{}), make(chan error)
	go func() {
		got, err := locker.Lock(t.Context(), "x", fairlock.WaitAtMost(time.Minute), fairlock.OnQueued(func(int) { close(queued) }))
		next <- errors.Join(err, got.Unlock(t.Context()))
	}()
	<-queued
	must(t, lease.Unlock(t.Context()))
	must(t, <-next)
}
