package redisson

import (
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/fairlock/locks/lua"
)

//go:embed *.lua parts/*.lua
var files embed.FS

// The scripts are written from what Redisson's do, and have other text.
var (
	enterScript   = load("enter.lua")
	leaveScript   = load("leave.lua")
	refreshScript = load("refresh.lua")
	forceScript   = load("force.lua")
	renewScript   = load("renew.lua")
	inspectScript = load("inspect.lua")
	listScript    = load("list.lua")

	plainEnterScript = load("plain_enter.lua")
	plainLeaveScript = load("plain_leave.lua")
	plainForceScript = load("plain_force.lua")
)

func load(name string) lua.Script {
	return lua.NewScript(lua.Whole(name, func(name string) string {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // the file is part of the binary
		}
		return string(text)
	}))
}

func wrongReply(verb string, reply any) error {
	return fmt.Errorf("%s: unexpected reply %.200s", verb, fmt.Sprint(reply))
}

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
	wrong := func() (answer, error) { return answer{}, wrongReply("enter", reply) }
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
		return 0, wrongReply(verb, field)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// forever is longer than any lease; refresh.lua tells no longer time.
const forever = 100 * 366 * 24 * time.Hour
