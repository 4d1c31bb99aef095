package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	modules "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// ours are the directories of modules that nobody installs or imports: they are read, or run from a
// checkout.
var ours = []string{"bench", "docs", "examples", "scripts"}

// module is one module of the repository.
type module struct {
	dir  string // from the root, with slashes; "" for the root
	path string
	file *modfile.File
}

// modulesOf finds the modules that are released: the root first, and each after those that it
// requires.
func modulesOf(root string) ([]module, error) {
	var waiting []module
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || slices.Contains(ours, filepath.ToSlash(dir))) {
			return fs.SkipDir
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		file, err := parse(name)
		if err != nil {
			return err
		}
		where := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(dir)), ".")
		waiting = append(waiting, module{where, file.Module.Mod.Path, file})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return inOrder(waiting)
}

func parse(name string) (*modfile.File, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a file of this repository
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// inOrder sorts the modules so that each comes after those that it requires.
func inOrder(waiting []module) (sorted []module, err error) {
	for len(waiting) > 0 {
		ready := slices.IndexFunc(waiting, func(m module) bool {
			return !slices.ContainsFunc(m.file.Require, func(q *modfile.Require) bool {
				return slices.ContainsFunc(waiting, func(w module) bool { return w.path == q.Mod.Path })
			})
		})
		if ready < 0 {
			return nil, fmt.Errorf("%s and others require one another", waiting[0].path)
		}
		sorted = append(sorted, waiting[ready])
		waiting = slices.Delete(waiting, ready, ready+1)
	}
	if len(sorted) == 0 || sorted[0].dir != "" {
		return nil, errors.New("the repository has no module at its root, or that one requires another of them")
	}
	return sorted, nil
}

// require has the module require the released versions of ours, and replace nothing.
func (r *release) require(m module) error {
	name := filepath.Join(r.clone, filepath.FromSlash(m.dir), "go.mod")
	for _, other := range slices.Clone(m.file.Replace) {
		if err := m.file.DropReplace(other.Old.Path, other.Old.Version); err != nil {
			return err
		}
	}
	for _, other := range slices.Clone(m.file.Require) {
		if !strings.HasPrefix(other.Mod.Path+"/", r.modules[0].path+"/") {
			continue
		}
		if !slices.ContainsFunc(r.modules, func(m module) bool { return m.path == other.Mod.Path }) {
			return fmt.Errorf("%s requires %s, which is not released", m.path, other.Mod.Path)
		}
		if err := m.file.AddRequire(other.Mod.Path, r.version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	_, err = runIn(filepath.Dir(name), r.goEnv(), "go", "mod", "tidy")
	return err
}

// pack adds the module, as it is committed, to the proxy.
func (r *release) pack(m module) error {
	to := filepath.Join(r.proxy, filepath.FromSlash(m.path), "@v")
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	at, err := run(r.clone, "git", "show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": r.version, "Time": strings.TrimSpace(at)})
	if err != nil {
		return err
	}
	dir := filepath.Join(r.clone, filepath.FromSlash(m.dir))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // a file of this repository
	if err != nil {
		return err
	}
	packed, err := os.Create(filepath.Join(to, r.version+".zip")) //nolint:gosec // the user says where
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(packed, modules.Version{Path: m.path, Version: r.version}, r.clone, "HEAD", m.dir)
	for name, text := range map[string][]byte{".info": info, ".mod": mod} {
		err = errors.Join(err, os.WriteFile(filepath.Join(to, r.version+name), text, 0o600))
	}
	err = errors.Join(err, packed.Close())
	return errors.Join(err, r.list(to))
}

// list adds the version to those that the proxy has.
func (r *release) list(to string) error {
	f, err := os.OpenFile(filepath.Join(to, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the user says where
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, r.version)
	return errors.Join(err, f.Close())
}

// modCache is a module cache of this run: what is being released must not stay in the user's.
func (r *release) modCache() string { return filepath.Join(r.scratch, "modcache") }

// goEnv is the environment of a Go command that finds the new modules in the proxy. What it needs
// of others it takes from the user's module cache, else from where the user's Go command does.
func (r *release) goEnv() []string { return environment(r.proxy, r.modCache(), r.modules[0].path) }

// environment is the environment of a Go command with a module cache of its own that finds the
// modules below path in the proxy.
func environment(proxy, cache, path string) []string {
	var theirs struct{ GOMODCACHE, GOPROXY, GONOSUMDB string }
	if out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOPROXY", "GONOSUMDB").Output(); err == nil {
		_ = json.Unmarshal(out, &theirs) // what is not known stays empty
	}
	return append(os.Environ(), "GOWORK=off", "GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+theirs.GOMODCACHE+"/cache/download,"+theirs.GOPROXY,
		"GONOPROXY=none", "GONOSUMDB="+strings.Trim(theirs.GONOSUMDB+","+path, ","))
}
