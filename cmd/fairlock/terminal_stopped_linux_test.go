package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/test/redistest"
)

// told returns the number that the screen shows behind a word.
func (c *console) told(word string) (n int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the screen shows a number behind %q", word), func() bool {
		found := regexp.MustCompile(word + ` (\d+)\r`).FindStringSubmatch(c.seen.String())
		if found != nil {
			n, _ = strconv.Atoi(found[1])
		}
		return found != nil
	})
	return n
}

// isStopped reports whether a process is.
func isStopped(pid int) bool { return stateOf(pid) == "T" }

func TestACommandThatIsWokenAloneIsUnderItsLockOrIsEnded(t *testing.T) {
	for name, stop := range map[string]unix.Signal{"Ctrl-Z": 0, "kill -STOP": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			locker := observer(t, s)
			c := sitDown(t, s, "sh", "-i")
			c.sees("ready> ")
			// The command starts no other: a Ctrl-Z in the midst of a vfork never stops the parent.
			c.types(`"$FAIRLOCK" run --lease 6s x -- sh -c 'echo it is $$; exec sleep 600'; echo co''de $?` + "\n")
			pid := c.told("it is")
			if stop == 0 {
				c.types("\x1a")
			} else {
				must(t, unix.Kill(pid, stop))
			}
			c.sees("Stopped")
			eventually(t, "the lock has expired", func() bool { return inspect(t, locker, "x").Holder == nil })
			must(t, unix.Kill(pid, unix.SIGCONT))
			c.sees("the command is told to stop")
			c.sees("the command had exit code")
			c.types("exit 6\nexit 6\n") // a shell says once that it has stopped jobs
			c.ends(6)
		})
	}
}

func TestAJobThatIsStoppedStopsWhatHasLeftItsGroup(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run x -- sh -c '
		timeout 600 sh -c "echo its stray is \$\$; exec sleep 600" &
		read line; echo "got $line"; kill $!'` + "\n")
	stray := c.told("its stray is")
	c.types("\x1a")
	c.sees("Stopped")
	eventually(t, "the stray, whose lock nobody renews, is stopped", func() bool { return isStopped(stray) })
	c.types("fg\n")
	eventually(t, "the stray goes on", func() bool { return !isStopped(stray) })
	c.types("hello\n")
	c.sees("got hello")
	c.types("exit 6\n")
	c.ends(6)
}

// A pager leaves the screen before it stops. It has 200 ms, which a busy machine may not give it.
func TestCtrlZLetsTheWholeJobTidyUpBeforeItStops(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "tidies")
	must(t, os.WriteFile(script, []byte(`trap 'sleep 0.05; echo "has tidied"; kill -STOP $$' TSTP; echo "is up"; while :; do :; done`), 0o600))
	for range 5 {
		c := sitDown(t, redistest.Start(t), "sh", "-i")
		c.sees("ready> ")
		c.types(`"$FAIRLOCK" run x -- sh -c 'sh "$0" & read line; kill -9 $!' ` + script + "\n")
		c.sees("is up")
		c.types("\x1a")
		c.sees("Stopped")
		tidied := strings.Contains(c.seen.String(), "has tidied")
		c.types("fg\nhello\n")
		c.types("exit 6\n")
		c.ends(6)
		if tidied {
			return
		}
	}
	t.Error("what has not stopped by itself is stopped at once")
}
