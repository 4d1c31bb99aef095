package doctor

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

const silent = "nothing answers in time: look at the network, a firewall, a server that is stopped or busy, or one that speaks no TLS on this port"

// remedies has advice for errors, by a part of their text.
var remedies = []struct{ says, do string }{
	{"sentinels specified", "look at the Sentinels' addresses, their password (before the @) and the master's name"},
	{"NOAUTH", "name user and password in the URL: redis://USER:PASSWORD@HOST"},
	{"WRONGPASS", "the URL's user or password is wrong; / ? # @ : and % in them are written %2F %3F %23 %40 %3A and %25"},
	{"connection refused", "start the server, or look at the address; a server that listens on loopback only (bind, protected-mode) refuses everybody else"},
	{"no such host", "look at the address: the name is not known"},
	{"no such file", "look at the path: there is no such socket; unixsocket in the server's configuration makes it"},
	{"permission denied", "ask for the socket: unixsocketperm and its group say who may use it"},
	{"certificate signed by unknown authority", "name the authority with --tls-ca FILE"},
	{"certificate is valid for", "use a name that the server's certificate has"},
	{"certificate required", "show a certificate with --tls-cert FILE and --tls-key FILE"},
	{"first record does not look like a TLS handshake", "the server speaks no TLS on this port: redis://, or the port of tls-port"},
	{"EOF", "the server hangs up: it may want TLS (rediss://), or be at its maxclients"},
	{"max number of clients", "raise maxclients, or look with CLIENT LIST at who keeps so many connections"},
	{"i/o timeout", silent},
	{"deadline exceeded", silent},
	{"Sentinel instances", "name the master that the Sentinel watches: redis://HOST:PORT?master_name=NAME"},
	{"LOADING", "wait until the server has loaded its data"},
	{"READONLY", "connect to the master: this is a replica"},
	{"the server is a replica", "connect to the master, or let Sentinels name it: redis://HOST:PORT?master_name=NAME"},
	{"MISCONF", "look at the server's disk and log: it refuses writes because it cannot save"},
	{"NOREPLICAS", "look at the replicas, or at min-replicas-to-write: the server refuses writes because too few are connected"},
	{"OOM ", "make room, or CONFIG SET maxmemory to more: the server is full and refuses new locks"},
	{"WRONGTYPE", "somebody else has keys under the prefix: see keyspace"},
	{"BUSY", "a script keeps the server busy: SCRIPT KILL ends it if it has not written"},
	{"only a single Redis", "use a single Redis, one with replicas and Sentinels, or a Redis Cluster"},
	{"cluster support disabled", "this is no cluster: redis://HOST:PORT"},
	{"CLUSTERDOWN", "look at CLUSTER INFO and CLUSTER NODES: not all slots are served"},
	{"MOVED", asCluster},
	{"unknown command", "this is no Redis 7, or a proxy that does not pass everything on: connect directly"},
}

// asCluster says how to connect to a cluster.
const asCluster = "connect to it as a cluster: redis+cluster://HOST:PORT"

// remedy returns advice for an error, or "" if there is none.
func remedy(err error) string {
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.do
		}
	}
	return ""
}

// remedy returns advice for an error of the library.
func (p *patient) remedy(err error) string {
	var said redis.Error
	if errors.As(err, &said) {
		for _, refusal := range []string{"NOPERM", "The user executing the script"} {
			if strings.Contains(err.Error(), refusal) {
				return p.rule()
			}
		}
	}
	return remedy(err)
}
