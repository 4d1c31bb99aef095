package simulate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// refusals are the errors with which a server refuses to execute a request, by their first word.
var refusals = map[string]string{
	"NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
	"MISCONF":    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"BUSY":       "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"LOADING":    "LOADING Redis is loading the dataset in memory",
	"OOM":        "OOM command not allowed when used memory > 'maxmemory'.",
	"NOPERM":     "NOPERM No permissions to access a key",
	"ERR":        "ERR upstream failure", // from a proxy
}

// passing are the refusals that end by themselves.
var passing = []string{"NOREPLICAS", "MISCONF", "BUSY", "LOADING"}

// moods are the refusals that come in spells.
var moods = []string{"NOREPLICAS", "MISCONF", "BUSY", "LOADING", "OOM", "NOPERM"}

// spell has the server refuse all requests of a kind for a while. mu must be held.
func (w *World) spell(r *rand.Rand) {
	mood := moods[r.IntN(len(moods))]
	d := stage.Span(r, 100*time.Millisecond, 12*time.Second)
	if w.server.mood != "" {
		return
	}
	w.fault("spell of "+mood, "for %v", d)
	w.server.mood = mood
	w.lasts(d, func() { w.server.mood = ""; w.trouble() })
}

// refusal returns the kind of error that answers a request instead of its execution. "" means that
// the request is executed.
func (l *link) refusal(f *flight) (kind string) {
	w := l.w
	verb := w.server.Verb(f.args)
	switch mood := w.server.mood; {
	case verb != "" && w.server.forbids && slices.ContainsFunc(f.args, func(arg string) bool { return strings.HasSuffix(arg, ":{"+damaged+"}") }):
		return "NOPERM" // NOPERM for one key refuses the whole request
	case mood != "" && refuses(mood, verb, f):
		return mood
	case l.proxied > 0 && verb != "":
		l.proxied--
		return "ERR"
	case l.weather.refuse == 0 || verb == "" || f.r.Float64() >= l.weather.refuse:
		return ""
	}
	if kind = moods[f.r.IntN(len(moods))]; !refuses(kind, verb, f) {
		return ""
	}
	return kind
}

// refuses reports whether a server in this state refuses this request.
func refuses(kind, verb string, f *flight) bool {
	switch kind {
	case "NOREPLICAS", "MISCONF":
		return verb != "" && verb != "inspect"
	case "OOM": // refused is what makes the server's data larger: newcomers
		return verb == "enter" && len(f.args) > 16 && f.args[16] == "0"
	case "BUSY", "LOADING":
		return verb != "" || slices.Contains([]string{"info", "publish", "eval"}, strings.ToLower(f.args[0]))
	}
	return verb != ""
}

// answer returns the reply to a request.
func (l *link) answer(f *flight) []byte {
	kind := l.refusal(f)
	if kind == "" {
		return l.execute(f, "")
	}
	w := l.w
	verb := w.server.Verb(f.args)
	switch {
	case kind == "ERR":
		w.fault("proxy's error", "%s: %s", l.owner.name, verb)
		if verb == "renew" {
			l.refused = time.Now()
		}
		if f.r.IntN(2) == 0 {
			l.execute(f, "behind a proxy: ")
		}
	case w.server.mood == "" && !w.server.forbids:
		w.fault("refusal", "%s: %s of %s", kind, verb, l.owner.name)
	}
	w.history.Note(l.owner.name, "%s -> %s", verb, kind)
	if kind == "NOPERM" && verb == "leave" {
		look := &look{verb: verb, argv: f.args[7:]}
		for _, p := range look.tickets() { // a definite answer: the client will not ask again
			if lk := w.referee.locks[nameOf(f.args[3])]; lk != nil {
				lk.refused[p.ticket] = true
			}
		}
	}
	return []byte("-" + refusals[kind] + "\r\n")
}

// delivered notes which calls a reply tells to wait. A call that gets the lock at once is not among
// them, even if it learns of that too late.
func (l *link) delivered(f *flight, reply []byte) {
	if reply[0] == '-' || l.w.server.Verb(f.args) != "enter" {
		return
	}
	var states []string // in the order of the tickets
	for word := range strings.FieldsSeq(string(reply)) {
		if slices.Contains([]string{"granted", "waiting", "returned", "taken", "full", "gone"}, word) {
			states = append(states, word)
		}
	}
	look := &look{verb: "enter", argv: f.args[7:]}
	for i, p := range look.tickets() {
		waits := i < len(states) && (states[i] == "waiting" || states[i] == "returned")
		if k := l.owner.called(nameOf(f.args[3]), p.ticket); k != nil && waits {
			k.answered = true
		}
	}
}

// lost notes that calls may not know that they wait: their answer went with a goroutine.
func (l *link) lost(args []string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.server.Verb(args) != "enter" {
		return
	}
	look := &look{verb: "enter", argv: args[7:]}
	for _, p := range look.tickets() {
		if k := l.owner.called(nameOf(args[3]), p.ticket); k != nil {
			k.answered = false
		}
	}
}

// heard notes which call a message tells to wait: whoever is granted the lock by message, or called
// back, stood in line.
func (l *link) heard(payload string) {
	m, err := lua.ParseMessage(payload)
	if err != nil || m.News != lua.Grants && m.News != lua.Recalls {
		return
	}
	if k := l.owner.called(nameOf(m.Record), m.Ticket.String()); k != nil { // else it is forged
		k.heard = time.Now()
	}
}

// unanswered notes a release whose client cannot know whether it was executed.
func (r *referee) unanswered(args []string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	verb := r.w.server.Verb(args)
	if verb != "leave" {
		return
	}
	l := &look{verb: verb, argv: args[7:]}
	for _, p := range l.tickets() {
		if lk := r.locks[nameOf(args[3])]; lk != nil {
			lk.unsure[stage.CallOf(p.ticket)] = true
		}
	}
}
