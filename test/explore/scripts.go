package explore

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlock/locks/lua"
)

// change is a mutation of a script: old must be there exactly once, and with replaces it.
type change struct{ file, old, with string }

// make applies the change to the text of its file.
func (c change) make(text string) (string, error) {
	if n := strings.Count(text, c.old); n != 1 {
		return "", fmt.Errorf("%s has %d times what is to be changed: %q", c.file, n, c.old)
	}
	return strings.Replace(text, c.old, c.with, 1), nil
}

// sources reads the scripts from dir and applies the changes. The result maps the hash by which
// package lua calls a script to the text to run instead.
func sources(dir string, changes ...change) (map[string]string, error) {
	text := make(map[string]string)
	for _, pattern := range []string{"*.lua", "parts/*.lua"} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			text[name] = string(raw)
		}
	}
	changed := maps.Clone(text)
	for _, c := range changes {
		made, err := c.make(changed[c.file])
		if err != nil {
			return nil, err
		}
		changed[c.file] = made
	}
	run := make(map[string]string)
	for name := range text {
		whole := func(text map[string]string) string {
			return lua.Whole(name, func(name string) string { return text[name] })
		}
		run[hash(whole(text))] = whole(changed)
	}
	return run, nil
}

func hash(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}
