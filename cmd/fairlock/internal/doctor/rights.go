package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/lua"
)

// lookers are the commands that look at plain locks beside fair ones: they open both kinds.
const lookers = "ls, show, web"

// rights tries what the library and this tool ask of the server directly. The scripts' rights are
// tried by practice.
func (p *patient) rights(ctx context.Context) finding {
	user, err := p.rdb.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		user = "a user that may not ask its name"
	}
	channel := p.prefix + ":wake:fairlock-doctor"
	publish, count := "publish", "numsub"
	if p.sharded() {
		publish, count = "spublish", "shardnumsub"
	}
	var needed, missed, also []string
	plainChannel := lua.Channels(lua.Plain(p.prefix))
	version, replicas := "the look at version and eviction policy", "WithReplicas"
	if p.isNode() {
		version = ""
	}
	for _, try := range []struct {
		command []any
		without string // what does not work without the right; "": locks
	}{
		{[]any{publish, channel, ""}, ""},
		{[]any{"pubsub", count, channel}, ""},
		{[]any{"time"}, ""},
		{[]any{"eval", "return redis.call('HGETALL', KEYS[1])", 1, p.prefix + ":lock:{fairlock-doctor}"}, ""},
		{[]any{"info"}, version},
		{[]any{publish, plainChannel + "fairlock-doctor", ""}, lookers},
		{[]any{"scan", 0, "match", p.prefix + ":lock:fairlock-doctor", "count", 1}, "ls"},
		{[]any{"wait", 0, 1}, replicas},
	} {
		if p.isNode() && try.without == replicas || p.kind != locks.Fair && try.without == lookers {
			continue
		}
		switch err := p.rdb.Do(ctx, try.command...).Err(); {
		case !redis.HasErrorPrefix(err, "NOPERM"):
		case try.without == "":
			needed = append(needed, fmt.Sprint(try.command[0]))
		case try.without == lookers:
			missed = append(missed, fmt.Sprintf("%s on %s* (%s)", publish, plainChannel, lookers))
		default:
			missed = append(missed, fmt.Sprintf("%v (%s)", try.command[0], try.without))
			also = append(also, fmt.Sprintf("+%v", try.command[0]))
		}
	}
	if redis.HasErrorPrefix(p.subscribes(ctx, channel), "NOPERM") {
		needed = append(needed, "subscribe")
	}
	switch {
	case len(needed) > 0:
		return finding{Status: wrong, Found: user + " is refused what locks need: " + strings.Join(append(needed, missed...), ", "), Do: p.rule(also...)}
	case len(missed) > 0:
		return finding{Status: note, Found: user + " is refused " + strings.Join(missed, ", "), Do: p.rule(also...)}
	}
	return finding{Status: good, Found: user + " may do all that is needed"}
}

// subscribes tries to listen on a channel.
func (p *patient) subscribes(ctx context.Context, channel string) error {
	sub := p.rdb.Subscribe(ctx)
	defer sub.Close()
	subscribe := sub.Subscribe
	if p.sharded() {
		subscribe = sub.SSubscribe
	}
	if err := subscribe(ctx, channel); err != nil {
		return err
	}
	_, err := sub.Receive(ctx)
	return err
}

// rule returns the ACL rule with what a user of locks needs, and no more than that and also.
func (p *patient) rule(also ...string) string {
	channels, commands := " &"+p.prefix+":freed:*", rights
	switch {
	case p.isNode():
		channels, commands = "", rightsAtNode
	case p.kind == locks.Fair: // ls, show and web look at the plain locks, too
		plain := lua.Plain(p.prefix)
		channels += " &" + plain + ":wake:* &" + plain + ":freed:*"
	}
	told := messages
	if p.sharded() {
		told = shardedMessages
	}
	for _, more := range also {
		if !strings.Contains(commands+" ", more+" ") {
			commands += " " + more
		}
	}
	return fmt.Sprintf("ACL SETUSER NAME on >PASSWORD ~%[1]s:* &%[1]s:wake:*%[2]s %[3]s +ping +client|setname %[4]s", p.prefix, channels, told, commands)
}

// The commands in that rule are those of docs/operations.md.
const (
	messages        = "+publish +subscribe +unsubscribe +pubsub|numsub"
	shardedMessages = "+cluster|slots +command +spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub"

	rights = "+eval +evalsha +time +info +get +set +del +exists +pttl +pexpireat +pexpiretime" +
		" +hget +hset +hmget +hdel +hgetall +lindex +linsert +llen +lpop +lpos +lrange +lrem +lset +rpush" +
		" +zadd +zcard +zcount +zmscore +zrangebyscore +zrem +zremrangebyscore +zscore"
	rightsAtNode = "+eval +evalsha +time +info +get +set +del +exists +pttl +pexpire" +
		" +hset +hsetnx +hmget +zadd +zcard +zrange +zrank +zrem +zscore"
)
