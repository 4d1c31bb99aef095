package faultproxy

import (
	"slices"
	"strings"
	"time"
)

// Rule says what happens to the requests that match it. If several rules match a request, only the
// first added acts; rules that [Observe] count the request as well.
type Rule struct {
	// Match picks requests by their strings, for example "EVALSHA", the hash,
	// the number of keys, the keys, the arguments. Clients differ in the case of
	// the command's name; [Command] does not mind. It runs on the proxy's
	// goroutines, several at a time.
	Match func(args []string) bool
	// Times is how many requests the rule acts on; 0 means all.
	Times int
	// Action is what happens to them.
	Action Action
}

// Action is what a [Rule] does to a request. The functions below make one; the
// zero Action is refused, so that a forgotten one cannot pass for a fault.
type Action struct {
	kind    actionKind
	delay   time.Duration
	rewrite func([]byte) []byte
}

type actionKind int

const (
	noAction actionKind = iota
	observe
	swallowReply
	swallowReplySilently
	holdRequest
	delayReply
	rewriteReply
	dropRequest
)

// Observe changes nothing. Use it to wait, with the rule's handle, until a
// request has come or has been executed.
func Observe() Action { return Action{kind: observe} }

// SwallowReply lets the server execute the request, drops its reply and closes
// the client's connection: the client sees EOF and cannot know. Requests that
// followed on the connection may or may not be executed.
func SwallowReply() Action { return Action{kind: swallowReply} }

// SwallowReplySilently lets the server execute the request and then never
// sends anything to this connection again, which stays open: the client waits
// until it loses patience. What it sends meanwhile is executed.
func SwallowReplySilently() Action { return Action{kind: swallowReplySilently} }

// HoldRequest keeps the request, and everything behind it on its connection, from the server until
// [Handle.Release]. A client cannot call the request back, whether it gives up and closes its
// connection or loses that by [Proxy.CutAll]. After Release the server executes the request all the
// same, and the proxy drops the reply. Use it for the packet that arrives when nobody expects it
// any more.
func HoldRequest() Action { return Action{kind: holdRequest} }

// DelayReply lets the server execute the request at once and passes the reply
// on after d; the replies behind it wait too. Use it where a held request will
// not do because the server must have acted already.
func DelayReply(d time.Duration) Action { return Action{kind: delayReply, delay: d} }

// RewriteReply lets the server execute the request and replaces the reply by
// what rewrite makes of its bytes, which must be one whole RESP reply again,
// for example "-LOADING later\r\n".
func RewriteReply(rewrite func(reply []byte) []byte) Action {
	return Action{kind: rewriteReply, rewrite: rewrite}
}

// DropRequest closes the client's connection and forwards neither the request
// nor what followed on the connection. To the client it looks like
// [SwallowReply], but nothing was executed.
func DropRequest() Action { return Action{kind: dropRequest} }

// needsAnswer says whether somebody waits for the reply even when the client
// has gone: the upstream connection then stays open for it.
func (a Action) needsAnswer() bool {
	return a.kind == holdRequest || a.kind == swallowReply || a.kind == swallowReplySilently
}

// Any matches every request, also those by which a client greets the server.
func Any(_ []string) bool { return true }

// Command matches requests by the command's name, in any case.
func Command(names ...string) func(args []string) bool {
	return func(args []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, args[0])
		})
	}
}

// CommandWith matches requests by the command's name, in any case, and one
// argument, exactly: a key, a channel, a script's hash.
func CommandWith(name, arg string) func(args []string) bool {
	isCommand := Command(name)
	return func(args []string) bool {
		return isCommand(args) && slices.Contains(args[1:], arg)
	}
}
