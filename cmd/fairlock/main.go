// Command fairlock runs commands under fair distributed locks, and has commands for those who look
// after the locks.
//
//	fairlock run nightly -- ./backup.sh
//	fairlock ls
//	fairlock doctor
//	fairlock demo
//
// It is a guest of the library: it uses only the public names of its packages. Every command that
// prints what it found does so as text or, with --json, as one object per line. It prints when it
// ends; watch, top, web, run and demo print as they go. The exit code says how a command ended.
//
// Package main has the table of the commands and what is made from it: help, completion and the
// manual. All else is in rooms below internal. A room imports only rooms further down in this list:
//
//	run  demo  doctor  admin  top  watch  web  the commands; they do not know each other
//	survey                                     what all locks do, and how fast they change hands
//	locks                                      the locks of a server, the flags that choose them
//	server  process  output                    reaching the server; signals; text, tables and JSON
//	exit                                       exit codes, and errors that decide on one
//	look                                       how often to look at locks, and words for what is seen
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/admin"
	"github.com/fairlock/locks/cmd/fairlock/internal/demo"
	"github.com/fairlock/locks/cmd/fairlock/internal/doctor"
	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/run"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/cmd/fairlock/internal/top"
	"github.com/fairlock/locks/cmd/fairlock/internal/watch"
	"github.com/fairlock/locks/cmd/fairlock/internal/web"
)

// cli is the table of the commands.
type cli struct {
	Run        run.Command       `cmd:"" help:"Run a command under a lock."`
	Ls         admin.Ls          `cmd:"" help:"List the locks, the most troubled first."`
	Show       admin.Show        `cmd:"" help:"Show who has a lock and who waits for it."`
	Watch      watch.Command     `cmd:"" help:"Tell what happens to a lock as it happens."`
	Top        top.Command       `cmd:"" help:"Show the fair locks, or with --plain the plain ones, live."`
	Web        web.Command       `cmd:"" help:"Serve a page that shows all locks, live, to browsers."`
	Force      admin.Force       `cmd:"" help:"End the ownership of a lock, whoever has it."`
	Evict      admin.Evict       `cmd:"" help:"Take one waiter out of the line."`
	Doctor     doctor.Command    `cmd:"" help:"Look for what is wrong with the server, and say what to do about it."`
	Quorum     admin.Quorum      `cmd:"" help:"What concerns all nodes of a quorum."`
	Demo       demo.Command      `cmd:"" help:"Watch several processes share locks, and check that every promise is kept."`
	Completion completionCommand `cmd:"" help:"Print what makes a shell complete command lines."`
	Man        manCommand        `cmd:"" help:"Print the manual page."`
	Version    versionCommand    `cmd:"" help:"Say which fairlock this is."`
	Complete   completeCommand   `cmd:"" hidden:""`
	Worker     demo.Worker       `cmd:"" name:"demo-worker" hidden:""`
}

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs the command that args ask for and returns the exit code.
func execute(args []string) int {
	redis.SetLogger(silence{})
	call, err := parser(&cli{}).Parse(args)
	var end *exit.Error
	switch {
	case errors.As(err, &end): // the help cannot be written
		err = end
	case err != nil:
		err = exit.Errorf(exit.Usage, "%w (fairlock --help tells more)", err)
	default:
		err = call.Run()
	}
	return exit.Report(os.Stderr, err)
}

// silence is a logger for go-redis: every error of go-redis also reaches us as a value.
type silence struct{}

// Printf drops the line.
func (silence) Printf(context.Context, string, ...any) {}

// parser returns a parser that reads a command line into v.
func parser(v *cli, options ...kong.Option) *kong.Kong {
	return kong.Must(v, append(options, kong.Name("fairlock"), kong.Description("Fair, reentrant, fenced locks on Redis."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.ExplicitGroups([]kong.Group{{Key: "server", Title: "Server:", Description: server.URLs}}),
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)),
		kong.Vars{"most": strconv.Itoa(admin.MostShown), "shortest": strconv.Itoa(web.Shortest), "not_acquired": strconv.Itoa(exit.NotAcquired)},
		kong.Help(help))...)
}

// verbatim reads a word to the byte. Kong's own reader makes valid UTF-8 of it, which is another
// file, or the lock of somebody else.
func verbatim(call *kong.DecodeContext, target reflect.Value) error {
	word, err := call.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(word.String())
	return nil
}

// help prints kong's help, but corrects the usage of run: kong does not know where the flags of a
// wrapper end.
func help(options kong.HelpOptions, call *kong.Context) error {
	out := call.Stdout
	defer func() { call.Stdout = out }()
	var text bytes.Buffer
	call.Stdout = &text
	if err := kong.DefaultHelpPrinter(options, call); err != nil {
		return err
	}
	_, err := io.WriteString(out, asTyped(text.String()))
	return output.Written(err)
}

// asTyped corrects the usage of run.
func asTyped(usage string) string {
	return strings.Replace(usage, "<name> <command> ... [flags]", "[flags] <name> -- <command> ...", 1)
}
