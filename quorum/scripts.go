package quorum

import (
	"embed"
	"strconv"
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/lua"
)

//go:embed *.lua parts/*.lua
var files embed.FS

var (
	enterScript   = lua.Load(files, "enter.lua")
	beatScript    = lua.Load(files, "beat.lua")
	leaveScript   = lua.Load(files, "leave.lua")
	renewScript   = lua.Load(files, "renew.lua")
	meetScript    = lua.Load(files, "meet.lua")
	inspectScript = lua.Load(files, "inspect.lua")
	nodeScript    = lua.Load(files, "node.lua")
)

// decodeAnswer reads the reply of one node to an enter of a ticket with that claim. A node that
// makes no sense is not asked again: it would be as fast as it answers.
func decodeAnswer(reply []any, claim time.Duration) (a ballot.Answer, err error) {
	if len(reply) == 0 {
		return a, definite{lua.WrongReply("enter", reply)}
	}
	if us, ok := reply[0].(int64); ok && len(reply) == 1 {
		now := lua.Micros(us)
		return ballot.Answer{Status: ballot.Granted, Now: now, Token: us, Since: now, Left: claim, Place: lua.Place(us)}, nil
	}
	status, _ := reply[0].(string)
	a.Status = ballot.Status(status)
	n := numbers(reply[1:])
	switch {
	case a.Status == ballot.Gone && len(reply) == 1:
		return a, nil
	case a.Status == ballot.Granted && len(reply) == 7 && len(n) == 6:
		a.Token, a.Since, a.Left = n[1], lua.Micros(n[2]), ms(n[3])
		a.Place, a.Older = lua.Place(n[4]), n[5] == 1
	case (a.Status == ballot.Waits || a.Status == ballot.Held || a.Status == ballot.Full) && len(reply) == 8 && len(n) == 6:
		a.Left, a.Place, a.Position, a.Pending, a.Token = ms(n[1]), lua.Place(n[2]), int(n[3]), n[4] == 1, n[5]
		a.Holder, _ = reply[6].(string)
	default:
		return a, definite{lua.WrongReply("enter", reply)}
	}
	a.Now = lua.Micros(n[0])
	return a, nil
}

// numbers are those fields of a reply that are numbers.
func numbers(reply []any) (n []int64) {
	n = make([]int64, 0, len(reply))
	for _, field := range reply {
		if number, ok := field.(int64); ok {
			n = append(n, number)
		}
	}
	return n
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// seen is the reply of one node to a beat.
type seen struct {
	now     lua.Micros
	left    time.Duration
	holder  string
	token   int64
	since   lua.Micros
	older   bool
	missing map[string]bool
}

func decodeSeen(reply []any) (s seen, err error) {
	if len(reply) != 7 {
		return s, lua.WrongReply("beat", reply)
	}
	n := numbers(reply[:6])
	missing, ok := reply[6].([]any)
	if len(n) != 5 || !ok {
		return s, lua.WrongReply("beat", reply)
	}
	s.holder, _ = reply[2].(string)
	s.now, s.left, s.token, s.since, s.older = lua.Micros(n[0]), ms(n[1]), n[2], lua.Micros(n[3]), n[4] == 1
	s.missing = make(map[string]bool, len(missing))
	for _, ticket := range missing {
		text, _ := ticket.(string)
		s.missing[text] = true
	}
	return s, nil
}

// decimal is a number as scripts take it.
func decimal[N ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }
