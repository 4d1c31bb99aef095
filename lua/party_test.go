package lua

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/poll"
)

// usual is the lease of tests that need no special one. brief is for tests that wait for its end.
const usual, brief = 30 * time.Second, 120 * time.Millisecond

// boundOfWaits bounds waits that should end at once.
const boundOfWaits = 10 * time.Second

// party is one client of the site's lock.
type party struct {
	*Server
	s       *site
	id      string
	counter uint64
	sub     *redis.PubSub
	inbox   <-chan *redis.Message
}

// deaf returns a client without a subscription: to the server it is blind.
func (s *site) deaf(id string) *party {
	return &party{Server: NewServer(s.scripts, Channels("fairlock"), id), s: s, id: id}
}

// party returns a client that hears its channel.
func (s *site) party(id string) *party {
	p := s.deaf(id)
	p.listen()
	return p
}

// channel is the client's channel for the site's lock.
func (p *party) channel() string { return p.Channel(p.s.keys) }

// listen returns when the server sees the client's subscription.
func (p *party) listen() {
	p.s.t.Helper()
	if p.sub = p.s.rdb.Subscribe(ctx); p.Sharded() {
		must(p.s.t, p.sub.SSubscribe(ctx, p.channel()))
	} else {
		must(p.s.t, p.sub.Subscribe(ctx, p.channel()))
	}
	_, err := p.sub.Receive(ctx)
	must(p.s.t, err)
	p.inbox = p.sub.Channel(redis.WithChannelSize(1000)) // the embedded server waits for its readers
	p.s.t.Cleanup(func() { _ = p.sub.Close() })          // it may be closed already
}

// die ends the subscription, as the end of the process would. It returns when the server has seen
// this.
func (p *party) die() {
	p.s.t.Helper()
	must(p.s.t, p.sub.Close())
	eventually(p.s.t, "the server sees the end of the subscription", func() bool {
		count := p.s.rdb.PubSubNumSub
		if p.Sharded() {
			count = p.s.rdb.PubSubShardNumSub
		}
		return count(ctx, p.channel()).Val()[p.channel()] == 0
	})
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(boundOfWaits, ok) {
		t.Fatalf("waited in vain until %s", what)
	}
}

// raw returns the next message on the client's channel.
func (p *party) raw() string {
	p.s.t.Helper()
	select {
	case m, open := <-p.inbox:
		if !open {
			p.s.t.Fatalf("%s does not listen", p.id)
		}
		return m.Payload
	case <-time.After(boundOfWaits):
		p.s.t.Fatalf("%s hears nothing", p.id)
		return ""
	}
}

func (p *party) hears() Message {
	p.s.t.Helper()
	text := p.raw()
	m, err := ParseMessage(text)
	if err != nil || short.MatchString(text) {
		p.s.t.Fatalf("message %q: %v", text, err)
	}
	return m
}

// hearsNothing fails if there is a message beyond those that hears has returned.
func (p *party) hearsNothing() {
	p.s.t.Helper()
	publish := p.s.rdb.Publish
	if p.Sharded() {
		publish = p.s.rdb.SPublish
	}
	must(p.s.t, publish(ctx, p.channel(), "end").Err())
	equal(p.s.t, "message to "+p.id, p.raw(), "end")
}

// ticket returns a new ticket of the client.
func (p *party) ticket(lease time.Duration) string { return p.owned("", lease) }

// owned returns a new ticket of the client with an explicit owner.
func (p *party) owned(owner string, lease time.Duration) string {
	p.counter++
	return NewTicket(p.id, p.counter, lease, owner, "").String()
}

// parsed is the ticket that travels so.
func parsed(text string) Ticket {
	t, err := ParseTicket(text)
	if err != nil {
		panic(err)
	}
	return t
}

// ask sends the tickets in one enter to wait, with no token seen.
func (p *party) ask(tickets ...EnterTicket) Entered {
	p.s.t.Helper()
	return p.send(Enter{Tickets: tickets})
}

// send sends e for the site's lock.
func (p *party) send(e Enter) Entered {
	p.s.t.Helper()
	if e.Spare == 0 {
		e.Spare = usual
	}
	answer, err := p.Enter(ctx, p.s.keys, e)
	must(p.s.t, err)
	p.s.check()
	return answer
}

// enter enters one ticket, with its place if there is one.
func (p *party) enter(ticket string, place ...Place) (TicketState, Entered) {
	p.s.t.Helper()
	answer := p.ask(EnterTicket{Ticket: parsed(ticket), Place: slices.Max(append(place, 0))})
	return answer.Tickets[0], answer
}

func (p *party) try(ticket string) (TicketState, Entered) {
	p.s.t.Helper()
	answer := p.send(Enter{Try: true, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
	return answer.Tickets[0], answer
}

// holds takes the free lock with a new ticket.
func (p *party) holds(lease time.Duration) (ticket string, token int64) {
	p.s.t.Helper()
	ticket = p.ticket(lease)
	return ticket, p.takes(ticket)
}

// takes takes the free lock with this ticket.
func (p *party) takes(ticket string) (token int64) {
	p.s.t.Helper()
	state, _ := p.enter(ticket)
	equal(p.s.t, "state of "+ticket, state.Status, Granted)
	return state.Grant.Token
}

// waits gets in line with a new ticket.
func (p *party) waits(lease time.Duration) (ticket string, place Place) {
	p.s.t.Helper()
	ticket = p.ticket(lease)
	return ticket, p.queues(ticket)
}

// queues gets in line with this ticket.
func (p *party) queues(ticket string, place ...Place) Place {
	p.s.t.Helper()
	state, _ := p.enter(ticket, place...)
	equal(p.s.t, "state of "+ticket, state.Status, Waiting)
	return state.Place
}

// leave sends the tickets in one leave.
func (p *party) leave(tickets ...LeaveTicket) Left {
	p.s.t.Helper()
	left, err := p.Leave(ctx, p.s.keys, tickets)
	must(p.s.t, err)
	p.s.check()
	return left
}

// leaves gives up one ticket; want is the status that it had.
func (p *party) leaves(ticket string, token int64, want Was) Left {
	p.s.t.Helper()
	left := p.leave(LeaveTicket{Ticket: parsed(ticket), Token: token})
	equal(p.s.t, "left by "+ticket, left.Were[0], want)
	return left
}

// renewal returns a renewal of the hold that changes nothing, for the test to fill in.
func (p *party) renewal(ticket string, token int64) Renewal {
	return Renewal{Keys: p.s.keys, Ticket: parsed(ticket), Token: token, Since: p.s.now(), Lease: usual, Depth: 1}
}

func (p *party) renews(r Renewal) time.Duration {
	p.s.t.Helper()
	renewed := p.Renew(ctx, []Renewal{r})[0]
	must(p.s.t, renewed.Err)
	p.s.check()
	return renewed.Remaining
}

func (p *party) reasserts(r Renewal) time.Duration {
	p.s.t.Helper()
	renewed := p.Reassert(ctx, r)
	must(p.s.t, renewed.Err)
	p.s.check()
	return renewed.Remaining
}

func (p *party) forces(token int64) (bool, Left) {
	p.s.t.Helper()
	forced, left, err := p.Force(ctx, p.s.keys, token)
	must(p.s.t, err)
	p.s.check()
	return forced, left
}

func (p *party) inspects() State {
	p.s.t.Helper()
	state, err := p.Inspect(ctx, p.s.keys, 0, 100)
	must(p.s.t, err)
	return state
}

// granted fails unless the message is the grant of this ticket, and returns its token.
func (p *party) granted(ticket string) (token int64) {
	p.s.t.Helper()
	m := p.hears()
	if m.News != Grants || m.Ticket.String() != ticket || m.Record != p.s.keys.Record() {
		p.s.t.Fatalf("%s hears %+v instead of a grant of %s", p.id, m, ticket)
	}
	equal(p.s.t, "holds the lock", p.s.rdb.HExists(ctx, p.s.keys.Record(), ticket).Val(), true)
	return m.Token
}
