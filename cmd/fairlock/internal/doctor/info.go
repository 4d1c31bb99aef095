package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// fieldsOf parses the answer to INFO.
func fieldsOf(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// unknown is the finding when the server does not tell.
func (p *patient) unknown() finding {
	if p.denied != nil {
		return finding{Status: note, Found: fmt.Sprintf("not known: INFO: %v", p.denied), Do: "allow +info, or ask who runs the server"}
	}
	return finding{Status: note, Found: "not known: the server does not tell", Do: "ask who runs the server"}
}

// version accepts Redis and Valkey. Other servers that speak their protocol are untested.
func (p *patient) version(context.Context) finding {
	version, ok := p.info["redis_version"]
	valkey := p.info["valkey_version"]
	switch {
	case !ok:
		return p.unknown()
	case valkey != "" && older(valkey, 7, 2):
		return finding{Status: wrong, Found: "Valkey " + valkey, Do: "upgrade to Valkey 7.2 or later"}
	case valkey != "":
		return finding{Status: good, Found: "Valkey " + valkey}
	case older(version, 7, 0):
		return finding{Status: wrong, Found: "Redis " + version, Do: "upgrade to Redis 7.0 or later, or Valkey 7.2 or later"}
	}
	for _, other := range []string{"dragonfly_version", "keydb_version", "garnet_version"} {
		if its := p.info[other]; its != "" {
			return finding{
				Status: note, Found: fmt.Sprintf("%s:%s, which says that it is like Redis %s", other, its, version),
				Do: "Fairlock is tested on Redis and Valkey only: see what practice says",
			}
		}
	}
	return finding{Status: good, Found: "Redis " + version}
}

// older reports whether a version is before major.minor.
func older(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	b, _ := strconv.Atoi(second) // 0 for a version like "8"
	return a < major || a == major && b < minor
}

// sharded reports whether the client knows of a cluster.
func (p *patient) sharded() bool {
	_, ok := p.rdb.(*redis.ClusterClient)
	return ok || p.node != ""
}

// topology checks the server's role among other servers.
func (p *patient) topology(ctx context.Context) finding {
	mode, role := p.info["redis_mode"], p.info["role"]
	switch {
	case mode == "cluster" && p.isNode():
		return finding{Status: wrong, Found: "a node of a cluster", Do: "give the quorum masters that know nothing of each other"}
	case mode == "cluster" && !p.sharded():
		return finding{Status: wrong, Found: "a node of a cluster, which has some of the slots", Do: asCluster}
	case mode == "cluster":
		return p.cluster(ctx)
	case mode == "sentinel":
		return finding{Status: wrong, Found: "this is a Sentinel, which keeps no locks", Do: "name the master that it watches: redis://HOST:PORT?master_name=NAME"}
	case role == "":
		return p.unknown()
	case role != "master":
		master := p.info["master_host"] + ":" + p.info["master_port"]
		return finding{Status: wrong, Found: "a replica of " + master, Do: "connect to its master: locks are written"}
	}
	replicas := p.number("connected_slaves")
	f := finding{Status: good, Found: "a master with " + output.Count(int(replicas), "replica"), Figures: map[string]int64{"replicas": replicas}}
	switch {
	case p.isNode() && replicas == 0:
		f.Found = "a master by itself"
	case p.isNode():
		f.Status, f.Do = note, "let nothing promote them: a node that is made a replica, and a master again, grants twice what it forgot"
		f.Found += ", which add nothing: one that is promoted grants nothing for the longest lease"
	case replicas == 0:
		f.Found = "a master without replicas: what happens to it happens to the locks"
	}
	return f
}

// allSlots is how many slots a cluster has.
const allSlots = 16384

// cluster checks whether each slot of the cluster is some master's, as every master sees it. A
// master that does not say is taken to see all.
func (p *patient) cluster(ctx context.Context) finding {
	served := allSlots
	for _, m := range p.all {
		ranges, err := m.rdb.ClusterSlots(ctx).Result()
		if err != nil {
			continue
		}
		sees := 0
		for _, r := range ranges {
			sees += r.End - r.Start + 1
		}
		served = min(served, sees)
	}
	f := finding{
		Status: good, Found: fmt.Sprintf("a cluster of %s: each lock lives on the master of its slot", output.Count(len(p.all), "master")),
		Figures: map[string]int64{"slots": int64(served)},
	}
	if served < allSlots {
		f.Status = wrong
		f.Found = fmt.Sprintf("a cluster of %s: %d of %d slots are served: locks in the others are refused", output.Count(len(p.all), "master"), served, allSlots)
		f.Do = "look at CLUSTER SLOTS, and give the others to a master: redis-cli --cluster fix HOST:PORT"
	}
	return f
}

// number returns a field of INFO, or 0 if the field is no number.
func (p *patient) number(field string) int64 {
	n, _ := strconv.ParseInt(p.info[field], 10, 64)
	return n
}

// eviction checks what the server does when it is full.
func (p *patient) eviction(context.Context) finding {
	policy, ok := p.info["maxmemory_policy"]
	if !ok {
		return p.unknown()
	}
	most, used := p.number("maxmemory"), p.number("used_memory")
	limit := "no limit"
	if most > 0 {
		limit = fmt.Sprintf("%s of %s used", p.info["used_memory_human"], p.info["maxmemory_human"])
	}
	f := finding{Status: good, Found: fmt.Sprintf("maxmemory-policy %s, %s", policy, limit), Figures: map[string]int64{"used_bytes": used, "most_bytes": most}}
	const tight = 0.9
	switch {
	case policy != "noeviction" && most > 0:
		f.Status, f.Found = wrong, f.Found+": a full server drops locks that somebody holds"
	case policy != "noeviction":
		f.Status, f.Found = note, f.Found+": should it get one, a full server drops locks that somebody holds"
	case most > 0 && float64(used) > tight*float64(most):
		f.Status, f.Found, f.Do = wrong, f.Found+": a full server refuses new locks", "make room, or CONFIG SET maxmemory to more"
		return f
	}
	if f.Status != good {
		f.Do = "CONFIG SET maxmemory-policy noeviction, and CONFIG REWRITE; or give the locks a server of their own"
	}
	return f
}

// persistence checks what is left after a restart.
func (p *patient) persistence(ctx context.Context) finding {
	aof, ok := p.info["aof_enabled"]
	switch {
	case !ok:
		return p.unknown()
	case p.info["loading"] == "1" || p.info["async_loading"] == "1":
		return finding{Status: wrong, Found: "the server is loading its data", Do: "wait: it answers nobody meanwhile"}
	case aof == "1" && p.info["aof_last_write_status"] != "ok":
		return finding{Status: wrong, Found: "the append-only file could not be written", Do: "look at the server's disk and log: it refuses writes, and so locks"}
	case p.info["rdb_last_bgsave_status"] != "ok":
		return finding{
			Status: wrong, Found: "the last snapshot could not be written",
			Do: "look at the server's disk and log: unless stop-writes-on-bgsave-error is off it refuses writes, and so locks",
		}
	case p.isNode():
		return finding{Status: good, Found: "whatever it keeps, after a restart the node grants nothing for the longest lease"}
	case aof == "1":
		return finding{Status: good, Found: "append-only file, appendfsync " + p.setting(ctx, "appendfsync")}
	}
	f := finding{Status: note, Do: "CONFIG SET appendonly yes, and CONFIG REWRITE"}
	switch saves := p.setting(ctx, "save"); saves {
	case "":
		f.Found = "none"
	case notKnown:
		f.Found = "no append-only file (nor may this user see whether there are snapshots)"
	default:
		f.Found = fmt.Sprintf("snapshots (save: %s)", saves)
	}
	f.Found += ": what a restart forgets its holder gets back with its next renewal, unless somebody new asks before"
	return f
}

// notKnown is a directive that this user may not see.
const notKnown = "not known"

// setting returns a directive of the server's configuration, or notKnown.
func (p *patient) setting(ctx context.Context, name string) string {
	values, err := p.rdb.ConfigGet(ctx, name).Result()
	if err != nil {
		return notKnown
	}
	return values[name]
}
