package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fairlock/locks/lua"
)

const unreleased = "## [Unreleased]\n"

// cut has the changelog's unreleased changes become those of the version.
func (r *release) cut() error {
	name := filepath.Join(r.clone, "CHANGELOG.md")
	text, err := os.ReadFile(name) //nolint:gosec // a file of this repository
	if err != nil {
		return err
	}
	after, err := cutChangelog(string(text), r.version, today())
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(after), 0o600)
}

func cutChangelog(text, version, date string) (string, error) {
	before, after, ok := strings.Cut(text, unreleased)
	if !ok {
		return "", errors.New("CHANGELOG.md has no section [Unreleased]")
	}
	changes, _, _ := strings.Cut(after, "\n## [")
	if !strings.Contains(changes, "\n- ") {
		return "", errors.New("CHANGELOG.md says of no change that is unreleased")
	}
	return before + unreleased + "\n## [" + strings.TrimPrefix(version, "v") + "] - " + date + "\n" + after, nil
}

// keep writes down the scripts as they go over the wire, so that the tests of later versions can run
// them beside their own.
func (r *release) keep() error {
	dir := filepath.Join(r.clone, "lua")
	scripts, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil || len(scripts) == 0 {
		return err
	}
	to := filepath.Join(dir, "testdata", "released", strconv.Itoa(lua.Protocol), r.version)
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	for _, script := range scripts {
		whole := lua.Whole(filepath.Base(script), func(name string) string {
			var text []byte
			if err == nil {
				text, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))) //nolint:gosec // as above
			}
			return string(text)
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(script)), []byte(whole), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// stamp tells the program which commit it is made of.
func (r *release) stamp(commit string) error {
	name := filepath.Join(r.clone, "cmd", "fairlock", "version.go")
	text, err := os.ReadFile(name) //nolint:gosec // a file of this repository
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	const empty = `const commit = ""`
	if err == nil && !strings.Contains(string(text), empty) {
		err = fmt.Errorf("%s has no %s", name, empty)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(strings.Replace(string(text), empty, `const commit = "`+commit+`"`, 1)), 0o600)
}
