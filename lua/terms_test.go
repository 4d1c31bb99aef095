package lua

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// sourceFiles are the scripts and what they include, without comments, by name.
func sourceFiles(t *testing.T) map[string]string {
	t.Helper()
	comment := regexp.MustCompile(`(?m)--[^#].*$`)
	text := make(map[string]string)
	must(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var raw []byte
			raw, err = fs.ReadFile(files, path)
			text[path] = comment.ReplaceAllString(string(raw), "")
		}
		return err
	}))
	return text
}

func TestNoScriptHasATimeOrABoundOfItsOwn(t *testing.T) {
	number := regexp.MustCompile(`\b\d{3,}\b`)
	for name, text := range sourceFiles(t) {
		for _, n := range number.FindAllString(text, -1) {
			if n != "1000" && n != "1000000" { // from one unit to another
				t.Errorf("%s says %s, which belongs into terms.go", name, n)
			}
		}
	}
}

func TestScriptsKnowTheirTermsByNameAndUseAllOfThem(t *testing.T) {
	used := make(map[string]bool)
	for _, text := range sourceFiles(t) {
		for _, name := range regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)*\b`).FindAllString(regexp.MustCompile(`'[^']*'`).ReplaceAllString(text, ""), -1) {
			used[name] = true
		}
	}
	delete(used, "KEYS")
	delete(used, "ARGV")
	names, _, _ := strings.Cut(strings.TrimPrefix(terms, "local "), " = ")
	for name := range strings.SplitSeq(names, ", ") {
		if !used[name] {
			t.Errorf("no script uses %s", name)
		}
		delete(used, name)
	}
	if len(used) > 0 {
		t.Errorf("terms.go does not have %v", used)
	}
}
