package security

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/world"
)

const (
	hugeToken  = 1<<53 - 1 // the largest number that the scripts can hold
	giantText  = 1 << 20
	longestLog = 4096 // bytes in a line
)

// message returns what a script would publish now.
func (f *faulty) message(verb, ticket, record string, token int64) string {
	f.Helper()
	switch verb {
	case "grant":
		now, err := f.Direct.Time(background).Result()
		f.Must(err)
		return fmt.Sprintf("grant %d 3000 %d %s %s", now.UnixMicro(), token, ticket, record)
	case "forced":
		return fmt.Sprintf("forced %d %s %s", token, ticket, record)
	}
	return verb + " " + ticket + " " + record
}

// newToken returns a token larger than any that was given.
func (f *faulty) newToken() int64 { return f.serverMillis()*1000 + 1e6 }

// right returns what a message of that kind must name to count.
func (t *target) right(verb string) (ticket, record string, token int64) {
	if verb == "forced" {
		return t.holds, t.Keys("held").Record(), t.held.Token()
	}
	return t.waits, t.Keys("bank").Record(), t.newToken()
}

// forgeries are messages that must not count, by what is wrong with them.
func (t *target) forgeries(verb string) map[string]string {
	ticket, record, token := t.right(verb)
	wrong := map[string]string{
		"another lock's record":     t.message(verb, ticket, t.Keys("mine").Record(), token),
		"a record of its own":       t.message(verb, ticket, t.Keys("sign").Record(), token),
		"a huge token":              t.message(verb, ticket, t.Keys("mine").Record(), hugeToken),
		"no record of ours":         t.message(verb, ticket, "mine", token),
		"another prefix's record":   t.message(verb, ticket, "x"+record, token),
		"another note":              t.message(verb, ticket+"x", record, token),
		"another lease":             t.message(verb, strings.Replace(ticket, ":30000:", ":30001:", 1), record, token),
		"another owner":             t.message(verb, strings.Replace(ticket, ":30000:", ":30000:x", 1), record, token),
		"a counter never given":     t.message(verb, t.client()+":1000000:30000::", record, token),
		"the largest counter":       t.message(verb, t.client()+":18446744073709551615:30000::", record, token),
		"the ticket of a past call": t.message(verb, t.past, record, token),
		"another client":            t.message(verb, strings.Replace(ticket, t.client(), "somebody", 1), record, token),
		"a megabyte of a record":    t.message(verb, ticket, record+strings.Repeat("x", giantText), token),
		"a megabyte of a note":      t.message(verb, ticket+strings.Repeat("x", giantText), record, token),
		"a space in the ticket":     t.message(verb, ticket+" "+record, t.Keys("mine").Record(), token),
		"a tail":                    t.message(verb, ticket, record, token) + " ",
		"no record":                 strings.TrimSuffix(t.message(verb, ticket, record, token), record),
	}
	switch verb {
	case "forced":
		wrong["its other ticket"] = t.message(verb, t.waits, t.Keys("bank").Record(), t.bank.Token())
		wrong["another token"] = t.message(verb, ticket, record, token+1)
	default:
		wrong["its other ticket"] = t.message(verb, t.holds, record, token)
	}
	if verb == "grant" || verb == "forced" {
		for _, n := range []string{"0", "-1", "x", "9007199254740992", "9223372036854775808", "1e15", ""} {
			wrong["a token that is "+n] = strings.Replace(t.message(verb, ticket, record, 77), " 77 ", " "+n+" ", 1)
		}
	}
	return wrong
}

// garbage has no message in it at all.
var garbage = []string{
	"", " ", "grant", "grant ", "grant 1 2 3", "forced", "forced 1", "evicted", "evicted x", "hint", "hint  ", "GRANT 1 2 3 4 5",
	"\x00", "\xff\xfe", "\x1b]0;title\x07", "grant\n1\n2", strings.Repeat("x", giantText), strings.Repeat(" ", giantText),
	"grant " + strings.Repeat("9", giantText) + " 1 1 a:1:1:: r", "*1\r\n$4\r\nPING\r\n",
}

func TestAForgedMessageThatDoesNotNameTheLockAndTheWholeTicketDoesNothing(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, verb := range []string{"grant", "forced", "evicted", "hint", "garbage"} {
		tests[verb] = func(t *testing.T) {
			v := newFaulty(t).targeted()
			liar := v.may("+publish", "&fairlock:wake:*")
			tell := func(what, message string) {
				v.Helper()
				if n, err := liar.Publish(background, "fairlock:wake:"+v.client(), message).Result(); err != nil || n != 1 {
					v.Fatalf("%s: heard by %d, %v", what, n, err)
				}
				v.undisturbed(what)
			}
			if verb == "garbage" {
				for _, message := range garbage {
					tell(fmt.Sprintf("%.50q", message), message)
				}
			} else {
				for what, message := range v.forgeries(verb) {
					tell(what, message)
				}
			}
			for line := range strings.Lines(v.said.String()) {
				if len(line) > longestLog || strings.ContainsAny(line, "\x00\x07\x1b") || strings.Contains(line, "\xff") {
					v.Errorf("the log has a line of %d bytes: %.200q", len(line), line)
				}
			}
			v.goesOn()
			v.Free("mine")
		}
	}
	world.Together(t, tests)
}

func TestAMessageAboutATicketThatWasNeverGivenOutChangesNothingOnTheServer(t *testing.T) {
	v := newFaulty(t).targeted()
	liar := v.may("+publish", "&fairlock:wake:*")
	before := v.Proxy.Count(v.Verb("leave"))
	for _, name := range []string{"bank", "held", "mine"} {
		for _, verb := range []string{"grant", "forced", "evicted", "hint"} {
			message := v.message(verb, v.client()+":1000000:30000::", v.Keys(name).Record(), hugeToken)
			v.Must(liar.Publish(background, "fairlock:wake:"+v.client(), message).Err())
		}
	}
	v.undisturbed("a counter that was never given")
	v.goesOn()
	v.Must(v.user.Close()) // and what it did in the background is done
	// One of the leaves is for the hold that was forced as a sign.
	if n := v.Proxy.Count(v.Verb("leave")) - before; n > 3 {
		v.Errorf("it sent %d leaves, and not one for each hold that ended", n)
	}
}
