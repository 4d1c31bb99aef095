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
	typed, quote := "", rune(0)
	if v.Shell == "bash" {
		words, typed, quote = wordsOf(strings.Join(words, " "))
	}
	for _, c := range complete(words) {
		if quote == 0 || !strings.ContainsRune(c.Word, unquotable[quote]) {
			all = append(all, inWordsOf(c, v.Shell, typed, quote))
		}
	}
	return all
}

// wordsOf splits a line that is still being typed. It returns the words without the first, the last
// word as it is typed, and its quote that is still open, or 0. Bash's own words would not do,
// because they end at colons.
func wordsOf(line string) (words []string, typed string, quote rune) {
	var word strings.Builder
	escaped, begun := false, 0
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
			if i > begun { // else it is another space between two words
				words = append(words, word.String())
			}
			word.Reset()
			begun = i + 1
		default:
			word.WriteRune(r)
		}
	}
	return append(words, word.String())[1:], line[begun:], quote
}

// inWordsOf returns c in the form that the shell's script reads. typed is what bash has of the
// word, and quote is open there. Anybody may choose the names of locks, so bash must not find more
// in one than text.
func inWordsOf(c locks.Candidate, shell, typed string, quote rune) string {
	switch about := strings.Join(strings.Fields(c.About), " "); {
	case quote == '"':
		return quoted.Replace(c.Word)
	case quote != 0: // nor does bash end a word at a colon in any quote
		return c.Word
	case shell == "bash":
		known := strings.LastIndexAny(typed, ":=@") + 1 // bash replaces only what comes after these
		return strings.TrimPrefix(bare.Replace(c.Word), typed[:known])
	case shell == "zsh":
		return described.Replace(c.Word) + ":" + about
	default:
		return c.Word + "\t" + about
	}
}

// bare escapes characters that mean something to the shell, and quoted those that do so between
// double quotes.
var bare, quoted = escaping("\\ \"'`$&|;<>()[]{}*?!#~"), escaping("\\\"$`")

// described escapes what means something to zsh's _describe. That does the shell's escaping itself.
var described = escaping(`\:`)

// unquotable has the character that no backslash can keep as it is between two of these quotes.
var unquotable = map[rune]rune{'"': '!', '\'': '\''}

func escaping(these string) *strings.Replacer {
	var pairs []string
	for _, r := range these {
		pairs = append(pairs, string(r), `\`+string(r))
	}
	return strings.NewReplacer(pairs...)
}
