package majority

import (
	"errors"
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// What follows drives Ballots as package quorum does: file by file, function by function. A mutex
// makes each function one step there.

var errEvicted = errors.New("evicted")

// own returns the call, with a Ballot that may be changed.
func (w *world) own(c int8) *call {
	k := &w.calls[c]
	if !w.owned[c] {
		w.replaces(c, k.Ballot.Copy(w.room()))
	}
	return k
}

// replaces gives a call another Ballot, which no other state has.
func (w *world) replaces(c int8, b *ballot.Ballot) {
	k := &w.calls[c]
	if w.owned[c] {
		w.ballots = append(w.ballots, k.Ballot)
	}
	k.Ballot, w.owned[c] = b, true
}

// room is a Ballot that no state has any more, or nil.
func (w *world) room() *ballot.Ballot { return pop(&w.ballots) }

func (w *world) time() time.Time { return at(w.now) }

func (w *world) send(m msg) {
	m.sent, m.session = w.now, w.calls[m.call].session[m.node]
	w.air = append(w.air, m)
}

// begins is Locker.begin.
func (w *world) begins(c int8) {
	k := &w.calls[c]
	w.replaces(c, ballot.New(masters, lua.Claim, w.programs[c].bound, w.time()))
	k.stage = waiting
	for i := range int8(masters) {
		if k.away[i] {
			k.Ask(int(i))
		} else {
			w.enter(c, i)
		}
	}
	w.judge(c)
}

// enter is Locker.enter.
func (w *world) enter(c, i int8) {
	k := w.own(c)
	place, back := k.Enter(int(i))
	switch {
	case w.broken == placesDiffer:
		place = k.At(int(i))
	case w.broken == nothingGivenBack:
		back = 0
	case w.broken == yieldInTwo && back > 0: // first it leaves, then it enters
		w.send(msg{what: leaves, call: c, node: i, place: int64(place), back: back})
		return
	}
	w.send(msg{what: enters, call: c, node: i, place: int64(place), back: back})
}

// answered is Locker.answered, of an enter.
func (w *world) answered(m *msg) {
	k, i := w.own(m.call), int(m.node)
	k.Entered(i, false)
	a := m.answer
	if a.status == gone {
		if k.Phase == rules.Waiting {
			w.settle(m.call, failed)
		}
	} else {
		b := &ballot.Answer{
			Status: words[a.status], Now: lua.Micros(a.now), Left: ms(a.left), Place: lua.Place(a.place), Position: int(a.position),
			Holder: owners[a.holder+1], Token: a.token, Since: lua.Micros(a.since), Older: a.older, Pending: a.pending,
		}
		k.Answered(i, b, w.pair(m), w.time())
		if a.status == waits && k.Phase == rules.Waiting {
			w.enqueue(m.call)
		}
	}
	if k.Phase == rules.Granted {
		w.confirm(m.call, m.node)
	}
	w.judge(m.call)
}

var (
	words  = [...]ballot.Status{granted: ballot.Granted, waits: ballot.Waits, held: ballot.Held, full: ballot.Full, gone: ballot.Gone}
	owners = [...]string{"", "a", "b", "c"} // of nobody and the calls
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (w *world) pair(m *msg) rules.ClockPair {
	return rules.ClockPair{Sent: at(m.sent), At: lua.Micros(m.answer.now), Session: uint64(m.session)}
}

// unanswered takes in that a request has failed: its answer is lost, or it is.
func (w *world) unanswered(m *msg) {
	k, i := &w.calls[m.call], int(m.node)
	k.away[i] = true
	if m.what == leaves && k.stage == leaving && w.down[i] == dead {
		k.said[2]++
		w.unsaid(m.call)
	}
	if k.stage == over || k.stage == killed || m.what == leaves {
		return
	}
	k = w.own(m.call)
	if m.what == enters || m.what == answersEnter {
		k.Entered(i, true)
	} else {
		k.Ended(i, m.what != beats && m.what != answersBeat)
	}
	switch m.what {
	case enters, answersEnter:
		k.Failed(i, errEvicted, false)
		if k.Phase == rules.Granted {
			w.confirm(m.call, m.node)
		}
		w.judge(m.call)
	case tells, answersTell:
		w.judge(m.call)
	case renews, answersRenew:
		w.roundGoesOn(m)
	}
}

// judge is Locker.judge.
func (w *world) judge(c int8) {
	k := w.own(c)
	if k.Phase != rules.Waiting {
		return
	}
	away := func(i int) bool { return k.away[i] }
	v := k.Judge(w.time(), away)
	switch v.Do {
	case ballot.Hold:
		w.keep(c, &v)
		return
	case ballot.Refuse:
		w.settle(c, refused)
		return
	case ballot.Fill:
		w.settle(c, filled)
		return
	case ballot.Fail:
		w.settle(c, failed)
		return
	case ballot.Wait:
	}
	for _, i := range v.Tell {
		if !k.Underway(i) && (!k.away[i] || w.broken == tellsTheDead) {
			k.Sent(i)
			w.send(msg{what: tells, call: c, node: int8(i), place: max(int64(k.Place), 1), token: v.Token, vote: k.Vote(i)})
		}
	}
	k.split = k.split || v.Split
	if !k.Ends().IsZero() && w.broken != votesDoNotListen {
		w.enqueue(c)
	}
	for _, i := range k.Due(away) {
		w.enter(c, int8(i))
	}
}

// settle ends a call without the lock: it leaves, as Locker.abandon has it.
func (w *world) settle(c int8, why why) {
	k := w.own(c)
	k.Phase, k.why = rules.Leaving, why
	for i := range int8(masters) {
		if k.Asked(int(i)) {
			w.send(msg{what: leaves, call: c, node: i, late: k.Open(int(i)) && w.broken != retiresNothing})
		}
	}
	w.ends(c)
}

// ends forgets a call: nobody listens for its answers.
func (w *world) ends(c int8) {
	k := &w.calls[c]
	k.stage, k.round, k.renewing = over, 0, false
	w.truth.ahead[c] = 0
}

// keep is Locker.keep.
func (w *world) keep(c int8, v *ballot.Verdict) {
	k := &w.calls[c]
	k.stage, k.got, k.token = holding, true, v.Token
	k.hold = rules.Begin(v.Term, lua.Claim, false, w.time())
	w.decided(c, v.Token)
	w.truth.ahead[c] = 0
}

// enqueue is Locker.enqueue: the first that waits has its Locker listen.
func (w *world) enqueue(c int8) { w.calls[c].listens = true }

// beat is Locker.beat with beatFor.
func (w *world) beat(c, i int8) {
	k := &w.calls[c]
	if k.stage != waiting || k.away[i] || !k.Stands(int(i)) {
		return
	}
	w.own(c).Sent(int(i))
	w.send(msg{what: beats, call: c, node: i})
}

// beaten is Locker.beatEnded.
func (w *world) beaten(m *msg) {
	k, i, a := w.own(m.call), int(m.node), &m.answer
	k.Ended(i, false)
	if k.Phase != rules.Waiting {
		if k.missed(m.node) {
			w.strive(m.call, m.node)
		}
		return
	}
	switch {
	case a.holder == m.call:
		k.Answered(i, &ballot.Answer{
			Status: ballot.Granted, Now: lua.Micros(a.now), Token: a.token, Since: lua.Micros(a.since), Left: ms(a.left),
			Place: k.At(i), Older: a.older,
		}, w.pair(m), w.time())
	case a.missing:
		k.Missing(i)
	default:
		k.Stood(i, w.pair(m))
	}
	w.judge(m.call) // a call that is decided here has not renewed yet, and so missed nothing
}

// up is Locker.up.
func (w *world) up(c, i int8) {
	w.calls[c].session[i]++
	w.nodes[i].heard[c] = true
	if w.broken != upAsksNothing {
		w.beat(c, i)
	}
	if w.lacks(c, i) {
		w.strive(c, i)
	}
}

// returned is Locker.returned: a probe was answered.
func (w *world) returned(c, i int8) {
	k := &w.calls[c]
	k.away[i] = false
	switch {
	case w.lacks(c, i):
		w.strive(c, i)
	case k.stage == waiting && w.broken != silenceIsForEver:
		if k.listens && k.Stands(int(i)) && k.At(int(i)) > 0 {
			w.beat(c, i)
		} else {
			w.own(c).Ask(int(i))
		}
		w.judge(c)
	}
}

// hear is Locker.message.
func (w *world) hear(p *push) {
	c, i := p.call, int(p.node)
	k := &w.calls[c]
	switch k.stage {
	case waiting, holding:
		k = w.own(c)
	case over:
		if (p.news == grants || p.news == wants) && w.broken != ghostsStay { // of a call that is in no table
			w.send(msg{what: leaves, call: c, node: p.node})
		}
		return
	default:
		return
	}
	switch {
	case p.news == wants && k.Phase == rules.Waiting:
		k.Want(i, p.token)
		w.judge(c)
	case p.news == grants:
		m := lua.Message{News: lua.Grants, Token: p.token, At: lua.Micros(p.at), Claim: lua.Claim}
		k.Heard(i, &m, w.time(), uint64(k.session[i]))
		if k.Phase == rules.Granted {
			w.confirm(c, p.node)
		}
		w.judge(c)
	case p.news == forces && k.Phase == rules.Waiting && w.broken == forcesUnheard:
	case p.news == evicts && k.Phase == rules.Waiting && w.broken == evictedHereOnly:
		k.Evicted(i, errEvicted)
		w.judge(c)
	case p.news == evicts && k.Phase == rules.Waiting:
		w.settle(c, failed)
	case p.news == forces && k.Phase == rules.Waiting:
		k.Evicted(i, errEvicted)
		w.judge(c)
	case p.news == forces:
		k.LoseVote(i)
		if left, _ := w.standing(c); left == 0 {
			w.lose(c, rules.Forced)
		}
	}
}
