package stage

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

// Server is a miniredis that executes one request at a time, in no time, when told to.
// Subscriptions are kept here: miniredis passes messages on through goroutines, and their order
// would be left to chance. A mutex of the simulation guards all of it.
type Server[C Client] struct {
	Mini  *miniredis.Miniredis
	Clock func() time.Time // what the server's clock shows
	Alter func(verb, source string) string
	// What the server is asked before miniredis is; may be nil. True: it has answered.
	Hook   func(p *server.Peer, cmd string, args ...string) bool
	Outbox []Message[C] // what the present request has published

	channels map[string][]C    // subscribers, in the order of their subscriptions
	verbs    map[string]string // the verb of each script, by its hash
	scripts  map[string]string // the scripts that the server has, or what to execute in their place, by their hashes
	runner   *redislua.Runner
}

// Client is a connection: it embeds a Session.
type Client interface {
	comparable
	session() *Session
}

// Session is what the server knows of a connection. The mutex of the Server guards it.
type Session struct {
	Peer     Peer
	Channels int  // how many channels are subscribed
	Gone     bool // the server has closed its end, or noticed that the client's is closed
}

func (s *Session) session() *Session { return s }

// Message is a published message on its way to a subscriber.
type Message[C Client] struct {
	To      C
	Channel string
	Payload string
}

// NewServer returns a server without data. Close ends it.
func NewServer[C Client](clock func() time.Time) *Server[C] {
	s := &Server[C]{
		Mini: miniredis.NewMiniRedis(), Clock: clock,
		channels: make(map[string][]C), verbs: make(map[string]string), scripts: make(map[string]string),
	}
	if c, err := s.Mini.Dial(); err == nil { // Dial starts miniredis
		_ = c.Close()
	}
	s.Look()
	s.Mini.ClockTTL(true)
	s.Mini.Server().SetPreHook(s.intercept)
	var err error
	if s.runner, err = redislua.New(s.Mini); err != nil {
		panic(err)
	}
	return s
}

// Close ends the server.
func (s *Server[C]) Close() {
	s.Mini.Close()
	s.runner.Close()
}

// Look has miniredis look at the clock.
func (s *Server[C]) Look() { s.Mini.SetTime(s.Clock()) }

// Peer is the server's end of a connection.
type Peer struct {
	*server.Peer
	out *bytes.Buffer
}

// NewPeer returns the end of a new connection.
func NewPeer() Peer {
	var out bytes.Buffer
	return Peer{server.NewPeer(bufio.NewWriter(&out)), &out}
}

// Dispatch has miniredis answer a request of that connection.
func (s *Server[C]) Dispatch(p Peer, args []string) []byte {
	return p.answer(func() { s.Mini.Server().Dispatch(p.Peer, args) })
}

// answer returns what f writes.
func (p Peer) answer(f func()) []byte {
	f()
	p.Flush()
	reply := bytes.Clone(p.out.Bytes())
	p.out.Reset()
	return reply
}

// Execute runs a request of c and returns the reply. The Outbox then has what the request
// published.
func (s *Server[C]) Execute(c C, args []string) (reply []byte) {
	s.Look()
	of := c.session()
	switch cmd := args[0]; {
	case strings.EqualFold(cmd, "SUBSCRIBE"):
		for _, channel := range Sorted(args[1:]) { // a client with several channels names them in no order
			if !slices.Contains(s.channels[channel], c) {
				s.channels[channel] = append(s.channels[channel], c)
				of.Channels++
			}
			reply = append(reply, Push(of.Peer.Resp3, "subscribe", channel, of.Channels)...)
		}
		return reply
	case strings.EqualFold(cmd, "UNSUBSCRIBE"):
		for _, channel := range Sorted(args[1:]) {
			s.unsubscribe(channel, c)
			reply = append(reply, Push(of.Peer.Resp3, "unsubscribe", channel, of.Channels)...)
		}
		return reply
	case strings.EqualFold(cmd, "EVAL"):
		if strings.HasPrefix(args[1], "-- ") {
			return s.runs(of.Peer, s.learn(args[1]), args[2:])
		}
	case strings.EqualFold(cmd, "EVALSHA"):
		if source, ok := s.scripts[args[1]]; ok {
			return s.runs(of.Peer, source, args[2:])
		}
	}
	return s.Dispatch(of.Peer, args)
}

// runs has a script executed and returns the reply. args are those of EVAL behind the script.
func (s *Server[C]) runs(p Peer, source string, args []string) []byte {
	return p.answer(func() { s.runner.Run(p.Peer, source, args) })
}

// Sorted is a sorted copy.
func Sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// learn notes the name of a script, which is in its first line. It returns what to execute.
func (s *Server[C]) learn(source string) string {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	verb, _, _ := strings.Cut(strings.TrimPrefix(source, "-- "), ":")
	if s.verbs[sha], s.scripts[sha] = verb, source; s.Alter != nil {
		s.scripts[sha] = s.Alter(verb, source)
	}
	return s.scripts[sha]
}

// Verb returns the protocol's name of a request, or "" if the request runs no script.
func (s *Server[C]) Verb(args []string) string {
	switch cmd := args[0]; {
	case strings.EqualFold(cmd, "EVAL"):
		if source, ours := strings.CutPrefix(args[1], "-- "); ours {
			verb, _, _ := strings.Cut(source, ":")
			return verb
		}
	case strings.EqualFold(cmd, "EVALSHA"):
		return s.verbs[args[1]]
	}
	return ""
}

// Evaluates reports whether a request runs a script.
func Evaluates(args []string) bool {
	return len(args[0]) >= 4 && strings.EqualFold(args[0][:4], "EVAL")
}

func (s *Server[C]) unsubscribe(channel string, c C) {
	if i := slices.Index(s.channels[channel], c); i >= 0 {
		s.channels[channel] = slices.Delete(s.channels[channel], i, i+1)
		c.session().Channels--
	}
}

// HangUp forgets a connection.
func (s *Server[C]) HangUp(c C) {
	c.session().Gone = true
	for channel := range s.channels {
		s.unsubscribe(channel, c)
	}
}

// Subscribers are those of a channel.
func (s *Server[C]) Subscribers(channel string) []C { return s.channels[channel] }

// Subscribed are the channels that have subscribers.
func (s *Server[C]) Subscribed() (channels []string) {
	for channel, subscribers := range s.channels {
		if len(subscribers) > 0 {
			channels = append(channels, channel)
		}
	}
	return channels
}

// intercept handles the commands about subscriptions, also those of scripts.
func (s *Server[C]) intercept(p *server.Peer, cmd string, args ...string) bool {
	switch {
	case cmd == "PUBLISH" && len(args) == 2:
		for _, c := range s.channels[args[0]] {
			s.Outbox = append(s.Outbox, Message[C]{c, args[0], args[1]})
		}
		p.WriteInt(len(s.channels[args[0]]))
	case cmd == "PUBSUB" && len(args) == 2 && strings.EqualFold(args[0], "NUMSUB"):
		p.WriteLen(2)
		p.WriteBulk(args[1])
		p.WriteInt(len(s.channels[args[1]]))
	default:
		return s.Hook != nil && s.Hook(p, cmd, args...)
	}
	return true
}

// Restart ends all connections, and forgets the scripts if the server does not keep them.
func (s *Server[C]) Restart(scripts bool) {
	if !scripts {
		s.Dispatch(NewPeer(), []string{"SCRIPT", "FLUSH"})
		clear(s.scripts)
	}
	clear(s.channels)
}

// Step has change set the clock by that much. Expiries are points in time: if the clock is set
// back, they come later.
func (s *Server[C]) Step(by time.Duration, change func()) {
	s.Look()
	keys := s.Mini.Keys() // reading the keys drops what has expired until now
	change()
	s.Look()
	if by > 0 {
		return // miniredis handles that itself
	}
	for _, key := range keys {
		if ttl := s.Mini.TTL(key); ttl > 0 {
			s.Mini.SetTTL(key, ttl-by)
		}
	}
}
