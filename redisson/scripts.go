package redisson

import (
	"embed"
	"time"

	"github.com/fairlock/locks/lua"
)

//go:embed *.lua parts/*.lua
var files embed.FS

// The scripts are written from what Redisson's do, and have other text.
var (
	enterScript   = lua.Load(files, "enter.lua")
	leaveScript   = lua.Load(files, "leave.lua")
	refreshScript = lua.Load(files, "refresh.lua")
	forceScript   = lua.Load(files, "force.lua")
	renewScript   = lua.Load(files, "renew.lua")
	inspectScript = lua.Load(files, "inspect.lua")
	listScript    = lua.Load(files, "list.lua")

	plainEnterScript = lua.Load(files, "plain_enter.lua")
	plainLeaveScript = lua.Load(files, "plain_leave.lua")
	plainForceScript = lua.Load(files, "plain_force.lua")
)

// What the enter scripts reply.
const (
	granted = "granted"
	waits   = "waits"
	held    = "held"
	full    = "full"
	gone    = "gone"
)

// answer is the reply to an enter.
type answer struct {
	status   string
	since    lua.Micros    // when it was granted
	left     time.Duration // until the lock ends unless it is renewed; 0: it is free, or never ends
	waiting  int           // how many are in line; waits: only if the owner has just joined it
	position int           // waits: in line, if the owner has just joined it; else 0
	holder   string        // may be empty
}

func decodeAnswer(reply []any) (a answer, err error) {
	wrong := func() (answer, error) { return answer{}, lua.WrongReply("enter", reply) }
	if len(reply) == 0 {
		return wrong()
	}
	a.status, _ = reply[0].(string)
	n := make([]int64, 0, 2)
	for _, field := range reply[1:min(len(reply), 3)] {
		if number, ok := field.(int64); ok {
			n = append(n, number)
		}
	}
	switch {
	case a.status == gone && len(reply) == 1:
	case a.status == granted && len(reply) == 2 && len(n) == 1:
		a.since = lua.Micros(n[0] * 1000)
	case (a.status == waits || a.status == held || a.status == full) && len(reply) == 4 && len(n) == 2:
		a.left, a.waiting = until(n[0]), int(n[1])
		if a.status == waits {
			a.position = a.waiting
		}
		a.holder, _ = reply[3].(string)
	default:
		return wrong()
	}
	return a, nil
}

// until is a PTTL: -2 is no key, -1 one without end. A key has 0 in its last millisecond: that is
// not yet free, and ends.
func until(pttl int64) time.Duration {
	if pttl == 0 {
		pttl = 1
	}
	return time.Duration(min(max(0, pttl), int64(forever/time.Millisecond))) * time.Millisecond
}

// millis is a time that a script gives.
func millis(verb string, field any) (time.Duration, error) {
	n, ok := field.(int64)
	if !ok || n < 0 || n > int64(forever/time.Millisecond) {
		return 0, lua.WrongReply(verb, field)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// forever is longer than any lease; refresh.lua tells no longer time.
const forever = 100 * 366 * 24 * time.Hour
