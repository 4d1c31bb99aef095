package fairlock_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The house has one law: import only lower floors. These tests read the source of every module in
// the tree and enforce that law, with a few rules that keep the house small.

// houseModule is the root module. What follows it in an import path is a directory of this tree.
const houseModule = "github.com/fairlock/locks"

// houseFloors says on which floor each package of the library stands. A new package needs a line
// here.
var houseFloors = map[string]int{
	"internal/batch":    0,
	"internal/redact":   0,
	"lua":               1,
	"pubsub":            1,
	"internal/rules":    2,
	"internal/ballot":   3,
	"internal/engine":   3,
	"reentrant":         4,
	"fairlock":          4,
	"redisson":          4,
	"quorum":            4,
	"fairlock/embedded": 4,
	"fairlock/leader":   5,
	"fairlock/locktest": 5,
}

// houseGuests are the directories for programs, and for extras that need modules of their own.
// Guests see what every user of the library sees.
var houseGuests = []string{"cmd", "examples", "bench", "otel", houseExtras, "docs", "scripts"}

// houseExtras is the directory of guests that the other guests use as every user does.
const houseExtras = "integrations"

// houseLibraries are the foreign modules that the library needs, and where: "" is everywhere.
var houseLibraries = map[string]string{
	"github.com/redis/go-redis/v9":     "",
	"github.com/google/uuid":           "",
	"github.com/alicebob/miniredis/v2": "fairlock/embedded",
}

// houseYard is the directory for tests. It has worlds, in which tests are made, and rooms: packages
// of tests that use a world.
const houseYard = "test"

// houseTools is the part of the yard that bench may use, too: how to run a JVM. It does not
// link the package testing.
const houseTools = "test/java"

// houseRoot are the files at the root: the acceptance of the whole library, and this one.
var houseRoot = []string{"fairlock_test.go", "house_test.go"}

const houseLongestFile = 400 // lines

func TestNoPackageImportsAHigherFloor(t *testing.T) {
	for _, f := range readHouse(t).files {
		floor, ok := houseFloors[f.dir()]
		switch {
		case f.dir() == "." || f.inYard() || f.isGuest():
			continue
		case !ok:
			t.Errorf("%s: package %q stands on no floor: give it a line in houseFloors", f.path, f.dir())
		}
		for _, other := range f.imports.ours {
			if f.test && (inside(other, houseYard) || top(other) == top(f.dir())) {
				continue // tests use the worlds of the yard and their own package
			}
			if its, ok := houseFloors[other]; !ok || its >= floor {
				t.Errorf("%s: floor %d imports %s: only lower floors", f.path, floor, other)
			}
		}
	}
}

func TestOnlyTestsUseTheYard(t *testing.T) {
	for _, f := range readHouse(t).files {
		for _, other := range f.imports.ours {
			if other == houseTools && inside(f.path, "bench") {
				continue
			}
			if inside(other, houseYard) && !f.test && !f.inYard() {
				t.Errorf("%s: imports %s: %s/ is for tests", f.path, other, houseYard)
			}
		}
	}
}

func TestGuestsSeeOnlyWhatIsPublic(t *testing.T) {
	h := readHouse(t)
	for _, f := range h.files {
		if !f.isGuest() {
			continue
		}
		home := h.moduleOf(f.dir())
		if home == "." {
			t.Errorf("%s: a guest belongs to a module of its own, so that the library does not get its dependencies", f.path)
		}
		for _, other := range f.imports.ours {
			_, public := houseFloors[other]
			public = public && !inside(other, "internal") || inside(other, houseExtras) ||
				other == houseTools && top(f.path) == "bench"
			if !public && !inside(other, home) && !f.test {
				t.Errorf("%s: imports %s: guests use the public packages and their own", f.path, other)
			}
		}
	}
}

func TestTheRootHasNoPackageOfItsOwn(t *testing.T) {
	for _, f := range readHouse(t).files {
		if f.dir() == "." && (!slices.Contains(houseRoot, f.path) || f.syntax.Name.Name != "fairlock_test") {
			t.Errorf("%s: package %s at the root: there are only %q, in package fairlock_test; tests have rooms in %s/",
				f.path, f.syntax.Name.Name, houseRoot, houseYard)
		}
	}
}

func TestTheLibraryNeedsOnlyAFewOthers(t *testing.T) {
	for _, f := range readHouse(t).files {
		if _, ok := houseFloors[f.dir()]; !ok || f.test {
			continue
		}
		for _, other := range f.imports.theirs {
			if where, ok := libraryOf(other); !ok || where != "" && where != f.dir() {
				t.Errorf("%s: imports %s: see houseLibraries for what may be imported where", f.path, other)
			}
		}
	}
}

func TestWhoUsesTheLibraryLinksNoServerAndNoTestingPackage(t *testing.T) {
	users := []string{"./" + houseTools}
	for dir := range houseFloors {
		if dir != "fairlock/embedded" && dir != "fairlock/locktest" {
			users = append(users, "./"+dir)
		}
	}
	for linked := range strings.Lines(goCommand(t, append([]string{"list", "-deps"}, users...)...)) {
		linked = strings.TrimSpace(linked)
		if linked == "testing" || strings.HasPrefix(linked, "github.com/alicebob/") {
			t.Errorf("a program that uses the library links %s", linked)
		}
	}
}

func TestTheWorkspaceListsEveryModule(t *testing.T) {
	h := readHouse(t)
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(goCommand(t, "work", "edit", "-json", "go.work")), &work); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, use := range work.Use {
		listed = append(listed, path.Clean(use.DiskPath))
	}
	slices.Sort(listed)
	if !slices.Equal(listed, h.modules) {
		t.Errorf("go.work lists %q, but there is a go.mod in %q", listed, h.modules)
	}
	for _, dir := range h.modules {
		want := "module " + path.Join(houseModule, dir) + "\n"
		if text, err := os.ReadFile(filepath.Join(filepath.FromSlash(dir), "go.mod")); err != nil || !bytes.HasPrefix(text, []byte(want)) {
			t.Errorf("%s/go.mod does not begin with %q (%v)", dir, want, err)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, f := range readHouse(t).files {
		if f.test && !f.inYard() { // a room of the yard has nothing but tests
			continue
		}
		text := f.syntax.Doc.Text()
		proper := strings.HasPrefix(text, "Package "+f.syntax.Name.Name+" ") ||
			f.syntax.Name.Name == "main" && strings.HasPrefix(text, "Command ")
		if text != "" && !proper && !f.test {
			t.Errorf("%s: the package comment begins with neither \"Package %s\" nor, in a program, \"Command\"", f.path, f.syntax.Name.Name)
		}
		said[f.dir()] = said[f.dir()] || proper
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

func TestEveryExportedNameSaysWhatItIs(t *testing.T) {
	for _, f := range readHouse(t).files {
		if f.test {
			continue
		}
		for _, name := range undocumented(f.syntax) {
			t.Errorf("%s: %s is exported and has no comment", f.path, name)
		}
	}
}

func TestNoFileIsLong(t *testing.T) {
	for _, f := range readHouse(t).files {
		if lines := bytes.Count(f.text, []byte("\n")); !f.test && lines > houseLongestFile {
			t.Errorf("%s: %d lines, of at most %d: it has more than one subject", f.path, lines, houseLongestFile)
		}
	}
}

// houseAPI is where the exports of each public package are written down. After an intended change,
// go test -run ExportWhat -write . writes them anew, and reviewers look at the diff.
const houseAPI = "docs/api"

var writeAPI = flag.Bool("write", false, "write what packages export to "+houseAPI)

func TestPackagesExportWhatIsWrittenDown(t *testing.T) {
	h := readHouse(t)
	for dir := range houseFloors {
		if inside(dir, "internal") {
			continue
		}
		all := h.exports(t, dir)
		all = append(all, passedOn(all, h.exports(t, houseEngine))...)
		slices.Sort(all)
		got := strings.Join(all, "\n") + "\n"
		name := filepath.Join(filepath.FromSlash(houseAPI), strings.ReplaceAll(dir, "/", "_")+".txt")
		if *writeAPI {
			if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range difference(got, string(want)) {
			t.Errorf("%s: exports, and is not written down in %s: %s", dir, name, line)
		}
		for _, line := range difference(string(want), got) {
			t.Errorf("%s: no longer exports what is written down in %s: %s", dir, name, line)
		}
	}
}

// houseEngine is the package whose declarations the public packages pass on to users as aliases.
const houseEngine = "internal/engine"

// exports lists what the package in dir exports.
func (h house) exports(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, f := range h.files {
		if f.dir() == dir && !f.test {
			lines = append(lines, exported(t, f)...)
		}
	}
	return lines
}

// passedOn returns the engine's lines about the types for which lines has aliases.
func passedOn(lines, engine []string) (more []string) {
	for _, line := range lines {
		_, name, ok := strings.Cut(line, " = "+path.Base(houseEngine)+".")
		if !ok {
			continue
		}
		about := regexp.MustCompile(`^(type|func \(\w+) \*?` + name + `\W`)
		for _, its := range engine {
			if about.MatchString(its) {
				more = append(more, path.Base(houseEngine)+": "+its)
			}
		}
	}
	return more
}

// difference returns the lines of a that are not in b.
func difference(a, b string) (lines []string) {
	for line := range strings.SplitSeq(a, "\n") {
		if !slices.Contains(strings.Split(b, "\n"), line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// exported lists what a file exports: a line for each function, type, field, constant and variable.
func exported(t *testing.T, f houseFile) (lines []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.FileExports(file)
	add := func(prefix string, node any) {
		var text strings.Builder
		if err := format.Node(&text, token.NewFileSet(), node); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, prefix+strings.Join(strings.Fields(text.String()), " "))
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Body = nil; exportedReceiver(d.Recv) {
				add("", d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add("type ", s)
				case *ast.ValueSpec:
					s.Values = nil
					add(d.Tok.String()+" ", s)
				}
			}
		}
	}
	return lines
}

// house is the tree: the Go files of all modules, and the directories of the modules. The root's
// directory is ".".
type house struct {
	files   []houseFile
	modules []string // sorted
}

type houseFile struct {
	path    string // from the root, with slashes
	text    []byte
	test    bool
	syntax  *ast.File
	imports struct {
		ours   []string // directories
		theirs []string // paths, without the standard library
	}
}

var readOnce = sync.OnceValues(func() (house, error) {
	var h house
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor"):
			return fs.SkipDir
		case base == "go.mod":
			h.modules = append(h.modules, path.Dir(filepath.ToSlash(name)))
		case strings.HasSuffix(base, ".go"):
			f, err := readHouseFile(name)
			h.files = append(h.files, f)
			return err
		}
		return nil
	})
	slices.Sort(h.modules)
	return h, err
})

func readHouse(t *testing.T) house {
	t.Helper()
	h, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func readHouseFile(name string) (houseFile, error) {
	f := houseFile{path: filepath.ToSlash(name), test: strings.HasSuffix(name, "_test.go")}
	var err error
	if f.text, err = os.ReadFile(name); err != nil {
		return f, err
	}
	if f.syntax, err = parser.ParseFile(token.NewFileSet(), name, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return f, err
	}
	for _, spec := range f.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, err
		}
		if dir, ours := strings.CutPrefix(imported, houseModule+"/"); ours {
			f.imports.ours = append(f.imports.ours, dir)
		} else if strings.Contains(top(imported), ".") {
			f.imports.theirs = append(f.imports.theirs, imported)
		}
	}
	return f, nil
}

func (f houseFile) dir() string   { return path.Dir(f.path) }
func (f houseFile) inYard() bool  { return inside(f.path, houseYard) }
func (f houseFile) isGuest() bool { return slices.Contains(houseGuests, top(f.path)) }

// moduleOf returns the directory of the module that dir belongs to.
func (h house) moduleOf(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.Contains(h.modules, dir) {
			break
		}
	}
	return dir
}

func inside(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// libraryOf reports whether the imported package is in a module that the library may need, and
// where.
func libraryOf(imported string) (where string, ok bool) {
	for module, where := range houseLibraries {
		if inside(imported, module) {
			return where, true
		}
	}
	return "", false
}

// undocumented lists the exported names of a file that have no comment. A comment above a group of
// constants or variables counts for each of them. Methods called Error and String need none.
func undocumented(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			known := d.Recv != nil && (d.Name.Name == "Error" || d.Name.Name == "String")
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d.Recv) && !known {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, undocumentedSpec(d, spec)...)
			}
		}
	}
	return names
}

func undocumentedSpec(group *ast.GenDecl, spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (group.Doc == nil || group.Lparen.IsValid()) {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && group.Doc == nil {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is no method, or a method of an exported type.
func exportedReceiver(receiver *ast.FieldList) bool {
	if receiver == nil {
		return true
	}
	expr := receiver.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w:\n%s", err, exit.Stderr)
		}
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
