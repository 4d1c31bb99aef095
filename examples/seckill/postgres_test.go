package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startPostgres returns the URL of a PostgreSQL: the one in POSTGRES_URL, or one that it starts for
// this test.
func startPostgres(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("POSTGRES_URL"); url != "" {
		return url
	}
	dir, err := os.MkdirTemp("", "pg-") //nolint:usetesting // for a socket, whose path must be short, and for another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	command := []string{"sh", "-c", postgresScript, "sh", dir, findPostgres(t)}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		command = append([]string{"runuser", "-u", "postgres", "--"}, command...)
		if out, err := exec.Command("chown", "postgres", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var log bytes.Buffer
	server := exec.Command(command[0], command[1:]...)
	server.Stdout, server.Stderr = &log, &log
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait() // the test ends the server, and Wait returns an error for that
		close(ended)
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-ended
	})
	url := "postgres://shop@/postgres?host=" + dir
	for {
		db, err := open(t.Context(), url, "")
		if err == nil {
			db.Close()
			return url
		}
		select {
		case <-ended:
			t.Fatalf("PostgreSQL has ended:\n%s", &log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// postgresScript runs a server until standard input ends. That ends with the test, however the test
// ends.
const postgresScript = `
set -e
cd "$1"
"$2/initdb" --pgdata=data --username=shop --auth=trust --no-sync >/dev/null
"$2/postgres" -D data -c listen_addresses= -c unix_socket_directories="$1" -c fsync=off &
trap 'kill -INT $! && wait' EXIT
cat
`

// findPostgres returns the directory of the programs. Debian keeps them off the PATH.
func findPostgres(t *testing.T) string {
	t.Helper()
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if onPath, err := exec.LookPath("postgres"); err == nil {
		places = append(places, onPath)
	}
	for _, program := range places {
		if dir := filepath.Dir(program); exec.Command(filepath.Join(dir, "initdb"), "--version").Run() == nil {
			return dir
		}
	}
	t.Skip("NOT SHOWN: without a PostgreSQL this test says nothing about it. Give the URL of one in POSTGRES_URL, or install Debian's postgresql")
	return ""
}
