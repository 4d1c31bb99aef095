package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// evil has everything that a terminal obeys: a colour, a title, a line of its own, controls of one
// rune, and text that runs backwards.
const evil = "\x1b[31m\x1b]0;OWNED\x07\r\nfake\tline\x7f\u009b2J\u202egnp.exe\u2066"

// harmless fails if a terminal would do anything with the text but show it.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r < ' ' && r != '\n' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Errorf("%s prints %q in %q", what, r, text)
			return
		}
	}
	if strings.Contains(text, "\nfake") {
		t.Errorf("%s prints a line that is not ours: %q", what, text)
	}
}

// harmlessly runs fairlock and returns what it printed.
func harmlessly(t *testing.T, env string, args ...string) string {
	t.Helper()
	p := fairlockWith(t, []string{env}, args...).start()
	if args[0] == "watch" {
		p.line()
		p.line()
		must(t, p.cmd.Process.Kill())
	}
	out := strings.Join(p.rest(), "\n")
	<-p.done
	harmless(t, fmt.Sprintf("%q on stdout", args), out)
	harmless(t, fmt.Sprintf("%q on stderr", args), p.stderr.String())
	return out + p.stderr.String()
}

func TestNothingThatStandsInAKeyReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	env := "FAIRLOCK_REDIS=redis://" + s.Addr()
	ctx := t.Context()
	name := "x" + evil
	queue := "fairlock:queue:{" + name + "}"
	locker := observer(t, s)
	take(t, locker, name, fairlock.WithOwner("owner"+evil), fairlock.Note("note"+evil))
	waits(t, locker, name, fairlock.WithOwner("waiter"+evil), fairlock.Note("mine"+evil))
	waiter := inspect(t, locker, name).Waiters[0].ID
	for _, element := range []string{evil, "7:" + evil + ":7:30000:me:hello", "8:c:7:30000:" + evil + ":" + evil, evil + ":c:7:30000::"} {
		must(t, rdb.RPush(ctx, queue, element).Err())
	}
	must(t, rdb.HSet(ctx, "fairlock:lock:{"+name+"}", evil+":", evil, "since", evil, evil, evil).Err())
	must(t, rdb.HSet(ctx, "fairlock:lock:{bare}", "owner", evil, "token", evil, "lease", evil).Err())
	must(t, rdb.Set(ctx, "fairlock:"+evil, evil, 0).Err())

	for _, form := range [][]string{nil, {"--json"}} {
		for _, args := range [][]string{
			{"ls"},
			{"show", "--all", name},
			{"show", "bare"},
			{"top", "--once"},
			{"watch", name},
			{"watch", "bare"},
			{"doctor"},
			{"show", evil},
			{"evict", name, evil},
			{"evict", name, "me"},
			{"force", "nobody" + evil},
			{"show", "}" + evil},
			{evil},
			{"ls", "[" + evil},
			{"ls", "--redis", "redis://" + evil},
			{"complete", "--", "fairlock", "evict", name, ""},
		} {
			harmlessly(t, env, append(args, form...)...)
		}
	}
	harmlessly(t, env, "run", "--wait", "2s", "--verbose", name, "--", "true")
	harmlessly(t, env, "evict", name, waiter)
	harmlessly(t, env, "force", name)
}

func TestJSONHasEveryByteOfATextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	const name, owner, note = "order:\xff", "saga:\xfe", "caf\xe9"
	take(t, locker, name, fairlock.WithOwner(owner), fairlock.Note(note))
	waits(t, locker, name, fairlock.WithOwner("next "+owner), fairlock.Note("next "+note))
	env := []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}
	has := func(texts []string, args ...string) {
		t.Helper()
		p := fairlockWith(t, env, append(args, "--json")...).start()
		line := p.line()
		if args[0] == "watch" {
			must(t, p.cmd.Process.Kill())
		}
		p.rest()
		<-p.done
		for _, text := range texts {
			if want := `_base64":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`; !strings.Contains(line, want) {
				t.Errorf("%q: there is no %s in %s", args, want, line)
			}
		}
	}
	all := []string{name, owner, note}
	both := slices.Concat(all, []string{"next " + owner, "next " + note})
	has(all, "ls")
	has(all, "top", "--once")
	has(all, "watch", name)
	has(both, "show", name)
	has([]string{name, "next " + owner, "next " + note}, "evict", name, inspect(t, locker, name).Waiters[0].ID)
	has(all, "force", name)

	take(t, locker, "café")
	p := fairlockWith(t, env, "ls", "--json", "caf*").start()
	if line := p.line(); !strings.Contains(line, "café") || strings.Contains(line, "base64") {
		t.Errorf("a name that is UTF-8: %s", line)
	}
	p.ends(0)
}

func TestWhatAServerSaysDoesNotReachTheTerminalRaw(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "*") {
						fmt.Fprint(conn, "-ERR "+strings.NewReplacer("\r", "", "\n", "").Replace(evil)+"\r\n")
					}
				}
			}()
		}
	}()
	for _, command := range [][]string{{"ls"}, {"show", "x"}, {"top", "--once"}, {"force", "x"}, {"evict", "x", "y"}, {"doctor"}, {"doctor", "--json"}, {"run", "x", "--", "true"}} {
		if text := harmlessly(t, "FAIRLOCK_REDIS=redis://"+ln.Addr().String(), command...); !strings.Contains(text, "OWNED") {
			t.Errorf("%q does not say what the server said: %q", command, text)
		}
	}
}

func TestADamagedLockIsShownAsSuchBesideTheOthersAndCanBeForced(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	locker := observer(t, s)
	take(t, locker, "good")
	must(t, rdb.HSet(t.Context(), "fairlock:lock:{evil}", "a:b", "c").Err())
	must(t, rdb.RPush(t.Context(), "fairlock:queue:{next release}", "v2|7|client").Err())

	text := prints(t, s, 0, "ls")
	for _, want := range []string{"good ", "evil ", "next release ", "(damaged)"} {
		if !strings.Contains(text, want) {
			t.Errorf("ls does not show %q:\n%s", want, text)
		}
	}
	damaged := make(map[string]bool)
	for _, r := range objects[locks.Record](t, s, 0, "ls") {
		damaged[r.Name] = r.Damaged != ""
	}
	if len(damaged) != 3 || damaged["good"] || !damaged["evil"] || !damaged["next release"] {
		t.Errorf("ls --json: %v", damaged)
	}
	var picture struct {
		Locks []struct{ Lock, Damaged string }
	}
	must(t, json.Unmarshal([]byte(prints(t, s, 0, "top", "--json")), &picture))
	if len(picture.Locks) != 3 {
		t.Errorf("top: %+v", picture)
	}
	if text := prints(t, s, 0, "top", "--once"); strings.Count(text, "(damaged)") != 2 {
		t.Errorf("top:\n%s", text)
	}
	if text := prints(t, s, 0, "show", "evil"); !strings.Contains(text, "damaged    the record") {
		t.Errorf("show:\n%s", text)
	}
	p := launch(t, s, "watch", "--json", "evil")
	p.line()
	if line := p.line(); !strings.Contains(line, `"event":"damaged"`) {
		t.Errorf("watch says %s", line)
	}

	prints(t, s, 0, "force", "evil")
	lease := take(t, locker, "evil")
	if lease.Err() != nil || rdb.HExists(t.Context(), "fairlock:lock:{evil}", "a:b").Val() {
		t.Error("it was not freed")
	}
}
