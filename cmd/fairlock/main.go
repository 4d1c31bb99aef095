// Command fairlock runs commands under fair distributed locks, and shows what such a lock does.
//
//	fairlock demo
//	fairlock run nightly -- ./backup.sh
//
// It is a guest of the library: it uses nothing but package fairlock's public names.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit codes that are fairlock's own. Those from 64 on mean the same as in sysexits.h.
const (
	exitBroken      = 1   // demo: a promise was broken
	exitUsage       = 64  // the command line makes no sense
	exitUnavailable = 69  // the server cannot be reached or used
	exitNotAcquired = 75  // the lock was not acquired in time
	exitLost        = 76  // the lock was lost while the command ran
	exitCannotRun   = 126 // the command cannot be executed
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // and the signal's number: what ended the command, or fairlock while it waited
)

// exit is an error that decides how the process ends.
type exit struct {
	code int
	err  error // nil: there is nothing to say
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// fail is an exit that says why.
func fail(code int, format string, args ...any) error {
	return &exit{code, fmt.Errorf(format, args...)}
}

// verbs are the subcommands.
type verbs struct {
	Run    runVerb    `cmd:"" help:"Run a command under a lock."`
	Watch  watchVerb  `cmd:"" help:"Tell what happens to a lock as it happens."`
	Top    topVerb    `cmd:"" help:"Show all locks, live."`
	Demo   demoVerb   `cmd:"" help:"Watch several processes share locks, and check that every promise is kept."`
	Worker workerVerb `cmd:"" name:"demo-worker" hidden:""`
}

func main() { os.Exit(execute(os.Args[1:])) }

// execute does what args ask for and returns the exit code.
func execute(args []string) int {
	call, err := parser(&verbs{}).Parse(args)
	if err != nil {
		err = fail(exitUsage, "%w (fairlock --help tells more)", err)
	} else {
		err = call.Run()
	}
	return conclude(os.Stderr, err)
}

// parser reads a command line into v.
func parser(v *verbs, options ...kong.Option) *kong.Kong {
	return kong.Must(v, append(options, kong.Name("fairlock"), kong.Description("Fair, reentrant, fenced locks on Redis."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(help))...)
}

// help is kong's, with the usage of run put right: kong does not know where the flags of a wrapper end.
func help(options kong.HelpOptions, call *kong.Context) error {
	out := call.Stdout
	defer func() { call.Stdout = out }()
	var text bytes.Buffer
	call.Stdout = &text
	if err := kong.DefaultHelpPrinter(options, call); err != nil {
		return err
	}
	right := strings.Replace(text.String(), "<name> <command> ... [flags]", "[flags] <name> -- <command> ...", 1)
	_, err := io.WriteString(out, right)
	return err
}

// conclude says on stderr what is to be said of err and returns its exit code.
func conclude(stderr io.Writer, err error) int {
	var end *exit
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &end):
		end = &exit{1, err}
	}
	if end.err != nil {
		complain(stderr, err)
	}
	return end.code
}

// complain writes err as one line that begins with "fairlock: ".
func complain(stderr io.Writer, err error) {
	text := strings.TrimPrefix(err.Error(), "fairlock: ")
	fmt.Fprintf(stderr, "fairlock: %s\n", strings.ReplaceAll(text, "\n", "; "))
}
