package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/test/faultproxy"
)

// tricks are all that the saboteur can do.
var tricks = []trick[*saboteur]{
	{"kill -9", func(s *saboteur) bool { return s.kills(s.anyone(anybody)) }},
	{"kill -9 of a holder", func(s *saboteur) bool { return s.kills(s.holder()) }},
	{"kill -9 of two", (*saboteur).killsTwo},
	{"SIGSTOP", func(s *saboteur) bool { return s.stops(s.anyone(anybody)) }},
	{"SIGSTOP of a holder", func(s *saboteur) bool { return s.stops(s.holder()) }},
	{"CLIENT KILL TYPE normal", func(s *saboteur) bool { return s.clientKill("normal") }},
	{"CLIENT KILL TYPE pubsub", func(s *saboteur) bool { return s.clientKill("pubsub") }},
	{"CLIENT PAUSE ALL", func(s *saboteur) bool { return s.clientPause("ALL") }},
	{"CLIENT PAUSE WRITE", func(s *saboteur) bool { return s.clientPause("WRITE") }},
	{"DEBUG SLEEP", (*saboteur).debugSleep},
	{"restart with data", (*saboteur).restarts},
	{"restart without data", (*saboteur).forgets},
	{"cut", (*saboteur).cuts},
	{"half-close", (*saboteur).halfCloses},
	{"freeze", (*saboteur).freezes},
	{"refuse", (*saboteur).refuses},
	{"delay", (*saboteur).delays},
	{"drop requests", func(s *saboteur) bool { return s.drops(faultproxy.DropRequest()) }},
	{"drop replies", func(s *saboteur) bool { return s.drops(faultproxy.SwallowReply()) }},
	{"drop silently", func(s *saboteur) bool { return s.drops(faultproxy.SwallowReplySilently()) }},
	{"hold back", (*saboteur).holds},
	{"long outage", (*saboteur).parts},
	{"too few replicas", (*saboteur).lacksReplicas},
	{"no memory", (*saboteur).isFull},
	{"disk full", (*saboteur).cannotSave},
	{"long script", (*saboteur).isBusy},
	{"forbidden keys", (*saboteur).forbids},
	{"hostile keys", (*saboteur).spoils},
	{"torn messages", (*saboteur).tears},
}

func anybody(s *seat) bool { return !s.stopped && !s.spared }
func proxied(s *seat) bool { return s.proxy != nil }
func flowing(s *seat) bool { return s.proxy != nil && !s.frozen && !s.apart }

// holder returns a seat whose worker has had a lock for a while, or nil.
func (s *saboteur) holder() *seat {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	before := make(map[string]bool)
	for range 20 {
		for _, lock := range locks {
			for _, ticket := range s.admin.HKeys(ctx, record(lock)).Val() {
				process, _, _ := strings.Cut(note(ticket), "-")
				if seat := s.anyone(func(seat *seat) bool { return anybody(seat) && seat.life.Process == process }); seat != nil && before[ticket] {
					return seat
				}
				before[ticket] = true
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// kills kills a worker in the middle of its work, and starts another in its place.
func (s *saboteur) kills(victim *seat) bool {
	if victim == nil {
		return false
	}
	victim.kill()
	s.fill(victim)
	return true
}

func (s *saboteur) killsTwo() bool {
	first := s.anyone(anybody)
	second := s.anyone(func(seat *seat) bool { return anybody(seat) && seat != first })
	return first != nil && second != nil && s.kills(first) && s.kills(second)
}

// stops stops a worker for longer or shorter than its leases live, and sometimes for longer than a
// waiter counts as alive.
func (s *saboteur) stops(seat *seat) bool {
	if seat == nil {
		return false
	}
	d := s.between(100*time.Millisecond, 3*leaseTime)
	if s.random.IntN(8) == 0 {
		d += liveness
	}
	worker := seat.worker
	s.lasting("SIGSTOP", seat.number, d, func() {
		if seat.worker == worker { // not a successor
			worker.Continue()
			seat.stopped = false
		}
	})
	worker.Stop()
	seat.stopped = true
	return true
}

const (
	liveness  = 15 * time.Second // for so long after its last heartbeat a waiter counts as alive
	pingEvery = 3 * time.Second  // a subscription is given up if a ping was not answered by the next one
)

func (s *saboteur) clientKill(which string) bool {
	t := s.trouble("CLIENT KILL "+which, everybody)
	s.ask("CLIENT", "KILL", "TYPE", which)
	t.To = now()
	return true
}

func (s *saboteur) clientPause(which string) bool {
	d := s.between(50*time.Millisecond, 1500*time.Millisecond)
	s.lasting("CLIENT PAUSE "+which, everybody, d, func() {})
	s.ask("CLIENT", "PAUSE", d.Milliseconds(), which)
	return true
}

func (s *saboteur) debugSleep() bool {
	d := s.between(50*time.Millisecond, 1500*time.Millisecond)
	t := s.trouble("DEBUG SLEEP", everybody)
	s.asides.Go(func() {
		s.ask("DEBUG", "SLEEP", d.Seconds())
		t.To = now()
	})
	return true
}

// ask sends the server a command. The server may die meanwhile; that is no fault.
func (s *saboteur) ask(command ...any) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.admin.Do(ctx, command...).Err() == nil
}

// restarts kills the server and starts it again with its data.
func (s *saboteur) restarts() bool {
	t := s.trouble("restart", everybody)
	s.server.Kill()
	time.Sleep(s.between(0, 700*time.Millisecond))
	s.server.Restart()
	t.To = now()
	return true
}

// forgets kills the server and deletes its data. It does nothing while a seat is cut off for long,
// because what that seat left with the server is to be found.
func (s *saboteur) forgets() bool {
	if slices.ContainsFunc(s.seats[:], func(seat *seat) bool { return seat.apart }) {
		return false
	}
	t := s.trouble("loss", everybody)
	s.server.Kill()
	s.wipe(t.From)
	time.Sleep(s.between(0, 300*time.Millisecond))
	s.server.Restart()
	t.To = now()
	s.losses[len(s.losses)-1].To = t.To
	return true
}

func (s *saboteur) cuts() bool {
	seat := s.anyone(proxied)
	t := s.trouble("cut", seat.number)
	seat.proxy.CutAll()
	t.To = now()
	return true
}

func (s *saboteur) halfCloses() bool {
	seat := s.anyone(proxied)
	t := s.trouble("half-close", seat.number)
	half := faultproxy.ToClient
	if s.random.IntN(2) == 0 {
		half = faultproxy.ToServer
	}
	seat.proxy.CloseHalf(half)
	t.To = now()
	return true
}

// freezes lets nothing pass for a while; all of it arrives later.
func (s *saboteur) freezes() bool {
	seat := s.anyone(flowing)
	if seat == nil {
		return false
	}
	d := s.between(100*time.Millisecond, 3*leaseTime)
	if s.random.IntN(4) == 0 { // until the client gives the connection up
		d += 2 * pingEvery
	}
	s.lasting("freeze", seat.number, d, func() {
		seat.proxy.Freeze(false)
		seat.frozen = false
	})
	seat.proxy.Freeze(true)
	seat.frozen = true
	return true
}

// refuses cuts all connections of a seat, and refuses new ones.
func (s *saboteur) refuses() bool {
	seat := s.anyone(flowing)
	if seat == nil {
		return false
	}
	s.lasting("refuse", seat.number, s.between(100*time.Millisecond, 2*leaseTime), func() { seat.proxy.Refuse(false) })
	seat.proxy.Refuse(true)
	seat.proxy.CutAll()
	return true
}

// some matches so many scripts in a hundred. Many goroutines call it, so it cannot use the
// saboteur's own random source.
func some(percent int) func([]string) bool {
	scripts := faultproxy.Command("EVALSHA", "EVAL")
	return func(args []string) bool { return scripts(args) && rand.IntN(100) < percent }
}

// rule applies a rule of the proxy for a while.
func (s *saboteur) rule(kind string, percent int, action faultproxy.Action) bool {
	seat := s.anyone(flowing)
	if seat == nil {
		return false
	}
	handle := seat.proxy.Add(faultproxy.Rule{Match: some(percent), Action: action})
	s.lasting(kind, seat.number, s.between(500*time.Millisecond, 2*leaseTime), handle.Remove)
	return true
}

func (s *saboteur) delays() bool {
	return s.rule("delay", 20, faultproxy.DelayReply(s.between(5*time.Millisecond, 1200*time.Millisecond)))
}

func (s *saboteur) drops(action faultproxy.Action) bool { return s.rule("drop", 10, action) }

// holds keeps some requests until no client expects them any more, and then has them executed.
func (s *saboteur) holds() bool {
	seat := s.anyone(flowing)
	if seat == nil {
		return false
	}
	handle := seat.proxy.Add(faultproxy.Rule{Match: some(10), Times: 10, Action: faultproxy.HoldRequest()})
	s.lasting("hold back", seat.number, s.between(500*time.Millisecond, 4*leaseTime), func() {
		handle.Remove()
		handle.Release()
	})
	return true
}
