package explore

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fairlock/locks/lua"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }
func at(t ms) string        { return number(nowMS + int64(t)) }

// words translates tokens, places and tickets into the scripts' words and back.
type words struct {
	sagas  uint8
	behind bool
	base   int64
}

func (w *words) number(v int32, shift int64) int64 {
	if v == 0 {
		return 0
	}
	return w.base + shift + int64(v)
}

// shift is where tokens begin. If the server's clock was set back, tokens begin above its time.
func (w *words) shift() int64 {
	if w.behind {
		return 2000
	}
	return 0
}
func (w *words) tokenOf(v int32) int64 { return w.number(v, w.shift()) }
func (w *words) token(v int32) string  { return number(w.tokenOf(v)) }
func (w *words) place(v int32) string  { return number(w.number(v, 0)) }

func (w *words) from(n, shift int64) int32 {
	switch {
	case n == 0:
		return 0
	case n >= nowUS && n-w.base-shift >= 500:
		return newly + int32(n-nowUS)
	default:
		return int32(n - w.base - shift)
	}
}
func (w *words) fromToken(n int64) int32 { return w.from(n, w.shift()) }
func (w *words) fromPlace(n int64) int32 { return w.from(n, 0) }

func (w *words) of(t int8) lua.Ticket {
	var owner string
	if w.sagas&(1<<t) != 0 {
		owner = "saga"
	}
	return lua.NewTicket(names[clientOf(t)], uint64(t%2)+1, time.Duration(lease)*time.Millisecond, owner, "")
}

func (w *words) ticket(t int8) string { return w.of(t).String() }

func (w *words) owner(o int8) string {
	switch o {
	case saga:
		return "saga"
	case placeholder:
		return ""
	default:
		return w.of(o - itself).ID()
	}
}

var errStrange = errors.New("the server has what no script should write")

func (w *words) fromTicket(text string) (int8, error) {
	for t := range int8(tickets) {
		if w.ticket(t) == text {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: ticket %q", errStrange, text)
}

func (w *words) fromOwner(text string) (int8, error) {
	switch text {
	case "saga":
		return saga, nil
	case "":
		return placeholder, nil
	}
	for t := range int8(tickets) {
		if w.of(t).ID() == text {
			return t + itself, nil
		}
	}
	return 0, fmt.Errorf("%w: owner %q", errStrange, text)
}

func (w *words) message(text string) (message, error) {
	m, err := lua.ParseMessage(text)
	if err != nil {
		return message{}, err
	}
	t, err := w.fromTicket(m.Ticket.String())
	if err != nil {
		return message{}, fmt.Errorf("%w in %s", err, text)
	}
	return message{verb: m.News[0], client: clientOf(t), ticket: t, token: w.fromToken(m.Token), claim: ms(m.Claim.Milliseconds()), run: m.Run != ""}, runOf(t, m.Run)
}

// runOf returns an error if a grant's run names any other ticket than the client's other one.
func runOf(ticket int8, run string) error {
	if run != "" && run != strconv.Itoa(int(ticket^1)%2+1) {
		return fmt.Errorf("%w: run %q of %s", errStrange, run, ticketName(ticket))
	}
	return nil
}

func until(score float64) ms { return ms(int64(math.Abs(score)) - nowMS) }
