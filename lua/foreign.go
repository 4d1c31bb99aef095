package lua

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
)

// Script is a script of another protocol than this package's. A Server sends it as it does its own:
// by its hash, in the writes that requests share, and never twice.
type Script struct{ script }

// Load returns the script that the file called name holds, as [Whole] makes it.
func Load(files fs.FS, name string) Script { return Script{load(files, name)} }

func load(files fs.FS, name string) script { return newScript(Whole(name, textsOf(files))) }

// textsOf reads files that are part of the binary.
func textsOf(files fs.FS) (read func(name string) string) {
	return func(name string) string {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// Run runs a script of another protocol in one request. The reply is a list; a number is a list of
// length 1.
func (s *Server) Run(ctx context.Context, sc Script, keys []string, args ...any) ([]any, error) {
	return s.RunCommand(ctx, sc, sc.Command(keys, args...))
}

// Command is what RunCommand sends. Several Servers may send one command.
func (sc Script) Command(keys []string, args ...any) []any {
	return append(sc.on(keys, len(args)), args...)
}

// CommandOn is Command for keys that several commands share.
func (sc Script) CommandOn(keys []any, args ...any) []any {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(append(command, "evalsha", sc.sha, len(keys)), keys...)
	return append(command, args...)
}

// RunCommand is Run for a command of that script.
func (s *Server) RunCommand(ctx context.Context, sc Script, command []any) ([]any, error) {
	return s.run(ctx, sc.script, command)
}

// RunText is Run for a script that replies with a text.
func (s *Server) RunText(ctx context.Context, sc Script, keys []string, args ...any) (string, error) {
	reply, err := s.runAny(ctx, sc.script, append(sc.on(keys, len(args)), args...))
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", WrongReply("script", reply)
	}
	return text, nil
}

// ForeignKeys are the keys of a lock of another protocol. Each is at most 16,000 bytes long.
func ForeignKeys(record, queue, waiters, token string) Keys {
	k := Keys{text: record + queue + waiters + token}
	end := 0
	for i, key := range [...]string{record, queue, waiters} {
		end += len(key)
		k.ends[i] = uint16(end) //nolint:gosec // three keys of that length are less than 64 KiB
	}
	return k
}
