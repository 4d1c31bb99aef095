package snippets_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// library is the directories whose packages log.
var library = []string{
	"fairlock", "fairlock/leader", "integrations/gocronlock", "internal/engine", "lua", "pubsub", "quorum", "redisson", "reentrant",
}

// logLines are the lines that the library logs, by text, with their levels.
func logLines(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for _, dir := range library {
		paths, err := filepath.Glob("../../" + dir + "/*.go")
		must(t, err)
		if len(paths) == 0 {
			t.Fatalf("no source in %s", dir)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			must(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if level, text, ok := logged(t, path, n); ok {
					lines[text] = level
				}
				return true
			})
		}
	}
	return lines
}

// logged reports whether n is a call of a logger: a method that is called like one of slog's, of
// what is called like one.
func logged(t *testing.T, path string, n ast.Node) (level, text string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", "", false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, method.Sel.Name) {
		return "", "", false
	}
	of := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	if !slices.Contains([]string{"log", "logger", "slog", "Log", "Logger"}, of) {
		return "", "", false
	}
	level, hasContext := strings.CutSuffix(method.Sel.Name, "Context")
	said := call.Args[0]
	if hasContext {
		said = call.Args[1]
	}
	literal, ok := said.(*ast.BasicLit)
	if !ok {
		t.Errorf("%s: a line whose text is no literal cannot be listed in the guide", path)
		return "", "", false
	}
	text, err := strconv.Unquote(literal.Value)
	must(t, err)
	return level, text, true
}

func TestTheGuideExplainsEveryLineThatTheLibraryLogs(t *testing.T) {
	written := logLines(t)
	if len(written) < 5 {
		t.Fatalf("found only %q", written)
	}
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (Debug|Info|Warn|Error) \\| `([^`]+)` \\| .").FindAllStringSubmatch(guides(t)["operations.md"], -1) {
		told[row[2]] = row[1]
	}
	for text, level := range written {
		if told[text] != level {
			t.Errorf("docs/operations.md does not explain: %s %q", level, text)
		}
	}
	for text := range told {
		if written[text] == "" {
			t.Errorf("docs/operations.md explains what nobody logs: %q", text)
		}
	}
}

func TestTheRightsThatTheGuideTellsAreThoseOfTheScripts(t *testing.T) {
	for i, dir := range []string{"../../lua", "../../quorum", "../../redisson"} {
		needed := map[string]bool{"eval": true, "evalsha": true, "publish": true, "subscribe": true, "unsubscribe": true, "ping": true, "pubsub|numsub": true, "info": true}
		scripts, err := filepath.Glob(dir + "/*.lua")
		must(t, err)
		parts, err := filepath.Glob(dir + "/parts/*.lua")
		must(t, err)
		for _, path := range slices.Concat(scripts, parts) {
			text, err := os.ReadFile(path)
			must(t, err)
			for _, call := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(string(text), -1) {
				if name := strings.ToLower(call[1]); name != "pubsub" {
					needed[name] = true
				}
			}
		}
		told := map[string]bool{}
		for word := range strings.FieldsSeq(blocks(guides(t)["operations.md"], "acl")[i]) {
			if name, ok := strings.CutPrefix(word, "+"); ok {
				told[name] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(needed)); !slices.Equal(got, want) {
			t.Errorf("docs/operations.md tells\n%q\nand what the scripts of %s need is\n%q", got, dir, want)
		}
	}
}
