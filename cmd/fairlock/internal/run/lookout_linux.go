package run

import (
	"os/exec"
	"strconv"
	"syscall"
)

// vigil is the script of a lookout: $1 is the command, $PPID fairlock. It tells fairlock to go on
// until it is dismissed, for a single telling may come before fairlock has stopped. If /proc does
// not show the command, because it is another user's, the lookout does nothing.
const vigil = `
look() { state=; while read -r key state _ && [ "$key" != State: ]; do state=; done <"/proc/$1/status"; }
look "$1"; [ "$state" ] || exit
while sleep 1; do
	look "$1"
	case $state in T|t) continue ;; esac
	kill -s CONT "$PPID" && [ "$state" ] || exit
done`

// lookout starts a shell that wakes us, who are about to stop, once the command goes on or has
// ended. A SIGCONT may have been sent to the command alone, which then works under a lock that
// nobody renews. The shell has a session of its own: a fairlock above us must not stop it.
func lookout(command int) (dismiss func()) {
	cmd := exec.Command("/bin/sh", "-c", vigil, "lookout", strconv.Itoa(command))
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return func() {}
	}
	return func() { kill(cmd) }
}
