package redislua

import (
	"bufio"
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripts are run one after the other.
var scripts = []string{
	"return 1", "return 3.7", "return 'text'", "return true", "return false", "return nil", "return",
	"return {1, 'two', {3, {}}, false, true, 3.2}", "return {1, nil, 3}", "return {}", "return {ok = 'fine'}", "return {err = 'ERR no'}",
	"return redis.error_reply('BAD thing')", "return redis.error_reply('-bad')", "return redis.error_reply('bad')",
	"return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], #KEYS, #ARGV}",
	"return redis.call('SET', KEYS[1], ARGV[1])", "return redis.call('GET', KEYS[1])", "return redis.call('GET', 'none')",
	"return redis.call('SET', KEYS[1], 12.5)", "return redis.call('GET', KEYS[1])", "return redis.call('SET', KEYS[1], 2^53)",
	"return redis.call('GET', KEYS[1]) + 1", "return redis.call('INCRBY', KEYS[1], 1)", "return type(redis.call('GET', 'none'))",
	"return redis.call('LPUSH', KEYS[1], 'x')", "return redis.pcall('LPUSH', KEYS[1], 'x')", "return redis.pcall('LPUSH', KEYS[1], 'x').err",
	"return redis.call('DEL', KEYS[1], KEYS[2])", "return redis.call('RPUSH', KEYS[1], 'a', 'b', 'c')", "return redis.call('LRANGE', KEYS[1], 0, -1)",
	"return #redis.call('LRANGE', KEYS[1], 0, -1)", "return redis.call('HMGET', KEYS[2], 'a', 'b')", "return redis.call('HSET', KEYS[2], 'b', 'B')",
	"return redis.call('HMGET', KEYS[2], 'a', 'b')", "return redis.call('TIME')", "return redis.call('PTTL', KEYS[1])",
	"return redis.call('ZADD', 'z', -1.5, 'm')", "return redis.call('ZSCORE', 'z', 'm')", "return redis.call('ZRANGEBYSCORE', 'z', '-inf', '+inf', 'WITHSCORES')",
	"return redis.call('PUBLISH', 'channel', 'x')", "return redis.pcall('GET').err ~= nil", "return redis.call('PING')", "return redis.call('PING').ok",
	"return tostring(nosuch)", "nosuch = 1 return 1", "return pcall(function() nosuch = 1 end)", "local function f() return 1 end return f()",
	"return string.format('%d', 2^52)", "return tostring(1e15)", "return math.max(1, 2)", "return table.concat({1, 2}, ',')", "return {string.find('abc', 'c')}",
	"error('own')", "return 1 +", "return redis.call('SET', KEYS[1], {})", "return redis.call()", "return #nil",
}

func TestEveryScriptHasTheAnswerThatMiniredisGives(t *testing.T) {
	theirs, ours := miniredis.RunT(t), miniredis.RunT(t)
	now := time.Now()
	theirs.SetTime(now)
	ours.SetTime(now)
	r, err := New(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 { // what one script leaves behind does not change the others
		for _, script := range scripts {
			args := []string{"2", "{k}1", "{k}2", "one", "2"}
			want := answer(func(p *server.Peer) { theirs.Server().Dispatch(p, append([]string{"EVAL", script}, args...)) })
			got := answer(func(p *server.Peer) { r.Run(p, script, args) })
			if got != want {
				t.Errorf("%s: %q, but miniredis says %q", script, got, want)
			}
		}
	}
	if got, want := ours.Dump(), theirs.Dump(); got != want {
		t.Errorf("the keys are then\n%s\nbut in miniredis\n%s", got, want)
	}
}

// place is where an error happened: in which line, of which script.
var place = regexp.MustCompile(`(<string>)?:\d+: | script: [0-9a-f]{40}, &c\.| stack traceback: .*`)

func answer(f func(*server.Peer)) string {
	var out bytes.Buffer
	p := server.NewPeer(bufio.NewWriter(&out))
	f(p)
	p.Flush()
	return place.ReplaceAllString(out.String(), "")
}
