package majority

import "fmt"

var doings = [...]string{
	begins: "begins", arrives: "arrives", fails: "is not answered", hears: "hears", subscribes: "is subscribed", probes: "finds again",
	unlocks: "unlocks", goesOn: "goes on", looks: "looks again", tends: "tends its hold",
	givesUp: "gives up", timesOut: "is out of time", dies: "is killed", loses: "is lost", swallows: "is lost", delays: "is late",
	deafens: "hears no more of", floods: "all nodes are flushed", forgets: "loses the keys of the lock", restarts: "restarts", flushes: "is flushed", hanging: "hangs", downs: "dies",
	forcing: "an administrator forces the lock", evicting: "is evicted by an administrator", renewal: "renews", ticks: "time passes",
}

var whats = [...]string{
	enters: "enter", beats: "beat", tells: "tell", renews: "renew", leaves: "leave", forcedLeaves: "forced leave", evictions: "eviction",
	answersEnter: "answer to enter", answersBeat: "answer to beat", answersTell: "answer to tell", answersRenew: "answer to renew",
}

var newsWords = [...]string{grants: "grant", wants: "wanted", forces: "forced", evicts: "evicted"}

// describe says what a move does.
func (w *world) describe(v move) string {
	what := doings[v.what]
	switch v.what {
	case arrives, fails, loses, swallows, delays:
		m := &w.air[v.i]
		return fmt.Sprintf("%s of %s at %d %s%s", whats[m.what], label(m.call), m.node+1, what, m.details())
	case hears:
		p := &w.pushes[v.i]
		return fmt.Sprintf("%s hears %s %d from %d", label(p.call), newsWords[p.news], short(p.token), p.node+1)
	case subscribes, probes, deafens:
		return fmt.Sprintf("%s %s at %d", label(v.call), what, v.node+1)
	case begins, unlocks, looks, tends, givesUp, timesOut, dies, evicting, renewal:
		return label(v.call) + " " + what
	case restarts:
		return fmt.Sprintf("node %d restarts %s", v.node+1, [...]string{none: "empty", yesterdays: "with old data", all: "with its data"}[v.data])
	case goesOn, flushes, forgets, hanging, downs:
		return fmt.Sprintf("node %d %s", v.node+1, what)
	}
	return what
}

// short is a time or a token of the world that can be read.
func short(n int64) int64 {
	if n == 0 {
		return 0
	}
	return n - begin*1000
}

func (m *msg) details() string {
	text := ""
	if m.orphan {
		text += ", unheard"
	}
	if m.what < requests {
		if m.place > 0 {
			text += fmt.Sprintf(", place %d", short(m.place))
		}
		if m.back > 0 {
			text += fmt.Sprintf(", gives back %d", short(m.back))
		}
		if m.token > 0 {
			text += fmt.Sprintf(", token %d", short(m.token))
		}
		if m.late {
			text += ", retires"
		}
		return text
	}
	a := &m.answer
	switch m.what {
	case answersEnter:
		return fmt.Sprintf("%s: %s, place %d, token %d, holder %s, pending %t, older %t", text, words[a.status], short(a.place), short(a.token), label(a.holder), a.pending, a.older)
	case answersBeat:
		return fmt.Sprintf("%s: holder %s, missing %t", text, label(a.holder), a.missing)
	}
	return fmt.Sprintf("%s: %d ms", text, a.left)
}
