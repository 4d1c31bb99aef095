package lua

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Where a refusal names the script's line, and what a line calls.
var (
	refusedAt = regexp.MustCompile(`on @user_script:(\d+)`)
	calls     = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
)

// named makes a refusal say what is missing: which permission, or which command the server does not
// know. Of a key, a server tells only that there is one. Of a command in a script, a server tells
// only its line; Redis 7.0 does so even for a command that it knows.
func (sc script) named(err error, command []any) error {
	err = sc.refusal(err, command)
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quoted{err}
	}
	return err
}

// quoted is an error about a key whose name has bytes that are not to reach a terminal.
type quoted struct{ error }

func (q quoted) Error() string {
	text := strconv.Quote(q.error.Error())
	return text[1 : len(text)-1]
}

// Unwrap returns the error as the server has it.
func (q quoted) Unwrap() error { return q.error }

// refusal is named without the quoting.
func (sc script) refusal(err error, command []any) error {
	switch said := err.Error(); {
	case strings.Contains(said, "can't run this command"):
		return fmt.Errorf("the user may not run %s: %w", sc.commandsAt(said), err)
	case strings.Contains(said, "Unknown Redis command"):
		return fmt.Errorf("the server does not know %s: %w", sc.commandsAt(said), err)
	case strings.Contains(said, "one of the keys"), strings.Contains(said, "No permissions to access a key"):
		return fmt.Errorf("the user may not read and write one of %s: %w", keysIn(command), err)
	}
	return err
}

// commandsAt is what the script calls on the line that the server's error names.
func (sc script) commandsAt(said string) string {
	at := refusedAt.FindStringSubmatch(said)
	if at == nil {
		return "a command"
	}
	n, _ := strconv.Atoi(at[1])
	var names []string
	if lines := strings.Split(sc.source, "\n"); n > 0 && n <= len(lines) {
		for _, call := range calls.FindAllStringSubmatch(lines[n-1], -1) {
			names = append(names, call[1])
		}
	}
	return strings.Join(names, " or ")
}

// keysIn is the keys of a command, few enough to read.
func keysIn(command []any) string {
	const most = 4
	n, _ := command[2].(int)
	keys := command[3 : 3+n]
	if n > most {
		keys = append(slices.Clone(keys[:most]), "...")
	}
	return strings.Trim(fmt.Sprint(keys), "[]")
}
