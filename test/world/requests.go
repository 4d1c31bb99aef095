package world

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// scripts is the folder of the scripts, from that of a package of test/.
const scripts = "../../lua"

// LoadScripts loads all scripts into the server, so that every call is one EVALSHA.
func (f *Faulty) LoadScripts() {
	f.Helper()
	for _, verb := range []string{"enter", "leave", "renew", "reassert", "inspect", "force", "evict"} {
		source, _ := script(f, verb)
		f.Must(f.Direct.ScriptLoad(background, source).Err())
	}
}

// script returns a verb's script as the client sends it, and its hash.
func script(tb testing.TB, verb string) (source, sha string) {
	tb.Helper()
	source = lua.Whole(verb+".lua", func(name string) string {
		text, err := os.ReadFile(filepath.Join(scripts, name))
		if err != nil {
			tb.Fatal(err)
		}
		return string(text)
	})
	sum := sha1.Sum([]byte(source))
	return source, hex.EncodeToString(sum[:])
}

// Verb matches the calls of one script. If texts are given, one argument must contain one of them.
func (f *Faulty) Verb(name string, texts ...string) func(args []string) bool {
	f.Helper()
	_, sha := script(f, name)
	call := faultproxy.CommandWith("evalsha", sha)
	return func(args []string) bool {
		return call(args) && (len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, text) })
		}))
	}
}

// First matches the first requests for at least n calls: no ticket in them has a place yet.
func (f *Faulty) First(n int) func(args []string) bool {
	f.Helper()
	const tickets, each = 3 + 4 + 8, 4 // the arguments before the tickets: script, keys, and what concerns all
	enter := f.Verb("enter")
	return func(args []string) bool {
		if !enter(args) || len(args) < tickets+n*each {
			return false
		}
		for i := range n {
			if args[tickets+i*each+1] != "0" {
				return false
			}
		}
		return true
	}
}

// Once applies the action to the next request that matches.
func (f *Faulty) Once(match func([]string) bool, action faultproxy.Action) *faultproxy.Handle {
	f.Helper()
	return f.Proxy.Add(faultproxy.Rule{Match: match, Times: 1, Action: action})
}

// All applies the action to every request that matches from now on.
func (f *Faulty) All(match func([]string) bool, action faultproxy.Action) *faultproxy.Handle {
	f.Helper()
	return f.Proxy.Add(faultproxy.Rule{Match: match, Action: action})
}

// Loses has the server lose everything but its scripts.
func (f *Faulty) Loses() {
	f.Helper()
	f.Must(f.Direct.FlushAll(background).Err())
}

// Occupies stores a foreign string under a key. The returned function deletes the string.
func (f *Faulty) Occupies(key string) (yields func()) {
	f.Helper()
	f.Must(f.Direct.Set(background, key, "mine", time.Minute).Err())
	return func() {
		f.Helper()
		if got := f.Direct.GetDel(background, key).Val(); got != "mine" {
			f.Errorf("%s was overwritten: %q", key, got)
		}
	}
}
