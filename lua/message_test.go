package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMessagesAreDecoded(t *testing.T) {
	ticket := NewTicket("c", 1, usual, "saga 7", "a:b\n{}")
	grant, err := ParseMessage("grant 1732186543123456 3000 1732186543123455 " + ticket.String() + " fairlock:lock:{x y}")
	must(t, err)
	equal(t, "grant", grant, Message{News: Grants, Ticket: ticket, Record: "fairlock:lock:{x y}", Token: 1732186543123455, At: 1732186543123456, Claim: 3 * time.Second})
	forced, err := ParseMessage("forced 9007199254740991 " + ticket.String() + " fairlock:lock:{x y}")
	must(t, err)
	equal(t, "forced", forced, Message{News: Forces, Ticket: ticket, Record: "fairlock:lock:{x y}", Token: 1<<53 - 1})
	evicted, err := ParseMessage("evicted " + ticket.String() + " fairlock:lock:{x y}")
	must(t, err)
	equal(t, "evicted", evicted, Message{News: Evicts, Ticket: ticket, Record: "fairlock:lock:{x y}"})
	hint, err := ParseMessage("hint " + ticket.String() + " fairlock:lock:{x y}")
	must(t, err)
	equal(t, "hint", hint, Message{News: Recalls, Ticket: ticket, Record: "fairlock:lock:{x y}"})
}

func TestAGrantSaysExactlyWhatWasWritten(t *testing.T) {
	for _, text := range texts {
		twice(t, func(t *testing.T, s *site) {
			s.scripts = s.rdb // ACL rules cannot name some of these keys
			s.keys = keysOf(t, "a lock: {"+text)
			a, b := s.party("a"), s.party("b")
			hold, token := a.holds(usual)
			ticket := NewTicket(b.id, 1, usual, text, text)
			b.queues(ticket.String())
			a.leaves(hold, token, Held)
			m := b.hears()
			equal(t, "message", m, Message{News: Grants, Ticket: ticket, Record: s.keys.Record(), Token: m.Token, At: m.At, Claim: Claim})
			equal(t, "token", fmt.Sprint(m.Token), s.field("token"))
			equal(t, "end", int64(m.At)/1000+m.Claim.Milliseconds(), s.ends(s.keys.Record()))
			equal(t, "holder", b.inspects().Owner, ticket.Identity())
		})
	}
}

var noMessages = []string{
	"", " ", "grant", "forced", "grant 1 2 3", "forced 1", "forced 1 c:1:1::", "grant 1 2 3 c:1:1::", "gone 1 c:1:1:: r", "Grant 1 2 3 c:1:1:: r",
	"grant 1 2 3 c:1:1 r", "forced 1 c:1:1 r", "grant -1 2 3 c:1:1:: r", "grant 0 2 3 c:1:1:: r", "grant 1 0 3 c:1:1:: r", "grant 1 2 0 c:1:1:: r",
	"grant 1.7321865431235e+15 2 3 c:1:1:: r", "grant 1 2 1.7321865431235e+15 c:1:1:: r", "grant 1 2 9007199254740992 c:1:1:: r",
	"evicted", "evicted c:1:1::", "evicted c:1:1:: ", "hint c:1:1::", "evicted c:1:1 r", "evicted 1 c:1:1:: r",
	"forced 9223372036854775808 c:1:1:: r",
	"run 1 2 3 c:1:1:: r", "run 1 2 3 4, c:1:1:: r", "run 1 2 3 x c:1:1:: r", "run 1 2 3  c:1:1:: r", "run 1 2 3 -4 c:1:1:: r",
	"forced  c:1:1:: r", "grant 1  3 c:1:1:: r",
}

func TestWhatIsNoMessageIsAnError(t *testing.T) {
	for _, text := range noMessages {
		if m, err := ParseMessage(text); err == nil || m != (Message{}) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
}

// Anybody may publish on a channel. A claim larger than a Duration holds would overflow to a
// negative one.
func TestAMessageWithAnImpossibleClaimIsAnError(t *testing.T) {
	if m, err := ParseMessage("grant 1 9007199254740991 1 c:1:1:: r"); err == nil {
		t.Fatalf("a claim of %v", m.Claim)
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, text := range noMessages {
		f.Add(text)
	}
	f.Add("grant 1732186543123456 3000 1732186543123455 c:1:30000:saga+7:note fairlock:lock:{x y}")
	f.Add("run 1732186543123456 3000 1732186543123455 2,3 c:1:30000::note fairlock:lock:{x y}")
	f.Add("forced 1732186543123455 c:1:30000:: fairlock:lock:{x}")
	f.Add("evicted c:1:30000:: fairlock:lock:{x}")
	f.Add("hint c:1:30000:: fairlock:lock:{x}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMessage(text)
		if err != nil {
			if m != (Message{}) {
				t.Fatalf("%q: %+v with %v", text, m, err)
			}
			return
		}
		verb, _, _ := strings.Cut(text, " ")
		grant := verb == "grant" || verb == "run"
		if (verb == "run") != (Counters(m.Run) != nil) {
			t.Fatalf("%q: run %q", text, m.Run)
		}
		if verb == "run" {
			verb = "grant"
		}
		if m.News != News(verb) {
			t.Fatalf("%q: %+v", text, m)
		}
		if m.Ticket.Client == "" || m.Record == "" || !strings.HasSuffix(text, " "+m.Record) || (m.Token > 0) != (grant || m.News == Forces) ||
			(m.At > 0) != grant || (m.Claim > 0) != grant {
			t.Fatalf("%q: %+v", text, m)
		}
	})
}
