// Package redislua runs scripts on a miniredis the way Redis does: in one Lua state that stays.
// miniredis makes a state for each run of a script, which takes it as long as the run. That is too
// much for worlds that run millions.
//
// The commands of the scripts are miniredis's. So are the answers: a test compares them.
package redislua

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Runner runs scripts on one miniredis. One goroutine at a time may use it, and nobody else the
// miniredis meanwhile: miniredis is locked for each command by itself.
type Runner struct {
	mini    *miniredis.Miniredis
	state   *lua.LState
	scripts map[string]*lua.LFunction // by source

	peer *server.Peer // sends the commands of scripts
	sent bytes.Buffer // what is answered
	read *bufio.Reader
}

// strict is what a script may not do to the variables of all scripts.
const strict = `
setmetatable(_G, {
  __newindex = function(t, n, v)
    error("Script attempted to create global variable '" .. tostring(n) .. "'", 2)
  end,
  __index = function(t, n)
    error("Script attempted to access nonexistent global variable '" .. tostring(n) .. "'", 2)
  end,
})
`

// New returns a Runner. Close ends it.
func New(mini *miniredis.Miniredis) (*Runner, error) {
	r := &Runner{
		mini: mini, state: lua.NewState(lua.Options{SkipOpenLibs: true}), scripts: make(map[string]*lua.LFunction),
		read: bufio.NewReader(nil),
	}
	r.peer = server.NewPeer(bufio.NewWriter(&r.sent))
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		r.state.Push(r.state.NewFunction(open))
		if err := r.state.PCall(0, 0, nil); err != nil {
			return nil, err
		}
	}
	redis := r.state.NewTable()
	for name, f := range map[string]lua.LGFunction{"call": r.call, "pcall": r.pcall, "error_reply": errorReply} {
		redis.RawSetString(name, r.state.NewFunction(f))
	}
	r.set("redis", redis)
	return r, r.state.DoString(strict)
}

// Close ends the Lua state.
func (r *Runner) Close() { r.state.Close() }

func (r *Runner) set(name string, v lua.LValue) { r.state.G.Global.RawSetString(name, v) }

// Run executes a script for a client and writes the reply. args are those of EVAL behind the
// script.
func (r *Runner) Run(client *server.Peer, source string, args []string) {
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 0 || count > len(args)-1 {
		client.WriteError("ERR Number of keys can't be greater than number of args")
		return
	}
	f, err := r.compiled(source)
	if err == nil {
		r.set("KEYS", r.list(args[1:1+count]))
		r.set("ARGV", r.list(args[1+count:]))
		r.state.Push(f)
		err = r.state.PCall(0, lua.MultRet, nil)
	}
	if err != nil {
		client.WriteError("ERR Error compiling script (new function): " + err.Error()) // as miniredis has it for all errors
	} else {
		reply(client, r.state.Get(1))
	}
	r.state.SetTop(0)
}

func (r *Runner) compiled(source string) (*lua.LFunction, error) {
	if f, ok := r.scripts[source]; ok {
		return f, nil
	}
	code, ok := compiled.Load(source)
	if !ok {
		chunk, err := parse.Parse(strings.NewReader(source), "<string>")
		if err != nil {
			return nil, err
		}
		if code, err = lua.Compile(chunk, ""); err != nil {
			return nil, err
		}
		compiled.Store(source, code)
	}
	f := r.state.NewFunctionFromProto(code.(*lua.FunctionProto)) //nolint:forcetypeassert // nothing else is stored
	r.scripts[source] = f
	return f, nil
}

// compiled has the code of all scripts that any Runner has run, by source.
var compiled sync.Map

func (r *Runner) list(all []string) *lua.LTable {
	t := r.state.CreateTable(len(all), 0)
	for _, v := range all {
		t.Append(lua.LString(v))
	}
	return t
}

// call is redis.call.
func (r *Runner) call(l *lua.LState) int {
	v, err := r.command(l)
	if err != nil {
		l.Error(lua.LString(err.Error()), 1)
	}
	l.Push(v)
	return 1
}

// pcall is redis.pcall.
func (r *Runner) pcall(l *lua.LState) int {
	v, err := r.command(l)
	if err != nil {
		v = field("err", err.Error())
	}
	l.Push(v)
	return 1
}

// command has miniredis execute the command that is on the stack.
func (r *Runner) command(l *lua.LState) (lua.LValue, error) {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = v.String()
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis lib call")
	}
	r.sent.Reset()
	r.mini.Server().Dispatch(r.peer, args)
	r.peer.Flush()
	r.read.Reset(&r.sent)
	reply, err := server.ParseReply(r.read)
	if err != nil {
		return nil, err
	}
	return value(l, reply), nil
}

// value is a reply as scripts see it.
func value(l *lua.LState, reply any) lua.LValue {
	switch v := reply.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []byte:
		return lua.LString(v)
	case server.Simple:
		return field("ok", string(v))
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, one := range v {
			t.Append(value(l, one))
		}
		return t
	default:
		panic(fmt.Sprintf("a reply of type %T", v))
	}
}

func field(name, text string) *lua.LTable {
	t := new(lua.LTable)
	t.RawSetString(name, lua.LString(text))
	return t
}

// errorReply is redis.error_reply.
func errorReply(l *lua.LState) int {
	text := strings.TrimPrefix(l.CheckString(1), "-")
	if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	l.Push(field("err", text))
	return 1
}

// reply writes what a script returned.
func reply(to *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			to.WriteInt(1)
		} else {
			to.WriteNull()
		}
	case lua.LNumber:
		to.WriteInt(int(v))
	case lua.LString:
		to.WriteBulk(string(v))
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			to.WriteError(string(text))
			return
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			to.WriteInline(string(text))
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil { // a list ends before its first nil
			n++
		}
		to.WriteLen(n)
		for i := range n {
			reply(to, v.RawGetInt(i+1))
		}
	default:
		to.WriteNull()
	}
}
