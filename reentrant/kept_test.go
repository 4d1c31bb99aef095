package reentrant

import (
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
)

func TestAPlainCallThatWasToldThatItWaitsGoesOnThroughDialsThatFail(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	l := New(rdb)
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	c := &call{Call: engine.Call{Request: engine.Request{Wait: -1}}}
	if l.patient(c, refused) {
		t.Error("a first request that cannot be sent is no error")
	}
	c.position = 1
	if !l.patient(c, refused) {
		t.Error("it gives up")
	}
}
