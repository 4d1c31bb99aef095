package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/lua"
)

const (
	scanFor   = 3 * time.Second // after this time the finding is about the keys seen so far
	scanCount = 1000
	manyKeys  = 100_000 // that are not fairlock's: ls, top and completion go through them all
)

// typeOf has the type of each kind of key.
var typeOf = map[string]string{"lock": "hash", "queue": "list", "waiters": "zset", "token": "string", "protocol": "string"}

// typeAtNode has the type of each kind of key of a quorum.
var typeAtNode = map[string]string{"lock": "hash", "queue": "zset", "waiters": "zset", "token": "string", "gone": "string", "node": "hash"}

// census is the result of a walk through the keys under the prefix.
type census struct {
	locks, lines int
	odd          []string // keys that Fairlock does not leave like this
	others       int      // keys of applications with a longer prefix
	cut          bool     // the walk took too long
}

// keyspace counts the locks, and looks for keys that are in their way.
func (p *patient) keyspace(ctx context.Context) finding {
	all := int64(0)
	var err error
	for _, server := range p.all {
		n, failed := server.rdb.DBSize(ctx).Result()
		all, err = all+n, errors.Join(err, failed)
	}
	if err != nil {
		return finding{Status: note, Found: fmt.Sprintf("not known: %v", err), Do: "allow +dbsize +scan +type +pttl"}
	}
	seen, err := p.census(ctx)
	if err != nil {
		return finding{Status: note, Found: fmt.Sprintf("%s, of which is not known what they are: %v", output.Count(int(all), "key"), err), Do: "allow +dbsize +scan +type +pttl"}
	}
	f := finding{
		Status: good, Found: fmt.Sprintf("%s, with %s and %s under %q", output.Count(int(all), "key"), output.Count(seen.locks, "lock"), output.Count(seen.lines, "line"), p.prefix),
		Figures: map[string]int64{"keys": all, "locks": int64(seen.locks), "lines": int64(seen.lines), "odd": int64(len(seen.odd)), "others": int64(seen.others)},
	}
	if seen.others > 0 {
		f.Found += fmt.Sprintf("; %s of applications whose prefix begins with this one", output.Count(seen.others, "key"))
	}
	if seen.cut {
		f.Found += fmt.Sprintf(" (of those that were seen within %v)", scanFor)
	}
	switch {
	case len(seen.odd) > 0:
		f.Status = wrong
		f.Found += "; not left so by Fairlock: " + strings.Join(seen.odd[:min(len(seen.odd), 5)], ", ")
		f.Do = "if nobody else needs them, DEL them: locks of these names are refused, or never become free"
	case all > manyKeys:
		f.Status = note
		f.Do = "give the locks a database or a server of their own: ls, top and completion go through all keys"
	}
	return f
}

// census walks through the keys: of a cluster, through those of one master after the other.
func (p *patient) census(ctx context.Context) (seen census, err error) {
	for began, servers := time.Now(), p.all; err == nil && !seen.cut && len(servers) > 0; servers = servers[1:] {
		err = p.walk(ctx, servers[0].rdb, began, &seen)
	}
	return seen, err
}

// walk adds a server's keys to those seen, of a walk that began then. While slots move, a key may be
// on another server by the time that it is looked at.
func (p *patient) walk(ctx context.Context, server redis.UniversalClient, began time.Time, seen *census) (err error) {
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(p.prefix) + ":*"
	for cursor := uint64(0); ; {
		var keys []string
		if keys, cursor, err = server.Scan(ctx, cursor, pattern, scanCount).Result(); err != nil {
			return err
		}
		if err := p.count(ctx, keys, seen); err != nil || cursor == 0 {
			return err
		}
		if time.Since(began) > scanFor {
			seen.cut = true
			return nil
		}
	}
}

// count counts a page of keys.
func (p *patient) count(ctx context.Context, keys []string, seen *census) error {
	if len(keys) == 0 {
		return nil
	}
	types, lives := make([]*redis.StatusCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	pipe := p.rdb.Pipeline()
	for i, key := range keys {
		types[i], lives[i] = pipe.Type(ctx, key), pipe.PTTL(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, key := range keys {
		// The keys of plain locks belong to the same application.
		rest := strings.TrimPrefix(strings.TrimPrefix(key, p.prefix+plainKeys), p.prefix)
		part, _, _ := strings.Cut(strings.TrimPrefix(rest, ":"), ":")
		want, ours := typeOf[part]
		if p.isNode() {
			want, ours = typeAtNode[part]
		}
		switch is := types[i].Val(); {
		case is == "none": // the key has expired since
		case !ours && p.isOthers(key):
			seen.others++
		case !ours:
			seen.odd = append(seen.odd, fmt.Sprintf("%q", key))
		case is != want:
			seen.odd = append(seen.odd, fmt.Sprintf("%q (%s instead of %s)", key, is, want))
		case lives[i].Val() == -1 && part != "node":
			seen.odd = append(seen.odd, fmt.Sprintf("%q (never expires)", key))
		case part == "lock":
			seen.locks++
		case part == "queue":
			seen.lines++
		}
	}
	return nil
}

// isOthers reports whether the key is that of an application whose prefix begins with ours, and a
// colon.
func (p *patient) isOthers(key string) bool {
	for at := len(p.prefix) + 1; ; at++ {
		next := strings.IndexByte(key[at:], ':')
		if next < 0 {
			return false
		}
		at += next
		part, _, _ := strings.Cut(key[at+1:], ":")
		if typeOf[part] != "" || typeAtNode[part] != "" {
			return lua.CheckPrefix(strings.TrimSuffix(key[:at], plainKeys)) == nil
		}
	}
}
