package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

// change is something that was done from the page, for the record.
type change struct {
	At    time.Time `json:"at"`
	Verb  string    `json:"did"` // force or evict
	Name  string    `json:"name"`
	Bytes string    `json:"name_base64,omitempty"` // if the name is not UTF-8
	Kind  string    `json:"kind"`
	Whose string    `json:"whose"` // the token of the ownership, or the id of the waiter
	Who   string    `json:"who"`   // as people read it
	From  string    `json:"from"`  // the address of the browser
	// Unsure: the Redis did not answer, and may have done it or not.
	Unsure bool `json:"unsure,omitempty"`
}

// plan is a change that is possible now: what it does, in words, and how to do it.
type plan struct {
	who     string
	ask     string   // the question
	will    []string // what will happen
	button  string
	facts   []label
	do      func(context.Context) error
	done    string
	refused error  // why it is not possible; all else is unset
	whose   string // what the form is sealed with: nothing else can be changed by it
}

// action is force or evict. It plans what the address of a request names, by what it sees now.
type action struct {
	verb string
	plan func(context.Context, *http.Request, key) plan
}

// moved is an error that says that what was to be changed is not there any more.
type moved string

func (m moved) Error() string { return string(m) }

// toForce plans to end the ownership with the token in the address, and no other.
func (s *site) toForce(ctx context.Context, r *http.Request, k key) plan {
	l := s.watcher.lockers[k.kind]
	state, err := l.Inspect(ctx, k.name)
	if err != nil {
		return plan{refused: err}
	}
	token := r.URL.Query().Get("token")
	h := state.Holder
	switch {
	case h == nil:
		return plan{refused: moved("Nobody has it any more.")}
	case strconv.FormatInt(h.Token, 10) != token:
		return plan{refused: moved(fmt.Sprintf("It is not held with token %s any more, but with %d by %s.", look.Plain(token), h.Token, look.Holder(h)))}
	}
	holder, name := look.Holder(h), look.Plain(k.name)
	next := "Nobody waits for it, as far as the server knows. The lock is free then."
	if len(state.Waiters) > 0 {
		next = fmt.Sprintf("The next of %s in line has it then: %s, who has waited for %s.", look.Count(state.Waiting), called(state.Waiters[0]), look.Span(state.Waiters[0].Waited))
	}
	return plan{
		who: holder, whose: token, ask: "Force " + name + "?", button: "Force it: " + holder + " loses the lock",
		facts: []label{{"held by", holder}, {"owner", look.Plain(h.Owner)}, {"token", token}, {"held for", look.Span(h.Held)}, {"lease ends in", look.Span(h.Remaining)}, {"waiting", look.Count(state.Waiting)}},
		will: []string{
			holder + " loses the lock. Its process is told at once or, should it not listen, with its next renewal.", next,
			"Until the process knows, two may believe that they have the lock. Only the fencing token tells them apart.",
			"If the lock has changed hands before you press the button, nothing is done.",
		},
		do: func(ctx context.Context) error {
			err := l.Force(ctx, k.name, h.Token)
			if errors.Is(err, fairlock.ErrNotHeld) {
				return moved(fmt.Sprintf("It is not held with token %d any more.", h.Token))
			}
			return err
		},
		done: fmt.Sprintf("The ownership of %s (token %s), who had it for %s, was ended.", holder, token, look.Span(h.Held)),
	}
}

// toEvict plans to take the waiter with the id in the address out of the line.
func (s *site) toEvict(ctx context.Context, r *http.Request, k key) plan {
	l, ok := s.watcher.lockers[k.kind].Interface.(*fairlock.Locker)
	if !ok {
		return plan{refused: moved("A plain lock has no line.")}
	}
	state, err := l.Inspect(ctx, k.name)
	if err != nil {
		return plan{refused: err}
	}
	id := r.URL.Query().Get("id")
	at := slices.IndexFunc(state.Waiters, func(w fairlock.Waiter) bool { return w.ID == id })
	if at < 0 {
		return plan{refused: moved("Nobody with this id waits for it any more.")}
	}
	w := state.Waiters[at]
	waiter := called(w)
	return plan{
		who: waiter, whose: id, ask: "Evict a waiter of " + look.Plain(k.name) + "?", button: "Evict " + waiter,
		facts: []label{{"waiter", waiter}, {"id", look.Plain(id)}, {"place", look.Count(at+1) + " of " + look.Count(state.Waiting)}, {"has waited", look.Span(w.Waited)}},
		will: []string{
			waiter + " is taken out of the line. Its call returns ErrEvicted, at once or, should its process not listen, with its next heartbeat.",
			fmt.Sprintf("The %s behind it move up. Nobody else notices.", look.Count(state.Waiting-at-1)),
			"If it has the lock before you press the button, nothing is done.",
		},
		do:   func(ctx context.Context) error { return l.Evict(ctx, k.name, id) },
		done: fmt.Sprintf("%s, who had place %s and had waited for %s, was taken out of the line.", waiter, look.Count(at+1), look.Span(w.Waited)),
	}
}

// called names a waiter, if only by its id.
func called(w fairlock.Waiter) string {
	if name := who(w); name != "" {
		return name
	}
	return look.Plain(w.ID)
}

// question is the page that asks whether to do something.
type question struct {
	frame
	Heading, Button, Action, Seal, Back string
	Facts                               []label
	Will                                []string
}

// ask serves the page that says what an action would do.
func (s *site) ask(a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k, p, ok := s.planned(w, r, a)
		if !ok {
			return
		}
		s.render(w, http.StatusOK, "question.page", question{
			frame: frame{Title: p.ask, Server: s.server, Changes: true}, Heading: p.ask, Button: p.button, Facts: p.facts, Will: p.will,
			Action: r.URL.RequestURI(), Seal: s.seal(a.verb, k, p.whose), Back: k.href("/lock"),
		})
	}
}

// do does what the page of ask has asked about.
func (s *site) do(a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k, p, ok := s.planned(w, r, a)
		if !ok {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		if !hmac.Equal([]byte(r.PostFormValue("seal")), []byte(s.seal(a.verb, k, p.whose))) {
			s.refuse(w, k, http.StatusForbidden, "This form is not one of ours, or of before a restart. Look at the lock again.")
			return
		}
		// What is done is written down, also if the browser goes away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
		defer cancel()
		unsure, err := s.carryOut(ctx, change{Verb: a.verb, Name: k.name, Bytes: look.Base64(k.name), Kind: k.kind, Whose: p.whose, Who: p.who, From: r.RemoteAddr}, p.do)
		s.watcher.hurry(k)
		switch {
		case unsure:
			s.refuse(w, k, http.StatusBadGateway, "The Redis: "+look.Error(err)+". It may have been done.")
			return
		case err != nil:
			s.failed(w, k, err)
			return
		}
		text := []string{p.done}
		if state, err := s.watcher.lockers[k.kind].Inspect(ctx, k.name); err == nil && a.verb == "force" {
			now := "Nobody has it now."
			if h := state.Holder; h != nil {
				now = fmt.Sprintf("%s has it now, with token %d.", look.Holder(h), h.Token)
			}
			text = append(text, now)
		}
		s.say(w, http.StatusOK, notice{Heading: look.Plain(k.name), Text: text, Back: k.href("/lock")})
	}
}

// carryOut makes a change, and writes it down if it was made, or may have been: then it is unsure.
// The site does not end meanwhile.
func (s *site) carryOut(ctx context.Context, c change, do func(context.Context) error) (unsure bool, err error) {
	if !s.changing.TryRLock() {
		return false, moved("This page has ended.") // nobody would write it down
	}
	defer s.changing.RUnlock()
	err = do(ctx)
	c.At, c.Unsure = time.Now().UTC(), !locks.Certain(err)
	if err == nil || c.Unsure {
		s.report(c)
	}
	return c.Unsure, err
}

// planned returns the plan for a request, or answers why there is none.
func (s *site) planned(w http.ResponseWriter, r *http.Request, a action) (k key, p plan, ok bool) {
	k = keyOf(r)
	if !s.changes {
		s.refuse(w, k, http.StatusForbidden, "This page only shows. Who runs it can allow changes: fairlock web --allow-changes.")
		return k, p, false
	}
	if !s.knows(w, r) {
		return k, p, false
	}
	if !r.URL.Query().Has("name") {
		s.refuse(w, k, http.StatusBadRequest, "No lock is named.")
		return k, p, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if p = a.plan(ctx, r, k); p.refused != nil {
		s.failed(w, k, p.refused)
		return k, p, false
	}
	return k, p, true
}

// failed answers that something was not done, and why.
func (s *site) failed(w http.ResponseWriter, k key, err error) {
	var gone moved
	switch {
	case errors.As(err, &gone) || errors.Is(err, fairlock.ErrNotHeld) || errors.Is(err, fairlock.ErrNotWaiting):
		s.refuse(w, k, http.StatusConflict, look.Error(err)+" Nothing was done.")
	case errors.Is(err, fairlock.ErrInvalid):
		s.refuse(w, k, http.StatusBadRequest, look.Error(err))
	default:
		s.refuse(w, k, http.StatusBadGateway, "The Redis: "+look.Error(err))
	}
}

func (s *site) refuse(w http.ResponseWriter, k key, status int, why string) {
	s.say(w, status, notice{Heading: look.Plain(k.name), Text: []string{why}, Back: k.href("/lock")})
}

// seal returns what proves that a form is one of ours, for this change only.
func (s *site) seal(verb string, k key, whose string) string {
	mac := hmac.New(sha256.New, s.secret)
	for _, part := range []string{verb, k.kind, k.name, whose} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil))
}
