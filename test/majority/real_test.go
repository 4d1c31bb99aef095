package majority

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/redislua"
)

// change is a mutation of a script or of the rules: old must be there exactly once, and with
// replaces it.
type change struct{ file, old, with string }

// made is the text of the file with the change.
func (c change) made(text string) (string, error) {
	if n := strings.Count(text, c.old); n != 1 {
		return "", fmt.Errorf("%s has %d times what is to be changed: %q", c.file, n, c.old)
	}
	return strings.Replace(text, c.old, c.with, 1), nil
}

// script is a node that runs the .lua files.
type script struct {
	*testing.T
	mini       *miniredis.Miniredis
	runner     *redislua.Runner
	subscriber *miniredis.Subscriber
	scripts    map[string]string
	run        int8
	reply      bytes.Buffer
	peer       *server.Peer
}

const (
	channels = "test:wake:1:"
	setName  = "node 1 of a set"
)

var (
	keys  = [...]string{"test:lock:x", "test:queue:x", "test:waiters:x", "test:token:x", "test:node"}
	names = [most + 1]string{"a", "b", "c", "z"}
	epoch = time.UnixMilli(1_900_000_000_000)
)

func newReal(t *testing.T, changes ...change) *script {
	t.Helper()
	r := &script{T: t, mini: miniredis.RunT(t), scripts: make(map[string]string), run: 1}
	r.peer = server.NewPeer(bufio.NewWriter(&r.reply))
	var err error
	if r.runner, err = redislua.New(r.mini); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.runner.Close)
	r.mini.SetTime(epoch)
	r.mini.ClockTTL(true)
	r.subscriber = r.mini.NewSubscriber()
	t.Cleanup(r.subscriber.Close)
	r.mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "INFO" {
			c.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%d\r\n", r.run))
		}
		return cmd == "INFO"
	})
	made := make(map[string]bool)
	read := func(name string) string {
		raw, err := os.ReadFile("../../quorum/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, c := range changes {
			if c.file == name {
				if text, err = c.made(text); err != nil {
					t.Fatal(err)
				}
				made[c.file+c.old] = true
			}
		}
		return text
	}
	for _, name := range []string{"enter", "leave", "beat", "renew"} {
		r.scripts[name] = lua.Whole(name+".lua", read)
	}
	for _, c := range changes {
		if !made[c.file+c.old] {
			t.Fatalf("%s is in no script", c.file)
		}
	}
	return r
}

func ticket(c int8) string { return fmt.Sprintf("%s:1:%d::", names[c], claim) }

func markKey(c int8) string { return "test:gone:x:" + names[c] + ":1" }

// does runs a script, and returns its reply and the messages.
func (r *script) does(script string, keys []string, args ...any) (reply []any, told []string) {
	r.Helper()
	all := []string{strconv.Itoa(len(keys))}
	all = append(all, keys...)
	for _, a := range args {
		all = append(all, fmt.Sprint(a))
	}
	r.reply.Reset()
	done := make(chan struct{})
	go func() { // who publishes waits for the reader
		defer close(done)
		r.runner.Run(r.peer, r.scripts[script], all)
	}()
	for going := true; going; {
		select {
		case m := <-r.subscriber.Messages():
			told = append(told, m.Message)
		case <-done:
			going = false
		}
	}
	r.peer.Flush()
	v, err := server.ParseReply(bufio.NewReader(&r.reply))
	if err != nil {
		r.Fatal(script, err)
	}
	list, ok := v.([]any)
	if n, short := v.(int); short { // as package lua has it
		list, ok = []any{n}, true
	}
	if !ok {
		r.Fatalf("%s: %v", script, v)
	}
	return list, told
}

// hears has a client subscribed, or not.
func (r *script) hears(c int8, on bool) {
	if on {
		r.subscriber.Subscribe(channels + names[c])
	} else {
		r.subscriber.Unsubscribe(channels + names[c])
	}
}
