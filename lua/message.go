package lua

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Message is what a script tells a client on its channel.
type Message struct {
	Ticket Ticket
	Token  int64
	Forced bool          // an administrator ended the ownership with this token; else it is a grant
	At     Micros        // grant: when it was written
	Claim  time.Duration // grant: how long it lasts from then unless confirmed
}

// ParseMessage decodes "grant <at> <claim> <token> <ticket>" and "forced <token> <ticket>".
func ParseMessage(text string) (Message, error) {
	var (
		m     Message
		field = strings.Split(text, " ")
		err   error
	)
	switch {
	case field[0] == "grant" && len(field) == 5:
		var at, claim int64
		if at, err = positive(field[1]); err == nil {
			claim, err = positive(field[2])
		}
		m.At, m.Claim = Micros(at), fromMillis(claim)
	case field[0] == "forced" && len(field) == 3:
		m.Forced = true
	default:
		err = fmt.Errorf("unknown verb or length")
	}
	if err == nil {
		m.Token, err = positive(field[len(field)-2])
	}
	if err == nil {
		m.Ticket, err = ParseTicket(field[len(field)-1])
	}
	if err != nil {
		return Message{}, fmt.Errorf("message %.200q: %w", text, err)
	}
	return m, nil
}

// positive parses a number that Redis' Lua can hold exactly.
func positive(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n <= 0 || n >= 1<<53) {
		err = fmt.Errorf("%d is out of range", n)
	}
	return n, err
}
