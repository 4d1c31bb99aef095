package snippets_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd is a client of a server of the test's own.
func etcd(t *testing.T) *clientv3.Client {
	t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("ETCD_SERVER"), "etcd"))
	if err != nil {
		t.Skip("there is no etcd on the PATH or in ETCD_SERVER (Debian: etcd-server); what is said of it is compiled only")
	}
	clients, peers := "http://"+freeAddress(t), "http://"+freeAddress(t)
	server := exec.Command(program, "--name", "one", "--data-dir", t.TempDir(), "--log-level", "fatal",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "one="+peers)
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for limit := time.Now().Add(time.Minute); !healthy(clients); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("etcd does not answer")
		}
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{clients}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func healthy(url string) bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url + "/health")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func TestComingFromEtcd(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	ours := func(work func(context.Context) error) error {
		//guide:coming-from.md
		lease, err := locker.Lock(ctx, "/order/42")
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		return work(lease.Context())
		//guide:end
	}
	var j job
	must(t, ours(j.part("work")))
	client := etcd(t)
	theirs := func(work func(context.Context) error) error {
		//guide:coming-from.md
		session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
		if err != nil {
			return err
		}
		defer session.Close()
		mutex := concurrency.NewMutex(session, "/order/42")
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		defer mutex.Unlock(ctx)
		return work(session.Ctx())
		//guide:end
	}
	must(t, theirs(j.part("work")))
	if len(j.done) != 2 {
		t.Errorf("did %q", j.done)
	}
	whatTheGuideSaysOfEtcdIsSo(t, client)
}

func whatTheGuideSaysOfEtcdIsSo(t *testing.T, client *clientv3.Client) {
	session, err := concurrency.NewSession(client)
	must(t, err)
	defer session.Close()
	left, err := client.TimeToLive(t.Context(), session.Lease())
	must(t, err)
	if left.GrantedTTL != 60 {
		t.Errorf("a session lasts for %d s", left.GrantedTTL)
	}
	one, two := concurrency.NewMutex(session, "/order/42"), concurrency.NewMutex(session, "/order/42")
	must(t, one.Lock(t.Context()))
	must(t, two.Lock(t.Context())) // both
	other, err := concurrency.NewSession(client)
	must(t, err)
	defer other.Close()
	third := concurrency.NewMutex(other, "/order/42")
	if err := third.TryLock(t.Context()); !errors.Is(err, concurrency.ErrLocked) {
		t.Errorf("a third one: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one.Unlock(over); err == nil {
		t.Error("it unlocks with a context that has ended")
	}
	must(t, one.Unlock(t.Context()))
	if err := third.TryLock(t.Context()); err != nil { // though two has not unlocked
		t.Error(err)
	}
}
