// Package snippets_test has the code of the guides, as programs that run. What stands between the
// comments guide:NAME and guide:end is a snippet of docs/NAME, or of the README, which is readme.md
// here, or of the README of an integration, which is called like its directory. The snippets of an
// integration are in its own tests.
package snippets_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guides are the pages that the snippets are for, by name, in small letters.
func guides(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../*.md")
	must(t, err)
	pages := make(map[string]string)
	extras, err := filepath.Glob("../../integrations/*/README.md")
	must(t, err)
	for _, path := range append(append(paths, "../../README.md"), extras...) {
		text, err := os.ReadFile(path)
		must(t, err)
		name := strings.ToLower(filepath.Base(path))
		if slices.Contains(extras, path) {
			name = filepath.Base(filepath.Dir(path)) + ".md"
		}
		pages[name] = string(text)
	}
	return pages
}

// blocks are the page's blocks of code in the language.
func blocks(page, language string) (all []string) {
	var block []string
	inside := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && inside == "":
			inside, block = "```"+fence, nil
		case isFence:
			if inside == "```"+language {
				all = append(all, strings.Join(block, "\n"))
			}
			inside = ""
		case inside != "":
			block = append(block, line)
		}
	}
	return all
}

// region is a snippet in the source.
type region struct {
	page, text, where string
	runs              bool // it is in a test or in an example with an output, or declares what those use
}

// regions are the snippets of all files of this package, and of the integrations' tests.
func regions(t *testing.T) (all []region) {
	t.Helper()
	paths, err := filepath.Glob("*_test.go")
	must(t, err)
	extras, err := filepath.Glob("../../integrations/*/*_test.go")
	must(t, err)
	for _, path := range append(paths, extras...) {
		text, err := os.ReadFile(path)
		must(t, err)
		files := token.NewFileSet()
		syntax, err := parser.ParseFile(files, path, text, parser.ParseComments)
		must(t, err)
		var open *region
		var lines []string
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			mark, isMark := strings.CutPrefix(strings.TrimSpace(line), "//guide:")
			switch {
			case isMark && mark == "end":
				open.text = dedented(lines)
				all = append(all, *open)
				open = nil
			case isMark:
				open, lines = &region{page: mark, where: path, runs: runs(files, syntax, number)}, nil
			case open != nil:
				lines = append(lines, line)
			}
		}
		if open != nil {
			t.Errorf("%s: guide:%s has no end", path, open.page)
		}
	}
	return all
}

// runs reports whether what stands in the line is executed by go test.
func runs(files *token.FileSet, file *ast.File, line int) bool {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || line < files.Position(f.Pos()).Line || line > files.Position(f.End()).Line || !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		for _, example := range doc.Examples(file) {
			if "Example"+example.Name == f.Name.Name {
				return example.Output != "" || example.EmptyOutput
			}
		}
	}
	return true // a test, a helper of one (an unused one is found by the linter), or a declaration
}

// dedented are the lines without what they are all indented by.
func dedented(lines []string) string {
	for slices.ContainsFunc(lines, func(l string) bool { return l != "" }) &&
		!slices.ContainsFunc(lines, func(l string) bool { return l != "" && l[0] != '\t' }) {
		for i, l := range lines {
			lines[i] = strings.TrimPrefix(l, "\t")
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func TestEveryGoSnippetOfTheGuidesIsCodeThatRuns(t *testing.T) {
	pages := guides(t)
	written := regions(t)
	for name, page := range pages {
		for _, block := range blocks(page, "go") {
			if strings.HasPrefix(block, newcomer) {
				continue // it is run as what it is
			}
			if !slices.ContainsFunc(written, func(r region) bool { return r.page == name && spaced(r.text) == spaced(block) }) {
				t.Errorf("%s: no test has this between //guide:%s and //guide:end:\n%s", name, name, block)
			}
		}
	}
	for _, r := range written {
		if !slices.Contains(blocks(spaced(pages[r.page]), "go"), spaced(r.text)) {
			t.Errorf("%s: not in %s:\n%s", r.where, r.page, r.text)
		}
		if !r.runs {
			t.Errorf("%s: an example without output is not run:\n%s", r.where, r.text)
		}
	}
}

// spaced is Go as a page shows it, where a tab would take eight columns.
func spaced(text string) string { return strings.ReplaceAll(text, "\t", "    ") }

func TestEveryBlockOfTheGuidesIsOfAKindThatIsTried(t *testing.T) {
	tried := map[string]string{
		"go":      "here",
		"sql":     "here, on SQLite",
		"acl":     "here, on a Redis",
		"sh":      "where it is of fairlock: by the tests of cmd/fairlock; of the README: here",
		"console": "by the tests of cmd/fairlock",
		"java":    "not at all: it is Redisson's, and there is no Java in the house",
		"":        "a drawing",
	}
	for name, page := range guides(t) {
		for language := range languages(page) {
			if _, ok := tried[language]; !ok {
				t.Errorf("%s: nobody tries what is marked %q; it is one of %q", name, language, slices.Sorted(maps.Keys(tried)))
			}
		}
	}
}

// languages are those of the page's blocks.
func languages(page string) map[string]bool {
	found := make(map[string]bool)
	inside := false
	for line := range strings.Lines(page) {
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if inside = !inside; inside {
				found[fence] = true
			}
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
