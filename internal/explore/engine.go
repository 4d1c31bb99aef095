package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// The moment at which every request is executed.
const (
	nowMS = 1_900_000_000_000
	nowUS = nowMS * 1000
)

var names = [clients + 1]string{"a", "b", "c", "admin"}

// engine is a miniredis that can be put into any state.
type engine struct {
	mini    *miniredis.Miniredis
	rdb     *redis.Client
	callers [clients + 1]*lua.Server
	keys    lua.Keys
	run2    map[string]string // by the hash that package lua knows, the hash of what to run

	ears *miniredis.Subscriber
	mu   sync.Mutex
	told []string
	end  chan struct{}
}

func newEngine(run map[string]string) (*engine, error) {
	e := &engine{mini: miniredis.NewMiniRedis(), run2: make(map[string]string), end: make(chan struct{})}
	e.mini.SetTime(time.UnixMilli(nowMS))
	dial := func(context.Context, string, string) (net.Conn, error) { return e.mini.Dial() }
	e.rdb = redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: dial, Protocol: 2, DisableIdentity: true, PoolSize: 1})
	e.ears = e.mini.NewSubscriber()
	go e.listen()
	for known, source := range run {
		sha, err := e.rdb.ScriptLoad(context.Background(), source).Result()
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.run2[known] = sha
	}
	e.rdb.AddHook(swap{e})
	for i, name := range names {
		e.callers[i] = lua.NewServer(e.rdb, lua.Channels("fairlock"), name)
	}
	var err error
	e.keys, err = lua.NewKeys("fairlock", "x")
	return e, err
}

func (e *engine) close() error {
	err := e.rdb.Close()
	e.ears.Close()
	<-e.end
	e.mini.Close()
	return err
}

// listen collects what scripts publish, up to the next flush.
func (e *engine) listen() {
	defer close(e.end)
	for m := range e.ears.Messages() {
		e.mu.Lock()
		e.told = append(e.told, m.Message)
		e.mu.Unlock()
	}
}

// heardNow is what was published since it was last asked. A message that comes after them tells that all have come.
func (e *engine) heardNow() []string {
	e.mini.Publish("flush", "")
	e.mini.Publish("flush", "")
	e.mu.Lock()
	defer e.mu.Unlock()
	var told []string
	for _, text := range e.told {
		if text != "" {
			told = append(told, text)
		}
	}
	e.told = nil
	return told
}

// swap runs the changed scripts in the place of the real ones.
type swap struct{ e *engine }

func (s swap) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s swap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s swap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			sha, ok := s.e.run2[args[1].(string)]
			if !ok {
				return fmt.Errorf("package lua runs a script that is not among the files: %v", args[1])
			}
			args[1] = sha
		}
		return next(ctx, cmd)
	}
}

// run executes a request in its situation.
func (e *engine) run(ctx context.Context, s situation) *effect {
	w := words{sagas: s.sagas, base: nowUS - 1000, behind: s.behind}
	e.restore(&w, &s.before)
	f := &effect{}
	f.rep, f.err = e.call(ctx, &w, &s.req)
	if f.err == nil {
		f.after, f.err = e.capture(&w, &s.before)
	}
	texts := e.heardNow()
	for _, text := range texts {
		m, err := w.message(text)
		f.told, f.err = append(f.told, m), errors.Join(f.err, err)
	}
	return f
}

func (e *engine) restore(w *words, k *keys) {
	m := e.mini
	m.FlushAll()
	if k.ends != absent {
		m.HSet(e.keys.Record, "owner", w.owner(k.owner), "token", w.token(k.token), "since", number(nowMS-1), "lease", number(int64(k.lease)))
		for t, end := range k.holds {
			if end != absent {
				m.HSet(e.keys.Record, w.ticket(int8(t)), at(end)+":1")
			}
		}
		if k.kept != absent {
			m.HSet(e.keys.Record, "?", at(k.kept)+":0")
		}
		e.expire(e.keys.Record, k.ends)
	}
	for _, el := range k.queue[:k.length] {
		_, _ = m.RPush(e.keys.Queue, w.place(el.place)+":"+w.ticket(el.ticket)) // the key is of no other type
	}
	if k.length > 0 {
		e.expire(e.keys.Queue, k.lined)
	}
	e.restoreWaiters(w, k)
	if k.last != 0 {
		_ = m.Set(e.keys.Token, w.token(k.last)) // the key is of no other type
		e.expire(e.keys.Token, 600000)
	}
	for i := range clients {
		channel := e.callers[i].Channel()
		if k.heard[i] {
			e.ears.Subscribe(channel)
		} else {
			e.ears.Unsubscribe(channel)
		}
	}
	e.ears.Subscribe("flush")
}

func (e *engine) restoreWaiters(w *words, k *keys) {
	add := func(member string, end ms, sign float64) {
		if end != absent {
			_, _ = e.mini.ZAdd(e.keys.Waiters, sign*float64(nowMS+int64(end)), member) // the key is of no other type
		}
	}
	for t := range int8(tickets) {
		add(w.ticket(t), k.waits[t], 1)
		add("!"+w.ticket(t), k.retired[t], -1)
	}
	for c := range clients {
		add("~"+names[c], k.blind[c], -1)
		add("^"+names[c], k.passed[c], -1)
	}
	add("?", k.gather, -1)
	for _, f := range k.forced {
		if f.token != 0 {
			add("#"+w.token(f.token), f.ends, -1)
		}
	}
	if k.waitered != absent {
		e.expire(e.keys.Waiters, k.waitered)
	}
}

// expire ends a key then. In the very millisecond of its end it is still there.
func (e *engine) expire(key string, end ms) {
	e.mini.SetTTL(key, max(time.Duration(end)*time.Millisecond, 1))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
func at(t ms) string        { return number(nowMS + int64(t)) }

// words puts tokens, places and tickets into the scripts' words and back.
type words struct {
	sagas  uint8
	behind bool
	base   int64
}

func (w *words) number(v int32, shift int64) int64 {
	if v == 0 {
		return 0
	}
	return w.base + shift + int64(v)
}

// shift is where tokens begin: those of a server whose clock was set back are above its time.
func (w *words) shift() int64 {
	if w.behind {
		return 2000
	}
	return 0
}
func (w *words) tokenOf(v int32) int64 { return w.number(v, w.shift()) }
func (w *words) token(v int32) string  { return number(w.tokenOf(v)) }
func (w *words) place(v int32) string  { return number(w.number(v, 0)) }

func (w *words) from(n, shift int64) int32 {
	switch {
	case n == 0:
		return 0
	case n >= nowUS && n-w.base-shift >= 500:
		return newly + int32(n-nowUS)
	default:
		return int32(n - w.base - shift)
	}
}
func (w *words) fromToken(n int64) int32 { return w.from(n, w.shift()) }
func (w *words) fromPlace(n int64) int32 { return w.from(n, 0) }

func (w *words) struct_(t int8) lua.Ticket {
	ticket := lua.Ticket{Client: names[clientOf(t)], Counter: uint64(t%2) + 1, Lease: time.Duration(lease) * time.Millisecond}
	if w.sagas&(1<<t) != 0 {
		ticket.Owner = "saga"
	}
	return ticket
}

func (w *words) ticket(t int8) string { return w.struct_(t).String() }

func (w *words) owner(o int8) string {
	switch o {
	case saga:
		return "saga"
	case placeholder:
		return ""
	default:
		return w.struct_(o - itself).ID()
	}
}

var errStrange = errors.New("the server has what no script should write")

func (w *words) fromTicket(text string) (int8, error) {
	for t := range int8(tickets) {
		if w.ticket(t) == text {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: ticket %q", errStrange, text)
}

func (w *words) fromOwner(text string) (int8, error) {
	switch text {
	case "saga":
		return saga, nil
	case "":
		return placeholder, nil
	}
	for t := range int8(tickets) {
		if w.struct_(t).ID() == text {
			return t + itself, nil
		}
	}
	return 0, fmt.Errorf("%w: owner %q", errStrange, text)
}

func (w *words) message(text string) (message, error) {
	verb, rest, _ := strings.Cut(text, " ")
	m, err := lua.ParseMessage(text)
	if err != nil {
		return message{}, err
	}
	t, err := w.fromTicket(m.Ticket.String())
	if err != nil {
		return message{}, fmt.Errorf("%w in %s", err, rest)
	}
	return message{verb: verb[0], client: clientOf(t), ticket: t, token: w.fromToken(m.Token), claim: ms(m.Claim.Milliseconds())}, nil
}

func until(score float64) ms { return ms(int64(math.Abs(score)) - nowMS) }
