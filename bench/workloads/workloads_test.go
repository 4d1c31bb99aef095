package workloads

import (
	"os"
	"testing"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
	"github.com/fairlock/locks/test/java"
)

// aServer returns a server of the kind, for one test. If its program is not installed, the test is
// skipped; but it fails if FAIRLOCK_REQUIRE_REDIS promises a redis-server.
func aServer(t *testing.T, kind string) host.Server {
	t.Helper()
	program := host.RedisProgram
	if kind == peers.Etcd {
		program = host.EtcdProgram
	}
	if _, err := program(); err != nil {
		if kind == peers.Redis && os.Getenv("FAIRLOCK_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip("NOT SHOWN: ", err)
	}
	server, err := host.Serve(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

// theJar is the peer that works in a process of its own.
const theJar = "Redisson 4.7"

// small has the peers that show that a workload works: ours, and one that works in another way.
// Every peer has tests of its own.
var small = map[string][]string{
	"pair":     {ours, "2 no-op EVALSHAs"},
	"keys":     {ours, "fairlock +auto"},
	"handover": {ours, batonFloor, redissons, theJar},
	"gap":      {ours, batonFloor},
	"crash":    {ours, "redislock", theJar},
	"leases":   {ours, redissons, theJar},
	"waiters":  {ours, "rueidislock"},
	"seckill":  {ours, "GET"},
	"burst":    {ours, redissons},
}

func TestEveryWorkloadFillsItsTable(t *testing.T) {
	for _, w := range All() {
		for _, name := range small[w.Name] {
			t.Run(w.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				peer, ok := peers.Find(name)
				if !ok {
					t.Fatal("there is no such peer")
				}
				if peer.Missing != nil {
					java.Require(t)
				}
				server := aServer(t, peer.Server)
				c := w.Cases(Tiny)[0]
				sample, err := w.Measure(t.Context(), &Bench{Peer: peer, Case: c, Scale: Tiny, Server: server, Key: "key"})
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := sample[w.Plot]; !ok {
					t.Errorf("nothing to draw in %v", sample)
				}
			})
		}
	}
}

func TestAGoalThatWasNotMeasuredIsNotMet(t *testing.T) {
	for _, w := range All() {
		for _, g := range w.Goals(func(string, string, string) (float64, bool) { return 0, false }) {
			if g.Known || g.Met {
				t.Errorf("%s: %q is met by nothing", w.Name, g.Text)
			}
		}
	}
}

func TestTheGoalsAreAboutCasesThatAreMeasured(t *testing.T) {
	for _, w := range All() {
		labels := map[string]bool{anyCase: true}
		for _, c := range w.Cases(Full) {
			labels[c.Label] = true
		}
		columns := map[string]bool{}
		for _, c := range w.Columns {
			columns[c.Key] = true
		}
		w.Goals(func(peer, label, key string) (float64, bool) {
			p, ok := peers.Find(peer)
			if _, does := p.Does(w.Name, 1); !ok || !does || !labels[label] || !columns[key] {
				t.Errorf("%s: a goal asks for %s of %s in %q", w.Name, key, peer, label)
			}
			return 1, true
		})
	}
}
