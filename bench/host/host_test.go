package host

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/bench/peers"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs that servers are gone; here that is intended
	goleak.VerifyTestMain(m)
}

func serve(t *testing.T, kind string, program func() (string, error)) Server {
	t.Helper()
	if _, err := program(); err != nil {
		if kind == peers.Redis && os.Getenv("FAIRLOCK_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip("NOT SHOWN: ", err)
	}
	server, err := Serve(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

func TestARedisServerTellsWhatClientsAskedForAndEndsForSure(t *testing.T) {
	server := serve(t, peers.Redis, RedisProgram)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1, MaxRetries: -1})
	defer rdb.Close()
	before, err := server.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.Eval(t.Context(), "return redis.call('PING')", nil).Err(); err != nil {
		t.Fatal(err)
	}
	after, err := server.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	did := after.Minus(before)
	if did.Requests([]string{"eval"}) != 1 || did.Commands["ping"] != 1 || did.In == 0 || did.Out == 0 || after.CPU == 0 {
		t.Errorf("after one script that calls PING: %+v", did)
	}
	server.Kill()
	server.Kill() // a second Kill does no harm
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("it still answers")
	}
}

func TestAnEtcdServerTellsWhatItDid(t *testing.T) {
	server := serve(t, peers.Etcd, EtcdProgram)
	stats, err := server.Stats(t.Context())
	if err != nil || stats.CPU == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestALinkDelaysInBothDirectionsAndDoesNotBlock(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		if conn, err := far.Accept(); err == nil {
			_, _ = io.Copy(conn, conn) // echoes until the link is cut
			_ = conn.Close()
		}
	}()
	const delay = 200 * time.Millisecond
	link, err := NewLink(far.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	near, err := net.Dial("tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	const bytes = 20
	began := time.Now()
	for i := range bytes { // all bytes are under way at the same time
		if _, err := near.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	echo := make([]byte, bytes)
	if _, err := io.ReadFull(near, echo); err != nil {
		t.Fatal(err)
	}
	for i, b := range echo {
		if int(b) != i {
			t.Errorf("byte %d is %d", i, b)
		}
	}
	if took := time.Since(began); took < 2*delay || took > bytes*2*delay {
		t.Errorf("there and back took %v over a link of %v", took, delay)
	}
}

func TestAProgramThatIsNotThereIsSaidToBeMissing(t *testing.T) {
	t.Setenv("ETCD_SERVER", "no-such-program")
	if _, err := Serve(peers.Etcd); !errors.Is(err, ErrMissing) {
		t.Errorf("%v, want ErrMissing", err)
	}
}
