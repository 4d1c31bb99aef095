package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A stranger's machine has no module of ours, and finds this tree's in a proxy made of files.
func TestAStrangerComesFromTheReadmeToALockAndToTheProgram(t *testing.T) {
	from, began := copied(t), time.Now()
	proxy, before := filepath.Join(t.TempDir(), "proxy"), git(t, from, "rev-parse", "HEAD")
	const version = "v0.99.0"
	must(t, (&release{from: from, version: version, proxy: proxy}).prepare(true))
	timed := func(what string) {
		t.Logf("%5.1f s  %s", time.Since(began).Seconds(), what)
		began = time.Now()
	}
	timed("scripts/release.sh")

	for tag := range strings.FieldsSeq(git(t, from, "tag")) {
		dir := strings.TrimPrefix(strings.TrimSuffix(tag, version)+"go.mod", "/")
		if mod := git(t, from, "show", tag+":"+dir); strings.Contains(mod, "replace") || strings.Contains(mod, "v0.0.0\n") {
			t.Errorf("%s has\n%s", tag, mod)
		}
	}
	if log := git(t, from, "show", version+":CHANGELOG.md"); !strings.Contains(log, unreleased+"\n## [0.99.0] - "+today()+"\n") {
		t.Error("the changelog is not cut")
	}
	if git(t, from, "rev-parse", "HEAD") != before || git(t, from, "status", "--porcelain") != "" {
		t.Error("the repository has changed")
	}

	git(t, from, "merge", "-q", "--ff-only", version) // the next version's tests run these scripts beside their own
	out, err := runIn(from, append(os.Environ(), "GOWORK=off"), "go", "test", "-buildvcs=false", "-v", "-run", "InOrder", "./test/rolling")
	must(t, err)
	if !strings.Contains(out, "--- PASS: TestAReleasedVersionAndTodaysGrantEachOtherALockInOrder/"+version+"/") {
		t.Errorf("the released scripts are not tried:\n%s", out)
	}
	timed("go test ./test/rolling, with its scripts")

	page, err := os.ReadFile(filepath.Join(tree, "README.md"))
	must(t, err)
	dir := t.TempDir()
	cache := filepath.Join(dir, "modcache")
	env := append(environment(proxy, cache, "github.com/fairlock/locks"), "GOSUMDB=off",
		"GOPATH="+filepath.Join(dir, "go"), "GOBIN="+filepath.Join(dir, "bin"), "GONOSUMDB=*")
	shell := func(dir, commands string) string {
		t.Helper()
		out, err := runIn(dir, env, "sh", "-ec", commands)
		must(t, err)
		timed(strings.ReplaceAll(strings.TrimSpace(commands), "\n", "; "))
		return out
	}
	defer func() { _, _ = runIn(dir, env, "go", "clean", "-modcache") }()

	shell(dir, block(t, page, "sh", "mkdir hello"))
	hello := filepath.Join(dir, "hello")
	must(t, os.WriteFile(filepath.Join(hello, "main.go"), []byte(block(t, page, "go", "package main")), 0o600))
	if out := shell(hello, block(t, page, "sh", "go mod tidy")); !strings.Contains(out, "order:42 is ours, with token 1") {
		t.Errorf("the README's program says %q", out)
	}
	shell(dir, block(t, page, "sh", "go install"))
	commit := strings.TrimSpace(git(t, from, "rev-parse", version+"^{commit}"))
	if out := shell(dir, "bin/fairlock version"); !strings.HasPrefix(out, "fairlock "+version+", "+commit[:12]+", protocol 1 (") {
		t.Errorf("the program says %q", out)
	}
	if out := shell(dir, "bin/fairlock demo --help"); !strings.Contains(out, "Usage: fairlock demo") {
		t.Errorf("the program says %q", out)
	}
}

func TestAVersionThatIsTooSmallForTheChangeIsRefused(t *testing.T) {
	from := toy(t, "package toy\n\n// Do does.\nfunc Do(int) {}\n", "- A change.\n")
	must(t, (&release{from: from, version: "v0.1.0"}).prepare(true))
	git(t, from, "merge", "-q", "--ff-only", "v0.1.0")
	change := func(code string) {
		t.Helper()
		log, err := os.ReadFile(filepath.Join(from, "CHANGELOG.md"))
		must(t, err)
		write(t, from, "CHANGELOG.md", strings.Replace(string(log), unreleased, unreleased+"\n- Another change.\n", 1))
		write(t, from, "toy.go", code)
		git(t, from, "commit", "-qam", "a change")
	}
	change("package toy\n\n// Do does.\nfunc Do(string) {}\n")
	refused(t, from, "v0.1.1", "too small")
	refused(t, from, "v0.1.0", "does not come after")
	must(t, (&release{from: from, version: "v0.2.0"}).prepare(false))
	if tags := strings.Fields(git(t, from, "tag")); len(tags) != 1 {
		t.Errorf("a dry run made tags: %q", tags)
	}
}

func TestAReleaseWithoutAChangeOrOfWhatIsNotCommittedIsRefused(t *testing.T) {
	from := toy(t, "package toy\n", "")
	refused(t, from, "v0.1.0", "no change")
	refused(t, from, "0.1.0", "no version")
	refused(t, from, "v2.0.0", "another module path")
	write(t, from, "toy.go", "package toy // changed\n")
	refused(t, from, "v0.1.0", "not committed")
}

func TestHowMuchAVersionHasToGrow(t *testing.T) {
	for _, c := range []struct {
		changes, last, version string
		small                  bool
	}{
		{"", "v1.2.3", "v1.2.4", false},
		{"Compatible changes:", "v0.2.3", "v0.2.4", false},
		{"Compatible changes:", "v1.2.3", "v1.2.4", true},
		{"Compatible changes:", "v1.2.3", "v1.3.0", false},
		{"Incompatible changes:", "v0.2.3", "v0.2.4", true},
		{"Incompatible changes:", "v0.2.3", "v0.3.0", false},
		{"Incompatible changes:", "v1.2.3", "v1.3.0", true},
	} {
		if got := tooSmall(c.version, c.last, needs(c.changes, c.last)); got != c.small {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func refused(t *testing.T, from, version, why string) {
	t.Helper()
	if err := (&release{from: from, version: version}).prepare(false); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, not %q", version, err, why)
	}
}

// tree is the checkout that this test is in.
var tree = filepath.Join("..", "..")

// copied is a repository with the files of this tree, committed or not.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := run(tree, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Skip("this tree is no checkout of git, and only such a tree can be released:", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		if name == "CHANGELOG.md" { // right after a release nothing is unreleased
			text = []byte(strings.Replace(string(text), unreleased, unreleased+"\n- A rehearsal.\n", 1))
		}
		write(t, dir, name, string(text))
	}
	commitAll(t, dir)
	return dir
}

// toy is a repository with a module of one package.
func toy(t *testing.T, code, changes string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/toy\n\ngo 1.26.0\n")
	write(t, dir, "toy.go", code)
	write(t, dir, "CHANGELOG.md", "# Changelog\n\n"+unreleased+"\n"+changes)
	commitAll(t, dir)
	return dir
}

func commitAll(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "init", "-q")
	git(t, dir, "config", "user.name", "somebody")
	git(t, dir, "config", "user.email", "somebody@example.com")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "all")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := run(dir, "git", args...)
	must(t, err)
	return out
}

// block is the code block of the page that begins like this.
func block(t *testing.T, page []byte, language, begins string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(" + regexp.QuoteMeta(begins) + ".*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("the README has no block of %s that begins with %q", language, begins)
	}
	return string(found[1])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
