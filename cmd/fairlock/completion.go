package main

import (
	"embed"
	"os"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
)

//go:embed completion
var shells embed.FS

// completionCommand is "fairlock completion".
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long text of "fairlock completion --help".
func (*completionCommand) Help() string {
	return `Prints what makes the shell complete verbs, flags, and the names of locks and the ids of waiters, which it asks the
server for, a second at most. For the present shell, and in its start-up file for all to come:

  source <(fairlock completion bash)     ~/.bashrc
  source <(fairlock completion zsh)      ~/.zshrc, after compinit
  fairlock completion fish | source      ~/.config/fish/config.fish`
}

// Run is called by kong.
func (v *completionCommand) Run() error {
	text, err := shells.ReadFile("completion/" + v.Shell)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(text); err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}

// completeCommand is the command that the completion scripts call.
type completeCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:"" passthrough:"partial"`
}

// Run is called by kong.
func (v *completeCommand) Run() error {
	text := strings.Join(append(v.lines(), ""), "\n")
	if _, err := os.Stdout.WriteString(text); err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}

// lines returns the lines that the shell's script reads.
func (v *completeCommand) lines() (all []string) {
	words := v.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	typed := ""
	if v.Shell == "bash" {
		words, typed = wordsOf(strings.Join(words, " "))
	}
	for _, c := range complete(words) {
		all = append(all, inWordsOf(c, v.Shell, typed))
	}
	return all
}

// wordsOf splits a line that is still being typed. It returns the words without the first, and the
// last word as it is typed. Bash's own words would not do, because they end at colons.
func wordsOf(line string) (words []string, typed string) {
	var word strings.Builder
	quote, escaped, begun := rune(0), false, 0
	for i, r := range line {
		switch {
		case escaped:
			escaped = false
			word.WriteRune(r)
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			words = append(words, word.String())
			word.Reset()
			begun = i + 1
		default:
			word.WriteRune(r)
		}
	}
	return append(words, word.String())[1:], line[begun:]
}

// inWordsOf returns c in the form that the shell's script reads. typed is what bash has of the
// word.
func inWordsOf(c locks.Candidate, shell, typed string) string {
	switch about := strings.Join(strings.Fields(c.About), " "); {
	case shell == "bash" && strings.ContainsAny(typed, `'"`):
		return c.Word // bash quotes such a word itself, and does not end it at a colon
	case shell == "bash":
		known := strings.LastIndexAny(typed, ":=") + 1 // bash replaces only what comes after these
		return strings.TrimPrefix(bare.Replace(c.Word), typed[:known])
	case shell == "zsh":
		return strings.ReplaceAll(c.Word, ":", `\:`) + ":" + about
	default:
		return c.Word + "\t" + about
	}
}

// bare escapes characters that mean something to the shell.
var bare = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\\ \"'`$&|;<>()[]{}*?!#~" {
		pairs = append(pairs, string(r), `\`+string(r))
	}
	return strings.NewReplacer(pairs...)
}()
