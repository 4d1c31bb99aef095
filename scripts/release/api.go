package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// apidiff compares what modules export.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e"

// compare refuses a version that is too small for what has changed since the last one. Before v1 a
// change that breaks users needs another minor version, and after it another major version;
// additions need another minor version from v1 on.
func (r *release) compare() error {
	if r.last == "" {
		fmt.Printf("%s is the first version: there is no API to compare with.\n", r.version)
		return nil
	}
	before := filepath.Join(r.scratch, "before")
	if _, err := run(r.clone, "git", "worktree", "add", "-q", "--detach", before, r.last); err != nil {
		return err
	}
	found, err := modulesOf(r.clone)
	if err != nil {
		return err
	}
	for _, m := range found {
		if m.dir != "" && strings.HasPrefix(m.dir, "cmd/") { // a program exports nothing
			continue
		}
		old := filepath.Join(before, filepath.FromSlash(m.dir))
		if _, err := os.Stat(filepath.Join(old, "go.mod")); err != nil {
			fmt.Printf("%s: new\n", m.path)
			continue
		}
		if err := r.compareModule(m, old); err != nil {
			return err
		}
	}
	_, err = run(r.clone, "git", "worktree", "remove", "--force", before)
	return err
}

func (r *release) compareModule(m module, old string) error {
	export := func(dir, name string) (string, error) {
		file := filepath.Join(r.scratch, name)
		_, err := runIn(dir, append(os.Environ(), "GOWORK=off"), "go", "run", apidiff, "-m", "-w", file, m.path)
		return file, err
	}
	was, err := export(old, "was")
	if err != nil {
		return err
	}
	is, err := export(filepath.Join(r.clone, filepath.FromSlash(m.dir)), "is")
	if err != nil {
		return err
	}
	changes, err := run(r.scratch, "go", "run", apidiff, "-m", was, is)
	if err != nil {
		return err
	}
	if strings.TrimSpace(changes) != "" {
		fmt.Printf("%s since %s:\n%s", m.path, r.last, changes)
	}
	if need := needs(changes, r.last); tooSmall(r.version, r.last, need) {
		return fmt.Errorf("%s is too small after %s for what has changed in %s: it needs another %s version\n%s", r.version, r.last, m.path, need, changes)
	}
	return nil
}

// needs says which part of the version has to grow for these changes.
func needs(changes, last string) string {
	switch stable := semver.Major(last) != "v0"; {
	case strings.Contains(changes, "Incompatible changes:"):
		if stable {
			return "major"
		}
		return "minor"
	case strings.Contains(changes, "Compatible changes:") && stable:
		return "minor"
	}
	return "patch"
}

// tooSmall reports whether version has not grown where it had to.
func tooSmall(version, last, need string) bool {
	switch need {
	case "major":
		return semver.Major(version) == semver.Major(last)
	case "minor":
		return semver.MajorMinor(version) == semver.MajorMinor(last)
	}
	return false
}
