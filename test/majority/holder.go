package majority

import (
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// strive is Locker.strive.
func (w *world) strive(c, i int8) {
	k := &w.calls[c]
	if k.stage != holding || k.Underway(int(i)) || k.away[i] || k.HasLost(int(i)) {
		return
	}
	w.renew(c, i, false)
}

// renew sends what Locker.renew sends for a decided call.
func (w *world) renew(c, i int8, round bool) {
	k := w.own(c)
	k.Sent(int(i))
	w.send(msg{what: renews, call: c, node: i, place: 1, token: k.token, round: round})
}

// confirm is Locker.confirm.
func (w *world) confirm(c, i int8) {
	k := &w.calls[c]
	if !k.renewed || k.Underway(int(i)) {
		return
	}
	if asked := w.own(c).TakeDue(int(i)); asked || k.Has(int(i), w.time()) {
		w.strive(c, i)
	}
}

// missed reports whether a decided call's latest renewal missed a node.
func (k *call) missed(i int8) bool {
	return k.stage == holding && k.renewed && k.Missed(int(i), at(k.began))
}

// lacks reports whether Locker.lacking lists the call.
func (w *world) lacks(c, i int8) bool {
	k := &w.calls[c]
	return k.stage == holding && (!k.Has(int(i), w.time()) || k.missed(i))
}

// renewsAll is strategy.Renew.
func (w *world) renewsAll(c int8) {
	k := &w.calls[c]
	k.renewed, k.tended = true, true
	k.hold.StartRenewal(w.time())
	k.round, k.renewing, k.began = 0, true, w.now
	for i := range int8(masters) {
		if !k.away[i] && !k.HasLost(int(i)) {
			k.round |= 1 << i
			w.renew(c, i, true)
		}
	}
	if k.round == 0 {
		w.roundOver(c)
	}
}

// renewAnswered is what Locker.renew does with an answer.
func (w *world) renewAnswered(m *msg) {
	k, i := w.own(m.call), int(m.node)
	k.Ended(i, false)
	if m.what == answersTell {
		if w.broken == tellsRevive {
			k.Renewed(i, ms(m.answer.left), m.token, at(m.sent))
		} else {
			k.Knows(i, m.vote, ms(m.answer.left), m.token, at(m.sent))
		}
		w.judge(m.call)
		return
	}
	if m.answer.left < 0 && k.stage == holding && w.truth.harm&unclean == 0 && !w.truth.forced[m.call] {
		w.violated("renewal: a node refuses call %s, which nobody forced", label(m.call))
	}
	k.Renewed(i, ms(m.answer.left), m.token, at(m.sent))
	if m.answer.left == 0 {
		w.confirm(m.call, m.node)
	}
	if m.answer.left <= 0 && k.stage == holding {
		if _, gone := w.standing(m.call); gone {
			w.lose(m.call, rules.Vanished)
		}
	}
	w.roundGoesOn(m)
}

// roundGoesOn notes that a node is done with its part of a renewal.
func (w *world) roundGoesOn(m *msg) {
	k := &w.calls[m.call]
	if !k.renewing || !m.round {
		return
	}
	if k.round &^= 1 << m.node; k.round == 0 {
		w.roundOver(m.call)
	}
}

// roundOver ends a renewal: the Core hears what is left.
func (w *world) roundOver(c int8) {
	k := &w.calls[c]
	k.round, k.renewing = 0, false
	if k.stage != holding {
		return
	}
	left, gone := w.standing(c)
	switch {
	case gone:
		w.lose(c, rules.Vanished)
	case left > 0:
		k.hold.Renewed(at(k.began), left, 1)
	}
}

// standing is what is left of a hold, in the Core's terms, and whether all is lost. A renewal
// counts as answered whenever a majority is trusted. The Locker also asks that the renewal
// prolonged it, and else lets the Core trust no longer than before: less than here.
func (w *world) standing(c int8) (left time.Duration, gone bool) {
	k := &w.calls[c]
	until, ok := k.Standing(w.time())
	if !ok {
		return 0, true
	}
	k.hold.Shorten(until)
	left = until.Sub(w.time())
	return max(left+rules.Margin(left)*9/10, time.Millisecond), false
}

// lose is Core.lose.
func (w *world) lose(c int8, why rules.Why) {
	k := &w.calls[c]
	if k.hold.State != rules.Held {
		return
	}
	if w.truth.harm&unclean == 0 && !w.truth.forced[c] {
		w.violated("lost: call %s loses the lock, and nothing happened", label(c))
	}
	k.hold.Lose(why, w.time(), true)
	w.truth.harm |= unclean
	w.beginRelease(c)
}

// unlocks is a user's Unlock.
func (w *world) unlocks(c int8) {
	w.calls[c].hold.Release()
	w.beginRelease(c)
}

// beginRelease is Locker.beginRelease. A vote of which a node says nothing lapses nowhere here.
func (w *world) beginRelease(c int8) {
	k := w.own(c)
	k.stage, k.round, k.renewing = leaving, 0, false
	k.release, k.said = k.Ballot.Release(w.time()), [3]int8{}
	for i := range int8(masters) {
		k.trusted[i] = k.Has(int(i), w.time())
		if !k.Asked(int(i)) {
			w.left(c, i, neither)
			continue
		}
		w.send(msg{what: leaves, call: c, node: i, token: k.token, late: k.Open(int(i))})
	}
}

var wordsOfLeave = [...]lua.Was{neither: lua.Neither, waited: lua.Waited, hadIt: lua.Held, forgot: ballot.Forgotten, forcedBefore: lua.Forced}

// left takes in what a node said of a release.
func (w *world) left(c, i int8, was left) {
	k := &w.calls[c]
	if k.stage != leaving {
		return
	}
	k.release.Left(wordsOfLeave[was], k.trusted[i], false)
	if was == hadIt || was == forgot && k.trusted[i] {
		k.said[0]++
	} else {
		k.said[1]++
	}
	k.trusted[i] = false
	if !k.release.Known() {
		w.unsaid(c)
		return
	}
	if !k.release.Clean() && w.truth.harm&unclean == 0 && k.hold.State == rules.Releasing {
		w.violated("unlock: call %s hears that it had lost the lock", label(c))
	}
	w.ends(c)
}

// unsaid ends a release when nobody else will answer: silence does that.
func (w *world) unsaid(c int8) {
	if k := &w.calls[c]; k.said[0]+k.said[1]+k.said[2] == masters {
		if !k.release.Clean() && w.truth.harm&unclean == 0 && k.hold.State == rules.Releasing {
			w.violated("unlock: call %s does not hear that it gave the lock back", label(c))
		}
		w.ends(c)
	}
}
