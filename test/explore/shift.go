package explore

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// shift moves now by d: every time comes nearer, and keys whose millisecond has passed vanish.
func (s *state) shift(d ms) {
	s.srv.shift(d)
	t := &s.truth
	for i := range t.entered {
		t.entered[i] -= d
	}
	for i := range t.blind {
		t.blind[i] -= d
	}
	for i := range s.clients {
		c := &s.clients[i]
		for j := range c.at {
			a := &c.at[j]
			a.until -= d
			if a.wait.Last.At != 0 {
				a.wait.Last.At -= 1000 * lua.Micros(d)
			}
			for _, t := range []*time.Time{&a.wait.Began, &a.wait.Last.Sent, &a.hold.Term.Ends, &a.hold.TrustEnds, &a.hold.Began} {
				if !t.IsZero() {
					*t = t.Add(-span(d))
				}
			}
		}
		for j := range c.inbox[:c.mail] {
			c.inbox[j].at -= d
		}
	}
	for i := range s.flights {
		s.flights[i].sent -= d
	}
}

func (k *keys) shift(d ms) {
	earlier := func(t *ms) {
		if *t != absent {
			*t -= d
		}
	}
	for i := range tickets {
		earlier(&k.holds[i])
		earlier(&k.waits[i])
		earlier(&k.retired[i])
		earlier(&k.forced[i])
	}
	for i := range clients {
		earlier(&k.blind[i])
		earlier(&k.passed[i])
	}
	for _, t := range []*ms{&k.kept, &k.gather, &k.ends, &k.lined, &k.waitered} {
		earlier(t)
	}
	k.expire()
}

// expire drops the keys whose end has passed.
func (k *keys) expire() {
	n := noKeys()
	if k.ends < 0 {
		k.owner, k.token, k.lease, k.ends, k.kept, k.holds = nobody, 0, 0, absent, absent, n.holds
	}
	if k.lined < 0 {
		k.queue, k.length, k.lined = n.queue, 0, absent
	}
	if k.waitered < 0 {
		k.waits, k.retired, k.blind, k.passed, k.gather, k.forced = n.waits, n.retired, n.blind, n.passed, absent, n.forced
		k.waitered = absent
	}
}
