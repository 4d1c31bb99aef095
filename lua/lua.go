// Package lua is the ground floor of fairlock: what is atomic? It promises its importers nothing.
//
// Each verb of the protocol is one script in a .lua file, and one typed call here: [Server.Enter],
// [Server.Leave], [Server.Renew], [Server.Reassert], [Server.Inspect], [Server.Force] and
// [Server.Evict]. The header of a script is its contract. The plain lock has the same verbs,
// without a line. The package also builds the keys ([NewKeys]) and the tickets ([Ticket]), and
// decodes the messages that scripts publish ([ParseMessage]).
//
// A grant may name a run ([Counters]): tickets next in line whose client may give them turns on the
// same hold. The scripts name a run only to clients whose id ends in [KnowsRuns].
//
// docs/design.md in the repository tells the whole protocol in order.
//
// Durations cross into milliseconds beside the scripts: here, and in the packages quorum and
// redisson, which have scripts of their own. Times of the server are microseconds of the server's
// own clock ([Micros]). They are only ever compared with one another.
//
// A call is one request, or two where it says so. The client's own retry is off: a request whose
// answer was lost may still be executed, seconds later, and only the caller knows what that would
// mean. [Unanswered] tells such a failure from a definite one.
package lua

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua parts/*.lua
var files embed.FS

// script is a .lua file with its includes in place. An included part is text: it sees the locals of
// the script and adds its own. The usual ways of enter and leave stand before the first function,
// because making a function costs a script as much as a command.
type script struct {
	source string
	sha    any // a string, boxed once
}

var (
	enterScript    = load(files, "enter.lua")
	leaveScript    = load(files, "leave.lua")
	renewScript    = load(files, "renew.lua")
	reassertScript = load(files, "reassert.lua")
	inspectScript  = load(files, "inspect.lua")
	forceScript    = load(files, "force.lua")
	evictScript    = load(files, "evict.lua")
)

// Whole is a script as it goes over the wire: the file called name, with each include line replaced
// by the included file, and each name of terms.go by its number. Every program that links this
// package does this as it starts, so it has to be quick.
func Whole(name string, read func(name string) string) string {
	var whole strings.Builder
	for line := range strings.Lines(read(name)) {
		text, end := strings.CutSuffix(line, "\n")
		if part, ok := included(text); ok {
			whole.WriteString(strings.TrimSuffix(Whole(part, read), "\n"))
		} else {
			whole.WriteString(numbered(text))
		}
		if end {
			whole.WriteByte('\n')
		}
	}
	return whole.String()
}

// included returns the file that a line includes.
func included(line string) (name string, ok bool) {
	return strings.CutPrefix(strings.TrimLeft(line, " "), "--#include ")
}

// Micros is a time of the server's clock in microseconds since the Unix epoch.
type Micros int64

// Sub is the time from u to m.
func (m Micros) Sub(u Micros) time.Duration { return time.Duration(m-u) * time.Microsecond }

// Time is m as the server's wall clock shows it, for people to read.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)) }

func millis(d time.Duration) int64      { return d.Milliseconds() }
func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
func (m Micros) millis() int64          { return int64(m) / 1000 }
func microsFromMillis(ms int64) Micros  { return Micros(ms * 1000) }
func flag(b bool) any {
	if b {
		return "1"
	}
	return "0"
}

// WrongReply is the error of a reply that makes no sense.
func WrongReply(verb string, r any) error {
	return fmt.Errorf("%s: unexpected reply %.200s", verb, fmt.Sprint(r))
}

// Server runs the scripts on one Redis deployment. Its methods are safe for concurrent use, except
// for a Server that [Server.Prompt] returned.
type Server struct {
	*deployment
	prompt *prompt // how requests are sent from their caller's own goroutine; nil: they are not
	by     sender  // sends the scripts
}

// deployment is what a Server and those that Prompt derives from it share.
type deployment struct {
	rdb      redis.UniversalClient
	cluster  Cluster // rdb, if it is a Cluster: channels are then sharded
	plain    bool    // the locks have no line
	channel  string  // common start of the clients' channels
	client   string  // the calling client
	own      string  // the client's one channel for all locks, unless sharded
	alone    []any   // what scripts have to know of the caller, unless sharded: verb, channel, client
	timing   timing
	direct   direct
	together *together
	stirred  sync.Map        // by a node's address: when its idle connections were last used (Unix ns)
	spawn    func(func())    // runs a request in a goroutine that somebody waits for
	ends     <-chan struct{} // see Spawn; nil: never
	life     *life           // see Mortal; nil: there is no GiveUp
}

// NewServer returns a Server for the given client. channel is the common start of the clients'
// channels, as [Channels] has it. The client's id follows; on a cluster, the lock's name stands
// between the two.
func NewServer(rdb redis.UniversalClient, channel, client string) *Server {
	s := &Server{deployment: &deployment{
		rdb: rdb, direct: direct{rdb}, channel: channel, client: client, own: channel + client,
		alone: []any{"PUBLISH", channel, client},
	}}
	s.spawn = func(f func()) { go f() }
	s.cluster, _ = rdb.(Cluster)
	s.together = &together{rdb: rdb, apart: s.Sharded()}
	s.by = s.together
	s.timing.learn(rdb)
	return s
}

// NewPlainServer returns a Server of locks without a line. Every Enter is a try, and every Leave or
// Force of a holder is told on the channel [Freed]. The keys and channels of these locks are under
// [Plain] of the prefix.
func NewPlainServer(rdb redis.UniversalClient, channel, client string) *Server {
	s := NewServer(rdb, Channels(Plain(strings.TrimSuffix(channel, channels))), client)
	s.plain = true
	return s
}

// Apart makes each request go out by itself, on whatever connection the client gets. It is called
// before the first request goes out.
func (s *Server) Apart() { s.together.apart, s.timing.dials = true, true }

// Spawn sets run as the starter, and owner, of the goroutines for requests that need one. Once ends
// is closed, run's owner waits for a request that nothing else bounds for MostKept, and no idle
// connections are used: see Stir. Spawn is called before the first request goes out.
func (s *Server) Spawn(run func(func()), ends <-chan struct{}) { s.spawn, s.ends = run, ends }

// freed is the channel that is told of releases of a lock without a line. It is empty for a lock
// with a line, where the next in line is told.
func (s *Server) freed(keys Keys) string {
	if s.plain {
		return s.Freed(keys)
	}
	return ""
}

// Freed is the channel on which releases of the lock are told if it has no line.
func (s *Server) Freed(keys Keys) string { return Freed(s.Prefix(), keys) }

// Prefix is what the keys and channels of the Server's locks begin with.
func (s *Server) Prefix() string { return strings.TrimSuffix(s.channel, channels) }

// once is a command that go-redis does not send again by itself.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool                         { return true }
func (c once) Clone() redis.Cmder                  { return once{c.Cmd.Clone().(*redis.Cmd)} }
func newOnce(ctx context.Context, args []any) once { return once{redis.NewCmd(ctx, args...)} }

// Result is the reply, or an error that has been looked at.
func (c once) Result() (any, error) {
	reply, err := c.Cmd.Result()
	return reply, seen(err)
}

// exec sends a pipeline. Each command has its own error, also if the server refused the connection
// (WRONGPASS), an error that go-redis keeps to itself.
func exec(ctx context.Context, pipe redis.Pipeliner) error {
	all, err := pipe.Exec(ctx)
	for _, command := range all {
		if c, ok := command.(interface{ Val() any }); ok && command.Err() == nil && c.Val() == nil {
			command.SetErr(err)
		}
	}
	return err
}

// Do sends one command that is not repeated and returns its reply.
func (s *Server) Do(ctx context.Context, args ...any) (any, error) {
	return s.send(ctx, args, s.direct)
}

// sender sends one command. The command keeps the returned error, too. p is nil for a request that
// is not prompt.
type sender interface {
	process(ctx context.Context, p *prompt, cmd redis.Cmder) error
}

// direct sends each command by itself.
type direct struct{ redis.UniversalClient }

func (d direct) process(ctx context.Context, p *prompt, cmd redis.Cmder) error {
	return process(p.or(ctx), d.UniversalClient, cmd)
}

func (s *Server) send(ctx context.Context, args []any, by sender) (any, error) {
	p := s.prompt
	switch {
	case p != nil:
	case s.timing.unbounded():
		return s.sendAside(context.WithoutCancel(ctx), ctx, MostKept, args, by)
	default:
		return s.sendBy(ctx, nil, args, by)
	}
	first := p.starts()
	if p.awaits {
		if by != s.together {
			return s.elsewhere(p, args, by)
		}
		return s.await(p, args)
	}
	if !first && !p.obeyed && p.left() < s.timing.bound {
		return s.elsewhere(p, args, by) // which comes back in time
	}
	p.looked.Store(0)
	if s.timing.dials {
		return s.sendBy(p.unhurried(), nil, args, by)
	}
	reply, err := s.sendBy(ctx, p, args, by)
	switch {
	case !look(err).dry:
		return reply, err
	case whole(reply): // the context has said so after the answer, to a hook that asked it
		return reply, nil
	}
	return s.elsewhere(p, args, by)
}

func (s *Server) sendBy(ctx context.Context, p *prompt, args []any, by sender) (any, error) {
	if p == nil {
		own, over := s.under(ctx)
		defer over()
		ctx = own
	}
	cmd := newOnce(p.or(ctx), args)
	start := time.Now()
	err := by.process(ctx, p, cmd)
	if err != nil {
		s.timing.took(time.Since(start), err)
	}
	s.reloadSlots(err)
	return cmd.Result()
}

// on is the command that runs the script on keys, with room for n arguments.
func (sc script) on(keys []string, n int) []any {
	command := make([]any, 0, 3+len(keys)+n)
	command = append(command, "evalsha", sc.sha, len(keys))
	for _, key := range keys {
		command = append(command, key)
	}
	return command
}

// whole is the command with the script itself in the place of its hash.
func (sc script) whole(command []any) []any {
	return append([]any{"eval", sc.source}, command[2:]...)
}

// run sends a script by its hash. If the server does not have the script yet, run sends it whole.
func (s *Server) run(ctx context.Context, sc script, command []any) ([]any, error) {
	reply, err := s.runAny(ctx, sc, command)
	if err != nil {
		return nil, err
	}
	return list(reply)
}

func (s *Server) runAny(ctx context.Context, sc script, command []any) (any, error) {
	start := time.Now()
	reply, err := s.send(ctx, command, s.by)
	if err != nil && Says(err, "NOSCRIPT") {
		reply, err = s.Do(ctx, sc.whole(command)...)
	}
	if err != nil {
		if f := look(err); f.kept || f.timeout && time.Since(start) >= patience { // and not a short deadline
			s.stir(command[3].(string)) // the lock's first key
		}
		return nil, sc.named(final(err), command)
	}
	return reply, nil
}

// justOne is the reply to the usual release.
var justOne = []any{int64(1)}

// list is a script's reply as a list. A number becomes a list of length 1.
func list(reply any) ([]any, error) {
	switch reply := reply.(type) {
	case []any:
		return reply, nil
	case int64:
		if reply == 1 {
			return justOne, nil
		}
		return []any{reply}, nil
	}
	return nil, WrongReply("script", reply)
}

// Passing reports whether an answered error is about the server's present state, so that the same
// request may succeed a moment later: the server is starting, failing over, busy with a script,
// giving slots away, or is not the node of a quorum that the request is for; or it refuses to write
// as long as its replicas are away, its disk or its memory full. Nothing was done: such a server
// refuses a script at its first write.
func Passing(err error) bool {
	for _, prefix := range []string{
		"LOADING", "MASTERDOWN", "TRYAGAIN", "MOVED", "ASK", "CLUSTERDOWN", "BUSY", "READONLY", "UNBLOCKED", "NOREPLICAS", "MISCONF", "OOM",
		"OTHERNODE",
	} {
		if Says(err, prefix) {
			return true
		}
	}
	return false
}
