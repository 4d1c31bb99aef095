package simulate

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/fairlock/locks/test/redislua"
)

// redisServer is a miniredis that executes one request at a time, in no time, when told to.
// Subscriptions are kept here: miniredis passes messages on through goroutines, and their order
// would be left to chance. World.mu guards all fields.
type redisServer struct {
	w      *World
	mini   *miniredis.Miniredis
	offset time.Duration // of the server's clock from ours
	down   bool
	mood   string // the error with which the server refuses requests; "": it does not

	forbids bool // the server refuses whatever touches the keys of the damaged lock

	channels map[string][]*conn // subscribers, in the order of their subscriptions
	outbox   []message          // what the present request has published
	verbs    map[string]string  // the verb of each script, by its hash
	scripts  map[string]string  // the scripts that the server has, or what to execute in their place, by their hashes
	runner   *redislua.Runner
}

// message is a published message on its way to a subscriber.
type message struct {
	to      *conn
	channel string
	payload string
}

func newServer(w *World) *redisServer {
	s := &redisServer{
		w: w, mini: miniredis.NewMiniRedis(),
		channels: make(map[string][]*conn), verbs: make(map[string]string), scripts: make(map[string]string),
	}
	if c, err := s.mini.Dial(); err == nil { // Dial starts miniredis
		_ = c.Close()
	}
	s.mini.SetTime(s.now())
	s.mini.ClockTTL(true)
	s.mini.Server().SetPreHook(s.intercept)
	var err error
	if s.runner, err = redislua.New(s.mini); err != nil {
		panic(err)
	}
	return s
}

// now is what the server's clock shows.
func (s *redisServer) now() time.Time { return time.Now().Add(s.offset).UTC() }

// peer is the server's end of a connection.
type peer struct {
	*server.Peer
	out *bytes.Buffer
}

func newPeer() peer {
	var out bytes.Buffer
	return peer{server.NewPeer(bufio.NewWriter(&out)), &out}
}

func (p peer) dispatch(s *redisServer, args []string) []byte {
	return p.answer(func() { s.mini.Server().Dispatch(p.Peer, args) })
}

// answer returns what f writes.
func (p peer) answer(f func()) []byte {
	f()
	p.Flush()
	reply := bytes.Clone(p.out.Bytes())
	p.out.Reset()
	return reply
}

// execute runs a request of c and returns the reply. The outbox then has what the request
// published.
func (s *redisServer) execute(c *conn, args []string) (reply []byte) {
	s.mini.SetTime(s.now())
	switch strings.ToUpper(args[0]) {
	case "SUBSCRIBE":
		for _, channel := range sorted(args[1:]) { // a client with several channels names them in no order
			if !slices.Contains(s.channels[channel], c) {
				s.channels[channel] = append(s.channels[channel], c)
				c.channels++
			}
			reply = append(reply, push(c.peer.Resp3, "subscribe", channel, c.channels)...)
		}
		return reply
	case "UNSUBSCRIBE":
		for _, channel := range sorted(args[1:]) {
			s.unsubscribe(channel, c)
			reply = append(reply, push(c.peer.Resp3, "unsubscribe", channel, c.channels)...)
		}
		return reply
	case "EVAL":
		if strings.HasPrefix(args[1], "-- ") {
			s.learn(args[1])
		}
	case "EVALSHA":
		if source, ok := s.scripts[args[1]]; ok {
			return c.peer.answer(func() { s.runner.Run(c.peer.Peer, source, args[2:]) })
		}
	}
	return c.peer.dispatch(s, args)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// learn notes the name of a script, which is in its first line.
func (s *redisServer) learn(source string) {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	verb, _, _ := strings.Cut(strings.TrimPrefix(source, "-- "), ":")
	if s.verbs[sha], s.scripts[sha] = verb, source; s.w.plan.Break.Script != nil {
		s.scripts[sha] = s.w.plan.Break.Script(verb, source)
	}
}

// verb returns the protocol's name of a request, or "" if the request runs no script.
func (s *redisServer) verb(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "EVAL":
		if source, ours := strings.CutPrefix(args[1], "-- "); ours {
			verb, _, _ := strings.Cut(source, ":")
			return verb
		}
	case "EVALSHA":
		return s.verbs[args[1]]
	}
	return ""
}

func (s *redisServer) unsubscribe(channel string, c *conn) {
	if i := slices.Index(s.channels[channel], c); i >= 0 {
		s.channels[channel] = slices.Delete(s.channels[channel], i, i+1)
		c.channels--
	}
}

// hangUp forgets a connection.
func (s *redisServer) hangUp(c *conn) {
	c.gone = true
	for channel := range s.channels {
		s.unsubscribe(channel, c)
	}
}

// heard reports whether a channel has a subscriber.
func (s *redisServer) heard(channel string) bool { return len(s.channels[channel]) > 0 }

// intercept handles the commands about subscriptions, also those of scripts.
func (s *redisServer) intercept(p *server.Peer, cmd string, args ...string) bool {
	switch {
	case cmd == "PUBLISH" && len(args) == 2:
		for _, c := range s.channels[args[0]] {
			s.outbox = append(s.outbox, message{c, args[0], args[1]})
		}
		p.WriteInt(len(s.channels[args[0]]))
	case cmd == "PUBSUB" && len(args) == 2 && strings.EqualFold(args[0], "NUMSUB"):
		p.WriteLen(2)
		p.WriteBulk(args[1])
		p.WriteInt(len(s.channels[args[1]]))
	default:
		return false
	}
	return true
}

// flush is FLUSHALL.
func (s *redisServer) flush() { s.mini.FlushAll() }

// restart ends all connections. A server without its data has lost its scripts too.
func (s *redisServer) restart(withData bool) {
	if !withData {
		s.flush()
		newPeer().dispatch(s, []string{"SCRIPT", "FLUSH"})
		clear(s.scripts)
	}
	clear(s.channels)
}

// step sets the clock. Expiries are points in time: if the clock is set back, they come later.
func (s *redisServer) step(by time.Duration) {
	s.mini.SetTime(s.now())
	keys := s.mini.Keys() // reading the keys drops what has expired until now
	s.offset += by
	s.mini.SetTime(s.now())
	if by > 0 {
		return // miniredis handles that itself
	}
	for _, key := range keys {
		if ttl := s.mini.TTL(key); ttl > 0 {
			s.mini.SetTTL(key, ttl-by)
		}
	}
}
