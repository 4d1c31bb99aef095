package java

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed pom.xml
var pom embed.FS

// Classpath returns the jars of a version of Redisson and of all that it needs. The first call on a
// machine has Maven fetch them.
func Classpath(version string) (string, error) {
	tools, err := Find()
	if err != nil {
		return "", err
	}
	hash, err := digest(pom, []string{"pom.xml"})
	if err != nil {
		return "", err
	}
	dir, err := cached("redisson-"+version+"-"+hash, func(dir string) error {
		scratch, err := os.MkdirTemp("", "fairlock-maven-*")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		if err := unpack(scratch, pom, []string{"pom.xml"}); err != nil {
			return err
		}
		return run(exec.Command(tools.Maven, "-q", "-B", "-f", filepath.Join(scratch, "pom.xml"),
			"-Dredisson.version="+version, "-DoutputDirectory="+dir, "dependency:copy-dependencies"))
	})
	if err != nil {
		return "", fmt.Errorf("fetch the jars of Redisson %s: %w", version, err)
	}
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar")) // sorted: one order on all machines
	if err != nil || len(jars) == 0 {
		return "", errors.Join(err, fmt.Errorf("no jars in %s: delete it", dir))
	}
	return strings.Join(jars, string(filepath.ListSeparator)), nil
}

// Compile compiles all .java files in sources, which have no package, against the jars of a
// version. It returns the class path to run them with. The first call with a text compiles it; all
// later ones find it in the cache.
func Compile(version string, sources fs.FS) (string, error) {
	jars, err := Classpath(version)
	if err != nil {
		return "", err
	}
	tools, err := Find()
	if err != nil {
		return "", err
	}
	names, err := javaFiles(sources)
	if err != nil {
		return "", err
	}
	hash, err := digest(sources, names)
	if err != nil {
		return "", err
	}
	dir, err := cached("classes-"+version+"-"+hash, func(dir string) error {
		if err := unpack(dir, sources, names); err != nil {
			return err
		}
		args := []string{"--release", "11", "-proc:none", "-encoding", "UTF-8", "-cp", jars, "-d", dir}
		for _, name := range names {
			args = append(args, filepath.Join(dir, filepath.Base(name)))
		}
		return run(exec.Command(tools.Javac, args...))
	})
	if err != nil {
		return "", fmt.Errorf("compile for Redisson %s: %w", version, err)
	}
	return dir + string(filepath.ListSeparator) + jars, nil
}

func javaFiles(sources fs.FS) (names []string, err error) {
	err = fs.WalkDir(sources, ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".java") {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// run runs a command that says something only if it fails.
func run(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, said.Bytes())
	}
	return nil
}
