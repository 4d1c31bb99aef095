// Command release prepares a release in a clone of this repository, and pushes nothing.
//
//	scripts/release.sh v0.2.0                  say what would be tagged
//	scripts/release.sh -tag v0.2.0             and fetch the tags into this repository
//	scripts/release.sh -proxy DIR v0.2.0       and leave the modules in DIR, a module proxy of files
//
// The root's tag is on a commit for main: the changelog is cut, and the scripts are kept for the
// tests of later versions. The other modules' tags are on commits that only they point to. There
// each module requires the released root and replaces nothing, because go install refuses a module
// that does; main keeps replace and go.work.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	var r release
	flag.StringVar(&r.from, "from", ".", "the repository")
	flag.StringVar(&r.proxy, "proxy", "", "where to leave the modules, as a module proxy of files (default: nowhere)")
	tag := flag.Bool("tag", false, "fetch the tags into the repository")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: release [-tag] [-proxy DIR] VERSION")
		os.Exit(2)
	}
	r.version = flag.Arg(0)
	if err := r.prepare(*tag); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version on its way.
type release struct {
	from    string // the repository; only its tags are ever changed
	version string
	proxy   string

	clone   string // a clone of it, in which everything happens
	scratch string // the clone's parent
	last    string // the version before; "" if there is none
	modules []module
}

func (r *release) prepare(tag bool) (err error) {
	if r.scratch, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.tidy()) }()
	r.clone = filepath.Join(r.scratch, "clone")
	r.proxy = cmp.Or(r.proxy, filepath.Join(r.scratch, "proxy"))
	if r.proxy, err = filepath.Abs(r.proxy); err != nil {
		return err
	}
	for _, step := range []func() error{r.copy, r.precede, r.compare, r.cut, r.keep, r.commit, r.detach} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.tell(tag)
}

// copy makes the clone. What is not committed is not released, so there must not be any of it.
func (r *release) copy() error {
	dirty, err := run(r.from, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return fmt.Errorf("not committed, so it would not be released:\n%s", dirty)
	}
	if _, err = run(r.from, "git", "clone", "-q", ".", r.clone); err != nil {
		return err
	}
	// Who releases is who would commit here; a clone does not inherit that.
	for _, name := range []string{"user.name", "user.email"} {
		who, err := run(r.from, "git", "config", name)
		if err != nil {
			return fmt.Errorf("git config %s says nothing: %w", name, err)
		}
		if _, err := run(r.clone, "git", "config", name, strings.TrimSpace(who)); err != nil {
			return err
		}
	}
	return nil
}

// precede finds the version before.
func (r *release) precede() error {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version || semver.Build(r.version) != "" {
		return fmt.Errorf("%q is no version: it looks like v0.2.0", r.version)
	}
	tags, err := run(r.clone, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	versions := slices.DeleteFunc(strings.Fields(tags), func(v string) bool { return !semver.IsValid(v) })
	if len(versions) > 0 {
		r.last = slices.MaxFunc(versions, semver.Compare)
	}
	if semver.Compare(r.version, r.last) <= 0 {
		return fmt.Errorf("%s does not come after %s", r.version, r.last)
	}
	if semver.Major(r.version) != "v0" && semver.Major(r.version) != "v1" {
		return fmt.Errorf("%s needs another module path, ending in /%s", r.version, semver.Major(r.version))
	}
	return nil
}

// commit commits what main gets, and tags it as the root's.
func (r *release) commit() error {
	return r.record("release "+r.version, r.version)
}

// detach gives every other module its own go.mod, on a commit beside main, and packs all modules.
func (r *release) detach() error {
	commit, err := run(r.clone, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if r.modules, err = modulesOf(r.clone); err != nil {
		return err
	}
	if err := r.pack(r.modules[0]); err != nil {
		return err
	}
	if err := r.stamp(strings.TrimSpace(commit)); err != nil {
		return err
	}
	for _, m := range r.modules[1:] {
		if err := r.require(m); err != nil {
			return err
		}
		tag := m.dir + "/" + r.version
		if err := r.record("release "+tag, tag); err != nil {
			return err
		}
		if err := r.pack(m); err != nil {
			return err
		}
	}
	return nil
}

// record commits everything and tags it.
func (r *release) record(subject, tag string) error {
	if _, err := run(r.clone, "git", "add", "-A"); err != nil {
		return err
	}
	if _, err := run(r.clone, "git", "commit", "-q", "--allow-empty", "-m", subject); err != nil {
		return err
	}
	_, err := run(r.clone, "git", "tag", "-a", "-m", subject, tag)
	return err
}

// tell prints what there is to push.
func (r *release) tell(tag bool) error {
	tags := []string{r.version}
	for _, m := range r.modules[1:] {
		tags = append(tags, m.dir+"/"+r.version)
	}
	what := "Would tag"
	if tag {
		what = "Tagged"
		for _, t := range tags {
			if _, err := run(r.from, "git", "fetch", "-q", "--no-tags", r.clone, "refs/tags/"+t+":refs/tags/"+t); err != nil {
				return err
			}
		}
	}
	changes, err := run(r.clone, "git", "show", "--stat", "--format=", r.version+"^{commit}")
	if err != nil {
		return err
	}
	fmt.Printf("%s %s, on a commit for main:\n%s", what, r.version, changes)
	for _, t := range tags[1:] {
		fmt.Printf("%s %s\n", what, t)
	}
	if tag {
		fmt.Printf("To publish:\n  git merge --ff-only %s && git push origin HEAD %s\n", r.version, strings.Join(tags, " "))
	}
	return nil
}

// tidy removes what is in the temporary directory: the module cache there is read-only.
func (r *release) tidy() error {
	if _, err := os.Stat(r.modCache()); err == nil {
		cmd := exec.Command("go", "clean", "-modcache")
		cmd.Env = r.goEnv()
		_ = cmd.Run() // RemoveAll reports what is left
	}
	return os.RemoveAll(r.scratch)
}

// today is the date in the changelog.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

// run runs a program and returns what it prints. The error has what it says.
func run(dir, name string, args ...string) (string, error) { return runIn(dir, nil, name, args...) }

func runIn(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}
