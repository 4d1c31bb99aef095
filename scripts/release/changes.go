package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// keep writes down the scripts as they go over the wire, so that the tests of later versions can
// run them beside their own. Scripts that were kept before are not kept again.
func (r *release) keep() error {
	dir := filepath.Join(r.clone, "lua")
	names, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil || len(names) == 0 {
		return err
	}
	scripts := make(map[string]string)
	for _, name := range names {
		scripts[filepath.Base(name)] = lua.Whole(filepath.Base(name), func(name string) string {
			text, e := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))) //nolint:gosec // a file of this repository
			err = errors.Join(err, e)
			return string(text)
		})
	}
	if err != nil {
		return err
	}
	all := filepath.Join(dir, "testdata", "released", strconv.Itoa(lua.Protocol))
	if kept(all, scripts) {
		return nil
	}
	to := filepath.Join(all, r.version)
	err = os.MkdirAll(to, 0o750)
	for name, text := range scripts {
		err = errors.Join(err, os.WriteFile(filepath.Join(to, name), []byte(text), 0o600))
	}
	return err
}

// kept reports whether one of the folders in all has these scripts.
func kept(all string, scripts map[string]string) bool {
	folders, err := os.ReadDir(all)
	return err == nil && slices.ContainsFunc(folders, func(folder fs.DirEntry) bool {
		for name, text := range scripts {
			was, err := os.ReadFile(filepath.Join(all, folder.Name(), name)) //nolint:gosec // as above
			if err != nil || string(was) != text {
				return false
			}
		}
		return true
	})
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
