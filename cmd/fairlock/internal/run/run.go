// Package run runs a command under a lock: it waits for the lock, passes signals on to the command
// and the exit code back, and ends the command when the lock is lost.
package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/fairlock"
)

// Command is "fairlock run".
type Command struct {
	locks.Keyspace
	Wait       patience       `default:"forever" placeholder:"DURATION" help:"How long to wait in line; 0 tries once (default ${default})."`
	MaxWaiters *int           `placeholder:"N" help:"Do not join a line in which N wait already."`
	Conflict   int            `name:"conflict-exit-code" default:"${not_acquired}" placeholder:"CODE" help:"The exit code if the lock was not acquired (default ${default})."`
	Lease      *time.Duration `placeholder:"DURATION" help:"How long the lock outlives a holder that died (default 30s, or the longest lease of a quorum if that is shorter)."`
	FixedLease *time.Duration `placeholder:"DURATION" help:"In place of --lease, one that is not renewed: shortly before it is over, the command is told to end."`
	KillAfter  *time.Duration `placeholder:"DURATION" help:"From SIGTERM to SIGKILL (default: a fifteenth of the lease, or less)."`
	Owner      *string        `placeholder:"OWNER" help:"Share the lock with whoever names the same owner."`
	Note       *string        `placeholder:"TEXT" help:"What others see beside our host and process (default: the command's name)."`
	Plain      bool           `help:"A lock without a line: whoever asks when it is free has it."`
	Verbose    bool           `short:"v" help:"Tell on stderr of the place in line, of the lock and of its release."`
	Name       string         `arg:"" complete:"lock" help:"The lock's name."`
	Command    []string       `arg:"" passthrough:"partial" help:"The command and its arguments, after --."`
}

// Help is the long text of "fairlock run --help".
func (*Command) Help() string {
	return `Waits in line for the lock, runs the command, and hands the lock on when it has ended. The command finds
the lock's name and its fencing token in FAIRLOCK_NAME and FAIRLOCK_TOKEN.

  fairlock run nightly -- ./backup.sh
  fairlock run --wait 0 nightly -- sh -c './backup.sh && ./upload.sh'

SIGHUP, SIGINT, SIGQUIT and SIGTERM go on to the command and all its process group; while fairlock still waits they take
it out of the line. SIGUSR1, SIGUSR2 and SIGWINCH only go on to the command.

If the lock is lost (the server was away for longer than the lease, somebody ended it, or a --fixed-lease is over) the
command and all that it has started get SIGTERM and, --kill-after later, SIGKILL. The default, which
grows with the lease, sees to it that they are gone before the server gives the lock to another; in the first seconds of
a lock that was waited for it is 200 ms, and after a loss that is noticed late (fairlock stood still) what is left of
it. A SIGTERM that only goes on to the command is followed by SIGKILL if --kill-after is given. What runs as another
user cannot be ended: run fairlock as the user of the command.

What the command leaves running when it ends has a second to end by itself and is ended in the same way then, before the
lock is handed on; a daemon, which has made a session of its own (setsid), is left alone. If fairlock itself is killed,
so is the command's process group. Only Linux tells what the command has started outside of its process group.

Exit codes: the command's own, or 128+n if signal n ended it (or fairlock, while it waited), or
   64  the command line makes no sense
   69  the server cannot be reached or used
   75  the lock was not acquired: not in time, the line was full, or somebody took us out of it
   76  the lock was lost while the command ran
  126  the command cannot be executed
  127  the command was not found`
}

// patience is how long to wait for the lock. A negative one means forever.
type patience time.Duration

// UnmarshalText parses a duration, 0 or forever.
func (p *patience) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = -1
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither 0 nor a duration nor forever", text)
	}
	*p = patience(d)
	return nil
}

// Run is called by kong. Its error is an *exit.Error unless all went well.
func (r *Command) Run() error {
	p, err := r.Program()
	if err != nil {
		return err
	}
	shown := newProgress(os.Stderr, r.Verbose)
	err = r.under(p, shown)
	if p.interrupted && exit.Code(err) == exit.Signal+int(syscall.SIGINT) {
		dieOfInterrupt()
	}
	if exit.Code(err) > exit.Signal { // a signal is obeyed although nobody reads why
		err = &exit.Error{Code: exit.Report(shown, err)}
	}
	return err
}

// under runs the program under the lock, and leaves nothing behind.
func (r *Command) under(p *Program, shown *progress) error {
	p.out = shown
	process.DropBrokenPipes()
	signals, release := process.Catch(slices.Concat(process.Ending, heralds)...)
	defer release() // last: while the Locker closes, a signal must not cost the command's exit code
	log := locks.NewNotices(shown)
	locker, disconnect, err := r.Connect(locks.KindOf(r.Plain), slog.New(log), r.lease())
	if err != nil {
		return err
	}
	defer disconnect()
	lease, err := r.acquire(locker, p, signals, shown)
	if err != nil {
		return err
	}
	log.Mute()
	shown.acquired(lease)
	return p.under(lease, signals, shown.released)
}

// Program checks what to run, before any waiting.
func (r *Command) Program() (*Program, error) {
	switch {
	case len(r.Command) < 2 || r.Command[0] != "--":
		return nil, exit.Errorf(exit.Usage, "expected NAME -- COMMAND ARG... (fairlock run --help tells more)")
	case r.KillAfter != nil && *r.KillAfter < 0:
		return nil, exit.Errorf(exit.Usage, "--kill-after: %v is negative", *r.KillAfter)
	case r.Conflict < 0 || r.Conflict > 255:
		return nil, exit.Errorf(exit.Usage, "--conflict-exit-code: %d is not between 0 and 255", r.Conflict)
	case r.Lease != nil && r.FixedLease != nil:
		return nil, exit.Errorf(exit.Usage, "--lease: a --fixed-lease has its own length, and is not renewed")
	case r.Plain && r.MaxWaiters != nil:
		return nil, exit.Errorf(exit.Usage, "--max-waiters: a plain lock has no line")
	case r.Plain && r.Quorum():
		return nil, r.NoQuorum("--plain", "its nodes hand over by their lines, so all its locks are fair")
	case r.Owner != nil && r.Quorum():
		return nil, r.NoQuorum("--owner", "a second process could have another token")
	}
	p, err := lookUp(r.Command[1:])
	if err != nil {
		return nil, err
	}
	p.Note, p.KillAfter, p.insists = r.note(), r.killAfter(), r.KillAfter != nil
	if r.FixedLease != nil {
		p.fixed = *r.FixedLease
	}
	return p, nil
}

// usualLease is the lease of who asks for none.
const usualLease = 30 * time.Second

// lease returns the lease that is renewed.
func (r *Command) lease() time.Duration {
	switch {
	case r.Lease != nil:
		return *r.Lease
	case r.LongestLease != 0:
		return min(usualLease, r.LongestLease)
	}
	return usualLease
}

// killAfter returns how long the command has at most from SIGTERM to SIGKILL.
func (r *Command) killAfter() time.Duration {
	switch {
	case r.KillAfter != nil:
		return *r.KillAfter
	case r.FixedLease != nil:
		return safely(*r.FixedLease)
	default:
		return safely(r.lease())
	}
}

// safely returns how long a command may take to end after the trust in a lease of length d has
// ended. Trust ends early by a margin; a third of it is for clocks that run at different speeds.
func safely(d time.Duration) time.Duration { return fairlock.Margin(d) * 2 / 3 }

// lock waits for the lock as the flags say.
func (r *Command) lock(ctx context.Context, locker fairlock.Interface, note string, queued func(int)) (*fairlock.Lease, error) {
	options := []fairlock.LockOption{fairlock.Note(note)}
	if r.MaxWaiters != nil {
		options = append(options, fairlock.MaxWaiters(*r.MaxWaiters))
	}
	if r.FixedLease != nil {
		options = append(options, fairlock.LeaseFor(*r.FixedLease))
	}
	if r.Owner != nil {
		options = append(options, fairlock.WithOwner(*r.Owner))
	}
	if queued != nil {
		options = append(options, fairlock.OnQueued(queued))
	}
	switch {
	case r.Wait == 0:
		return locker.TryLock(ctx, r.Name, options...)
	case r.Wait > 0:
		options = append(options, fairlock.WaitAtMost(time.Duration(r.Wait)))
	}
	return locker.Lock(ctx, r.Name, options...)
}

// note is what others see of us in the line. It has no arguments of the command unless the user
// gives them, because they may be secrets.
func (r *Command) note() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	who := fmt.Sprintf("%s:%d ", host, os.Getpid())
	if r.Note != nil {
		return who + *r.Note
	}
	who += filepath.Base(r.Command[1])
	return strings.ToValidUTF8(who[:min(len(who), 256)], "")
}

// Predict returns the names of locks of the kind that would be taken, for completion.
func (r *Command) Predict(ctx context.Context, _ string) []locks.Candidate {
	return r.Names(ctx, locks.KindOf(r.Plain))
}
