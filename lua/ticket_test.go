package lua

import (
	"strings"
	"testing"
	"time"
)

// texts has texts that would tear a ticket, a message or a key apart if they were not escaped.
var texts = []string{
	"", "saga-7", "a:b", ":", "::", "two words", " ", "a\nb", "\r\n", "100%", "%3A", "+", "a+b", "{tag}", "}", "!", "~", "?", "*",
	"Grüße ✓ 日本", "\x00", "\xff\xfe", "token", "grant 1 2 3", strings.Repeat(":", 256),
}

func TestATicketComesBackAsItWasWhateverItsOwnerAndNoteSay(t *testing.T) {
	for _, owner := range texts {
		for _, note := range texts {
			ticket := NewTicket("5f-1", 18446744073709551615, 90*time.Second+time.Microsecond, owner, note)
			text := ticket.String()
			if strings.Count(text, ":") != 4 || strings.ContainsAny(text, " \r\n{}") {
				t.Fatalf("%q would tear a message or a record apart", text)
			}
			again, err := ParseTicket(text)
			must(t, err)
			equal(t, "ticket", again, ticket)
		}
	}
}

func TestATicketIsSpelledClientCounterLeaseOwnerNote(t *testing.T) {
	equal(t, "plain", NewTicket("c", 1, 1500*time.Millisecond, "", "").String(), "c:1:1500::")
	equal(t, "full", NewTicket("c", 2, time.Hour, "saga 7", "a:b").String(), "c:2:3600000:saga+7:a%3Ab")
}

func TestATicketOwnsByItselfUnlessItNamesAnOwner(t *testing.T) {
	equal(t, "implicit", NewTicket("c", 7, usual, "", "").Identity(), "c:7")
	equal(t, "explicit", NewTicket("c", 7, usual, "saga", "").Identity(), "saga")
}

func TestAClaimIsThreeSecondsOrTheLeaseIfThatIsShorter(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{time.Second: time.Second, 3 * time.Second: 3 * time.Second, time.Hour: 3 * time.Second} {
		equal(t, "claim", Ticket{Lease: lease}.Claim(), want)
	}
}

var noTickets = []string{
	"", ":", "::::", "c:1:2:3", "c:1:2:3:4:5", ":1:30000::", "c::30000::", "c:1:::", "c:x:30000::", "c:-1:30000::", "c:1:x::", "c:1.5:1::",
	"c:1:30000:%zz:", "c:1:30000::%", "c:18446744073709551616:1::", "c:1:9223372036854775808::", "c:1:1::" + strings.Repeat("n", 2000),
}

func TestWhatIsNoTicketIsAnError(t *testing.T) {
	for _, text := range noTickets {
		if ticket, err := ParseTicket(text); err == nil || ticket != (Ticket{}) {
			t.Errorf("%.60q: %+v, %v", text, ticket, err)
		}
	}
}

// A lease larger than a Duration holds would come back as another lease, perhaps a negative one.
func TestATicketWithAnImpossibleLeaseIsAnError(t *testing.T) {
	for _, text := range []string{"c:1:9223372036855::", "c:1:9223372036854775807::", "c:1:-1::"} {
		if ticket, err := ParseTicket(text); err == nil {
			t.Errorf("%q: a lease of %v", text, ticket.Lease)
		}
	}
}

func FuzzParseTicket(f *testing.F) {
	for _, text := range texts {
		f.Add(NewTicket("client", 1, usual, text, text).String())
	}
	for _, text := range noTickets {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := ParseTicket(text)
		if err != nil {
			return
		}
		again, err := ParseTicket(ticket.String())
		if err != nil || again != ticket {
			t.Fatalf("%q is %+v, which is %q, which is %+v, %v", text, ticket, ticket.String(), again, err)
		}
	})
}
