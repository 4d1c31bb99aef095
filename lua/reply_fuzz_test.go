package lua

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// saying is a client of a server that gives the same reply to everything. Nothing is sent over a
// network.
type saying struct{ reply any }

func (saying) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody dials") }
}

func (s saying) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		switch cmd := cmd.(type) {
		case once:
			cmd.SetVal(s.reply)
		case *redis.Cmd:
			cmd.SetVal(s.reply)
		}
		return nil
	}
}

func (s saying) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			_ = s.ProcessHook(nil)(ctx, cmd)
		}
		return nil
	}
}

// tree builds a reply out of the bytes: any reply that a server can send.
func tree(data *[]byte, depth int) any {
	if len(*data) == 0 {
		return nil
	}
	b := (*data)[0]
	*data = (*data)[1:]
	n := int(b >> 3)
	switch b % 8 {
	case 0, 1:
		if depth == 0 {
			return []any{}
		}
		list := []any{}
		for i := 0; i < n && len(*data) > 0; i++ {
			list = append(list, tree(data, depth-1))
		}
		return list
	case 2, 3:
		n = min(n, len(*data))
		text := string((*data)[:n])
		*data = (*data)[n:]
		return text
	case 4:
		return int64(n) << (n * 2)
	case 5:
		return -int64(n)
	case 6:
		return []any{nil, true, 1.5, fmt.Errorf("ERR"), map[any]any{"a": 1}}[n%5]
	default:
		return []string{"granted", "waiting", "taken", "full", "gone", "held", "waited", "neither"}[n%8]
	}
}

// bytesOf returns the bytes from which tree makes the reply, with n << 2n in the place of n.
func bytesOf(reply any) []byte {
	switch reply := reply.(type) {
	case []any:
		all := []byte{head(len(reply), 0)}
		for _, v := range reply {
			all = append(all, bytesOf(v)...)
		}
		return all
	case string:
		return append([]byte{head(len(reply), 2)}, reply...)
	case int:
		return []byte{head(reply, 4)}
	}
	return []byte{6}
}

func head(n int, kind byte) byte { return byte(n&31)<<3 | kind }

// Whatever a server answers, a call returns either an error and no answer, or an answer that its
// contract allows.
func FuzzAnyReply(f *testing.F) {
	const ticket, element, one, none = "c:1:30000:me:", "9:c:1:30000:me:", 1, 0
	grant := []any{ticket, one, one, one}
	for tickets, reply := range map[int][]any{
		0: {},
		1: {one, one},
		2: {one, one, "", none, none, 2, one, none, none, []any{}, []any{"granted", one, one, one}, []any{"waiting", one, one}},
		3: {one, one, "me", one, one, 3, none, one, one, grant, []any{"taken"}, []any{"full"}, []any{"gone"}},
		4: {none, grant, "held", "waited", "neither", "neither"},
		5: {one, one, []any{}},
		6: {one, one, []any{"owner", "me", "token", "5", "since", "5", "lease", "5", ticket, "5:1"}, one, one, []any{element}},
		7: {"0", []any{"fairlock:lock:{x}", "fairlock:queue:{y}", "fairlock:lock:{}"}},
		8: {one, one, one},
	} {
		f.Add(bytesOf(reply)[1:], tickets)
	}
	f.Add([]byte{255, 6, 14, 22, 30, 38, 5, 13}, 3)
	keys := keysOf(f, "x")
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		reply := []any{}
		for len(data) > 0 {
			reply = append(reply, tree(&data, 4))
		}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
		defer rdb.Close()
		rdb.AddHook(saying{reply})
		s := NewServer(rdb, "wake:", "c")
		some := (n%5 + 5) % 5

		acquire(t, s, reply, keys, some)
		hold(t, s, reply, keys, some)
		administer(t, s, reply, keys)
	})
}

func acquire(t *testing.T, s *Server, reply []any, keys Keys, some int) {
	t.Helper()
	tickets := make([]EnterTicket, some)
	for i := range tickets {
		tickets[i].Ticket = parsed(fmt.Sprintf("c:%d:30000::", i+1))
	}
	entered, err := s.Enter(ctx, keys, Enter{Tickets: tickets})
	either(t, reply, entered, err, entered.Tickets == nil, len(entered.Tickets) == len(tickets) && entered.Now >= 0 &&
		entered.Token >= 0 && entered.Lease >= 0 && entered.Remaining >= 0 && entered.Waiting >= 0 && passing(entered.Grant) &&
		!slices.ContainsFunc(entered.Tickets, func(s TicketState) bool { return s.Status == Granted && !possible(&s.Grant) || s.Place < 0 }))

	left, err := s.Leave(ctx, keys, make([]LeaveTicket, some))
	either(t, reply, left, err, left.Were == nil && left.Grant == nil && !left.More, len(left.Were) == some && passing(left.Grant) &&
		!slices.ContainsFunc(left.Were, func(w Was) bool { return w != Held && w != Waited && w != Forced && w != Neither }))
}

func hold(t *testing.T, s *Server, reply []any, keys Keys, some int) {
	t.Helper()
	renewed := s.Renew(ctx, make([]Renewal, some))
	if len(renewed) != some {
		t.Fatalf("%v: %d answers for %d holds", reply, len(renewed), some)
	}
	reasserted := s.Reassert(ctx, Renewal{Keys: keys})
	confirmed, copies := s.Confirm(ctx, Renewal{Keys: keys}, Replicas{N: 1, Within: time.Second})
	for _, r := range append(renewed, reasserted, confirmed) {
		either(t, reply, r, r.Err, r == Renewed{Err: r.Err}, r.Remaining == 0 || r.Remaining > 0 && !r.Forced)
	}
	if confirmed.Err == nil && copies == nil {
		t.Fatalf("%v: nothing is said of the replicas", reply)
	}
}

func administer(t *testing.T, s *Server, reply []any, keys Keys) {
	t.Helper()
	forced, left, err := s.Force(ctx, keys, 1)
	either(t, reply, left, err, !forced && left.Grant == nil && !left.More, passing(left.Grant))

	evicted, err := s.Evict(ctx, keys, Waiter{})
	either(t, reply, evicted, err, !evicted, true)

	state, err := s.Inspect(ctx, keys, 0, 10)
	either(t, reply, state, err, state.Waiters == nil && state.Holds == nil && state.Token == 0, state.Now >= 0 && state.Token >= 0 &&
		state.HeldToken >= 0 && state.Since >= 0 && state.Remaining >= 0 && state.Waiting >= 0)

	page, _, err := s.Scan("fairlock", 10).Next(ctx)
	either(t, reply, page, err, true, !slices.ContainsFunc(page, func(l Listed) bool { return l.Name == "" || l.State.Remaining < 0 }))
}

// either fails the test unless the call returned an error and no answer, or a sane answer and no
// error.
func either(t *testing.T, reply, answer any, err error, nothing, sane bool) {
	t.Helper()
	if err != nil && !nothing || err == nil && !sane {
		t.Fatalf("%v is %+v, %v", reply, answer, err)
	}
}

func passing(g *OtherGrant) bool { return g == nil || possible(&g.Grant) }

func possible(g *Grant) bool { return g.Token > 0 && g.Remaining >= 0 && g.Since >= 0 }
