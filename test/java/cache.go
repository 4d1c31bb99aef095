package java

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// cached returns the directory called name in the user's cache. If it is missing, fill makes it: in
// a directory beside it, which is then renamed. So it is whole or not there, and processes that
// want it at the same time wait for one of them.
func cached(name string, fill func(dir string) error) (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir() // an account without a home
	}
	root = filepath.Join(root, "fairlock", "java")
	dir := filepath.Join(root, name)
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", err
	}
	release, err := exclusive(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	defer release()
	if isDir(dir) { // another process was first
		return dir, nil
	}
	making, err := os.MkdirTemp(root, name+".*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(making) }() // what is left after a failure
	if err := fill(making); err != nil {
		return "", err
	}
	// Without file locks, another may have been first.
	if err := os.Rename(making, dir); err != nil && !isDir(dir) {
		return "", err
	}
	return dir, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// digest names a content: a few digits of the hash of the files and their names.
func digest(files fs.FS, names []string) (string, error) {
	hash := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// unpack writes the files into dir, without their directories.
func unpack(dir string, files fs.FS, names []string) error {
	var errs []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
